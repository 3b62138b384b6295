"""What a trained model is measured beside: random order, exact IP, and a black box that sees all answers."""

from collections.abc import Callable

from pursuit.data.rows import Rows, StreamedRows
from pursuit.estimators import PursuitClassifier
from pursuit.evaluation.curves import Evaluation, evaluate
from pursuit.experiments.results import Beside
from pursuit.methods.random_order import RandomOrder
from pursuit.tasks.task import Task

RANDOM_ORDER, EXACT_IP, LOGISTIC_REGRESSION = "random order", "exact IP", "logistic regression"

Measure = Callable[[PursuitClassifier, Task, Rows, int | None, str], Beside | None]
"""Takes a trained classifier, its task, the rows to measure on, the longest curve and the device."""


def measure_beside(
    title: str, classifier: PursuitClassifier, task: Task, rows: Rows, max_queries: int | None, device: str
) -> Beside | None:
    """The pursuer of this title on the same rows; None if the task does not have it."""
    return MEASURES[title](classifier, task, rows, max_queries, device)


def _random_order(
    classifier: PursuitClassifier, task: Task, rows: Rows, max_queries: int | None, device: str
) -> Beside:
    """The same classifier on queries in random order."""
    return _measured(evaluate(RandomOrder(classifier.model_, seed=0), rows, None, max_queries, device))


def _exact(
    classifier: PursuitClassifier, task: Task, rows: Rows, max_queries: int | None, device: str
) -> Beside | None:
    return _measured(evaluate(task.exact(), rows, None, max_queries, device)) if task.exact else None


def _logistic_regression(
    classifier: PursuitClassifier, task: Task, rows: Rows, max_queries: int | None, device: str
) -> Beside | None:
    """On all answers at once; on few rows its strength is chosen on a fifth of them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, ShuffleSplit

    if isinstance(task.X_train, StreamedRows) or rows.x.dim() != 2:
        return None
    train = classifier.rows(task.X_train, task.y_train)
    (X, y), (X_test, y_test) = ((part.x.numpy(), part.y.numpy()) for part in (train, rows))
    if len(y) > 20_000:
        regression = LogisticRegression(C=0.1, max_iter=200)
    else:
        held_out = ShuffleSplit(1, test_size=0.2, random_state=0)
        regression = GridSearchCV(LogisticRegression(max_iter=200), {"C": [0.01, 0.1, 1.0]}, cv=held_out)
    return Beside(accuracy_all_answers=float(regression.fit(X, y).score(X_test, y_test)))


def _measured(evaluation: Evaluation) -> Beside:
    curve, by_cost = evaluation.accuracy_by_asked, evaluation.accuracy_by_cost
    return Beside(curve, evaluation.area, evaluation.accuracy_all_answers, by_cost)


MEASURES: dict[str, Measure] = {
    RANDOM_ORDER: _random_order,
    EXACT_IP: _exact,
    LOGISTIC_REGRESSION: _logistic_regression,
}
