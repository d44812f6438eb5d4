"""Corners of the policies: what an edit, an application or the end of the calendar does at a bad moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import BaseSchedule, crontab
from due import ago, now, save_due, stored
from flight import mark_in_flight
from outbox import names, run_due
from test_edits_in_flight import Moment
from test_executed import tagged

from redisbeater import InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked
from redisbeater.context import Context
from redisbeater.management.search import Search

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]

MINUTE = timedelta(minutes=1)
FIVE_LATE = 270.0


class Fickle(BaseSchedule):
    """A custom schedule whose code raises when it is asked for its next fire time."""

    def to_redisbeater(self) -> None: ...

    @classmethod
    def from_redisbeater(cls, data: Any) -> Fickle:
        return cls()

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        raise ZeroDivisionError("the moon is down")


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    """An app without a lock, so that the test can be a beat, and without Celery's own entry."""
    return make_app(redisbeater_lock_key=None, redisbeater_schedule_classes=[Fickle])


@pytest.fixture(params=["between", "before_publish", "after_publish"])
def moment(request: pytest.FixtureRequest, app: Celery, scheduler: RedisScheduler) -> Moment:
    return Moment(request.param, app, scheduler)


def write_meta(client: redis.Redis, entry: RedisScheduleEntry, executed_at: datetime) -> None:
    """Write the meta of an entry as another program would."""
    client.hset(entry.key, "meta", json.dumps({"last_run_at": tagged(executed_at), "total_run_count": 1}))


def due(entry: RedisScheduleEntry) -> datetime:
    assert entry.due_at is not None
    return entry.due_at


def skipped(app: Celery, name: str = "report") -> dict[str, int]:
    return {reason: record.count for reason, record in stored(app, name).skipped.items()}


def test_a_one_off_that_was_missed_stays_finished_when_it_is_disabled_and_enabled(
    app: Celery, scheduler: RedisScheduler
) -> None:
    schedule = clocked(ago(minutes=10))
    entry = RedisScheduleEntry("report", "proj.work", schedule, app=app, misfire_grace_time=60).save()
    run_due(scheduler)

    entry.disable().enable()
    run_due(scheduler)

    assert (stored(app, "report").due_at, skipped(app)) == (None, {"missed": 1})


def test_an_edit_of_the_jitter_does_not_send_the_run_again(app: Celery, moment: Moment) -> None:
    first = due(save_due(app, "report"))

    moment.edit(lambda store: store.update("report", jitter=0.5))

    assert stored(app, "report").upcoming(1)[0].fire_time == first + MINUTE
    assert stored(app, "report").total_run_count == 1


def test_an_unreadable_definition_that_is_written_meanwhile_is_neither_overwritten_nor_deleted(
    app: Celery, moment: Moment, client: redis.Redis
) -> None:
    entry = save_due(app, "report", max_runs=1, on_finish="disable")

    moment.edit(lambda _: client.hset(entry.key, "definition", '{"task": "theirs"}'))

    assert client.hget(entry.key, "definition") == '{"task": "theirs"}'


def test_an_entry_to_be_deleted_whose_definition_becomes_unreadable_is_kept_for_its_writer(
    app: Celery, moment: Moment, client: redis.Redis
) -> None:
    entry = save_due(app, "report", max_runs=1, on_finish="delete")

    moment.edit(lambda _: client.hset(entry.key, "definition", '{"task": "theirs"}'))

    assert client.hget(entry.key, "definition") == '{"task": "theirs"}'


def test_a_custom_schedule_that_raises_and_is_written_meanwhile_does_not_stop_the_commit(
    app: Celery, moment: Moment, client: redis.Redis
) -> None:
    entry = save_due(app, "report")
    path = f"{Fickle.__module__}.{Fickle.__qualname__}"
    definition = {"task": "proj.work", "schedule": {"__type__": "custom", "import_path": path, "data": None}}

    moment.edit(lambda _: client.hset(entry.key, "definition", json.dumps(definition)))

    assert json.loads(client.hget(entry.key, "meta"))["total_run_count"] == 1


def test_an_edit_while_an_entry_is_moved_to_its_execution_does_not_run_it(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, store: ScheduleStore
) -> None:
    entry = save_due(app, "report")
    executed_at = ago(seconds=10)
    write_meta(client, entry, executed_at)
    flight = mark_in_flight(app)

    store.update("report", args=["new"])
    flight.confirm()

    assert run_due(scheduler) == []
    assert stored(app, "report").due_at == executed_at + MINUTE


