"""The question tree of a model as nested lists: readable aloud, on paper and on a phone."""

from pursuit.evaluation.tree import TreeBranch, TreeNode, TreeQuestion
from pursuit.inference.chain import bits_text, percent
from pursuit.inference.pursuer import label_text
from pursuit.queries import QuerySet
from pursuit.report.facts import count
from pursuit.report.facts import share as share_text
from pursuit.report.html import Markup, bar, details, element, joined
from pursuit.report.svg import patch_place

OPEN_LEVELS = 2
"""Levels that are unfolded from the start."""


def tree_list(root: TreeNode, query_set: QuerySet) -> Markup:
    """The tree, whose first levels are unfolded."""
    start = element("li", _node("Before the first question", root, root.n_rows), _questions(root, root, query_set, 1))
    return element("ul", start, class_="tree")


def _questions(node: TreeNode, root: TreeNode, query_set: QuerySet, level: int) -> Markup:
    parts: list[object] = []
    for question in node.questions:
        branches = element("ul", *(_branch(branch, root, query_set, level) for branch in question.branches))
        parts += [_asked(question, node, query_set), branches]
    if node.n_other:
        parts.append(element("p", f"{count(node.n_other, 'row')} are asked other questions.", class_="small lead"))
    return joined(parts)


def _asked(question: TreeQuestion, node: TreeNode, query_set: QuerySet) -> Markup:
    remarks = [] if question.mean_bits is None else [f"{bits_text(question.mean_bits)} expected"]
    if question.n_rows < node.n_rows - node.n_stopped:
        remarks.append(count(question.n_rows, "row"))
    picture = [] if query_set.patches is None else [patch_place(query_set.patches, question.query)]
    words = element("span", question.text, " ", element("small", ", ".join(remarks)))
    return element("div", *picture, words, class_="ask")


def _branch(branch: TreeBranch, root: TreeNode, query_set: QuerySet, level: int) -> Markup:
    node = _node(element("span", branch.answer, class_="chip"), branch.node, root.n_rows)
    below = _questions(branch.node, root, query_set, level + 1)
    if not below:
        return element("li", node)
    if level < OPEN_LEVELS:
        return element("li", node, below)
    n_below = sum(len(one.branches) for one in branch.node.questions)
    return element("li", node, details(f"What comes next ({count(n_below, 'answer')})", below))


def _node(name: object, node: TreeNode, n_all: int) -> Markup:
    """What is believed here, of how many rows, and how many of them are asked nothing more."""
    if node.leading:
        first, *others = node.leading
        shown = [f"{label_text(one.label)} {percent(one.probability)}" for one in others if one.probability >= 0.005]
        belief: list[object] = [" ", element("b", label_text(first.label)), f" {percent(first.probability)}"]
        rest = f"then {', '.join(shown)}" if shown else ""
    else:
        belief, rest = [" ", element("b", node.number)], ""
    share = node.n_rows / n_all
    stopped = f"{'all' if node.n_stopped == node.n_rows else f'{node.n_stopped:,}'} stop here" if node.n_stopped else ""
    right = f"right here in {share_text(node.n_right / node.n_rows)}" if node.leading else ""
    remark = "; ".join(part for part in (rest, right, stopped) if part)
    return element(
        "div",
        element("span", name, *belief),
        element("em", f"{count(node.n_rows, 'row')} ({share:.0%})"),
        bar(share),
        *([element("small", remark)] if remark else []),
        class_="node",
    )
