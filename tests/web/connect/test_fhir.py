"""Adaptive questionnaires of HL7 FHIR: judged by fhir.resources, by the published profiles, and by a form filler of
others, LHC-Forms of the National Library of Medicine, in Chromium."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from browsing import needs_browser
from illness import ILL, table
from npm import installed, node, opened, package
from program import run
from pursuit import MLP, PursuitEstimator, Stage, VIPRegressor
from pursuit.methods import METHODS
from pursuit.queries import ColumnQueries, Number, Order, yes_no
from pursuit.queries.column import Choice
from pursuit.queries.order import OnlyAfter
from pursuit.web.connect.fhir import DONT_KNOW, KNOWN, RESULT, Form
from pursuit.web.connect.fhir_routes import of_fhir
from pursuit.web.serving.models import ServedModels, load_models
from served import client_of, port_of, program, running

SDC, FHIRPATH, LFORMS = ("hl7.fhir.uv.sdc", "4.0.0-ballot"), "fhirpath@4.11.0", ("lforms", "40.1.3")
NEXT = "/fhir/Questionnaire/$next-question"
PROFILES = (Path(__file__).parent / "profiles.js").read_text(encoding="utf-8")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def client(models: ServedModels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    database = f"sqlite:///{tmp_path_factory.mktemp('fhir') / 'sessions.db'}"
    with running(models, database, routers=[of_fhir]) as own:
        yield own


def validate(resource: str, written: Any) -> None:
    """Refuses what is no such resource of FHIR R4B."""
    own = importlib.import_module(f"fhir.resources.R4B.{resource.lower()}")
    getattr(own, resource).model_validate(written)


def first(client: httpx.Client, model: str = "illness", **more: Any) -> Json:
    """What a client sends first."""
    url = f"{str(client.base_url).rstrip('/')}/fhir/Questionnaire/{model}"
    contained = {"resourceType": "Questionnaire", "id": "q", "status": "active", "derivedFrom": [url]}
    shared = {"status": "in-progress", "questionnaire": "#q", "authored": "2026-01-01T00:00:00Z"}
    return {"resourceType": "QuestionnaireResponse", "contained": [contained], **shared, **more}


def ask(client: httpx.Client, sent: Json) -> Json:
    reply = client.post(NEXT, json=sent, headers={"content-type": "application/fhir+json"})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/fhir+json"
    validate("QuestionnaireResponse", reply.json())
    validate("Questionnaire", reply.json()["contained"][0])
    return reply.json()


def coded(client: httpx.Client, choice: str) -> Json:
    system = f"{str(client.base_url).rstrip('/')}/fhir/Questionnaire/illness/answers"
    return {"valueCoding": {"system": system, "code": choice, "display": choice}}


def open_item(response: Json) -> Json:
    """The item that waits for an answer."""
    last = response["contained"][0]["item"][-1]
    assert last["linkId"] == response["item"][-1]["linkId"]
    assert "answer" not in response["item"][-1]
    return last


def answer_of(item: Json, value: Any) -> Json:
    """A value as a form filler would write it for an item, by its type alone."""
    match item["type"]:
        case "boolean":
            return {"valueBoolean": value == "yes"}
        case "decimal":
            return {"valueDecimal": value}
        case "date":
            return {"valueDate": value}
        case "choice":
            options = [option["valueCoding"] for option in item["answerOption"]]
            return {"valueCoding": next(one for one in options if one["display"] == value)}
    raise AssertionError(item["type"])


def answered(response: Json, value: Any = None) -> Json:
    item = open_item(response)
    response["item"][-1]["answer"] = [answer_of(item, ILL[item["linkId"]] if value is None else value)]
    return response


def results(response: Json) -> dict[str, Any]:
    group = response["item"][-1]
    assert group["linkId"] == RESULT
    return {one["linkId"].rpartition("/")[2]: next(iter(one["answer"][0].values())) for one in group["item"]}


def test_an_interview_without_a_session_gives_what_a_session_gives(
    client: httpx.Client, illness: PursuitEstimator
) -> None:
    response, asked = ask(client, first(client)), []
    while response["status"] == "in-progress":
        asked.append(open_item(response)["linkId"])
        response = ask(client, answered(response))
    session = illness.session()
    while not session.done:
        session.tell(ILL[session.ask().name])
    assert asked == list(session.answers)
    found = results(response)
    assert found["label"] == session.prediction == "flu"
    assert found["probability"] == pytest.approx(session.posterior["flu"], abs=1e-6)
    assert "How high is your temperature? 39.2 °C" in found["why"]
    assert ask(client, response) == response  # nothing more is asked, and nothing changes


def test_parameters_are_taken_as_well(client: httpx.Client) -> None:
    body = {"resourceType": "Parameters", "parameter": [{"name": "questionnaire-response", "resource": first(client)}]}
    assert ask(client, body)["contained"][0]["item"]


def test_what_is_known_is_not_asked(client: httpx.Client, illness: PursuitEstimator) -> None:
    known = [{"linkId": "season", "answer": [{"valueString": "winter"}]}]
    response = ask(client, first(client, item=known))
    assert response["item"][0] == {
        "linkId": KNOWN,
        "text": "Known beforehand",
        "item": [{"linkId": "season", "text": "Which season is it?", "answer": [coded(client, "winter")]}],
    }
    session = illness.session(known={"season": "winter"})
    while response["status"] == "in-progress":
        assert open_item(response)["linkId"] == session.ask().name
        session.tell(ILL[session.ask().name])
        response = ask(client, answered(response))
    assert session.done
    assert results(response)["probability"] == pytest.approx(session.posterior["flu"], abs=1e-6)


def test_what_is_left_empty_is_skipped_and_what_nobody_knows_is_not_asked_again(client: httpx.Client) -> None:
    response = ask(client, first(client))
    skipped = open_item(response)["linkId"]
    response = ask(client, response)
    second = open_item(response)
    assert second["linkId"] != skipped
    unknown = {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason"}]}
    unknown["extension"][0]["valueCode"] = "asked-unknown"
    key = {"choice": "valueCoding", "boolean": "_valueBoolean", "decimal": "_valueDecimal", "date": "_valueDate"}
    is_choice = second["type"] == "choice"
    response["item"][-1]["answer"] = [{key[second["type"]]: DONT_KNOW if is_choice else unknown}]
    response = ask(client, response)
    assert open_item(response)["linkId"] not in (skipped, second["linkId"])
    for _ in range(5):
        response = ask(client, response) if response["status"] == "in-progress" else response
    assert response["status"] == "completed"  # nobody answered anything, and it ends all the same
    assert len(response["contained"][0]["item"]) == 6


def test_a_number_that_is_predicted_has_its_range(client: httpx.Client) -> None:
    response = ask(client, first(client, "degrees"))
    while response["status"] == "in-progress":
        response = ask(client, answered(response))
    found = results(response)
    assert found["low"] < found["label"] < found["high"]


FAHRENHEIT = {"value": 44, "unit": "°F", "system": "http://unitsofmeasure.org", "code": "[degF]"}
BOUND = {"value": 40, "unit": "°C", "comparator": ">"}


def nested(depth: int) -> list[Json]:
    return [{"linkId": "group", "item": nested(depth - 1)}] if depth else []


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"resourceType": "Patient"}, 400, "Send a QuestionnaireResponse"),
        ({"questionnaire": "#other"}, 400, "names no contained Questionnaire"),
        ({"contained": 3}, 400, "“contained” is a list of objects"),
        ({"contained": []}, 400, "names no contained Questionnaire"),
        ({"status": "begun"}, 400, "has a status"),
        ({"item": "season"}, 400, "“item” is a list of objects"),
        ({"item": [{"linkId": ["season"], "answer": [{"valueString": "winter"}]}]}, 400, "has a linkId"),
        ({"item": [{"linkId": "season", "answer": {"valueString": "winter"}}]}, 400, "“answer” is a list of objects"),
        ({"item": [{"linkId": "season", "answer": [{"valueString": "winter"}] * 2}]}, 400, "takes one answer"),
        ({"item": nested(30)}, 400, "nested more than"),
        ({"item": [{"linkId": "temperature", "answer": [{"valueQuantity": FAHRENHEIT}]}]}, 400, "is in °C, not in °F"),
        ({"item": [{"linkId": "temperature", "answer": [{"valueQuantity": BOUND}]}]}, 400, "not a bound of it"),
        ({"item": [{"linkId": "height", "answer": [{"valueDecimal": 3}]}]}, 400, "no item “height”"),
        ({"item": [{"linkId": "season", "answer": [{"valueString": "purple"}]}]}, 422, "not 'purple'"),
        ({"item": [{"linkId": "temperature", "answer": [{"valueDecimal": 300}]}]}, 422, "30 to 45"),
        ({"item": [{"linkId": "temperature", "answer": [{}]}]}, 400, "has no value"),
        ({"item": [{"linkId": "since", "answer": [{"valueDateTime": "yesterday"}]}]}, 422, "yesterday"),
        ({"item": [{"linkId": "since", "answer": [{"valueDateTime": "2024"}]}]}, 422, "a date such as 2024-12-31"),
        ({"item": [{"linkId": "season", "answer": [{"valueCoding": {"code": ["x"]}}]}]}, 400, "cannot be read"),
    ],
)
def test_what_is_wrong_is_an_operation_outcome(client: httpx.Client, change: Json, status: int, says: str) -> None:
    reply = client.post(NEXT, json=first(client) | change)
    assert reply.status_code == status, reply.text
    validate("OperationOutcome", reply.json())
    assert says in reply.json()["issue"][0]["diagnostics"]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of what is sent, as what holds it and where."""
    for key in list(value) if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0):
        yield value, key
        yield from places(value[key])


