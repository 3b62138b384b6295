"""A report on a model: how good it is, how far to trust it, what it asks, and where its questions lead."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pursuit.estimators import PursuitClassifier, PursuitEstimator, PursuitRegressor
from pursuit.evaluation import ClassResult, ClassResults, Evaluation, QuestionUse, RegressionEvaluation
from pursuit.evaluation.tree import TreeNode, question_tree
from pursuit.files import write_whole
from pursuit.inference.pursuer import label_text
from pursuit.inference.stopping import StoppingRule
from pursuit.queries import QuerySet
from pursuit.report.facts import ModelFacts, quality, share
from pursuit.report.html import Markup, bar, card, details, element, paragraph, table
from pursuit.report.kept import Measured
from pursuit.report.page import page
from pursuit.report.svg import curve, figure, patch_map, patch_place, reliability_figure
from pursuit.report.tree import tree_list

REPORT_SCHEMA = "pursuit/report/1"
"""The version of the JSON that reports are written as: docs/schemas/report-1.json describes it."""
MOST_ROWS = 25
"""How many classes and questions are shown at first; the rest is folded."""
MOST_IN_MATRIX = 12
"""Of more classes, the mistakes made most often are listed instead."""


@dataclass(frozen=True)
class ModelReport:
    """All that a person should look at before a model is used; as a page or as JSON."""

    facts: ModelFacts
    evaluation: Evaluation | RegressionEvaluation
    tree: TreeNode
    query_set: QuerySet

    @classmethod
    def of(
        cls,
        estimator: PursuitEstimator,
        X: Any,
        y: Any,
        stop: StoppingRule | str | None = None,
        *,
        initially_known: Any = None,
        depth: int = 3,
        name: str = "",
        evaluation: Evaluation | RegressionEvaluation | None = None,
    ) -> "ModelReport":
        """Measure a model on rows X with labels y, which it should not have been trained on; the tree has `depth`
        levels of questions. With an `evaluation` of more rows, only the tree is that of these."""
        if not isinstance(estimator, PursuitClassifier | PursuitRegressor):
            raise ValueError(f"A report is on a classifier or a regressor, not on {type(estimator).__name__}.")
        if evaluation is None:
            options: dict[str, Any] = {"initially_known": initially_known, "depth": depth, "name": name}
            return cls.from_measured(estimator, Measured.of(estimator, X, y, stop, **options), stop)
        rows, rule = estimator.rows(X, y, initially_known=initially_known), estimator.stopping_rule(stop)
        tree = question_tree(estimator.model_, rows, rule, depth, estimator.device)
        return cls(ModelFacts.of(estimator, name, stop), evaluation, tree, estimator.model_.query_set)

    @classmethod
    def from_measured(
        cls, estimator: PursuitEstimator, measured: Measured, stop: StoppingRule | str | None = None
    ) -> "ModelReport":
        """A report of what was measured before."""
        facts = ModelFacts.of(estimator, measured.name, stop)
        return cls(facts, measured.evaluation, measured.tree, estimator.model_.query_set)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values, as docs/schemas/report-1.json describes them."""
        facts = asdict(self.facts)
        measured = {"evaluation": self.evaluation.to_dict(), "tree": self.tree.to_dict()}
        return {"schema": REPORT_SCHEMA, "task": self.facts.name, "model": facts, **measured}

    def html(self) -> str:
        """The report as a page that is whole by itself."""
        is_number = isinstance(self.evaluation, RegressionEvaluation)
        contents = [
            ("quality", "Quality"),
            ("trust", "Trust"),
            *([] if is_number else [("classes", "Classes")]),
            ("questions", "Questions"),
            ("tree", "Tree"),
        ]
        classes = [] if isinstance(self.evaluation, RegressionEvaluation) else self._classes(self.evaluation)
        body = [self._summary(), self._quality(), self._trust(), *classes, self._questions(), self._tree()]
        return page(self.facts.name, "a model before it is used", body, contents)

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        write_whole(Path(path), self.html().encode())

    def _summary(self) -> Markup:
        shown = _numbers(self.evaluation)
        facts = element(
            "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in shown), class_="facts"
        )
        return element(
            "section", element("h1", self.facts.name), facts, *(paragraph(line) for line in self.facts.sentences())
        )

    def _quality(self) -> Markup:
        lines = [paragraph(line) for line in quality(self.evaluation, self.facts.name)]
        return card("How good it is", *lines, _accuracy(self.evaluation), id_="quality")

    def _trust(self) -> Markup:
        evaluation, title = self.evaluation, "How far to trust it"
        if isinstance(evaluation, RegressionEvaluation):
            scores = evaluation.at_stop or evaluation.all_answers
            return card(
                title,
                paragraph(
                    "A prediction comes with a range that should hold the true number in 90% of all cases. Here it did "
                    f"in {share(scores.coverage)}; on average it is {scores.width:.3g} wide."
                ),
                id_="trust",
            )
        if evaluation.reliability is None or evaluation.at_stop is None:
            return card(title, paragraph("This was not measured."), id_="trust")
        rows = [
            (
                f"{share(one.low)} to {share(one.high)}",
                f"{one.n_rows:,}",
                share(one.confidence),
                share(one.accuracy),
                f"{share(one.accuracy_interval[0])} to {share(one.accuracy_interval[1])}",
            )
            for one in evaluation.reliability
        ]
        head = ("how sure", "rows", "sure on average", "right", "95% interval")
        error = evaluation.at_stop.calibration_error
        picture = reliability_figure(
            evaluation.reliability,
            f"Reliability: how often the model is right for each level of how sure it is. Mean gap {share(error)}.",
        )
        caption = "Points on the dashed line: as often right as it is sure. Columns: how many rows there are."
        return card(
            title,
            paragraph(
                f"When it says 80%, it should be right in 80% of such cases. How sure it is and how often it is right "
                f"differ by {share(error)} on average (the expected calibration error)."
            ),
            element(
                "div",
                figure(picture, caption),
                table("How often it is right, by how sure it is", head, rows),
                class_="half",
            ),
            *_trust_by_step(evaluation),
            id_="trust",
        )

    def _classes(self, evaluation: Evaluation) -> list[Markup]:
        results = evaluation.by_class
        if results is None:
            return []
        order = (
            sorted(results.classes, key=lambda one: -one.n_rows)
            if len(results.classes) > MOST_ROWS
            else results.classes
        )
        shown, rest = order[:MOST_ROWS], order[MOST_ROWS:]
        parts = [_class_table("Every label", shown) if not rest else _class_table("The most frequent labels", shown)]
        if rest:
            parts.append(details(f"The other {len(rest):,} labels", _class_table("The other labels", rest)))
        note = (
            "Right when said: of the rows that were given this label, how many have it (precision). Found: of the rows "
            "that have it, how many were given it (recall)."
        )
        return [
            card("Label by label", *parts, paragraph(note, class_="small lead"), id_="classes"),
            card("What is taken for what", _confusion(results)),
        ]

    def _questions(self) -> Markup:
        title, uses = "What it asks", self.evaluation.questions
        if uses is None:
            return card(title, paragraph("This was not measured."), id_="questions")
        asked = [use for use in uses if use.share_asked > 0]
        parts: list[Markup] = []
        if self.query_set.patches is not None:
            by_name = {use.name: use.share_asked for use in uses}
            shares = [by_name[query.name] for query in self.query_set.queries]
            picture = patch_map(self.query_set.patches, shares, "How often each patch of the image is asked for")
            parts.append(
                figure(picture, f"Darker patches are asked for more often, up to {share(max(shares))} of the rows.")
            )
        parts.append(self._use_table("Questions by how many rows are asked them", asked[:MOST_ROWS]))
        if rest := asked[MOST_ROWS:]:
            parts.append(details(f"{len(rest):,} more questions", self._use_table("Questions asked more rarely", rest)))
        if n_never := len(uses) - len(asked):
            names = ", ".join(use.text for use in uses if use.share_asked == 0)
            parts.append(details(f"{n_never:,} questions are never asked", paragraph(names)))
        note = (
            "Place: 1 is what is asked first. Expected and gained: how much of what is open the answer was expected to "
            "settle, and did settle, in bits; the answer to a perfect yes-or-no question settles one."
        )
        return card(title, *parts, paragraph(note, class_="small lead"), id_="questions")

    def _use_table(self, caption: str, uses: list[QuestionUse]) -> Markup:
        head = ("question", "asked of", "answered", "place", "expected", "gained")
        rows = [
            (
                self._question(use),
                element("span", share(use.share_asked), bar(use.share_asked)),
                _or_dash(use.share_answered, share),
                _or_dash(use.mean_position, lambda value: f"{value:.1f}"),
                _or_dash(use.mean_bits, lambda value: f"{value:.2f}"),
                _or_dash(use.mean_gained, lambda value: f"{round(value, 2) + 0.0:.2f}"),
            )
            for use in uses
        ]
        return table(caption, head, rows)

    def _question(self, use: QuestionUse) -> Markup:
        if self.query_set.patches is None:
            return element("span", use.text)
        place = patch_place(self.query_set.patches, self.query_set.index_of[use.name])
        return element("span", place, use.text)

    def _tree(self) -> Markup:
        note = (
            "Every row starts at the top. Below each question are its answers, with what is believed most there "
            "and how many rows go that way. Numbers are put together into ranges, cut where beliefs differ most."
        )
        if self.tree.n_rows < self.evaluation.n_rows:
            note += f" It shows the first {self.tree.n_rows:,} of the {self.evaluation.n_rows:,} rows."
        return card("The first questions", paragraph(note), tree_list(self.tree, self.query_set), id_="tree")


