"""`pursuit watch`: what sessions with people say of a model after it was served; `pursuit recalibrate`: beliefs are
fitted to what they confirmed."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column

from pursuit.cli.console import escaped, out, plain_table, print_json, show
from pursuit.cli.options import AsJson, Database, Model
from pursuit.registry import Option


def watch(
    model: Model,
    *,
    database: Database = None,
    alarm: Annotated[
        float, Option("The share of models that keep their promise and are alarmed about, ever.", min=1e-6, max=0.5)
    ] = 0.01,
    tolerance: Annotated[
        float, Option("How much more often than it says the model may be wrong.", min=0.0, max=0.5)
    ] = 0.05,
    settled_after: Annotated[
        int,
        Option(
            "Judge results only so many days after their session began: where wrong ones are known sooner than right "
            "ones, as many as it takes until both are.",
            min=0,
            max=36500,
        ),
    ] = 0,
    to: Annotated[Path | None, Option("Write a page into this file.", "--out")] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a model that is served: accuracy, calibration, questions and answers over time, by sessions with people.

    With an alarm, the command ends with 3, for those who run it every day.
    """
    from pursuit import load
    from pursuit.cli.evaluate import check_page
    from pursuit.cli.served_models import kept_sessions
    from pursuit.estimators.saving import fingerprint
    from pursuit.files import write_whole
    from pursuit.report.facts import share
    from pursuit.report.watch import Watch

    if to is not None:
        check_page(to)
    estimator = load(model)
    sessions = kept_sessions(model, database)
    found = Watch.of(estimator, sessions, alarm, tolerance, fingerprint=fingerprint(model), settled_after=settled_after)
    if to is not None:
        write_whole(to, found.html(model.resolve().name).encode())
    if as_json:
        print_json({"model": str(model), **found.to_dict()})
    else:
        for sentence in found.sentences:
            show(sentence)
        if found.periods:
            numbers = [
                Column(name, justify="right") for name in ("sessions", "questions", "judged", "right", "unusual")
            ]
            table = plain_table("begun", *numbers)
            for one in found.periods:
                right = "–" if one.accuracy_interval is None else share(one.n_right / one.n_judged)
                counts = str(one.n), f"{one.mean_asked:.1f}", str(one.n_judged), right, str(one.n_unusual)
                table.add_row(one.name, *counts)
            out.print(table)
        asked = [one for one in found.questions if one.n_unknown or one.has_moved][:20]
        if asked:
            table = plain_table(
                "question", *(Column(name, justify="right") for name in ("asked", "don't know", "moved"))
            )
            for question in asked:
                unknown = share(question.n_unknown / question.n_asked)
                moved = escaped(question.moved.text) if question.has_moved and question.moved is not None else ""
                table.add_row(escaped(question.text), str(question.n_asked), unknown, moved)
            out.print(table)
        if to is not None:
            show(f"Written: {to}")
    if found.is_alarmed:
        raise typer.Exit(3)


LEAST_SESSIONS = 50
"""With fewer, chance decides."""
SURE = 1.645
"""Standard errors by which a fit must be better: a one-sided test at 5 %."""


def recalibrate(model: Model, *, database: Database = None, as_json: AsJson = False) -> None:
    """Fit how sure a model is to sessions whose truth is known.

    Each half of them judges a fit to the other half; unless that is better by more than chance, nothing changes.
    """
    import numpy as np
    import torch

    from pursuit import load
    from pursuit.cli.served_models import kept_sessions
    from pursuit.report.facts import count
    from pursuit.report.watch import Confirmed
    from pursuit.training.calibration import fit_temperature

    estimator: Any = load(model)
    learner = estimator.model_
    if not hasattr(learner, "temperature"):
        raise ValueError(f"The beliefs of {type(estimator).__name__} cannot be changed: train it again with --and.")
    if getattr(estimator, "guaranteed_", None) is not None:
        raise ValueError(
            f"The model guarantees {estimator.stopping_rule()} with its beliefs as they are, and could guarantee "
            "nothing with others: train it again with --and."
        )
    confirmed = Confirmed.of(estimator, kept_sessions(model, database))
    n = len(confirmed.pairs)
    if n < LEAST_SESSIONS:
        raise ValueError(
            f"The truth is known of {count(n, 'session')}, and it takes {LEAST_SESSIONS}: note it on the page of a "
            "session, or by PUT /api/sessions/ID/truth."
        )
    rows, temperature = confirmed.histories(), learner.temperature.clone()
    before, after = _losses(learner, rows), torch.zeros(n)
    for half in (0, 1):
        judged = torch.arange(n) % 2 == half
        learner.set_temperature(fit_temperature(learner, rows.take(~judged), estimator.max_queries))
        after[judged] = _losses(learner, rows.take(judged))
        learner.set_temperature(temperature)
    gained = (before - after).double().numpy()
    is_better = bool(gained.mean() > SURE * gained.std(ddof=1) / np.sqrt(n))
    if is_better:
        learner.set_temperature(fit_temperature(learner, rows, estimator.max_queries))
        estimator.save(model, estimator.notes_)
    found = {"before": float(before.mean()), "after": float(after.mean())}
    if as_json:
        print_json({"model": str(model), "n": n, "n_unknown": confirmed.n_unknown, **found, "is_changed": is_better})
        return
    losses = "log loss on {:,} confirmed sessions: {:.3f} before, {:.3f} after, each judged by the others"
    losses = losses.format(n, *found.values())
    show(
        f"Recalibrated; {losses}."
        if is_better
        else f"Nothing was changed, because it would not be better by more than chance: {losses}."
    )
    if confirmed.remark:
        show(confirmed.remark)


def _losses(learner: Any, rows: Any) -> Any:
    """The log loss (N,) of each row with all answers that were given."""
    import torch

    from pursuit.inference.history import History

    with torch.no_grad():
        beliefs = learner.log_posterior(History(rows.x, rows.available, rows.available))
    return -beliefs.gather(1, rows.y[:, None])[:, 0]
