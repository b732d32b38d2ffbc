"""Messages that are handled once: the mark is committed with what the handler wrote."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .._schemes import Consumed
from ._connection import Connection, Dialect, name


class Inbox:
    """Marks of messages that were handled, in the table ``semel_inbox`` of your database."""

    def __init__(self, table: str = "semel_inbox") -> None:
        self.table = name(table)

    def schema(self, dialect: Dialect = "postgresql") -> str:
        """The statement that makes the table."""
        real = "REAL" if dialect == "sqlite" else "DOUBLE PRECISION"
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table} "
            f"(consumer TEXT NOT NULL, message_key TEXT NOT NULL, handled_at {real} NOT NULL, PRIMARY KEY (consumer, message_key))"
        )

    def create(self, connection: Any) -> None:
        """Makes the table if there is none."""
        made = Connection(connection)
        made.execute(self.schema(made.dialect))

    def consume(self, connection: Any, consumer: str, message_key: Any, work: Callable[[Any], Any]) -> Consumed:
        """Runs ``work(connection)`` unless this consumer has handled the message: "done", or "duplicate".

        The mark is written first, so that of two that come together the second waits, or is told by SQLite that the database
        is locked. An exception of the work takes the mark and what the work wrote back, and is raised. Commit, and then
        acknowledge the message. Raises InvalidInput when no transaction can be open.
        """
        made = Connection(connection)
        with made.savepoint():
            statement = (
                f"INSERT INTO {self.table} (consumer, message_key, handled_at) VALUES (?, ?, ?) "
                "ON CONFLICT (consumer, message_key) DO NOTHING"
            )
            touched, _ = made.execute(statement, (consumer, str(message_key), time.time()))
            if touched == 0:
                return Consumed("duplicate")
            return Consumed("done", work(connection))

    def purge(self, connection: Any, older_than: float) -> int:
        """Forgets messages that were handled more than so many seconds ago; how many. A later repeat is handled anew."""
        made = Connection(connection)
        return made.execute(f"DELETE FROM {self.table} WHERE handled_at < ?", (time.time() - older_than,))[0]
