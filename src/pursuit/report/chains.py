"""A report on predictions: what was asked and answered, what was believed after each answer, and what speaks for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pursuit.estimators import PursuitEstimator
from pursuit.evaluation import Evaluation, RegressionEvaluation
from pursuit.files import write_whole
from pursuit.inference.chain import CHAINS_SCHEMA, Chain, Chains, ChainStep, bits_text, percent
from pursuit.inference.pursuer import label_text
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.unusual import Unusual, unusual_of
from pursuit.queries.query_set import PatchGrid
from pursuit.report.facts import ModelFacts, count, quality, trust
from pursuit.report.html import Markup, bars, card, element, paragraph, range_bar
from pursuit.report.page import page
from pursuit.report.svg import figure, patch_place, revealed_image
from pursuit.sessions.reasons import WhatIf, query_and_rest, reasons_of, what_if
from pursuit.sessions.session import Session

N_BELIEVED, N_IN_CHAIN, N_WHAT_IF = 6, 3, 3
LEAST_SHOWN = 0.0005
"""Labels less probable than this are only counted."""
YES, NO = {"yes", "true", "present"}, {"no", "false", "absent"}


@dataclass(frozen=True)
class ExplainedRow:
    """One prediction, and all that explains it."""

    title: str
    """Which row it is, as in "Line 17"."""
    label: str | None
    """The true label or number, where it is known."""
    chain: Chain
    what_if: tuple[WhatIf, ...]
    answers: Tensor  # (*answer_shape)
    remark: str = ""
    """What else a reader should know of it."""
    unusual: Unusual | None = None
    """What is unlike the answers that the model learnt from."""

    @classmethod
    def of_session(cls, session: Session, title: str = "This session") -> "ExplainedRow":
        """What a person was asked and answered so far."""
        own = session.history.x[0]
        return cls(title, None, session.chain, session.what_if(), own, unusual=session.unusual)

    def remarks(self) -> list[str]:
        """What the chain does not say by itself: which single answer, were it wrong, would change the prediction, and
        what is unusual in the answers."""
        changes = [
            f"  Were “{one.instead}” the answer to “{one.text}”, the prediction would be {one.label}."
            for one in self.what_if[:N_WHAT_IF]
        ]
        return changes if self.unusual is None else [*changes, f"  {self.unusual.sentence}"]

    def to_dict(self) -> dict[str, Any]:
        """The prediction as JSON values: a chain of docs/schemas/chains-1.json."""
        return {
            "title": self.title,
            "label": self.label,
            **self.chain.to_dict(),
            "reasons": reasons_of(self.chain).to_dict(),
            "what_if": [self._changed(one) for one in self.what_if],
            "unusual": self.unusual and self.unusual.to_dict(),
        }

    def _changed(self, one: WhatIf) -> dict[str, Any]:
        described = query_and_rest(one)
        labels = {label_text(label): label for label in self.chain.classes}
        return {**described, "prediction": labels[described.pop("label")]}


@dataclass(frozen=True)
class ChainsReport:
    """Why a model predicts what it predicts, for some rows; as a page or as JSON."""

    facts: ModelFacts
    rows: tuple[ExplainedRow, ...]
    evaluation: Evaluation | RegressionEvaluation | None = None
    """How good the model is, where that was measured."""
    patches: PatchGrid | None = None

    @classmethod
    def of(
        cls,
        estimator: PursuitEstimator,
        X: Any,
        titles: Sequence[str] | None = None,
        labels: Sequence[str | None] | None = None,
        *,
        stop: StoppingRule | str | None = None,
        initially_known: Any = None,
        evaluation: Evaluation | RegressionEvaluation | None = None,
        name: str = "",
    ) -> "ChainsReport":
        """The reasons for the predictions of the rows X, each with a title and, perhaps, its true label."""
        chains = estimator.explain(X, stop, initially_known=initially_known)
        x = estimator.read_answers(X).x
        titles = [f"Row {row}" for row in range(len(chains))] if titles is None else titles
        labels = [None] * len(chains) if labels is None else labels
        rows = [
            ExplainedRow(
                title,
                label,
                chain,
                what_if(estimator.model_, own, chain),
                own,
                unusual=unusual_of(estimator.model_, own, chain),
            )
            for title, label, chain, own in zip(titles, labels, chains, x, strict=True)
        ]
        facts = ModelFacts.of(estimator, name, stop)
        return cls(facts, tuple(rows), evaluation, estimator.model_.query_set.patches)

    @property
    def chains(self) -> Chains:
        return Chains([row.chain for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """The chains as JSON values, as docs/schemas/chains-1.json describes them."""
        return chains_to_dict(self.facts.name, [row.to_dict() for row in self.rows])

    def html(self) -> str:
        """The report as a page that is whole by itself."""
        contents = [(f"row-{i}", row.title) for i, row in enumerate(self.rows)] if len(self.rows) > 1 else []
        articles = [self._article(row, f"row-{i}") for i, row in enumerate(self.rows)]
        what = self.rows[0].title if len(self.rows) == 1 else count(len(self.rows), "prediction")
        return page(self.facts.name, f"why this prediction: {what}", [*articles, self._about()], contents)

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        write_whole(Path(path), self.html().encode())

    def _article(self, row: ExplainedRow, anchor: str) -> Markup:
        chain = row.chain
        result = element(
            "section",
            paragraph(f"{row.title}. {_after(chain)} the model says", class_="lead"),
            element("h1", _predicted(chain)),
            paragraph(_how_sure(chain), class_="lead"),
            *_promised(chain),
            *self._truth(row),
            *([] if row.unusual is None else [paragraph(row.unusual.sentence, class_="promise")]),
            *self._trust(row),
            *_reasons(chain),
            *_changes(row.what_if),
        )
        side = [card("What is believed at the end", _belief(chain, chain.posterior, N_BELIEVED))]
        if self.patches is not None:
            asked = [step.query for step in chain.steps if step.answer is not None]
            picture = revealed_image(self.patches, row.answers, asked, f"The image, as far as it was seen: {row.title}")
            side.append(card("What was seen", figure(picture, "Only the patches that were asked for.")))
        top = element("div", result, element("div", *side, class_="side"), class_="two")
        return element("article", top, self._chain(chain), id_=anchor, aria_label=row.title)

    def _truth(self, row: ExplainedRow) -> list[Markup]:
        parts = [] if not row.remark else [paragraph(row.remark, class_="small lead")]
        if row.label is None:
            return parts
        if row.chain.target is not None:
            return [paragraph("The true number is ", element("b", row.label), "."), *parts]
        verdict = "That is right" if str(row.chain.prediction) == row.label else "That is wrong"
        return [paragraph(f"{verdict}: the true label is ", element("b", row.label), "."), *parts]

    def _trust(self, row: ExplainedRow) -> list[Markup]:
        words = "" if row.chain.target is not None else trust(self.evaluation, float(row.chain.posterior.max()))
        return [paragraph(element("b", "How far to trust this: "), words, class_="promise")] if words else []

    def _chain(self, chain: Chain) -> Markup:
        items = [_step(chain, step, "+", "known beforehand", None, self.patches) for step in chain.initially_known]
        start = (
            "Before the first question" if not chain.initially_known else "Before the first question, with that known"
        )
        belief = element("div", _belief(chain, chain.prior, N_IN_CHAIN), class_="belief")
        words = element("div", element("span", start, class_="question"), element("small", "what is most frequent"))
        items.append(element("li", element("span", class_="number"), words, belief))
        n_asked = 0
        for step in chain.steps:
            n_asked += not step.volunteered
            number = "+" if step.volunteered else str(n_asked)
            items.append(_step(chain, step, number, _told(step), step.posterior, self.patches))
        title = "What was asked, what was answered, and what was believed after each answer"
        note = "One bit is what the answer to a perfect yes-or-no question tells: it halves what is open."
        return card(title, element("ol", *items, class_="chain"), paragraph(note, class_="small lead"))

    def _about(self) -> Markup:
        measured = [] if self.evaluation is None else quality(self.evaluation, self.facts.name)
        unknown = "How good it is was not measured here, because no rows with a known result were given."
        return card(
            "About the model",
            *(paragraph(line) for line in self.facts.sentences()),
            element("h3", "How good it is"),
            *(paragraph(line) for line in measured or [unknown]),
            id_="model",
        )


def chains_to_dict(name: str, chains: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Chains of a task, each as JSON values, as docs/schemas/chains-1.json describes them together."""
    return {"schema": CHAINS_SCHEMA, "task": name, "chains": list(chains)}


