"""Results of operations, committed with what the operations wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from .. import _native
from .._errors import InvalidInput, Mismatch
from .._native import GLOBAL
from ._connection import Connection, Dialect, name


class IdempotencyTable:
    """Results of operations whose whole effect is in your database, in the table ``semel_operations`` there.

    For such operations nothing is ever in doubt: the mark, the rows and the result are committed together, or none of them.
    An effect elsewhere, a charge or a mail, does not belong in one: use a store, or write an outbox.
    """

    def __init__(self, table: str = "semel_operations") -> None:
        self.table = name(table)

    def schema(self, dialect: Dialect = "postgresql") -> str:
        """The statement that makes the table."""
        real = "REAL" if dialect == "sqlite" else "DOUBLE PRECISION"
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table} (scope TEXT NOT NULL, operation TEXT NOT NULL, id TEXT NOT NULL, "
            f"fingerprint TEXT NOT NULL, result TEXT, executed_at {real} NOT NULL, PRIMARY KEY (scope, operation, id))"
        )

    def create(self, connection: Any) -> None:
        """Makes the table if there is none."""
        made = Connection(connection)
        made.execute(self.schema(made.dialect))

    def run(
        self,
        connection: Any,
        operation: str,
        id: Any,
        work: Callable[[Any], Any],
        *,
        scope: Any = GLOBAL,
        payload: Any = None,
    ) -> Any:
        """Runs ``work(connection)`` once inside the open transaction, and gives every repeat its first result.

        A result is what JSON can say, and the first caller gets it as repeats do. An exception takes all of it back, and is
        raised: the operation may run again. Of two that come together the second waits, or is told by SQLite that the database
        is locked. Commit, and only then tell the client.

        Raises Mismatch when the key belongs to another payload, and InvalidInput for a result that JSON cannot say, or when
        no transaction can be open.
        """
        made = Connection(connection)
        # A scope of nobody's is not the scope that is named "".
        whose = "" if scope is GLOBAL or scope is None else f"={scope}"
        key = (whose, operation, str(id))
        print_ = "" if payload is None else _native.fingerprint(payload)
        with made.savepoint():
            statement = (
                f"INSERT INTO {self.table} (scope, operation, id, fingerprint, executed_at) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (scope, operation, id) DO NOTHING"
            )
            touched, _ = made.execute(statement, (*key, print_, time.time()))
            where = "scope = ? AND operation = ? AND id = ?"
            if touched == 0:
                _, rows = made.execute(f"SELECT fingerprint, result FROM {self.table} WHERE {where}", key)
                if rows[0][0] != print_:
                    message = f"{operation} {str(id)!r}: the key was used for another request; use a new key for a new request"
                    raise Mismatch(message, key=(None if not whose else str(scope), operation, str(id)))
                return json.loads(rows[0][1])
            text = _json(work(connection))
            made.execute(f"UPDATE {self.table} SET result = ? WHERE {where}", (text, *key))
            return json.loads(text)

    def purge(self, connection: Any, older_than: float) -> int:
        """Forgets operations that were executed more than so many seconds ago; how many. A later repeat runs anew."""
        made = Connection(connection)
        return made.execute(f"DELETE FROM {self.table} WHERE executed_at < ?", (time.time() - older_than,))[0]


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the result cannot be written as JSON, and was taken back: {error}") from None
    if json.loads(text) != value:
        raise InvalidInput("the result is not what JSON gives back (a tuple, a key that is no text), and was taken back")
    return text
