"""The comparison of ways to learn what to ask, at toy sizes: the page says what the files say, and exact pursuit is
the judge."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import known_world
import queriers
from methods import known_task
from pursuit.experiments.results import Results
from pursuit.information import AnswerModel
from pursuit.networks import MLP
from pursuit.queries import PatchQueries
from pursuit.tasks import Task
from pursuit.training import Stage
from pursuit.vip import VIP, InformationVIP

SMALL = ("vip-straight-through", "vip-information", "naive-bayes", "exact")


def small_task() -> Task:
    task = known_task()
    settings = {**task.settings, "network": MLP((16,)), "stages": [Stage(4)], "max_queries": 6}
    return replace(
        task,
        X_train=task.X_train[:400],
        y_train=task.y_train[:400],
        X_test=task.X_test[:60],
        y_test=task.y_test[:60],
        settings=settings,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where small comparisons are written."""
    for name, path in (("FOLDER", "kept"), ("RUNS", "runs"), ("PAGE", "queriers.md")):
        monkeypatch.setattr(queriers, name, tmp_path / path)
    monkeypatch.setattr(queriers, "known_task", small_task)
    monkeypatch.setattr(queriers, "JUDGED_ROWS", 50)
    monkeypatch.setattr(queriers, "AT_ONCE", 20)
    return tmp_path


@pytest.mark.skipif(not queriers.PAGE.exists(), reason="nothing was measured yet")
def test_the_page_says_what_the_files_say() -> None:
    assert queriers.PAGE.read_text(encoding="utf-8") == queriers.page()


def test_a_task_is_measured_judged_and_written_down(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["known-world", "--seeds", "0", "--judge", "--methods", *SMALL]
    queriers.main(arguments)
    text = queriers.PAGE.read_text(encoding="utf-8")
    assert text == queriers.page()
    values = json.loads((folder / "kept" / "known-world.json").read_text())
    assert values["shape"] == {"queries": 30, "labels": 10, "rows": 400}
    assert values["auto"] == "vip-information"  # 400 rows are few for 30 queries and 10 labels
    found = Results.from_dict({key: values[key] for key in ("run", "methods")})
    assert list(found.worked) == list(SMALL)
    area = {name: summary.area.mean for name, (_, summary) in found.worked.items()}
    row = next(line for line in text.splitlines() if line.startswith("| known-world | 30 / 10 / 400 | 30 |"))
    cells = [cell.split(" ")[0] for cell in row.strip("| ").split(" | ")[3:]]
    columns = dict(zip(queriers.METHODS, cells, strict=True))
    assert {name: columns[name] for name in SMALL} == {name: f"{area[name]:.3f}" for name in SMALL}
    assert columns["auto"] == columns["vip-information"]
    assert columns["gdfs"] == "–"
    behind = 100 * (max(area["vip-straight-through"], area["vip-information"]) - area["vip-information"])
    assert f"by {behind:.1f} points at most (known-world)" in text
    judged = values["judged"]
    assert list(judged) == [name for name in SMALL if name != "naive-bayes"]
    assert judged["exact"][0]["share"] == [1.0] * 21
    assert "correlation" not in judged["vip-straight-through"][0]  # its scores are not bits
    (by_information,) = judged["vip-information"]
    assert by_information["share"][0] > judged["vip-straight-through"][0]["share"][0]
    assert f"| known-world | {by_information['correlation']:.4f} | {by_information['bias']:.4f} |" in text
    # What is measured is not measured again, and the page needs nothing but the files.
    capsys.readouterr()
    queriers.main([*arguments, "--collect"])
    assert capsys.readouterr().out.count("already measured") == len(SMALL)
    queriers.PAGE.unlink()
    queriers.main(["--page"])
    assert queriers.PAGE.read_text(encoding="utf-8") == text


def test_nothing_is_judged_unless_it_is_asked_for(folder: Path) -> None:
    queriers.main(["known-world", "--seeds", "0", "--methods", "vip-straight-through", "naive-bayes"])
    values = json.loads((folder / "kept" / "known-world.json").read_text())
    assert values["judged"] == {}
    text = queriers.PAGE.read_text(encoding="utf-8")
    assert values["auto"] == "vip-information"  # which was not measured, so that nothing is concluded
    assert "auto is behind" not in text
    assert "Judged by exact" not in text


def judged(model: Any, n_steps: int = 4) -> dict[str, Any]:
    return queriers.judge(model, known_world.EXACT, known_world.draw(60, seed=0), n_steps, "cpu")


def test_exact_pursuit_is_judged_exact() -> None:
    found = judged(known_world.EXACT)
    assert found["share"] == pytest.approx([1.0] * 5)
    assert len(found["accuracy"]) == 5
    assert found["accuracy"][4] > found["accuracy"][0] + 0.3


def test_an_answer_model_with_the_right_table_and_belief_is_judged_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_model = AnswerModel.count(known_world.QUERIES, 10, known_world.draw(100, seed=1))
    with torch.no_grad():
        answer_model.table.copy_(known_world.YES.T.logit())
    model = InformationVIP.build(known_world.QUERIES, range(10), MLP((8,)), answer_model=answer_model)
    monkeypatch.setattr(model, "log_posterior", known_world.EXACT.log_posterior)
    monkeypatch.setattr(
        model,
        "scores",
        lambda history: model.answer_model.information(
            torch.zeros(len(history), model.answer_model.n_outputs), known_world.EXACT.log_posterior(history)
        ),
    )
    found = judged(model)
    assert found["share"] == pytest.approx([1.0] * 5, abs=1e-3)
    assert found["correlation"] == pytest.approx(1, abs=1e-3)
    assert found["bias"] == pytest.approx(0, abs=1e-4)
    assert found["mean"] > 0.05
    assert found["bayes"] == pytest.approx(0, abs=1e-3)  # what is foreseen comes true


def test_an_ignorant_querier_is_found_out() -> None:
    torch.manual_seed(0)
    found = judged(VIP.build(known_world.QUERIES, range(10), MLP((8,))))
    assert max(found["share"]) < 0.9
    assert "bayes" not in found


def test_every_task_has_the_methods_that_suit_it() -> None:
    task = known_task()
    assert queriers.methods_for(task) == [queriers.STRAIGHT, queriers.INFORMATION, *queriers.RIVALS, "exact"]
    images = replace(task, query_set=PatchQueries((1, 4, 4), 2), exact=None)
    assert queriers.methods_for(images) == [queriers.STRAIGHT, *queriers.RIVALS]


def test_tables_that_come_with_scikit_learn_are_tables() -> None:
    with queriers.source_of("wine") as (path, options):
        assert isinstance(path, Path)
        header, *rows = path.read_text().splitlines()
    assert options == {"target": "target"}
    assert header.split(",")[-1] == "target"
    assert {row.split(",")[-1] for row in rows} == {"class_0", "class_1", "class_2"}
    assert not path.exists()
