"""Several targets in one interview: what is asked, when it ends, and that every answer is told to all."""

import io
import itertools
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import ColumnQueries, yes_no
from pursuit.cli import main
from pursuit.exact import TableIP
from pursuit.inference.stopping import Budget, Confidence, CostBudget
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.queries import Group, Order
from pursuit.sessions.log import FurtherTarget
from pursuit.sessions.session import Session
from pursuit.web.serving.models import load_models

NAMES = "abcd"
WORLDS = list(itertools.product((0, 1), repeat=4))
SURE = Confidence(0.9)


def knows(columns: str, names: str = NAMES, queries: ColumnQueries | None = None) -> TableIP:
    """All sixteen worlds are equally probable; the label is what the columns say."""
    labels = ["".join(map(str, label)) for label in itertools.product((0, 1), repeat=len(columns))]
    of_world = [labels.index("".join(str(world[names.index(column)]) for column in columns)) for world in WORLDS]
    weights = torch.nn.functional.one_hot(torch.tensor(of_world), len(labels)).double()
    queries = queries or ColumnQueries([yes_no(name) for name in names])
    return TableIP(queries, np.array(labels), queries.answers(np.array(WORLDS)).x, weights)


def joint(first: str, weight: float = 1.0, **others: str) -> Session:
    return Session(
        knows(first), SURE, also={name: FurtherTarget(knows(each), SURE, weight) for name, each in others.items()}
    )


def answer(session: Session, world: tuple[int, ...]) -> list[str]:
    asked = []
    while not session.done:
        asked.append(session.ask().name)
        session.tell("yes" if world[NAMES.index(asked[-1])] else "no")
    return asked


def test_a_question_about_both_targets_goes_first_and_all_are_settled_at_the_end() -> None:
    for world in WORLDS:
        session = joint("ab", other="bc")
        asked = answer(session, world)
        assert asked[0] == "b"
        assert set(asked) == set("abc")
        assert session.prediction == f"{world[0]}{world[1]}"
        assert session.also["other"].prediction == f"{world[1]}{world[2]}"
        assert all(one.is_settled for one in session.state().also)


def test_bits_are_those_about_all_targets() -> None:
    question = joint("ab", other="bc").ask()
    assert (question.name, question.bits) == ("b", pytest.approx(2))
    assert [bits for _, bits in question.runners_up][:2] == pytest.approx([1, 1])


def test_a_target_that_is_settled_does_not_count() -> None:
    session = joint("a", other="bc")
    session.tell("yes", "a")
    assert not session.done
    assert session.ask().name in "bc"
    assert session.ask().bits == pytest.approx(1)


@pytest.mark.parametrize(("weight", "first"), [(2.0, "c"), (0.5, "a")])
def test_weights(weight: float, first: str) -> None:
    assert joint("a", weight, other="c").ask().name == first


def test_a_budget_ends_one_target_alone() -> None:
    also = {"other": FurtherTarget(knows("bc"), SURE)}
    session = Session(knows("ab"), SURE | Budget(1), also=also)
    assert len(answer(session, WORLDS[5])) == 2  # b, which both want, and c
    assert session.also["other"].done


def test_one_may_go_on_after_all_are_settled() -> None:
    session = joint("a", other="b")
    answer(session, WORLDS[0])
    session.go_on()
    assert session.ask().name in "cd"


def test_corrections_lead_to_the_same_as_saying_so_at_once() -> None:
    chance = random.Random(0)
    for _ in range(4):
        session = joint("ab", other="bc", third="d")
        for _ in range(8):
            given = list(session.answers)
            kind = chance.choice(["tell", "unknown", "skip", "undo", "change", "unasked"])
            if kind == "undo" and session.moves:
                session.undo()
            elif kind == "change" and given:
                session.change(chance.choice(given), chance.choice(["yes", "no", None]))
            elif kind == "unasked" and (left := [name for name in NAMES if name not in given]):
                session.tell(chance.choice(["yes", "no"]), chance.choice(left))
            elif session.done:
                break
            elif kind == "skip" and session.can_skip:
                session.skip()
            elif kind == "unknown":
                session.dont_know()
            else:
                session.tell(chance.choice(["yes", "no"]))
            for name, each in {"other": "bc", "third": "d"}.items():
                alone = Session(knows(each), SURE, {key: value for key, value in session.answers.items() if value})
                assert session.also[name].posterior == pytest.approx(alone.posterior)
        again = Session.from_json(
            session.to_json(),
            session.pursuer,
            SURE,
            also={name: FurtherTarget(knows(each), SURE) for name, each in {"other": "bc", "third": "d"}.items()},
        )
        assert again.state() == session.state()


