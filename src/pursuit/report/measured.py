"""Measurements of a model, saved in its folder, so that nothing is measured twice."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pursuit.estimators import PursuitEstimator, PursuitRegressor
from pursuit.estimators.saving import fingerprint
from pursuit.evaluation import Evaluation, RegressionEvaluation
from pursuit.evaluation.changed import ChangedAnswers, changed_answers
from pursuit.evaluation.rollouts import Trace, placed, row_batches
from pursuit.evaluation.tree import TreeNode, question_tree
from pursuit.files import DamagedFile, read_json, write_whole
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import RolloutStep
from pursuit.inference.stopping import StoppingRule
from pursuit.registry import read_as
from pursuit.sessions.experience import N_PARTS, Experience, SureRows
from pursuit.training.rows import Rows

MEASURED = "measured.json"
"""The file in a model's folder."""
DEPTH = 3
"""Number of levels of the tree of questions."""
MOST_ROWS = 2000
"""Number of rows whose further questions are counted; quantiles need no more."""
FEW_ROWS = 10
"""A part of progress that fewer rows stop at is counted together with the one before it."""


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


@dataclass(frozen=True)
class _DoubtTrace(Trace):
    doubt: Tensor  # (T, N), the entropy of the posterior in nats

    @staticmethod
    def describe(step: RolloutStep, y: Tensor) -> tuple[Tensor, ...]:
        return (_doubt(step.log_posterior),)


def _doubt(log_posterior: Tensor) -> Tensor:
    return torch.special.entr(log_posterior.double().exp()).sum(dim=1).float()


@torch.no_grad()
def questions_needed(
    pursuer: Pursuer, rows: Rows, stop: StoppingRule, device: str = "cpu"
) -> tuple[tuple[int, ...], ...]:
    """For each part of progress: how many rows were asked 1, 2, … more questions once they got there.

    Progress is the highest so far, so that it never falls along a chain.
    """
    some = rows.take(torch.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).long())
    with placed(pursuer, device) as place:
        x = pursuer.query_set.blank().to(place)
        nothing = torch.zeros(1, len(pursuer.query_set), dtype=torch.bool, device=place)
        first = _doubt(pursuer.log_posterior(History(x, nothing, nothing))).cpu()
        traces = [_DoubtTrace.of(pursuer, batch, stop).cpu() for batch in row_batches(pursuer, some, place)]
    chains = _DoubtTrace.joined(traces)
    share = (1 - chains.doubt / first.clamp(min=1e-9)).clamp(0, 1)
    part = (N_PARTS * share).long().clamp(max=N_PARTS - 1).cummax(dim=0).values  # (T, N)
    left = chains.n_asked[-1:] - chains.n_asked  # (T, N)
    is_new = torch.cat([torch.ones_like(part[:1], dtype=torch.bool), part[1:] > part[:-1]]) & (left > 0)
    most = int(left.max())
    counts = [torch.bincount(left[is_new & (part == i)] - 1, minlength=most).tolist() for i in range(N_PARTS)]
    return tuple(_with_those_before(counts, i) for i in range(N_PARTS))


def _with_those_before(counts: list[list[int]], part: int) -> tuple[int, ...]:
    """The counts of a part, together with those of as many parts before it as make them enough."""
    total = list(counts[part])
    for before in reversed(counts[:part]):
        if sum(total) >= FEW_ROWS:
            break
        total = [own + other for own, other in zip(total, before, strict=True)]
    while total and total[-1] == 0:
        total.pop()
    return tuple(total)