def _after(chain: Chain) -> str:
    return f"After {count(chain.n_asked, 'question')}" if chain.n_asked else "Without asking anything"


def _predicted(chain: Chain) -> str:
    return label_text(chain.prediction) if chain.target is None else f"about {chain.target.text(chain.prediction)}"


def _promised(chain: Chain) -> list[Markup]:
    """What the stopping rule says of the result."""
    not_sure = "The model is not sure enough to decide this: it is left to a person."
    parts = [paragraph(element("b", not_sure))] if chain.decided is False else []
    if chain.label_set is not None:
        remain = ", ".join(label_text(label) for label in chain.label_set)
        parts.append(paragraph("What remains possible: ", element("b", remain), "."))
    return parts


def _how_sure(chain: Chain) -> str:
    if chain.target is not None:
        low, high = (chain.target.text(edge) for edge in chain.target.interval(chain.posterior[None])[0].tolist())
        return f"90% sure that it lies between {low} and {high}."
    best = chain.posterior.topk(min(2, len(chain.posterior)))
    sure = f"{percent(best.values[0])} sure"
    if len(best.values) < 2:
        return f"{sure}."
    return f"{sure}; {label_text(chain.classes[int(best.indices[1])])} would be next with {percent(best.values[1])}."


def _belief(chain: Chain, posterior: Tensor, most: int) -> Markup:
    """A belief (C,) as bars, the most probable first, or as the range of a number."""
    if chain.target is not None:
        whole = torch.stack([chain.prior, *(step.posterior for step in chain.steps)])
        ends = chain.target.interval(whole)
        lowest, highest = float(ends.min()), float(ends.max())
        low, high = chain.target.interval(posterior[None])[0].tolist()
        span = highest - lowest or 1.0
        words = element("li", element("span", chain.target.belief(posterior)))
        drawn = range_bar((low - lowest) / span, (high - lowest) / span)
        return element("ul", words, element("li", drawn), class_="bars")
    best = posterior.topk(min(most, len(posterior)))
    shown = [
        (label_text(chain.classes[i]), percent(p), float(p))
        for n, (p, i) in enumerate(zip(best.values, best.indices.tolist(), strict=True))
        if n == 0 or p >= LEAST_SHOWN
    ]
    n_others = len(posterior) - len(shown)
    if n_others:
        rest = max(0.0, 1 - float(best.values[: len(shown)].sum()))
        shown.append((count(n_others, "other"), percent(rest), rest))
    return bars(shown)


