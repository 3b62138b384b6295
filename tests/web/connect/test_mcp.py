"""The server of the Model Context Protocol, played by the SDK's own client: over standard input and output, over HTTP,
and by both ways in which the protocol lets a server ask a person."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
import pytest

from illness import ILL, table
from pursuit import PatchQueries, PursuitEstimator, Stage, VIPClassifier, load
from pursuit.methods import METHODS
from pursuit.web.serving.models import ServedModels, load_models

MODES = ("auto", "legacy")
TOKEN = "a-token-of-many-characters"


@pytest.fixture(scope="module")
def server(models: ServedModels) -> Any:
    from pursuit.web.connect.mcp import make_server

    return make_server(models)


def play(server: Any, script: Callable[[Any], Any], **options: Any) -> Any:
    """What a script makes of a client of this server."""
    from mcp import Client

    async def run() -> Any:
        async with Client(server, **options) as client:
            return await script(client)

    return anyio.run(run)


async def call(client: Any, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Any, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return result.content[0].text  # type: ignore[union-attr]


async def interview(client: Any) -> dict[str, Any]:
    """An interview in which every question is answered, and one answer is taken back."""
    stands = await call(client, "start", model="illness")
    assert (await call(client, "why", session=stands["session"]))["text"].startswith(f'"{stands["question"]["text"]}"')
    name = stands["question"]["name"]
    again = await call(client, "answer", session=stands["session"], answer=None)
    assert again["question"]["name"] != name
    stands = await call(client, "undo", session=stands["session"])
    assert stands["question"]["name"] == name
    while not stands["done"]:
        answer = ILL[stands["question"]["name"]]
        stands = await call(client, "answer", session=stands["session"], answer=answer)
    return stands


@pytest.mark.parametrize("mode", MODES)
def test_an_interview_gives_what_a_session_gives(server: Any, illness: PursuitEstimator, mode: str) -> None:
    stands = play(server, interview, mode=mode)
    session = illness.session()
    while not session.done:
        session.tell(ILL[session.ask().name])
    assert stands["result"]["label"] == session.prediction == "flu"
    assert stands["result"]["probability"] == pytest.approx(session.posterior["flu"], abs=1e-6)
    assert [one["value"] for one in stands["answers"]] == list(session.answers.values())


def test_predict_takes_any_subset(server: Any, illness: PursuitEstimator) -> None:
    async def script(client: Any) -> dict[str, Any]:
        return await call(client, "predict", model="illness", answers={"season": "summer", "itching": True})

    predicted = play(server, script)
    posterior = illness.session(known={"season": "summer", "itching": "yes"}).posterior
    assert {one["label"]: one["probability"] for one in predicted["belief"]["labels"]} == pytest.approx(posterior)


def test_models_questions_and_cards_are_listed(server: Any) -> None:
    from mcp_types import TextResourceContents

    async def script(client: Any) -> None:
        listed = (await call(client, "list_models"))["models"]
        assert {one["id"] for one in listed} == {"illness", "degrees"}
        questions = (await call(client, "list_questions", model="illness"))["questions"]
        assert {one["name"]: one["unit"] for one in questions}["temperature"] == "°C"
        resources = (await client.list_resources()).resources
        assert {str(one.uri) for one in resources} == {"pursuit://models/illness", "pursuit://models/degrees"}
        card = (await client.read_resource("pursuit://models/illness")).contents[0]
        assert isinstance(card, TextResourceContents)
        assert "cold, flu, hay fever" in card.text
        assert "How high is your temperature?" in card.text
        tools = (await client.list_tools()).tools
        assert all(tool.output_schema and tool.description for tool in tools)

    play(server, script)


def test_what_is_wrong_is_said_in_a_sentence(server: Any) -> None:
    async def script(client: Any) -> None:
        assert "There is no model “fever” here" in await refusal(client, "start", model="fever")
        assert "no such session" in await refusal(client, "undo", session="gone")
        stands = await call(client, "start", model="illness")
        assert "not 'purple'" in await refusal(
            client, "answer", session=stands["session"], question="season", answer="purple"
        )
        assert "confirmed" in await refusal(
            client, "answer", session=stands["session"], question="since", answer="1901-01-01"
        )
        told = await call(
            client, "answer", session=stands["session"], question="since", answer="1901-01-01", confirmed=True
        )
        corrected = await call(client, "answer", session=stands["session"], question="since", answer="2024-02-03")
        assert [told["answers"][0]["value"], corrected["answers"][0]["value"]] == ["1901-01-01", "2024-02-03"]
        assert "cannot ask the person" in await refusal(client, "ask_person", session=stands["session"])

    play(server, script)


def test_a_doubted_number_is_taken_once_it_is_confirmed(server: Any, illness: PursuitEstimator) -> None:
    async def script(client: Any) -> None:
        doubted = {"since": "1901-01-01"}
        for name, key in (("start", "known"), ("predict", "answers")):
            refused = await refusal(client, name, model="illness", **{key: doubted})
            assert "call this again with confirmed = true" in refused
            taken = await call(client, name, model="illness", confirmed=True, **{key: doubted})
            assert [one["value"] for one in taken["answers"]] == ["1901-01-01"]

    play(server, script)


def test_further_targets_are_believed_too(
    model_folders: dict[str, Path], illness: PursuitEstimator, tmp_path: Path
) -> None:
    from pursuit.web.connect.mcp import make_server

    frame, y = table()
    other = METHODS["naive-bayes"].build(illness.model_.query_set, random_state=0).fit(frame, y == "flu")
    other.save(tmp_path / "other")
    server = make_server(load_models([model_folders["illness"]], also=[tmp_path / "other"]))
    stands = play(server, interview)
    assert stands["done"]
    assert [one["belief"]["labels"][0]["label"] for one in stands["also"]] == ["True"]


def test_a_model_of_pictures_is_refused(tmp_path: Path) -> None:
    from pursuit.web.connect.mcp import make_server

    X = np.random.default_rng(0).random((40, 1, 4, 4), dtype=np.float32)
    model = VIPClassifier(PatchQueries((1, 4, 4), 2, 2), random_state=0, stages=(Stage(1),))
    model.fit(X, X[:, 0, 0, 0] > 0.5).save(tmp_path / "pictures")
    with pytest.raises(ValueError, match="looks at pictures"):
        make_server(load_models([tmp_path / "pictures"]))


@pytest.mark.parametrize("mode", MODES)
def test_the_client_asks_the_person_itself(server: Any, mode: str) -> None:
    from mcp_types import ElicitResult

    asked: list[str] = []
    names = {"How high is your temperature?": "temperature", "Which season is it?": "season"}
    names |= {"Do you sneeze?": "sneezing", "Do your eyes itch?": "itching", "When did it begin?": "since"}

    async def person(_: Any, params: Any) -> Any:
        name = names[params.message.split("\n")[0]]
        asked.append(name)
        if len(asked) == 1:
            return ElicitResult(action="decline")
        if len(asked) == 2:
            return ElicitResult(action="accept", content={"dont_know": True})
        return ElicitResult(action="accept", content={"answer": ILL[name], "dont_know": False})

    async def script(client: Any) -> dict[str, Any]:
        stands = await call(client, "start", model="illness")
        return await call(client, "ask_person", session=stands["session"])

    stands = play(server, script, mode=mode, elicitation_callback=person)
    assert stands["done"]
    assert stands["result"]["label"] == "flu"
    skipped, unknown, *answered = asked
    given = {one["question"]["name"]: one["value"] for one in stands["answers"]}
    assert given == {unknown: None, **{name: ILL[name] for name in answered}}
    assert skipped not in given or skipped in answered


def test_a_person_who_cancels_is_asked_nothing_more(server: Any) -> None:
    from mcp_types import ElicitResult

    from pursuit.web.connect.mcp import MOST_AT_ONCE

    async def person(_: Any, __: Any) -> Any:
        return ElicitResult(action="cancel")

    async def script(client: Any) -> dict[str, Any]:
        stands = await call(client, "start", model="illness")
        return await call(client, "ask_person", session=stands["session"])

    stands = play(server, script, elicitation_callback=person)
    assert not stands["done"]
    assert stands["answers"] == []
    assert MOST_AT_ONCE < 10  # rounds after which clients give up


@pytest.mark.programs
def test_the_program_over_standard_input_and_output(model_folders: dict[str, Path]) -> None:
    from mcp import StdioServerParameters

    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pursuit", "mcp", str(model_folders["illness"])],
        env={**os.environ},
    )
    stands = play(program, interview)
    assert stands["result"]["label"] == "flu"
    assert load(model_folders["illness"]).session().ask().name in {one["question"]["name"] for one in stands["answers"]}


@pytest.mark.programs
def test_the_program_over_http_asks_for_its_token(model_folders: dict[str, Path]) -> None:
    command = [sys.executable, "-m", "pursuit", "mcp", str(model_folders["illness"]), "--http", "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PURSUIT_TOKEN": TOKEN}
    ) as own:
        try:
            assert own.stderr is not None
            said = next(line for line in own.stderr if line.startswith("Serving "))
            address = re.search(r"http://\S+/mcp", said)
            assert address is not None
            assert httpx.post(address[0], json={}, trust_env=False).status_code == 401

            async def run() -> dict[str, Any]:
                import httpx2
                from mcp import Client
                from mcp.client.streamable_http import streamable_http_client

                async with (
                    httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False) as http,
                    Client(streamable_http_client(address[0], http_client=http)) as client,
                ):
                    return await interview(client)

            assert anyio.run(run)["result"]["label"] == "flu"
        finally:
            own.kill()


def test_foreign_names_and_pages_are_refused_over_http(server: Any) -> None:
    from pursuit.web.connect.mcp import make_app

    async def statuses() -> list[int]:
        transport = httpx.ASGITransport(make_app(server))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            foreign = [{"host": "evil.example"}, {"origin": "https://evil.example"}]
            return [(await client.post("/mcp", json={}, headers=headers)).status_code for headers in foreign]

    assert anyio.run(statuses) == [421, 403]
