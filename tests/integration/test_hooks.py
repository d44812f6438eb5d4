"""What an application or an instrument puts around beat's sends: a failure is no run, and nothing leaks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

import pytest
import redis
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler, Service
from celery.schedules import crontab
from celery.signals import beat_init, before_task_publish
from due import save_due, stored
from outbox import names, run_due, take
from support.waiting import wait_until

from redisbeater import ImproperlyConfigured, RedisScheduleEntry, RedisScheduler

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


def count(app: Celery, name: str) -> int:
    return stored(app, name).total_run_count


# An error that leaves apply_async


class Failing(RedisScheduler):
    """Its ``apply_async`` fails for entries of one name, before or after it has sent them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tried: list[str] = []

    def apply_async(self, entry: Any, **options: Any) -> Any:
        self.tried.append(entry.name)
        if entry.name == "before":
            raise RuntimeError("the tenant is unknown")
        result = super().apply_async(entry, **options)
        if entry.name == "after":
            raise RuntimeError("the audit failed")
        return result


@pytest.mark.parametrize("name", ["before", "after"])
def test_an_error_of_an_overridden_apply_async_is_no_run(app: Celery, make_scheduler: MakeScheduler, name: str) -> None:
    scheduler = make_scheduler(app, Failing)
    save_due(app, name)
    save_due(app, "good")

    assert "good" in names(run_due(scheduler))
    assert (count(app, "good"), count(app, name)) == (1, 0)
    wait_until(lambda: scheduler.tick() is not None and scheduler.tried.count(name) > 1, "the next try")


@pytest.mark.parametrize("place", [RedisScheduler, None], ids=["the class", "the object"])
def test_an_error_of_what_was_put_around_apply_async_later_is_no_run(
    app: Celery, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch, place: Any
) -> None:
    scheduler = make_scheduler(app)
    save_due(app, "first")
    assert names(run_due(scheduler)) == ["first"]
    owner = place or scheduler

    def failing(*args: Any, **options: Any) -> Any:
        raise RuntimeError("an instrument")

    monkeypatch.setattr(owner, "apply_async", failing)
    save_due(app, "second")
    assert run_due(scheduler) == []
    assert count(app, "second") == 0
    assert owner.apply_async is failing

    monkeypatch.undo()
    wait_until(lambda: scheduler.tick() is not None and names(take(app)) == ["second"], "the run")
    assert count(app, "second") == 1


# Eager mode


@pytest.fixture
def eager_app(make_app: MakeApp) -> Celery:
    app = make_app(task_always_eager=True, task_eager_propagates=True)
    executed: list[Any] = []

    @app.task(name="proj.fail", shared=False)
    def fail(text: str) -> None:
        executed.append(text)
        raise ValueError(text)

    app.finalize()
    app.executed = executed
    return app


def test_a_task_that_fails_in_eager_mode_has_run_and_is_counted(
    eager_app: Celery, make_scheduler: MakeScheduler
) -> None:
    scheduler = make_scheduler(eager_app)
    save_due(eager_app, "once", "proj.fail", args=["boom"])
    save_due(eager_app, "unsent", "proj.fail", args=["too", "many"])

    run_due(scheduler)

    assert eager_app.executed == ["boom"]
    assert (count(eager_app, "once"), count(eager_app, "unsent")) == (1, 0)


# The context


def test_what_an_instrument_leaves_in_the_context_of_a_run_ends_with_it(
    app: Celery, make_scheduler: MakeScheduler
) -> None:
    spans: ContextVar[tuple[str, ...]] = ContextVar("spans", default=())
    parents: list[tuple[str, ...]] = []

    def begin_span(headers: dict[str, Any], **_: Any) -> None:
        parents.append(spans.get())
        spans.set((*spans.get(), headers["id"]))

    before_task_publish.connect(begin_span)
    scheduler = make_scheduler(app)
    for name in ("first", "second", "third"):
        save_due(app, name)

    assert len(run_due(scheduler)) == 3
    assert parents == [()] * 3
    assert spans.get() == ()


# Texts of arguments that an application hides


def shown(scheduler: RedisScheduler) -> list[tuple[Any, str]]:
    return [(run.args, run.headers["argsrepr"]) for run in run_due(scheduler)]


def test_an_instrument_that_is_put_around_send_task_later_hides_arguments(
    app: Celery, make_scheduler: MakeScheduler
) -> None:
    scheduler = make_scheduler(app)
    save_due(app, "first", args=["open"])
    assert shown(scheduler) == [(["open"], "['open']")]
    original = app.send_task

    @wraps(original)
    def encrypting(name: str, args: Any = None, *more: Any, **options: Any) -> Any:
        return original(name, ["encrypted"], *more, **options)

    app.send_task = encrypting
    save_due(app, "second", args=["secret"])

    assert shown(scheduler) == [(["encrypted"], "['encrypted']")]


class Encrypting(RedisScheduler):
    def send_task(self, name: str, args: Any = None, *more: Any, **options: Any) -> Any:
        return super().send_task(name, ["encrypted"], *more, **options)


