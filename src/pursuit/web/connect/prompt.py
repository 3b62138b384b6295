"""Questions worded by a language model, without depending on one: a prompt to copy into any of them, and what comes of
its reply, which is read, checked against the columns, and shown as a difference before it counts."""

import contextlib
import difflib
import re
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pursuit.queries import Choice, Date, Number, QuerySet, Questions
from pursuit.queries.column import Query, listed
from pursuit.queries.questions import parse

MOST_VALUES = 12
"""Values of a column, and labels, that the prompt names."""
PROMPT = """\
You write the questions of an interview. A program asks people some of these questions, one after the other, to predict
{target}. Each question stands for a column of a table; people see only your wording.

For each column below, write a table [questions.NAME] in TOML with these keys:
- text: the question as a person is asked it, short, in plain words, about one thing only
- help: one sentence that helps to answer it; leave the key out if none is needed
- choices: a table of every value in the data and the words for it, in the order in which they are offered
- unit: what a number is measured in, if you are sure
- range: [least, greatest] number that is possible at all, if you are sure
- words: a list of up to five short phrases by which people say yes to it, or a table of choices and such lists

Keep the names of columns and the values of choices exactly as they are: only their words are yours. A yes must stay a
yes: do not turn a question round. If you do not know what a column means, copy its draft and add the comment # unsure.
Add no other keys, no other tables, and no text around it. Reply with one TOML file only, in the language of the
draft{language}.

The result is {labels}.

Columns:
{columns}

The draft:
```toml
{draft}```
"""


def prompt_for(query_set: QuerySet, target: str, labels: Sequence[str] | None, language: str | None = None) -> str:
    """A prompt that a language model answers with a questions file. It names columns, their values and their ranges,
    and no rows."""
    result = "a number" if labels is None else f"one of {len(labels)}: {listed(labels, MOST_VALUES)}"
    columns = "\n".join(f"- {query.name}: {_described(query)}" for query in query_set.queries)
    asked = "" if language is None else f", but write texts in this language: {language}"
    draft = _draft(query_set).to_toml()
    return PROMPT.format(target=f"“{target}”", language=asked, labels=result, columns=columns, draft=draft)


def _draft(query_set: QuerySet) -> Questions:
    """The wording so far, without what is not a language model's business: costs and order."""
    own = Questions.of(query_set)
    return Questions(tuple(replace(one, cost=None, ask=None, only_after=()) for one in own.settings))


def _described(query: Query) -> str:
    if isinstance(query, Number):
        kind = "a date" if isinstance(query, Date) else "a number"
        if query.seen is None:
            return kind
        low, high = (query.in_words(end) for end in query.seen)
        return f"{kind}, from {low} to {high} in the data"
    values = query.values if isinstance(query, Choice) else query.choices
    return f"one of {listed(list(map(str, values)), MOST_VALUES)}"


def read_reply(text: str, query_set: QuerySet) -> Questions:
    """The questions in a reply, checked against the columns; raises ValueError that says what to ask the language model
    for again."""
    content = _toml_in(text)
    try:
        with contextlib.suppress(tomllib.TOMLDecodeError):  # which parsing says in words
            if set(tomllib.loads(content)) - {"questions"}:  # such as pictures to read and links to show
                raise ValueError("it has tables besides [questions.COLUMN], which nobody asked it for.")
        questions = parse(content)
        for one in questions.settings:
            if one.cost is not None or one.ask is not None or one.only_after or one.column_type is not None:
                raise ValueError(
                    f"it changes more of '{one.name}' than its wording: leave cost, ask, only_after and type."
                )
        questions.apply(query_set)
    except ValueError as error:
        raise ValueError(f"The reply cannot be used: {error} Tell the language model so, and ask it again.") from None
    if not questions.settings:
        raise ValueError("The reply has no [questions.COLUMN]: give the whole reply, or ask the language model again.")
    return questions


def _toml_in(text: str) -> str:
    """The TOML of a reply, which may stand in fences or among sentences."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    fenced = re.findall(r"```(?:toml)?[ \t]*\n(.*?)```", text, flags=re.S | re.I)
    found = "\n".join(part for part in fenced if "[questions" in part) or text
    if not fenced and (start := re.search(r"^\[questions", text, flags=re.M)):
        found = text[start.start() :]
        while True:  # sentences behind it
            try:
                tomllib.loads(found)
                break
            except tomllib.TOMLDecodeError:
                shorter, _, last = found.rstrip().rpartition("\n")
                if not shorter or re.match(r"\[questions|\w+\s*=", last):  # no sentence: it cannot be left out
                    return text[start.start() :]
                found = shorter
    return found


def difference(before: Questions, after: Questions) -> str:
    """What a reply changes, as lines of the questions file with - and +; empty if it changes nothing."""
    first, second = (questions.to_toml().splitlines() for questions in (before, after))
    return "\n".join(difflib.unified_diff(first, second, "draft", "reply", lineterm="", n=1))


def merged(query_set: QuerySet, reply: Questions) -> tuple[Questions, Questions]:
    """The questions before the reply and with it. What the reply does not name stays, as do costs and order."""
    return Questions.of(query_set), Questions.of(reply.apply(query_set))


def narrow_ranges(query_set: QuerySet, reply: Questions, rows: Any) -> list[str]:
    """What to say of ranges that leave out numbers in the rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same, for those who train
        before, after = (one.answers(rows)[1].sum(dim=0).tolist() for one in (query_set, reply.apply(query_set)))
    return [
        f"The range of '{query.name}' leaves out {n - n_left} of {n} numbers in the data: they count as not known."
        for query, n, n_left in zip(query_set.queries, before, after, strict=True)
        if n_left < n
    ]
