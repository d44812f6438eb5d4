"""Tasks whose ``apply_async`` publishes nothing, another id or several messages, or wants to end the process."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, Task
from celery.exceptions import WorkerShutdown
from celery.result import EagerResult
from celery.signals import after_task_publish
from click.testing import CliRunner
from due import ago, save_due, stored
from outbox import run_due, take
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.beat.heartbeat import PERIOD_SECONDS
from redisbeater.cli import redisbeater
from redisbeater.exceptions import SendFailed

BROKER_DB = 1

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


class Switch(Task):  # type: ignore[misc]
    """Does with a run what a test says."""

    how: Any = None

    def apply_async(self, *args: Any, **options: Any) -> Any:
        return type(self).how(super().apply_async, *args, **options)


@pytest.fixture(params=["memory", "one step", "two steps"])
def app(request: pytest.FixtureRequest, make_app: MakeApp, server: Server) -> Celery:
    """An app whose runs are tracked, with a task that a test switches."""
    settings: dict[str, Any] = {"redisbeater_track_runs": True}
    if request.param != "memory":
        settings.update(broker_url=server.url(BROKER_DB), redisbeater_one_commit=request.param == "one step")
    return make_app(**settings)


@pytest.fixture
def switch(app: Celery) -> type[Switch]:
    kind = type("OwnSwitch", (Switch,), {"how": staticmethod(lambda send, *args, **options: send(*args, **options))})
    app.task(name="proj.flag", base=kind, shared=False)(work)
    return kind


def work(*_: Any) -> None: ...


def nothing(*_: Any, **__: Any) -> None:
    return None


def rejected(*_: Any, **__: Any) -> EagerResult:
    return EagerResult(None, None, "REJECTED")


def of_another_run(app: Celery) -> Callable[..., Any]:
    return lambda *_, **__: app.AsyncResult("the-run-before")


def another_task(send: Any, *args: Any, **options: Any) -> None:
    send.__self__.app.send_task("proj.audit", headers={"periodic_task_name": "audit"})


def due_again(app: Celery, name: str) -> None:
    ScheduleStore(app).get(name).reschedule(ago(seconds=61))


@pytest.mark.parametrize("how", ["none", "eager", "another run", "another task"])
def test_a_run_of_which_nothing_is_published_is_declined_and_blocks_nothing(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], how: str
) -> None:
    scheduler, store = make_scheduler(app), ScheduleStore(app)
    ways: dict[str, Any] = {"none": nothing, "eager": rejected, "another run": of_another_run(app)}
    switch.how = staticmethod(ways.get(how, another_task))  # type: ignore[assignment]
    save_due(app, "report", "proj.flag", overlap="skip")
    save_due(app, "other")

    scheduler.tick()

    assert [sent.name for sent in take(app) if sent.name != "audit"] == ["other"]
    entry = stored(app, "report")
    assert (entry.total_run_count, entry.state) == (0, "enabled")
    assert {reason: skipped.count for reason, skipped in entry.skipped.items()} == {"declined": 1}
    assert store.runs.active("report") == []
    assert [line.details["reason"] for line in store.log("report") if line.what == "skipped"] == ["declined"]

    switch.how = staticmethod(lambda send, *args, **options: send(*args, **options))  # type: ignore[assignment]
    due_again(app, "report")
    scheduler.tick()

    [sent] = take(app)
    [run] = store.runs.active("report")
    assert (run.id, run.state) == (sent.id, "SENT")


def test_what_is_declined_is_shown(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redisbeater")
    scheduler, store = make_scheduler(app), ScheduleStore(app)
    switch.how = staticmethod(nothing)  # type: ignore[assignment]
    at = save_due(app, "report", "proj.flag").due_at
    assert at is not None

    for number in range(3):
        if number:
            due_again(app, "report")
        scheduler.tick()

    declining = [line for line in caplog.messages if "its apply_async published nothing" in line]
    assert declining == ["entry 'report': its apply_async published nothing, so the run is declined"]
    run = lambda *words: CliRunner().invoke(redisbeater, list(words), obj=SimpleNamespace(app=app)).output  # noqa: E731
    assert "3 skipped (declined" in run("show", "report")
    assert run("history", "report").count("declined") == 3
    assert " declined " in run("list").splitlines()[2]
    answer = store.why("report")
    assert (answer.verdict, answer.sentence.partition(" at ")[0]) == (
        "declined",
        "Declined: its apply_async published nothing",
    )
    assert store.why("report", at).verdict == "declined"

    switch.how = staticmethod(lambda send, *args, **options: send(*args, **options))  # type: ignore[assignment]
    due_again(app, "report")
    scheduler.tick()
    assert (
        caplog.messages.count("entry 'report': its apply_async publishes one message again, with the id of the run")
        == 1
    )
    assert store.why("report").verdict != "declined"


def test_declined_runs_are_counted_as_skipped_and_not_as_sent(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], let_pass: Callable[[float], None]
) -> None:
    scheduler = make_scheduler(app)
    scheduler.tick()
    switch.how = staticmethod(nothing)  # type: ignore[assignment]
    save_due(app, "report", "proj.flag")
    scheduler.tick()
    let_pass(PERIOD_SECONDS)
    scheduler.tick()

    [beat] = ScheduleStore(app).status().beats
    assert (beat.sent, beat.sent_apart, dict(beat.skipped_by)) == (0, 0, {"declined": 1})


def every_second(ids: list[str]) -> Any:
    """Return what publishes the first run, the third one, and so on."""

    def publish(send: Any, *args: Any, **options: Any) -> Any:
        ids.append(options["task_id"])
        return send(*args, **options) if len(ids) % 2 else None

    return staticmethod(publish)


@pytest.mark.parametrize("max_runs", [None, 3])
def test_of_runs_that_catch_up_those_that_are_declined_do_not_count(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], max_runs: int | None
) -> None:
    scheduler, store = make_scheduler(app), ScheduleStore(app)
    ids: list[str] = []
    switch.how = every_second(ids)
    last = ago(seconds=60 * 6 + 30)
    RedisScheduleEntry("report", "proj.flag", 60.0, app=app, last_run_at=last, coalesce="all", max_runs=max_runs).save()

    wait_until(lambda: scheduler.tick() > 0, "nothing is due")

    sent, entry = take(app), stored(app, "report")
    assert [each.id for each in sent] == ids[::2]
    assert len(ids) == (max_runs or 6)
    assert entry.total_run_count == len(sent) == (len(ids) + 1) // 2
    assert entry.skipped["declined"].count == len(ids) // 2
    assert {run.id for run in store.runs.active("report")} == {each.id for each in sent}
    assert entry.state == "enabled"  # one of its runs is left


def test_a_run_has_the_id_that_its_task_gives_the_message(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], caplog: pytest.LogCaptureFixture
) -> None:
    def own_id(send: Any, args: Any = None, kwargs: Any = None, task_id: str = "", **options: Any) -> Any:
        return send(args, kwargs, task_id=f"own-{task_id}", **options)

    scheduler = make_scheduler(app)
    switch.how = staticmethod(own_id)  # type: ignore[assignment]
    save_due(app, "report", "proj.flag", overlap="skip")

    scheduler.tick()

    [sent] = take(app)
    assert sent.id.startswith("own-")
    assert [run.id for run in ScheduleStore(app).runs.active("report")] == [sent.id]
    assert "gives the message an id of its own" in caplog.text

    run_id = ScheduleStore(app).trigger("report", overlap="allow")
    [triggered] = take(app)
    assert triggered.id == run_id
    assert [run.id for run in ScheduleStore(app).runs.active("report")] == [sent.id]


def test_of_several_messages_for_one_run_only_the_first_is_the_run(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], caplog: pytest.LogCaptureFixture
) -> None:
    def twice(send: Any, *args: Any, task_id: str = "", **options: Any) -> Any:
        send(*args, **options)
        return send(*args, task_id=task_id, **options)

    scheduler = make_scheduler(app)
    switch.how = staticmethod(twice)  # type: ignore[assignment]
    save_due(app, "report", "proj.flag")

    scheduler.tick()

    first, second = take(app)
    assert [run.id for run in ScheduleStore(app).runs.active("report")] == [first.id]
    assert ("redisbeater_attempt" in first.headers, "redisbeater_attempt" in second.headers) == (True, False)
    assert stored(app, "report").total_run_count == 1
    assert "published several messages for one run" in caplog.text


def test_a_trigger_that_its_task_declines_fails(app: Celery, switch: type[Switch]) -> None:
    store = ScheduleStore(app)
    store.create("report", "proj.flag", 3600)
    switch.how = staticmethod(nothing)  # type: ignore[assignment]

    with pytest.raises(SendFailed, match="was not triggered, its apply_async published nothing"):
        store.trigger("report")

    assert take(app) == []
    assert store.runs.active("report") == []


def test_a_task_that_beat_executes_itself_was_sent(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    app = make_app(task_always_eager=True)
    executed: list[Any] = []

    @app.task(name="proj.work", shared=False)
    def executing(*args: Any) -> None:
        executed.extend(args)

    save_due(app, "report", args=[1])

    make_scheduler(app).tick()

    assert executed == [1]
    assert stored(app, "report").total_run_count == 1


def test_messages_count_where_an_application_has_removed_all_receivers(
    app: Celery, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(app)
    monkeypatch.setattr(after_task_publish, "receivers", [])
    after_task_publish.sender_receivers_cache.clear()
    save_due(app, "report")

    assert len(run_due(scheduler)) == 1
    assert stored(app, "report").total_run_count == 1


# Errors of the task's code


class Timeout(BaseException):
    """As that of gevent, no ``Exception``."""


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), WorkerShutdown(0), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Timeout("5 s")],
    ids=lambda error: type(error).__name__,
)
def test_no_code_of_a_task_ends_beat(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], error: BaseException
) -> None:
    def ending(*_: Any, **__: Any) -> Any:
        raise error

    scheduler = make_scheduler(app)
    switch.how = staticmethod(ending)  # type: ignore[assignment]
    save_due(app, "report", "proj.flag")
    save_due(app, "other")

    # Where nobody handles SIGINT, Python itself raises KeyboardInterrupt: only a beat service has a handler.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        scheduler.tick()
    finally:
        signal.signal(signal.SIGINT, before)

    assert [sent.name for sent in take(app)] == ["other"]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    assert stored(app, "report").last_error == text


def test_the_handler_of_a_signal_ends_beat_within_code_of_a_task(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch]
) -> None:
    def stop(*_: Any) -> None:
        raise SystemExit

    def signalled(send: Any, *args: Any, **options: Any) -> Any:
        result = send(*args, **options)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # the second one is not deferred
        return result

    scheduler = make_scheduler(app)
    switch.how = staticmethod(signalled)  # type: ignore[assignment]
    save_due(app, "report", "proj.flag")
    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(SystemExit):
            scheduler.tick()
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("error", [AssertionError(), KeyError("tenant"), ValueError("592.106")], ids=repr)
def test_an_error_of_a_task_is_told_with_its_class(
    app: Celery, make_scheduler: MakeScheduler, switch: type[Switch], error: Exception
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise error

    scheduler = make_scheduler(app)
    switch.how = staticmethod(failing)  # type: ignore[assignment]
    save_due(app, "report", "proj.flag")

    scheduler.tick()

    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    assert stored(app, "report").last_error == text
    assert f"({text})" in ScheduleStore(app).why("report").sentence


def test_a_receiver_and_a_router_that_exit_do_not_end_beat(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    def route(*_: Any, **__: Any) -> Any:
        raise SystemExit("router")

    app = make_app(task_routes=(route,), redisbeater_track_runs=True)
    scheduler = make_scheduler(app)
    save_due(app, "report")

    scheduler.tick()

    assert stored(app, "report").last_error == "SystemExit: router"
