"""What type checkers know of the package; checked by mypy, not run."""

from __future__ import annotations

from typing import Any, Literal

import semel
import semel.aio
from typing_extensions import assert_type

store = semel.open("data", durability="sync", shared="never")


@store.idempotent("order.create", key="order_no", fail_on=ValueError, retain="10m")
def create(order_no: str, amount: int = 1) -> dict[str, int]:
    return {order_no: amount}


assert_type(create("1", amount=2), dict[str, int])
create(1)  # type: ignore[arg-type]
create.lookup()  # type: ignore[call-arg]
assert_type(create.lookup("1"), semel.Record | None)
assert_type(create.forget("1"), Literal["forgotten", "absent", "busy"])

assert_type(store.run("o", "1", lambda: 5, wait=1.5), int)
assert_type(store.run("o", "1", lambda ticket: ticket.attempt, pass_ticket=True), int)
store.run("o", "1", lambda: 5, weight=1)  # type: ignore[call-overload]
store.claim("o", "1", in_doubt="maybe")  # type: ignore[arg-type]

claim = store.claim("o", 7, scope=semel.GLOBAL, payload={"a": 1}, lease="never", confirm=lambda record: semel.STILL)
assert_type(claim.fence, int | None)
assert_type(claim.result(str), str)
assert_type(claim.complete("x"), str)
assert_type(store.transaction(lambda tx: tx.table("t").put("1", 1)), int)
assert_type(store.table("t").modify("1", lambda old: 5), int)
assert_type(store.outbox("t").relay(print), semel.Relayed)
with store.lock_rows("t", ["1"], timeout=5) as rows:
    assert_type(rows, semel.Rows)


@store.idempotent("order.create", key="order_no")
async def create_async(order_no: str) -> int:
    return 1


async def main() -> None:
    assert_type(await create_async("1"), int)
    shared: Any = semel.aio.open("data")
    await shared.close()
