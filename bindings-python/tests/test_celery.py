"""Tasks of Celery under real workers: delivered again, at once, and after a worker was killed."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import semel

celery = pytest.importorskip("celery")

from semel.celery import IdempotentTask  # noqa: E402


@pytest.fixture
def app(store: semel.Store) -> Iterator[Any]:
    """An application whose worker runs in threads of this process, and whose broker is memory."""
    from celery.contrib.testing.worker import start_worker

    made = celery.Celery("shop", broker="memory://", backend="cache+memory://", task_cls=IdempotentTask, set_as_current=False)
    made.conf.update(semel_store=store, worker_hijack_root_logger=False, broker_transport_options={"polling_interval": 0.01})
    calls: list[Any] = []
    made.calls = calls
    made.gate = threading.Event()
    made.at_work = threading.Event()

    @made.task(
        shared=False, name="pay", semel={"key": "order_no", "fail_on": (LookupError,), "retry_on": ConnectionRefusedError}
    )
    def pay(order_no: str, amount: int = 1) -> Any:
        calls.append(order_no)
        if amount == 0:
            raise LookupError("no money")
        if amount < 0:
            raise ValueError("nobody knows")
        return {"order": order_no, "nth": len(calls), "key": semel.current().derive_key("x")}  # type: ignore[union-attr]

    @made.task(shared=False, name="plain")
    def plain() -> int:
        calls.append("plain")
        return len(calls)

    @made.task(shared=False, name="slow", semel={"key": "no"})
    def slow(no: str) -> str:
        calls.append(no)
        made.at_work.set()
        assert made.gate.wait(30)
        return "slow"

    @made.task(shared=False, name="again", bind=True, semel={"key": "no"}, max_retries=2)
    def again(self: Any, no: str) -> str:
        calls.append(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(countdown=0.01)
        return "at last"

    with start_worker(made, pool="threads", concurrency=4, perform_ping_check=False, shutdown_timeout=30):
        yield made


def get(result: Any) -> Any:
    return result.get(timeout=60, disable_sync_subtasks=False, interval=0.01)


def test_a_repeat_succeeds_with_the_first_result(app: Any) -> None:
    first = get(app.tasks["pay"].delay("A"))
    assert get(app.tasks["pay"].delay("A")) == first
    assert get(app.tasks["pay"].delay(order_no="B"))["nth"] == 2
    assert app.calls == ["A", "B"]
    with pytest.raises(semel.Mismatch):
        get(app.tasks["pay"].delay("A", 2))


def test_without_a_key_the_id_of_the_task_is_it(app: Any) -> None:
    plain = app.tasks["plain"]
    assert [get(plain.apply_async(task_id=task)) for task in ("t1", "t2")] == [1, 2]
    # Delivered again: the backend has the result of then, so that the store is asked.
    app.backend.forget("t1")
    assert get(plain.apply_async(task_id="t1")) == 1
    assert app.calls == ["plain", "plain"]
    assert plain() == 3


def test_what_exceptions_say(app: Any) -> None:
    pay = app.tasks["pay"]
    with pytest.raises(LookupError):
        get(pay.delay("F", 0))
    with pytest.raises(semel.Failed, match="no money"):
        get(pay.delay("F", 0))
    with pytest.raises(ValueError, match="nobody knows"):
        get(pay.delay("D", -1))
    with pytest.raises(semel.InDoubt):
        get(pay.delay("D", -1))
    assert app.calls == ["F", "D"]


def test_a_task_that_another_worker_runs_is_sent_again(app: Any) -> None:
    slow = app.tasks["slow"]
    first = slow.delay("S")
    assert app.at_work.wait(30)
    second = slow.delay("S")
    # The second is told that it is busy before the first may end.
    watch = threading.Event()
    original = IdempotentTask._later

    def later(self: Any, *args: Any) -> None:
        original(self, *args)
        watch.set()

    IdempotentTask._later = later  # type: ignore[method-assign]
    try:
        third = slow.delay("S")
        assert watch.wait(30)
        app.gate.set()
        assert [get(result) for result in (first, second, third)] == ["slow"] * 3
    finally:
        IdempotentTask._later = original  # type: ignore[method-assign]
    assert app.calls == ["S"]


def test_a_task_that_retries_runs_again(app: Any) -> None:
    assert get(app.tasks["again"].delay("R")) == "at last"
    assert get(app.tasks["again"].delay("R")) == "at last"
    assert app.calls == [0, 1, 2]


def test_what_is_wrong_is_told_early(store: semel.Store) -> None:
    made = celery.Celery("shop", broker="memory://", task_cls=IdempotentTask, set_as_current=False)

    @made.task(shared=False, name="wrong", semel={"key": "oder_no"})
    def wrong(order_no: str) -> None: ...

    with pytest.raises(semel.InvalidInput, match="no parameter 'oder_no'"):
        made.finalize()
    made = celery.Celery("shop", broker="memory://", task_cls=IdempotentTask, set_as_current=False)

    @made.task(shared=False, name="right", semel={"key": "order_no"})
    def right(order_no: str) -> int:
        return 7

    with pytest.raises(semel.InvalidInput, match="semel_store"):
        right("A")
    made.conf.semel_store = store
    assert right("A") == right.apply(["A"]).get() == 7


KILLED = """
import os, signal, pathlib, sys
import celery, semel.celery
root = os.environ["SEMEL_TEST_ROOT"]
app = celery.Celery("shop", broker="filesystem://", backend=f"file://{root}/results", task_cls=semel.celery.IdempotentTask)
app.conf.update(
    semel_store=f"{root}/s", worker_prefetch_multiplier=1,
    broker_transport_options={"data_folder_in": f"{root}/q", "data_folder_out": f"{root}/q", "processed_folder": f"{root}/p", "polling_interval": 0.05},
)
@app.task(name="pay", semel={"key": "no", "lease": "500ms", "in_doubt": os.environ["SEMEL_TEST_POLICY"]})
def pay(no):
    with open(f"{root}/log", "a") as log:
        log.write("x")
    if pathlib.Path(f"{root}/log").read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"
"""


@pytest.mark.parametrize("policy", ["hold", "rerun"])
def test_a_killed_worker(tmp_path: pathlib.Path, policy: str) -> None:
    """A prefork worker with a broker of files: the child is killed in the middle of its task, which is delivered again."""
    (tmp_path / "shop.py").write_text(KILLED)
    for folder in ("q", "p", "results"):
        (tmp_path / folder).mkdir()
    environ = {**os.environ, "SEMEL_TEST_ROOT": str(tmp_path), "SEMEL_TEST_POLICY": policy, "C_FORCE_ROOT": "1"}
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "prefork", "-c", "2", "-l", "WARNING"]
    ask = "import shop\nr = shop.pay.delay('A')\ntry:\n print(r.get(timeout=60))\nexcept Exception as e:\n print(type(e).__name__)"
    worker = subprocess.Popen(
        [*command, "--without-gossip", "--without-mingle", "--without-heartbeat"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        told = subprocess.run(
            [sys.executable, "-c", ask], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=90
        )
        effects = (tmp_path / "log").read_text()
        assert (told.stdout.split(), effects) == (["InDoubt"], "x") if policy == "hold" else (["paid"], "xx"), told.stderr
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
