"""`pursuit reproduce` as it is met on the command line."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import program
from program import assert_refused, json_of
from pursuit import CarriedHistories, RandomHistories, SetNetwork
from pursuit.cli.console import remark_on_recipe
from pursuit.research.experiments import reproduce as experiment
from pursuit.research.experiments.options import Changes
from pursuit.research.tasks import find_recipe

SHORT = ("--effort", "0.01", "--device", "cpu")


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take longer than the little training here."""
    monkeypatch.setattr(experiment, "N_CHAINS", 0)
    monkeypatch.setattr(experiment, "_draw_curves", lambda results, path: None)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return program.run(folder, "reproduce", *arguments)


def seeds_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    seeds: list[dict[str, Any]] = results["methods"]["vip"]["seeds"]
    return seeds


def test_digits_from_beginning_to_end(tmp_path: Path) -> None:
    results = json_of(run(tmp_path, "digits", *SHORT, "--curve", "8", "--seeds", "2", "--json"))
    folder = tmp_path / "results" / "digits-fast-effort-0.01"
    written = json.loads((folder / "results.json").read_text())
    assert written.pop("checksum")
    assert written == results
    assert [seed["seed"] for seed in seeds_of(results)] == [0, 1]
    assert all(len(seed["evaluation"]["accuracy_by_asked"]) == 9 for seed in seeds_of(results))
    assert results["run"]["options"] == ["effort 0.01"]
    again = run(tmp_path, "digits", *SHORT, "--curve", "8", "--seeds", "2")
    assert again.returncode == 0
    assert again.stderr.count("already measured") == 4  # V-IP and the black box, two seeds each
    assert again.stdout.startswith((folder / "table.md").read_text())
    assert "By the recipe fast (effort 0.01); V-IP has the straight-through querier." in again.stdout
    assert f"Written into {folder.relative_to(tmp_path)}" in again.stdout


def test_first_seed_validation_and_folder(tmp_path: Path) -> None:
    arguments = ("digits", *SHORT, "--curve", "4", "--validation", "--json")
    results = json_of(run(tmp_path, *arguments, "--first-seed", "7"))
    assert [seed["seed"] for seed in seeds_of(results)] == [7]
    assert results["run"]["measured_on"] == "held-out training rows"
    assert (seeds_of(results)[0]["n_train"], seeds_of(results)[0]["n_test"]) == (1293, 144)
    assert (tmp_path / "results" / "digits-fast-effort-0.01-validation" / "seed-7" / "result.json").exists()
    named = json_of(run(tmp_path, *arguments, "--out", "elsewhere"))
    assert (tmp_path / "elsewhere" / "results.json").exists()
    assert seeds_of(named)[0]["seed"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnistt"], "'mnistt' is not a known task. Did you mean 'mnist"),
        (["digits", "--recipe", "paper"], "digits has no recipe 'paper', only fast"),
        (["digits", "--sampling", "random"], "--sampling is one of irs, sbs, irs+sbs, not 'random'"),
        (["muzhi", "--network", "conv"], "--network is one of set, masked, not 'conv'"),
        (["mnist", "--network", "set"], "not for image patches"),
        (["muzhi", "--querier", "random"], "--querier is one of auto, information, straight-through, not 'random'"),
        (["digits", "--tau", "1.0"], "--tau is written START:END, as in 1.0:0.2, not '1.0'"),
        (["digits", "--tau", "hot:cold"], "--tau is written START:END"),
        (["digits", "--tau", "1:0"], "tau must be above 0"),
        (["digits", "--device", "tpu", "--effort", "0.01"], "The device is one of cpu, cuda, mps, auto, not 'tpu'"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(tmp_path, *arguments)
    assert_refused(done, message)
    assert not list(tmp_path.rglob("result*.json"))


@pytest.mark.parametrize("wrong", [("--seeds", "0"), ("--effort", "0"), ("--curve", "0"), ("--first-seed", "-1")])
def test_numbers_out_of_range_are_refused(tmp_path: Path, wrong: tuple[str, str]) -> None:
    done = run(tmp_path, "digits", *wrong)
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())


def test_missing_data_are_reported_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PURSUIT_CACHE", str(tmp_path / "cache"))
    done = run(tmp_path, "muzhi", *SHORT)
    assert_refused(done, "There is no muzhi/acl2018-mds.p below")
    assert not (tmp_path / "results").exists()


def test_options_are_put_into_words() -> None:
    recipe = find_recipe("muzhi")
    assert Changes().applied(recipe) == (recipe, [])
    changed, options = Changes(effort=0.5, sampling="irs+sbs", network="set", tau="0.9:0.1").applied(recipe)
    assert options == ["irs+sbs", "set network", "tau 0.9 to 0.1", "effort 0.5"]
    assert isinstance(changed.network, SetNetwork)
    assert [type(stage.histories) for stage in changed.stages] == [RandomHistories, CarriedHistories]
    assert all(stage.tau == (0.9, 0.1) for stage in changed.stages)
    epochs = [sum(stage.epochs for stage in one.stages) for one in (recipe, changed)]
    assert epochs[1] == pytest.approx(0.5 * epochs[0])


@pytest.mark.parametrize("querier", ["straight-through", "information", "auto"])
def test_the_querier_is_an_option_and_is_said(querier: str) -> None:
    changed, options = Changes(querier=querier).applied(find_recipe("muzhi"))
    assert changed.querier == querier
    assert options == [f"{querier} querier"]


@pytest.mark.parametrize("ablation", [{"sampling": "irs"}, {"network": "set"}, {"tau": "1:0.2"}])
def test_ablations_are_of_the_straight_through_querier(ablation: dict[str, Any]) -> None:
    recipe = find_recipe("muzhi")
    assert recipe.querier == "auto"
    for querier in (None, "straight-through"):
        assert Changes(querier=querier, **ablation).applied(recipe)[0].querier == "straight-through"
    with pytest.raises(ValueError, match="leave out --querier information"):
        Changes(querier="information", **ablation).applied(recipe)


def test_stopping_tells_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "reproduce", stopped)
    done = run(tmp_path, "digits", *SHORT)
    assert done.returncode == 130
    assert "Run the same command again to continue." in done.stderr
    assert "--resume" not in done.stderr


@pytest.mark.parametrize("has_gpu", [False, True])
def test_a_recipe_for_a_gpu_says_so_elsewhere(has_gpu: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: has_gpu)
        remark_on_recipe(find_recipe("mnist"), "auto")
    assert ("This recipe is made for a GPU" in capsys.readouterr().err) != has_gpu
