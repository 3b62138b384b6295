"""`pursuit predict`."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import assert_refused, json_of, run
from pursuit import load
from pursuit.cli import rows
from pursuit.tables.source import open_table


def predicted(folder: Path, *arguments: str) -> pd.DataFrame:
    done = run(folder, "predict", "model", *arguments, "--out", "predicted.csv")
    assert done.returncode == 0, done.stderr
    return pd.read_csv(folder / "predicted.csv", dtype={f"answer_{place}": str for place in range(1, 4)})


def test_every_row_has_what_the_model_says_of_it(workspace: Path) -> None:
    table = predicted(workspace, "--data", "patients.csv", "--stop", "confidence=0.9")
    frame, model = pd.read_csv(workspace / "patients.csv"), load(workspace / "model")
    assert table["line"].tolist() == list(range(2, 302))
    wanted = model.predict_table(frame[["fever", "where", "age"]], "confidence=0.9")
    assert table["prediction"].tolist() == wanted["prediction"].tolist()
    chances = [f"probability_{label}" for label in ("flu", "gastritis", "migraine")]
    assert list(table.columns[1:7]) == ["prediction", *chances, "unusual", "n_asked"]
    assert table["unusual"].tolist() == wanted["unusual"].tolist()
    assert np.allclose(table[chances], wanted[chances], atol=1e-6)
    chains = model.explain(frame[["fever", "where", "age"]][:40], "confidence=0.9")
    for chain, (_, row) in zip(chains, table[:40].iterrows(), strict=True):
        assert row["n_asked"] == len(chain)
        for place in range(1, 4):
            step = chain.steps[place - 1] if place <= len(chain) else None
            if f"question_{place}" not in table:
                assert step is None
                continue
            found = [None if pd.isna(value) else str(value) for value in row[[f"question_{place}", f"answer_{place}"]]]
            assert found == ([None, None] if step is None else [step.name, step.answer])


def test_parts_are_joined_however_many_questions_each_asks(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = predicted(workspace, "--data", "patients.csv")
    monkeypatch.setattr(rows, "open_table", partial(open_table, part_rows=40))
    pd.testing.assert_frame_equal(predicted(workspace, "--data", "patients.csv"), whole, atol=2e-6)
    done = run(workspace, "predict", "model", "--data", "patients.csv", "--out", "predicted.parquet")
    assert done.returncode == 0, done.stderr
    stored = pd.read_parquet(workspace / "predicted.parquet")
    assert list(stored.columns) == list(whole.columns)
    assert stored["prediction"].tolist() == whole["prediction"].tolist()
    assert stored["n_asked"].tolist() == whole["n_asked"].tolist()
    assert "Written into predicted.parquet" in done.stderr


@pytest.mark.parametrize("name", ["table.csv", "table.parquet", "table"])
def test_what_out_means_does_not_depend_on_the_engine(workspace: Path, tmp_path: Path, name: str) -> None:
    for folder, options in (("one", ()), ("other", ("--engine", "local"))):
        (tmp_path / folder).mkdir()
        to = ("--out", str(tmp_path / folder / name))
        done = run(workspace, "predict", "model", "--data", "patients.csv", *to, *options)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in (tmp_path / folder).iterdir()] == [name]
    read = pd.read_csv if name.endswith(".csv") else pd.read_parquet
    one, other = (read(tmp_path / folder / name) for folder in ("one", "other"))
    assert len(one) == 300
    assert ("questions" in one) == (name == "table")
    pd.testing.assert_frame_equal(one, other, atol=2e-6)


def test_standard_output_holds_nothing_else(workspace: Path) -> None:
    done = run(workspace, "predict", "model", "--data", "patients.csv", "--max-queries", "1")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 301
    assert lines[0].endswith("n_asked,question_1,answer_1")
    assert "Predicting: 300 rows, done in 0:0" in done.stderr  # or 0:01, where cores are busy


def test_files_may_lack_labels_and_columns_and_have_others(workspace: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv")
    new = pd.DataFrame({"key": ["007", "a,b", 'say "hi"\nthere'], "fever": ["yes", "no", None], "x": [1, 2, 3]})
    new.assign(where=["head", "belly", None]).to_csv(workspace / "new.csv", index=False)
    done = run(workspace, "predict", "model", "--data", "new.csv", "--id", "key", "--out", "predicted.csv")
    assert done.returncode == 0, done.stderr
    assert "new lacks columns the model may ask for: age. They count as unknown." in " ".join(done.stderr.split())
    by_shares = ("predict", "model", "--data", "new.csv", "--id", "key", "--out", "by_shares.csv", "--engine", "local")
    assert "lacks columns the model may ask for: age" in " ".join(run(workspace, *by_shares).stderr.split())
    new.rename(columns={"x": "Age"}).to_csv(workspace / "new.csv", index=False)
    told = run(workspace, "predict", "model", "--data", "new.csv").stderr
    assert "age (there is 'Age'). They count as unknown." in " ".join(told.split())
    table = pd.read_csv(workspace / "predicted.csv", dtype=str)
    assert table["key"].tolist() == new["key"].tolist()
    assert table["prediction"].tolist()[:2] == ["flu", "gastritis"]
    frame[["label", "note"]].to_csv(workspace / "wrong.csv", index=False)
    refused = run(workspace, "predict", "model", "--data", "wrong.csv")
    assert refused.returncode == 1
    assert "wrong.csv has none of the columns the model asks for (fever, where, age)" in " ".join(
        refused.stderr.split()
    )


def test_columns_that_are_not_there_are_unknown_even_where_an_empty_cell_means_no(tmp_path: Path) -> None:
    frame = pd.DataFrame({"fever": ["yes", "no"] * 50, "rash": ["x", "x", "", ""] * 25})
    frame.assign(items=["a; b", "b; c", "c; a", "b"] * 25, y=["u", "v"] * 50).to_csv(tmp_path / "rows.csv", index=False)
    trained = run(tmp_path, "train", "rows.csv", "--target", "y", "--out", "model", "--epochs", "1")
    assert trained.returncode == 0, trained.stderr
    frame[["fever"]].to_csv(tmp_path / "new.csv", index=False)
    done = run(tmp_path, "predict", "model", "--data", "new.csv", "--stop", "budget=9", "--out", "predicted.csv")
    assert "They count as unknown." in " ".join(done.stderr.split())
    table = pd.read_csv(tmp_path / "predicted.csv")
    answers = {table.at[0, f"question_{i}"]: table.at[0, f"answer_{i}"] for i in range(1, table.at[0, "n_asked"] + 1)}
    assert answers.pop("fever") == "yes"
    assert len(answers) == 4
    assert all(pd.isna(answer) for answer in answers.values())
    refused = run(tmp_path, "explain", "model", "--data", "new.csv", "--line", "2")
    assert "lacks columns the model asks for" in " ".join(refused.stderr.split())


def test_rows_of_a_task_have_numbers(workspace: Path, tmp_path: Path) -> None:
    trained = run(tmp_path, "train", "digits", "--method", "tree", "--out", "tree")
    assert trained.returncode == 0, trained.stderr
    done = run(tmp_path, "predict", "tree", "--data", "digits", "--stop", "budget=2")
    assert done.stdout.startswith("row,prediction,probability_0,")
    assert [line.split(",")[0] for line in done.stdout.splitlines()[1:4]] == ["0", "1", "2"]
    by_shares = ("predict", "tree", "--data", "digits", "--stop", "budget=2", "--engine", "local", "--out", "by.csv")
    assert run(tmp_path, *by_shares).returncode == 0
    assert (tmp_path / "by.csv").read_text() == done.stdout
    measure = ("evaluate", "tree", "--data", "digits", "--json")
    assert json_of(run(tmp_path, *measure)) == json_of(run(tmp_path, *measure, "--engine", "local"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "patients.csv", "--out", "table.doc"], "give a name that ends in .csv, .tsv, .parquet, .pq"),
        (["--data", "patients.csv", "--out", "nowhere/table.csv"], "give a file in a folder that exists"),
        (["--data", "patients.csv", "--id", "nots"], "has no column 'nots'. Did you mean 'note'?"),
        (["--data", "nowhere.csv"], "There is no file nowhere.csv"),
        (["--data", "animals"], "asks other queries than those of animals"),
    ],
)
def test_mistakes_get_one_sentence(workspace: Path, arguments: list[str], message: str) -> None:
    result = run(workspace, "predict", "model", *arguments)
    assert_refused(result, message)


def test_a_column_of_the_predictions_cannot_be_copied(workspace: Path) -> None:
    pd.read_csv(workspace / "patients.csv").rename(columns={"note": "n_asked"}).to_csv(workspace / "own.csv")
    refused = run(workspace, "predict", "model", "--data", "own.csv", "--id", "n_asked", "--out", "refused.csv")
    assert "The predictions have a column 'n_asked' of their own" in " ".join(refused.stderr.split())
    assert not (workspace / "refused.csv").exists()


def test_a_number_is_predicted_with_its_interval(workspace: Path) -> None:
    arguments = ("train", "patients.csv", "--target", "age", "--regress", "--drop", "note", "--epochs", "3")
    trained = run(workspace, *arguments, "--out", "ages")
    assert trained.returncode == 0, trained.stderr
    done = run(workspace, "predict", "ages", "--data", "patients.csv", "--stop", "budget=1")
    assert done.returncode == 0, done.stderr
    names, first, *_ = (line.split(",") for line in done.stdout.splitlines())
    assert names[:6] == ["line", "prediction", "low", "high", "unusual", "n_asked"]
    assert float(first[2]) < float(first[1]) < float(first[3])
    assert len(first[1]) <= 7
