"""The first questions of a model as a form for programs of others: XLSForm (ODK, KoBo), REDCap, SurveyJS, and a page
that experts read. Such a form cannot choose its questions, so it is a fixed tree, and what that costs is measured."""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pursuit.estimators import PursuitEstimator
from pursuit.inference.pursuer import label_text
from pursuit.inference.target_bins import target_of
from pursuit.report.facts import ModelFacts
from pursuit.report.page import render
from pursuit.sessions.script import Branch, Node, Path, Script
from pursuit.sessions.state import Question
from pursuit.web.connect.language import in_language, language_of_questions

UNKNOWN = "dont_know"
"""The value of the answer that nobody knows; a number is left empty instead."""
DONT_KNOW, EMPTY = "I don't know", "Leave it empty if you don't know."
MOST_CHARACTERS = 40
"""Of the name of a field."""
OWN_NAMES = ("result", "probability", "result_note", "record_id")
"""Fields that are no questions."""
MOST_LISTED = 8
"""Choices that a survey shows at once; of more, it opens a list."""


@dataclass(frozen=True)
class Field:
    """A question of a form. The same question at the same level of the tree is one field, whatever led there."""

    name: str
    question: Question
    when: tuple[Path, ...]
    """The ways that lead there; any of them."""

    @property
    def has_choices(self) -> bool:
        """Whether one of some choices is the answer, and not a number or a date."""
        return self.question.kind == "choice"

    @cached_property
    def codes(self) -> dict[str, str]:
        """The choices by short names of letters, digits and underscores."""
        taken = {UNKNOWN}
        return {choice.value: _unique(_slug(choice.value), taken) for choice in self.question.choices}


@dataclass(frozen=True)
class Form:
    """A tree of questions as a form: fields in the order in which they may be asked, and what follows at the ends."""

    title: str
    script: Script
    language: str | None = None
    """Language of all texts but the questions; by default that of the questions."""

    def say(self, text: str) -> str:
        """A text that is not from the questions, in their language."""
        return in_language(text, self.language or language_of_questions(self.script.pursuer.query_set))

    def hint(self, field: Field) -> str:
        """What helps to answer a question."""
        question, parts = field.question, [field.question.help]
        if not field.has_choices:
            parts += [f"In {question.unit}." if question.unit else "", self.say(EMPTY)]
        return " ".join(part for part in parts if part)

    @cached_property
    def _fields(self) -> dict[tuple[int, Question], Field]:
        """The fields by level and question."""
        ways: dict[tuple[int, Question], list[Path]] = {}
        for path in self.script.ways():
            if path.end.question is not None:
                ways.setdefault((len(path.steps), path.end.question), []).append(path)
        taken = set(OWN_NAMES)
        return {
            (level, question): Field(_unique(_slug(question.name), taken), question, tuple(paths))
            for (level, question), paths in sorted(ways.items(), key=lambda item: item[0][0])
        }

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(self._fields.values())

    @cached_property
    def ends(self) -> dict[str, list[Path]]:
        """The ways that end at each label, or number."""
        found: dict[str, list[Path]] = {}
        for path in self.script.paths():
            found.setdefault(path.end.label, []).append(path)
        return found

    def computed(self, language: "_Language") -> dict[str, list[tuple[str, str]]]:
        """The texts that `result` and `probability` may be, each with the condition that it is; no probability where a
        number is predicted."""
        results = [(label, self.any_of(paths, language)) for label, paths in self.ends.items()]
        probabilities = [
            (f"{path.end.probability:.4f}", self.any_of([path], language))
            for paths in self.ends.values()
            for path in paths
            if path.end.probability is not None
        ]
        return {"result": results, "probability": probabilities}

    def any_of(self, paths: Sequence[Path], language: "_Language") -> str:
        """That one of several ways was gone; empty where no answer is needed."""
        ways = [" and ".join(self._conditions(path, language)) for path in paths]
        if not all(ways):
            return ""
        return " or ".join(f"({way})" for way in ways) if len(ways) > 1 else ways[0]

    def _conditions(self, path: Path, language: "_Language") -> Iterator[str]:
        """What must have been answered on a way, field by field."""
        for level, (node, branch) in enumerate(path.steps):
            assert node.question is not None
            yield language.condition(self._fields[level, node.question], branch)


