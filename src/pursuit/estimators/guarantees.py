"""Making guarantees: which rows are held out for them, and what makes them hold for a model on these rows.

Learn then test: a threshold is safe if the share of wrong labels among the rows that it decides is at most alpha. Given
how many of n independent rows it decides, the number of wrong ones is binomial, so the exact binomial tail is a p-value
of "not safe". Thresholds are tested in an order that is fixed before the rows are looked at, from the safest to the
boldest, each only as long as those before it were shown to be safe: then no unsafe one is taken, except with
probability delta, however many are tested.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.special import bdtr

from pursuit.estimators.plan import Reason
from pursuit.inference.pursuer import Pursuer, label_list
from pursuit.inference.rollout import posterior_at_stop, pursue_in_batches
from pursuit.inference.stopping import (
    NEVER,
    Budget,
    ConformalSet,
    Guarantee,
    RiskControlled,
    StoppingRule,
    guarantees_of,
    joined,
    without_guarantees,
)
from pursuit.training.rows import Rows

STARTS = ((1 / 20, 0.45), (1 / 2, 0.45), (2.0, 0.1))
"""Where testing begins, and with which part of delta: at the confidence 1 - alpha / 20, again at 1 - alpha / 2 and at
1 - 2 alpha. The safest thresholds of all decide too few rows to show anything, and where enough are decided differs
from model to model."""
SCOUTS = 0.5
"""Where each number of questions has a threshold of its own, the share of the rows that says which to test."""
EVERY = 4
"""Of the levels, every fourth is tried there: there are many thresholds to choose."""
ROOM = 0.25
"""A threshold is worth testing if its p-value would be this share of delta on test rows like the scouts."""
ROUNDED = 1e-5
"""By what share a probability may differ between one computation of it and another."""


LEVELS = np.append(1 / (1 + np.exp(-np.arange(12, -8.001, -0.05))), 0.0).astype(np.float32)
"""The confidences that may become thresholds, from the safest to the boldest: (G,). They are at equal steps of log
odds, because confidences crowd near 1, and rounded as beliefs are, so that files and pages compare alike."""


@dataclass(frozen=True)
class HeldOutChains:
    """What the model believes of N rows from question to question, for as long as nothing guaranteed stops them."""

    confidence: np.ndarray
    """(N, T + 1) float32, how probable the likeliest label is after t questions; -1 beyond the end."""
    wrong: np.ndarray  # (N, T + 1) bool, whether that label is wrong

    def __len__(self) -> int:
        return len(self.confidence)

    def take(self, rows: np.ndarray | slice) -> "HeldOutChains":
        return HeldOutChains(self.confidence[rows], self.wrong[rows])

    @property
    def lengths(self) -> np.ndarray:
        """After how many questions each chain ends (N,)."""
        return (self.confidence >= 0).sum(axis=1) - 1

    def stops(self, levels: np.ndarray) -> np.ndarray:
        """After how many questions each row is decided if it must be `levels` (T + 1,) sure after each number: (N,). T
        + 1 where it never is."""
        sure = self.confidence >= levels
        return np.where(sure.any(axis=1), sure.argmax(axis=1), self.confidence.shape[1])

    def wrong_at(self, stops: np.ndarray) -> np.ndarray:
        """Whether rows are decided at their stop, and wrongly: (N,)."""
        decided = stops < self.wrong.shape[1]
        place = np.minimum(stops, self.wrong.shape[1] - 1)
        return decided & self.wrong[np.arange(len(self)), place]

    def at_every_level(self) -> tuple[np.ndarray, np.ndarray]:
        """After how many questions each of `LEVELS` decides each row, and whether wrongly: (G, N) each."""
        stops = np.zeros((len(LEVELS), len(self)), dtype=np.int64)
        for row, reached in enumerate(np.maximum.accumulate(self.confidence, axis=1)):  # (T + 1,), rising
            stops[:, row] = np.searchsorted(reached, LEVELS)
        return stops, np.stack([self.wrong_at(at) for at in stops])


def p_value(n_wrong: np.ndarray, n_decided: np.ndarray, alpha: float) -> np.ndarray:
    """How probable so few wrong ones, or fewer, would be at most if a share above `alpha` were wrong; 1 where nothing
    is decided."""
    n_wrong, n_decided = np.asarray(n_wrong, dtype=float), np.asarray(n_decided).astype(np.int64)
    found = bdtr(np.minimum(n_wrong, n_decided), np.maximum(n_decided, 1), alpha)
    return np.where(n_decided > 0, found, 1.0)


def least_decided(alpha: float, delta: float) -> int:
    """How many rows must be decided, all of them rightly, to show that a share of at most `alpha` is wrong."""
    n = max(1, math.floor(math.log(delta) / math.log1p(-alpha)) - 1)
    while p_value(np.array(0), np.array(n), alpha) > delta:
        n += 1
    return n


def least_rows(alpha: float, delta: float, by_length: bool) -> int:
    """With how many rows a threshold can be shown to be safe at all, if it decides all rows, and rightly."""
    if not by_length:
        return least_decided(alpha, delta * max(part for _, part in STARTS))
    least = least_decided(alpha, delta)
    return next(n for n in range(least, 3 * least + 10) if n - int(n * SCOUTS) >= least)


def choose_level(stops: np.ndarray, wrong: np.ndarray, longest: int, alpha: float, delta: float) -> int | None:
    """The boldest of the levels (G,) that is shown to be safe; None if none is. `stops` and `wrong` (G, N) are what
    levels do to chains of at most `longest` questions.

    A bolder level asks fewer questions, so the boldest asks fewest. Every start has its part of delta, and a level that
    is shown to be safe hands its part on to the next bolder one: the fallback procedure (Wiens and Dmitrienko, 2005),
    which is fixed-sequence testing where there is one start.
    """
    p = p_value(wrong.sum(axis=1), (stops <= longest).sum(axis=1), alpha)
    share = np.zeros(len(LEVELS))
    for start, part in STARTS:
        first = int((max(1 - start * alpha, 0.0) >= LEVELS).argmax())
        share[first] += delta * part
    chosen, handed_on = None, 0.0
    for level in range(len(LEVELS)):
        at = share[level] + handed_on
        handed_on = at if at > 0 and p[level] <= at else 0.0
        chosen = level if handed_on else chosen
    return chosen


def choose_levels(chains: HeldOutChains, alpha: float, delta: float) -> np.ndarray | None:
    """A confidence for every number of questions (T + 1,) such that those decided after t questions or fewer are wrong
    in at most a share `alpha`, for every t; None if nothing can be decided.

    The first half of the rows says, from the first question to the last, how little sure one may be after each. The
    others test it from the last number of questions to the first: with every one that is added, more rows stop earlier,
    until it is not shown any more that all shares are small enough (Ringel et al., 2024, for a share of errors in place
    of an accuracy gap).
    """
    n_scouts = int(len(chains) * SCOUTS)
    scouted, tested = chains.take(slice(n_scouts)), chains.take(slice(n_scouts, None))
    candidate = _candidate_levels(scouted, alpha, delta * ROOM, len(tested) / max(len(scouted), 1))
    chosen = np.full_like(candidate, NEVER)
    stops = np.full(len(tested), len(candidate))  # after how many questions each test row is decided
    for step in np.flatnonzero(candidate <= 1)[::-1]:
        earlier = np.where(tested.confidence[:, step] >= candidate[step], step, stops)
        if not _is_safe_from(int(step), tested, earlier, alpha, delta):
            break
        chosen[step], stops = candidate[step], earlier
    return chosen if (chosen <= 1).any() else None


def _candidate_levels(scouted: HeldOutChains, alpha: float, delta: float, ratio: float) -> np.ndarray:
    """The boldest level after every number of questions with which the p-value would be at most `delta` if there were
    `ratio` times as many rows, given those after fewer questions."""
    levels, tried = np.full(scouted.confidence.shape[1], NEVER, dtype=np.float32), LEVELS[::EVERY]
    going = np.ones(len(scouted), dtype=bool)
    n_before = k_before = 0
    for step in range(len(levels)):
        # The first level that decides each row; bolder ones do so too. (N,)
        first = np.searchsorted(-tried, -scouted.confidence[:, step])
        first[~going] = len(tried)
        n, k = (np.bincount(first, each, len(tried) + 1)[:-1].cumsum() for each in (going, scouted.wrong[:, step]))
        n, k = n_before + n, k_before + k
        passes = (p_value(np.ceil(k * ratio), np.floor(n * ratio), alpha) <= delta) & (n > n_before)
        if passes.any():
            boldest = int(np.flatnonzero(passes)[-1])
            levels[step], n_before, k_before = tried[boldest], n[boldest], k[boldest]
            going &= first > boldest
    return levels


def _is_safe_from(step: int, tested: HeldOutChains, stops: np.ndarray, alpha: float, delta: float) -> bool:
    """Whether it is shown for every number of questions from `step` on that those decided by then are wrong in at most
    a share `alpha`. Each is shown by itself; that all of them hold takes no correction, because all of them must be
    shown. Where no row is decided by then, nothing is shown."""
    n_steps = tested.confidence.shape[1]
    n = np.bincount(stops, minlength=n_steps + 1)[:n_steps].cumsum()
    k = np.bincount(stops, tested.wrong_at(stops), minlength=n_steps + 1)[:n_steps].cumsum()
    return bool((p_value(k[step:], n[step:], alpha) <= delta).all())


def least_conformal_rows(alpha: float) -> int:
    """How many rows it takes at least to find a set of labels that is not all of them: n with (n + 1) alpha >= 1."""
    return math.ceil(1 / alpha - 1 - 1e-9)


def conformal_threshold(right: np.ndarray, alpha: float) -> float:
    """How probable a label must be to remain, from how probable the right labels of n held-out rows were: the
    ceil((n + 1)(1 - alpha))th highest of these, and a little less, because it may be computed otherwise next time."""
    rank = math.ceil((len(right) + 1) * (1 - alpha) - 1e-9)
    if rank > len(right):
        raise ValueError(f"{len(right)} rows are too few for alpha={alpha}: at least {least_conformal_rows(alpha)}.")
    found = np.sort(np.asarray(right, dtype=float))[len(right) - rank]
    return float(np.float32(max(found * (1 - ROUNDED), 0.0)))


SHARE, MOST_ROWS = 0.2, 5000
"""By default this share of the rows is held out for guarantees, up to this number of rows."""
TIMES = 3
"""Where there are enough rows, this many times the minimum is held out."""
LONGEST = 100
"""Most questions asked before a row is left to a person, unless a budget is given."""


@dataclass(frozen=True)
class HeldOut:
    """Rows held out for guarantees, as the user gave them."""

    X: Any
    y: np.ndarray
    initially_known: Any = None


def check_guarantees(rule: StoppingRule) -> None:
    """Raise ValueError for a rule that makes the same guarantee twice."""
    for kind in (RiskControlled, ConformalSet):
        same = [str(guarantee) for guarantee in guarantees_of(rule) if isinstance(guarantee, kind)]
        if len(same) > 1:
            raise ValueError(f"{' and '.join(same)} guarantee the same of other shares: leave all but one out.")


def within_reach(rule: StoppingRule, n_queries: int) -> StoppingRule:
    """The rule with a budget where there are very many queries: what is not decided by then is left to a person."""
    needs = any(isinstance(part, RiskControlled) for part in rule.parts)
    has_budget = any(isinstance(part, Budget) for part in rule.parts)
    return rule | Budget(LONGEST) if needs and not has_budget and n_queries > LONGEST else rule


# ---- how many rows it takes


def rows_needed(guarantees: Sequence[Guarantee]) -> int:
    """With how many rows these guarantees can be made at all."""
    each = [_needed_by(guarantee) for guarantee in guarantees]
    return max(each) * len(each)


def _needed_by(guarantee: Guarantee) -> int:
    if isinstance(guarantee, RiskControlled):
        return least_rows(guarantee.alpha, guarantee.delta, guarantee.by_length)
    assert isinstance(guarantee, ConformalSet)
    return least_conformal_rows(guarantee.alpha)


def n_to_hold_out(guarantees: Sequence[Guarantee], n_rows: int, share: float | None, rarest: float = 1.0) -> int:
    """How many of the rows to hold out: a `share`, or what suits; raises ValueError if they are too few. `rarest` is
    the share of the rarest class, of which there must be enough for a guarantee class by class."""
    least = rows_needed(guarantees)
    if share is not None:
        n_held_out = round(share * n_rows)
        _check_enough(guarantees, n_held_out)
        return n_held_out
    by_class = any(isinstance(guarantee, ConformalSet) and guarantee.by_class for guarantee in guarantees)
    wanted = TIMES * math.ceil(least / (rarest if by_class else 1.0))
    if 2 * least > n_rows:
        raise ValueError(
            f"{_named(guarantees)} takes at least {least:,} rows that are held out of training, and as many again to "
            f"train on, but there are {n_rows:,}: give more rows, or guarantee less (a larger alpha or delta)."
        )
    return min(max(math.ceil(SHARE * n_rows), wanted), max(n_rows // 2, least), max(MOST_ROWS, wanted))


def _check_enough(guarantees: Sequence[Guarantee], n_rows: int) -> None:
    least = rows_needed(guarantees)
    if n_rows < least:
        raise ValueError(
            f"{_named(guarantees)} takes at least {least:,} rows that the model did not learn from, one of each group, "
            f"but there are {n_rows:,}: give more of them, or guarantee less (a larger alpha or delta)."
        )


def _named(guarantees: Sequence[Guarantee]) -> str:
    return " with ".join(map(str, guarantees))


# ---- holding rows out


def hold_out(n_rows: int, n_held_out: int, group: np.ndarray | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to learn from, and of those held out. Of groups, whole ones are held out and one row of
    each is taken: rows of one group are not independent."""
    randomness = np.random.default_rng((seed, 16))
    if group is None:
        order = randomness.permutation(n_rows)
        return np.sort(order[n_held_out:]), order[:n_held_out]
    names = randomness.permutation(np.unique(group))[:n_held_out]
    return np.flatnonzero(~np.isin(group, names)), one_of_each(group, names, randomness)


