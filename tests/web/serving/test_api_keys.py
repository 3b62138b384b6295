"""Programs with keys of their own, by name."""

import logging
from pathlib import Path
from typing import Any

import pytest

from pursuit.web.serving.auth import read_keys
from pursuit.web.serving.models import ServedModels
from served import running

KEYS = {"shop": "a-key-of-the-shop-1234", "clinic": "a-key-of-the-clinic-12"}


def test_each_program_is_let_in_by_its_key_and_logged_by_its_name(
    models: ServedModels, tmp_path: Path, caplog: Any
) -> None:
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    with (
        caplog.at_level(logging.INFO, logger="pursuit.requests"),
        running(models, database, api_keys=KEYS) as client,
    ):
        assert client.get("/api/models").status_code == 401
        for key in KEYS.values():
            assert client.get("/api/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        wrong = client.get("/api/models", headers={"Authorization": "Bearer a-key-of-nobody-at-all"})
        assert wrong.status_code == 401
    lines = [record.getMessage() for record in caplog.records if record.name == "pursuit.requests"]
    assert [line.partition(" by ")[2] for line in lines] == ["", "shop", "clinic", ""]
    assert not any(key in caplog.text for key in KEYS.values())


def test_a_file_of_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# of programs\nshop  a-key-of-the-shop-1234\n\nclinic a-key-of-the-clinic-12\n")
    assert read_keys(file) == KEYS
    for content, message in (
        ("shop short", "Line 1 of .* is no API key: write NAME KEY. A token has at least 16"),
        ("shop a-key-of-the-shop-1234\nshop a-key-of-the-shop-5678", "Line 2 of .* stands above already"),
        ("shop a-key-of-the-shop-1234\nown a-key-of-the-shop-1234", "Line 2 of .* stands above already"),
        ("# nothing", "has no API keys"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            read_keys(file)
    with pytest.raises(ValueError, match="API keys cannot be read from"):
        read_keys(tmp_path / "none")