@dataclass(frozen=True)
class _Language:
    """Expression syntax of a form program: field references, tests for empty and filled fields, a constant false, and
    date comparisons."""

    name: str
    is_empty: str
    is_filled: str
    never: str
    date: str = "{name} {sign} {end}"

    def condition(self, field: Field, branch: Branch) -> str:
        """The condition that the answer to a field is one of a branch."""
        name = self.name.format(field.name)
        if not field.has_choices:
            if branch.is_unknown:
                return self.is_empty.format(name)
            if branch.choices:  # "not given" is not told apart from what nobody knows
                return self.never
            is_number = field.question.kind == "number"
            ends = [(">", branch.above), ("<=", branch.up_to)]
            inside = [
                f"{name} {sign} {_number(end)}" if is_number else self.date.format(name=name, sign=sign, end=_date(end))
                for sign, end in ends
                if end is not None
            ]
            return " and ".join([self.is_filled.format(name), *inside])
        if branch.is_unknown:
            return f"{name} = '{UNKNOWN}'"
        parts = [f"{name} = '{field.codes[choice]}'" for choice in branch.choices]
        return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"


XPATH = _Language("${{{}}}", "{} = ''", "{} != ''", "false()", "{name} {sign} date({end})")
SURVEYJS = _Language("{{{}}}", "{} empty", "{} notempty", "false")
REDCAP = _Language("[{}]", "{} = ''", "{} <> ''", "1 = 0", "datediff({end}, {name}, 'd', 'ymd', true) {sign} 0")


def _slug(text: str) -> str:
    return re.sub(r"\W+", "_", text.casefold(), flags=re.ASCII).strip("_")[:MOST_CHARACTERS] or "field"


def _unique(name: str, taken: set[str]) -> str:
    name = name if re.match("[a-z_]", name) else f"q_{name}"
    found = next(other for n in range(1, 10_000) if (other := name if n == 1 else f"{name}_{n}") not in taken)
    taken.add(found)
    return found


def _number(number: float) -> str:
    return np.format_float_positional(number, trim="-")


def _date(days: float) -> str:
    return f"'{np.datetime64('1970-01-01') + np.timedelta64(math.floor(days), 'D')}'"


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else f'"{text.replace(chr(34), "”")}"'


def _first(parts: list[tuple[str, str]], function: str = "iif") -> str:
    """The text whose condition holds; the conditions exclude each other."""
    found = "''"
    for text, condition in reversed(parts):
        found = f"{function}({condition}, {_quoted(text)}, {found})" if condition else _quoted(text)
    return found


# ---- XLSForm


def xlsform(form: Form) -> bytes:
    """An Excel workbook with the sheets survey, choices and settings."""
    from openpyxl import Workbook

    rows: list[dict[str, str]] = []
    lists: dict[str, dict[str, str]] = {}
    for field in form.fields:
        question = field.question
        row = {"name": field.name, "label": question.text, "hint": form.hint(field), "required": "yes"}
        if field.has_choices:
            choices = {field.codes[choice.value]: choice.text for choice in question.choices}
            lists[question.name] = {**choices, UNKNOWN: form.say(DONT_KNOW)}
            row["type"] = f"select_one list_{list(lists).index(question.name) + 1}"
        else:
            row |= {"type": "date" if question.kind == "date" else "decimal", "required": ""}
            ends = [(">=", question.low), ("<=", question.high)]
            row["constraint"] = " and ".join(f". {sign} {_number(end)}" for sign, end in ends if end is not None)
        row["relevant"] = form.any_of(field.when, XPATH)
        rows.append(row)
    for name, results in form.computed(XPATH).items():
        parts = [f"if({when or 'true()'}, {_quoted(text)}, '')" for text, when in results]
        if parts:
            joined = parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"
            rows.append({"type": "calculate", "name": name, "calculation": joined})
    rows.append(
        {
            "type": "note",
            "name": "result_note",
            "label": f"{form.say('Most probable')}: ${{result}}",
            "relevant": "${result} != ''",
        }
    )
    workbook = Workbook()
    survey = workbook.active
    assert survey is not None
    survey.title = "survey"
    columns = ("type", "name", "label", "hint", "required", "constraint", "relevant", "calculation")
    _fill(survey, columns, [[row.get(column, "") for column in columns] for row in rows])
    options = [[f"list_{n}", *option] for n, own in enumerate(lists.values(), start=1) for option in own.items()]
    _fill(workbook.create_sheet("choices"), ("list_name", "name", "label"), options)
    _fill(workbook.create_sheet("settings"), ("form_title", "form_id"), [[form.title, _slug(form.title)]])
    written = io.BytesIO()
    workbook.save(written)
    return written.getvalue()


