"""What the program shows people."""

from pursuit.cli.console import err, escaped, thin


def test_long_lists_are_thinned_but_keep_both_ends() -> None:
    assert thin([0.1, 0.2, 0.3]) == [(0, 0.1), (1, 0.2), (2, 0.3)]
    shown = [n for n, _ in thin([0.5] * 334)]
    assert shown[:9] == list(range(9))
    assert shown[-1] == 333
    assert len(shown) < 20


def test_square_brackets_are_shown_as_they_are() -> None:
    with err.capture() as captured:
        err.print(escaped("a [red]column[/red] [0]"))
    assert captured.get().strip() == "a [red]column[/red] [0]"
