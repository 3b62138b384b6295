"""A prompt for any language model, and its reply: read wherever it stands, checked, compared, and trained with."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import json_of, run
from pursuit import ColumnQueries, Questions
from pursuit.web.connect.prompt import difference, merged, prompt_for, read_reply

REPLY = """Sure! Here is the file you asked for:

```toml
[questions.fvr]
text = "Do you have a fever?"
help = "38 °C or more counts."
choices = { "0" = "no", "1" = "yes" }
words = ["I'm burning up"]

[questions.loc]
text = "Where does it hurt?"
choices = { bl = "in the belly", hd = "in the head" }

[questions.ag]
text = "How old are you?"
unit = "years"
range = [0, 120]
```

Let me know if you need anything else!"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    fever, where = rng.integers(0, 2, 200), rng.choice(["bl", "hd"], 200)
    label = np.where(where == "bl", "gastritis", np.where(fever == 1, "flu", "migraine"))
    frame = pd.DataFrame({"fvr": fever, "loc": where, "ag": rng.integers(1, 90, 200), "label": label})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


@pytest.fixture
def queries(folder: Path) -> ColumnQueries:
    return ColumnQueries.from_data(pd.read_csv(folder / "rows.csv").drop(columns="label"))


def test_the_prompt_names_columns_and_values_and_no_rows(folder: Path) -> None:
    done = run(folder, "questions", "rows.csv", "--target", "label", "--prompt", "--prompt-language", "German")
    assert done.returncode == 0, done.stderr
    assert "- ag: a number, from " in done.stdout
    assert "- loc: one of bl, hd" in done.stdout
    assert "one of 3: flu, gastritis, migraine" in done.stdout
    assert "German" in done.stdout
    assert not (folder / "questions.toml").exists()


def test_a_reply_is_checked_shown_written_and_trained_with(folder: Path) -> None:
    (folder / "reply.txt").write_text(REPLY, encoding="utf-8")
    done = run(folder, "questions", "rows.csv", "--target", "label", "--reply", "reply.txt")
    assert done.returncode == 0, done.stderr
    assert '+text = "Where does it hurt?"' in done.stdout
    assert "-text" in done.stdout
    own = ("train", "rows.csv", "--target", "label", "--questions", "questions.toml", "--method", "naive-bayes")
    assert json_of(run(folder, *own, "--out", "model", "--json"))
    shown = json_of(run(folder, "show", "model", "--json"))
    assert "How old are you?" in str(shown)


def test_a_reply_in_utf_16_is_read_and_what_is_no_text_is_said(folder: Path) -> None:
    own = ("questions", "rows.csv", "--target", "label", "--reply", "reply.txt")
    (folder / "reply.txt").write_bytes(REPLY.encode("utf-16"))  # as a shell of Windows writes it
    done = run(folder, *own)
    assert done.returncode == 0, done.stderr
    (folder / "reply.txt").write_bytes(b"\xff")
    assert "save the reply as such" in run(folder, *own, "--force").stderr


def test_a_range_that_leaves_out_data_is_said(folder: Path) -> None:
    n_left_out = (pd.read_csv(folder / "rows.csv")["ag"] > 18).sum()
    (folder / "reply.txt").write_text("[questions.ag]\nrange = [0, 18]", encoding="utf-8")
    own = ("questions", "rows.csv", "--target", "label", "--reply", "reply.txt")
    assert f"The range of 'ag' leaves out {n_left_out} of 200 numbers" in run(folder, *own).stderr
    (folder / "reply.txt").write_text("[questions.ag]\nrange = [1, 89]", encoding="utf-8")
    assert "leaves out" not in run(folder, *own, "--force").stderr


def test_the_draft_in_the_prompt_is_a_reply_that_changes_nothing(queries: ColumnQueries) -> None:
    prompt = prompt_for(queries, "label", ["flu", "cold"])
    before, after = merged(queries, read_reply(prompt, queries))
    assert difference(before, after) == ""


@pytest.mark.parametrize(
    "text",
    [
        REPLY.replace("```toml", "").replace("```", ""),
        REPLY.partition("```toml\n")[2].partition("```")[0],
        REPLY.replace("```toml", "```"),
        "```\nnothing\n```\n" + REPLY,
        REPLY.replace("[questions.loc]", "```\nAnd:\n```toml\n[questions.loc]"),
        "\ufeff" + REPLY.partition("```toml\n")[2].partition("```")[0].replace("\n", "\r\n"),
    ],
)
def test_a_reply_is_found_wherever_it_stands(queries: ColumnQueries, text: str) -> None:
    assert [one.name for one in read_reply(text, queries).settings] == ["fvr", "loc", "ag"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I cannot help with that.", "cannot be used"),
        ("", "no \\[questions"),
        ('[questions.fever]\ntext = "Fever?"', "no column 'fever'"),
        ('[questions.fvr]\ntext = "Fever?"\n[questions.fvr]\ntext = "Hot?"', "This is not TOML"),
        ('[questions.fvr]\ntext = "Fever?"\n[questions.loc]\ntext = Where?\n\nBye!', "This is not TOML"),
        ('[questions.loc]\nchoices = { bl = "belly" }', "also holds hd"),
        ('[questions.loc]\nchoices = { bl = "it", hd = "it" }', "nobody could tell them apart"),
        ('[questions.ag]\nask = "never"', "more of 'ag' than its wording"),
        ("[questions.ag]\ncost = 0", "more of 'ag' than its wording"),
        ('[questions.ag]\ntext = "Age?"\n[interview]\nlogo = "secret.png"', "besides"),
        ('[questions.ag]\ntext = "Age?"\n[results.flu]\nlink = "https://evil.example"', "besides"),
    ],
)
def test_what_cannot_be_used_is_said(queries: ColumnQueries, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_reply(text, queries)


def test_what_a_reply_leaves_out_stays(queries: ColumnQueries) -> None:
    before, after = merged(queries, read_reply('[questions.ag]\ntext = "Age?"', queries))
    assert "Age?" in difference(before, after)
    assert after.settings[0] == before.settings[0]
    assert isinstance(after, Questions)


def test_options_that_do_not_go_together(folder: Path) -> None:
    own = ("questions", "rows.csv", "--target", "label")
    assert "First --prompt" in run(folder, *own, "--prompt", "--reply", "x").stderr
    assert "goes with --prompt" in run(folder, *own, "--prompt-language", "German").stderr
