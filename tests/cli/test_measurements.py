"""What was measured, as tables."""

import io
from contextlib import redirect_stdout
from dataclasses import replace

import torch

from pursuit.cli.measurements import guarantee_sentences, print_classes, print_evaluation, thin
from pursuit.evaluation.counts import count_classes
from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.evaluation.details import ClassResults


def test_long_lists_are_thinned_but_keep_both_ends() -> None:
    assert thin([0.1, 0.2, 0.3]) == [(0, 0.1), (1, 0.2), (2, 0.3)]
    shown = [n for n, _ in thin([0.5] * 334)]
    assert shown[:9] == list(range(9))
    assert shown[-1] == 333
    assert len(shown) < 20


def printed(evaluation: Evaluation) -> str:
    with redirect_stdout(io.StringIO()) as captured:
        print_evaluation("made", evaluation)
    return " ".join(captured.getvalue().replace("│", " ").split())


def test_answers_and_costs_are_shown_where_they_differ_from_queries() -> None:
    stop = AtStop("confidence=0.9", 1.5, 1.5, 1.5, 0.7, (0.6, 0.8), 0.9, 0.1)
    plain = Evaluation(100, 2, [0.1, 0.4, 0.8], 0.6, [0.1, 0.4, 0.8], 0.6, 0.8, stop)
    shown = printed(plain)
    assert "1 0.400" in shown
    assert "after 1.50 queries on average; mean confidence 0.900, calibration error 0.100." in shown
    assert "answered" not in shown
    assert "cost" not in shown
    sure = replace(
        plain,
        confidence_by_asked=[0.2, 0.5, 0.9],
        calibration_error_by_asked=[0.1, 0.11, 0.12],
        brier_by_asked=[0.9, 0.6, 0.3],
        at_stop=replace(stop, brier=0.35),
    )
    assert "1 0.400 0.500 0.110 0.600" in printed(sure)
    assert "calibration error 0.100, Brier score 0.350." in printed(sure)
    costs = [(0.5 * i, i / 49) for i in range(50)]
    dear = replace(
        plain,
        accuracy_by_answered=[0.1, 0.5, 0.8],
        accuracy_by_cost=costs,
        area_by_cost=0.5,
        at_stop=replace(stop, mean_answered=1.25, mean_cost=7.5),
    )
    shown = printed(dear)
    assert "1 0.400 0.500" in shown
    assert "0 0.000" in shown
    assert "24.5 1.000" in shown  # the last cost
    assert "after 1.50 queries on average (1.25 answered), which cost 7.5; mean confidence" in shown


def test_it_is_said_what_became_of_promises() -> None:
    stop = AtStop("risk=0.1,conformal=0.1", 1.5, 1.5, 1.5, 0.7, (0.6, 0.8), 0.9, 0.1)
    assert guarantee_sentences(stop) == []
    risky, sets = replace(stop, decided=0.5, wrong_of_decided=0.04), replace(stop, covered=0.912, mean_labels=1.25)
    assert guarantee_sentences(risky) == [
        "It decides 50.0% of the rows, and 4.0% of these are wrong; the others are left to a person."
    ]
    assert guarantee_sentences(replace(stop, decided=0.0)) == [
        "It decides 0.0% of the rows; the others are left to a person."
    ]
    assert guarantee_sentences(sets) == [
        "The right label is among those that remain for 91.2% of the rows; 1.25 remain on average."
    ]
    plain = Evaluation(100, 2, [0.1, 0.4, 0.8], 0.6, [0.1, 0.4, 0.8], 0.6, 0.8, risky)
    assert "and 4.0% of these are wrong" in printed(plain)


def test_of_many_classes_the_most_confused_are_shown() -> None:
    stop = AtStop("confidence=0.9", 1.5, 1.5, 1.5, 0.7, (0.6, 0.8), 0.9, 0.1)
    y = torch.arange(30).repeat(4)
    predicted = torch.where((y == 17) & (torch.arange(120) > 40), 3, y)
    classes = ClassResults.of(
        [f"label {i}" for i in range(30)], *count_classes(y, predicted, torch.ones_like(y), 30, torch.ones_like(y))
    )
    many = Evaluation(120, 2, [0.1, 0.4], 0.6, [0.1, 0.4], 0.6, 0.8, stop, by_class=classes)
    with redirect_stdout(io.StringIO()) as captured:
        print_classes(many)
    shown = " ".join(captured.getvalue().replace("│", " ").split())
    assert "label 17 label 3 3" in shown
    assert "12 of 30 classes, the most frequent" in shown
