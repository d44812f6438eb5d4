"""The log of an entry: who changed what and why, what was skipped, what was broken."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
import redis
from celery import Celery
from outbox import run_due

from redisbeater import InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.context import Context
from redisbeater.results import LogLine

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


def lines(app: Celery, name: str = "report") -> list[LogLine]:
    return ScheduleStore(app).log(name)


def words(app: Celery, name: str = "report") -> list[str]:
    return [line.what for line in lines(app, name)]


def test_each_change_says_who_why_and_what(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "proj.report", 60, by="anna@ops1", note="for the board")
    store.update("report", args=[1], by="ben@ops2")
    store.disable("report", note="broken feed")
    store.enable("report")
    store.delete("report", by="anna@ops1")

    found = lines(app)

    assert [line.what for line in found] == ["deleted", "enabled", "disabled", "changed", "created"]
    assert found[-1].details == {"by": "anna@ops1", "note": "for the board"}
    assert found[3].details == {"by": "ben@ops2", "fields": ["args"], "was": {"args": []}}
    assert found[2].details["note"] == "broken feed"
    assert found[2].details["by"] == f"{getpass.getuser()}@{socket.gethostname()}"


def test_a_change_of_the_schedule_has_the_next_run_before_and_after(store: ScheduleStore, app: Celery) -> None:
    before = store.create("report", "proj.report", 60).due_at
    after = store.update("report", schedule=3600).due_at
    assert before is not None
    assert after is not None

    [changed, _] = lines(app)

    assert changed.details["fields"] == ["schedule"]
    assert changed.details["next"] == [before.isoformat(), after.isoformat()]


def test_a_change_that_changes_nothing_is_no_line(store: ScheduleStore, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.report", 60, app=app).save()
    RedisScheduleEntry("report", "proj.report", 60, app=app).save()

    assert words(app) == ["created"]


def test_what_a_bulk_creates_without_a_note_is_no_line(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str
) -> None:
    with store.bulk() as bulk:
        bulk.save(RedisScheduleEntry("report", "proj.report", 60, app=app))

    assert client.keys(f"{prefix}:log*") == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"note": "two\nlines"}, "$.note: has the control character U+000A; leave it out"),
        ({"note": "x" * 501}, "$.note: has 501 characters; expected at most 500"),
        ({"by": 5}, "$.by: expected a text, got int"),
    ],
)
def test_a_note_that_cannot_be_shown_is_refused_before_anything_is_written(
    store: ScheduleStore, given: dict[str, str], problem: str
) -> None:
    store.create("report", "proj.report", 60)

    with pytest.raises(InvalidEntry) as refused:
        store.update("report", args=[1], **given)

    assert str(refused.value) == problem
    assert store.get("report").args == []


def test_skipped_fire_times_are_one_line_with_their_times(
    app: Celery, scheduler: RedisScheduler, store: ScheduleStore
) -> None:
    now = datetime.now(timezone.utc)
    entry = RedisScheduleEntry("report", "proj.report", 60, app=app, misfire_grace_time=30).save()
    entry.reschedule(now - timedelta(seconds=345))

    run_due(scheduler)

    [skipped] = [line for line in lines(app) if line.what == "skipped"]
    assert (skipped.count, skipped.details) == (5, {"reason": "missed"})
    assert skipped.first == now - timedelta(seconds=285)
    assert skipped.last == now - timedelta(seconds=45)


def test_equal_lines_are_folded_and_the_log_keeps_as_many_as_it_may(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    app = make_app(redisbeater_log_limit=3)
    scheduler, store = make_scheduler(app), ScheduleStore(app)
    entry = RedisScheduleEntry("report", "proj.report", 3600, app=app, misfire_grace_time=60).save()
    for late in (7201, 7200):
        entry.reschedule(datetime.now(timezone.utc) - timedelta(seconds=late), by="a test")
        run_due(scheduler)
    for number in range(5):
        store.update("report", args=[number], by=f"user {number}")

    assert [line.details["by"] for line in lines(app)] == ["user 4", "user 3", "user 2"]


def test_neighbours_that_say_the_same_are_one_line(app: Celery) -> None:
    log = Context.of(app).redis.log
    for _ in range(3):
        log.add("redis_away", seconds=2.0)
    log.add("leading", by="a")

    leading, away = ScheduleStore(app).log()

    assert (leading.what, leading.details) == ("leading", {"by": "a"})
    assert away.count == 3
    assert away.first is not None
    assert away.last is not None
    assert away.last - away.first >= timedelta(seconds=2)


def test_a_broken_entry_says_so_and_says_when_it_was_fixed(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, store: ScheduleStore
) -> None:
    entry = RedisScheduleEntry("report", "proj.report", 3600, app=app).save()
    whole = client.hget(entry.key, "definition")
    client.hset(entry.key, "definition", "no JSON")
    client.zadd(Context.of(app).redis.keys.schedule, {entry.key: 0})
    run_due(scheduler)
    client.hset(entry.key, "definition", whole)
    client.zadd(Context.of(app).redis.keys.schedule, {entry.key: 0})
    run_due(scheduler)

    said = [line for line in lines(app) if not line.what.startswith("incident_")]
    assert [line.what for line in said[:2]] == ["fixed", "broken"]
    assert "JSON" in said[1].details["reason"]


def test_the_end_of_an_entry_is_a_line(app: Celery, scheduler: RedisScheduler) -> None:
    RedisScheduleEntry("report", "proj.report", 3600, app=app, max_runs=1, on_finish="disable").save().reschedule(
        datetime.now(timezone.utc) - timedelta(seconds=3600)
    )

    run_due(scheduler)

    assert (words(app)[0], lines(app)[0].details) == ("finished", {"then": "disable"})


def test_the_log_of_a_deleted_entry_expires(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    store.create("report", "proj.report", 60)
    store.delete("report")

    assert 0 < client.ttl(Context.of(app).redis.keys.log_of("report")) <= 7 * 86400


def test_the_log_of_an_entry_that_is_deleted_when_it_has_finished_expires(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    RedisScheduleEntry("report", "proj.report", 3600, app=app, max_runs=1, on_finish="delete").save().reschedule(
        datetime.now(timezone.utc) - timedelta(seconds=3600)
    )

    run_due(scheduler)

    assert (words(app)[0], lines(app)[0].details) == ("finished", {"then": "delete"})
    assert 0 < client.ttl(Context.of(app).redis.keys.log_of("report")) <= 7 * 86400


def test_the_log_of_an_entry_that_is_created_again_stays(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    store.create("report", "proj.report", 60)
    store.delete("report")

    store.create("report", "proj.report", 60)

    assert words(app) == ["created", "deleted", "created"]
    assert client.ttl(Context.of(app).redis.keys.log_of("report")) == -1


def test_an_ordinary_run_writes_no_line(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = RedisScheduleEntry("report", "proj.report", 3600, app=app).save()
    client.delete(f"{prefix}:log:report")
    client.zadd(Context.of(app).redis.keys.schedule, {entry.key: 0})

    assert len(run_due(scheduler)) == 1

    assert client.exists(f"{prefix}:log:report") == 0


def test_a_log_that_another_program_made_something_else_harms_nobody(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:log:report", "mine")

    store.create("report", "proj.report", 60)

    assert lines(app) == []
    assert store.get("report").task == "proj.report"
    client.delete(f"{prefix}:log:report")