def test_whatever_is_missing_or_of_a_wrong_type_is_no_error_of_the_server(client: httpx.Client) -> None:
    known = [{"linkId": "season", "answer": [{"valueString": "winter"}]}]
    sent = answered(ask(client, first(client, item=known)))
    n_refused = 0
    for wrong in (..., None, 3, "\ud800", [], [{}], {"a": [1]}, float("inf")):
        for i, _ in enumerate(places(sent)):
            changed = json.loads(json.dumps(sent))
            parent, key = list(places(changed))[i]
            if wrong is ...:
                del parent[key]
            else:
                parent[key] = wrong
            reply = client.post(NEXT, content=json.dumps(changed))
            assert reply.status_code in (200, 400, 422), (wrong, key, reply.text)
            assert reply.headers["content-type"] == "application/fhir+json"
            if reply.status_code > 200:
                validate("OperationOutcome", reply.json())
                n_refused += 1
    assert n_refused > 300


def test_an_answer_of_another_type_is_written_as_the_item_has_it(client: httpx.Client) -> None:
    told = {"temperature": {"valueQuantity": {"value": 39, "unit": "°C", "code": "Cel"}}}
    told |= {"sneezing": {"valueString": "Yes"}, "itching": {"valueCoding": DONT_KNOW}}
    told |= {"since": {"valueDateTime": "2024-02-03T10:00:00+01:00"}}
    items = [{"linkId": name, "answer": [answer]} for name, answer in told.items()]
    group = ask(client, first(client, item=items))["item"][0]["item"]
    found = {one["linkId"]: one["answer"][0] for one in group}
    assert found["temperature"] == {"valueDecimal": 39}
    assert found["sneezing"] == {"valueBoolean": True}
    assert "asked-unknown" in str(found["itching"]["_valueBoolean"])
    assert found["since"] == {"valueDate": "2024-02-03"}


