"""A small client of `pursuit serve`, with nothing but Python's standard library.

pursuit serve                                   in one terminal
python examples/client.py                       in another: you are asked, and the session is kept
python examples/client.py --next yes no yes     the first questions that follow from these answers; nothing is kept

A server that asks for a token gets it from the environment: PURSUIT_TOKEN=… python examples/client.py
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any


class Problem(Exception):
    """The server refuses; it says why in a sentence, and perhaps has a doubt."""

    def __init__(self, answer: dict[str, Any]):
        super().__init__(answer["message"])
        self.doubt, self.session = answer.get("doubt"), answer.get("session")


def call(address: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the server answers; raises Problem where it refuses."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    if token := os.environ.get("PURSUIT_TOKEN"):
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{address}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise Problem(json.load(error)) from None


def show(state: dict[str, Any]) -> None:
    """What is believed now, and what is asked."""
    number = state["belief"]["number"]
    believed = [f"{one['label']} {one['probability']:.0%}" for one in state["belief"]["labels"][:3]]
    print(f"   I believe now: {number['text'] if number else ', '.join(believed)}")
    if state["question"]:
        choices = "/".join(choice["text"] for choice in state["question"]["choices"])
        print(f"{state['question']['number']}. {state['question']['text']} [{choices or 'a number'}]")


def interview(address: str, model: str) -> None:
    """Ask the person in the terminal until the model is sure. Every move names the revision that was seen."""
    session = call(address, "/api/sessions", {"model": model})
    doubted = ""
    while not session["state"]["done"]:
        show(session["state"])
        said = input("   your answer (empty: don't know, u: undo): ").strip()
        move: dict[str, Any] = {"move": "undo"} if said == "u" else {"move": "tell", "answer": said or None}
        move["confirmed"] = bool(said) and said == doubted  # a number far outside the usual range, said twice
        path = f"/api/sessions/{session['id']}/moves"
        try:
            session = call(address, path, {**move, "revision": session["revision"]})
        except Problem as problem:
            doubted = said if problem.doubt else ""
            print(f"   {problem}" + (" If it is right, say it again." if doubted else ""))
            session = problem.session or session  # somebody else went on with it
    result = session["state"]["result"]
    print(f"It is {result['label']}. What speaks for it:")
    for reason in result["reasons"]["for"]:
        print(f"   {reason['text']} {reason['answer']}")
    print(f"The report: {address}/api/sessions/{session['id']}/report")


def stateless(address: str, model: str, answers: list[str]) -> None:
    """The same without a session: all answers so far are sent each time, and the server keeps nothing."""
    told: list[dict[str, Any]] = []
    for said in [*answers, None]:
        found = call(address, f"/api/models/{model}/next", {"answers": told})
        show(found["state"])
        if said is None or found["state"]["done"]:
            return
        told.append({"query": found["state"]["question"]["name"], "answer": said})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="by default the first that is served")
    parser.add_argument("--next", nargs="*", metavar="ANSWER", help="only say what is asked after these answers")
    given = parser.parse_args()
    try:
        model = given.model or call(given.address, "/api/models")["models"][0]["id"]
        if given.next is not None:
            stateless(given.address, model, given.next)
        else:
            interview(given.address, model)
    except Problem as problem:
        sys.exit(str(problem))
    except (EOFError, KeyboardInterrupt):
        print("\nStopped; the session is kept.")
    except OSError as error:
        sys.exit(f"{given.address} does not answer ({error}). Start it with: pursuit serve")


if __name__ == "__main__":
    main()
