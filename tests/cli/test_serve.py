"""`pursuit serve` as people run it: a process of its own, which may be killed at any moment."""

import os
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from pursuit.cli.serve import _warning, serve
from pursuit.web.serving.options import ServingOptions
from served import begin, client_of, letters_model, move, port_of, program, try_move

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letters_model(tmp_path_factory.mktemp("serve") / "Letters (old)")


def test_a_server_that_is_killed_loses_nothing_that_was_answered(model: Path, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    with program(model, "--port", "0", "--database", database) as process, client_of(port_of(process)) as client:
        assert [one["id"] for one in client.get("/api/models").json()["models"]] == ["letters-old"]
        session = begin(client, "letters-old")
        for _ in range(3):
            session = move(client, session, "tell", answer="yes")
        changed = move(client, session, "change", query=session["state"]["answers"][0]["question"]["name"], answer="no")
        process.send_signal(signal.SIGKILL)
        process.wait()
    with program(model, "--port", "0", "--database", database) as process, client_of(port_of(process)) as client:
        again = client.get(f"/api/sessions/{changed['id']}").json()
        assert again == changed
        assert try_move(client, session, "dont_know").status_code == 409
        assert move(client, again, "undo")["state"]["answers"] == session["state"]["answers"]


def test_a_folder_of_models_is_all_of_them(model: Path, tmp_path: Path) -> None:
    for name in ("b", "a"):
        shutil.copytree(model, tmp_path / "models" / name)
    (tmp_path / "models" / "notes").mkdir()
    (tmp_path / "models" / "a.toml").touch()
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    served = program(tmp_path / "models", "--port", "0", "--database", database)
    with served as process, client_of(port_of(process)) as client:
        assert [one["id"] for one in client.get("/api/models").json()["models"]] == ["a", "b"]


def test_several_processes_share_the_sessions(model: Path, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    with program(model, "--port", "0", "--workers", "2", "--database", database) as process:
        port = port_of(process)
        wait_for(port)
        with client_of(port) as client:
            session = begin(client, "letters-old")
        for _ in range(8):
            with client_of(port) as client:  # each connection may reach another process
                session = move(client, session, "dont_know")
        assert session["revision"] == 8
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_a_server_that_is_told_to_stop_ends_by_itself(model: Path, tmp_path: Path) -> None:
    token = "a-token-of-the-tests"
    options = ("--port", "0", "--database", f"sqlite:///{tmp_path / 'a.sqlite'}", "--keep-days", "30", "--log")
    with program(model, *options, "--no-list", environment={"PURSUIT_TOKEN": token}) as process:
        with client_of(port_of(process)) as client:
            assert client.get("/api/models").status_code == 401
            client.headers["authorization"] = f"Bearer {token}"
            session = move(client, begin(client, "letters-old"), "tell", answer="yes")
            assert client.get("/api/sessions").status_code == 404
            assert b'data-lists="no"' in client.get("/").content
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        assert process.stdout is not None
        said = process.stdout.read()
        assert "for 30 days after their last change" in said
        assert f"POST /api/sessions/{session['id'][:6]}…/moves 200" in said
        for hidden in (session["id"], token, "yes"):
            assert hidden not in said
        assert process.returncode in (0, -signal.SIGTERM, 143)


def start(models: list[Path], *, database: str | None = None, proxy: str | None = None, **options: Any) -> None:
    serve(models=models, serving=ServingOptions(database=database, proxy=proxy), **options)


def test_a_token_that_is_too_short_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 16 characters"):
        start([model], port=0, token="short")
    (tmp_path / "token").write_text("a-token-of-the-tests")
    with pytest.raises(ValueError, match="not both"):
        start([model], port=0, token="a-token-of-the-tests", token_file=tmp_path / "token")


@pytest.mark.parametrize("proxy", ["*", "proxy.example", "127.0.0.1/8"])
def test_a_proxy_that_anybody_could_pass_for_is_refused(model: Path, proxy: str) -> None:
    with pytest.raises(ValueError, match="by its address or network"):
        start([model], port=0, proxy=proxy)


@pytest.mark.parametrize(("has_token", "said"), [(True, "Whoever knows the token"), (False, "--token keeps")])
def test_who_lets_others_in_is_told_what_they_may_do(has_token: bool, said: str) -> None:
    assert said in _warning(has_token)


def test_the_operators_token_is_not_that_of_people(model: Path) -> None:
    with pytest.raises(ValueError, match="must differ from the one that people know"):
        start([model], port=0, token="a-token-of-the-tests", operator_token="a-token-of-the-tests")


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def test_what_cannot_be_served_is_said_in_a_sentence(model: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no model folder"):
        start([tmp_path / "none"], port=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        FileNotFoundError, match=rf"^There is no model in {tmp_path / 'empty'}\. It is empty\. Give the folder"
    ):
        start([tmp_path / "empty"], port=0)
    with pytest.raises(ValueError, match="need a file"):
        start([model], port=0, database="sqlite://")
    with pytest.raises(ValueError, match=r"cannot listen on 192\.0\.2\.1"):
        start([model], port=0, host="192.0.2.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"Port {port} is in use.*--port {port + 1}"):
            start([model], port=port)


def test_a_missing_package_is_named_with_what_to_install(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.version.find_spec", lambda name: None if name == "fastapi" else object())
    with pytest.raises(ModuleNotFoundError, match=r"not installed \(fastapi\): pip install 'pursuit\[serve\]'"):
        start([model])


def test_a_new_user_gets_the_animals(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PURSUIT_CACHE": str(tmp_path / "cache")}
    environment |= dict.fromkeys(("XDG_DATA_HOME", "XDG_CACHE_HOME", "PURSUIT_DATABASE"), "")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        with program("--port", "0", environment=environment) as process, client_of(port_of(process)) as client:
            models = client.get("/api/models").json()["models"]
            assert [one["id"] for one in models] == ["animals"]
            session = move(client, begin(client, "animals"), "tell", answer="yes")
            deadline = time.monotonic() + 300
            while not client.get("/api/models").json()["models"][0]["is_measured"]:
                assert time.monotonic() < deadline
                time.sleep(0.3)
            details = client.get("/api/models/animals").json()
            assert details["quality"]["accuracy"] > 0.95
            assert details["report"]["tree"]["questions"]
            assert "How good it is" in client.get(details["report_url"]).text
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130)
        assert len(list((tmp_path / ".local/share/pursuit/sessions").glob("animals-*.sqlite"))) == 1
        assert session["state"]["can_undo"]
    finally:
        os.chdir(here)