def _numbers(evaluation: Evaluation | RegressionEvaluation) -> list[tuple[str, str]]:
    """The few numbers that say most."""
    rows = ("rows measured", f"{evaluation.n_rows:,}")
    if isinstance(evaluation, RegressionEvaluation):
        scores = evaluation.at_stop or evaluation.all_answers
        found = [
            ("off by, on average", f"{scores.mae:.3g}"),
            ("of differences explained (R²)", share(max(0.0, scores.r2))),
        ]
    else:
        right = evaluation.accuracy_all_answers if evaluation.at_stop is None else evaluation.at_stop.accuracy
        found = [("right", share(right))]
    if evaluation.at_stop is not None:
        found.append((f"questions asked, of {evaluation.n_queries:,}", f"{evaluation.at_stop.mean_asked:.1f}"))
        if evaluation.at_stop.mean_cost != evaluation.at_stop.mean_asked:
            found.append(("cost, on average", f"{evaluation.at_stop.mean_cost:.3g}"))
    return [*found, rows]


def _accuracy(evaluation: Evaluation | RegressionEvaluation) -> Markup:
    """The curve against the number of questions."""
    stop = evaluation.at_stop
    if isinstance(evaluation, RegressionEvaluation):
        values, what = [point.r2 for point in evaluation.by_asked], "Share of the differences explained (R²)"
        reached = None if evaluation.at_stop is None else evaluation.at_stop.r2
    else:
        values, what = evaluation.accuracy_by_asked, "Share of the rows that are right"
        reached = None if evaluation.at_stop is None else evaluation.at_stop.accuracy
    mark = (
        None
        if stop is None or reached is None
        else (min(stop.mean_asked, len(values) - 1), reached, "stops here on average")
    )
    title = f"{what}, by the number of questions: {share(values[0])} before the first, {share(values[-1])} at the end."
    drawing = curve(values, title, "questions asked", "right" if what.endswith("right") else "explained (R²)", mark)
    rows = [(str(n), share(value)) for n, value in enumerate(values)]
    numbers = details("The same in numbers", table(what, ("questions asked", "share"), rows))
    return element("div", figure(drawing, f"{what}, by the number of questions asked of every row."), numbers)


