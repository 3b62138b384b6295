"""`pursuit ask`: a person in the terminal answers the questions of a model."""

import contextlib
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer
from rich.console import Console

from pursuit.cli.app import AsJson, Model, Stop
from pursuit.cli.console import err, escaped, out, print_json
from pursuit.files import write_whole
from pursuit.inference.session import Session
from pursuit.public import load  # which makes all that a model may be made of known


def ask(
    model: Model,
    stop: Stop = None,
    session_file: Annotated[
        Path | None,
        typer.Option("--session", help="The file that keeps the session; if it exists, the session goes on from it."),
    ] = None,
    tell: Annotated[
        list[str] | None,
        typer.Option(help="An answer that you report before anything is asked, as in --tell fever=yes; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a person in the terminal until the model is sure."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  lets people edit what they type
    classifier = load(model)
    session = classifier.session(stop)
    if session_file and (session_file.is_dir() or not session_file.parent.is_dir()):
        raise ValueError(f"The session cannot be kept in {session_file}: give a file in a folder that exists.")
    if session_file and session_file.exists():
        session = _saved_session(session_file, session)
    else:
        _report(session, tell or [])
    console = err if as_json else out
    order = session.pursuer.query_set.order
    is_asked_first = order is not None and order.beforehand
    if classifier.has_initially_known_ and not is_asked_first and not session.to_dict()["answers"]:
        console.print(
            "This model was trained on people who report something first. For better questions, do so too: "
            "--tell QUERY=ANSWER",
            soft_wrap=True,
        )
    console.print(
        "Type your answer; Enter if you do not know, 'undo' to take one back, 'why' for the reasons, 'quit' to stop."
    )
    while not session.done and _put_question(session, console):
        if session_file:
            write_whole(session_file, session.to_json().encode())
    if as_json:
        print_json({"finished": session.done, **session.chain.to_dict()})
    else:
        print(f"\n{session.chain}")


def _report(session: Session, answers: list[str]) -> None:
    """Take answers that a person gives unasked, as in "fever=yes"."""
    for text in answers:
        name, equals, answer = text.rpartition("=")
        if not equals:
            raise ValueError(f"--tell is written QUERY=ANSWER, as in fever=yes, not '{text}'.")
        session.tell(answer.strip(), name.strip())


def _saved_session(path: Path, fresh: Session) -> Session:
    try:
        return Session.from_json(path.read_text(encoding="utf-8"), fresh.pursuer, fresh.stop)
    except ValueError as error:
        raise ValueError(f"{path}: {error} Give another --session, or remove this file.") from None


def _put_question(session: Session, console: Console) -> bool:
    """Ask one question and take the answer; False if the person wants to stop."""
    question = session.ask()
    expected = "/".join(question.choices[:8]) if question.choices else question.expected
    choices = f" [dim]({escaped(expected)})[/]" if expected else ""
    costs = {query.cost for query in session.pursuer.query_set.queries}
    cost = f" [dim]cost {question.cost:g}[/]" if len(costs) > 1 and question.number else ""
    number = f"{question.number}." if question.number else "+"
    explained = f"\n   [dim]{escaped(question.help)}[/]\n   " if question.help else ""
    line = f"\n[bold]{number} {escaped(question.text)}[/]{choices}{cost} {explained}"
    console.print(line, end="", highlight=False)
    try:
        answer = input().strip()
    except EOFError:
        return False
    try:
        match answer.lower():
            case "quit" | "exit":
                return False
            case "undo":
                session.undo()
            case "" | "?" | "skip":
                session.skip()
            case "why":
                console.print(escaped(indent(str(session.why()), "   ")), highlight=False, soft_wrap=True)
                return True
            case _:
                session.tell(answer)
    except ValueError as error:
        console.print(f"   {escaped(str(error))}", style="red")
        return True
    console.print(f"   {escaped(session.belief)}", style="dim", highlight=False)
    return True
