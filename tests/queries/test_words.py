"""Words as queries: which words a text has, which are worth asking for, and how they are worded."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from pursuit import CarriedHistories, Stage, VIPClassifier, load
from pursuit.queries import Choice, Number, WordQueries, yes_no
from pursuit.queries.words import term_of, word_query, words

TEXTS = [
    "The Senate votes on taxes",
    "A senator voted; the senate did not",
    "Tax the cakes",
    "Cakes, cakes and nothing else",
    "",
]
SOME_WORDS = ["the", "Senate", "senators", "cake's", "Cakes", "don’t", "u.s.", "7", "x", "2016", "tax", "taxes", "news"]
some_texts = st.lists(st.lists(st.sampled_from(SOME_WORDS), max_size=8).map(" ".join), min_size=1, max_size=12)


def terms(text: str) -> list[str]:
    return [term for word in words(text) if (term := term_of(word))]


@pytest.fixture
def query_set() -> WordQueries:
    return WordQueries.from_texts(TEXTS, min_documents=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, WORLD!", ["hello", "world"]),
        ("Trump's and the parents' and Obama’s", ["trump", "and", "the", "parents", "and", "obama"]),
        ("We've, I'm, you’re, they'd, she'll", ["we", "i", "you", "they", "she"]),
        ("Don't, can’t; O'Reilly's", ["don't", "can't", "o'reilly"]),
        ("'quoted' ‘curly’", ["quoted", "curly"]),
        ("I'd've", ["i"]),
        ("D'Angelo and the '90s", ["d'angelo", "and", "the", "90s"]),
        ("The U.S. and U.K.", ["the", "u.s.", "and", "u.k."]),
        ("A Ph.D. at 9 a.m.", ["a", "ph", "d", "at", "9", "a.m."]),
        ("1,000 of 2.5 in 2016.", ["1,000", "of", "2.5", "in", "2016"]),
        ("same-sex snake_case #metoo", ["same", "sex", "snake", "case", "metoo"]),
        ("Beyonce\u0301 beyoncé", ["beyoncé", "beyoncé"]),
        ("co\u00adoperate", ["cooperate"]),
        (" \n…—!?", []),
        ("", []),
    ],
)
def test_texts_are_split_into_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(text=st.text())
def test_any_text_can_be_split(text: str) -> None:
    found = words(text)
    assert all(found)
    assert [word for word in found if any(sign.isspace() for sign in word)] == []


def test_words_of_one_stem_are_one_term() -> None:
    assert {term_of(word) for word in ("senate", "senator", "senators")} == {"senat"}
    assert term_of("policies") == term_of("policy") == "polici"
    assert term_of("u.s.") == "u.s."
    assert term_of("don't") == "don't"
    assert term_of("2016") == "2016"
    assert term_of("news") == "news" != term_of("new")


def test_stop_words_single_letters_and_digits_are_not_terms() -> None:
    assert {term_of(word) for word in ENGLISH_STOP_WORDS} == {""}
    assert term_of("interesting") == term_of("seriously") == "", "the stem is that of a stop word"
    assert [term_of(sign) for sign in "azé07"] == [""] * 5


def test_threads_get_the_stems_that_one_thread_gets() -> None:
    many = [f"nation{ending}{i}{ending}" for i in range(300) for ending in ("ing", "al", "ization", "s")]
    found: dict[int, list[str]] = {}

    def look_up(number: int) -> None:
        found[number] = [term_of.__wrapped__(word) for word in many]

    threads = [threading.Thread(target=look_up, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(stems == [term_of(word) for word in many] for stems in found.values())
    assert len(found) == 4


def test_vocabulary_and_wording(query_set: WordQueries) -> None:
    assert [query.name for query in query_set.queries] == ["cake", "senat", "tax", "vote"]
    assert [query.text for query in query_set.queries] == [
        "Is the word 'cake' (as in 'cakes') in the text?",
        "Is the word 'senat' (as in 'senate') in the text?",
        "Is the word 'tax' (as in 'taxes') in the text?",
        "Is the word 'vote' (as in 'votes') in the text?",
    ]
    assert all(query.choices == ("no", "yes") for query in query_set.queries)
    headline = WordQueries.from_texts(["tax the tax", "taxes"], min_documents=1, place="headline")
    assert [query.text for query in headline.queries] == ["Is the word 'tax' in the headline?"]


def test_frequent_terms_are_kept_and_rare_ones_left_out() -> None:
    texts = ["apple apple apple apple", "bread bread", "bread cheese", "cheese"]
    names = lambda **options: [query.name for query in WordQueries.from_texts(texts, **options).queries]  # noqa: E731
    assert names(min_documents=1) == ["appl", "bread", "chees"]
    assert names(min_documents=1, n_words=1) == ["appl"]
    assert names(min_documents=1, n_words=2) == ["appl", "bread"]
    assert names(min_documents=2) == ["bread", "chees"], "however often it is in one text"
    assert names(min_documents=2, n_words=1) == ["bread"]


@given(texts=some_texts, n_words=st.integers(1, 8), min_documents=st.integers(1, 3))
def test_vocabulary_is_counted_term_by_term(texts: list[str], n_words: int, min_documents: int) -> None:
    counts = Counter(term for text in texts for term in terms(text))
    n_texts = Counter(term for text in texts for term in set(terms(text)))
    uses = Counter(word for text in texts for word in words(text))  # of equally frequent words the first one counts
    frequent = sorted((-count, term) for term, count in counts.items() if n_texts[term] >= min_documents)
    if not frequent:
        with pytest.raises(ValueError, match="lower min_documents"):
            WordQueries.from_texts(texts, n_words, min_documents)
        return
    query_set = WordQueries.from_texts(texts, n_words, min_documents)
    assert [query.name for query in query_set.queries] == sorted(term for _, term in frequent[:n_words])
    for query in query_set.queries:
        usual = max((word for word in uses if term_of(word) == query.name), key=uses.__getitem__)
        assert query == word_query(query.name, usual)


@given(texts=some_texts, seen=some_texts)
def test_answers_say_which_terms_a_text_has(texts: list[str], seen: list[str]) -> None:
    query_set = WordQueries.from_texts([*seen, "tax"], min_documents=1)
    x, available = query_set.answers(texts)
    expected = [[1.0 if query.name in terms(text) else -1.0 for query in query_set.queries] for text in texts]
    assert x.dtype == torch.float32
    assert x.tolist() == expected
    assert available.all()
    assert available.shape == x.shape


def test_answers_are_those_of_the_table(query_set: WordQueries) -> None:
    x, available = query_set.answers(TEXTS)
    assert x.tolist() == [[-1, 1, 1, 1], [-1, 1, -1, 1], [1, -1, 1, -1], [1, -1, -1, -1], [-1, -1, -1, -1]]
    table = (x.numpy() > 0).astype(int)
    for data in (table, pd.DataFrame(table, columns=["cake", "senat", "tax", "vote"]), table.tolist()):
        again = query_set.answers(data)
        assert torch.equal(again.x, x)
        assert torch.equal(again.available, available)


@pytest.mark.parametrize(
    "form",
    [
        tuple,
        np.array,
        lambda texts: np.array(texts, dtype=object),
        lambda texts: np.array(texts, dtype=object)[:, None],
        pd.Series,
        lambda texts: pd.Series(texts, dtype="string", index=range(7, 7 + len(texts))),
        lambda texts: pd.Series(texts, dtype="category"),
        lambda texts: pd.DataFrame({"headline": texts}),
    ],
)
def test_texts_come_in_many_forms(query_set: WordQueries, form: Callable[[list[str]], Any]) -> None:
    assert torch.equal(query_set.answers(form(TEXTS)).x, query_set.answers(TEXTS).x)
    assert WordQueries.from_texts(form(TEXTS), min_documents=2).queries == query_set.queries


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_text_has_no_answers_and_an_empty_one_has(query_set: WordQueries, missing: Any) -> None:
    for data in (["tax", missing, ""], pd.Series(["tax", missing, ""]), np.array([["tax"], [missing], [""]], object)):
        x, available = query_set.answers(data)
        assert x.tolist() == [[-1, -1, 1, -1], [0, 0, 0, 0], [-1, -1, -1, -1]]
        assert available.tolist() == [[True] * 4, [False] * 4, [True] * 4]
    assert not query_set.answers([missing]).available.any()
    assert WordQueries.from_texts([*TEXTS, missing], min_documents=2).queries == query_set.queries


def test_a_single_word_has_its_texts_and_its_table() -> None:
    query_set = WordQueries([word_query("tax")])
    assert query_set.answers(np.array([["a tax"], ["a cake"]], dtype=object)).x.tolist() == [[1], [-1]]
    assert query_set.answers(np.array([[1], [0]])).x.tolist() == [[1], [-1]]
    assert query_set.answers(pd.DataFrame({"tax": [0, 1, None]})).x.tolist() == [[-1], [1], [0]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a single text", "put it into a list"),
        ([], "no texts"),
        (np.empty((0, 1), dtype=object), "no texts"),
        (["tax", 3], "row 1 holds 3"),
        ([1.0, 0.0], "row 0 holds 1.0"),
        (["tax", ["cake"], "x"], "row 1 holds"),
        (np.zeros((2, 3)), "3 columns, but 4 are expected"),
        (pd.DataFrame({"cake": [1], "tax": [0]}), "lacks 2 of the columns"),
    ],
)
def test_bad_data_are_refused(query_set: WordQueries, data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        query_set.answers(data)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (TEXTS, {"n_words": 0}, "at least 1"),
        (TEXTS, {"min_documents": 0}, "at least 1"),
        (TEXTS, {}, "in 10 or more of the 5 texts"),
        (["the", "a"], {"min_documents": 1}, "lower min_documents"),
        (["", ""], {"min_documents": 1}, "lower min_documents"),
        ([None], {"min_documents": 1}, "lower min_documents"),
        ([], {}, "no texts"),
        ("one text", {}, "put it into a list"),
        (np.zeros((3, 2)), {}, "array of texts is expected"),
        ([1, 2], {}, "row 0 holds 1"),
    ],
)
def test_bad_vocabularies_are_refused(data: Any, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordQueries.from_texts(data, **options)


@pytest.mark.parametrize(
    "column", [Number("n", "n?"), Choice("c", "c?", ("a", "b", "c")), Choice("d", "d?", ("a", "b"))]
)
def test_other_queries_are_refused(column: Choice | Number) -> None:
    with pytest.raises(ValueError, match=f"'{column.name}' is not one"):
        WordQueries([yes_no("tax"), column])
    with pytest.raises(ValueError, match="no columns"):
        WordQueries([])
    with pytest.raises(ValueError, match="more than once: tax"):
        WordQueries([word_query("tax"), word_query("tax")])


def test_unknown_words_do_not_show(query_set: WordQueries) -> None:
    x, _ = query_set.answers(TEXTS)
    known = torch.tensor([[1.0, 0, 1, 0]]).repeat(len(x), 1)
    assert query_set.input_shape == (4,)
    assert torch.equal(query_set.encode(x, known), x * known)
    masked = WordQueries(query_set.queries, mask=True)
    assert masked.input_shape == (8,)
    assert torch.equal(masked.encode(x, known), torch.cat([x * known, known], dim=1))


def test_people_answer_yes_or_no(query_set: WordQueries) -> None:
    x = query_set.blank()[0]
    for query, answer in enumerate(("yes", "n", True, 0)):
        query_set.tell(x, query, answer)
    assert x.tolist() == [1, -1, 1, -1]
    assert [query_set.describe(query, x) for query in range(4)] == ["yes", "no", "yes", "no"]
    with pytest.raises(ValueError, match="'senat' \\(as in 'senate'\\) in the text\\?' is one of no, yes"):
        query_set.tell(x, 1, "perhaps")


@pytest.mark.parametrize("mask", [False, True])
def test_config_carries_all(mask: bool) -> None:
    query_set = WordQueries.from_texts(TEXTS, min_documents=2, place="headline", mask=mask)
    again = WordQueries.from_config(json.loads(json.dumps(query_set.to_config())))
    assert type(again) is WordQueries
    assert again.queries == query_set.queries
    assert again.mask is mask
    assert torch.equal(again.answers(TEXTS).x, query_set.answers(TEXTS).x)
    assert query_set.rescaled(TEXTS) is query_set


def test_a_classifier_learns_from_texts_and_comes_back(tmp_path: Path) -> None:
    texts = np.array(["the cake is good", "a good tax", "cakes!", "taxes?"] * 20, dtype=object)[:, None]
    labels = np.array(["food", "politics"] * 40)
    query_set = WordQueries.from_texts(texts, min_documents=5, place="headline")
    classifier = VIPClassifier(query_set, stages=[Stage(20, CarriedHistories(2), batch_size=16)], random_state=0)
    classifier.fit(texts, labels)
    assert classifier.score(texts, labels) == 1
    classifier.save(tmp_path / "words")
    again = load(tmp_path / "words")
    assert type(again.model_.query_set) is WordQueries
    assert again.model_.query_set.queries == query_set.queries
    assert again.predict(np.array([["Let them eat cake"]], dtype=object)).tolist() == ["food"]
    assert (again.predict_proba(texts) == classifier.predict_proba(texts)).all()
    session = again.session("budget=1")
    assert "in the headline?" in session.ask().text
    session.tell("yes")
    assert session.done