def test_further_targets_are_among_the_results(
    model_folders: dict[str, Path], illness: PursuitEstimator, degrees: PursuitEstimator, tmp_path: Path
) -> None:
    frame, y = table()
    queries, number = illness.model_.query_set, np.where(y == "flu", 10.0, 3.0) + np.arange(len(y)) % 2
    METHODS["naive-bayes"].build(queries, random_state=0).fit(frame, y == "flu").save(tmp_path / "other")
    stages: Any = {"network": MLP((16,)), "stages": (Stage(3),), "teachers": None}
    VIPRegressor(queries, random_state=0, **stages).fit(frame, number).save(tmp_path / "days")
    models = load_models([model_folders["illness"]], also=[tmp_path / "other", tmp_path / "days"])
    with running(models, f"sqlite:///{tmp_path / 's.db'}", routers=[of_fhir]) as own:
        response = ask(own, first(own))
        while response["status"] == "in-progress":
            response = ask(own, answered(response))
    found = results(response)
    assert found["label"] == "flu"
    assert found["also-1-label"] == "True"
    assert found["also-1-probability"] > 0.5
    assert found["also-2-low"] <= found["also-2-label"] <= found["also-2-high"]


def test_columns_may_have_the_names_of_groups(tmp_path: Path) -> None:
    frame, y = table()
    frame = frame[["sneezing", "itching"]].set_axis([KNOWN, RESULT], axis=1)
    METHODS["naive-bayes"].build(random_state=0).fit(frame, y).save(tmp_path / "names")
    with running(load_models([tmp_path / "names"]), f"sqlite:///{tmp_path / 's.db'}", routers=[of_fhir]) as own:
        response = ask(own, first(own, "names"))
        for _ in frame.columns:
            response = ask(own, answered(response, "yes"))
        assert response["status"] == "completed"
        assert [one["linkId"] for one in response["item"]] in ([KNOWN, RESULT, RESULT], [RESULT, KNOWN, RESULT])
        response = ask(own, first(own, "names"))
        for _ in range(3 * len(frame.columns)):
            response = ask(own, response)
        assert response["status"] == "completed"  # whoever skips everything


