"""`ParquetRows`: what it finds, which rows it holds out, shards, and how `VIPClassifier` learns from it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numbered_rows import numbered
from pursuit import MLP, Stage, TrainingRun, VIPClassifier
from pursuit.queries import ColumnQueries, Number, WordQueries
from pursuit.tables.streaming import ParquetRows
from pursuit.training import AdamW
from pursuit.training.rows import Rows

NUMBER = ColumnQueries([Number("number", "?", spread=1e6)])


def numbers(rows: Rows) -> list[int]:
    return (rows.x[:, 0] * 1e6).round().int().tolist()


def one_pass(source: ParquetRows) -> list[int]:
    return numbers(source.stream(torch.Generator().manual_seed(0)).next(len(source)))


@pytest.fixture
def patients(write: Callable[..., Path]) -> Path:
    """Messy rows in two files; two columns determine the label."""
    randomness = np.random.default_rng(0)
    n = 900
    fever, where = randomness.random(n) < 0.5, randomness.choice(["head", "chest", "belly"], n)
    label = np.where(where == "belly", "gastritis", np.where(fever, "flu", "migraine")).astype(object)
    label[::50] = None
    frame = pd.DataFrame(
        {
            "fever": np.where(fever, "yes", "no"),
            "where": pd.Categorical(where),
            "age": randomness.integers(1, 90, n).astype(float),
            "smokes": randomness.random(n) < 0.3,
            "clinic": "north",
            "label": label,
        }
    )
    frame.loc[::9, "age"] = np.nan
    table = pa.Table.from_pandas(frame, preserve_index=False)
    write("patients/1.parquet", table.slice(0, 500), 64)
    return write("patients/2.parquet", table.slice(500), 150).parent


def test_what_it_finds(patients: Path) -> None:
    source = ParquetRows(patients, "label", seed=3)
    assert source.feature_names == ("fever", "where", "age", "smokes")
    assert source.silent_columns == ["clinic"]
    assert source.n_rows_without_label == 18
    assert source.classes.tolist() == ["flu", "gastritis", "migraine"]
    assert len(source) + source.n_test == 882
    assert abs(source.n_test / 882 - 0.2) < 0.05
    assert source.query_set is not None
    assert len(source.query_set) == source.n_queries == 4


def test_rows_are_those_of_the_table_in_memory(patients: Path) -> None:
    source = ParquetRows(patients, "label", test_share=0)
    frame = pd.concat([pd.read_parquet(path) for path in sorted(patients.iterdir())], ignore_index=True)
    frame = frame[frame.label.notna()]
    x, available = source.query_set.answers(frame)  # type: ignore[union-attr]
    y = torch.from_numpy(np.searchsorted(source.classes, frame.label.to_numpy(dtype=str)))
    drawn = source.stream(torch.Generator().manual_seed(0)).next(len(source))

    def sorted_rows(*tensors: torch.Tensor) -> list[Any]:
        return sorted(torch.cat([t.float().reshape(len(y), -1) for t in tensors], dim=1).tolist())

    assert sorted_rows(drawn.x, drawn.available, drawn.y) == sorted_rows(x, available, y)
    counts = torch.bincount(y, minlength=3).float() + 1
    torch.testing.assert_close(source.prior(3), counts / counts.sum())
    assert isinstance(source.query_set, ColumnQueries)
    assert source.query_set.queries == ColumnQueries.from_data(frame[list(source.feature_names)]).queries


def test_rows_to_measure_on_do_not_count_for_the_scale(write: Callable[..., Path]) -> None:
    frame = numbered(400)
    first = ParquetRows(write("1.parquet", pa.Table.from_pandas(frame)), "label")
    frame.loc[first.test_rows()[0].index, "number"] = 1e9
    second = ParquetRows(write("2.parquet", pa.Table.from_pandas(frame)), "label")
    assert isinstance(first.query_set, ColumnQueries)
    assert isinstance(second.query_set, ColumnQueries)
    assert first.query_set.queries == second.query_set.queries


def test_rows_to_measure_on_are_never_streamed(write: Callable[..., Path]) -> None:
    source = ParquetRows(write("t.parquet", pa.Table.from_pandas(numbered(500)), 40), "label", NUMBER, seed=9)
    X, y = source.test_rows()
    assert X.columns.tolist() == ["number"]
    assert X.number.tolist() == X.index.tolist()
    assert y.tolist() == [["ant", "bee", "cat"][i % 3] for i in X.index]
    assert sorted([*one_pass(source), *X.index]) == list(range(500))
    few, labels = source.test_rows(most=20)
    assert len(few) == len(labels) == 20
    assert set(few.index) < set(X.index)


def test_drawn_rows_are_other_ones_for_another_seed(write: Callable[..., Path]) -> None:
    source = ParquetRows(write("t.parquet", pa.Table.from_pandas(numbered(500)), 40), "label", NUMBER)
    randomness = torch.Generator().manual_seed(0)
    first, second = numbers(source.draw(100, randomness)), numbers(source.draw(100, randomness))
    assert len(first) == len(set(first)) == 100
    assert first != second
    assert not set(first) & set(source.test_rows()[0].index)
    assert sorted(numbers(source.draw(10_000, randomness))) == sorted(one_pass(source))


@pytest.mark.parametrize("n_shards", [1, 3])
def test_held_out_rows_are_not_learnt_from(write: Callable[..., Path], n_shards: int) -> None:
    source = ParquetRows(write("t.parquet", pa.Table.from_pandas(numbered(500)), 40), "label", NUMBER)
    others, held_out = source.hold_out(0.1, 4096, seed=1)
    assert len(held_out) == int(0.1 * len(source))
    assert len(others) == len(source) - len(held_out)
    shards = [others.shard(i, n_shards) for i in range(n_shards)]
    drawn = [number for shard in shards for number in one_pass(shard)]
    assert sorted([*drawn, *numbers(held_out)]) == sorted(one_pass(source))
    assert others.fingerprint() != source.fingerprint()
    assert len(source.hold_out(0.9, 10, seed=1)[1]) == 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(20, 120), group=st.integers(1, 130), n_shards=st.integers(1, 7), share=st.sampled_from([0.0, 0.3]))
def test_every_row_is_in_one_shard(write: Callable[..., Path], n: int, group: int, n_shards: int, share: float) -> None:
    path = write("t.parquet", pa.Table.from_pandas(numbered(n)), group)
    source = ParquetRows(path, "label", NUMBER, test_share=share, buffer_rows=16)
    shards = [source.shard(i, n_shards) for i in range(n_shards)]
    parts = [one_pass(shard) for shard in shards if len(shard)]
    assert sorted(number for part in parts for number in part) == sorted(one_pass(source))
    if not share:
        assert max(map(len, shards)) - n / n_shards <= 2 + 0.02 * n / n_shards
    for shard in shards:
        torch.testing.assert_close(shard.prior(3), source.prior(3))


def test_a_shard_that_is_not_there_or_empty(patients: Path, write: Callable[..., Path]) -> None:
    source = ParquetRows(patients, "label")
    with pytest.raises(ValueError, match="from 0 to 1: there is no shard 2"):
        source.shard(2, 2)
    two = ParquetRows(write("two.parquet", pa.Table.from_pandas(numbered(2))), "label", NUMBER, test_share=0)
    shards = [two.shard(i, 3) for i in range(3)]
    assert sorted(map(len, shards)) == [0, 1, 1]
    with pytest.raises(ValueError, match="no rows to train on"):
        min(shards, key=len).stream(torch.Generator())


def test_fingerprints(patients: Path) -> None:
    source = ParquetRows(patients, "label")
    assert ParquetRows(patients, "label").fingerprint() == source.fingerprint()
    assert source.to(torch.device("cpu")).fingerprint() == source.fingerprint()
    changed = [
        ParquetRows(patients, "label", seed=1),
        ParquetRows(patients, "label", test_share=0.1),
        ParquetRows(patients, "label", drop=["age"]),
        ParquetRows(patients, "label", buffer_rows=10),
        ParquetRows(patients / "1.parquet", "label"),
        source.shard(0, 2),
    ]
    assert len({source.fingerprint(), *(other.fingerprint() for other in changed)}) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "lable"}, "no column 'lable'. Did you mean 'label'"),
        ({"target": "label", "drop": ["label"]}, "no column 'label'"),
        ({"target": "label", "drop": ["size"]}, "no column 'size'"),
        ({"target": "label", "test_share": 1.0}, "below 1"),
        ({"target": "label", "buffer_rows": 0}, "at least 1, not 0"),
        (
            {"target": "label", "query_set": ColumnQueries([Number("fever", "?")])},
            "'fever' holds words, but .* a number",
        ),
        ({"target": "label", "drop": ["fever", "where", "age", "smokes"]}, "no columns to ask for"),
    ],
)
def test_mistakes_get_a_sentence(patients: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParquetRows(patients, **options)


def test_words_of_texts_are_queries_too(write: Callable[..., Path]) -> None:
    headlines = ["senators debate the tax", "a new tax", "striker scores", "the match is drawn"] * 20
    path = write("t.parquet", {"headline": headlines, "section": ["politics", "politics", "sports", "sports"] * 20})
    queries = WordQueries.from_texts(headlines, n_words=3)
    source = ParquetRows(path, "section", queries, test_share=0)
    drawn = source.stream(torch.Generator().manual_seed(0)).next(80)
    assert drawn.x.shape == (80, 3)
    assert sorted(drawn.x.tolist()) == sorted(queries.answers(pd.DataFrame({"headline": headlines})).x.tolist())


QUICK = {"network": MLP((32,)), "random_state": 0}


def test_a_classifier_learns_from_files(patients: Path, tmp_path: Path) -> None:
    source = ParquetRows(patients, "label", buffer_rows=100)
    model = VIPClassifier(
        stages=[Stage(6, optimizer=AdamW(1e-2), batch_size=32)], standardise=True, held_out=0.1, **QUICK
    ).fit(source)
    X, y = source.test_rows()
    assert model.score(X, y) > 0.9
    assert model.feature_names_in_.tolist() == ["fever", "where", "age", "smokes"]
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(VIPClassifier.load(tmp_path / "model").predict(X), model.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.drop(columns="age"))


def test_training_that_stopped_goes_on_with_the_same_rows(patients: Path, tmp_path: Path) -> None:
    """Weights are bit for bit those of the run that was never interrupted."""
    source = ParquetRows(patients, "label", buffer_rows=100)
    plan = {"stages": [Stage(2, batch_size=32)], **QUICK}
    whole = VIPClassifier(**plan).fit(source)

    class Stopped(Exception):
        pass

    def stop(report: Any) -> None:
        if report.step * 2 >= report.n_steps:
            raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pursuit.training.run.CHECKPOINT_PAUSE", 0)
        interrupted = TrainingRun(tmp_path / "run", on_report=stop, checkpoint_seconds=0)
        with pytest.raises(Stopped):
            VIPClassifier(**plan).fit(source, run=interrupted)
    assert any((tmp_path / "run" / "checkpoints").glob("checkpoint-*"))
    resume = TrainingRun(tmp_path / "run", resume=True)
    resumed = VIPClassifier(**plan).fit(source, run=resume)
    for name, weight in whole.model_.state_dict().items():
        assert torch.equal(weight, resumed.model_.state_dict()[name])
    with pytest.raises(ValueError, match="other rows"):
        VIPClassifier(**plan).fit(source.shard(0, 2), run=resume)


def test_fit_says_what_is_wrong(patients: Path) -> None:
    source = ParquetRows(patients, "label")
    with pytest.raises(ValueError, match="ParquetRows come with labels"):
        VIPClassifier().fit(source, [1, 2])
    with pytest.raises(ValueError, match="answer 4 queries, but the query_set has 1"):
        VIPClassifier(NUMBER).fit(source)
