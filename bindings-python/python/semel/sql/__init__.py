"""The schemes inside your own SQL transaction: what they write is committed with your rows, or rolled back with them.

For DB-API connections of SQLite (``sqlite3``) and PostgreSQL (``psycopg``, ``psycopg2``, ``pg8000``), for those of Django, and
for connections and sessions of SQLAlchemy on one of these. Nothing here begins or ends your transaction, but ``Outbox.relay``.

>>> import sqlite3
>>> from semel.sql import Inbox
>>> connection = sqlite3.connect(":memory:")
>>> inbox = Inbox()
>>> inbox.create(connection)
>>> def handle(connection):
...     return "handled"
>>> with connection:
...     inbox.consume(connection, "billing", "pay:777", handle).value
'handled'
>>> with connection:
...     inbox.consume(connection, "billing", "pay:777", handle)
'duplicate'
"""

from ._inbox import Inbox
from ._insert import insert_once
from ._ledger import Ledger, Posted
from ._outbox import Outbox
from ._table import IdempotencyTable

__all__ = ["IdempotencyTable", "Inbox", "Ledger", "Outbox", "Posted", "insert_once"]
