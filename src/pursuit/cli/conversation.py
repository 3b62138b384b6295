"""The conversation of `pursuit ask`: one question after the other, with the posterior between them. A person types an
answer, a key for one of the choices, or a command."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Literal

from rich.console import Console

from pursuit.cli.console import escaped
from pursuit.inference.chain import percent
from pursuit.queries import DoubtfulAnswer, QuerySet
from pursuit.queries.column import NO_WORDS, YES_WORDS, fold
from pursuit.queries.questions import Presentation
from pursuit.sessions.experience import FEW_ROWS, Experience, Trust
from pursuit.sessions.session import Session
from pursuit.sessions.state import Question, State, question_of

MOST_BARS, BAR_WIDTH, LONGEST_LABEL = 5, 24, 30
PROMPT = "> "


Action = Literal["answer", "why", "undo", "change", "skip", "unknown", "wrong", "tell", "more", "help", "quit"]
COMMANDS: dict[Action, tuple[str, ...]] = {
    "why": ("?", "why"),
    "unknown": ("d", "don't know", "dont know"),
    "skip": ("s", "skip"),
    "undo": ("u", "undo"),
    "change": ("c", "change"),
    "wrong": ("n", "wrong", "that's wrong", "thats wrong"),
    "tell": ("t", "tell"),
    "more": ("m", "more"),
    "help": ("h", "help"),
    "quit": ("q", "quit", "exit"),
}
"""The ways to type each command, its key first."""
TAKES_MORE: tuple[Action, ...] = ("change", "wrong", "tell")
"""Commands that may be followed by an argument."""
HELP = """\
Answer with the key in front of a choice, with its words or their beginning, or with a number.
  d  don't know (Enter alone says the same)   s  skip: ask something else now
  u  undo the last step                       c  change an earlier answer (c fever=no)
  ?  why this question is asked               n  that's wrong: exclude the leading guess (n flu: another one)
  t  tell something unasked (t fever=yes)     m  more questions, after the result
  h  this help                                q  quit; Ctrl-C and Ctrl-D do so, too
