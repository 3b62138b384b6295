"""The Compose file of several servers names what there is: options of the program, files, and one database."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

import pursuit
from pursuit.cli.app import load_command

FOLDER = Path(pursuit.__file__).parents[2] / "examples" / "several_servers"


@pytest.fixture(scope="module")
def services() -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def test_the_program_has_every_option_that_servers_are_started_with(services: Any) -> None:
    name, *words = services["interviews"]["command"]
    parameters = load_command("serve").params
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert name == "serve"
    assert len(options) > 5
    assert set(options) <= known


def test_files_and_folders_that_are_named_exist(services: Any) -> None:
    assert (FOLDER / services["interviews"]["build"] / "Dockerfile").is_file()
    assert (FOLDER / services["proxy"]["volumes"][0].split(":")[0]).is_file()


def test_servers_use_the_database_by_its_name_and_through_the_network_of_the_proxy(services: Any) -> None:
    url = make_url(services["interviews"]["environment"]["PURSUIT_DATABASE"].replace("${PASSWORD}", "secret"))
    database = services["database"]["environment"]
    assert url.host in services
    assert (url.username, url.database) == (database["POSTGRES_USER"], database["POSTGRES_DB"])
    assert "interviews 8000" in (FOLDER / "Caddyfile").read_text()
