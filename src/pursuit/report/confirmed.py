"""Sessions whose truth is known, as rows to learn from."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from pursuit.estimators import PursuitEstimator
from pursuit.inference.pursuer import label_list, label_text
from pursuit.inference.target_bins import target_of
from pursuit.report.watch import KeptSession
from pursuit.sessions.log import Reject, Tell
from pursuit.sessions.session import Session


def confirmed_rows(estimator: PursuitEstimator, sessions: Iterable[KeptSession]) -> tuple[pd.DataFrame, np.ndarray]:
    """The answers of sessions whose truth is a label of the model, or a number where it predicts one, with these; an
    answer that nobody gave is missing.

    A truth is what somebody noted, or a result that somebody accepted. Raises ValueError for models that do not ask for
    the columns of a table."""
    model: Any = estimator.model_
    columns = getattr(estimator, "feature_names_in_", None)
    asked = [query.name for query in model.query_set.queries]
    if columns is None or not set(asked) <= set(columns.tolist()):
        raise ValueError(
            "Sessions become rows where a model asks for the columns of a table, and this one does not: train it on a "
            "table whose columns have names."
        )
    is_number = target_of(model) is not None
    labels = {label_text(label).casefold(): label for label in label_list(model.classes)}
    rows, truths = [], []
    for kept in sessions:
        try:
            session = Session.from_dict(kept.moves, model, estimator.stopping_rule())
        except ValueError:
            continue
        truth = _truth(kept, session, labels, is_number)
        if truth is not None:
            tells = [move for move in session.moves if isinstance(move, Tell)]
            rows.append({asked[move.query]: move.answer for move in tells if move.answer is not None})
            truths.append(truth)
    return pd.DataFrame(rows, columns=columns.tolist()), np.array(truths, dtype=float if is_number else None)


def _truth(kept: KeptSession, session: Session, labels: dict[str, Any], is_number: bool) -> Any:
    if kept.truth is not None:
        if not is_number:
            return labels.get(kept.truth.casefold())
        try:
            return float(kept.truth.replace(",", "."))
        except ValueError:
            return None
    if is_number or not kept.accepted or any(isinstance(move, Reject) for move in session.moves):
        return None
    return labels.get(label_text(session.prediction).casefold())
