"""Who leads a comparison, in words that follow from the figures: another JSON gives other sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pursuit.experiments.compare import EXACT, of_classes
from pursuit.experiments.results import Mean, Results
from pursuit.experiments.table import ALL_ANSWERS
from pursuit.methods import METHODS

VIP, RANDOM = "vip", "random"
BUDGETS = (1, 5, 10, 20)
"""After how many queries it is said who is ahead."""
NO_RIVALS = (ALL_ANSWERS, EXACT)
"""What has no curve, and what knows the distribution instead of learning it."""


@dataclass(frozen=True)
class Contestant:
    """A method in a comparison."""

    title: str
    area: Mean
    n_seeds: int
    curve: list[float]
    """Mean accuracy over seeds by the number of queries asked."""


def contestants(results: Results) -> dict[str, Contestant]:
    """The methods that learn what to ask, by name, the highest area first."""
    found = {
        name: Contestant(
            method.title,
            summary.area,
            summary.n_seeds,
            [sum(at) / len(at) for at in zip(*(one.evaluation.accuracy_by_asked for one in method.seeds), strict=True)],
        )
        for name, (method, summary) in results.worked.items()
        if name not in NO_RIVALS
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].area.mean))


def standings(results: Results) -> str:
    """Who has the highest area on a task and by how much, who is ahead after some queries, who is behind random order,
    and who was not measured."""
    found = contestants(results)
    reach = next(iter(results.worked.values()))[1].reach
    sentences = [
        f"Area {reach} queries: {_by_area(found)}.",
        f"Highest after {_by_budget(found)}.",
        *_behind_random(found),
        *_not_measured(results),
    ]
    return " ".join(sentences)


def _by_area(found: dict[str, Contestant]) -> str:
    first, *others = found.values()
    if not others:
        return f"only {first.title} was measured ({first.area.mean:.3f})"
    parts = [f"{first.title} has the highest, {first.area.mean:.3f}", f"then {_gap(first, others[0])}"]
    if VIP in found and found[VIP] not in (first, others[0]):
        parts.append(f"{_gap(first, found[VIP])}")
    return "; ".join(parts)


def _gap(ahead: Contestant, behind: Contestant) -> str:
    """Of the second: its area, how far it is behind, and whether seeds tell the two apart."""
    gap = ahead.area.mean - behind.area.mean
    return f"{behind.title} {behind.area.mean:.3f}, {gap:.3f} behind ({_certainty(ahead, behind, gap)})"


def _certainty(ahead: Contestant, behind: Contestant, gap: float) -> str:
    if min(ahead.n_seeds, behind.n_seeds) == 1:
        return "one seed"
    error = sum(one.area.sd**2 / one.n_seeds for one in (ahead, behind)) ** 0.5
    return "more than two standard errors over seeds" if gap > 2 * error else "within two standard errors over seeds"


def _by_budget(found: dict[str, Contestant]) -> str:
    shown = [n for n in BUDGETS if all(n < len(one.curve) for one in found.values())]
    leaders = [(n, max(found.values(), key=lambda one: one.curve[n])) for n in shown]
    parts = []
    for title, group in groupby(leaders, key=lambda item: item[1].title):
        at = [(n, one) for n, one in group]
        beside = ""
        if VIP in found and title != found[VIP].title:
            own = ", ".join(f"{one.curve[n]:.3f} against {found[VIP].curve[n]:.3f}" for n, one in at)
            beside = f" ({own} of {found[VIP].title})"
        noun = "query" if [n for n, _ in at] == [1] else "queries"
        parts.append(f"{_listed([str(n) for n, _ in at])} {noun}: {title}{beside}")
    return "; after ".join(parts)


def _behind_random(found: dict[str, Contestant]) -> list[str]:
    if RANDOM not in found:
        return []
    behind = [one.title for one in found.values() if one.area.mean < found[RANDOM].area.mean]
    return [f"Behind random order: {_listed(behind)}."] if behind else ["None is behind random order."]


def _not_measured(results: Results) -> list[str]:
    """The methods of the program that are not in the comparison; V-IP's two queriers count as one method."""
    wanted = [name for name in of_classes(METHODS) if name not in NO_RIVALS and not name.startswith(VIP)]
    absent = [METHODS[name].title for name in wanted if name not in results.worked]
    absent += [] if any(name.startswith(VIP) for name in results.worked) else [METHODS[VIP].title]
    return [f"Not measured: {_listed(sorted(absent))}."] if absent else []


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
