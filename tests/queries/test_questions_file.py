"""Questions as TOML: what is written reads the same, and whatever is wrong in a file is said in a sentence."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries import Questions
from pursuit.queries.column_types import COLUMN_TYPES
from pursuit.queries.order import Group
from pursuit.queries.questions import ASKS, KEYS, Advice, Presentation, QuestionSettings, draft_text, parse
from pursuit.research.tasks.loading import load_task

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORDS = TEXTS.filter(lambda text: bool(text.strip()))
NUMBERS = st.floats(-1e12, 1e12) | st.integers(-1000, 1000).map(float)


@st.composite
def settings(draw: Any, name: str) -> QuestionSettings:
    def maybe(strategy: Any) -> Any:
        return draw(st.none() | strategy)

    ends = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique=True)))
    words = st.none() if draw(st.booleans()) else WORDS
    return QuestionSettings(
        name,
        maybe(WORDS),
        maybe(TEXTS),
        tuple(draw(st.dictionaries(TEXTS, words, max_size=12)).items()),
        maybe(TEXTS),
        maybe(st.just(ends[0])),
        maybe(st.just(ends[1])),
        maybe(st.floats(0, 1e300)),
        maybe(st.sampled_from(ASKS)),
        tuple(draw(st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3).map(tuple), max_size=3)).items()),
        maybe(st.sampled_from(COLUMN_TYPES)),
        checked=maybe(st.booleans()),
    )


@st.composite
def presentations(draw: Any) -> Presentation:
    links = st.sampled_from(["", "https://example.org/a?b=c", "mailto:me@example.org"])

    def advice() -> Advice:
        link = draw(links)
        return Advice(draw(st.just("") | WORDS), link, draw(TEXTS) if link else "")

    return Presentation(
        *(draw(TEXTS) for _ in range(4)),
        draw(st.sampled_from(["", "#a1B2c3"])),
        draw(st.sampled_from(["", "data:image/png;base64,QUJD"])),
        {label: advice() for label in draw(st.lists(TEXTS, max_size=3, unique=True))},
    )


@st.composite
def files(draw: Any) -> Questions:
    names = draw(st.lists(TEXTS, max_size=4, unique=True))
    groups = draw(st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3).map(tuple), max_size=2))
    asked = tuple(draw(settings(name)) for name in names)
    return Questions(asked, tuple(Group(*group) for group in groups.items()), draw(presentations()))


@given(questions=files(), seen=st.dictionaries(TEXTS, st.tuples(NUMBERS, NUMBERS)))
def test_what_is_written_reads_the_same(questions: Questions, seen: Any) -> None:
    assert parse(questions.to_toml()) == questions
    plain = replace(questions, presentation=Presentation())
    assert parse(draft_text(questions, seen, "pursuit train some.csv")) == plain


@pytest.mark.parametrize("text", ["", "[questions]", "# nothing yet", "[groups]"])
def test_a_file_may_say_nothing(text: str) -> None:
    assert parse(text) == Questions()


def test_every_form_a_person_may_write() -> None:
    questions = parse(
        """
        groups.vitals = ["pulse", "pressure"]

        [questions]
        fever = "Do you have a fever?"
        [questions."where it hurts"]
        choices = ["head", 2, true]
        only_after = ["fever", "age"]
        [questions.age]
        range = [0, inf]
        cost = 2
        only_after = "fever"
        [questions.week]
        only_after = { fever = "yes", age = [], sex = [1, "f"] }
        [questions.week.choices]
        "1" = "first"
        """
    )
    fever, where, age, week = questions.settings
    assert fever == QuestionSettings("fever", "Do you have a fever?")
    assert where.name == "where it hurts"
    assert where.choices == (("head", None), ("2", None), ("True", None))
    assert where.only_after == (("fever", ()), ("age", ()))
    assert (age.low, age.high, age.cost, age.only_after) == (0, None, 2, (("fever", ()),))
    assert week.only_after == (("fever", ("yes",)), ("age", ()), ("sex", ("1", "f")))
    assert week.choices == (("1", "first"),)
    assert questions.groups == (Group("vitals", ("pulse", "pressure")),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[questions.fever", "This is not TOML: "),
        ("[questions.fever]\ntext = Do you?", "Names and texts stand in quotation marks."),
        ("[questions.fever]\ntext = 'a'\n[questions.fever]", "This is not TOML: "),
        ("[question.fever]", "'question' is not a key of the file. Did you mean 'questions'?"),
        (
            "fever = 1",
            "'fever' is not a key of the file. It may have [questions.COLUMN], [groups], [interview], ",
        ),
        ("[interview]\ntitel = 'a'", "'titel' is not a key of interview. Did you mean 'title'?"),
        ("[interview]\ncolour = 'red'", "[interview]: colour is six digits after a #, as in #2456c7, not 'red'."),
        ("[interview]\nlogo = 'logo.exe'", "[interview]: logo is the name of a PNG, JPEG or SVG file, not 'logo.exe'."),
        ("[interview]\nlogo = 'none.png'", "[interview]: there is no logo none.png."),
        ("[interview]\nlogo = 'data:text/html;base64,QUJD'", "[interview]: logo is the name of a PNG, JPEG or SVG"),
        (
            "[results.flu]\nlink = 'javascript:alert(1)'",
            "[results.flu]: a link begins with http:, https:, ",
        ),
        ("[results.flu]\nlink_text = 'Book'", "[results.flu]: link_text needs a link."),
        ("results = 3", "results is a table"),
        ("questions = 1", "questions is a table, written [questions] with a line for each key, not 1."),
        ("[questions]\nfever = 1", "questions.fever is a table"),
        ("[questions.fever]\ntxt = ''", "'txt' is not a key of questions.fever. Did you mean 'text'?"),
        (
            "[questions.fever]\nzzz = ''",
            "text, help, choices, unit, range, cost, checked, words, ask, only_after, type.",
        ),
        ("[questions.a.b]\ntext = 'x'", 'a column with a dot is written [questions."a.b"].'),
        ("[questions.fever]\ntext = 3", "questions.fever.text is a text in quotation marks, not 3."),
        ("[questions.fever]\ntext = ' '", "questions.fever.text is the wording a person reads: write it"),
        ("[questions.fever]\nhelp = true", "questions.fever.help is a text in quotation marks, not True."),
        ("[questions.fever]\nunit = 1.5", "questions.fever.unit is a text"),
        ("[questions.fever]\ncost = -1", "questions.fever.cost is a number of at least 0, not -1."),
        ("[questions.fever]\ncost = inf", "questions.fever.cost is a number of at least 0"),
        ("[questions.fever]\ncost = true", "questions.fever.cost is a number of at least 0, not True."),
        ("[questions.fever]\ncost = '2'", "questions.fever.cost is a number of at least 0, not '2'."),
        ("[questions.fever]\nchecked = 'yes'", "checked of questions.fever is true or false, without quotation marks"),
        ("[questions.fever]\nrange = [1]", "questions.fever.range is two numbers, as in [34, 43], not [1]."),
        ("[questions.fever]\nrange = 'low'", "questions.fever.range is two numbers"),
        ("[questions.fever]\nrange = [nan, 3]", "questions.fever.range is two numbers"),
        ("[questions.fever]\nrange = [1, '2']", "questions.fever.range is two numbers"),
        ("[questions.fever]\nrange = [43, 34]", "from the least to the greatest number, but 43 is not below 34."),
        ("[questions.fever]\nrange = [3, 3]", "3 is not below 3"),
        ("[questions.fever]\nchoices = 'no'", "questions.fever.choices is a table of values and words"),
        ("[questions.fever]\nchoices = {a = 1}", "questions.fever.choices is a table of values and words"),
        ("[questions.fever]\nchoices = {a = ''}", "questions.fever.choices is a table of values and words"),
        ("[questions.fever]\nchoices = [[1]]", "questions.fever.choices has [1], which is not a value"),
        ("[questions.fever]\nask = 'always'", 'questions.fever.ask is "never" or "beforehand", not \'always\'.'),
        ("[questions.fever]\nask = ['never']", 'questions.fever.ask is "never" or "beforehand"'),
        ("[questions.fever]\ntype = 'text'", 'questions.fever.type is "number" or "choice" or "yes/no"'),
        ("[questions.fever]\nonly_after = 3", "questions.fever.only_after is the name of a column, a list of names"),
        ("[questions.fever]\nonly_after = [3]", "questions.fever.only_after is a list of names of columns"),
        ("[questions.fever]\nonly_after = {a = [[]]}", "questions.fever.only_after.a has [], which is not a value"),
        ("[groups]\nvitals = 'pulse'", "groups.vitals is a list of names of columns"),
        ("groups = []", "groups is a table"),
    ],
)
def test_whatever_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


def test_a_draft_explains_every_key_and_suggests_what_is_not_there() -> None:
    settings = (
        QuestionSettings("age", "age?", cost=1.0),
        QuestionSettings("sex", "sex?", choices=(("f", "woman"), ("m", "man"))),
        QuestionSettings("town", choices=tuple((f"town {i}", f"the town {i}") for i in range(9))),
        QuestionSettings("note", ask="never"),
    )
    text = draft_text(Questions(settings), {"age": (0.5, 93.0)}, "pursuit train some.csv")
    assert "#   pursuit train some.csv\n" in text
    assert all(f"#   {key} " in text for key in KEYS)
    assert "# range = [0.5, 93]  #" in text
    assert '[questions.age]\ntext = "age?"\n# help = ""\n# unit = ""\n# range' in text
    assert 'choices = { "f" = "woman", "m" = "man" }\n' in text
    assert '[questions.town.choices]\n"town 0" = "the town 0"\n' in text  # too long for one line
    assert text.count("# unit") == 1
    assert '[questions.note]\nask = "never"\n' in text
    assert len(max(text.splitlines(), key=len)) <= 120
    uncommented = "\n".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# range"))
    assert tomllib.loads(uncommented) == {"range": [0.5, 93]}


def test_a_logo_is_taken_along(tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    questions = parse("interview.logo = 'logo.svg'", tmp_path)
    assert questions.presentation.logo.startswith("data:image/svg+xml;base64,")
    assert parse(questions.to_toml()) == questions
    (tmp_path / "large.png").write_bytes(b"x" * 200_000)
    with pytest.raises(ValueError, match=r"has more than 100 kB: make it smaller"):
        parse("interview.logo = 'large.png'", tmp_path)


def test_what_is_said_of_results_is_said_of_labels() -> None:
    questions = parse("[results]\nflu = 'Stay in bed.'")
    questions.check_results(["flu", "well"])
    assert questions.presentation.results == {"flu": Advice("Stay in bed.")}
    with pytest.raises(ValueError, match=r"there is no label 'flu' that could be a result\. Did you mean 'flue'\?"):
        questions.check_results(["flue", "well"])
    with pytest.raises(ValueError, match=r"a number is predicted: leave it out"):
        questions.check_results(None)


LANGUAGES = """[interview]
title = "Machines"

