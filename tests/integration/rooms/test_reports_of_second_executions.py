"""What one process reports of executions whose start is lost, or comes twice, or whose end does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery, signals
from celery._state import _task_stack
from celery.app.task import Context as Request
from celery.app.trace import build_tracer
from celery.exceptions import TimeLimitExceeded
from outbox import take
from support.received import Received

from redisbeater import Run
from redisbeater.context import Context
from redisbeater.model.run import NewRun
from redisbeater.results import State
from redisbeater.runs import OnceTask, stop_requested
from redisbeater.runs.process import Process, flush_all
from redisbeater.store import Execution

pytestmark = [
    pytest.mark.usefixtures("reporting"),
]

#: What a message of beat has in its headers.
HEADERS = {
    "redisbeater_attempt": 1,
    "periodic_task_name": "report",
    "scheduled_for": "2026-11-22T09:00:00+00:00",
    "previous_fire_time": "2026-11-22T06:00:00+00:00",
    "coalesced": 3,
}


@pytest.fixture
def task(app: Celery) -> Any:
    @app.task(name="proj.work", shared=False)
    def work() -> None:
        """Do nothing."""

    return app.tasks["proj.work"]


@pytest.fixture
def once(app: Celery) -> Any:
    @app.task(name="proj.once", shared=False, base=OnceTask, ignore_result=True)
    def once() -> None:
        """Do nothing."""

    return app.tasks["proj.once"]


@contextmanager
def executing(task: Any, *, is_redelivered: bool = False, state: str = "SUCCESS") -> Iterator[Any]:
    """Send the signals of a worker around an execution of the run ``one``; its request is the task's meanwhile."""
    info = {"redelivered": is_redelivered, "routing_key": "celery"}
    facts = {"id": "one", "hostname": "celery@host", "delivery_info": info, "called_directly": False}
    request = Request({**facts, "headers": dict(HEADERS)})
    task.request_stack.push(request)
    _task_stack.push(task)
    try:
        signals.task_prerun.send(sender=task, task_id="one", task=task, args=(), kwargs={})
        yield task.request_stack.top
        signals.task_postrun.send(sender=task, task_id="one", task=task, args=(), kwargs={}, retval=None, state=state)
    finally:
        _task_stack.pop()
        task.request_stack.pop()


def renew(app: Celery, request: Any) -> None:
    """Renew the leases of this process, as if a quarter of that of an execution were over."""
    process = Process.of(app)
    assert process is not None
    running = process.running.of(request)
    assert running is not None
    running.renewed -= running.lease / 4
    process.running.add(request, running)
    done = threading.Event()
    process.outbox.put(lambda: (process.renew(), done.set()))  # type: ignore[arg-type, func-returns-value]
    assert done.wait(10)


def stored(app: Celery) -> Run | None:
    return Context.of(app).redis.runs.run("one")


def test_the_record_of_a_run_that_goes_on_is_written_again(app: Celery, task: Any, client: redis.Redis) -> None:
    store = Context.of(app).redis
    with executing(task) as request:
        client.delete(store.keys.run("one"), store.keys.active)

        renew(app, request)

        run = stored(app)
        assert run is not None
        assert (run.state, run.worker, run.lease_end is not None) == (State.STARTED, "celery@host", True)
        assert stop_requested() is False
        assert [each.id for each in store.runs.active("report")] == ["one"]


def test_an_execution_whose_start_is_lost_gives_way_to_another_that_has_begun(
    app: Celery, task: Any, client: redis.Redis
) -> None:
    store = Context.of(app).redis
    with executing(task) as request:
        client.delete(store.keys.run("one"))
        store.runs.start(Execution(run_id="one", name="report", task="proj.work", holder="w2:2:b"))

        renew(app, request)

        assert stop_requested() is True
        run = stored(app)
        assert run is not None
        assert run.holder == "w2:2:b"


def test_of_two_executions_in_one_process_the_first_is_asked_to_stop(app: Celery, task: Any) -> None:
    with executing(task):
        with executing(task, is_redelivered=True):
            flush_all()
            assert stop_requested() is False
        assert stop_requested() is True


def test_a_task_that_refuses_before_redis_has_answered_is_no_second_execution(app: Celery, once: Any) -> None:
    runs = Context.of(app).redis.runs
    runs.start(Execution(run_id="one", name="report", task="proj.once", holder="w2:2:b"))
    process = Process.of(app)
    assert process is not None
    gate = threading.Event()
    process.outbox.put(lambda: gate.wait(1))  # type: ignore[arg-type, return-value]

    request = {"id": "one", "headers": dict(HEADERS), "hostname": "celery@host", "delivery_info": {}, "is_eager": False}
    build_tracer(once.name, once, app=app, propagate=False)("one", [], {}, request)
    gate.set()
    flush_all()

    run = stored(app)
    assert run is not None
    assert (run.state, run.holder, run.note) == (State.STARTED, "w2:2:b", "")
    assert [message.id for message in take(app)] == ["one"]


def test_a_run_that_was_killed_at_its_time_limit_is_said_to_end_once(
    app: Celery, task: Any, received: Received
) -> None:
    with executing(task):
        process = Process.of(app)
        assert process is not None
        request = SimpleRequest()
        process.received["one"] = request
        for _ in range(2):  # as Celery does
            signals.task_failure.send(sender=task, task_id="one", exception=TimeLimitExceeded(5))
        flush_all()

        run = stored(app)
        assert run is not None
        assert (run.state, run.error) == (State.FAILURE, "TimeLimitExceeded: TimeLimitExceeded(5,)")
        assert [each["state"] for each in received.of("run_finished")] == ["FAILURE"]


def test_a_second_execution_says_neither_that_the_run_began_nor_that_it_ended(
    app: Celery, task: Any, received: Received
) -> None:
    with executing(task), executing(task):
        pass  # the inner one meets the lease of the outer one
    with executing(task):
        pass  # the run has ended
    flush_all()

    assert [each["state"] for each in received.of("run_started")] == ["STARTED"]
    assert [each["state"] for each in received.of("run_finished")] == ["SUCCESS"]
    run = stored(app)
    assert run is not None
    assert run.note == "2 executions"


def test_a_run_that_is_executed_although_somebody_stopped_it_says_that_it_began(
    app: Celery, task: Any, received: Received
) -> None:
    runs, now = Context.of(app).redis.runs, datetime.now(timezone.utc)
    runs.reserve(NewRun(id="one", name="report", task="proj.work", fire_time=now, payload="{}"))
    runs.stop("one")
    with executing(task):
        assert stop_requested() is True
    flush_all()

    assert received.names[-2:] == ["run_started", "run_finished"]


def test_a_task_that_another_calls_as_a_function_is_asked_to_stop_with_it(app: Celery, task: Any) -> None:
    @app.task(name="proj.step", shared=False)
    def step() -> bool:
        return stop_requested()

    with executing(task):
        assert step() is False
        Context.of(app).redis.runs.stop("one")
        with executing(task, is_redelivered=True):
            flush_all()
            assert step() is True
    assert step() is False


class SimpleRequest(SimpleNamespace):
    """What the main process of a worker keeps of the message."""

    def __init__(self) -> None:
        super().__init__(request_dict={"id": "one", "hostname": "celery@host", "headers": dict(HEADERS)})
