"""`pursuit export`: a model as one HTML file."""

from pathlib import Path

from exported import described
from program import assert_refused, json_of, run


def test_a_model_is_written_as_one_page(workspace: Path, tmp_path: Path) -> None:
    done = run(
        workspace, "export", "model", str(tmp_path / "page.html"), "--stop", "budget=2", "--title", "Who is ill?"
    )
    assert done.returncode == 0, done.stderr
    assert "3 questions, 3 labels" in done.stdout
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Who is ill?</title>" in text
    assert described(tmp_path / "page.html")["stop"] == [{"rule": "budget", "n": 2}]


def test_it_says_what_was_written_as_json(workspace: Path, tmp_path: Path) -> None:
    page = tmp_path / "seite.html"
    told = json_of(run(workspace, "export", "model", str(page), "--language", "de", "--json"))
    assert told["path"] == str(page)
    assert told["n_bytes"] == page.stat().st_size
    assert told["belief_error"] < 1e-4
    assert '<html lang="de">' in page.read_text(encoding="utf-8")


def test_what_is_wrong_is_said_in_a_sentence(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n")
    for path in (tmp_path / "rows.csv", tmp_path / "nowhere" / "page.html"):
        done = run(workspace, "export", "model", str(path))
        assert_refused(done, "give a file that ends in .html, in a folder that exists")
    assert (tmp_path / "rows.csv").read_text() == "a,b\n"
