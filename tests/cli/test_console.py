"""How the program speaks."""

from pursuit.cli.console import err, escaped


def test_square_brackets_are_shown_as_they_are() -> None:
    with err.capture() as captured:
        err.print(escaped("a [red]column[/red] [0]"))
    assert captured.get().strip() == "a [red]column[/red] [0]"