Put a slash before a key that is an answer, too: /n"""


@dataclass(frozen=True)
class Typed:
    """The meaning of a line that a person typed."""

    action: Action
    rest: str = ""
    """The answer, or the argument of a command."""


def read_line(line: str, choices: tuple[str, ...] = ()) -> Typed:
    """The meaning of a line typed in answer to a question with these `choices`. An answer goes before a command, and
    a slash makes it a command in any case."""
    text = line.strip()
    is_command = text.startswith("/") and fold(text) not in map(fold, choices)
    text = text[1:].strip() if is_command else text
    if not is_command and is_exactly_one_of(text, choices):
        return Typed("answer", text)
    word, _, rest = text.partition(" ")
    for action, ways in COMMANDS.items():
        if text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") in ways:
            return Typed(action)
        if action in TAKES_MORE and rest and word.casefold() in ways:
            return Typed(action, rest.strip())
    if is_command:
        raise ValueError(f"There is no command '/{text}'. Type h for the list of commands.")
    return Typed("answer", text)


def is_exactly_one_of(text: str, choices: tuple[str, ...]) -> bool:
    """Whether a text is a choice or, where these are words for no and yes, another such word; a single letter only if
    it begins one of the choices, as t does not begin yes."""
    words, word = [fold(choice) for choice in choices], fold(text)
    if word in words:
        return True
    is_yes_no = len(words) >= 2 and words[0] in NO_WORDS and words[1] in YES_WORDS
    is_clear = len(word) > 1 or any(choice.startswith(word) for choice in words)
    return is_yes_no and is_clear and (word in NO_WORDS or word in YES_WORDS)


def choice_keys(query_set: QuerySet, query: int, choices: tuple[str, ...]) -> dict[str, str]:
    """A key for each choice: n and y, or numbers; none where typing these would already mean something else."""
    if not choices:
        return {}
    if tuple(map(fold, choices)) == ("no", "yes"):
        return {"y": choices[1], "n": choices[0]}
    keys = {str(number): choice for number, choice in enumerate(choices, start=1)}
    return keys if all(_means(query_set, query, key) in (None, choice) for key, choice in keys.items()) else {}


def _means(query_set: QuerySet, query: int, typed: str) -> str | None:
    """The answer that a text is by itself; None if it is none."""
    row = query_set.blank()[0]
    try:
        query_set.tell(row, query, typed)
    except ValueError:
        return None
    return query_set.describe(query, row)


def trust_text(trust: Trust, is_number: bool) -> str:
    """How often results such as this one were right when the model was measured."""
    rows = f"{trust.n_measured:,} rows that it was not trained on"
    if is_number:
        return f"Measured: of {rows}, {trust.n_right:,} lay within the range that it gave."
    if not trust.n_rows:
        return f"Measured: it was about as sure in none of {rows}, so nobody knows how often it is right."
    if trust.n_rows < FEW_ROWS:
        return (
            f"Measured: it was about as sure in only {trust.n_rows} of {rows}: too few to tell how often it is right."
        )
    return f"Measured: it was about as sure in {trust.n_rows:,} of {rows}, and {trust.n_right:,} of them were right."


class Conversation:
    """Asks a person until there is a result that the person accepts. `keep` is called after every move."""

    def __init__(
        self,
        session: Session,
        console: Console,
        prompts: bool,
        keep: Callable[[], None],
        experience: Experience | None = None,
        presentation: Presentation | None = None,
    ):
        self.session, self.console, self.keep, self.experience = session, console, keep, experience
        self.presentation = presentation or Presentation()
        self._prompts = prompts  # whether input() may print on standard output
        self._has_costs = len({query.cost for query in session.pursuer.query_set.queries}) > 1
        self._has_result = False  # whether the result on the screen is that of the session now

    def run(self) -> bool:
        """Talk; False if the person leaves before there is a result."""
        try:
            while self._step(self.session.state("", self.experience)):
                pass
        except EOFError:
            if self._is_at_terminal:
                self.console.print()
        return self.session.done

    def _step(self, state: State) -> bool:
        """Put the question or show the result, and do what the person says; False if the person wants to stop."""
        session, is_asked = self.session, state.question is not None
        try:
            typed = self._put(state.question) if state.question is not None else self._show_result(state)
            match typed.action:
                case "quit":
                    return False
                case "answer" if not typed.rest and not is_asked:  # Enter alone accepts the result
                    return False
                case "help":
                    self._say(HELP)
                    return True
                case "why":
                    self._say(str(session.why() if is_asked else session.chain))
                    return True
                case "answer" | "unknown" | "skip" if not is_asked:
                    raise ValueError("There is no question now: press Enter to finish, or h for help.")
                case "more" if is_asked:
                    raise ValueError("There is no result yet: the questions go on by themselves.")
                case "answer" if typed.rest:
                    self._give(typed.rest, lambda text, sure: session.tell(text, confirmed=sure))
                case "answer" | "unknown":
                    session.dont_know()
                case "skip":
                    session.skip()
                case "more":
                    session.go_on()
                case "undo":
                    session.undo()
                case "change":
                    self._change(typed.rest)
                case "wrong":
                    session.reject(*([typed.rest] if typed.rest else []))
                case "tell":
                    self._tell(typed.rest)
            self._has_result = False
            self.keep()
            if typed.action not in ("skip", "more"):  # which leave the belief as it is
                self._say(belief_bars(session.state(), self.console.encoding))
                for name, other in session.also.items():
                    self._say(f"{name}: {other.belief}")
        except ValueError as error:
            self.console.print(f"   {escaped(str(error))}", style="red", highlight=False, soft_wrap=True)
        return True

    def _put(self, question: Question) -> Typed:
        """Put the question that comes next."""
        number = f"{question.number}." if question.number else "+"
        cost = f"cost {question.cost:g}" if self._has_costs and question.number else ""
        return self._read_answer(question, f"{number} {question.text}", cost)

    def _read_answer(self, question: Question, text: str, cost: str = "") -> Typed:
        """Show a question, and read what a person types: an answer, which is empty for Enter alone, or a command."""
        query_set = self.session.pursuer.query_set
        index = query_set.index_of[question.name]
        query = query_set.queries[index]
        remark = ", ".join(part for part in ("" if query.offered else query.expected, cost) if part)
        remark = f"  [dim]({escaped(remark)})[/]" if remark else ""
        self.console.print(f"\n[bold]{escaped(text)}[/]{remark}", highlight=False, soft_wrap=True)
        if question.help:
            self.console.print(f"   {escaped(question.help)}", style="dim", highlight=False, soft_wrap=True)
        keys = choice_keys(query_set, index, query.offered)
        self._show_choices(query.offered, keys)
        typed = read_line(self._read(), query.offered)
        return Typed("answer", keys.get(typed.rest.casefold(), typed.rest)) if typed.action == "answer" else typed

    def _show_result(self, state: State) -> Typed:
        """Show the result, and read what the person says of it."""
        if not self._has_result and state.result is not None:
            start = "Not sure, a person must decide. Most probable" if state.result.decided is False else "Result"
            self._say(f"\n{start}: {self.session.reasons()}", margin="")
            if (remain := state.result.label_set) is not None:
                self._say(f"What remains possible: {', '.join(remain)}", margin="")
            if state.result.decided is not False and (advice := self.presentation.results.get(state.result.label)):
                self._say("\n".join(filter(None, (advice.text, advice.link))), margin="")
            if state.result.trust is not None:
                self._say(trust_text(state.result.trust, state.is_number), margin="")
            for name, other in self.session.also.items():
                start = "Not sure, a person must decide. Most probable: " if other.decided is False else ""
                self._say(f"\n{name}: {start}{other.reasons()}", margin="")
            self._has_result = True
        more = ", m for more questions" if state.can_go_on else ""
        wrong = "" if state.is_number else ", n if that is wrong"
        self._say(f"Enter to finish{wrong}{more}, u to undo, c to change an answer, h for help.", margin="")
        return read_line(self._read())

    # ---- what takes more than one line

    def _give(self, answer: str, take: Callable[[str, bool], None]) -> None:
        """Pass an answer on; a doubtful one has to be confirmed."""
        while True:
            try:
                take_answer(answer, take)
            except DoubtfulAnswer as error:
                doubt = error.doubt
                meant = doubt.suggestions[0] if doubt.suggestions else ""
                enter = f"Enter for {meant}, " if meant else ""
                self._say(f"{doubt}\n({enter}y if {doubt.answer} is right, or type another answer.)")
                line = self._read()
                if line.casefold() in ("y", "yes"):
                    take(answer, True)
                    return
                answer = line or meant
                if not answer or read_line(answer).action != "answer":
                    raise ValueError(f"{doubt.answer} was not taken.") from None
            else:
                return

    def _tell(self, report: str) -> None:
        if not report:
            self._say("What do you want to tell, as in fever=yes?")
            report = self._read()
        name, answer = split_report(report)
        self._give(answer, lambda text, sure: report_answer(self.session, name, text, sure))

    def _change(self, which: str) -> None:
        names = list(self.session.answers)
        if not names:
            raise ValueError("There is no answer to change yet.")
        if not which:
            given = self.session.state().given
            lines = [f"{i}  {one.question.text} {one.shown or 'not known'}" for i, one in enumerate(given, start=1)]
            self._say("\n".join(["Which answer do you want to change?", *lines]))
            which = self._read()
            if not which:
                raise ValueError("Nothing was changed.")
        if which.isdecimal() and 1 <= int(which) <= len(names) and which not in names:
            which = names[int(which) - 1]
        if which not in names and "=" in which:
            name, answer = split_report(which)
            self._give(answer, lambda text, sure: self.session.change(name, text, confirmed=sure))
            return
        self._ask_again(which)

    def _ask_again(self, name: str) -> None:
        """Put a question that was answered before."""
        question = question_of(self.session.pursuer.query_set, self.session.place_of(name))
        typed = self._read_answer(question, question.text)
        if typed.action == "unknown":
            self.session.change(question.name, None)
        elif typed.action == "answer" and typed.rest:
            self._give(typed.rest, lambda text, sure: self.session.change(question.name, text, confirmed=sure))
        else:
            remedy = "" if typed.action == "answer" else ": type the new answer, or d if you don't know it"
            raise ValueError(f"Nothing was changed{remedy}.")

    # ---- reading and printing

    @property
    def _is_at_terminal(self) -> bool:
        return sys.stdin.isatty()

    def _read(self) -> str:
        # The prompt is all that stands on the line that is edited, and is known to readline.
        if self._prompts:
            line = input(PROMPT)
        else:
            self.console.print(PROMPT, end="", highlight=False)
            line = input()
        if not self._is_at_terminal:
            self.console.print(escaped(line), highlight=False, soft_wrap=True)  # as a terminal would show it
        return line.strip()

    def _show_choices(self, choices: tuple[str, ...], keys: dict[str, str]) -> None:
        """All choices with their keys, in as many columns as there is room for."""
        items = [f"{key}  {choice}" for key, choice in keys.items()] or list(choices)
        if not items:
            return
        width = max(map(len, items)) + 3
        n_columns = max(1, (self.console.width - 3) // width)
        for start in range(0, len(items), n_columns):
            line = "".join(f"{item:<{width}}" for item in items[start : start + n_columns])
            self.console.print(f"   {escaped(line.rstrip())}", highlight=False, soft_wrap=True)

    def _say(self, text: str, margin: str = "   ") -> None:
        self.console.print(escaped(indent(text, margin)), highlight=False, soft_wrap=True)


def belief_bars(state: State, encoding: str = "utf-8") -> str:
    """The belief now, as a bar for each of the leading labels; a number in words."""
    belief = state.belief
    if belief.number is not None:
        return belief.number.text
    block = "█" if encoding.lower().startswith("utf") else "#"
    named, rest = belief.labels[:MOST_BARS], belief.labels[MOST_BARS:]
    names = [_cut(one.label) for one in named]
    width = max(map(len, names))
    lines = []
    for name, one in zip(names, named, strict=True):
        bar = block * round(BAR_WIDTH * one.probability)
        lines.append(f"{name:<{width}}  {bar:<{BAR_WIDTH}}  {percent(one.probability):>6}")
    if n_rest := len(rest) + belief.n_others:
        share = belief.others + sum(one.probability for one in rest)
        lines.append(f"and {n_rest} more with {percent(share)} together")
    if excluded := dict.fromkeys(state.rejected):
        lines.append(f"excluded: {', '.join(excluded)}")
    return "\n".join(lines)


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def take_answer(answer: str, take: Callable[[str, bool], None]) -> None:
    """Hand a typed answer to `take`; with an exclamation mark behind it, it is meant whatever it looks like."""
    try:
        take(answer, False)
    except DoubtfulAnswer:
        raise
    except ValueError:
        if not answer.endswith("!"):
            raise
        take(answer.rstrip("! "), True)


def split_report(text: str) -> tuple[str, str]:
    """Query and answer of a report such as "fever=yes"."""
    name, equals, answer = text.rpartition("=")
    if not equals or not name.strip():
        raise ValueError(f"Write QUESTION=ANSWER, as in fever=yes, not '{text}'.")
    return name.strip(), answer.strip()


def report_answer(session: Session, name: str, answer: str, confirmed: bool, unasked: bool = False) -> None:
    """Take an answer that a person gives by the name of its question, or corrects so."""
    if session.is_answered(name):
        session.change(name, answer, confirmed=confirmed)
    else:
        session.tell(answer, name, confirmed=confirmed, unasked=unasked)