def one_of_each(group: np.ndarray, names: np.ndarray, randomness: np.random.Generator) -> np.ndarray:
    """The number of one random row of each of these groups."""
    order = randomness.permutation(len(group))
    _, first = np.unique(group[order], return_index=True)
    one = order[first]
    return randomness.permutation(one[np.isin(group[one], names)])


# ---- making guarantees


def choose_guarantees(
    pursuer: Pursuer, rows: Rows, rule: StoppingRule, seed: int = 0
) -> tuple[StoppingRule, tuple[Reason, ...]]:
    """The rule with all that makes its guarantees hold, chosen on rows that the pursuer did not learn from, and what is
    to be said of each. Labels below 0 are none that the pursuer knows. Raises ValueError if rows are too few."""
    guarantees = guarantees_of(rule)
    _check_enough(guarantees, len(rows))
    order = torch.from_numpy(np.random.default_rng((seed, 17)).permutation(len(rows)))
    parts = list(order.tensor_split(len(guarantees)))
    kept: dict[Guarantee, Guarantee] = {}
    reasons: list[Reason] = []
    # Sets of labels come last: they are chosen at the stop, which the other guarantee decides on.
    for guarantee in sorted(guarantees, key=lambda one: isinstance(one, ConformalSet)):
        own = rows.take(parts.pop())
        if isinstance(guarantee, RiskControlled):
            kept[guarantee], reason = _keep_risk(guarantee, pursuer, own, without_guarantees(rule))
        else:
            assert isinstance(guarantee, ConformalSet)
            stopping = _with(rule, kept, leaving_out=guarantee)
            kept[guarantee], reason = _keep_sets(guarantee, pursuer, own, stopping)
        reasons.append(reason)
    found = _with(rule, kept)
    assert found is not None
    return found, tuple(reasons)


