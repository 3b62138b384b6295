"""The page as a file, what is refused, and what a person sees and does, in a document that is just enough of one."""

import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import pursuit
from exported import (
    BRIEFLY,
    HOSTILE,
    described,
    histories,
    model_of,
    needs_node,
    node,
    ordered_model,
    part,
    split,
    unpack,
)
from ordered import clinic
from pursuit import MLP, SetNetwork, Stage, StoppingRule, VIPClassifier, VIPRegressor, export
from pursuit.methods.naive_bayes import NaiveBayesIPClassifier
from pursuit.web.bundle import LANGUAGES
from pursuit.web.exporting.description import belief_weights, question_weights


@cache
def page(language: str = "en") -> Path:
    path = Path(mkdtemp()) / "page.html"
    export(model_of("straight-through"), path, language=language, title="Who <is> ill?")
    return path


@cache
def ordered_page() -> Path:
    with torch.enable_grad():
        estimator = ordered_model(stop="never")
    path = Path(mkdtemp()) / "page.html"
    export(estimator, path)
    return path


def clicks(path: Path, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is shown at first and after each step."""
    return node("clicks.js", page=str(path), steps=steps)["shown"]


def test_the_weights_in_the_file_give_the_beliefs_of_the_model(tmp_path: Path) -> None:
    estimator = model_of("straight-through")
    estimator.save(tmp_path / "model")
    again = pursuit.load(tmp_path / "model").model_
    about = described(page())
    tensors = [unpack(one) for one in split(part(page(), "weights"), about["tensors"])]
    # The page has every matrix of the networks; put what is in the file into a copy of the model.
    left = list(range(len(tensors)))
    with torch.no_grad():
        for weight in [*belief_weights(again), *question_weights(again)]:
            if not weight.numel():  # an answer model of rank 0
                continue
            shape = tuple(weight.shape)
            near = [i for i in left if tensors[i].shape == shape]
            best = min(near, key=lambda i: float((torch.tensor(tensors[i]) - weight).abs().max()))
            weight.copy_(torch.tensor(tensors[best]))
            left.remove(best)
        rows, _ = histories(again.query_set, 1000)
        assert (again.log_posterior(rows).exp() - estimator.model_.log_posterior(rows).exp()).abs().max() < 1e-4


def test_the_file_needs_nothing_else() -> None:
    text = page().read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=", text)
    assert not re.findall(r"https?://", text)
    assert "default-src 'none'" in text
    assert not re.findall(r"\{\{[A-Z]+\}\}", text.replace(HOSTILE.split()[1], ""))


def test_no_number_of_a_single_person_is_in_the_file(tmp_path: Path) -> None:
    """Neither the least nor the greatest of a column, nor of what is predicted."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"weight": rng.normal(60, 9, 300).round(2), "is_old": rng.integers(0, 2, 300)})
    X.loc[0, "weight"], X.loc[1, "weight"] = 17.123, 99.877
    y = rng.normal(5000, 300, 300).round(2)
    y[2], y[3] = 3211.57, 7123.43
    for estimator, labels in ((VIPClassifier, np.where(X["weight"] > 60, "a", "b")), (VIPRegressor, y)):
        model = estimator(random_state=0, network=MLP((4,)), stages=(Stage(2),), teachers=None).fit(X, labels)
        export(model, tmp_path / "page.html")
        told = json.dumps(described(tmp_path / "page.html"))
        assert '"weight"' in told
        assert not re.findall(r"17\.12|99\.87|3211\.|7123\.", told)


def test_texts_of_the_model_cannot_leave_their_place() -> None:
    text = page().read_text(encoding="utf-8")
    assert HOSTILE in described(page())["labels"]
    assert "</script><b>" not in text
    assert text.count("</script>") == 3
    assert "\u2028" not in text
    assert "<title>Who &lt;is&gt; ill?</title>" in text


def test_both_languages_have_the_same_words() -> None:
    folder = files("pursuit.web") / "interview"
    english, german = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("en", "de"))
    assert set(english) == set(german)
    assert f'data-languages="{" ".join(LANGUAGES)}"' in (folder / "served.html").read_text(encoding="utf-8")
    for key, words in english.items():
        assert sorted(re.findall(r"\{\w+\}", words)) == sorted(re.findall(r"\{\w+\}", german[key])), key
    scripts = [*folder.rglob("*.js"), *(files("pursuit.web") / "exporting").glob("*.js")]
    used = "".join(path.read_text(encoding="utf-8") for path in scripts) + "needs_script broken"
    made_up = ("reason_", "look_", "theme_", "told_", "weight_", "seen", "result_one")  # whose ends are put together
    unused = [key for key in english if not re.search(rf"\b{key.removesuffix('_one')}\b", used)]
    assert [key for key in unused if not key.startswith(made_up)] == []
    said = set(re.findall(r'\b(?:say|count|action)\("(\w+)"', used))
    assert said - set(english) == set()


class Odd(StoppingRule):
    def step(self, memory: Any, standing: Any) -> Any:
        return standing.n_asked > 1, memory

    def __str__(self) -> str:
        return "odd"