def _fill(sheet: Any, columns: tuple[str, ...], rows: list[list[str]]) -> None:
    sheet.append(list(columns))
    for i, row in enumerate(rows, start=2):
        for j, text in enumerate(row, start=1):
            if text:
                sheet.cell(i, j, text).data_type = "s"  # whatever it begins with, it is no formula


# ---- REDCap

REDCAP_COLUMNS = (
    "Variable / Field Name",
    "Form Name",
    "Section Header",
    "Field Type",
    "Field Label",
    "Choices, Calculations, OR Slider Labels",
    "Field Note",
    "Text Validation Type OR Show Slider Number",
    "Text Validation Min",
    "Text Validation Max",
    "Identifier?",
    "Branching Logic (Show field only if...)",
    "Required Field?",
    "Custom Alignment",
    "Question Number (surveys only)",
    "Matrix Group Name",
    "Matrix Ranking?",
    "Field Annotation",
)


def redcap(form: Form) -> str:
    """A data dictionary of REDCap (CSV), for one instrument; `result` and `probability` compute themselves."""
    written = io.StringIO()
    rows = csv.DictWriter(written, REDCAP_COLUMNS)
    rows.writeheader()
    instrument = _unique(_slug(form.title), set())

    def write(name: str, kind: str, label: str, more: dict[str, str]) -> None:
        shared = {"Variable / Field Name": name, "Form Name": instrument, "Field Type": kind}
        rows.writerow({**shared, "Field Label": _shown(label), **more})

    write("record_id", "text", "Record ID", {})
    for field in form.fields:
        question = field.question
        more = {
            "Field Note": _shown(form.hint(field)),
            "Branching Logic (Show field only if...)": form.any_of(field.when, REDCAP),
        }
        if field.has_choices:
            choices = [f"{field.codes[one.value]}, {_shown(one.text).replace('|', '/')}" for one in question.choices]
            choices.append(f"{UNKNOWN}, {form.say(DONT_KNOW)}")
            more |= {"Choices, Calculations, OR Slider Labels": " | ".join(choices), "Required Field?": "y"}
            write(field.name, "radio" if len(choices) <= MOST_LISTED else "dropdown", question.text, more)
        else:
            validation = "Text Validation Type OR Show Slider Number"
            if question.kind == "number":
                ends = {"Text Validation Min": question.low, "Text Validation Max": question.high}
                more[validation] = "number"
                more |= {column: _number(end) for column, end in ends.items() if end is not None}
            else:
                more[validation] = "date_ymd"
            write(field.name, "text", question.text, more)
    labels = {"result": "Most probable", "probability": "Probability"}
    for name, parts in form.computed(REDCAP).items():
        if parts:
            calculated = f"@CALCTEXT({_first(parts, 'if')})"
            write(name, "text", form.say(labels[name]), {"Field Annotation": calculated})
    return written.getvalue()


def _shown(text: str) -> str:
    """A text that is shown as it is: REDCap takes < for markup unless a space follows."""
    return re.sub(r"<(?! )", "< ", " ".join(text.split()))


# ---- SurveyJS


