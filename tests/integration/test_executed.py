"""When the task was really executed: reports of the application, and meta that another program writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import crontab, schedule
from due import UTC, ago, now, save_due, stored
from flight import mark_in_flight
from outbox import Sent, names, run_due, take
from redbeat import RedBeatSchedulerEntry
from support.servers import Server
from support.waiting import wait_until

from redisbeater import EntryNotFound, InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked
from redisbeater.context import Context
from redisbeater.model.meta import Meta

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]

MINUTE = timedelta(minutes=1)
TOKYO = ZoneInfo("Asia/Tokyo")


def due(entry: RedisScheduleEntry) -> datetime:
    assert entry.due_at is not None
    return entry.due_at


def tagged(moment: datetime, timezone: str | float = "UTC") -> dict[str, Any]:
    """A datetime as ``docs/wire-format.rst`` has it, built by hand as another program would."""
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond")
    return {"__type__": "datetime", **{part: getattr(moment, part) for part in parts}, "timezone": timezone}


@pytest.fixture
def write_meta(client: redis.Redis) -> Callable[..., None]:
    """Write the meta of an entry as another program would."""

    def write(entry: RedisScheduleEntry, executed_at: datetime, **more: Any) -> None:
        meta = {"last_run_at": tagged(executed_at), "total_run_count": 1, **more}
        client.hset(entry.key, "meta", json.dumps(meta))

    return write


WriteMeta = Callable[..., None]


@pytest.fixture
def shared_app(make_app: MakeApp) -> Celery:
    """An app without a lock, so that the test can be a beat, and without Celery's own entry."""
    return make_app(redisbeater_lock_key=None)


# Meta that another program writes


def test_an_interval_whose_meta_has_a_recent_execution_is_moved_without_a_run(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta
) -> None:
    entry = save_due(app, "report")
    executed_at = ago(seconds=10)
    write_meta(entry, executed_at)

    assert run_due(scheduler) == []

    after = stored(app, "report")
    assert (after.due_at, after.last_run_at, after.total_run_count) == (executed_at + MINUTE, executed_at, 1)
    assert after.skipped == {}


@pytest.mark.parametrize(
    ("local", "timezone"),
    [
        pytest.param(lambda at: at, "UTC", id="utc"),
        pytest.param(lambda at: at.astimezone(TOKYO), "Asia/Tokyo", id="zone"),
        pytest.param(lambda at: at + timedelta(hours=2), 7200.0, id="offset"),
    ],
)
def test_the_datetime_of_another_program_may_be_in_any_zone(
    app: Celery,
    scheduler: RedisScheduler,
    client: redis.Redis,
    local: Callable[[datetime], datetime],
    timezone: str | float,
) -> None:
    entry = save_due(app, "report")
    executed_at = ago(seconds=10)
    client.hset(entry.key, "meta", json.dumps({"last_run_at": tagged(local(executed_at), timezone)}))

    assert run_due(scheduler) == []
    assert stored(app, "report").due_at == executed_at + MINUTE


def test_an_interval_runs_when_its_time_since_the_execution_is_over(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta
) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 2.0, app=app, last_run_at=ago(seconds=3)).save()
    executed_at = ago(seconds=1)
    write_meta(entry, executed_at)
    run_due(scheduler)

    def tick() -> list[Sent]:
        scheduler.tick()
        return take(app)

    sent = wait_until(tick, "the run")

    assert sent[0].fire_time == executed_at + timedelta(seconds=2)
    assert stored(app, "report").total_run_count == 2


def test_an_execution_that_is_long_ago_changes_nothing(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta
) -> None:
    entry = save_due(app, "report")
    first = due(entry)
    write_meta(entry, ago(days=3))

    assert [run.fire_time for run in run_due(scheduler)] == [first]
    assert stored(app, "report").due_at == first + MINUTE