def test_what_cannot_be_exported_is_refused_with_what_can(tmp_path: Path) -> None:
    X, y = clinic()
    path = tmp_path / "page.html"
    with pytest.raises(ValueError, match=r"NaiveBayes\w* cannot be exported. What can be exported is V-IP .* MLP"):
        export(NaiveBayesIPClassifier().fit(X, y), path)
    with_sets = VIPClassifier(network=SetNetwork(8, "sum", 8, (8,), norm="layer"), stages=BRIEFLY).fit(X, y)
    with pytest.raises(ValueError, match=r"network SetNetwork\(.*cannot be exported. What can"):
        export(with_sets, path)
    with pytest.raises(ValueError, match="stopping rule odd cannot be exported: stop by budget, confidence"):
        export(model_of("straight-through"), path, stop=Odd())
    with pytest.raises(ValueError, match="The page speaks en or de, not 'fr'"):
        export(model_of("straight-through"), path, language="fr")
    with pytest.raises(ValueError, match="give a file in a folder that exists"):
        export(model_of("straight-through"), tmp_path / "nowhere" / "page.html")
    with pytest.raises(ValueError, match="not fitted yet"):
        export(VIPClassifier(network=MLP()), path)
    assert not path.exists()


@needs_node
def test_a_person_answers_by_keys_and_buttons() -> None:
    steps = [{"click": "Why"}, {"key": "1"}, {"key": "0"}, {"key": "Backspace"}, {"chip": 0}, {"click": "I don't know"}]
    first, why, second, third, back, change, changed = clicks(ordered_page(), steps=steps)
    assert not first["focused"]  # a page that opens leaves the focus where it is
    assert first["heading"] == "sex?"  # which is known beforehand
    assert first["theme"] == "dark"  # as the document prefers
    assert "I always ask this first" in why["text"]
    assert "If you say “f”" in why["text"]
    assert why["heading"] == first["heading"]
    assert second["heading"] != first["heading"]
    assert second["spoken"]
    assert second["focused"]
    assert "left open" in third["text"]
    assert back["heading"] == second["heading"]
    assert change["heading"] == first["heading"]
    assert "Leave it as it was" in change["text"]
    assert "left open" in changed["text"]
    assert changed["heading"] not in change["heading"]


@needs_node
def test_a_correction_can_be_taken_back_after_a_reload() -> None:
    path, steps = str(ordered_page()), [{"key": "1"}, {"key": "0"}, {"chip": 0}, {"key": "0"}]
    before = node("clicks.js", page=path, steps=steps)
    *_, answered, _, corrected = before["shown"]
    loaded, back = node("clicks.js", page=path, steps=[{"key": "Backspace"}], stored=before["stored"])["shown"]
    assert loaded["text"] == corrected["text"] != answered["text"]
    assert back["text"] == answered["text"]


@needs_node
def test_labels_with_markup_are_text_and_a_wrong_guess_goes_on() -> None:
    steps: list[dict[str, str]] = [{"key": "d"}] * 12
    shown = clicks(page(), steps=steps)
    assert shown[0]["head"].startswith("Who <is> ill?")
    assert any(HOSTILE in one["text"] for one in shown)
    assert all("B" not in one["tags"] or "How far to trust" in one["text"] for one in shown)
    result = shown[-1]
    assert "That's right" in result["buttons"]
    assert "I have no more questions." in result["text"]
    *_, wrong, right = clicks(page(), steps=[*steps, {"click": "That's wrong"}, {"click": "That's right"}])
    assert wrong["heading"] != result["heading"]
    assert f"Is it {result['heading']}?" in wrong["text"]
    assert right["heading"] == f"Thank you. It is {wrong['heading']}."


@needs_node
def test_the_page_speaks_german() -> None:
    first, second = clicks(page("de"), steps=[{"key": "d"}])
    assert "Frage 1" in first["text"]
    assert "weiß nicht" in second["text"]
    assert "I don't know" not in second["text"]


@needs_node
def test_numbers_are_typed_and_odd_ones_are_questioned() -> None:
    queries = {query["question"]["text"]: query for query in described(ordered_page())["queries"]}
    steps: list[dict[str, str]] = []
    for _ in range(12):  # until a number is asked for
        shown = clicks(ordered_page(), steps=steps)[-1]
        if queries[shown["heading"]]["number"]:
            break
        steps.append({"key": "1"})
    heading = shown["heading"]
    for typed, says in (("many", "Please type a number"), ("1e9", "is far outside the usual range")):
        refused = clicks(ordered_page(), steps=[*steps, {"type": typed}])[-1]
        assert heading in refused["text"]
        assert says in refused["text"]
    low, high = queries[heading]["question"]["seen"]
    typed = f"{(low + high) / 2:.1f}".replace(".", ",")
    taken = clicks(ordered_page(), steps=[*steps, {"type": typed}])[-1]
    assert taken["heading"] != heading
    assert typed.replace(",", ".").removesuffix(".0") in taken["text"]
