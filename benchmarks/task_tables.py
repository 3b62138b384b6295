"""The tables of docs/results/tasks.md beneath its first one, each from what the JSON of the runs says."""

from pursuit.evaluation import Evaluation
from pursuit.experiments.beside import EXACT_IP, LOGISTIC_REGRESSION
from pursuit.experiments.reproduce import (
    NOT_COMPARABLE,
    NOT_MEASURED,
    black_box_of,
    interval_text,
    measured_or_not,
    published_for,
    vip_of,
)
from pursuit.experiments.results import NOTHING, Beside, Mean, Results, mean_and_sd, mean_and_spread
from pursuit.tasks import TASKS
from pursuit.tasks.recipe import Published
from report import table

FEW_ROWS = 200
"""Up to this many test rows, a table of its own says what they leave open."""
PICKED = "picked on test rows"
SHOWN_RULES = (
    *(f"confidence={level}" for level in (0.8, 0.9, 0.94, 0.95, 0.99)),
    *(f"stability={epsilon}" for epsilon in ("0.01", "0.01443", "0.001", "0.001443", "0.001x3", "0.001443x3")),
)
PROTOCOLS = """\
## Three protocols for the images of MNIST and its kin

The paper states no cap on the length of chains; its released code asks at most 21 queries, and records a belief before
it reveals the answer, so that the last query counted is not answered. Each row stops at a confidence of its own, chosen
on a tenth of the training images, which were not learnt from, such that as many queries are counted there as the paper
prints on average; test images were then measured once with it. Queries are counted as the protocol does.
"""
SAME_LENGTH = """\
## At the paper's length

Accuracy at the stopping rule, among those measured, that asks most nearly as many queries as the paper's. A confidence
or a stability here was picked by its length on the test rows themselves; a budget needs no picking.
"""
EXACT = """\
## V-IP beside exact Information Pursuit

The printed figures of SymCAT are not comparable: that of symcat-200 is more than exact Information Pursuit has on
patients drawn from the public table, so that the paper's patients differ. What judges these rows is the gap to exact IP
on the same patients.
"""
TRADE_OFF = """\
## Length against accuracy

What other stopping rules give on the same chains: the mean number of queries, and the accuracy. No rule asks beyond the
end of the curve. Stability is in bits; older runs measured it in nats, and 0.01443 bits are the 0.01 nats of then.
"""


def sections(measured: dict[str, Results]) -> list[str]:
    """Everything between the notes and the figures."""
    without_options = {name: results for name, results in measured.items() if not results.run["options"]}
    return [
        protocol_table(without_options),
        same_length_table(without_options),
        exact_table(measured),
        interval_table(measured),
        black_box_table(without_options),
        trade_off_table(without_options),
    ]


def protocol_table(measured: dict[str, Results]) -> str:
    """What the protocols of a task give."""
    rows = []
    for name, results in measured.items():
        info = TASKS.get(results.run["task"])
        if info is None or not info.protocols:
            continue
        summary, published = vip_of(results)[1], info.published
        paper = f"{published.mean_answered}, {published.accuracy}" if published else NOTHING
        for protocol in info.protocols:
            if found := summary.protocols.get(protocol.name):
                level = f"{found.level.mean:.4f}" + (f" ± {found.level.sd:.4f}" if found.level.sd else "")
                counted = (f"{mean.mean:.2f}" for mean in (found.mean_held_out, found.mean_counted))
                accuracy = mean_and_spread(found.accuracy), interval_text(found.accuracy)
                cells = [level, *counted, f"{found.cut_short.mean:.1%}", *accuracy, str(summary.n_seeds)]
            else:
                cells = [NOT_MEASURED, *[NOTHING] * 6]
            rows.append([name, protocol.name, *cells, paper])
    columns = ["run", "protocol", "confidence", "queries held out", "queries, test", "cut short", "accuracy"]
    columns += ["95 % interval", "seeds", "paper: queries, accuracy"]
    return PROTOCOLS + "\n" + table(columns, rows)


