"""A connection of the caller's, whatever made it: its dialect, and statements inside the transaction that is open."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from .._errors import InvalidInput, Unsupported

Dialect = Literal["sqlite", "postgresql"]

_MODULES: dict[str, Dialect] = {
    "sqlite3": "sqlite",
    "pysqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000": "postgresql",
}

#: How the values of a statement are marked, by the paramstyle of a driver.
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")


def name(given: str) -> str:
    """The name of a table or a column, which is put into statements as it is."""
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise InvalidInput(f"{given!r} is no name of a table or a column; use letters, digits and _, and at most one dot")
    return given


class Connection:
    """Runs statements on a connection, marked ``?`` here however the driver wants it."""

    def __init__(self, given: Any) -> None:
        if hasattr(given, "get_bind") and callable(getattr(given, "connection", None)):
            # A session of SQLAlchemy: the connection of its transaction.
            given = given.connection()
        self._alchemy = hasattr(given, "exec_driver_sql")
        self.given = given
        if self._alchemy:
            self.raw = given.connection.driver_connection
            self.dialect, self._mark = _driver(self.raw)
        elif hasattr(given, "vendor") and hasattr(given, "in_atomic_block"):
            self.raw = given
            self.dialect, self._mark = _of_django(given.vendor), "%s"
        else:
            self.raw = given
            self.dialect, self._mark = _driver(given)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> tuple[int, list[Any]]:
        """How many rows a statement touched, and those that it gives."""
        statement = statement.replace("?", self._mark)
        if self._alchemy:
            result = self.given.exec_driver_sql(statement, tuple(values))
            return result.rowcount, list(result.fetchall()) if result.returns_rows else []
        cursor = self.given.cursor()
        try:
            cursor.execute(statement, tuple(values))
            return cursor.rowcount, list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()

    def begin(self) -> None:
        """Sees to it that a transaction is open, which the caller will end.

        Raises InvalidInput where each statement commits by itself: what is written could not be rolled back with the rest.
        """
        if self._alchemy or not _commits_by_itself(self.raw):
            # sqlite3 begins by itself, but before a savepoint it does not.
            if self.dialect == "sqlite" and getattr(self.raw, "in_transaction", True) is False:
                self.execute("BEGIN")
            return
        raise InvalidInput(
            "no transaction is open, and each statement of this connection commits by itself; begin one, so that what is "
            "written here is committed with your rows"
        )

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """What is written within is written wholly, or, when it raises, not at all."""
        self.begin()
        self.execute("SAVEPOINT semel")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO SAVEPOINT semel")
            self.execute("RELEASE SAVEPOINT semel")
            raise
        self.execute("RELEASE SAVEPOINT semel")


def _driver(raw: Any) -> tuple[Dialect, str]:
    for kind in type(raw).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in _MODULES:
            return _MODULES[root], _MARKS[sys.modules[root].paramstyle]
    raise Unsupported(
        f"{type(raw)!r} is no connection that is known here; give one of sqlite3, psycopg, psycopg2, pg8000, Django or SQLAlchemy"
    )


def _of_django(vendor: str) -> Dialect:
    if vendor == "sqlite":
        return "sqlite"
    if vendor == "postgresql":
        return "postgresql"
    raise Unsupported(f"the database is {vendor}; SQLite and PostgreSQL can be used")


def _commits_by_itself(raw: Any) -> bool:
    if hasattr(raw, "in_atomic_block"):
        return not raw.in_atomic_block and bool(raw.get_autocommit())
    if hasattr(raw, "in_transaction") and hasattr(raw, "isolation_level"):
        alone = raw.isolation_level is None and getattr(raw, "autocommit", -1) in (-1, True)
        return not raw.in_transaction and (alone or getattr(raw, "autocommit", -1) is True)
    if not getattr(raw, "autocommit", False):
        return False
    info = getattr(raw, "info", None)
    status = getattr(info, "transaction_status", 0)
    return int(status) == 0