def _reasons(chain: Chain) -> list[Markup]:
    """What speaks for the prediction and what against it, the strongest first."""
    found = reasons_of(chain)
    weighty = [*found.reasons_for, *found.reasons_against]
    if not weighty:
        return []
    most = max(abs(one.weight) for one in weighty)
    titles = ("What speaks for it", "What speaks against it")
    if found.is_number:
        titles = ("What raised the number", "What lowered it")
    columns = []
    for title, class_, own in zip(titles, ("for", "against"), (found.reasons_for, found.reasons_against), strict=True):
        rows = [
            (
                element("span", one.text, " ", element("b", one.answer)),
                " → ".join(found.figures(one)),
                abs(one.weight) / most,
            )
            for one in own
        ]
        content = bars(rows) if rows else paragraph("None of the answers.", class_="small lead")
        columns.append(element("div", element("h3", title), content, class_=f"{class_} plain"))
    return [element("div", *columns, class_="half")]


def _changes(found: Sequence[WhatIf]) -> list[Markup]:
    if not found:
        return []
    lines = [
        element(
            "li",
            f"Had the answer to “{one.text}” been “{one.instead}” instead of “{one.answer}”, it would have been ",
            element("b", one.label),
            f" ({percent(one.probability)}).",
        )
        for one in found[:N_WHAT_IF]
    ]
    return [element("h3", "What would have changed it", style="margin-top:22px"), element("ul", *lines)]


def _told(step: ChainStep) -> str:
    if step.answer is None:
        return "left open, so nothing changes"
    expected = "" if step.bits is None else f"{bits_text(step.bits)} expected, "
    if step.gained < 0:
        return f"{expected}but a surprise: {bits_text(-step.gained)} more are open than before"
    return f"{expected}{bits_text(step.gained)} gained"


def _step(
    chain: Chain, step: ChainStep, number: str, told: str, posterior: Tensor | None, patches: PatchGrid | None
) -> Markup:
    answer = step.answer or "no answer"
    kind = "none" if step.answer is None else "yes" if answer.lower() in YES else "no" if answer.lower() in NO else ""
    picture = [] if patches is None else [patch_place(patches, step.query)]
    words = element(
        "div",
        *picture,
        element("span", step.text, class_="question"),
        " ",
        element("span", answer, class_=f"chip {kind}".strip()),
        element("small", told),
    )
    belief = [] if posterior is None else [element("div", _belief(chain, posterior, N_IN_CHAIN), class_="belief")]
    return element("li", element("span", number, class_="number"), words, *belief)
