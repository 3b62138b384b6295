"""`pursuit train --regress`, and what the other commands say of a model that predicts a number."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import assert_refused, json_of, run
from pursuit import VIPRegressor, load


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Homes whose price follows their size and their garden; two have none, and one column is no number."""
    folder = tmp_path_factory.mktemp("homes")
    randomness = np.random.default_rng(0)
    size, garden = randomness.uniform(20, 120, 240).round(), randomness.random(240) < 0.5
    price = 3 * size + 100 * garden + randomness.normal(0, 5, 240)
    frame = pd.DataFrame({"size": size, "garden": np.where(garden, "yes", "no"), "price": price.round()})
    frame["street"] = randomness.choice(["Elm", "Oak"], 240)
    frame.loc[[3, 7], "price"] = None
    frame.to_csv(folder / "homes.csv", index=False)
    done = run(folder, "train", "homes.csv", "--target", "price", "--regress", "--epochs", "60", "--json")
    found = json_of(done)
    assert found["n_rows"] == 48
    assert found["all_answers"]["r2"] > 0.8
    assert 0.6 < found["at_stop"]["coverage"] <= 1
    return folder


def test_the_model_is_a_regressor_that_knows_its_file(homes: Path) -> None:
    model = load(homes / "runs" / "homes")
    assert isinstance(model, VIPRegressor)
    assert model.notes_["task"]["regress"] is True
    assert model.notes_["task"]["n_rows_without_label"] == 2


def test_it_is_measured_on_the_rows_held_out(homes: Path) -> None:
    done = run(homes, "evaluate", "runs/homes", "--data", "homes.csv", "--stop", "width=40")
    assert done.returncode == 0, done.stderr
    assert "only the 48 held-out rows" in done.stderr.replace("\n", " ")
    assert "in 90 % interval" in done.stdout
    assert "Stopping at width=40.0: R²" in done.stdout
    found = json_of(run(homes, "evaluate", "runs/homes", "--data", "homes.csv", "--json"))
    assert found["by_asked"][3]["r2"] == pytest.approx(found["all_answers"]["r2"])


def test_figures_of_classes_are_refused_before_anything_is_written(homes: Path) -> None:
    arguments = ("evaluate", "runs/homes", "--data", "homes.csv", "--out", "refused.json", "--figures", "figures")
    assert_refused(run(homes, *arguments), "this model predicts a number")
    assert not (homes / "refused.json").exists()


def test_its_chains_are_explained_and_drawn(homes: Path) -> None:
    done = run(homes, "explain", "runs/homes", "--data", "homes.csv", "--row", "0", "--figure", "chain.png")
    assert done.returncode == 0, done.stderr
    assert re.match(r"Row 0 \(line \d+ of the file\), true label: \d+\nPrediction: about ", done.stdout)
    assert (homes / "chain.png").exists()
    (chain,) = json_of(run(homes, "explain", "runs/homes", "--data", "homes.csv", "--row", "0", "--json"))["chains"]
    assert chain["prediction"] == chain["mean"]
    assert chain["interval"][0] < chain["median"] < chain["interval"][1]


def test_its_page_has_no_labels(homes: Path) -> None:
    done = run(homes, "export", "runs/homes", "page.html")
    assert "page.html: 3 questions, a number, " in done.stdout


def test_a_person_is_told_about_how_much_it_is(homes: Path) -> None:
    done = run(homes, "ask", "runs/homes", "--stop", "budget=1", typed="why\n100\n")
    assert done.returncode == 0, done.stderr
    assert "-> about " in done.stdout
    assert "(90%: " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["homes.csv", "--target", "street", "--regress"], "240 values that are not numbers, such as"),
        (["homes.csv", "--regress"], "Name it with --target"),
        (["homes.csv", "--target", "price", "--regress", "--method", "tree"], "predicts classes: leave out --regress"),
        (["animals", "--regress"], "is a task with its own queries and labels"),
        (["homes.csv", "--target", "street", "--stop", "width=5"], "width=5.0 is for models that predict a number"),
    ],
)
def test_mistakes_get_a_sentence(homes: Path, arguments: list[str], message: str) -> None:
    done = run(homes, "train", *arguments, "--out", "other")
    assert_refused(done, message)


def test_numbers_are_not_compared_by_accuracy(homes: Path) -> None:
    done = run(homes, "compare", "homes.csv", "--target", "street", "--methods", "vip-regressor", "--out", "compared")
    assert_refused(done, "vip-regressor predicts a number")
