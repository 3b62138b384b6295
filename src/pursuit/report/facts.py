"""A model and its quality, in sentences for people who know nothing of machine learning."""

from dataclasses import dataclass
from typing import Any

from pursuit.estimators import PursuitEstimator
from pursuit.evaluation import Evaluation, RegressionEvaluation
from pursuit.evaluation.calibration import N_BINS
from pursuit.evaluation.changed import ChangedAnswers
from pursuit.inference.pursuer import label_list, label_text
from pursuit.inference.stopping import (
    AnyOf,
    Budget,
    Confidence,
    CostBudget,
    IntervalWidth,
    Never,
    NothingWorthAsking,
    Stability,
    StoppingRule,
)
from pursuit.inference.target_bins import target_of
from pursuit.methods import method_of
from pursuit.sessions.experience import FEW_ROWS

MOST_LABELS = 12


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a model."""

    name: str
    """The subject of the model."""
    method: str
    """The title of its method."""
    labels: tuple[Any, ...] | None
    """The labels it predicts; None if it predicts a number."""
    n_queries: int
    """Number of questions it may ask."""
    rule: str
    """The rule by which it stops asking."""
    stop: str
    """The same in words."""
    trained_on: str
    """The data it was trained on; empty if unknown."""

    @classmethod
    def of(cls, estimator: PursuitEstimator, name: str = "", stop: StoppingRule | str | None = None) -> "ModelFacts":
        """Those of a trained estimator that asks until `stop`; by default it is named after its training data."""
        trained, model = estimator.notes_.get("task", {}), estimator.model_
        rule = estimator.stopping_rule(stop)
        return cls(
            name=name or trained.get("name") or method_of(estimator).title,
            method=method_of(estimator).title,
            labels=None if target_of(model) is not None else tuple(label_list(model.classes)),
            n_queries=len(model.query_set),
            rule=str(rule),
            stop=rule_in_words(rule),
            trained_on=_trained_on(trained),
        )

    def sentences(self) -> list[str]:
        """The facts, a sentence each."""
        asks = f"It may ask {count(self.n_queries, 'question')}, one after the other, and chooses each by the answers"
        asks = f"{asks} before it ({self.method})."
        found = [self.predicts(), asks, self.stop]
        return [*found, self.trained_on] if self.trained_on else found

    def predicts(self) -> str:
        if self.labels is None:
            return "This model predicts a number, and says between which numbers it lies."
        listed = ", ".join(map(label_text, self.labels[:MOST_LABELS]))
        more = f" and {len(self.labels) - MOST_LABELS} more" if len(self.labels) > MOST_LABELS else ""
        return f"This model says which of {len(self.labels):,} labels fits: {listed}{more}."


def _trained_on(trained: dict[str, Any]) -> str:
    if not trained:
        return ""
    rows = f" ({trained['n_rows']:,} rows with a label)" if "n_rows" in trained else ""
    target = f", to predict the column “{trained['target']}”" if trained.get("target") else ""
    return f"It was trained on {trained.get('file', trained.get('name'))}{rows}{target}."


def rule_in_words(rule: StoppingRule) -> str:
    """When asking ends, as a sentence."""
    rules = rule.rules if isinstance(rule, AnyOf) else (rule,)
    if all(isinstance(one, Never) for one in rules):
        return "It stops once everything was asked."
    reasons = [_reason_to_stop(one) for one in rules if not isinstance(one, Never)]
    return f"It stops asking once {', or '.join(reasons)}."


def _reason_to_stop(rule: StoppingRule) -> str:
    match rule:
        case Confidence(level=level):
            return f"it is {100 * level:g}% sure"
        case Budget(n=n):
            return f"it has asked {count(n, 'question')}"
        case NothingWorthAsking(bits=bits):
            return f"no question left is expected to tell {bits:g} bit{'' if bits == 1 else 's'} or more"
        case Stability(n=n):
            return f"{count(n, 'answer')} in a row changed hardly anything ({rule})"
        case CostBudget(units=units):
            return f"another question would cost more than {units:g} in all"
        case IntervalWidth(width=width, coverage=coverage):
            return f"it can place the number within {width:g} ({coverage:.0%} sure)"
    return f"the rule {rule} says so"


def quality(evaluation: Evaluation | RegressionEvaluation, name: str) -> list[str]:
    """The quality of the model, in sentences."""
    rows = f"{evaluation.n_rows:,} rows of {name} whose true result is known"
    if isinstance(evaluation, RegressionEvaluation):
        return _quality_of_numbers(evaluation, rows)
    stop = evaluation.at_stop
    if stop is None:
        return [f"Measured on {rows}: {share(evaluation.accuracy_all_answers)} are right once everything is asked."]
    low, high = stop.accuracy_interval
    return [
        *no_better_than_guessing(evaluation),
        f"Measured on {rows}, it is right in {share(stop.accuracy)} of them "
        f"(on other rows of the same kind, most likely between {share(low)} and {share(high)}).",
        f"It asks {stop.mean_asked:.1f} of {count(evaluation.n_queries, 'question')} on average. "
        f"With the answers to all of them it would be right in {share(evaluation.accuracy_all_answers)}.",
        overall_trust(stop.mean_confidence, stop.accuracy, (low, high)),
    ]


def _quality_of_numbers(evaluation: RegressionEvaluation, rows: str) -> list[str]:
    stop = evaluation.at_stop
    found = stop or evaluation.all_answers
    sentences = [
        *no_better_than_guessing(evaluation),
        f"Measured on {rows}, its predictions are off by {found.mae:.3g} on average, and explain "
        f"{share(max(0, found.r2))} of the differences between rows.",
    ]
    if stop is not None:
        sentences.append(f"It asks {stop.mean_asked:.1f} of {count(evaluation.n_queries, 'question')} on average.")
    sentences.append(f"The range it gives as 90% sure holds the true number in {share(found.coverage)} of the rows.")
    return sentences


def no_better_than_guessing(evaluation: Evaluation | RegressionEvaluation) -> list[str]:
    """A sentence on a model that knows no more than somebody who always says the same; nothing if it knows more."""
    if isinstance(evaluation, RegressionEvaluation):
        scores = evaluation.at_stop or evaluation.all_answers
        return ["This model is no better than always saying the mean."] if scores.r2 <= 0 else []
    stop, guess = evaluation.at_stop, evaluation.most_frequent
    if stop is None or guess is None or stop.accuracy_interval[0] > guess.n_rows / evaluation.n_rows:
        return []
    return [
        f"As far as {count(evaluation.n_rows, 'row')} can tell, this model is no better than guessing: always saying "
        f"“{label_text(guess.label)}” is right in {share(guess.n_rows / evaluation.n_rows)}."
    ]


def changed_in_words(changed: ChangedAnswers | None) -> list[str]:
    """How far results move if answers are changed on purpose, in sentences."""
    if changed is None:
        return []
    if changed.n_by_one is None or changed.n_by_two is None:
        higher, lower = changed.wanted
        found = [
            f"As answered, the predicted number is {higher.mean[0]:.4g} on average. The one other answer that moves it "
            f"most raises it to {higher.mean[1]:.4g} or lowers it to {lower.mean[1]:.4g}; two other answers make it "
            f"{higher.mean[2]:.4g} or {lower.mean[2]:.4g}."
        ]
    else:
        found = [
            f"Of {count(changed.n_rows, 'measured row')}, {share(changed.n_by_one / changed.n_rows)} get another "
            f"result by one other answer, and {share(changed.n_by_two / changed.n_rows)} by at most two."
        ]
    if checked := [f"“{one.text}”" for one in changed.questions if one.is_checked]:
        return [*found, f"Answers that are checked are not changed: {', '.join(checked)}."]
    return [*found, "No question is marked as checked (checked = true in the questions file), so all are changed."]


def overall_trust(confidence: float, accuracy: float, interval: tuple[float, float]) -> str:
    """Whether the model knows how sure it may be."""
    low, high = interval
    on_average = f"On average it says that it is {share(confidence)} sure, and is right in {share(accuracy)}"
    if confidence > high:
        return f"{on_average}: it is too sure of itself."
    if confidence < low:
        return f"{on_average}: it is right more often than it says."
    return f"{on_average}: as far as these rows can tell, that agrees."


def trust(evaluation: Evaluation | RegressionEvaluation | None, confidence: float) -> str:
    """A sentence on the accuracy of predictions of this confidence; empty if it was not measured."""
    if not isinstance(evaluation, Evaluation) or evaluation.reliability is None:
        return ""
    place = min(int(confidence * N_BINS), N_BINS - 1) / N_BINS
    same = next((one for one in evaluation.reliability if abs(one.low - place) < 1e-9), None)
    if same is None or same.n_rows < FEW_ROWS:
        seen = "none" if same is None else f"only {same.n_rows}"
        return (
            f"Of the {evaluation.n_rows:,} rows that the model was measured on, {seen} had a prediction about as sure "
            "as this one: too few to say how often that is right."
        )
    low, high = map(share, same.accuracy_interval)
    return (
        f"In {same.n_rows:,} measured rows the model was about as sure as here ({share(same.low)} to "
        f"{share(same.high)}), and it was right in {share(same.accuracy)} of them (most likely between {low} and "
        f"{high} of such rows)."
    )


def share(value: float) -> str:
    """A share as people read it: whole percents, with a decimal near 0 and 1, where it matters."""
    percent = 100 * value
    if percent in (0, 100) or 1 <= percent <= 99:
        return f"{percent:.0f}%"
    return f"{min(99.9, max(0.1, percent)):.1f}%" if 0 < percent < 100 else f"{round(percent, 0) + 0.0:.0f}%"


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
