"""`pursuit ask`: a person in the terminal answers the questions of a model."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pursuit.baselines import load_classifier
from pursuit.checkpoints import write_whole
from pursuit.cli.app import AsJson, Model, Stop
from pursuit.screen import err, escaped, out, print_json
from pursuit.session import Session


def ask(
    model: Model,
    stop: Stop = None,
    session_file: Annotated[
        Path | None,
        typer.Option("--session", help="File that keeps the session; where it exists, it goes on from there."),
    ] = None,
    tell: Annotated[
        list[str] | None,
        typer.Option(help="What you report unasked, as in --tell fever=yes: query and answer; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a person in the terminal until the model is sure."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  lets people edit what they type
    classifier = load_classifier(model)
    session = classifier.session(stop)
    if session_file and (session_file.is_dir() or not session_file.parent.is_dir()):
        raise ValueError(f"The session cannot be kept in {session_file}: give a file in a folder that exists.")
    if session_file and session_file.exists():
        session = _saved_session(session_file, session)
    else:
        _report(session, tell or [])
    screen = err if as_json else out
    if classifier.has_opening_ and not session.to_dict()["told"]:
        screen.print(
            "This model learnt from people who report something first. Do so for better questions: --tell QUERY=ANSWER",
            soft_wrap=True,
        )
    screen.print(
        "Answer in words; Enter if you do not know, 'undo' to take back, 'why' for the reasons, 'quit' to stop."
    )
    while not session.done and _put_question(session, screen):
        if session_file:
            write_whole(session_file, session.to_json().encode())
    if as_json:
        print_json({"finished": session.done, **session.chain.to_dict()})
    else:
        print(f"\n{session.chain}")


def _report(session: Session, told: list[str]) -> None:
    """Take what a person says unasked, as in "fever=yes"."""
    for text in told:
        name, equals, answer = text.rpartition("=")
        if not equals:
            raise ValueError(f"--tell is written QUERY=ANSWER, as in fever=yes, not '{text}'.")
        session.tell(answer.strip(), name.strip())


def _saved_session(path: Path, fresh: Session) -> Session:
    try:
        return Session.from_json(path.read_text(encoding="utf-8"), fresh.pursuer, fresh.stop)
    except ValueError as error:
        raise ValueError(f"{path}: {error} Give another --session, or remove this file.") from None


def _put_question(session: Session, screen: Console) -> bool:
    """Ask one question and take its answer; False if the person wants to stop."""
    question = session.ask()
    choices = f" [dim]({escaped('/'.join(question.choices[:8]))})[/]" if question.choices else ""
    screen.print(f"\n[bold]{question.number}. {escaped(question.text)}[/]{choices} ", end="")
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
                screen.print(f"   This question has {question.share:.0%} of the querier's preference. Next best:")
                for text, share in question.runners_up:
                    screen.print(f"   {share:>4.0%}  {escaped(text)}", highlight=False)
            case _:
                session.tell(answer)
    except ValueError as error:
        screen.print(f"   {escaped(str(error))}", style="red")
        return True
    best = list(session.posterior.items())[:3]
    screen.print(
        "   " + escaped(", ".join(f"{label} {share:.0%}" for label, share in best)), style="dim", highlight=False
    )
    return True
