"""Forms for programs of others, read and filled by these: pyxform, which ODK and KoBo convert forms with, survey-core,
the engine of SurveyJS, and reproschema, which reads what REDCap imports. All must end where the tree ends."""

import csv
import io
import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from browsing import needs_browser
from illness import ILL
from npm import installed, node, opened, package
from pip_tools import tool
from program import json_of, run
from pursuit import ColumnQueries, PursuitEstimator, Session
from pursuit.methods import METHODS
from pursuit.queries.column import Choice, Date, Number
from pursuit.report.facts import ModelFacts
from pursuit.sessions.script import Script
from pursuit.web.connect.forms import Form, Lost, redcap, script_page, surveyjs, xlsform
from untrained import make_vip

SURVEY, XFORMS = "survey-core@3.1.1", ("@getodk/xforms-engine", "0.22.0")
PEOPLE: list[dict[str, Any]] = [
    ILL,
    {"temperature": 36.5, "sneezing": "yes", "itching": "yes", "season": "spring", "since": "2024-05-03"},
    {"temperature": 36.7, "sneezing": "yes", "itching": "no", "season": "autumn", "since": "2024-09-03"},
    {"temperature": None, "sneezing": None, "itching": "no", "season": "winter", "since": None},
    dict.fromkeys(ILL),
]


@pytest.fixture(scope="module")
def script(illness: PursuitEstimator) -> Script:
    return Script.of(illness.session(), 3)


@pytest.fixture(scope="module")
def form(script: Script) -> Form:
    return Form("What do you have?", script)


