"""One schema for everything that experiments write, and one way to summarise seeds."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import pytest

from pursuit.evaluation.calibration import seeds_and_rows_interval
from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.evaluation.protocols import AtProtocol
from pursuit.files import DamagedFile
from pursuit.research.experiments.results import (
    Beside,
    Failure,
    Mean,
    MethodResults,
    Result,
    Results,
    asked_and_answered,
    mean_and_sd,
    mean_and_spread,
    mean_only,
    read_result,
    summarise,
    three_digits,
)

PUBLISHED = sorted((Path(__file__).parents[3] / "docs" / "results" / "paper").glob("*-seed-0.json"))


def result_of(seed: int, accuracy: float, longest: int = 12, area: float | None = None) -> Result:
    asked, answered, cost = 11 * accuracy, 10 * accuracy, 30 * accuracy
    stop = AtStop("confidence=0.9", asked, answered, cost, accuracy / 2, (0.1, 0.9), 0.95, 0.02, 0.25)
    curve = [accuracy * n / longest for n in range(longest + 1)]
    by_cost = [(0.0, 0.1), (2.5, accuracy)]
    area = accuracy / 2 if area is None else area
    return Result(
        run={"task": "made", "settings": {"stop": "confidence=0.9"}},
        method="vip",
        seed=seed,
        n_train=1000,
        n_test=200,
        training_seconds=60.0,
        evaluation=Evaluation(
            200, longest, curve, area, curve[1:], area / 3, accuracy, stop, [stop], by_cost, area_by_cost=accuracy / 4
        ),
        provenance={"commit": "abc1234"},
        notes={"seed": seed},
        resumed=True,
        n_histories=3000,
        measuring_seconds=2.5,
        step_milliseconds=1.5,
        beside={
            "random order": Beside(curve, area / 2, accuracy, by_cost),
            "black box": Beside(accuracy_all_answers=0.9),
        },
        protocols=[AtProtocol("no cap", accuracy, 6.3, 6.31, 100, 6.4, accuracy / 2, 0.1)],
    )


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    result = result_of(3, 0.8)
    result.write(tmp_path / "new" / "result.json")
    assert read_result(tmp_path / "new" / "result.json") == result
    nothing_stops = replace(result, evaluation=replace(result.evaluation, at_stop=None))
    failed = MethodResults.of("tree", [Failure(0, "ValueError: no")])
    results = Results({"task": "made"}, {"vip": MethodResults.of("V-IP", [result, result_of(1, 0.7)]), "tree": failed})
    results.write(tmp_path / "results.json")
    written = json.loads((tmp_path / "results.json").read_text())
    assert Results.from_dict(written) == results
    assert list(results.worked) == ["vip"]
    assert [seed["seed"] for seed in written["methods"]["vip"]["seeds"]] == [1, 3]
    assert written["methods"]["tree"] == {
        "title": "tree",
        "summary": None,
        "seeds": [],
        "failed": [{"seed": 0, "error": "ValueError: no"}],
    }
    assert Result.from_dict(json.loads(json.dumps(nothing_stops.to_dict()))) == nothing_stops


def test_the_keys_of_a_result_are_these() -> None:
    assert list(result_of(0, 0.5).to_dict()) == [
        "run",
        "method",
        "seed",
        "n_train",
        "n_test",
        "training_seconds",
        "evaluation",
        "provenance",
        "notes",
        "resumed",
        "n_histories",
        "measuring_seconds",
        "step_milliseconds",
        "beside",
        "protocols",
        "querier",
    ]


@pytest.mark.parametrize("damage", ["{bad", "[]", "", "{}", "null", '{"run": {}, "evaluation": {"at_stop": null}}'])
def test_a_damaged_file_is_not_a_result(damage: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(damage)
    with pytest.warns(UserWarning, match=r"result\.json is damaged, or was changed after it was measured"):
        assert read_result(tmp_path / "result.json") is None
    assert read_result(tmp_path / "nowhere.json") is None


def test_a_result_that_somebody_changed_does_not_count_as_measured(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result_of(0, 0.5).write(path)
    written = json.loads(path.read_text())
    path.write_text(json.dumps(written))  # written in another way, but the same
    assert read_result(path) == result_of(0, 0.5)
    for changed in (
        {**written, "seed": 1},
        {**written, "evaluation": {**written["evaluation"], "area": 0.999}},
        {key: value for key, value in written.items() if key != "checksum"},
    ):
        path.write_text(json.dumps(changed))
        with pytest.warns(UserWarning, match="its checksum does not fit. It does not count as measured"):
            assert read_result(path) is None


def test_results_that_somebody_changed_are_refused(tmp_path: Path) -> None:
    results = Results({"task": "t"}, {"vip": MethodResults.of("V-IP", [result_of(0, 0.5)])})
    results.write(tmp_path / "results.json")
    written = json.loads((tmp_path / "results.json").read_text())
    assert Results.from_dict({**written, "beside": "what a page adds"}) == results
    written["methods"]["vip"]["seeds"][0]["evaluation"]["area"] = 0.999
    with pytest.raises(DamagedFile, match="were changed after they were measured"):
        Results.from_dict(written)


def test_the_results_in_the_documentation_have_the_schema() -> None:
    for path in PUBLISHED:
        result = read_result(path)
        assert result, path
        written = json.loads(path.read_text(encoding="utf-8"))
        assert written.items() >= json.loads(json.dumps(result.to_dict())).items(), path


def test_seeds_are_summarised() -> None:
    areas, accuracies = [0.5, 0.6, 0.9], [0.8, 0.7, 0.9]
    seeds = [
        result_of(i, accuracy, area=area) for i, (area, accuracy) in enumerate(zip(areas, accuracies, strict=True))
    ]
    summary = summarise(seeds)
    assert (summary.n_seeds, summary.longest, summary.n_queries) == (3, 12, 12)
    assert (summary.is_whole, summary.reach) == (True, "to 12")
    assert (summary.area.mean, summary.area.sd) == pytest.approx((mean(areas), stdev(areas)))
    assert summary.area_by_answered.mean == pytest.approx(mean(areas) / 3)
    assert summary.area_by_cost is not None
    assert summary.area_by_cost.mean == pytest.approx(mean(accuracies) / 4)
    beside = summary.area_beside["random order"]
    assert (beside.mean, beside.sd) == pytest.approx((mean(areas) / 2, stdev(areas) / 2))
    assert list(summary.area_beside) == ["random order"]  # the other one has no curve
    everything = summary.accuracy_all_answers
    assert (everything.mean, everything.sd) == pytest.approx((mean(accuracies), stdev(accuracies)))
    stop = summary.at_stop
    assert stop is not None
    assert stop.rule == "confidence=0.9"
    means = stop.mean_asked.mean, stop.mean_answered.mean, stop.mean_cost.mean
    assert means == pytest.approx((8.8, 8, 24))
    assert (stop.accuracy.mean, stop.accuracy.sd) == pytest.approx((0.4, stdev(accuracies) / 2))
    assert stop.accuracy.interval == seeds_and_rows_interval([accuracy / 2 for accuracy in accuracies], 200)
    protocol = summary.protocols["no cap"]
    assert protocol.level.mean == pytest.approx(0.8)
    assert (protocol.wanted, protocol.mean_counted.mean, protocol.cut_short.mean) == pytest.approx((6.3, 6.4, 0.1))
    assert protocol.accuracy == stop.accuracy
    assert stop.cut_short == Mean(0.25, 0.0)
    after = summary.accuracy_after[5]
    assert after.mean == pytest.approx(0.8 * 5 / 12)
    assert after.interval == seeds_and_rows_interval([accuracy * 5 / 12 for accuracy in accuracies], 200)
    assert list(summary.accuracy_after) == [5, 10]  # the curve ends at 12
    assert summary.step_milliseconds == Mean(1.5, 0.0)


def test_what_was_not_measured_is_none() -> None:
    one = result_of(0, 0.8)
    evaluation = replace(one.evaluation, at_stop=None, accuracy_by_cost=[], area_by_cost=None)
    evaluation = replace(evaluation, n_queries=30)
    summary = summarise([replace(one, evaluation=evaluation, step_milliseconds=None, beside={}, protocols=[])])
    assert summary.area == Mean(0.4, 0.0)  # one seed has no spread
    assert (summary.at_stop, summary.step_milliseconds, summary.area_beside) == (None, None, {})
    assert summary.area_by_cost is None
    assert summary.protocols == {}
    assert (summary.is_whole, summary.reach) == (False, "to 12 of 30")


def test_a_summary_that_was_written_is_made_again() -> None:
    """Pages of older results are then summarised like those of today."""
    results = Results({"task": "made"}, {"vip": MethodResults.of("V-IP", [result_of(0, 0.8), result_of(1, 0.7)])})
    values = json.loads(json.dumps(results.to_dict()))
    values["methods"]["vip"]["summary"] = {"another": "way"}
    for seed in values["methods"]["vip"]["seeds"]:
        del seed["protocols"]  # which older ones have not
    again, _ = Results.from_dict(values).worked["vip"]
    assert again.summary == replace(results.worked["vip"][1], protocols={})


def test_numbers_as_people_read_them() -> None:
    assert mean_and_spread(mean_and_sd([0.5, 0.6])) == "0.550 ± 0.071"
    assert mean_and_spread(Mean(0.5, 0.0)) == "0.500"
    assert mean_only(Mean(0.5, 0.1)) == "0.500"
    assert [three_digits(Mean(value, 0)) for value in (0.01234, 12.34, 1234.5)] == ["0.0123", "12.3", "1234"]
    assert [asked_and_answered(*numbers) for numbers in ((8, 8), (8, 7.999), (8, 6.5))] == [
        "8.00",
        "8.00",
        "8.00 (6.50 answered)",
    ]
    assert {mean_and_spread(None), mean_only(None), three_digits(None)} == {"–"}