class EncryptingEntries(RedisScheduler):
    def apply_async(self, entry: Any, **options: Any) -> Any:
        entry.args = ["encrypted"]
        return super().apply_async(entry, **options)


@pytest.mark.parametrize("cls", [Encrypting, EncryptingEntries])
def test_a_scheduler_that_hides_arguments_hides_their_texts(
    app: Celery, make_scheduler: MakeScheduler, cls: type[RedisScheduler]
) -> None:
    scheduler = make_scheduler(app, cls)
    save_due(app, "report", args=["secret"])

    assert shown(scheduler) == [(["encrypted"], "['encrypted']")]


def test_an_entry_that_a_program_sends_itself_keeps_its_options(app: Celery, make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler(app)
    entry = save_due(app, "report", args=[1], late=-60.0)

    scheduler.apply_async(entry, producer=scheduler.producer, advance=False)

    assert entry.options == {}


# The class of entries


class Tenant(RedisScheduleEntry):
    def __init__(self, *args: Any, options: Any = None, **fields: Any) -> None:
        super().__init__(*args, options={"headers": {"tenant": "acme"}, **(options or {})}, **fields)


class Tenants(RedisScheduler):
    Entry = Tenant


def test_the_entry_class_of_a_subclass_makes_runs_static_entries_and_those_of_the_mapping(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    app = make_app(beat_schedule={"static": {"task": "proj.work", "schedule": crontab(hour=3, minute=7)}})
    sent: list[ScheduleEntry] = []

    class Recording(Tenants):
        def apply_async(self, entry: ScheduleEntry, **options: Any) -> Any:
            sent.append(entry)
            return super().apply_async(entry, **options)

    scheduler = make_scheduler(app, Recording)
    save_due(app, "dynamic")

    assert names(run_due(scheduler)) == ["dynamic"]
    assert [type(entry) for entry in sent] == [Tenant]
    assert type(scheduler.schedule["dynamic"]) is Tenant
    assert stored(app, "static").options == {"headers": {"tenant": "acme"}}


@pytest.mark.parametrize("entry_class", [ScheduleEntry, partial(RedisScheduleEntry, enabled=False)])
def test_another_entry_class_is_refused(app: Celery, entry_class: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"Odd\.Entry = .*: expected a subclass of redisbeater\.RedisSch"):
        type("Odd", (RedisScheduler,), {"Entry": entry_class})(app)


class Holidays(RedisScheduleEntry):
    def is_due(self) -> Any:
        raise AssertionError("beat never asks")


class Adjusted(RedisScheduler):
    Entry = Holidays

    def adjust(self, n: Any, drift: float = 0.0) -> Any:
        raise AssertionError("beat never asks")


@pytest.mark.parametrize(
    ("cls", "expected"),
    [(RedisScheduler, []), (Tenants, []), (Adjusted, ["beat never calls Adjusted.adjust, Holidays.is_due: "])],
)
def test_hooks_that_are_never_called_are_logged_when_beat_starts(
    app: Celery,
    make_scheduler: MakeScheduler,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    cls: type[RedisScheduler],
    expected: list[str],
) -> None:
    monkeypatch.setattr(RedisScheduler, "tunes_process", False)
    service = Service(app)
    service.scheduler = make_scheduler(app, cls)

    with caplog.at_level(logging.WARNING):
        beat_init.send(sender=service)

    lines = [record.getMessage() for record in caplog.records if "beat never calls" in record.getMessage()]
    assert [line[: len(expected[0])] for line in lines] == expected if expected else not lines


# Another scheduler


@pytest.mark.parametrize("is_meant", [True, False], ids=["with settings", "without"])
def test_a_beat_with_another_scheduler_is_logged_if_its_app_has_settings_of_ours(
    app: Celery, caplog: pytest.LogCaptureFixture, is_meant: bool
) -> None:
    service = Service(app if is_meant else Celery("proj", set_as_current=False))
    service.scheduler = Scheduler(service.app, lazy=True)

    beat_init.send(sender=service)

    lines = [record.getMessage() for record in caplog.records if record.name.startswith("redisbeater")]
    expected = "this beat runs celery.beat.Scheduler, so no entry of redisbeater runs; write -S redisbeater"
    assert [line.startswith(expected) for line in lines] == [True] * is_meant


# The zone of a schedule


def test_the_schedule_of_a_run_has_the_zone_of_its_entry(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    zones: dict[str, str] = {}

    class Monitor(RedisScheduler):
        def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
            zones[entry.name] = str(entry.schedule.tz)
            super().apply_entry(entry, producer=producer)

    scheduler = make_scheduler(app, Monitor)
    for name, zone in {"own": "America/New_York", "other": "Asia/Kolkata", "of the app": None}.items():
        RedisScheduleEntry(name, "proj.work", crontab(hour=3, minute=7), timezone=zone, app=app).save()
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 1})

    assert len(run_due(scheduler)) == 3
    assert zones == {"own": "America/New_York", "other": "Asia/Kolkata", "of the app": "UTC"}
