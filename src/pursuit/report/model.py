"""A report on a model: how good it is, how far to trust it, what it asks, and where its questions lead."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pursuit.estimators import PursuitClassifier, PursuitEstimator, PursuitRegressor
from pursuit.evaluation import Evaluation, RegressionEvaluation
from pursuit.evaluation.changed import ChangedAnswers
from pursuit.evaluation.tree import TreeNode
from pursuit.files import write_whole
from pursuit.inference.chain import percent
from pursuit.inference.pursuer import label_text
from pursuit.inference.stopping import StoppingRule
from pursuit.queries import QuerySet
from pursuit.report.facts import ModelFacts, changed_in_words, quality, share
from pursuit.report.measured import Measured
from pursuit.report.page import render

REPORT_SCHEMA = "pursuit/report/1"
"""The version of the JSON that reports are written as: docs/schemas/report-1.json describes it."""


@dataclass(frozen=True)
class ModelReport:
    """All that a person should look at before a model is used; as a page or as JSON."""

    facts: ModelFacts
    evaluation: Evaluation | RegressionEvaluation
    tree: TreeNode
    query_set: QuerySet
    changed: ChangedAnswers | None = None
    """How far results move if answers are changed on purpose; None where none can be changed by itself."""

    @classmethod
    def of(
        cls, estimator: PursuitEstimator, X: Any, y: Any, stop: StoppingRule | str | None = None, **options: Any
    ) -> "ModelReport":
        """Measure a model on rows X with labels y, which it should not have been trained on; `options` are those of
        `Measured.of`: the name of the rows, what is initially known, and the depth of the tree of questions."""
        if not isinstance(estimator, PursuitClassifier | PursuitRegressor):
            raise ValueError(f"A report is on a classifier or a regressor, not on {type(estimator).__name__}.")
        return cls.from_measured(estimator, Measured.of(estimator, X, y, stop, **options), stop)

    @classmethod
    def from_measured(
        cls, estimator: PursuitEstimator, measured: Measured, stop: StoppingRule | str | None = None
    ) -> "ModelReport":
        """A report of earlier measurements."""
        facts = ModelFacts.of(estimator, measured.name, stop)
        return cls(facts, measured.evaluation, measured.tree, estimator.model_.query_set, measured.changed)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values, as docs/schemas/report-1.json describes them."""
        facts = asdict(self.facts)
        changed = None if self.changed is None else self.changed.to_dict()
        measured = {"evaluation": self.evaluation.to_dict(), "tree": self.tree.to_dict(), "changed": changed}
        return {"schema": REPORT_SCHEMA, "task": self.facts.name, "model": facts, **measured}

    def html(self) -> str:
        """The report as a page that is whole by itself."""
        is_number, uses = isinstance(self.evaluation, RegressionEvaluation), self.evaluation.questions
        contents = ["quality", "trust", *([] if is_number else ["classes"]), "questions", "tree"]
        contents += [] if self.changed is None else ["changed"]
        share_asked = {use.name: use.share_asked for use in uses or ()}
        return render(
            "model.html",
            subtitle="a model before it is used",
            contents=[(anchor, anchor.capitalize()) for anchor in contents],
            facts=self.facts,
            evaluation=self.evaluation,
            is_number=is_number,
            numbers=_numbers(self.evaluation),
            quality=quality(self.evaluation, self.facts.name),
            tree=self.tree,
            changed=self.changed,
            changed_in_words=changed_in_words(self.changed),
            node_remarks=_node_remarks,
            query_set=self.query_set,
            patches=self.query_set.patches,
            patch_shares=[share_asked.get(query.name, 0.0) for query in self.query_set.queries],
        )

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        write_whole(Path(path), self.html().encode())


def _numbers(evaluation: Evaluation | RegressionEvaluation) -> list[tuple[str, str]]:
    """The few numbers that say most."""
    rows = ("rows measured", f"{evaluation.n_rows:,}")
    if isinstance(evaluation, RegressionEvaluation):
        scores = evaluation.at_stop or evaluation.all_answers
        found = [
            ("off by, on average", f"{scores.mae:.3g}"),
            ("of differences explained (R²)", share(max(0.0, scores.r2))),
        ]
    else:
        right = evaluation.accuracy_all_answers if evaluation.at_stop is None else evaluation.at_stop.accuracy
        found = [("right", share(right))]
    if evaluation.at_stop is not None:
        found.append((f"questions asked, of {evaluation.n_queries:,}", f"{evaluation.at_stop.mean_asked:.1f}"))
        if evaluation.at_stop.mean_cost != evaluation.at_stop.mean_asked:
            found.append(("cost, on average", f"{evaluation.at_stop.mean_cost:.3g}"))
    return [*found, rows]


def _node_remarks(node: TreeNode) -> list[str]:
    """Remarks on a node of the tree: other labels, its accuracy, and the number of rows that stop there."""
    found = []
    others = [
        f"{label_text(one.label)} {percent(one.probability)}" for one in node.leading[1:] if one.probability >= 0.005
    ]
    if others:
        found.append(f"then {', '.join(others)}")
    if node.leading:
        found.append(f"right here in {share(node.n_right / node.n_rows)}")
    if node.n_stopped:
        found.append(f"{'all' if node.n_stopped == node.n_rows else f'{node.n_stopped:,}'} stop here")
    return found