def surveyjs(form: Form) -> dict[str, Any]:
    """A survey of SurveyJS, one question a page; `result` and `probability` are among its values in the end."""
    elements = []
    for field in form.fields:
        question = field.question
        element: dict[str, Any] = {"name": field.name, "title": question.text}
        if field.has_choices:
            choices = [{"value": field.codes[choice.value], "text": choice.text} for choice in question.choices]
            choices.append({"value": UNKNOWN, "text": form.say(DONT_KNOW)})
            element |= {
                "type": "radiogroup" if len(choices) <= MOST_LISTED else "dropdown",
                "choices": choices,
                "isRequired": True,
            }
        else:
            ends = {"min": question.low, "max": question.high}
            element |= {"type": "text", "inputType": question.kind}
            element |= {key: end for key, end in ends.items() if end is not None}
        if hint := form.hint(field):
            element["description"] = hint
        if visible := form.any_of(field.when, SURVEYJS):
            element["visibleIf"] = visible
        elements.append(element)
    computed = [
        {"name": name, "expression": _first(parts), "includeIntoResult": True}
        for name, parts in form.computed(SURVEYJS).items()
        if parts
    ]
    return {
        "title": form.title,
        "questionsOnPageMode": "questionPerPage",
        "clearInvisibleValues": "onHidden",
        "elements": elements,
        "calculatedValues": computed,
        "completedHtml": f"<p>{form.say('Most probable')}: {{result}}</p>",
    }


# ---- a page for experts


def script_page(form: Form, facts: ModelFacts, lost: "Lost | None" = None) -> str:
    """The tree as a page to read and to print: numbered steps, each with what follows from every answer."""
    steps: list[dict[str, Any]] = []

    def walk(node: Node) -> int:
        number = len(steps) + 1
        step: dict[str, Any] = {"number": number, "question": node.question, "answers": []}
        steps.append(step)
        for branch in node.branches:
            end = branch.node
            sure = "" if end.probability is None else f"{end.probability:.0%}"
            follows = {"text": branch.text, "label": end.label, "probability": sure}
            step["answers"].append(follows | {"step": None if end.is_end else walk(end)})
        return number

    if not form.script.root.is_end:
        walk(form.script.root)
    named: dict[str, Any] = {"facts": facts, "subtitle": "Its first questions", "contents": ()}
    return render("script.html", **named, steps=steps, root=form.script.root, lost=lost)


# ---- what is lost


@dataclass(frozen=True)
class Lost:
    """How good a form is beside the interview that it is made of, on rows that the model has not seen."""

    n_rows: int
    form: float
    """The share of rows whose label is right; where a number is predicted, the mean absolute error."""
    interview: float
    form_asked: float
    """The mean number of questions."""
    interview_asked: float
    is_number: bool

    @classmethod
    def measured(cls, script: Script, estimator: PursuitEstimator, X: Any, y: Any, stop: Any = None) -> "Lost":
        rows = estimator.rows(X, y)
        ends, n_asked = script.follow(rows.x.cpu(), rows.available.cpu())
        table = estimator.predict_table(X, stop)
        asked = float(np.mean(n_asked)), float(table["n_asked"].mean())
        target = target_of(estimator.model_)
        if target is not None:
            numbers, expected = np.asarray(y, dtype=float), [float(target.mean(end.posterior[None])) for end in ends]
            found = (np.abs(np.asarray(one) - numbers) for one in (expected, table["prediction"]))
        else:
            labels = np.array([label_text(one) for one in np.asarray(y).tolist()])
            predicted = [label_text(one) for one in table["prediction"].tolist()]
            found = (np.array(one) == labels for one in ([end.label for end in ends], predicted))
        form, interview = (float(one.mean()) for one in found)
        return cls(len(ends), form, interview, *asked, is_number=target is not None)

    def __str__(self) -> str:
        if self.is_number:
            quality = f"is off by {self.form:.3g} on average, and the interview by {self.interview:.3g}"
        else:
            quality = f"is right in {self.form:.1%} of them, and the interview in {self.interview:.1%}"
        asked = f"It asks {self.form_asked:.1f} questions on average, and the interview {self.interview_asked:.1f}."
        return f"On {self.n_rows:,} rows that the model has not seen, the form {quality}. {asked}"