def test_what_is_wrong_about_the_first_target_says_nothing_about_the_others() -> None:
    session = joint("ab", other="bc")
    before = session.also["other"].posterior
    session.reject("00")
    assert session.also["other"].posterior == before


def test_models_that_do_not_fit() -> None:
    other = FurtherTarget(knows("ef", "efgh"))
    with pytest.raises(ValueError, match="on the same columns, without the targets"):
        Session(knows("ab"), also={"other": other})
    with pytest.raises(ValueError, match="above 0, not -1"):
        FurtherTarget(knows("ab"), weight=-1.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    X = pd.DataFrame(np.tile(WORLDS, (20, 1)), columns=list(NAMES))
    found = []
    for target, y in {"fault": X.a + 2 * X.b, "urgency": X.b + 2 * X.c}.items():
        found.append(tmp_path_factory.mktemp("models") / target)
        model = NaiveBayesIPClassifier().fit(X, y.map("class {}".format))
        model.save(found[-1], {"task": {"name": "machines", "target": target}})
    return found[0], found[1]


def test_estimators_give_such_sessions(folders: tuple[Path, Path]) -> None:
    fault, urgency = map(NaiveBayesIPClassifier.load, folders)
    session = fault.session("confidence=0.8", also={"urgency": urgency})
    assert session.ask().name == "b"
    assert len(answer(session, WORLDS[9])) == 3
    with pytest.raises(ValueError, match="weights for haste"):
        fault.session(also={"urgency": urgency}, weights={"haste": 2.0})


def test_a_served_interview_tells_about_all_targets(folders: tuple[Path, Path]) -> None:
    served = load_models(folders[:1], "confidence=0.8", also=folders[1:])["fault"]
    session = served.session()
    answer(session, WORLDS[9])
    again = served.session(session.to_dict())
    (state,) = again.state().also
    assert state.name == "Urgency"
    assert state.is_settled
    assert state.belief == again.state().also[0].belief
    assert state.belief.labels[0].label == "class 0"


def test_further_targets_belong_to_one_model_and_differ_from_it(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="the interview of one model: serve a single one with --also"):
        load_models(folders, also=folders[1:])
    with pytest.raises(ValueError, match="Two of the targets have the same name"):
        load_models(folders[:1], also=folders[:1])
    monkeypatch.setattr(sys, "argv", ["pursuit", "ask", str(folders[0]), "--also", str(folders[0])])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert "Two of the targets have the same name" in " ".join(capsys.readouterr().err.split())


def test_a_person_in_the_terminal_learns_about_all_targets(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = "\n".join(["yes", "yes", "no", ""])
    command = ["pursuit", "ask", str(folders[0]), "--also", str(folders[1]), "--stop", "confidence=0.8"]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert said.count("Urgency: class") >= 4  # after each answer, and at the end
    assert "3. " in said
    assert "4. " not in said


def test_a_group_goes_by_what_all_of_it_tells_and_costs() -> None:
    panel = Order(groups=(Group("panel", ("a", "b")),))
    queries = ColumnQueries([replace(yes_no(name), cost=9.0 if name == "b" else 1.0) for name in NAMES], order=panel)
    also = {"other": FurtherTarget(knows("d", queries=queries), SURE, 0.3)}
    session = Session(knows("a", queries=queries), SURE, also=also)
    assert session.ask().name == "d"  # 0.3 per unit of cost, and the group 0.1
    session.tell("yes")
    assert answer(session, WORLDS[0]) == ["a", "b"]


def test_a_target_whose_rule_affords_no_more_is_settled() -> None:
    session = Session(knows("ac"), SURE, also={"other": FurtherTarget(knows("bd"), CostBudget(1))})
    assert session.ask().bits == pytest.approx(1)
    session.tell("yes", "a")
    (other,) = session.state().also
    assert other.is_settled
    assert session.ask().name == "c"
    session.tell("no")
    assert session.done
