"""Trials of a search, chosen and remembered by Optuna in a file."""

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pursuit.estimators.tuned import OneOf, Ranges, Span

NAME, SEARCH = "tune", "search"


def require_optuna() -> None:
    """Raise ModuleNotFoundError, with what to install, if Optuna is absent."""
    try:
        import optuna  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Settings are searched by Optuna, which is not installed: pip install 'pursuit[tune]'."
        ) from None


class Study:
    """The trials of one search, in a journal that goes on where it stopped; raises ValueError if it is of another
    search. The first trial has the default values, and each later one depends on those before and on its own seed
    alone, so that one after the other they are always the same."""

    def __init__(
        self,
        journal: Path,
        described: Mapping[str, Any],
        ranges: Ranges,
        defaults: Mapping[str, Any],
        seed: int,
    ):
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.seed = seed
        self.distributions = {name: _distribution(one) for name, one in ranges.items()}
        backend = JournalFileBackend(str(journal), lock_obj=JournalFileOpenLock(str(journal)))
        try:
            self.study = optuna.create_study(
                storage=JournalStorage(backend), study_name=NAME, direction="maximize", load_if_exists=True
            )
        except (KeyError, json.JSONDecodeError, UnicodeDecodeError, AssertionError) as error:
            raise ValueError(f"{journal} is damaged ({error}): delete its folder, or choose another one.") from None
        before = self.study.user_attrs.get(SEARCH)
        if before is None:
            self.study.set_user_attr(SEARCH, dict(described))
            self.study.enqueue_trial(dict(defaults))
        elif before != described:
            changed = [name for name in described if before.get(name) != described[name]]
            raise ValueError(
                f"{journal.parent} holds a search with other {' and '.join(changed)}: choose another --out, or delete "
                "this folder."
            )

    def ask_until(self, n_trials: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the values of each trial to do, until there are `n_trials`: first those that were begun and
        never told, then new ones."""
        for trial in self._trials("RUNNING"):
            yield trial.number, dict(trial.params)
        while len(self._trials("RUNNING", "COMPLETE", "FAIL")) < n_trials:
            new = self._ask()
            yield new.number, dict(new.params)

    def tell(self, number: int, value: float | None) -> None:
        """What came of a trial; None if it failed."""
        from optuna.trial import TrialState

        if value is None or not np.isfinite(value):
            self.study.tell(number, state=TrialState.FAIL)
        else:
            self.study.tell(number, value)

    def told(self) -> list[tuple[int, dict[str, Any]]]:
        """The number and the values of each trial that is done, whether it worked or failed."""
        return [(trial.number, dict(trial.params)) for trial in self._trials("COMPLETE", "FAIL")]

    def _ask(self) -> Any:
        import optuna

        n_before = len(self._trials("RUNNING", "COMPLETE", "FAIL"))
        seed = int(np.random.SeedSequence([self.seed, n_before]).generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # Trials that are still running count as bad ones, so that no two of them are alike.
            self.study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        return self.study.ask(self.distributions)

    def _trials(self, *states: str) -> list[Any]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.state.name in states]


def _distribution(one: Span | OneOf) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return (
        CategoricalDistribution(one.values)
        if isinstance(one, OneOf)
        else FloatDistribution(one.low, one.high, log=True)
    )
