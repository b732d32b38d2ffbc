"""Messages that are committed with your rows, and sent afterwards: each at least once, in order, under a stable id."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from .._errors import InvalidInput, Mismatch
from .._schemes import Relayed
from ._connection import Connection, Dialect, name
from ._insert import insert


class Outbox:
    """Messages to be sent, in the table ``semel_outbox`` of your database. A message is what JSON can say."""

    def __init__(self, table: str = "semel_outbox") -> None:
        self.table = name(table)

    def schema(self, dialect: Dialect = "postgresql") -> str:
        """The statement that makes the table."""
        number = "INTEGER PRIMARY KEY AUTOINCREMENT" if dialect == "sqlite" else "BIGSERIAL PRIMARY KEY"
        real = "REAL" if dialect == "sqlite" else "DOUBLE PRECISION"
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table} (number {number}, topic TEXT NOT NULL, id TEXT NOT NULL, "
            f"message TEXT NOT NULL, sent_at {real}, UNIQUE (topic, id))"
        )

    def create(self, connection: Any) -> None:
        """Makes the table if there is none."""
        made = Connection(connection)
        made.execute(self.schema(made.dialect))

    def emit(self, connection: Any, topic: str, id: Any, message: Any) -> bool:
        """Writes a message inside the open transaction; False when this very message was written before.

        Raises Mismatch when the id belongs to another message, and InvalidInput for what JSON cannot say.
        """
        made = Connection(connection)
        made.begin()
        try:
            text = json.dumps(message, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the message cannot be written as JSON: {error}") from None
        answer = insert(made, self.table, {"topic": topic, "id": str(id), "message": text}, ["topic", "id"])
        if answer == "conflict":
            raise Mismatch(
                f"{topic} {str(id)!r}: the id belongs to another message", key=(None, topic, str(id)), fields=("message",)
            )
        return answer == "inserted"

    def relay(self, connection: Any, topic: str, send: Callable[[str, Any], object], *, limit: int = 100) -> Relayed:
        """Sends messages that were not sent, in their order, by ``send(id, message)``; how many. Commits after each.

        The connection is one of its own, on which no transaction is open. With PostgreSQL of several that relay a topic one
        works, and the others are told ``busy``; with SQLite, run one. What ``send`` raises is raised; that message is the
        first of the next time. A crash between sending and marking sends it again, with the same id.
        """
        made = Connection(connection)
        made.begin()
        sent = 0
        try:
            # Held to the end of each transaction, taken anew with the next.
            if not self._alone(made, topic):
                return Relayed(0, busy=True)
            while sent < limit:
                _, rows = made.execute(
                    f"SELECT number, id, message FROM {self.table} WHERE topic = ? AND sent_at IS NULL ORDER BY number LIMIT 1",
                    (topic,),
                )
                if not rows:
                    break
                number, id, message = rows[0]
                send(id, json.loads(message))
                made.execute(f"UPDATE {self.table} SET sent_at = ? WHERE number = ?", (time.time(), number))
                made.given.commit()
                sent += 1
                made.begin()
                if not self._alone(made, topic):
                    break
            return Relayed(sent)
        finally:
            made.given.rollback()

    def _alone(self, made: Connection, topic: str) -> bool:
        if made.dialect != "postgresql":
            return True
        _, rows = made.execute("SELECT pg_try_advisory_xact_lock(hashtext(?))", (f"{self.table} {topic}",))
        return bool(rows[0][0])

    def waiting(self, connection: Any, topic: str) -> int:
        """How many messages of a topic were not sent."""
        made = Connection(connection)
        _, rows = made.execute(f"SELECT count(*) FROM {self.table} WHERE topic = ? AND sent_at IS NULL", (topic,))
        return int(rows[0][0])

    def purge(self, connection: Any, older_than: float) -> int:
        """Forgets messages that were sent more than so many seconds ago; how many."""
        made = Connection(connection)
        return made.execute(f"DELETE FROM {self.table} WHERE sent_at < ?", (time.time() - older_than,))[0]
