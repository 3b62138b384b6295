"""Options of files, declared once for the commands that have them."""

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from pursuit.cli.app import load_command
from pursuit.cli.options import (
    ColumnOptions,
    EngineOptions,
    MeasuringOptions,
    ReadingOptions,
    RowsOptions,
    TableOptions,
    with_options,
)
from pursuit.research.experiments.options import Changes, ReproductionOptions, SearchOptions, TrialOptions
from pursuit.web.serving.options import ServingOptions


def names(command: str) -> list[str]:
    return [option.name for option in load_command(command).params]


def test_the_fields_of_a_group_are_options_in_its_place() -> None:
    app, given = typer.Typer(), []

    @app.command()
    @with_options
    def read(
        path: Annotated[Path, typer.Argument()], *, before: int = 1, file: ReadingOptions, after: bool = False
    ) -> None:
        """Read a file."""
        given.append((path, before, file, after))

    command = typer.main.get_command(app)
    assert [parameter.name for parameter in command.params][:8] == [
        *("path", "before", "missing", "encoding", "decimal", "sheet", "query", "after")
    ]
    assert command.help == "Read a file."
    done = CliRunner().invoke(app, ["t.csv", "--missing", "?", "--missing", "-", "--decimal", ",", "--after"])
    assert done.exit_code == 0, done.output
    assert given == [(Path("t.csv"), 1, ReadingOptions(missing=["?", "-"], decimal=","), True)]


@pytest.mark.parametrize(
    ("command", "group"),
    [
        ("predict", RowsOptions),
        ("evaluate", MeasuringOptions),
        ("report", MeasuringOptions),
        ("explain", RowsOptions),
        ("questions", ColumnOptions),
        ("train", TableOptions),
        ("compare", TableOptions),
        ("tune", TableOptions),
        ("reproduce", EngineOptions),
        ("compare", TrialOptions),
        ("tune", SearchOptions),
        ("reproduce", Changes),
        ("reproduce", ReproductionOptions),
        ("serve", ServingOptions),
    ],
)
def test_commands_have_all_options_of_their_group(command: str, group: type) -> None:
    wanted = [name for name in group.__dataclass_fields__ if name != "file"]
    wanted[1:1] = ReadingOptions.__dataclass_fields__ if wanted[0] == "data" else ()
    start = names(command).index(wanted[0])
    assert names(command)[start : start + len(wanted)] == wanted


def test_what_is_not_given_is_what_reading_takes_for_nothing() -> None:
    assert ReadingOptions().reading() == {
        "missing": (),
        "encoding": None,
        "decimal": None,
        "sheet": None,
        "query": None,
    }
    told = TableOptions(column_type=["born=date"], drop=["note"], group="ward", test_share=0.1).reading()
    assert told["column_types"] == {"born": "date"}
    assert (told["drop"], told["group"], told["test_share"]) == (["note"], "ward", 0.1)
    assert not any(told[name] for name in ("missing", "missing_informs", "time", "queries", "questions"))
