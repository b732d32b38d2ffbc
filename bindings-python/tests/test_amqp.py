"""Consumers of RabbitMQ, on a channel that keeps what it was told."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import semel
from semel import amqp


class Channel:
    """The part of a channel of pika that a consumer touches: a queue, and its dead letters."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def basic_ack(self, delivery_tag: int = 0) -> None:
        self.told.append(("ack", delivery_tag))

    def basic_reject(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        self.told.append(("requeue" if requeue else "dead", delivery_tag))


@pytest.fixture
def channel() -> Channel:
    return Channel()


def deliver(consume: Any, channel: Channel, body: Any = None, kind: str | None = "application/json") -> Any:
    tag = len(channel.told) + 1
    properties = SimpleNamespace(content_type=kind, message_id=f"broker-{tag}")
    text = body if isinstance(body, bytes) else json.dumps(body or {"no": "pay:777", "amount": 3}).encode()
    return consume(channel, SimpleNamespace(delivery_tag=tag), properties, text)


def by_number(message: amqp.Message) -> Any:
    return message.body["no"]


def test_a_message_is_handled_once_and_acknowledged_each_time(store: semel.Store, channel: Channel) -> None:
    def book(tx: semel.Transaction, message: amqp.Message) -> int:
        return tx.ledger("wallet").post("anna", message.body["no"], message.body["amount"]).balance or 0

    consume = amqp.consumer(store, "billing", key=by_number, work=book)
    first, again = deliver(consume, channel), deliver(consume, channel)
    assert (first, first.value, again) == ("done", 3, "duplicate")
    assert channel.told == [("ack", 1), ("ack", 2)]
    assert store.ledger("wallet").balance("anna") == 3


def test_work_that_raises_is_tried_again_and_then_rejected(store: semel.Store, channel: Channel) -> None:
    errors = []

    def fails(tx: semel.Transaction, message: amqp.Message) -> None:
        tx.ledger("wallet").post("anna", message.body["no"], 3)
        raise ConnectionError("the bank")

    consume = amqp.consumer(
        store, "billing", key=by_number, work=fails, max_attempts=2, on_error=lambda message, error: errors.append(error)
    )
    told = [deliver(consume, channel) for _ in range(3)]
    assert told == [None, None, "rejected"]
    assert [word for word, _ in channel.told] == ["requeue", "requeue", "dead"]
    assert [type(error) for error in errors] == [ConnectionError, ConnectionError]
    assert store.ledger("wallet").balance("anna") == 0


def test_what_another_consumer_works_at_is_put_back(store: semel.Store, channel: Channel) -> None:
    at_work, go_on, pauses = threading.Event(), threading.Event(), []

    def slow(tx: semel.Transaction, message: amqp.Message) -> None:
        at_work.set()
        assert go_on.wait(30)

    consume = amqp.consumer(store, "billing", key=by_number, work=slow, sleep=pauses.append)
    other = Channel()
    thread = threading.Thread(target=deliver, args=(consume, other))
    thread.start()
    assert at_work.wait(30)
    assert deliver(consume, channel) == "busy"
    go_on.set()
    thread.join()
    assert (channel.told, other.told) == ([("requeue", 1)], [("ack", 1)])
    assert 0 < pauses[0] <= 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"{", "application/json"), (b"{}", "application/json"), (b'{"no": ""}', "application/x+json"), (b"raw", None)],
)
def test_what_no_attempt_can_help_is_rejected(store: semel.Store, channel: Channel, body: bytes, kind: str | None) -> None:
    consume = amqp.consumer(store, "billing", key=by_number, work=lambda tx, message: pytest.fail("it was handled"))
    assert deliver(consume, channel, body, kind) is None
    assert channel.told == [("dead", 1)]


def test_a_body_that_is_no_json_is_bytes(store: semel.Store, channel: Channel) -> None:
    seen = []
    consume = amqp.consumer(
        store, "c", key=lambda message: message.body.decode(), work=lambda tx, message: seen.append(message.body)
    )
    assert deliver(consume, channel, b"A-7", None) == "done"
    assert seen == [b"A-7"]


def test_a_store_that_cannot_say_loses_nothing(store: semel.Store, channel: Channel) -> None:
    pauses: list[float] = []
    consume = amqp.consumer(store, "billing", key=by_number, work=lambda tx, message: None, sleep=pauses.append)
    store.close()
    assert deliver(consume, channel) is None
    assert (channel.told, pauses) == ([("requeue", 1)], [1.0])


def test_functions_are_asked_for(store: semel.Store) -> None:
    with pytest.raises(semel.InvalidInput, match="key"):
        amqp.consumer(store, "c", key="no", work=print)  # type: ignore[arg-type]