def test_an_execution_after_which_no_fire_time_is_left_finishes_the_entry_without_a_run(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    entry = save_due(app, "report", end_at=now())
    write_meta(client, entry, ago(seconds=0.5))

    assert run_due(scheduler) == []
    assert stored(app, "report").due_at is None


@pytest.mark.parametrize("on_finish", ["disable", "delete"])
def test_a_report_after_which_no_fire_time_is_left_applies_on_finish(
    app: Celery, scheduler: RedisScheduler, store: ScheduleStore, on_finish: str
) -> None:
    entry = save_due(app, "report", end_at=now(), on_finish=on_finish)

    entry.record_execution()
    run_due(scheduler)

    if on_finish == "delete":
        assert list(store.names()) == []
    else:
        assert stored(app, "report").enabled is False


@pytest.mark.parametrize("on_finish", ["disable", "delete"])
def test_an_edit_that_finishes_an_entry_applies_on_finish(
    app: Celery, scheduler: RedisScheduler, store: ScheduleStore, on_finish: str
) -> None:
    save_due(app, "report", on_finish=on_finish)
    run_due(scheduler)

    assert store.update("report", max_runs=1).due_at is None
    run_due(scheduler)

    if on_finish == "delete":
        assert list(store.names()) == []
    else:
        assert stored(app, "report").enabled is False


def test_a_naive_report_by_name_is_read_in_the_zone_of_the_entry(app: Celery, store: ScheduleStore) -> None:
    RedisScheduleEntry("report", "proj.work", 3600.0, app=app, timezone="America/New_York").save()
    at = ago(seconds=10)

    store.executed("report", at.astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None))

    assert stored(app, "report").last_run_at == at


def test_an_entry_that_is_not_in_the_schedule_can_be_reported(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = save_due(app, "report")
    client.zrem(f"{prefix}:schedule", entry.key)
    at = ago(seconds=1)

    after = entry.record_execution(at)

    assert after.last_run_at == at


def test_an_interval_that_was_reported_while_disabled_counts_from_there_when_it_is_enabled(
    app: Celery, scheduler: RedisScheduler
) -> None:
    entry = save_due(app, "report", late=59.9).disable()
    at = now()

    entry.record_execution(at)
    entry.enable()

    assert stored(app, "report").due_at == at + MINUTE


def test_a_score_of_now_runs_an_interval_now_that_was_a_crontab_when_it_last_ran(
    app: Celery, scheduler: RedisScheduler, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    entry = RedisScheduleEntry("report", "proj.work", crontab(), app=app, last_run_at=ago(minutes=2)).save()
    run_due(scheduler)
    store.update("report", schedule=3600)

    client.zadd(f"{prefix}:schedule", {entry.key: now().timestamp()})

    assert names(run_due(scheduler)) == ["report"]


def test_an_end_that_cannot_be_placed_in_utc_is_refused_by_its_name(store: ScheduleStore) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.end_at: "):
        store.create("report", "proj.report", 60.0, timezone="America/New_York", end_at=datetime.max)


def test_a_bound_out_of_range_that_another_program_wrote_does_not_break_the_listing(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    definition = {
        "task": "proj.work",
        "schedule": {"__type__": "interval", "every": 60},
        "end_at": tagged(datetime.max, "America/New_York"),
    }
    client.hset(f"{prefix}odd", "definition", json.dumps(definition))
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": now().timestamp() + 60})
    save_due(app, "good")

    assert {row.name: row.state for row in Search(Context.of(app)).shown()} == {
        "good": "enabled", "odd": "broken",
    }  # fmt: skip


def test_a_custom_schedule_that_raises_does_not_break_the_listing(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    path = f"{Fickle.__module__}.{Fickle.__qualname__}"
    schedule = {"__type__": "custom", "import_path": path, "data": None}
    client.hset(f"{prefix}odd", "definition", json.dumps({"task": "t", "schedule": schedule, "jitter": 5}))
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": now().timestamp() + 60})
    save_due(app, "good")

    assert {row.name for row in Search(Context.of(app)).shown()} == {"good", "odd"}


def test_fire_times_that_will_be_coalesced_are_no_upcoming_runs(app: Celery) -> None:
    entry = save_due(app, "report", late=FIVE_LATE)
    first = due(entry)

    assert [run.fire_time for run in entry.upcoming(2)] == [first + 4 * MINUTE, first + 5 * MINUTE]


def test_a_declaration_that_cannot_be_stored_stays_listed_while_the_older_one_runs(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    declared = {"task": "proj.work", "schedule": 60.0}
    first = make_scheduler(make_app(beat_schedule={"report": declared}))
    first.tick()
    first.close()
    second = make_scheduler(make_app(beat_schedule={"report": {**declared, "on_finish": "delete"}}))
    second.tick()
    assert "report" in ScheduleStore(second.app).broken()

    stored(second.app, "report").reschedule(ago(seconds=61))
    run_due(second)

    assert "report" in ScheduleStore(second.app).broken()


def test_an_edit_that_would_let_a_static_entry_delete_itself_is_refused(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    declared = {"report": {"task": "proj.work", "schedule": 60.0, "max_runs": 1}}
    first = make_scheduler(make_app(beat_schedule=declared))
    first.tick()
    stored(first.app, "report").reschedule(ago(seconds=61))

    with pytest.raises(InvalidEntry, match=r"^\$\.on_finish: "):
        ScheduleStore(first.app).update("report", on_finish="delete")
