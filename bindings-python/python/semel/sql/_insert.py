"""A row that is inserted once: a repeat is told from a conflict by the constraint and by the row that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .._errors import InvalidInput
from ._connection import Connection, name

Inserted = Literal["inserted", "exists", "conflict"]


def insert_once(connection: Any, table: str, row: Mapping[str, Any], *, key: str | Sequence[str]) -> Inserted:
    """Inserts a row whose columns ``key`` have a unique constraint or are the primary key.

    "inserted"; "exists" when this very row is there, which is a repeat; "conflict" when the key belongs to another row, which
    is left as it is. Values are compared by the database, in the types of its columns. Any other constraint raises the error
    of the driver, as ever. Nothing is committed.

    Raises InvalidInput for a row that has not all of the key, and Unsupported for a connection that is not known.

    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE orders (no TEXT PRIMARY KEY, amount INTEGER)")
    >>> [insert_once(connection, "orders", {"no": "A", "amount": amount}, key="no") for amount in (1, 1, 2)]
    ['inserted', 'exists', 'conflict']
    """
    return insert(Connection(connection), table, row, [key] if isinstance(key, str) else list(key))


def insert(connection: Connection, table: str, row: Mapping[str, Any], key: Sequence[str]) -> Inserted:
    """As `insert_once`."""
    columns, values = [name(column) for column in row], list(row.values())
    missing = [column for column in key if column not in row]
    if missing or not key:
        raise InvalidInput(f"the row has no {', '.join(missing) or 'key'}; a row is inserted once by its key")
    marks = ", ".join("?" for _ in columns)
    statement = f"INSERT INTO {name(table)} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT ({', '.join(key)}) DO NOTHING"
    while True:
        touched, _ = connection.execute(statement, values)
        if touched == 1:
            return "inserted"
        equal = "IS" if connection.dialect == "sqlite" else "IS NOT DISTINCT FROM"
        same = " AND ".join(f"{column} {equal} ?" for column in columns)
        where = " AND ".join(f"{column} = ?" for column in key)
        told = f"SELECT CASE WHEN {same} THEN 1 ELSE 0 END FROM {table} WHERE {where}"
        _, found = connection.execute(told, [*values, *(row[column] for column in key)])
        # A row that was deleted in between leaves the key free again.
        if found:
            return "exists" if found[0][0] == 1 else "conflict"