def ends(script: Script, people: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Where people end in the tree, and how sure that is."""
    frame = pd.DataFrame(people)
    frame["since"] = pd.to_datetime(frame["since"])
    x, available = script.pursuer.query_set.answers(frame)
    found, _ = script.follow(x, available)
    return [(end.label, f"{end.probability:.4f}") for end in found]


def test_the_tree_believes_what_a_session_believes(script: Script, illness: PursuitEstimator) -> None:
    for path in script.paths():
        session = illness.session()
        for asked, branch in path.steps:
            assert asked.question is not None
            assert session.ask().name == asked.question.name
            if branch.is_unknown:
                session.dont_know()
            elif branch.choices:
                session.tell(branch.choices[0])
            else:
                return  # the number that stands for a range is the tree's own
        assert path.end.probability == pytest.approx(max(session.posterior.values()), abs=1e-6)


def test_a_tree_makes_no_move_twice(illness: PursuitEstimator, monkeypatch: pytest.MonkeyPatch) -> None:
    session = illness.session()
    before = session.to_dict()
    monkeypatch.setattr(Session, "from_dict", lambda *_: pytest.fail("all moves are made again"))
    assert any(Script.of(session, 2).paths())
    assert session.to_dict() == before


def test_paths_share_everybody(script: Script) -> None:
    assert sum(path.share for path in script.paths(with_unknown=False)) == pytest.approx(1)


def test_rules_are_a_frame_with_a_row_for_each_path(illness: PursuitEstimator, degrees: PursuitEstimator) -> None:
    rules = illness.rules(depth=2)
    assert len(rules) == sum(1 for _ in Script.of(illness.session(), 2).paths(with_unknown=False))
    assert rules["share"].sum() == pytest.approx(1)
    assert set(rules["prediction"]) <= {"cold", "flu", "hay fever"}
    assert rules["n_questions"].max() == 2
    assert rules["rule"].is_unique
    assert degrees.rules(depth=2)["probability"].isna().all()
    with pytest.raises(ValueError, match="at least 1 level"):
        illness.rules(depth=0)


def test_every_row_ends_somewhere_and_the_loss_is_counted(
    illness: PursuitEstimator, degrees: PursuitEstimator, frame_and_labels: tuple[pd.DataFrame, np.ndarray]
) -> None:
    frame, y = frame_and_labels
    holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    for depth in (1, 3):
        lost = Lost.measured(Script.of(illness.session(), depth), illness, holes, y)
        assert lost.n_rows == len(y)
        assert lost.form <= lost.interview + 0.02
        assert lost.form_asked <= depth
        assert "is right in" in str(lost)
    assert lost.form > np.mean(y == "cold") + 0.2
    number = Lost.measured(
        Script.of(degrees.session(), 2), degrees, frame.drop(columns="temperature"), frame["temperature"].to_numpy()
    )
    assert number.is_number
    assert "off by" in str(number)


FILL = """async ([text, people, names]) => {
  const { createInstance } = await import("./index.js");
  const filled = [];
  for (const person of people) {
    const instance = await createInstance(text, { form: {} });
    const values = {};
    for (const node of instance.root.currentState.children) {
      const name = node.definition.nodeset.split("/").pop();
      if (!(name in names) || !node.currentState.relevant) continue;
      const answer = person[names[name]];
      if (node.nodeType === "select") node.selectValue(answer === null ? "dont_know" : String(answer));
      else if (answer !== null) node.setValue(String(answer));
    }
    for (const node of instance.root.currentState.children)
      values[node.definition.nodeset.split("/").pop()] = node.currentState.instanceValue;
    filled.push(values);
  }
  return filled;
}"""


@pytest.mark.programs
def test_an_xlsform_is_filled_by_the_engine_of_odk_and_ends_where_the_tree_does(
    form: Form, script: Script, tmp_path: Path
) -> None:
    from pyxform.xls2xform import convert

    needs_browser()
    path = tmp_path / "form.xlsx"
    path.write_bytes(xlsform(form))
    converted = convert(path, validate=False)
    names = {field.name: field.question.name for field in form.fields}
    with opened(package(*XFORMS) / "dist") as page:
        filled = page.evaluate(FILL, [converted.xform, PEOPLE, names])
    for values, (label, probability) in zip(filled, ends(script, PEOPLE), strict=True):
        assert (values["result"], values["probability"]) == (label, probability)


PLAY = """
const { Model } = require("survey-core");
const { survey, people, names } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const played = people.map((person) => {
  const model = new Model(survey);
  const errors = model.jsonErrors || [];
  let asked = 0;
  for (let i = 0; i < 50 && model.state === "running"; i++) {
    const question = model.currentSingleQuestion;
    let answer = person[names[question.name]];
    if (question.choices) answer = question.choices.find((choice) => choice.text === answer)?.value;
    if (answer !== null && answer !== undefined) question.value = answer;
    else if (question.getType() !== "text") question.value = "dont_know";
    asked += 1;
    model.performNext();
    if (model.state === "running" && model.currentSingleQuestion === question) model.completeLastPage();
  }
  return { data: model.data, state: model.state, asked, errors: errors.map(String) };
});
console.log(JSON.stringify(played));
"""


@pytest.mark.programs
def test_surveyjs_plays_it_and_ends_where_the_tree_does(form: Form, script: Script) -> None:
    names = {field.name: field.question.name for field in form.fields}
    played = node(PLAY, installed(SURVEY), survey=surveyjs(form), people=PEOPLE, names=names)
    for one, (label, probability) in zip(played, ends(script, PEOPLE), strict=True):
        assert one["state"] == "completed"
        assert one["errors"] == []
        assert one["asked"] <= 3
        assert (one["data"]["result"], one["data"]["probability"]) == (label, probability)


@pytest.mark.programs
def test_answers_with_quotes_lead_on_in_surveyjs() -> None:
    heights = ("5'3\"", "it's low", "6'")
    frame = pd.DataFrame({"height": list(heights) * 40})
    queries = ColumnQueries([Choice("height", "How tall?", heights)])
    model = METHODS["naive-bayes"].build(queries, random_state=0).fit(frame, np.array(["short", "so so", "tall"] * 40))
    form = Form("Heights", Script.of(model.session(), 1))
    people = [{"height": height} for height in heights]
    played = node(PLAY, installed(SURVEY), survey=surveyjs(form), people=people, names={"height": "height"})
    assert [one["data"]["result"] for one in played] == ["short", "so so", "tall"]


def german() -> Script:
    frame = pd.DataFrame({"fieber": ["ja", "nein"] * 40, "gewicht": np.arange(80.0) + 40})
    queries = [Choice("fieber", "Haben Sie Fieber?", ("nein", "ja")), Number("gewicht", "Wie schwer sind Sie?")]
    model = METHODS["naive-bayes"].build(ColumnQueries(queries), random_state=0)
    return Script.of(model.fit(frame, np.array(["Grippe", "gesund"] * 40)).session("budget=2"), 2)


def test_forms_speak_the_language_of_their_questions() -> None:
    for language, says in ((None, "Weiß ich nicht"), ("de", "Weiß ich nicht"), ("en", "I don't know")):
        form = Form("Was fehlt Ihnen?", german(), language)
        assert says in redcap(form)
        assert says in json.dumps(surveyjs(form), ensure_ascii=False)
        with zipfile.ZipFile(io.BytesIO(xlsform(form))) as workbook:
            assert any(says in workbook.read(name).decode() for name in workbook.namelist())


CONFIGURATION = """protocol_name: form
protocol_display_name: Form
protocol_description: A form
redcap_version: "15.0.0"
"""
READ = """
const { fields, computed, people, names, codes } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const datediff = (from, to) => (Date.parse(to) - Date.parse(from)) / 864e5;
const If = (condition, yes, no) => (condition ? yes : no);
const evaluate = (text, values) =>
  new Function("datediff", "If", ...Object.keys(values),
    `return ${text.replaceAll("<>", "!=").replaceAll("if(", "If(")}`)(datediff, If, ...Object.values(values));
console.log(JSON.stringify(people.map((person) => {
  const values = Object.fromEntries(Object.keys(names).map((name) => [name, ""]));
  for (const { variableName: name, isVis } of fields) {
    if (!(name in names) || !(isVis === true || evaluate(isVis, values))) continue;
    const answer = person[names[name]];
    values[name] = codes[name] ? codes[name][answer === null ? "I don't know" : answer] : (answer ?? "");
  }
  return Object.fromEntries(computed.map((one) => [one.variableName, evaluate(one.jsExpression, values)]));
})));
"""


@pytest.mark.programs
def test_a_dictionary_for_redcap_is_read_by_others_and_ends_where_the_tree_does(
    form: Form, script: Script, tmp_path: Path
) -> None:
    environment = tool("reproschema==1.1.0")
    (tmp_path / "form.csv").write_text(redcap(form), encoding="utf-8")
    (tmp_path / "form.yaml").write_text(CONFIGURATION, encoding="utf-8")
    program = "from reproschema.cli import main; main(['redcap2reproschema', 'form.csv', 'form.yaml'])"
    reader = [environment["PYTHON"], "-c", program]
    done = subprocess.run(reader, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    folder = next((tmp_path / "form" / "activities").iterdir())
    read = json.loads((folder / f"{folder.name}_schema").read_text(encoding="utf-8"))
    names = {field.name: field.question.name for field in form.fields}
    codes = {}
    for field in form.fields:
        item = json.loads((folder / "items" / field.name).read_text(encoding="utf-8"))
        assert item["question"]["en"] == field.question.text
        if field.question.kind == "choice":
            codes[field.name] = {one["name"]["en"]: one["value"] for one in item["responseOptions"]["choices"]}
    data = {"fields": read["ui"]["addProperties"], "computed": read["compute"], "names": names, "codes": codes}
    played = node(READ, tmp_path, people=PEOPLE, **data)
    assert [(one["result"], one["probability"]) for one in played] == ends(script, PEOPLE)


def test_a_dictionary_for_redcap_keeps_its_rules() -> None:
    asked = [Choice(name, "a < b?", ("a|b", "<i>c", "it's")) for name in ("result", "Größe", "9 lives")]
    days = Date("day", "Which day?", centre=19_800, spread=100, seen=(19_700.0, 19_900.0))
    script = Script.of(Session(make_vip(ColumnQueries([*asked, days]), dtype=torch.float)), 4)
    rows = list(csv.DictReader(io.StringIO(redcap(Form("2 = Zwei", script)))))
    names = [row["Variable / Field Name"] for row in rows]
    assert names[0] == "record_id"
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in (*names, *(row["Form Name"] for row in rows)))
    for row in rows:
        if row["Field Type"] == "radio":
            choices = [one.split(", ", 1) for one in row["Choices, Calculations, OR Slider Labels"].split(" | ")]
            assert [text for _, text in choices] == ["a/b", "< i>c", "it's", "I don't know"]
            assert all(re.fullmatch(r"\w+", code) for code, _ in choices)
    shown = " ".join(row["Branching Logic (Show field only if...)"] + row["Field Annotation"] for row in rows)
    assert set(re.findall(r"\[(.*?)\]", shown)) <= set(names)
    assert "datediff('20" in shown


def test_the_script_names_every_step(form: Form, illness: PursuitEstimator) -> None:
    page = script_page(form, ModelFacts.of(illness))
    steps = [int(number) for number in re.findall(r'<section id="step-(\d+)"', page)]
    assert steps == list(range(1, len(steps) + 1))
    assert {int(number) for number in re.findall(r'href="#step-(\d+)"', page)} == set(steps) - {1}
    assert page.count("The end.") == sum(1 for _ in form.script.paths())


@pytest.mark.parametrize("kind", ["--xlsform", "--redcap", "--surveyjs", "--script"])
def test_the_program_writes_forms(
    kind: str, model_folders: dict[str, Path], frame_and_labels: tuple[pd.DataFrame, np.ndarray], tmp_path: Path
) -> None:
    frame, y = frame_and_labels
    frame.assign(illness=y).to_csv(tmp_path / "rows.csv", index=False)
    own = ("export", str(model_folders["illness"]), "form", kind, "--depth", "2")
    done = run(tmp_path, *own)
    assert done.returncode == 0, done.stderr
    assert "not measured" in done.stdout
    assert (tmp_path / "form").stat().st_size > 1000
    done = run(tmp_path, *own, "--data", "rows.csv")
    assert done.returncode == 0, done.stderr
    assert "On 400 rows that the model has not seen, the form is right in" in done.stdout.replace("\n", " ")
    shown = json_of(run(tmp_path, *own, "--data", "rows.csv", "--json"))
    assert shown["lost"]["n_rows"] == 400


def test_what_does_not_go_together_is_refused(model_folders: dict[str, Path], tmp_path: Path) -> None:
    own = ("export", str(model_folders["illness"]), "form")
    assert "not both" in run(tmp_path, *own, "--fhir", "--script").stderr
    assert "--data" in run(tmp_path, *own, "--data", "digits").stderr
    assert "leave out --stop" in run(tmp_path, *own, "--fhir", "--stop", "budget=2").stderr
    assert "Forms speak" in run(tmp_path, *own, "--surveyjs", "--language", "fr").stderr
    assert "speaks English" in run(tmp_path, *own, "--script", "--language", "de").stderr


def test_names_of_fields_are_their_own(tmp_path: Path) -> None:
    from pyxform.xls2xform import convert

    queries = ColumnQueries(
        [Choice(name, "Which?", ("it's", 'a "b"', "c d")) for name in ("1 a", "1-a", "日本", "result")]
    )
    script = Script.of(Session(make_vip(queries, dtype=torch.float)), 4)
    path = tmp_path / "form.xlsx"
    path.write_bytes(xlsform(Form("=1+1", script)))
    assert convert(path, validate=False).xform
    assert json.dumps(surveyjs(Form("x", script)))