def _trust_by_step(evaluation: Evaluation) -> list[Markup]:
    """How sure and how right it is after each number of questions."""
    sure, right = evaluation.confidence_by_asked, evaluation.accuracy_by_asked
    if not sure:
        return []
    columns = (right, sure, evaluation.calibration_error_by_asked, evaluation.brier_by_asked)
    rows = [
        (str(n), *map(share, values[:3]), f"{values[3]:.3f}") for n, values in enumerate(zip(*columns, strict=True))
    ]
    head = ("questions asked", "right", "sure on average", "mean gap", "Brier score")
    title = "How often it is right, and how sure it is on average, by the number of questions."
    drawing = curve(right, title, "questions asked", "right, sure", beside=sure)
    caption = "Line: how often it is right. Dashed: how sure it is. The closer they are, the better."
    note = (
        "Brier score: the squared distance between what was believed and what was true, summed over the labels; 0 is "
        "perfect."
    )
    numbers = details("The same in numbers", table(title, head, rows), paragraph(note, class_="small lead"))
    return [element("div", figure(drawing, caption), numbers)]


def _class_table(caption: str, classes: "list[ClassResult] | tuple[ClassResult, ...]") -> Markup:
    head = ("label", "rows", "right when said", "found", "F1", "questions")
    rows = [
        (
            label_text(one.label),
            f"{one.n_rows:,}",
            share(one.precision),
            share(one.recall) if one.n_rows else "–",
            f"{one.f1:.2f}" if one.n_rows else "–",
            _or_dash(one.mean_asked, lambda value: f"{value:.1f}"),
        )
        for one in classes
    ]
    return table(caption, head, rows)


def _confusion(results: ClassResults) -> Markup:
    mistakes = results.most_confused(MOST_ROWS)
    if not mistakes:
        return paragraph("No row was given a wrong label.")
    if len(results.classes) > MOST_IN_MATRIX:
        rows = [(label_text(true), label_text(taken), f"{n:,}") for true, taken, n in mistakes]
        return table("The mistakes made most often", ("true label", "was taken for", "rows"), rows, numbers_from=2)
    most = max(max(row) for row in results.confusion)
    labels = [label_text(label) for label in results.labels]
    top = element(
        "tr",
        element("th", "true label ↓, taken for →", scope="col"),
        *(element("th", name, scope="col") for name in labels),
    )
    body = [
        element(
            "tr",
            element("th", name, scope="row"),
            *(
                element("td", f"{n:,}" if n else "·", class_="right" if i == j else None, style=_shade(n / most))
                for j, n in enumerate(row)
            ),
        )
        for i, (name, row) in enumerate(zip(labels, results.confusion, strict=True))
    ]
    caption = "How many rows of each true label were taken for which; framed where that is right"
    whole = element(
        "table", element("caption", caption), element("thead", top), element("tbody", *body), class_="matrix"
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _shade(share_of_most: float) -> str | None:
    """A tint that text can be read on in both themes."""
    if not share_of_most:
        return None
    return f"background:color-mix(in srgb, var(--bar) {20 + 80 * share_of_most**0.5:.0f}%, transparent)"


def _or_dash(value: float | None, write: Any) -> str:
    return "–" if value is None else write(value)