def _with(
    rule: StoppingRule, kept: dict[Guarantee, Guarantee], leaving_out: Guarantee | None = None
) -> StoppingRule | None:
    parts = [part for part in rule.parts if part is not leaving_out]
    return joined([kept.get(part, part) if isinstance(part, Guarantee) else part for part in parts])


def held_out_chains(pursuer: Pursuer, rows: Rows, stop: StoppingRule | None) -> HeldOutChains:
    """What the pursuer believes of rows from question to question, until `stop` or nothing is left to ask."""
    longest = min(
        [len(pursuer.query_set), *(part.n for part in (stop.parts if stop else ()) if isinstance(part, Budget))]
    )
    confidence = np.full((len(rows), longest + 1), -1.0, dtype=np.float32)
    wrong = np.ones((len(rows), longest + 1), dtype=bool)
    for step in pursue_in_batches(pursuer, rows.x, rows.available, stop, rows.initially_known):
        believed = step.log_posterior.max(dim=1)
        place = step.rows.numpy(), step.n_asked.long().numpy()
        confidence[place] = believed.values.exp().float().numpy()
        wrong[place] = (believed.indices != rows.y[step.rows]).numpy()
    return HeldOutChains(confidence, wrong)


def _keep_risk(
    guarantee: RiskControlled, pursuer: Pursuer, rows: Rows, stop: StoppingRule | None
) -> tuple[RiskControlled, Reason]:
    chains = held_out_chains(pursuer, rows, stop)
    levels: list[float]
    if guarantee.by_length:
        found = choose_levels(chains, guarantee.alpha, guarantee.delta)
        levels = [NEVER] if found is None else found.tolist()
    else:
        at_levels = chains.at_every_level()
        place = choose_level(*at_levels, chains.confidence.shape[1] - 1, guarantee.alpha, guarantee.delta)
        levels = [NEVER if place is None else float(LEVELS[place])]
    each = np.broadcast_to(np.array(levels, dtype=np.float32), chains.confidence.shape[1])  # one level is that of all
    stops = chains.stops(each)
    decided = stops < len(each)
    _warn_of_extremes(guarantee, decided, stops)
    asked = np.where(decided, stops, chains.lengths).mean()
    if decided.any():
        value = f"{decided.mean():.0%} of rows decided, {asked:.1f} questions a row"
        value += "" if guarantee.by_length else f", at a confidence of {levels[0]:.4g}"
    else:
        value = "no rows decided"
    return replace(guarantee, levels=tuple(levels)), Reason(
        str(guarantee), value, f"shown by {len(rows):,} held-out rows"
    )


