"""Rows of a database, selected by SQL: a query's result is read as a CSV file is.

A source is the address of a database, as SQLAlchemy has it, with the query after a #, as in
`sqlite:///repairs.db#SELECT * FROM repairs`; on the command line --query is the query.
"""

import csv
import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pursuit.tables.converted import cell_text

if TYPE_CHECKING:
    from sqlalchemy import Engine

DATABASE = re.compile(r"(?:sqlite|postgres|postgresql|mysql|mariadb|oracle|mssql|duckdb)(?:\+\w+)?://")
DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}
"""What reads databases whose address names no driver."""
EXAMPLE = "--query 'SELECT * FROM {}'"


def is_database(source: Any) -> bool:
    """Whether a text is the address of a database."""
    return isinstance(source, str) and DATABASE.match(source) is not None


def with_query(source: Any, query: str | None) -> Any:
    """The source with the query that is to be read; raises ValueError where it cannot have one."""
    if query is None:
        return source
    if not is_database(source) or "#" in source:
        raise ValueError("--query is for the address of a database, as in sqlite:///repairs.db: leave it out.")
    return f"{source}#{query}"


@dataclass(frozen=True)
class QueryResult:
    """What a query finds in a database, as the text of a CSV file."""

    address: str
    """Perhaps with a password in it."""
    query: str

    @classmethod
    def of(cls, source: str) -> "QueryResult":
        address, _, query = source.partition("#")
        return cls(address, query.strip())

    @cached_property
    def shown(self) -> str:
        """The address without a password."""
        from sqlalchemy.engine import make_url

        return make_url(self.address).render_as_string(hide_password=True).replace(":***@", "@")

    @property
    def name(self) -> str:
        return PurePosixPath(self.shown.partition("?")[0]).name or "database"

    @cached_property
    def content(self) -> bytes:
        """The rows, with a header line, in UTF-8."""
        with self._explained(), self._engine().connect() as connection:
            from sqlalchemy import inspect, text

            if not self.query:
                tables = inspect(connection).get_table_names()
                raise ValueError(
                    f"Which rows of {self.shown}? Say so with {EXAMPLE.format(tables[0] if tables else 'TABLE')}. "
                    f"Its tables are: {', '.join(tables[:20]) or 'none'}."
                )
            result = connection.execute(text(self.query))
            if not result.returns_rows:
                raise ValueError(f"The query selects no rows. Write one that does: {EXAMPLE.format('TABLE')}.")
            file = io.StringIO(newline="")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(result.keys())
            writer.writerows([cell_text(value) for value in row] for row in result)
        return file.getvalue().encode()  # nothing is committed: the connection is closed before

    def version(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def _engine(self) -> "Engine":
        from sqlalchemy import create_engine
        from sqlalchemy.engine import make_url

        url = make_url(self.address)
        url = url.set(drivername=DRIVERS.get(url.drivername, url.drivername))
        if url.get_backend_name() == "sqlite" and url.database:
            # Opened as it is: a name that is wrong must not make a new, empty database.
            url = url.set(database=f"file:{url.database}", query={**url.query, "mode": "ro", "uri": "true"})
        return create_engine(url)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            from sqlalchemy.exc import SQLAlchemyError
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "Databases are read by SQLAlchemy, which is not installed: pip install 'pursuit[sql]'"
            ) from None
        try:
            yield
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{self.shown} needs a package that is not installed ({error.name}): pip install it first; for "
                "PostgreSQL, pip install 'pursuit[postgres]'."
            ) from None
        except SQLAlchemyError as error:
            reason = (str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{self.shown} cannot be read ({reason.rstrip('.')}): check its address and the query."
            ) from None
