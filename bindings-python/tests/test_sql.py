"""The schemes inside the caller's own SQL transaction: on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

import pathlib
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import postgres
import pytest
import semel
from semel.sql import IdempotencyTable, Inbox, Ledger, Outbox, insert_once

Connect = Callable[[], Any]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str | None]:
    pytest.importorskip("psycopg")
    with postgres.server() as told:
        yield told


@pytest.fixture(params=["sqlite", "postgresql"])
def connect(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Connect]:
    """Connections to one fresh database."""
    made: list[Any] = []

    def sqlite() -> Any:
        made.append(sqlite3.connect(tmp_path / "db", timeout=10, check_same_thread=False))
        return made[-1]

    if request.param == "sqlite":
        yield sqlite
    else:
        import psycopg

        told = request.getfixturevalue("postgresql")
        if told is None:
            pytest.skip("there is no PostgreSQL server here")
        with psycopg.connect(told, autocommit=True) as first:
            first.execute("DROP SCHEMA public CASCADE")
            first.execute("CREATE SCHEMA public")

        def postgresql() -> Any:
            made.append(psycopg.connect(told))
            return made[-1]

        yield postgresql
    for connection in made:
        connection.close()


def rows(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    cursor.execute(statement)
    return [tuple(row) for row in cursor.fetchall()]


def do(connection: Any, statement: str) -> None:
    connection.cursor().execute(statement)


def test_a_row_is_inserted_once(connect: Connect) -> None:
    connection = connect()
    do(connection, "CREATE TABLE orders (no TEXT PRIMARY KEY, amount NUMERIC(9,2), note TEXT, ref TEXT UNIQUE)")
    connection.commit()
    row = {"no": "A", "amount": 10, "note": None, "ref": "r"}
    assert insert_once(connection, "orders", row, key="no") == "inserted"
    connection.rollback()
    assert rows(connection, "SELECT count(*) FROM orders") == [(0,)]
    assert insert_once(connection, "orders", row, key="no") == "inserted"
    connection.commit()
    assert insert_once(connection, "orders", {**row, "amount": 10.00}, key=["no"]) == "exists"
    assert insert_once(connection, "orders", {**row, "note": "x"}, key="no") == "conflict"
    assert insert_once(connection, "orders", {**row, "no": "C"}, key="ref") == "conflict"
    # Another constraint than that of the key is an error as ever.
    with pytest.raises(Exception, match=r"(?i)unique"):
        insert_once(connection, "orders", {**row, "no": "B"}, key="no")
    connection.rollback()
    assert rows(connection, "SELECT no, note FROM orders") == [("A", None)]


@pytest.mark.parametrize(
    ("table", "row", "key"),
    [("a b", {"a": 1}, "a"), ("t", {"a;": 1}, "a;"), ("t", {"a": 1}, "b"), ("t", {"a": 1}, [])],
)
def test_names_and_keys_are_checked(table: str, row: Any, key: Any) -> None:
    with pytest.raises(semel.InvalidInput):
        insert_once(sqlite3.connect(":memory:"), table, row, key=key)


def test_other_connections_are_refused() -> None:
    with pytest.raises(semel.Unsupported, match="sqlite3"):
        insert_once(object(), "t", {"a": 1}, key="a")
    alone = sqlite3.connect(":memory:", isolation_level=None)
    Inbox().create(alone)
    with pytest.raises(semel.InvalidInput, match="no transaction is open"):
        Inbox().consume(alone, "c", "k", lambda connection: None)
    alone.execute("BEGIN")
    assert Inbox().consume(alone, "c", "k", lambda connection: None) == "done"
    alone.execute("ROLLBACK")
    assert rows(alone, "SELECT count(*) FROM semel_inbox") == [(0,)]


def test_inbox(connect: Connect) -> None:
    connection, inbox = connect(), Inbox()
    inbox.create(connection)
    do(connection, "CREATE TABLE done (n INTEGER)")
    connection.commit()

    def work(given: Any) -> str:
        assert given is connection
        do(connection, "INSERT INTO done VALUES (1)")
        return "handled"

    def fails(given: Any) -> None:
        work(given)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        inbox.consume(connection, "c", "m", fails)
    # The caller that catches it and commits has nothing of it.
    connection.commit()
    told = inbox.consume(connection, "c", "m", work)
    assert (told, told.value) == ("done", "handled")
    # A crash between work and commit.
    connection.rollback()
    assert rows(connection, "SELECT count(*) FROM done") == [(0,)]
    assert inbox.consume(connection, "c", "m", work) == "done"
    connection.commit()
    assert inbox.consume(connection, "c", "m", work) == "duplicate"
    assert inbox.consume(connection, "other", "m", work) == "done"
    connection.commit()
    assert rows(connection, "SELECT count(*) FROM done") == [(2,)]
    assert inbox.purge(connection, 3600) == 0
    assert inbox.purge(connection, -1) == 2


def test_two_that_come_together(connect: Connect) -> None:
    inbox, first = Inbox(), connect()
    inbox.create(first)
    do(first, "CREATE TABLE done (n INTEGER)")
    first.commit()
    at_work, told = threading.Barrier(2, timeout=30), []

    def consume() -> None:
        connection = connect()
        at_work.wait()
        try:
            told.append(inbox.consume(connection, "c", "m", lambda _: do(connection, "INSERT INTO done VALUES (1)")))
            connection.commit()
        except sqlite3.OperationalError as error:
            connection.rollback()
            told.append(str(error))
        connection.close()

    threads = [threading.Thread(target=consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["done", "duplicate"] or (isinstance(first, sqlite3.Connection) and "done" in told)
    assert rows(first, "SELECT count(*) FROM done") == [(1,)]


def test_outbox(connect: Connect) -> None:
    connection, outbox = connect(), Outbox()
    outbox.create(connection)
    connection.commit()
    assert outbox.emit(connection, "paid", "lost", {"n": 0})
    connection.rollback()
    for n in (1, 2, 3):
        assert outbox.emit(connection, "paid", n, {"n": n})
    assert not outbox.emit(connection, "paid", 1, {"n": 1})
    with pytest.raises(semel.Mismatch):
        outbox.emit(connection, "paid", 1, {"n": 2})
    with pytest.raises(semel.InvalidInput):
        outbox.emit(connection, "paid", 4, object())
    connection.commit()
    sent: list[tuple[str, Any]] = []

    def send(id: str, message: Any) -> None:
        if id == "2" and len(sent) == 1:
            sent.append(("2?", message))
            raise ConnectionError
        sent.append((id, message))

    with pytest.raises(ConnectionError):
        outbox.relay(connection, "paid", send)
    assert outbox.waiting(connection, "paid") == 2
    connection.rollback()
    assert outbox.relay(connection, "paid", send, limit=1) == 1
    assert outbox.relay(connection, "paid", send) == 1
    assert outbox.relay(connection, "paid", send) == 0
    assert [id for id, _ in sent] == ["1", "2?", "2", "3"]
    assert sent[-1] == ("3", {"n": 3})
    assert outbox.purge(connection, -1) == 3


def test_of_several_relays_one_works(connect: Connect) -> None:
    connection, outbox = connect(), Outbox()
    if isinstance(connection, sqlite3.Connection):
        pytest.skip("SQLite has one writer")
    outbox.create(connection)
    outbox.emit(connection, "paid", 1, {})
    connection.commit()
    told = []
    outbox.relay(connection, "paid", lambda id, message: told.append(outbox.relay(connect(), "paid", print)))
    assert [(int(other), other.busy) for other in told] == [(0, True)]


def test_ledger(connect: Connect) -> None:
    connection, ledger = connect(), Ledger()
    ledger.create(connection)
    connection.commit()

    def post(*args: Any) -> tuple[str, int]:
        told = ledger.post(connection, *args)
        return told.answer, told.balance

    assert post("ann", "b1", 100) == ("posted", 100)
    connection.rollback()
    assert ledger.balance(connection, "ann") == 0
    assert post("ann", "b1", 100) == ("posted", 100)
    assert post("ann", "b1", 100) == ("already_posted", 100)
    assert post("ann", "b1", 99) == ("mismatch", 100)
    assert post("ann", "b2", -101, 0) == ("insufficient", 100)
    assert post("ann", "b2", -100, 0) == ("posted", 0)
    connection.commit()
    assert rows(connection, "SELECT biz_no, delta FROM semel_ledger_entries ORDER BY biz_no") == [("b1", 100), ("b2", -100)]
    for bad in (1.5, True, 2**63):
        with pytest.raises(semel.InvalidInput):
            post("ann", "b3", bad)
    assert post("max", "b1", 2**63 - 1)[0] == "posted"
    with pytest.raises(semel.InvalidInput, match="64 bits"):
        post("max", "b2", 1)
    assert post("max", "b3", -1)[0] == "posted"
    connection.commit()


def test_postings_at_once_lose_nothing(connect: Connect) -> None:
    connection, ledger = connect(), Ledger()
    ledger.create(connection)
    connection.commit()

    def post(number: int) -> None:
        own = connect()
        for turn in range(5):
            while True:
                try:
                    assert ledger.post(own, "ann", f"{number} {turn}", 1).answer == "posted"
                    own.commit()
                    break
                except sqlite3.OperationalError:
                    own.rollback()
        own.close()

    threads = [threading.Thread(target=post, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.balance(connection, "ann") == 15


def test_idempotency_table(connect: Connect) -> None:
    connection, table, count = connect(), IdempotencyTable(), [0]
    table.create(connection)
    connection.commit()

    def work(given: Any) -> Any:
        count[0] += 1
        return {"n": count[0], "text": "ä", "list": [1, None, 1.5]}

    def run(payload: Any = None, **more: Any) -> Any:
        return table.run(connection, "order.create", "A", work, payload=payload, **more)

    with pytest.raises(ZeroDivisionError):
        table.run(connection, "order.create", "A", lambda _: 1 // 0)
    first = run({"amount": 1})
    connection.commit()
    assert run({"amount": 1.0}) == first
    with pytest.raises(semel.Mismatch) as told:
        run({"amount": 2})
    assert told.value.key == (None, "order.create", "A")
    assert run({"amount": 2}, scope="ann")["n"] == 2
    assert run(None, scope="")["n"] == 3
    connection.rollback()
    assert run({"amount": 2}, scope="ann")["n"] == 4
    for bad in ((1, 2), object(), float("nan"), {1: 2}):
        with pytest.raises(semel.InvalidInput, match="taken back"):
            table.run(connection, "bad", "A", lambda _, bad=bad: bad)
    assert table.run(connection, "bad", "A", lambda _: 7) == 7
    connection.commit()
    assert table.purge(connection, 3600) == 0
    assert table.purge(connection, -1) == 3


KILLED = """
import os, signal, sqlite3, sys
from semel.sql import Inbox
connection = sqlite3.connect(sys.argv[1])
def work(_):
    connection.execute("INSERT INTO done VALUES (1)")
    if sys.argv[2] == "in work":
        os.kill(os.getpid(), signal.SIGKILL)