def same_length_table(measured: dict[str, Results]) -> str:
    rows = []
    for name, results in measured.items():
        published = published_for(results.run["task"])
        if published and (found := at_published_length(results)):
            rule, queries, accuracy = found
            paper = f"{published.mean_answered}, {published.accuracy}"
            rows.append([name, rule, f"{queries:.2f}", f"{accuracy:.3f}", paper])
    columns = ["run", "rule", "queries", "accuracy", "paper: queries, accuracy"]
    return SAME_LENGTH + "\n" + table(columns, rows)


def exact_table(measured: dict[str, Results]) -> str:
    rows = []
    for name, results in measured.items():
        found, _ = vip_of(results)
        one = found.seeds[0]
        if exact := one.beside.get(EXACT_IP):
            printed = published_in_brief(published_for(results.run["task"]))
            rows.append([name, found.title, *_curve_cells(one.evaluation), gap_to_exact(results), printed])
            rows.append([name, EXACT_IP, *_curve_cells(exact), NOTHING, NOTHING])
    columns = ["run, first seed", "pursuer", "after 5", "10", "15", "20", "all answers"]
    return EXACT + "\n" + table([*columns, "behind exact IP after 20, all seeds", "paper's V-IP"], rows)


def gap_to_exact(results: Results, n: int = 20) -> str:
    """How far V-IP is behind exact IP after n queries, over seeds; nothing where exact IP is not known."""
    gaps = []
    for seed in vip_of(results)[0].seeds:
        exact = seed.beside[EXACT_IP].accuracy_by_asked if EXACT_IP in seed.beside else None
        if exact and n < len(exact) and n < len(seed.evaluation.accuracy_by_asked):
            gaps.append(exact[n] - seed.evaluation.accuracy_by_asked[n])
    return mean_and_spread(mean_and_sd(gaps)) if gaps else ""


def _curve_cells(measured: Evaluation | Beside) -> list[str]:
    curve = measured.accuracy_by_asked
    assert curve is not None
    return [*(f"{curve[n]:.3f}" for n in (5, 10, 15, 20)), f"{measured.accuracy_all_answers:.3f}"]


def interval_table(measured: dict[str, Results]) -> str:
    rows = []
    for name, results in measured.items():
        found, summary = vip_of(results)
        after = summary.accuracy_after.get(20)
        if found.seeds[0].n_test <= FEW_ROWS and after:
            n_test = found.seeds[0].n_test
            rows.append([name, summary.n_seeds, n_test, f"{after.mean:.3f}", f"{after.sd:.3f}", interval_text(after)])
    columns = ["run", "seeds", "test rows", "mean", "sd over seeds", "95 % interval over seeds and rows"]
    return "## Small test sets: accuracy after 20 queries\n\n" + table(columns, rows)


def black_box_table(measured: dict[str, Results]) -> str:
    """With all answers: V-IP's own classifier and those that learnt from all answers alone."""
    rows = []
    for name, results in measured.items():
        summary = vip_of(results)[1]
        box, regression = black_box_of(results), _logistic_regression(results)
        published = published_for(results.run["task"])
        printed = published.black_box if published else None
        rows.append(
            [
                name,
                mean_and_spread(summary.accuracy_all_answers),
                measured_or_not(box),
                f"{summary.accuracy_all_answers.mean - box.mean:+.3f}" if box else NOTHING,
                mean_and_spread(regression),
                NOTHING if printed is None else f"{printed:.3f}",
            ]
        )
    columns = ["run", "V-IP", "black box, the same network", "V-IP minus black box", "logistic regression"]
    return "## All answers at once\n\n" + table([*columns, "paper's black box"], rows)


def _logistic_regression(results: Results) -> Mean | None:
    seeds = vip_of(results)[0].seeds
    found = [seed.beside[LOGISTIC_REGRESSION] for seed in seeds if LOGISTIC_REGRESSION in seed.beside]
    right = [one.accuracy_all_answers for one in found if one.accuracy_all_answers is not None]
    return mean_and_sd(right) if right else None


