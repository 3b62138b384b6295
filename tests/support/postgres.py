"""A PostgreSQL of the tests' own: a temporary cluster that is reached by a socket in its folder alone."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WIPE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid();
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
"""


class Cluster:
    """A running cluster, whose database is emptied for every test."""

    def __init__(self, programs: Path, folder: Path, prefix: list[str]):
        self._programs, self._folder, self._prefix = programs, folder, prefix

    def run(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)

    def new_database(self) -> str:
        """The address of an empty database; those given out before are gone."""
        psycopg = pytest.importorskip("psycopg")
        address = f"postgresql://postgres@/postgres?host={self._folder}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(WIPE)
        return address


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster that is gone afterwards; skips the test where there is no PostgreSQL."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = programs[-1].parent if programs else None
    if found is None and (on_path := shutil.which("initdb")):
        found = Path(on_path).parent
    if found is None:
        pytest.skip("PostgreSQL is not installed here (Debian: apt-get install postgresql)")
    prefix: list[str] = []
    place = tempfile.gettempdir() if len(tempfile.gettempdir()) < 30 else "/tmp"  # the path of a socket must be short
    folder = Path(tempfile.mkdtemp(prefix="pursuit-postgres-", dir=place))
    if os.getuid() == 0:  # whom PostgreSQL refuses
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        prefix = ["runuser", "-u", "postgres", "--"]
    own = Cluster(found, folder, prefix)
    data = str(folder / "data")
    try:
        own.run("initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_connections=60"
        own.run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield own
        finally:
            own.run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