Inbox().consume(connection, "c", "m", work)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("at", ["in work", "before commit"])
def test_a_crash_takes_mark_and_work_back(tmp_path: pathlib.Path, at: str) -> None:
    place = tmp_path / "db"
    connection, inbox = sqlite3.connect(place), Inbox()
    inbox.create(connection)
    connection.execute("CREATE TABLE done (n INTEGER)")
    connection.commit()
    connection.close()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(place), at])
    assert killed.returncode == -signal.SIGKILL
    connection = sqlite3.connect(place)
    assert rows(connection, "SELECT count(*) FROM done") == [(0,)]
    assert inbox.consume(connection, "c", "m", lambda _: None) == "done"
    connection.close()


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_through_sqlalchemy(dialect: str, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    orm = pytest.importorskip("sqlalchemy.orm")
    if dialect == "sqlite":
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'db'}")
    else:
        import psycopg

        told = request.getfixturevalue("postgresql")
        if told is None:
            pytest.skip("there is no PostgreSQL server here")
        engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(told))
    table = IdempotencyTable(f"through_{dialect}")
    with engine.begin() as connection:
        table.create(connection)
    count = [0]

    def work(given: Any) -> int:
        count[0] += 1
        return count[0]

    with orm.Session(engine) as session:
        assert table.run(session, "o", "A", work) == 1
        session.rollback()
        assert table.run(session, "o", "A", work) == 2
        session.commit()
    with engine.begin() as connection:
        assert table.run(connection, "o", "A", work) == 2
    engine.dispose()


def test_schemas_can_be_printed() -> None:
    for made in (Inbox("inbox"), Outbox("outbox"), Ledger("ledger"), IdempotencyTable("ops")):
        for dialect in ("sqlite", "postgresql"):
            assert "CREATE TABLE IF NOT EXISTS" in made.schema(dialect)  # type: ignore[attr-defined]
    sqlite3.connect(":memory:").executescript(Ledger().schema("sqlite"))
    for bad in ("a b", "", "a.b.c", "1a"):
        with pytest.raises(semel.InvalidInput):
            Inbox(bad)
