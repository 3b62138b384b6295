"""HuffPost articles: which are kept, how sections are merged, and how the rows are split."""

import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pursuit.queries import WordQueries
from pursuit.research.tasks import TASKS, Task, huffpost
from pursuit.research.tasks.files import MissingData, damage, locate

pytestmark = pytest.mark.xdist_group("real data")  # they share what is loaded or trained

COUNTS = {
    "POLITICS": 32_739,
    "WELLNESS": 17_827,
    "ENTERTAINMENT": 16_058,
    "PARENTING": 12_632,
    "STYLE & BEAUTY": 11_903,
    "HOME & LIVING": 10_889,
    "TRAVEL": 9_887,
    "FOOD & DRINK": 8_322,
    "QUEER VOICES": 6_314,
    "BUSINESS": 5_937,
}


def article(category: str, headline: str = "A headline", date: str = "2015-01-01", **others: Any) -> dict[str, Any]:
    return {"headline": headline, "short_description": "in short", "category": category, "date": date, **others}


def written(path: Path, articles: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in articles).encode()
    path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)
    return path


@pytest.fixture
def small(data: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A made data set of 40 articles in the place of the real one, with its texts."""
    for name, number in {"N_TRAIN": 32, "N_VALIDATION": 4, "N_TEST": 4}.items():
        monkeypatch.setattr(huffpost, name, number)
    subjects = {"FOOD & DRINK": "cake", "POLITICS": "tax"}
    articles = [article(("FOOD & DRINK", "POLITICS")[i % 2], f"Number{i:02} on") for i in range(40)]
    articles = [{**row, "short_description": subjects[row["category"]]} for row in articles]
    written(data / "huffpost" / "huffpost_v3.jsonl.xz", articles)
    return [f"{row['headline']} {row['short_description']}" for row in articles]


def test_text_is_headline_and_description(tmp_path: Path) -> None:
    path = written(tmp_path / "made.json", [article("TRAVEL", "Go North"), article("TRAVEL", "", short_description="")])
    texts, categories = huffpost.documents(path)
    assert texts.tolist() == ["Go North in short", " "]
    assert categories.tolist() == ["TRAVEL", "TRAVEL"]


def test_rows_after_the_second_version_are_left_out(tmp_path: Path) -> None:
    dates = ["2022-09-23", "2018-05-27", "2018-05-26", "2018-05-25", "2012-01-28"]
    texts, _ = huffpost.documents(written(tmp_path / "made.json", [article("TRAVEL", date, date) for date in dates]))
    assert [text[:10] for text in texts] == dates[2:]


def test_sections_are_dropped_and_merged(tmp_path: Path) -> None:
    path = written(tmp_path / "made.json", map(article, [*sorted(huffpost.DROPPED), *huffpost.MERGED, "CRIME"]))
    assert len(huffpost.DROPPED) == 8
    _, categories = huffpost.documents(path)
    merged = ["PARENTING", "ARTS & CULTURE", "ARTS & CULTURE", "STYLE & BEAUTY", "FOOD & DRINK", "HOME & LIVING"]
    assert categories.tolist() == [*merged, "CRIME"]


def test_the_ten_most_frequent_sections_are_kept_once_merged(tmp_path: Path) -> None:
    names = [f"SECTION {i}" for i in range(9) for _ in range(3)] + ["RARE"] * 2 + ["TASTE", "FOOD & DRINK"] * 2
    later = [article("RARE", date="2020-01-01")] * 5  # do not count
    dropped = [article("GREEN")] * 9
    _, categories = huffpost.documents(written(tmp_path / "made.json", [*later, *map(article, names), *dropped]))
    assert Counter(categories.tolist()) == {**{f"SECTION {i}": 3 for i in range(9)}, "FOOD & DRINK": 4}


@pytest.mark.parametrize("key", ["headline", "short_description", "category", "date"])
def test_an_article_without_its_parts_is_reported(tmp_path: Path, key: str) -> None:
    row = article("TRAVEL")
    del row[key]
    with pytest.raises(ValueError, match=f"made.json has an article without '{key}'"):
        huffpost.documents(written(tmp_path / "made.json", [row]))


@pytest.mark.parametrize("n_documents", [9, 10, 101, 132_508])
def test_parts_cover_all_rows_and_do_not_meet(n_documents: int) -> None:
    parts = huffpost.split(n_documents)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n_documents))
    assert len(parts[0]) == round(0.8 * n_documents)
    assert all(np.array_equal(part, again) for part, again in zip(parts, huffpost.split(n_documents), strict=True))


def test_parts_are_those_of_the_paper() -> None:
    parts = huffpost.split(sum(COUNTS.values()))
    assert [len(part) for part in parts] == [106_006, 13_251, 13_251]
    order = torch.randperm(132_508, generator=torch.Generator().manual_seed(42))
    assert np.array_equal(np.concatenate(parts), order.numpy())


def test_task_of_a_made_file(small: list[str]) -> None:
    task, other = huffpost.load(seed=0), huffpost.load(seed=1, measure_on="validation")
    assert task.X_train.shape == (32, 1)
    together = np.concatenate([task.X_train, other.X_test, task.X_test])[:, 0]
    assert sorted(together) == sorted(small)
    for X, y in ((task.X_train, task.y_train), (task.X_test, task.y_test), (other.X_test, other.y_test)):
        assert len(X) == len(y)
        assert all(("cake" in text) == (label == "FOOD & DRINK") for (text,), label in zip(X, y, strict=True))
    assert np.array_equal(task.X_train, other.X_train)
    assert isinstance(task.query_set, WordQueries)
    assert task.query_set.queries == other.query_set.queries
    assert [query.text for query in task.query_set.queries] == [
        "Is the word 'cake' in the headline or description?",
        "Is the word 'tax' in the headline or description?",
    ]
    assert json.loads(json.dumps(task.notes)) == {"file": "huffpost_v3.jsonl.xz", "measure_on": "test"}
    assert task.held_out is not None
    assert np.array_equal(task.held_out.X_test, other.X_test)
    assert other.held_out is None


def test_test_rows_have_no_influence_on_the_words(small: list[str], data: Path) -> None:
    path = data / "huffpost" / "huffpost_v3.jsonl.xz"
    train, _, _ = huffpost.split(len(small))
    articles = [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
    for i, row in enumerate(articles):
        if i not in train:
            row["short_description"] += " zebra" * 20
    written(path, articles)
    assert [query.name for query in huffpost.load().query_set.queries] == ["cake", "tax"]


def test_the_publishers_own_file_serves_as_well(small: list[str], data: Path) -> None:
    expected = huffpost.load()
    path = data / "huffpost" / "huffpost_v3.jsonl.xz"
    text = lzma.decompress(path.read_bytes())
    path.unlink()
    articles = [{**json.loads(line), "link": "https://example.org", "authors": "N. N."} for line in text.splitlines()]
    written(data / "huffpost" / "News_Category_Dataset_v3.json", articles)
    task = huffpost.load()
    assert np.array_equal(task.X_train, expected.X_train)
    assert np.array_equal(task.y_test, expected.y_test)
    assert task.notes["file"] == "News_Category_Dataset_v3.json"


def test_other_numbers_of_articles_are_refused(data: Path) -> None:
    written(data / "huffpost" / "huffpost_v3.jsonl.xz", [article("TRAVEL")])
    with pytest.raises(ValueError, match=r"has 1 articles of the ten sections, but 132508 are expected.*Misra"):
        huffpost.load()


def test_unknown_parts_are_refused(data: Path) -> None:
    with pytest.raises(ValueError, match='"test" or "validation", not \'train\''):
        huffpost.load(measure_on="train")  # type: ignore[arg-type]


def test_a_missing_file_is_reported_with_where_to_get_it(data: Path) -> None:
    with pytest.raises(MissingData, match=r"News_Category_Dataset_v3.*kaggle"):
        huffpost.load()


@pytest.fixture
def real(real_task: Callable[[str], Task]) -> Task:
    return real_task("huffpost")


@pytest.mark.slow
def test_real_articles_are_those_of_the_paper(real: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    found = locate(huffpost.FILE)
    assert found is not None
    assert damage(*found) == ""
    texts, categories = huffpost.documents(found.path)
    assert Counter(categories.tolist()) == COUNTS
    train, validation, test = huffpost.split(len(texts))
    assert np.array_equal(real.X_train[:, 0], texts[train])
    assert np.array_equal(real.y_train, categories[train])
    assert np.array_equal(real.X_test[:, 0], texts[test])
    assert np.array_equal(real.y_test, categories[test])
    monkeypatch.setattr(huffpost, "documents", lambda path: (texts, categories))
    monkeypatch.setattr(WordQueries, "from_texts", lambda *_, **__: real.query_set)
    other = huffpost.load(measure_on="validation")
    assert np.array_equal(other.X_test[:, 0], texts[validation])
    assert np.array_equal(other.y_test, categories[validation])


@pytest.mark.slow
def test_real_task_is_as_announced(real: Task) -> None:
    info = TASKS["huffpost"]
    assert (len(real.y_train), len(real.y_test)) == (info.n_train, info.n_test)
    assert real.X_train.shape == (info.n_train, 1)
    assert len(real.query_set) == info.n_queries
    assert set(real.y_train) == set(real.y_test) == set(COUNTS)
    assert len(COUNTS) == info.n_classes


@pytest.mark.slow
def test_real_words_tell_sections(real: Task) -> None:
    names = [query.name for query in real.query_set.queries]
    assert {"trump", "recip", "senat", "u.s.", "news"} <= set(names)
    x, available = real.query_set.answers(real.X_test)
    assert x.shape == available.shape == (13_251, 1000)
    assert available.all()
    assert torch.equal(x.abs(), torch.ones_like(x))
    likeliest = {"trump": "POLITICS", "recip": "FOOD & DRINK", "hotel": "TRAVEL", "lgbt": "QUEER VOICES"}
    for name, section in likeliest.items():
        has_word = (x[:, names.index(name)] > 0).numpy()
        assert Counter(real.y_test[has_word]).most_common(1)[0][0] == section
