"""Measurements of a model, saved in its folder, so that nothing is measured twice."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pursuit.estimators import PursuitEstimator, PursuitRegressor
from pursuit.estimators.saving import fingerprint
from pursuit.evaluation import Evaluation, RegressionEvaluation
from pursuit.evaluation.changed import ChangedAnswers, changed_answers
from pursuit.evaluation.needed import questions_needed
from pursuit.evaluation.tree import TreeNode, question_tree
from pursuit.files import DamagedFile, read_json, write_whole
from pursuit.inference.stopping import StoppingRule
from pursuit.registry import read_as
from pursuit.sessions.experience import Experience, SureRows
from pursuit.training.rows import Rows

MEASURED = "measured.json"
"""The file in a model's folder."""
DEPTH = 3
"""Number of levels of the tree of questions."""


@dataclass(frozen=True)
class Measured:
    """The evaluation of a model and the tree of its first questions, on rows that it was not trained on."""

    name: str
    """The name of the rows."""
    evaluation: Evaluation | RegressionEvaluation
    tree: TreeNode
    needed: tuple[tuple[int, ...], ...]
    """How many more questions rows were asked, by progress, as `Experience` has it."""
    changed: ChangedAnswers | None
    """How far results move if answers are changed on purpose; None where none can be changed by itself."""
    rows: str
    """The fingerprint of the rows."""

    @property
    def experience(self) -> Experience:
        """What sessions report of it."""
        evaluation = self.evaluation
        if isinstance(evaluation, RegressionEvaluation):
            in_range = (evaluation.at_stop or evaluation.all_answers).coverage
            return Experience(evaluation.n_rows, (), in_range, self.needed)
        sure = tuple(
            SureRows(one.low, one.high, one.n_rows, round(one.accuracy * one.n_rows))
            for one in evaluation.reliability or ()
        )
        return Experience(evaluation.n_rows, sure, None, self.needed)

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        stop: StoppingRule | str | None = None,
        *,
        initially_known: Any = None,
        depth: int = DEPTH,
        name: str = "",
        evaluation: Evaluation | RegressionEvaluation | None = None,
    ) -> "Measured":
        """Measure a classifier or a regressor on rows X with labels y; the tree has `depth` levels of questions. With
        an `evaluation` of more rows, only the tree is that of these."""
        evaluation = evaluation or estimator.evaluate(X, y, stop, initially_known=initially_known, with_bits=True)
        rows: Rows = estimator.rows(X, y, initially_known=initially_known)
        rule = estimator.stopping_rule(stop)
        tree = question_tree(estimator.model_, rows, rule, depth, estimator.device)
        needed = questions_needed(estimator.model_, rows, rule, estimator.device)
        changed = changed_answers(estimator.model_, rows, rule)
        return cls(name, evaluation, tree, needed, changed, rows.fingerprint())

    def keep(self, folder: Path, estimator: PursuitEstimator) -> None:
        """Write it beside the model saved in `folder`, for those who ask by the rule of the estimator."""
        content = {
            "name": self.name,
            "rows": self.rows,
            "evaluation": self.evaluation.to_dict(),
            "tree": self.tree.to_dict(),
            "needed": self.needed,
            "changed": None if self.changed is None else self.changed.to_dict(),
            **_asked_by(folder, estimator),
        }
        content = json.loads(json.dumps(content))
        write_whole(folder / MEASURED, json.dumps({**content, "sha256": _checksum(content)}, indent=1).encode())


def kept(folder: Path, estimator: PursuitEstimator, rows: Rows | None = None) -> Measured | None:
    """The measurements of the model in `folder`, if it asks by the same rule now, and was measured on the same `rows`
    where any are given."""
    try:
        content = dict(read_json(folder / MEASURED))
        if content.pop("sha256") != _checksum(content):
            return None
        asked_by = _asked_by(folder, estimator)
        if any(content[key] != value for key, value in asked_by.items()):
            return None
        if rows is not None and content["rows"] != rows.fingerprint():
            return None
        evaluated_as = RegressionEvaluation if isinstance(estimator, PursuitRegressor) else Evaluation
        evaluation = evaluated_as.from_dict(content["evaluation"])
        needed = tuple(tuple(int(n) for n in part) for part in content["needed"])
        tree = read_as(TreeNode, content["tree"])
        changed = read_as(ChangedAnswers | None, content["changed"])
        return Measured(str(content["name"]), evaluation, tree, needed, changed, str(content["rows"]))
    except (OSError, DamagedFile, ValueError, TypeError, KeyError):
        return None  # nothing was kept, or not this


def _asked_by(folder: Path, estimator: PursuitEstimator) -> dict[str, Any]:
    """The settings that the figures depend on besides the rows."""
    rule = str(estimator.stopping_rule())
    return {"model": fingerprint(folder), "rule": rule, "max_queries": estimator.max_queries}


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
