"""Rows of databases: SQLite and, where it is installed, PostgreSQL."""

import datetime
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import postgres
from program import run
from pursuit.research.tasks.loading import load_task
from pursuit.tables.filesystem import SqlTable, display_name
from pursuit.tables.source import open_table

sqlalchemy = pytest.importorskip("sqlalchemy")

ROWS = [
    (i, i % 3, 20.5 + (i % 7), ("red", "blue")[i % 2], datetime.date(2024, 1, 1 + i % 28), i % 2) for i in range(80)
]
CREATE = "CREATE TABLE repairs (id INTEGER, visits INTEGER, heat FLOAT, colour VARCHAR(9), day DATE, broken INTEGER)"
SELECT = "SELECT visits, heat, colour, broken FROM repairs ORDER BY id"


def filled(address: str) -> str:
    driver = address.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(driver)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(CREATE))
        names = ("id", "visits", "heat", "colour", "day", "broken")
        statement = f"INSERT INTO repairs VALUES ({', '.join(f':{name}' for name in names)})"
        connection.execute(sqlalchemy.text(statement), [dict(zip(names, row, strict=True)) for row in ROWS])
    engine.dispose()
    return address


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres.cluster() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.programs)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return filled(f"sqlite:///{tmp_path / 'shop.db'}")
    return filled(request.getfixturevalue("server").new_database())


def test_a_query_is_a_table(database: str) -> None:
    task = load_task(database, target="broken", query=SELECT)
    assert [query.name for query in task.query_set.queries] == ["visits", "heat", "colour"]
    assert len(task.y_train) + len(task.y_test) == len(ROWS)
    assert task.notes["query"] == SELECT
    source = open_table(f"{database}#{SELECT}", ["visits", "heat", "colour"], task.notes)
    held_out = source.unseen()
    assert held_out.X.index.tolist() == task.X_test.index.tolist()  # found again, as those of a file are
    assert "only the 16 held-out rows are used" in held_out.remark


def test_without_a_query_its_tables_are_named(database: str) -> None:
    with pytest.raises(ValueError, match=r"Which rows of .*--query 'SELECT \* FROM repairs'.*tables are: repairs"):
        load_task(database, target="broken")


def test_what_is_wrong_is_said(database: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read \(.*nothing.*\): check its address and the query"):
        load_task(database, target="broken", query="SELECT * FROM nothing")
    with pytest.raises(ValueError, match=r"selects no rows|cannot be read"):
        load_task(database, target="broken", query="DELETE FROM repairs")
    assert SqlTable.of(f"{database}#{SELECT}").read_bytes().count(b"\n") == len(ROWS) + 1  # nothing was deleted


def test_no_database_is_made_by_a_wrong_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unable to open database file"):
        load_task(f"sqlite:///{tmp_path / 'none.db'}", target="y", query="SELECT 1")
    assert not (tmp_path / "none.db").exists()


def test_queries_are_for_databases(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,2\n")
    with pytest.raises(ValueError, match="--query is for the address of a database"):
        load_task(str(path), target="y", query="SELECT 1")
    sqlite3.connect(tmp_path / "x.csv").execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(ValueError, match=r"is an SQLite database: write sqlite:///FILE, .* as in --query"):
        load_task(str(tmp_path / "x.csv"), target="y")


def test_passwords_are_not_shown() -> None:
    source = "postgresql://me:secret@host/shop?x=1#SELECT 1"
    assert display_name(source) == "postgresql://me@host/shop?x=1"
    assert SqlTable.of(source).name == "shop"


def test_the_program_trains_and_explains(tmp_path: Path) -> None:
    address = filled(f"sqlite:///{tmp_path / 'shop.db'}")
    rows = ["--query", SELECT]
    trained = run(tmp_path, "train", address, "--target", "broken", *rows, "--out", "model")
    assert trained.returncode == 0, trained.stderr
    assert "--query 'SELECT visits" in trained.stdout
    explained = run(tmp_path, "predict", "model", "--data", address, *rows)
    assert explained.returncode == 0, explained.stderr