[results."door seal"]
text = "Order one."

[languages.de]
"Machines" = "Maschinen"
"noise?" = "Welches Geräusch?"
"door seal" = "Türdichtung"
"Order one." = "Bestellen Sie eine."
"""


def test_languages_are_read_and_written() -> None:
    questions = parse(LANGUAGES)
    assert dict(dict(questions.presentation.languages)["de"])["noise?"] == "Welches Geräusch?"
    assert questions.to_toml() == LANGUAGES
    for wrong, message in (
        ('[languages]\nde = "x"', r"languages.de is a table"),
        ('[languages.German]\n"a" = "b"', r"goes by its code, as in \[languages.de\], not 'German'"),
        ('[languages.de]\n"a" = 3', r"is a text in quotation marks"),
        ('[languages.de]\n"a" = ""', r"languages.de has no words for 'a'"),
    ):
        with pytest.raises(ValueError, match=message):
            parse(wrong)


def test_what_is_translated_must_be_in_the_interview(tmp_path: Path) -> None:
    table = "\n".join(["noise,n,fault", *(f"{'ab'[i % 2]},{i % 7},{('seal', 'pump')[i % 2]}" for i in range(60))])
    (tmp_path / "t.csv").write_text(table)
    file = tmp_path / "q.toml"
    good = [
        '"noise?" = "Welches?"',
        '"a" = "A"',
        '"seal" = "Dichtung"',
        '"kg" = "Kilo"',
        '"Hello" = "Hallo"',
    ]
    head = '[interview]\ntitle = "Hello"\n[questions.n]\nunit = "kg"\n[languages.de]\n'
    file.write_text(head + "\n".join(good))
    task = load_task(tmp_path / "t.csv", target="fault", questions=file)
    assert '"seal" = "Dichtung"' in task.notes["questions"]
    file.write_text(f'{head}"noises?" = "x"')
    with pytest.raises(ValueError, match=r"languages.de has 'noises\?', .* Did you mean 'noise\?'"):
        load_task(tmp_path / "t.csv", target="fault", questions=file)