def test_whole_numbers_are_integers_as_far_as_these_go() -> None:
    numbers = {"age": (0.5, 120.5), "income": (0.0, 1e10)}
    queries = ColumnQueries(
        [Number(name, name, low=low, high=high, decimals=0) for name, (low, high) in numbers.items()]
    )
    written = Form(queries, "Numbers", "https://example.org/Questionnaire/n").questionnaire()
    validate("Questionnaire", written)
    age, income = written["item"]
    assert [list(one.values())[1] for one in age["extension"]] == [1, 120]
    assert (age["type"], income["type"]) == ("integer", "decimal")


def test_what_is_no_json_or_no_questionnaire_is_one_too(client: httpx.Client) -> None:
    for content in (b"{", b"[" * 100_000, b"\xff", b"NaN", b'"\\ud800"'):
        reply = client.post(NEXT, content=content)
        assert reply.status_code == 422
        validate("OperationOutcome", reply.json())
    sent = first(client, "fever")
    assert "derivedFrom names one of those served" in client.post(NEXT, json=sent).text
    for address in ("/fhir/Questionnaire/fever", "/fhir/Patient", "/fhir/"):
        validate("OperationOutcome", client.get(address).json())
    validate("OperationOutcome", client.post("/fhir/Questionnaire", json={}).json())


def test_a_server_says_what_it_has(client: httpx.Client) -> None:
    validate("CapabilityStatement", client.get("/fhir/metadata").json())
    bundle = client.get("/fhir/Questionnaire").json()
    validate("Bundle", bundle)
    assert {entry["resource"]["id"] for entry in bundle["entry"]} == {"illness", "degrees"}
    url = bundle["entry"][1]["resource"]["url"]
    found = client.get("/fhir/Questionnaire", params={"url": url}).json()
    assert [entry["resource"]["url"] for entry in found["entry"]] == [url]
    assert client.get("/fhir/Questionnaire", params={"url": f"{url}s"}).json()["total"] == 0
    assert "/fhir" not in client.get("/api/openapi.json").text


def test_without_the_option_there_is_no_fhir(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'sessions.db'}") as own:
        assert own.get("/fhir/metadata").status_code == 404


