"""Consumers of RabbitMQ: what came of a message decides what becomes of it.

For channels that are shaped like those of pika. A message that was handled, now or before, is acknowledged; one that another
consumer works at is put back; one whose attempts are used up goes to the dead letters of the queue.

    channel.basic_consume("payments", semel.amqp.consumer(store, "billing", key=lambda m: m.body["pay_no"], work=book))
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from ._errors import InvalidInput, StoreError
from ._schemes import Consumed
from ._store import Store

__all__ = ["Message", "consumer"]

log = logging.getLogger("semel")

#: The longest pause before a message is put back, in seconds: a broker that gives it out again at once would spin.
_LONGEST_PAUSE_SECONDS = 1.0


class Message:
    """A message as it came: ``body`` (read from JSON where its content type says so, else bytes), ``method``, ``properties``."""

    __slots__ = ("body", "method", "properties")

    def __init__(self, method: Any, properties: Any, body: bytes) -> None:
        self.method = method
        self.properties = properties
        kind = str(getattr(properties, "content_type", None) or "").partition(";")[0].strip()
        self.body: Any = json.loads(body) if kind == "application/json" or kind.endswith("+json") else body


def consumer(
    store: Store,
    name: str,
    *,
    key: Callable[[Message], Any],
    work: Callable[..., Any],
    sleep: Callable[[float], object] = time.sleep,
    on_error: Callable[[Message, Exception], object] | None = None,
    **options: Any,
) -> Callable[[Any, Any, Any, bytes], Consumed | None]:
    """A callback for ``channel.basic_consume``, with acknowledgements by hand (``auto_ack=False``, which is pika's default).

    ``key(message)`` is the number of the business: the order, the payment. Never the message id of the broker, nor the delivery
    tag, which are others when the same thing is published again. ``work(tx, message)`` handles the message; what it writes to
    the store by ``tx`` is committed with the mark that it was handled. Options are those of ``Store.consume``: max_attempts (5),
    lease, retain, wait, durability.

    | what came of it | the message is |
    |---|---|
    | done, or a duplicate | acknowledged |
    | busy: another consumer works at it | put back, after a pause of at most a second |
    | the work raised | put back; ``on_error(message, error)`` is told, or it is logged |
    | rejected: its attempts are used up | rejected: to the dead letters of the queue |
    | its body is no JSON, or its key cannot be used | rejected, since no attempt can help |
    | the store cannot say | put back, after a pause |

    Gives what came of the message, or None when it was not told.
    """
    for given, function in (("key", key), ("work", work)):
        if not callable(function):
            raise InvalidInput(f"{given} is not callable; give a function")

    def consume(channel: Any, method: Any, properties: Any, body: bytes) -> Consumed | None:
        tag = method.delivery_tag
        try:
            message = Message(method, properties, body)
            number = key(message)
        except Exception as error:
            log.error("a message for %s has no key: %r; it is rejected", name, error)
            channel.basic_reject(tag, requeue=False)
            return None
        try:
            told = store.consume(name, number, lambda tx: work(tx, message), **options)
        except InvalidInput as error:
            log.error("a message for %s cannot be consumed: %s; it is rejected", name, error)
            channel.basic_reject(tag, requeue=False)
            return None
        except StoreError as error:
            log.error("the store cannot say whether %s of %s was handled: %s; it is put back", number, name, error)
            sleep(_LONGEST_PAUSE_SECONDS)
            channel.basic_reject(tag, requeue=True)
            return None
        except Exception as error:
            if on_error is None:
                log.exception("the work of %s of %s failed; it is put back", number, name)
            else:
                on_error(message, error)
            channel.basic_reject(tag, requeue=True)
            return None
        if told in ("done", "duplicate"):
            channel.basic_ack(tag)
        elif told == "busy":
            sleep(min(told.retry_after or 0.0, _LONGEST_PAUSE_SECONDS))
            channel.basic_reject(tag, requeue=True)
        else:
            log.error("the attempts at %s of %s are used up: %s; it is rejected", number, name, told.failure)
            channel.basic_reject(tag, requeue=False)
        return told

    return consume