def test_an_execution_is_counted_from_once(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    write_meta(entry, ago(seconds=10))
    run_due(scheduler)

    client.zadd(f"{prefix}:schedule", {entry.key: now().timestamp()})

    assert names(run_due(scheduler)) == ["report"]


def stored_meta(client: redis.Redis, entry: RedisScheduleEntry) -> Meta:
    """The meta of an entry as beat reads it."""
    text, recorded_run = client.hmget(entry.key, "meta", "recorded_run")
    return Meta.from_text(text, recorded_run or "")


def test_the_score_follows_the_last_run_until_another_program_writes_the_meta(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis
) -> None:
    entry = save_due(app, "report")
    metas = [stored_meta(client, entry)]
    run_due(scheduler)
    metas.append(stored_meta(client, entry))
    write_meta(entry, now())
    metas.append(stored_meta(client, entry))
    entry.record_execution()
    metas.append(stored_meta(client, entry))

    assert [meta.score_follows_last_run for meta in metas] == [True, True, False, True]


def test_meta_that_another_program_writes_after_a_run_is_counted_from(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    run_due(scheduler)
    executed_at = now()
    write_meta(entry, executed_at)

    client.zadd(f"{prefix}:schedule", {entry.key: now().timestamp()})

    assert run_due(scheduler) == []
    assert stored(app, "report").due_at == executed_at + MINUTE


def test_an_entry_of_another_program_that_never_ran_here_counts_from_its_meta(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    executed_at = ago(seconds=10)
    definition = {"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}}
    meta = {"last_run_at": tagged(executed_at)}
    client.hset(f"{prefix}raw", mapping={"definition": json.dumps(definition), "meta": json.dumps(meta)})
    client.zadd(f"{prefix}:schedule", {f"{prefix}raw": now().timestamp()})

    assert run_due(scheduler) == []
    assert stored(app, "raw").due_at == executed_at + MINUTE


def test_fields_that_another_program_adds_to_meta_stay_when_an_entry_is_moved(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis
) -> None:
    entry = save_due(app, "report")
    write_meta(entry, ago(seconds=10), host="a1")
    before = json.loads(client.hget(entry.key, "meta"))

    run_due(scheduler)

    assert json.loads(client.hget(entry.key, "meta")) == before


@pytest.mark.parametrize("change", [{"jitter": 1.0}, {"description": "edited"}], ids=["jitter", "description"])
def test_an_edit_that_moves_nothing_does_not_hide_an_execution(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, change: dict[str, Any]
) -> None:
    entry = save_due(app, "report")
    executed_at = now()
    write_meta(entry, executed_at)
    ScheduleStore(app).update("report", **change)

    assert run_due(scheduler) == []
    assert due(stored(app, "report")) >= executed_at + MINUTE


@pytest.mark.parametrize(
    "schedule_",
    [crontab(minute=ago(minutes=30).minute), clocked(datetime(2026, 1, 1, tzinfo=UTC))],
    ids=["crontab", "clocked"],
)
def test_only_intervals_count_from_an_execution(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis, prefix: str, schedule_: Any
) -> None:
    entry = RedisScheduleEntry("report", "proj.work", schedule_, app=app).save()
    client.zadd(f"{prefix}:schedule", {entry.key: ago(seconds=1).timestamp()})
    write_meta(entry, now())

    assert names(run_due(scheduler)) == ["report"]


def test_a_relative_interval_counts_from_an_execution_by_its_clock(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis, prefix: str
) -> None:
    entry = RedisScheduleEntry("report", "proj.work", schedule(timedelta(hours=1), relative=True), app=app).save()
    client.zadd(f"{prefix}:schedule", {entry.key: ago(seconds=1).timestamp()})
    executed_at = now()
    write_meta(entry, executed_at)

    assert run_due(scheduler) == []
    assert due(stored(app, "report")).minute == 0
    assert executed_at < due(stored(app, "report")) <= executed_at + timedelta(hours=1)


def test_an_execution_that_is_written_while_the_run_is_sent_is_what_counts_next(
    shared_app: Celery, write_meta: WriteMeta, make_scheduler: MakeScheduler
) -> None:
    entry = save_due(shared_app, "report", late=59.5)
    flight = mark_in_flight(shared_app)
    executed_at = now()

    write_meta(entry, executed_at, total_run_count=0)
    flight.confirm()
    client_sees = stored(shared_app, "report")
    wait_until(lambda: now() > due(client_sees), "the next fire time")

    assert (client_sees.last_run_at, client_sees.total_run_count) == (executed_at, 1)
    assert run_due(make_scheduler(shared_app)) == []
    assert stored(shared_app, "report").due_at == executed_at + MINUTE


# A score that another program sets


def test_a_score_of_now_runs_now_although_the_last_run_is_recent(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    run_due(scheduler)
    score = now().timestamp()

    client.zadd(f"{prefix}:schedule", {entry.key: score})
    [run] = run_due(scheduler)

    assert run.fire_time.timestamp() == pytest.approx(score, abs=1e-5)
    assert stored(app, "report").due_at == run.fire_time + MINUTE
    assert stored(app, "report").total_run_count == 2


def test_an_earlier_score_is_kept_although_the_definition_was_written_too(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    run_due(scheduler)
    score = now().timestamp()
    definition = json.loads(client.hget(entry.key, "definition"))

    client.hset(entry.key, "definition", json.dumps({**definition, "args": ["new"]}))
    client.zadd(f"{prefix}:schedule", {entry.key: score})
    [run] = run_due(scheduler)

    assert (run.args, run.fire_time.timestamp()) == (["new"], pytest.approx(score, abs=1e-5))


def test_a_score_of_zero_runs_now_whatever_the_meta_holds(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    write_meta(entry, now())
    before = now()

    client.zadd(f"{prefix}:schedule", {entry.key: 0})
    [run] = run_due(scheduler)

    assert before <= run.fire_time <= now()
    assert stored(app, "report").due_at == run.fire_time + MINUTE


def test_a_score_of_zero_runs_now_also_when_the_first_lease_ran_out(
    make_app: MakeApp, make_scheduler: MakeScheduler, write_meta: WriteMeta, client: redis.Redis, prefix: str
) -> None:
    app = make_app(redisbeater_lock_key=None, redisbeater_lease_timeout=1)
    entry = save_due(app, "report")
    write_meta(entry, now())
    client.zadd(f"{prefix}:schedule", {entry.key: 0})
    lost = mark_in_flight(app)
    scheduler = make_scheduler(app)

    def tick() -> list[Sent]:
        scheduler.tick()
        return take(app)

    [run] = wait_until(tick, "the lease to end")

    assert run.fire_time == lost.job.claimed.fire_time


def test_a_score_of_zero_is_forgotten_by_the_run_that_it_asked_for(
    app: Celery, scheduler: RedisScheduler, write_meta: WriteMeta, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    client.zadd(f"{prefix}:schedule", {entry.key: 0})
    run_due(scheduler)
    executed_at = now()
    write_meta(entry, executed_at)
    client.zadd(f"{prefix}:schedule", {entry.key: executed_at.timestamp()})

    assert run_due(scheduler) == []
    assert stored(app, "report").due_at == executed_at + MINUTE


# Reports of the application


def test_an_interval_counts_from_a_report(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report")
    run_due(scheduler)
    at = now()

    after = entry.record_execution(at)

    assert (after.last_run_at, after.due_at, after.total_run_count) == (at, at + MINUTE, 1)
    assert stored(app, "report").due_at == at + MINUTE
    assert run_due(scheduler) == []


def test_a_report_without_a_time_is_of_now(app: Celery) -> None:
    entry = save_due(app, "report")
    before = now()

    after = entry.record_execution()

    assert after.last_run_at is not None
    assert before <= after.last_run_at <= now()


def test_the_next_run_after_a_report_is_sent_when_the_interval_is_over(app: Celery, scheduler: RedisScheduler) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 1.0, app=app, last_run_at=ago(seconds=5)).save()
    at = now()
    entry.record_execution(at)

    def tick() -> list[Sent]:
        scheduler.tick()
        return take(app)

    sent = wait_until(tick, "the run")

    assert sent[0].fire_time == at + timedelta(seconds=1)


def test_a_report_while_the_run_is_not_yet_committed_is_what_counts_next(shared_app: Celery) -> None:
    entry = save_due(shared_app, "report")
    flight = mark_in_flight(shared_app)
    at = now()

    entry.record_execution(at)
    flight.confirm()

    after = stored(shared_app, "report")
    assert (after.last_run_at, after.due_at, after.total_run_count) == (at, at + MINUTE, 1)


def test_a_report_between_two_claims_of_one_fire_time_leaves_no_run_due(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    app = make_app(redisbeater_lock_key=None)
    entry = save_due(app, "report")
    flight = mark_in_flight(app)

    entry.record_execution()
    flight.context.redis.release(flight.claim, flight.claim.entries)

    assert run_due(make_scheduler(app)) == []
    assert stored(app, "report").due_at == entry.due_at


def test_a_report_for_a_crontab_is_only_recorded(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", crontab(), app=app).save()
    due_at, at = entry.due_at, ago(seconds=1)

    entry.record_execution(at)

    assert (stored(app, "report").last_run_at, stored(app, "report").due_at) == (at, due_at)


def test_a_report_older_than_the_last_run_changes_nothing(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    run_due(scheduler)
    before = client.hgetall(entry.key), client.zscore(f"{prefix}:schedule", entry.key)

    after = entry.record_execution(ago(seconds=30))

    assert (client.hgetall(entry.key), client.zscore(f"{prefix}:schedule", entry.key)) == before
    assert after.due_at == stored(app, "report").due_at


def test_a_report_of_the_future_counts_as_now(app: Celery) -> None:
    entry = save_due(app, "report")

    after = entry.record_execution(now() + timedelta(days=1))

    assert after.last_run_at is not None
    assert after.last_run_at <= now()
    assert after.due_at == after.last_run_at + MINUTE


def test_a_naive_report_is_read_in_the_zone_of_the_entry(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 3600.0, app=app, timezone="Asia/Tokyo").save()
    at = ago(seconds=10)

    entry.record_execution(at.astimezone(TOKYO).replace(tzinfo=None))

    assert stored(app, "report").last_run_at == at


@pytest.mark.parametrize("at", ["10:00", datetime(2026, 1, 1).date(), datetime(1, 1, 1, tzinfo=TOKYO)], ids=str)
def test_what_is_no_time_is_refused_by_its_field_and_changes_nothing(app: Celery, client: redis.Redis, at: Any) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 60, app=app).save()
    before = client.hgetall(entry.key)

    for path, change in (
        ("at", lambda: entry.record_execution(at)),
        ("last_run_at", lambda: entry.reschedule(at)),
        ("disabled_until", lambda: entry.disable(until=at)),
    ):
        with pytest.raises(InvalidEntry, match=rf"^\$\.{path}: "):
            change()

    assert client.hgetall(entry.key) == before


def test_a_report_for_an_entry_that_is_not_stored_is_an_error(app: Celery) -> None:
    with pytest.raises(EntryNotFound, match="no entry named 'nobody'"):
        RedisScheduleEntry("nobody", app=app).record_execution()
    with pytest.raises(EntryNotFound, match="no entry named 'nobody'"):
        ScheduleStore(app).executed("nobody", ago(seconds=1))
    assert list(ScheduleStore(app).names()) == []


def test_a_report_does_not_wake_a_disabled_entry(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report").disable()

    entry.record_execution()

    assert stored(app, "report").due_at is None
    assert run_due(scheduler) == []


def test_a_report_does_not_wake_an_entry_that_has_finished(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report", max_runs=1)
    run_due(scheduler)

    entry.record_execution()

    assert stored(app, "report").due_at is None


def test_a_report_keeps_what_was_skipped_and_counted(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report", late=270.0)
    run_due(scheduler)

    after = entry.record_execution()

    assert (after.total_run_count, after.skipped["coalesced"].count) == (1, 4)
    assert stored(app, "report").skipped["coalesced"].count == 4


# RedBeat


@pytest.fixture
def make_redbeat_app(make_app: MakeApp, server: Server, prefix: str) -> MakeApp:
    """Make apps that both packages read."""

    def make(**settings: Any) -> Celery:
        return make_app(redbeat_redis_url=server.url(), redbeat_key_prefix=prefix, redbeat_redis_options={}, **settings)

    return make


def read_by_redbeat(app: Celery, entry: RedisScheduleEntry) -> RedBeatSchedulerEntry:
    return RedBeatSchedulerEntry.from_key(entry.key, app=app)


@pytest.mark.parametrize(
    "policies",
    [{}, {"misfire_grace_time": 60}, {"coalesce": "all", "jitter": 3}],
    ids=["none", "grace", "all-with-jitter"],
)
def test_what_was_run_skipped_and_reported_under_policies_of_the_settings_is_readable_for_redbeat(
    make_redbeat_app: MakeApp, make_scheduler: MakeScheduler, policies: dict[str, Any]
) -> None:
    app = make_redbeat_app(**{f"redisbeater_{name}": value for name, value in policies.items()})
    entry = save_due(app, "report", late=270.0, args=[1])
    run_due(make_scheduler(app))
    after_runs = read_by_redbeat(app, entry)
    ours = stored(app, "report")
    executed_at = ago(seconds=1)

    entry.record_execution(executed_at)

    after_report = read_by_redbeat(app, entry)
    assert (after_runs.args, after_runs.last_run_at) == ([1], ours.last_run_at)
    assert (after_runs.total_run_count, after_report.total_run_count) == (ours.total_run_count, ours.total_run_count)
    assert after_report.last_run_at == executed_at


def test_our_definition_of_an_entry_without_policies_has_redbeats_fields_only(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    entry = save_due(app, "report", late=270.0)
    run_due(scheduler)

    definition, meta = (json.loads(client.hget(entry.key, field)) for field in ("definition", "meta"))

    assert set(definition) == {"name", "task", "args", "kwargs", "options", "schedule", "enabled"}
    assert set(meta) == {"last_run_at", "total_run_count"}


def test_a_run_that_redbeat_records_is_counted_from(make_redbeat_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    app = make_redbeat_app()
    scheduler = make_scheduler(app)
    entry = save_due(app, "report")
    run_due(scheduler)

    executed_at = now()
    read_by_redbeat(app, entry)._next_instance(last_run_at=executed_at)

    after = stored(app, "report")
    assert (after.last_run_at, after.total_run_count) == (executed_at, 2)
    assert due(after) > executed_at + timedelta(seconds=50), "it rounds to whole seconds"
    assert run_due(scheduler) == []


def test_no_execution_is_seen_where_none_was_reported(app: Celery, scheduler: RedisScheduler) -> None:
    """Our own runs are not executions that the interval would count from: the grid stays."""
    first = due(save_due(app, "report", late=30.0))

    run_due(scheduler)

    assert stored(app, "report").due_at == first + MINUTE
    assert Context.of(app).redis.broken.reports() == {}
