"""`pursuit recalibrate`: beliefs are fitted to what people confirmed."""

from typing import Any

from pursuit.cli.console import print_json, show
from pursuit.cli.options import AsJson, Database, Model

LEAST_SESSIONS = 50
"""With fewer, chance decides."""


def recalibrate(model: Model, *, database: Database = None, as_json: AsJson = False) -> None:
    """Fit how sure a model is, and when it stops, to sessions whose truth is known.

    Each half of them judges a fit to the other half; where that is not better than the model as it is, nothing changes.
    """
    import copy

    import numpy as np

    from pursuit.cli.served_models import kept_sessions
    from pursuit.public import load
    from pursuit.report.watch import confirmed_rows

    estimator: Any = load(model)
    if not hasattr(estimator, "calibrate") or not hasattr(estimator.model_, "temperature"):
        raise ValueError(f"The beliefs of {type(estimator).__name__} cannot be changed: train it again with --and.")
    if getattr(estimator, "guaranteed_", None) is not None:
        raise ValueError(
            f"The model guarantees {estimator.stopping_rule()} with its beliefs as they are, and could guarantee "
            "nothing with others: train it again with --and."
        )
    X, y = confirmed_rows(estimator, kept_sessions(model, database))
    if len(y) < LEAST_SESSIONS:
        raise ValueError(
            f"The truth is known of {len(y)} sessions, and it takes {LEAST_SESSIONS}: note it on the page of a "
            "session, or by PUT /api/sessions/ID/truth."
        )
    halves = np.arange(len(y)) % 2
    before = after = 0.0
    for half in (0, 1):
        learnt, judged = halves == half, halves != half
        other = copy.deepcopy(estimator).calibrate(X[learnt], y[learnt])
        before += _loss(estimator, X[judged], y[judged]) * judged.sum() / len(y)
        after += _loss(other, X[judged], y[judged]) * judged.sum() / len(y)
    if is_better := bool(after < before):
        estimator.calibrate(X, y).save(model, estimator.notes_)
    if as_json:
        print_json(
            {"model": str(model), "n": len(y), "before": float(before), "after": float(after), "is_changed": is_better}
        )
        return
    losses = (
        f"log loss on {len(y):,} confirmed sessions: {before:.3f} before, {after:.3f} after, each judged by the others"
    )
    show(f"Recalibrated; {losses}." if is_better else f"Nothing was changed, because it would not be better: {losses}.")


def _loss(estimator: Any, X: Any, y: Any) -> float:
    """The mean log loss with all answers that were given."""
    import torch

    from pursuit.inference.history import History

    rows = estimator.rows(X, y)
    with torch.no_grad():
        beliefs = estimator.model_.log_posterior(History(rows.x, rows.available, rows.available))
    return -float(beliefs.gather(1, rows.y[:, None]).mean())