def trade_off_table(measured: dict[str, Results]) -> str:
    rows = []
    for name, results in measured.items():
        found = _by_rule(results)
        cells = [f"{found[rule][0]:.2f}, {found[rule][1]:.3f}" if rule in found else NOTHING for rule in SHOWN_RULES]
        rows.append([name, *cells])
    return TRADE_OFF + "\n" + table(["run", *SHOWN_RULES], rows)


def _by_rule(results: Results) -> dict[str, tuple[float, float]]:
    """Mean number of queries and accuracy of every stopping rule, averaged over seeds."""
    values: dict[str, list[tuple[float, float]]] = {}
    for seed in vip_of(results)[0].seeds:
        for stop in (seed.evaluation.at_stop, *seed.evaluation.trade_off):
            if stop:
                values.setdefault(stop.rule, []).append((stop.mean_asked, stop.accuracy))
    return {
        rule: (sum(n for n, _ in pairs) / len(pairs), sum(right for _, right in pairs) / len(pairs))
        for rule, pairs in values.items()
    }


def at_published_length(results: Results) -> tuple[str, float, float] | None:
    """The rule that asks most nearly as many queries as the paper's V-IP, how many, and its accuracy."""
    published = published_for(results.run["task"])
    if published is None or published.mean_answered is None:
        return None
    wanted = published.mean_answered
    curves = [seed.evaluation.accuracy_by_asked for seed in vip_of(results)[0].seeds]
    fixed = {f"budget={n}": (n, sum(right) / len(right)) for n, right in enumerate(zip(*curves, strict=True))}
    rules = {**_by_rule(results), **fixed}
    rule, (queries, accuracy) = min(rules.items(), key=lambda item: abs(item[1][0] - wanted))
    return rule, queries, accuracy


def headlines(results: Results) -> list[tuple[str, str]]:
    """In short, numbers of queries and the accuracy there: of every protocol, or else of a rule that asks about as many
    as the paper's, or else of the recipe's rule."""
    summary = vip_of(results)[1]
    if summary.protocols:
        return [
            (f"{found.mean_counted.mean:.2f} ({name})", mean_and_spread(found.accuracy))
            for name, found in summary.protocols.items()
        ]
    if chosen := at_published_length(results):
        rule, queries, accuracy = chosen
        caveat = "" if rule.startswith("budget") else f", {PICKED}"
        return [(f"{queries:.1f} ({rule}{caveat})", f"{accuracy:.3f}")]
    stop = summary.at_stop
    assert stop is not None
    return [(f"{stop.mean_asked.mean:.1f} ({stop.rule})", mean_and_spread(stop.accuracy))]


def published_in_brief(published: Published | None) -> str:
    """The figure of the paper's V-IP, and whether it can be compared."""
    if published is None:
        return NOTHING
    caveat = "" if published.comparable else f" ({NOT_COMPARABLE})"
    if published.after_20 is not None:
        return f"{published.after_20:.3f} after 20{caveat}"
    return f"{published.accuracy:.3f} after {published.mean_answered}{caveat}"


def provenance(measured: dict[str, Results]) -> str:
    rows = []
    for name, results in measured.items():
        seeds = vip_of(results)[0].seeds
        first, where = seeds[0], seeds[0].provenance
        numbers, training, measuring = (
            ", ".join(str(round(value or 0)) for value in values)
            for values in zip(
                *((seed.seed, seed.training_seconds, seed.measuring_seconds) for seed in seeds), strict=True
            )
        )
        machine = [where["device"], where["machine"], training, measuring]
        rows.append(
            [name, where["commit"], numbers, *machine, f"{first.n_histories:,}", where["torch"], where["python"]]
        )
    columns = ["run", "commit", "seeds", "device", "machine", "training s", "measuring s"]
    return "## Where the numbers come from\n\n" + table([*columns, "histories", "torch", "python"], rows)
