"""All rows of files, predicted and measured share by share."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pursuit.estimators import PursuitClassifier
from pursuit.evaluation.counts import EvaluationCounts
from pursuit.evaluation.curves import Evaluation
from pursuit.tables.engine import Engine, Local, Lost, at_home, find_engine
from pursuit.tables.filesystem import CannotReach
from pursuit.tables.row_jobs import Explain, Predict, known_labels, measure_all, write_file, write_folder
from scale.conftest import COLUMNS, make_rows, of


class Interrupted(Engine):
    """Does some shares, in another order, and stops."""

    def __init__(self, n: int):
        self.n = n

    def each(self, do, items):  # type: ignore[no-untyped-def]
        yield from ((share, do(share)) for share in [*items][::-1][: self.n])
        raise KeyboardInterrupt


def nobody(n_rows: int) -> None:
    """Watches."""


def test_every_row_is_predicted_once_as_by_the_model_itself(
    model: PursuitClassifier, parquet: Path, tmp_path: Path
) -> None:
    seen: list[int] = []
    n_rows = write_folder(Predict(model, of(parquet, id_column="key"), None, tmp_path / "out"), Local(), seen.append)
    assert (n_rows, seen) == (2400, [0, 400, 800, 1200, 1600, 2000, 2400])
    found, rows = pd.read_parquet(tmp_path / "out"), pd.concat([make_rows(800, seed) for seed in (1, 2, 3)])
    assert found["key"].tolist() == rows["key"].tolist()
    own = model.predict_table(rows[COLUMNS])
    assert found["prediction"].tolist() == own["prediction"].tolist()
    assert np.allclose(found["probability_a"], own["probability_a"], atol=1e-6)
    assert [len(asked) for asked in found["questions"]] == own["n_asked"].tolist()
    assert found["questions"][0][0] == own["question_1"].iloc[0]
    assert found["answers"][0][0] == own["answer_1"].iloc[0]


def test_predictions_go_on_where_they_stopped(model: PursuitClassifier, parquet: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    write_folder(Predict(model, of(parquet), None, whole), Local(), nobody)
    with pytest.raises(KeyboardInterrupt):
        write_folder(Predict(model, of(parquet), None, part), Interrupted(2), nobody)
    (part / "_part-000005.json").unlink()  # its rows were written, but not whether all of them
    (part / "_part-000004.json").write_text("[4,")
    before = {path.name: path.stat().st_mtime_ns for path in part.glob("part-*")}
    assert set(before) == {"part-000004.parquet", "part-000005.parquet"}
    assert write_folder(Predict(model, of(parquet), None, part), Local(), nobody) == 2400
    for path in sorted(whole.glob("part-*")):
        assert path.read_bytes() == (part / path.name).read_bytes()
    kept = {path.name: path.stat().st_mtime_ns for path in part.glob("part-*")}
    assert (
        write_folder(Predict(model, of(parquet), None, part), Interrupted(0), nobody) == 2400
    )  # nothing is left to be done
    assert kept == {path.name: path.stat().st_mtime_ns for path in part.glob("part-*")}


def test_a_file_goes_on_where_it_stopped_too(model: PursuitClassifier, parquet: Path, tmp_path: Path) -> None:
    work = Predict(model, of(parquet, id_column="key"), None, tmp_path / "parts", in_lists=False)
    with pytest.raises(KeyboardInterrupt):
        write_file(work, tmp_path / "table.parquet", Interrupted(2), nobody)
    seen: list[int] = []
    assert write_file(work, tmp_path / "table.parquet", Local(), seen.append) == 2400
    assert seen[0] == 800
    assert [path.name for path in tmp_path.iterdir()] == ["table.parquet"]
    found, rows = pd.read_parquet(tmp_path / "table.parquet"), pd.concat([make_rows(800, seed) for seed in (1, 2, 3)])
    own = model.predict_table(rows[COLUMNS])
    assert list(found.columns) == ["key", *own.columns]
    assert found["key"].tolist() == rows["key"].tolist()
    assert found["question_1"].tolist() == own["question_1"].tolist()


def test_a_folder_is_for_one_piece_of_work(model: PursuitClassifier, parquet: Path, tmp_path: Path) -> None:
    write_folder(Predict(model, of(parquet), None, tmp_path / "out"), Local(), nobody)
    with pytest.raises(ValueError, match="another stop: choose another folder"):
        write_folder(Predict(model, of(parquet), "budget=1", tmp_path / "out"), Local(), nobody)
    with pytest.raises(ValueError, match="another id column: choose another folder"):
        write_folder(Predict(model, of(parquet, id_column="key"), None, tmp_path / "out"), Local(), nobody)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(ValueError, match="holds other files"):
        write_folder(Predict(model, of(parquet), None, tmp_path / "mine"), Local(), nobody)
    (tmp_path / "out" / "_job.json").write_text("[]")
    with pytest.raises(ValueError, match="choose another folder"):
        write_folder(Predict(model, of(parquet), None, tmp_path / "out"), Local(), nobody)


def without_bits(evaluation: Evaluation) -> Evaluation:
    return replace(evaluation, questions=tuple(replace(one, mean_bits=None) for one in evaluation.questions))


@pytest.mark.parametrize("with_bits", [pytest.param(False, marks=pytest.mark.slow), True])
def test_all_rows_are_measured_as_by_the_model_itself(
    model: PursuitClassifier, parquet: Path, tmp_path: Path, with_bits: bool
) -> None:
    found = measure_all(model, of(parquet), None, Local(), nobody, with_bits=with_bits)
    rows = pd.concat([make_rows(800, seed) for seed in (1, 2, 3)])
    assert found.n_left_out == 0
    expected = model.evaluate(rows[COLUMNS], rows["label"], with_bits=with_bits)
    # Bits are products of matrices, which round a little differently where other rows are computed with them.
    bits = [[one.mean_bits or 0.0 for one in of.questions] for of in (found.evaluation, expected)]
    assert bits[0] == pytest.approx(bits[1], abs=1e-6)
    assert without_bits(found.evaluation) == without_bits(expected)


def test_a_measurement_goes_on_where_it_stopped(model: PursuitClassifier, parquet: Path, tmp_path: Path) -> None:
    whole = measure_all(model, of(parquet), None, Local(), nobody)
    with pytest.raises(KeyboardInterrupt):
        measure_all(model, of(parquet), None, Interrupted(3), nobody, tmp_path)
    (tmp_path / "counts-000004.safetensors").write_bytes(b"torn")
    again = measure_all(model, of(parquet), None, Local(), nobody, tmp_path)
    assert again == whole
    assert measure_all(model, of(parquet), None, Interrupted(0), nobody, tmp_path) == whole


def test_rows_without_a_label_that_the_model_knows_are_counted(model: PursuitClassifier, tmp_path: Path) -> None:
    rows = make_rows(50, 9)
    rows.loc[[3, 7], "label"] = [None, "d"]
    rows.to_parquet(tmp_path / "rows.parquet")
    found = measure_all(model, of(tmp_path), None, Local(), nobody)
    assert (found.evaluation.n_rows, found.n_left_out) == (48, 2)
    rows.assign(label="d").to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="no rows to measure on"):
        measure_all(model, of(tmp_path), None, Local(), nobody)


def test_a_folder_of_csv_files(model: PursuitClassifier, tmp_path: Path) -> None:
    for seed in (1, 2):
        make_rows(30, seed).to_csv(tmp_path / f"{seed}.csv", index=False)
    n_rows = write_folder(Predict(model, of(tmp_path), None, tmp_path / "out"), Local(), nobody)
    found = pd.read_parquet(tmp_path / "out")
    assert n_rows == 60
    assert list(zip(found["file"], found["line"], strict=True))[29:31] == [("1.csv", 31), ("2.csv", 2)]


def test_a_share_that_comes_to_nothing_is_told(model: PursuitClassifier, parquet: Path, tmp_path: Path) -> None:
    class Lazy(Engine):
        def each(self, do, items):  # type: ignore[no-untyped-def]
            yield from ((share, do(share) if share else Lost("its machine")) for share in items)

    with pytest.raises(RuntimeError, match="1 of 6 shares came to nothing"):
        write_folder(Predict(model, of(parquet), None, tmp_path / "out"), Lazy(), nobody)


def test_chains_go_on_where_they_stopped(model: PursuitClassifier, parquet: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert write_folder(Explain(model, of(parquet), None, whole), Local(), nobody) == 2400
    with pytest.raises(KeyboardInterrupt):
        write_folder(Explain(model, of(parquet), None, part), Interrupted(2), nobody)
    assert write_folder(Explain(model, of(parquet), None, part), Local(), nobody) == 2400
    for path in sorted(whole.glob("part-*")):
        assert path.read_bytes() == (part / path.name).read_bytes()
    table = pd.read_parquet(whole)
    write_folder(Predict(model, of(parquet), None, tmp_path / "predictions"), Local(), nobody)
    predictions = pd.read_parquet(tmp_path / "predictions")
    last = table.groupby("row").last()
    assert last["prediction"].tolist() == predictions["prediction"].tolist()
    assert last["step"].tolist() == predictions["n_asked"].tolist()
    assert np.allclose(last["probability_a"], predictions["probability_a"], atol=2e-6)
    asked = table[table["step"] > 0].groupby("row")["question"].agg(list)
    assert asked.tolist() == [list(questions) for questions in predictions["questions"]]
    with pytest.raises(ValueError, match="another work"):
        write_folder(Explain(model, of(parquet), None, tmp_path / "predictions"), Local(), nobody)


def test_shares_have_the_same_columns_however_little_is_asked(model: PursuitClassifier, tmp_path: Path) -> None:
    nothing = make_rows(20, 1)
    nothing[COLUMNS] = None
    nothing.astype(dict.fromkeys(COLUMNS, str)).to_csv(tmp_path / "1.csv", index=False)
    make_rows(20, 2).to_csv(tmp_path / "2.csv", index=False)
    write_folder(Explain(model, of(tmp_path), "budget=2", tmp_path / "out"), Local(), nobody)
    first, second = (pd.read_parquet(path) for path in sorted((tmp_path / "out").glob("*.parquet")))
    assert first.dtypes.to_dict() == second.dtypes.to_dict()
    assert first["answer"].isna().all()
    assert len(pd.read_parquet(tmp_path / "out")) == len(first) + len(second)


def test_the_first_rows_with_a_label(model: PursuitClassifier, tmp_path: Path) -> None:
    for seed in (1, 2):
        rows = make_rows(50, seed)
        rows.loc[[3, 7], "label"] = [None, "d"]
        rows.to_parquet(tmp_path / f"{seed}.parquet", row_group_size=20)
    first = of(tmp_path).unseen(60)
    assert first.X.index.tolist() == [i for i in range(64) if i not in (3, 53)][:60]
    assert first.y is not None
    known = known_labels(model, pd.Series(first.y))
    assert sorted(set(range(60)) - set(known.index)) == [6, 55]
    assert len(of(tmp_path).unseen(1000).X) == 98


def test_what_the_rows_lack_is_refused_as_without_an_engine(model: PursuitClassifier, tmp_path: Path) -> None:
    make_rows(50, 1).drop(columns="q3").to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="lacks columns the model asks for: q3"):
        measure_all(model, of(tmp_path), None, Local(), nobody)


def test_sums_survive_a_file(model: PursuitClassifier) -> None:
    from pursuit.evaluation.curves import Setting, evaluation_counts

    rows = make_rows(40, 1)
    setting = Setting.of(model.model_, model.stopping_rule(), in_detail=True)
    sums = evaluation_counts(model.model_, model.rows(rows[COLUMNS], rows["label"]), setting)
    again = EvaluationCounts.from_tensors(sums.tensors())
    assert setting.evaluation(again + sums) == setting.evaluation(sums + again)
    assert setting.evaluation(again) == setting.evaluation(sums)


def test_engines_by_name() -> None:
    assert isinstance(find_engine("local"), Local)
    assert isinstance(find_engine(None), Local)
    with pytest.raises(ValueError, match="one of local, ray, not 'spark'"):
        find_engine("spark")
    with pytest.raises(ValueError, match="--address is that of a cluster"):
        find_engine("local", "auto")


# Machines that do not see what the caller sees


def test_a_machine_that_does_not_see_the_callers_folder_uses_none_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("of this machine")
    elsewhere = tmp_path / "not here"
    refusal = r"which does not see .*not here, where the work was started"
    with pytest.raises(ValueError, match=rf"rows\.csv.* {refusal}"), at_home(elsewhere):
        Path("rows.csv").read_text()
    with pytest.raises(ValueError, match=rf"^out cannot be kept\. .* {refusal}"), at_home(elsewhere):
        Path("out").mkdir()
    with pytest.raises(CannotReach, match=r"^storage$"), at_home(elsewhere):
        raise CannotReach("storage")  # is tried again
    with at_home(elsewhere):  # what has its whole name means the same everywhere
        assert (tmp_path / "rows.csv").read_text() == "of this machine"
        (tmp_path / "out.csv").touch()
    assert Path.cwd() == tmp_path
    elsewhere.mkdir()
    with at_home(elsewhere):
        Path("out").mkdir()
    assert (elsewhere / "out").is_dir()


def test_shares_are_not_written_to_a_folder_of_the_same_name(
    model: PursuitClassifier, parquet: Path, tmp_path: Path
) -> None:
    """As on a machine that has such a folder of its own, or none."""
    work = Predict(model, of(parquet), None, tmp_path / "out")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"out is not the folder that the work was started with"):
            work(0)
        (tmp_path / "out").mkdir(exist_ok=True)
    work.claim()
    assert work(0).n_rows == 400