def _warn_of_extremes(guarantee: RiskControlled, decided: np.ndarray, stops: np.ndarray) -> None:
    if not decided.any():
        warnings.warn(
            f"No confidence meets the guarantee {guarantee} for this model, as far as {len(decided):,} held-out rows "
            "show: every row will be left to a person. Guarantee less (a larger alpha or delta), or give more rows.",
            stacklevel=2,
        )
    elif not stops[decided].any() and decided.all():
        warnings.warn(
            f"The guarantee {guarantee} is met without a single question, by the most frequent label alone: choose a "
            "smaller alpha.",
            stacklevel=2,
        )


def _keep_sets(
    guarantee: ConformalSet, pursuer: Pursuer, rows: Rows, stop: StoppingRule | None
) -> tuple[ConformalSet, Reason]:
    labels = label_list(pursuer.classes)
    posterior = posterior_at_stop(pursuer, rows.x, rows.available, stop, rows.initially_known)
    of_right = posterior.gather(1, rows.y.clamp(min=0)[:, None])[:, 0].masked_fill(rows.y < 0, 0.0).numpy()
    y = rows.y.numpy()
    if guarantee.by_class:
        check_every_class([guarantee], labels, y)
        least = tuple(conformal_threshold(of_right[y == i], guarantee.alpha) for i in range(len(labels)))
    else:
        least = (conformal_threshold(of_right, guarantee.alpha),)
    kept = replace(guarantee, least=least)
    size = float(kept.label_set(posterior).sum(dim=1).double().mean())
    return kept, Reason(
        str(guarantee), f"{size:.2f} labels remain on average", f"chosen on {len(rows):,} held-out rows"
    )


def check_every_class(guarantees: Sequence[Guarantee], labels: Any, y: np.ndarray) -> None:
    """Raise ValueError if rows of the classes `y` (N,) are too few of any label for a guarantee class by class."""
    counts = np.bincount(y[y >= 0], minlength=len(labels))
    for guarantee in guarantees:
        if not isinstance(guarantee, ConformalSet) or not guarantee.by_class:
            continue
        # With two guarantees, each has a part of the rows.
        least = least_conformal_rows(guarantee.alpha)
        lacking = np.flatnonzero(counts < least * len(guarantees))
        if len(lacking):
            others = f" ({len(lacking) - 1} more labels have too few)" if len(lacking) > 1 else ""
            raise ValueError(
                f"{guarantee} takes at least {least * len(guarantees)} held-out rows of every label, and "
                f"'{labels[lacking[0]]}' has {counts[lacking[0]]}{others}: give more rows, a larger alpha, or leave "
                "by_class out."
            )
