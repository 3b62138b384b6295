"""What the kernel answers to the interview in a cell."""

from typing import Any

import pytest

from browsing import fever_model
from small_table import patients

pytest.importorskip("anywidget")
from pursuit import PatchQueries, VIPClassifier
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.web.widget import Interview


def test_python_answers_every_move() -> None:
    X, y = patients(200)
    yes = X["fever"] == "yes"
    asked = X[["fever", "smokes"]].assign(first=yes, belly=y == "gastritis", other=range(200)).astype({"other": bool})
    interview = Interview(NaiveBayesIPClassifier(stop="never").fit(asked, y))

    def said(what: str, **more: Any) -> Any:
        answer = interview.answer({"id": 7, "what": what, **more})
        assert answer["id"] == 7
        return answer["found"] if "found" in answer else answer["problem"]

    first = said("state")["question"]["name"]
    assert said("question", query=first)["name"] == first
    assert said("why")["candidates"][0]["name"] == first
    assert said("tell", answer="yes")["answers"][0]["question"]["name"] == first
    assert said("change", query=first, answer="no")["answers"][0]["value"] == "no"
    assert said("skip")["skipped"]
    assert not said("undo")["skipped"]
    assert said("tell", answer=None)["answers"][1]["shown"] is None
    assert "message" in said("tell", answer="perhaps")
    assert "message" in said("dance")
    while not interview.session.done:
        said("tell", answer="yes")
    assert said("accept")["result"]["accepted"]
    assert not said("undo")["result"]["accepted"]
    label = said("state")["result"]["label"]
    assert label in [one["label"] for one in said("reject")["answers"] if one["kind"] == "rejected"]
    said("take_back_rejection", label=label)
    assert said("restart")["answers"] == ()


def test_doubtful_numbers_are_asked_again() -> None:
    interview = Interview(fever_model())
    number = next(query for query in fever_model().model_.query_set.queries if not query.choices)
    doubted = interview.answer({"id": 1, "what": "tell", "query": number.name, "answer": 4000})
    assert doubted["problem"]["doubt"]
    taken = interview.answer({"id": 2, "what": "tell", "query": number.name, "answer": 4000, "confirmed": True})
    assert taken["found"]["answers"]


def test_pictures_are_for_servers() -> None:
    import numpy as np

    X, y = np.random.default_rng(0).random((40, 1, 4, 4)), np.arange(40) % 2
    model = VIPClassifier(PatchQueries((1, 4, 4), 2, 2), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="Patches of a picture are answered by the picture"):
        Interview(model)