def test_the_program_writes_a_questionnaire(model_folders: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "illness.json"
    done = run(tmp_path, "export", str(model_folders["illness"]), str(path), "--fhir")
    assert done.returncode == 0, done.stderr
    written = json.loads(path.read_text(encoding="utf-8"))
    validate("Questionnaire", written)
    temperature = {one["linkId"]: one for one in written["item"]}["temperature"]
    extensions = {one["url"].rpartition("/")[2]: one for one in temperature["extension"]}
    assert extensions["questionnaire-unit"]["valueCoding"]["display"] == "°C"
    assert (extensions["minValue"]["valueDecimal"], extensions["maxValue"]["valueDecimal"]) == (30, 45)
    assert temperature["item"][0]["text"] == "Measured under the tongue."
    refused = run(tmp_path, "export", str(model_folders["illness"]), str(path), "--url", "https://example.org/q")
    assert "goes with --fhir" in refused.stderr


def test_a_questionnaire_speaks_the_language_of_its_questions() -> None:
    queries = ColumnQueries([Choice("wo", "Wo drückt es?", ("Kopf", "Füße")), yes_no("Fieber")])
    for language, says in ((None, "Weiß ich nicht"), ("en", "I don't know")):
        form = Form(queries, "Wo?", "https://example.org/Questionnaire/wo", language=language)
        assert form.questionnaire()["item"][0]["answerOption"][-1]["valueCoding"]["display"] == says


def conditional() -> Form:
    queries = ColumnQueries([yes_no("fever"), Choice("where", "Where?", ("head", "belly", "leg")), yes_no("cough")])
    conditions = (OnlyAfter("where", "fever", ("yes",)), OnlyAfter("cough", "where", ("head", "belly")))
    queries.set_order(Order(only_after=conditions))
    return Form(queries, "Conditions", "https://example.org/Questionnaire/conditions")


def test_what_is_asked_only_after_something_is_enabled_by_it() -> None:
    items = {one["linkId"]: one for one in conditional().questionnaire()["item"]}
    assert items["where"]["enableWhen"] == [{"question": "fever", "operator": "=", "answerBoolean": True}]
    assert items["cough"]["enableBehavior"] == "any"
    assert [one["answerCoding"]["code"] for one in items["cough"]["enableWhen"]] == ["head", "belly"]


@pytest.mark.programs
@pytest.mark.parametrize("n_workers", [1, 2])
def test_the_program_serves_it(model_folders: dict[str, Path], tmp_path: Path, n_workers: int) -> None:
    options = ("--fhir", "--port", "0", "--workers", str(n_workers), "--database", f"sqlite:///{tmp_path / 's.db'}")
    with program(model_folders["illness"], *options) as own, client_of(port_of(own)) as client:
        assert open_item(ask(client, first(client)))


# ---- by the programs and profiles of others


def judged(resource: Json, *names: str, root: Json | None = None) -> Json:
    """What profiles of SDC find `wrong` in a resource, which rules are `unclear`, as the engine cannot evaluate them,
    and how many `rules` were evaluated."""
    folder = package(*SDC)
    texts = [(folder / f"StructureDefinition-{name}.json").read_text(encoding="utf-8") for name in names]
    return node(PROFILES, installed(FHIRPATH), resource=resource, root=root, profiles=[json.loads(t) for t in texts])


def assert_conforms(resource: Json, *names: str, root: Json | None = None, n_rules: int = 5) -> None:
    found = judged(resource, *names, root=root)
    assert found["wrong"] == []
    assert all(" dom-3 " in one for one in found["unclear"])  # it cannot be evaluated where anything is contained
    assert found["rules"] > n_rules


@pytest.mark.programs
def test_the_published_profiles_find_nothing_wrong(client: httpx.Client) -> None:
    whole = client.get("/fhir/Questionnaire/illness").json()
    for questionnaire in (whole, conditional().questionnaire()):
        assert_conforms(questionnaire, "sdc-questionnaire", n_rules=50)
    listed = client.get("/fhir/Questionnaire").json()["entry"][0]["resource"]
    assert_conforms(listed, "sdc-questionnaire-adapt-srch")
    known = [{"linkId": "season", "answer": [{"valueString": "winter"}]}]
    response = ask(client, first(client, item=known))
    while response["status"] == "in-progress":
        response = ask(client, answered(response))
    for one in (response, ask(client, first(client))):
        assert_conforms(one, "sdc-questionnaireresponse-adapt")
        assert_conforms(one["contained"][0], "sdc-questionnaire-adapt", root=one)


@pytest.mark.programs
def test_the_profiles_accept_their_own_example_and_find_errors() -> None:
    folder = package(*SDC) / "example"
    name = "QuestionnaireResponse-adaptive-questionnaireresponse-sdc-example-phq9.json"
    example = json.loads((folder / name).read_text(encoding="utf-8"))
    assert judged(example, "sdc-questionnaireresponse-adapt")["wrong"] == []
    broken = {**example, "authored": None}
    del broken["authored"]
    assert any("authored" in one for one in judged(broken, "sdc-questionnaireresponse-adapt")["wrong"])
    twice = {"resourceType": "Questionnaire", "url": "https://example.org/q", "status": "active"}
    twice["item"] = [{"linkId": "a", "type": "display", "text": "A"}] * 2  # type: ignore[assignment]
    assert any("que-2" in one for one in judged(twice, "sdc-questionnaire")["wrong"])


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A page of the form filler, served with its files by a server of its own."""
    needs_browser()
    folder = package(*LFORMS) / "dist" / "lforms"
    names = [f"webcomponent/{name}.js" for name in ("assets/lib/zone.min", "runtime", "polyfills", "main")]
    parts = [f'<script src="{name}"></script>' for name in (*names, "fhir/R4/lformsFHIR.min.js")]
    style = '<link rel="stylesheet" href="webcomponent/styles.css">'
    with opened(folder, f"{style}<div id=form></div>{''.join(parts)}") as own:
        own.wait_for_function("window.LForms && LForms.Util && LForms.FHIR")
        yield own


SHOW = """async ([questionnaire, response]) => {
  document.getElementById("form").replaceChildren();
  const options = { fhirVersion: "R4", questionnaireResponse: response, prepopulate: false };
  await LForms.Util.addFormToPage(questionnaire, "form", options);
}"""
READ = """() => LForms.Util.getFormFHIRData("QuestionnaireResponse", "R4")"""
HOLDS = f"id => ({READ})().item?.some(one => one.linkId === id)"


def fill(page: Any, item: Json, value: Any) -> None:
    """Answer an item as a person does."""
    field = page.locator(f"[id='{item['linkId']}/1'], [id^='{item['linkId']}/1']").first
    match item["type"]:
        case "boolean":
            words = re.compile(rf"^\s*{value}\s*$", re.IGNORECASE)
            page.locator("label.ant-radio-wrapper").filter(has_text=words).last.click()
        case "choice":
            field.click()
            page.get_by_role("option", name=value).or_(
                page.locator("#lhc-tools-searchResults li", has_text=value)
            ).first.click()
        case _:
            field.fill(str(value) if item["type"] != "date" else "02/03/2024")
            field.press("Tab")


@pytest.mark.programs
def test_a_form_filler_of_others_plays_an_interview(client: httpx.Client, page: Any, illness: PursuitEstimator) -> None:
    response, n = ask(client, first(client)), 0
    while response["status"] == "in-progress":
        item = open_item(response)
        page.evaluate(SHOW, [response["contained"][0], response])
        page.get_by_text(item["text"]).first.wait_for()
        fill(page, item, ILL[item["linkId"]])
        page.wait_for_function(HOLDS, arg=item["linkId"])
        filled = page.evaluate(READ)
        response = ask(client, {**response, "item": filled["item"]})
        n += 1
        assert n < 6
    page.evaluate(SHOW, [response["contained"][0], response])
    page.get_by_text("Most probable result").first.wait_for()
    session = illness.session(known=None)
    while not session.done:
        session.tell(ILL[session.ask().name])
    assert results(response)["label"] == session.prediction
    assert results(response)["probability"] == pytest.approx(session.posterior["flu"], abs=1e-6)


@pytest.mark.programs
def test_the_form_filler_shows_everything_that_is_asked(client: httpx.Client, page: Any) -> None:
    whole = client.get("/fhir/Questionnaire/illness").json()
    page.evaluate(SHOW, [whole, None])
    for item in whole["item"]:
        page.get_by_text(item["text"]).first.wait_for()
