"""The times of starting are put into the page of speed."""

from starting import section


def test_the_section_says_what_was_measured_and_wanted() -> None:
    times = [
        {"what": "`pursuit tasks`", "seconds": 0.5, "wanted": 1.0},
        {"what": "`import pursuit`", "seconds": 1.5, "wanted": 1.0},
        {"what": "`pursuit show`", "seconds": 3.0, "wanted": None},
    ]
    where = {"commit": "abc", "processor": "fast", "machine": "arm"}
    about, shown = section({"where": where, "rounds": 3, "torch": 2.0, "times": times})
    assert "commit abc, processor fast, machine arm" in about
    assert shown.splitlines()[2:] == [
        "| `pursuit tasks` | 0.5 | 1, met |",
        "| `import pursuit` | 1.5 | 1, missed |",
        "| `pursuit show` | 3 | – |",
    ]
