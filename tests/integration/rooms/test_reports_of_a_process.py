"""What one process reports of the tasks that it executes, by the signals that Celery sends, without a worker."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import time_machine
from celery import Celery, signals
from celery.app.task import Context as Request
from celery.exceptions import Retry
from support.waiting import wait_until

import redisbeater.runs
from redisbeater import Run
from redisbeater.context import Context
from redisbeater.results import State
from redisbeater.runs import stop_requested
from redisbeater.runs.process import Process

#: What a message of beat has in its headers.
HEADERS = {"redisbeater_attempt": 1, "periodic_task_name": "report", "scheduled_for": "2026-11-22T09:00:00+00:00"}

THREAD = "redisbeater-runs"

#: By how much times may differ on a machine that is busy.
SLACK = timedelta(seconds=30)


@pytest.fixture
def task(app: Celery) -> Any:
    redisbeater.runs.install(app)
    redisbeater.runs.install(app)  # once is enough, twice is no error

    @app.task(name="proj.work", shared=False)
    def work() -> None:
        """Do nothing."""

    app.finalize()
    return app.tasks["proj.work"]


@contextmanager
def executing(
    task: Any, run_id: str, *, state: str | None = "SUCCESS", retval: Any = None, **headers: Any
) -> Iterator[None]:
    """Send the signals of a worker around the execution of a message."""
    own = {name: value for name, value in {**HEADERS, **headers}.items() if value is not None}
    task.request_stack.push(Request({"id": run_id, "hostname": "celery@host", "delivery_info": {}, "headers": own}))
    try:
        signals.task_prerun.send(sender=task, task_id=run_id, task=task, args=(), kwargs={})
        yield
        signals.task_postrun.send(
            sender=task, task_id=run_id, task=task, args=(), kwargs={}, retval=retval, state=state
        )
    finally:
        task.request_stack.pop()


def stored(app: Celery, run_id: str) -> Run:
    run = Context.of(app).redis.runs.run(run_id)
    assert run is not None
    return run


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == THREAD]


def test_a_run_is_reported_from_its_start_to_its_end(app: Celery, task: Any) -> None:
    with executing(task, "one"):
        assert stored(app, "one").state == State.STARTED

    assert stored(app, "one").state == State.SUCCESS


@pytest.mark.parametrize(
    ("headers", "attempt"),
    [
        pytest.param({"redisbeater_attempt": "two"}, 1, id="no number"),
        pytest.param({"redisbeater_attempt": -3}, 1, id="below one"),
        pytest.param({"redisbeater_attempt": "2"}, 2, id="a text"),
        pytest.param({"scheduled_for": "soon"}, 1, id="no time"),
        pytest.param({"scheduled_for": 7}, 1, id="a number for a time"),
        pytest.param({"scheduled_for": None}, 1, id="without a time"),
        pytest.param({"scheduled_for": "0001-01-01T00:00+23:59"}, 1, id="a time before the calendar"),
        pytest.param({"redisbeater_step": [1]}, 1, id="a list for a step"),
    ],
)
def test_headers_that_another_program_wrote_do_no_harm(
    app: Celery, task: Any, caplog: pytest.LogCaptureFixture, headers: dict[str, Any], attempt: int
) -> None:
    with executing(task, "one", **headers):
        pass

    assert (stored(app, "one").state, stored(app, "one").attempt) == (State.SUCCESS, attempt)
    line = f"the message of run one has headers that beat did not write, and that are ignored: {', '.join(headers)}"
    assert caplog.messages == ([line] if attempt == 1 else [])


@pytest.mark.parametrize("name", ["\ud800", "", None, 5, ":own", "x" * 600])
def test_a_run_that_names_no_entry_is_not_recorded_and_harms_nobody(
    app: Celery, task: Any, caplog: pytest.LogCaptureFixture, name: Any
) -> None:
    with executing(task, "odd", periodic_task_name=name), executing(task, "one"):
        pass

    assert Context.of(app).redis.runs.run("odd") is None
    assert stored(app, "one").state == State.SUCCESS
    [line] = caplog.messages
    assert line.endswith("has headers that beat did not write, and that are ignored: periodic_task_name")


@pytest.mark.parametrize(
    "request_dict",
    [
        {"id": "\ud800", "headers": HEADERS},
        {"id": 5, "headers": HEADERS},
        {"id": "one", "headers": "redisbeater_attempt"},
    ],
)
def test_a_message_that_can_be_no_run_is_none(
    task: Any, caplog: pytest.LogCaptureFixture, request_dict: dict[str, Any]
) -> None:
    before = threads()
    task.request_stack.push(Request({"hostname": "celery@host", "delivery_info": {}, **request_dict}))
    signals.task_prerun.send(sender=task, task_id="one", task=task, args=(), kwargs={})
    received = SimpleNamespace(id=request_dict["id"], request_dict=request_dict)
    signals.task_received.send(sender=task, request=received)
    signals.task_postrun.send(sender=task, task_id="one", task=task, args=(), kwargs={}, retval=1, state="SUCCESS")
    task.request_stack.pop()

    assert (threads(), caplog.messages) == (before, [])


def test_messages_without_the_header_start_no_thread(task: Any) -> None:
    before = threads()
    with executing(task, "one", redisbeater_attempt=None):
        pass

    assert threads() == before


def test_eager_tasks_are_no_runs(app: Celery, task: Any) -> None:
    app.conf.task_always_eager = True

    task.apply_async(task_id="one", headers=HEADERS)
    task.apply(task_id="two", headers=HEADERS)

    assert Context.of(app).redis.runs.many(["one", "two"]) == {}


def test_settings_that_cannot_be_used_are_logged_once_and_cost_no_task(
    make_app: Callable[..., Celery], caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(redisbeater_run_timeout=-1)

    @app.task(name="proj.work", shared=False)
    def work() -> None:
        """Do nothing."""

    app.finalize()
    for run_id in ("one", "two"):
        with executing(app.tasks["proj.work"], run_id):
            pass

    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "runs are not reported, correct the settings and restart the worker"
    ]
    assert "redisbeater_run_timeout" in caplog.text


def test_a_child_reports_on_a_connection_of_its_own_whatever_its_parent_was_doing(app: Celery, task: Any) -> None:
    def report() -> None:
        with executing(task, "of the child"):
            pass

    with executing(task, "of the parent"):
        child = multiprocessing.get_context("fork").Process(target=report)
        child.start()
        child.join(30)

    assert child.exitcode == 0
    runs = [stored(app, run_id) for run_id in ("of the parent", "of the child")]
    assert [run.state for run in runs] == [State.SUCCESS, State.SUCCESS]
    assert runs[1].pid == child.pid != runs[0].pid


def test_a_result_is_kept_only_where_the_setting_asks_for_it(make_app: Callable[..., Celery]) -> None:
    results = []
    for name, keeps in (("with", True), ("without", False)):
        app = make_app(redisbeater_run_results=keeps)

        @app.task(name="proj.work", shared=False)
        def work() -> None:
            """Do nothing."""

        app.finalize()
        with executing(app.tasks["proj.work"], name, retval={"rows": 3}):
            pass
        results.append(stored(app, name).result)

    assert results == ["{'rows': 3}", ""]


def test_a_task_that_was_interrupted_has_no_end_but_a_short_lease(app: Celery, task: Any) -> None:
    with executing(task, "one", state=None):
        pass

    run = stored(app, "one")
    assert (run.state, run.error) == (State.STARTED, "its task was interrupted")
    assert run.lease_end is not None
    assert run.lease_end.timestamp() - time.time() < 11


def test_outside_of_a_run_nobody_asks_to_stop(task: Any) -> None:
    assert stop_requested() is False


def test_a_lease_is_renewed_when_a_quarter_of_it_is_over_and_not_before(app: Celery, task: Any) -> None:
    process = Process.of(app)
    assert process is not None
    with executing(task, "one"):
        running = process.running.of(task.request)
        assert running is not None
        assert process.running.to_renew() == []  # it has just begun

        running.renewed -= running.lease / 4
        process.running.add(task.request, running)

        assert process.running.to_renew() == [running]
        assert process.running.renew_at() <= time.monotonic()


@pytest.mark.parametrize("wrong_by", [timedelta(hours=1), timedelta(hours=-1)], ids=["ahead", "behind"])
@pytest.mark.parametrize("is_number", [True, False], ids=["seconds", "a-time"])
def test_times_and_leases_are_those_of_the_server_where_the_clock_of_a_worker_is_wrong(
    app: Celery, task: Any, client: redis.Redis, wrong_by: timedelta, is_number: bool
) -> None:
    with time_machine.travel(datetime.now(timezone.utc) + wrong_by):
        process = Process.of(app)
        assert process is not None
        retry_at = datetime.now(timezone.utc) + timedelta(seconds=60)
        with executing(task, "one", state="RETRY", retval=Retry(when=60 if is_number else retry_at)):
            running = process.running.of(task.request)
            assert running is not None
            running.renewed -= running.lease / 4
            process.running.add(task.request, running)
            process.outbox.put(process.renew)
            started = stored(app, "one")
        waiting = stored(app, "one")
        with executing(task, "one", redisbeater_step=1):
            pass

    run, now = stored(app, "one"), datetime.fromtimestamp(client.time()[0], timezone.utc)  # type: ignore[index]
    times = (started.started_at, started.seen_at, run.started_at, run.finished_at)
    assert [time for time in times if time is None or abs(time - now) > SLACK] == []
    assert started.lease_end is not None
    assert abs(started.lease_end - now - timedelta(seconds=60)) < SLACK
    assert waiting.lease_end is not None
    assert abs(waiting.lease_end - now - timedelta(seconds=60 + 3600)) < SLACK
    assert (run.state, run.starts) == (State.SUCCESS, 2)
    assert run.took is not None
    assert run.took < SLACK.total_seconds()
    assert [each.id for each in Context.of(app).redis.runs.history("report", before=now + SLACK)] == ["one"]


def test_a_start_that_waits_to_be_written_comes_before_its_renewal(app: Celery, task: Any) -> None:
    process = Process.of(app)
    assert process is not None
    with executing(task, "one"):
        request = task.request  # that of this thread
        running = process.running.of(request)
        assert running is not None
        before, seen = running.lease_end, []

        def renew() -> None:
            running.answer = ""  # as if Redis had been away
            running.renewed -= running.lease / 4
            process.running.add(request, running)
            process.renew()
            seen.append(running.lease_end)

        # In the thread of the reports, which renews by itself as soon as none waits.
        process.outbox.put(renew)

        assert wait_until(lambda: seen, "the renewal") == [before]
    assert process.running.to_renew() == []
