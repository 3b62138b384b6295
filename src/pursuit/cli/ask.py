"""`pursuit ask`: a person in the terminal answers the questions of a model."""

import contextlib
import datetime
import functools
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pursuit.cli.console import err, escaped, out, print_json, say, show
from pursuit.cli.options import AsJson, Model
from pursuit.files import read_bytes, write_whole
from pursuit.registry import Also, Option, Stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pursuit.sessions.log import FurtherTarget
    from pursuit.sessions.session import Session


def ask(
    model: Model,
    stop: Stop = None,
    also: Also = None,
    session_file: Annotated[
        Path | None,
        Option("The file that keeps the session; if it exists, the session goes on from it.", "--session"),
    ] = None,
    tell: Annotated[
        list[str] | None,
        Option(
            "An answer that you report before anything is asked, as in --tell fever=yes; repeatable.",
            metavar="QUESTION=ANSWER",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a person in the terminal until the model is sure."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  lets people edit what they type
    from pursuit import load  # which makes all that a model may be made of known
    from pursuit.cli.conversation import Conversation
    from pursuit.queries import Questions
    from pursuit.report.chains import ExplainedRow, chains_to_dict
    from pursuit.report.measured import kept
    from pursuit.web.titles import load_by_title, title_of

    classifier = load(model)
    further = load_by_title(also or (), title_of(classifier, model.name))
    session = classifier.session(stop, also=further)
    if session_file and (session_file.is_dir() or not session_file.parent.is_dir()):
        raise ValueError(f"The session cannot be kept in {session_file}: give a file in a folder that exists.")
    if session_file and session_file.exists():
        session = _saved_session(session_file, session, classifier.further_targets(further, stop=stop))
    _report(session, tell or [], model)
    console = err if as_json else out
    presentation = Questions.presented(classifier.notes_)
    for text in (presentation.title, presentation.introduction):
        if text and not session.answers:
            console.print(f"{escaped(text)}\n", soft_wrap=True, highlight=False)
    _greet(session, classifier.has_initially_known_, as_json)

    def keep() -> None:
        if session_file:
            write_whole(session_file, session.to_json().encode())

    keep()
    # By another rule, or when asked about other things as well, it is as good as nobody knows.
    measured = kept(model, classifier) if stop is None and not also else None
    experience = None if measured is None else measured.experience
    talk = Conversation(session, console, not as_json, keep, experience, presentation)
    try:
        if not talk.run():
            _keep_for_later(session, model, stop, also, session_file, always=sys.stdin.isatty())
    except KeyboardInterrupt:
        console.print()
        _keep_for_later(session, model, stop, also, session_file, always=True)
        raise typer.Exit(130) from None
    if as_json:
        name = classifier.notes_.get("task", {}).get("name") or model.name
        described = {**ExplainedRow.of_session(session).to_dict(), "finished": session.done}
        if session.also:
            described["also"] = {each: ExplainedRow.of_session(one).to_dict() for each, one in session.also.items()}
        print_json(chains_to_dict(name, [described]))
    else:
        show(f"\n{session.chain}")
        for each, one in session.also.items():
            show(f"\n{escaped(each)}: {escaped(one.belief)}")


def _greet(session: "Session", has_initially_known: bool, as_json: bool) -> None:
    console, order = err if as_json else out, session.pursuer.query_set.order
    is_asked_first = order is not None and order.beforehand
    if has_initially_known and not is_asked_first and not session.answers:
        console.print(
            "This model was trained on people who report something first. For better questions, do so too: "
            "--tell QUESTION=ANSWER",
            soft_wrap=True,
        )
    if session.answers:
        console.print(f"Answered so far: {len(session.answers)}.", highlight=False)
    console.print("Answer, or: ? why  d don't know  s skip  u undo  c change  n wrong  h help  q quit", soft_wrap=True)


def _report(session: "Session", answers: list[str], model: Path) -> None:
    """Take answers that a person gives unasked, as in "fever=yes"; those given before are corrected."""
    from pursuit.cli.conversation import report_answer, split_report, take_answer
    from pursuit.queries import DoubtfulAnswer
    from pursuit.registry import UnknownName

    for text in answers:
        try:
            name, answer = split_report(text)
            take_answer(answer, functools.partial(report_answer, session, name, unasked=True))
        except DoubtfulAnswer as error:
            raise ValueError(f"--tell {text}: {error.doubt} If it is right, write {shlex.quote(text + '!')}.") from None
        except UnknownName as error:
            all_of_them = shlex.join(["pursuit", "show", str(model)])
            raise ValueError(f"--tell {text}: {error} All questions: {all_of_them}") from None
        except ValueError as error:
            raise ValueError(f"--tell {text}: {error}") from None


def _saved_session(path: Path, fresh: "Session", also: "Mapping[str, FurtherTarget]") -> "Session":
    from pursuit.sessions.session import Session

    try:
        return Session.from_json(read_bytes(path).decode("utf-8"), fresh.pursuer, fresh.stop, also=also)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a saved session. Give another --session, or remove this file.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error} Give another --session, or remove this file.") from None


def _keep_for_later(
    session: "Session", model: Path, stop: str | None, also: list[str] | None, path: Path | None, always: bool
) -> None:
    """Save a session that is not finished, and say how to go on with it. Without a file of its own it is only saved if
    `always`, and if anything was said."""
    if path is None:
        if not always or not session.answers:
            return
        path = Path(f"session-{datetime.datetime.now():%Y%m%d-%H%M%S}.json")
    write_whole(path, session.to_json().encode())
    others = [word for folder in also or () for word in ("--also", folder)]
    command = ["pursuit", "ask", str(model), *(["--stop", stop] if stop else []), *others, "--session", str(path)]
    say(f"Saved. Go on with: {shlex.join(command)}")
