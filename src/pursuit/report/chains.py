"""A report on predictions: questions and answers, the posterior after each answer, and the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pursuit.estimators import PursuitEstimator
from pursuit.estimators.validation import known_answers
from pursuit.evaluation import Evaluation, RegressionEvaluation
from pursuit.files import write_whole
from pursuit.inference.chain import CHAINS_SCHEMA, Chain, Chains, ChainStep, bits_text, explain, percent
from pursuit.inference.pursuer import Pursuer, label_text
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.unusual import Unusual, unusual_of
from pursuit.queries.query_set import PatchGrid
from pursuit.report.facts import ModelFacts, count, quality, trust
from pursuit.report.page import render
from pursuit.sessions.reasons import WhatIf, query_and_rest, reasons_of, what_if
from pursuit.sessions.session import Session
from pursuit.sessions.state import belief_of

N_WHAT_IF = 3
"""Most single answers that are listed which would have changed the prediction."""
LEAST_SHOWN = 0.0005
"""Labels less probable than this are only counted."""


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
    """A remark for the reader."""
    unusual: Unusual | None = None
    """Answers unlike those of the training rows."""

    @classmethod
    def of(cls, pursuer: Pursuer, x: Tensor, chain: Chain, title: str, label: str | None = None) -> "ExplainedRow":
        """The chain of a row `x` (*answer_shape)."""
        changes, unusual = what_if(pursuer, x, chain), unusual_of(pursuer, x, chain)
        return cls(title, label, chain, changes, x, unusual=unusual)

    @classmethod
    def of_session(cls, session: Session, title: str = "This session", label: str | None = None) -> "ExplainedRow":
        """The questions and answers of a session so far."""
        return cls.of(session.pursuer, session.history.x[0], session.chain, title, label)

    def remarks(self) -> list[str]:
        """Remarks beside the chain: which single answer, if it were wrong, would change the prediction, and which
        answers are unusual."""
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
        """A changed prediction as JSON values, with the label as the model has it."""
        labels = {label_text(label): label for label in self.chain.classes}
        described = query_and_rest(one)
        described["prediction"] = labels[described.pop("label")]
        return described


@dataclass(frozen=True)
class ChainsReport:
    """Explanations of predictions for some rows, as a page or as JSON."""

    facts: ModelFacts
    rows: tuple[ExplainedRow, ...]
    evaluation: Evaluation | RegressionEvaluation | None = None
    """The evaluation of the model, if it was measured."""
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
        model, answers = estimator.model_, estimator.read_answers(X)
        known = known_answers(estimator, initially_known, model.query_set, len(answers.x))
        chains = explain(model, *answers, estimator.stopping_rule(stop), known)
        titles = [f"Row {row}" for row in range(len(chains))] if titles is None else titles
        labels = [None] * len(chains) if labels is None else labels
        rows = [
            ExplainedRow.of(model, x, chain, title, label)
            for title, label, chain, x in zip(titles, labels, chains, answers.x, strict=True)
        ]
        facts = ModelFacts.of(estimator, name, stop)
        return cls(facts, tuple(rows), evaluation, model.query_set.patches)

    @property
    def chains(self) -> Chains:
        return Chains([row.chain for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """The chains as JSON values, as docs/schemas/chains-1.json describes them."""
        return chains_to_dict(self.facts.name, [row.to_dict() for row in self.rows])

    def html(self) -> str:
        """The report as a page that is whole by itself."""
        what = self.rows[0].title if len(self.rows) == 1 else count(len(self.rows), "prediction")
        return render(
            "chains.html",
            subtitle=f"why this prediction: {what}",
            contents=[(f"row-{i}", row.title) for i, row in enumerate(self.rows)] if len(self.rows) > 1 else [],
            facts=self.facts,
            rows=self.rows,
            evaluation=self.evaluation,
            quality=[] if self.evaluation is None else quality(self.evaluation, self.facts.name),
            patches=self.patches,
            n_what_if=N_WHAT_IF,
            gain=_gain,
            how_sure=_how_sure,
            interval=_interval,
            leading=_leading,
            reasons_of=reasons_of,
            seen_pixels=_seen_pixels,
            trust=trust,
        )

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        write_whole(Path(path), self.html().encode())


def chains_to_dict(name: str, chains: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Chains of a task, each as JSON values, as docs/schemas/chains-1.json describes them together."""
    return {"schema": CHAINS_SCHEMA, "task": name, "chains": list(chains)}


def _how_sure(chain: Chain) -> str:
    if chain.target is not None:
        low, high = (chain.target.text(edge) for edge in chain.target.interval(chain.posterior[None])[0].tolist())
        return f"90% sure that it lies between {low} and {high}."
    best, *others = belief_of(chain, 2).labels
    runner_up = "".join(f"; {one.label} would be next with {percent(one.probability)}" for one in others)
    return f"{percent(best.probability)} sure{runner_up}."


def _leading(chain: Chain, posterior: Tensor, most: int) -> list[tuple[str, str, float]]:
    """The most probable labels of a posterior (C,), with the probability in words and as a number; the rest as one."""
    best = posterior.topk(min(most, len(posterior)))
    leading = [
        (label_text(chain.classes[i]), percent(p), float(p))
        for n, (p, i) in enumerate(zip(best.values, best.indices.tolist(), strict=True))
        if n == 0 or p >= LEAST_SHOWN
    ]
    n_others = len(posterior) - len(leading)
    if n_others:
        rest = max(0.0, 1 - float(best.values[: len(leading)].sum()))
        leading.append((count(n_others, "other"), percent(rest), rest))
    return leading


def _interval(chain: Chain, posterior: Tensor) -> tuple[float, float]:
    """Both ends of the interval of a number, as shares of the range of all intervals of the chain."""
    assert chain.target is not None
    all_ends = chain.target.interval(torch.stack([chain.prior, *(step.posterior for step in chain.steps)]))
    lowest, span = float(all_ends.min()), float(all_ends.max() - all_ends.min()) or 1.0
    low, high = chain.target.interval(posterior[None])[0].tolist()
    return (low - lowest) / span, (high - lowest) / span


def _gain(step: ChainStep) -> str:
    """The information gained by an answer, in words."""
    if step.answer is None:
        return "left open, so nothing changes"
    expected = "" if step.bits is None else f"{bits_text(step.bits)} expected, "
    if step.gained < 0:
        return f"{expected}but a surprise: {bits_text(-step.gained)} more are open than before"
    return f"{expected}{bits_text(step.gained)} gained"


def _seen_pixels(grid: PatchGrid, x: Tensor, queries: Sequence[int]) -> list[tuple[int, int, str]]:
    """Row, column and colour of the pixels of an image `x` (C, H, W), from -1 to 1, that the patches `queries` show."""
    _, height, width = grid.image_shape
    seen = torch.zeros(height, width, dtype=torch.bool)
    for query in queries:
        row, column = grid.corner(query)
        seen[row : row + grid.size, column : column + grid.size] = True
    shades = ((x.float() + 1) * 127.5).round().clamp(0, 255).int()  # (C, H, W)
    shades = shades if len(shades) == 3 else shades[:1].expand(3, -1, -1)
    return [
        (row, column, "#{:02x}{:02x}{:02x}".format(*shades[:, row, column].tolist()))
        for row, column in seen.nonzero().tolist()
    ]
