"""The next runs of an entry, stored or not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import UTC, ago, now, save_due, stored
from outbox import run_due

from redisbeater import (
    EntryNotFound,
    InvalidEntry,
    RedisScheduleEntry,
    RedisScheduler,
    ScheduleStore,
    UpcomingRun,
    clocked,
    rrule,
)

MakeApp = Callable[..., Celery]

MINUTE = timedelta(minutes=1)
NOON = crontab(minute=0, hour=12)


def contents(client: redis.Redis, prefix: str) -> dict[str, Any]:
    """Return all that is stored, to the byte."""
    return {key: client.dump(key) for key in sorted(client.scan_iter(f"{prefix}*"))}


@pytest.fixture
def client(server: Any, client: redis.Redis) -> redis.Redis:
    """A client that reads bytes; the fixture of that name still removes the keys."""
    return redis.Redis(port=server.port, db=0)


def fire_times(runs: list[UpcomingRun]) -> list[datetime]:
    return [run.fire_time for run in runs]


def due(entry: RedisScheduleEntry) -> datetime:
    assert entry.due_at is not None
    return entry.due_at


# What is not stored


def test_an_entry_that_is_not_stored_has_next_runs_and_is_not_stored_by_asking(
    app: Celery, client: redis.Redis
) -> None:
    before = now()
    entry = RedisScheduleEntry("report", "proj.work", 60.0, app=app)

    runs = entry.upcoming(3)

    first = runs[0].fire_time
    assert before + MINUTE <= first <= now() + MINUTE
    assert fire_times(runs) == [first, first + MINUTE, first + 2 * MINUTE]
    assert list(client.scan_iter()) == []


def test_five_runs_are_returned_by_default(app: Celery) -> None:
    assert len(RedisScheduleEntry("report", "proj.work", 60.0, app=app).upcoming()) == 5


def test_the_fire_times_of_an_unstored_entry_are_those_that_beat_will_plan(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", NOON, app=app, timezone="America/New_York", jitter=600)

    runs = entry.upcoming(1)

    assert runs == entry.save().upcoming(1)
    assert runs[0].due_at == entry.due_at


def test_local_times_are_in_the_zone_of_the_entry(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", NOON, app=app, timezone="Asia/Tokyo")

    for run in entry.upcoming(3):
        assert (run.local.hour, run.local.tzinfo) == (12, ZoneInfo("Asia/Tokyo"))
        assert (run.fire_time.hour, run.fire_time.tzinfo) == (3, UTC)
        assert run.local == run.fire_time


def test_the_runs_end_where_the_entry_does(app: Celery) -> None:
    start = now() + timedelta(hours=1)
    bounded = RedisScheduleEntry("a", "proj.work", 60.0, app=app, start_at=start, end_at=start + 2 * MINUTE)
    counted = RedisScheduleEntry("b", "proj.work", 60.0, app=app, start_at=start, max_runs=2)
    once = RedisScheduleEntry("c", "proj.work", clocked(start), app=app)
    ruled = RedisScheduleEntry("d", "proj.work", rrule("DAILY", dtstart=start, count=3), app=app)

    assert fire_times(bounded.upcoming(9)) == [start, start + MINUTE, start + 2 * MINUTE]
    assert fire_times(counted.upcoming(9)) == [start, start + MINUTE]
    assert fire_times(once.upcoming(9)) == [start]
    assert len(ruled.upcoming(9)) == 3


def test_an_entry_that_could_not_be_saved_raises_why(app: Celery, client: redis.Redis) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.jitter: "):
        RedisScheduleEntry("report", "proj.work", 60.0, app=app, jitter=-1).upcoming()
    with pytest.raises(InvalidEntry, match=r"^\$\.end_at: .* has passed; the entry would never run"):
        RedisScheduleEntry("report", "proj.work", 60.0, app=app, end_at=ago(days=1)).upcoming()
    with pytest.raises(InvalidEntry, match=r"^\$\.task: "):
        RedisScheduleEntry("report", schedule=60.0, app=app).upcoming()
    assert list(client.scan_iter()) == []


@pytest.mark.parametrize("n", [0, -1, 1001, True, 2.0, "5", None])
def test_an_invalid_number_of_runs_is_refused(app: Celery, n: Any) -> None:
    with pytest.raises(ValueError, match="limit: expected a whole number from 1 to 1000"):
        RedisScheduleEntry("report", "proj.work", 60.0, app=app).upcoming(n)


def test_a_thousand_runs_can_be_returned(app: Celery) -> None:
    runs = RedisScheduleEntry("report", "proj.work", crontab(), app=app).upcoming(1000)

    assert fire_times(runs) == [runs[0].fire_time + number * MINUTE for number in range(1000)]


def test_the_effect_of_a_clock_change_is_noted(app: Celery) -> None:
    second_sunday_of_march = crontab(minute=30, hour=2, day_of_month="8-14", day_of_week="sun", month_of_year=3)
    entry = RedisScheduleEntry("report", "proj.work", second_sunday_of_march, app=app, timezone="America/New_York")

    [run] = entry.upcoming(1)

    assert (run.local.hour, run.local.minute) == (3, 0)
    assert run.note == f"moved from 02:30, which does not exist on {run.local:%Y-%m-%d}"


# What is stored


def test_a_stored_entry_begins_with_the_fire_time_that_beat_has_planned(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 60.0, app=app, last_run_at=ago(seconds=20)).save()

    runs = entry.upcoming(2)

    assert fire_times(runs) == [due(entry), due(entry) + MINUTE]


def test_a_name_is_enough_for_what_is_stored(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 60.0, app=app, last_run_at=ago(seconds=20)).save()
    expected = entry.upcoming(3)

    assert RedisScheduleEntry("report", app=app).upcoming(3) == expected
    assert ScheduleStore(app).upcoming("report", 3) == expected
    assert ScheduleStore(app).upcoming("report", limit=3) == expected


def test_a_name_that_is_not_stored_is_an_error(app: Celery) -> None:
    with pytest.raises(EntryNotFound):
        RedisScheduleEntry("nobody", app=app).upcoming()
    with pytest.raises(EntryNotFound):
        ScheduleStore(app).upcoming("nobody")


def test_asking_for_runs_writes_nothing(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = save_due(app, "report")
    before = contents(client, prefix)

    entry.upcoming()
    ScheduleStore(app).upcoming("report")

    assert contents(client, prefix) == before


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"schedule": NOON}, id="schedule"),
        pytest.param({"schedule": NOON, "timezone": "Asia/Tokyo"}, id="zone"),
        pytest.param({"jitter": 1000}, id="jitter"),
        pytest.param({"max_runs": 1}, id="max_runs"),
        pytest.param({"start_at": datetime(2100, 1, 1, tzinfo=UTC)}, id="start_at"),
        pytest.param({"enabled": False}, id="disabled"),
        pytest.param({"args": [1]}, id="args"),
    ],
)
def test_an_edited_entry_returns_its_runs_as_if_it_was_saved_and_changes_nothing_stored(
    app: Celery, client: redis.Redis, prefix: str, changes: dict[str, Any]
) -> None:
    monthly = crontab(minute=0, hour=0, day_of_month=1)  # no fire time passes between the two answers
    RedisScheduleEntry("report", "proj.work", monthly, app=app, last_run_at=ago(seconds=20)).save()
    edited = stored(app, "report")
    for name, value in changes.items():
        setattr(edited, name, value)
    before = contents(client, prefix)

    runs = edited.upcoming(3)

    assert contents(client, prefix) == before
    assert runs == edited.save().upcoming(3)
    assert runs == ScheduleStore(app).upcoming("report", 3)


def test_a_disabled_entry_has_no_runs(app: Celery) -> None:
    entry = save_due(app, "report").disable()

    assert entry.upcoming() == []
    assert RedisScheduleEntry("new", "proj.work", 60.0, app=app, enabled=False).upcoming() == []


def test_enabling_a_disabled_entry_can_be_previewed(app: Celery) -> None:
    entry = save_due(app, "report", late=30.0)
    first = due(entry)
    entry.disable()

    entry.enabled = True

    assert fire_times(entry.upcoming(2)) == [first + MINUTE, first + 2 * MINUTE]
    assert stored(app, "report").upcoming() == []


@pytest.mark.parametrize("on_finish", ["keep", "disable"])
def test_an_entry_that_has_finished_has_no_runs(app: Celery, scheduler: RedisScheduler, on_finish: str) -> None:
    save_due(app, "report", max_runs=1, on_finish=on_finish)
    run_due(scheduler)

    assert ScheduleStore(app).upcoming("report") == []


def test_no_more_runs_are_returned_than_are_left(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", max_runs=3)
    run_due(scheduler)

    assert len(ScheduleStore(app).upcoming("report", 9)) == 2


def test_an_overdue_fire_time_comes_first(app: Celery) -> None:
    entry = save_due(app, "report", late=30.0)

    assert fire_times(entry.upcoming(2)) == [due(entry), due(entry) + MINUTE]


def test_jitter_delays_when_a_run_is_due(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", NOON, app=app, timezone="UTC", jitter=600).save()

    runs = entry.upcoming(5)

    assert runs[0].due_at == entry.due_at
    assert len({run.due_at - run.fire_time for run in runs}) == 5
    assert all(timedelta() <= run.due_at - run.fire_time <= timedelta(seconds=600) for run in runs)
    assert {(run.fire_time.hour, run.fire_time.minute) for run in runs} == {(12, 0)}
    assert all(run.as_dict()["due_at"] == run.due_at.isoformat() for run in runs)


def test_jitter_of_the_settings_delays_a_run_too(make_app: MakeApp) -> None:
    entry = RedisScheduleEntry("report", "proj.work", NOON, app=make_app(redisbeater_jitter=600))

    [run] = entry.upcoming(1)

    assert timedelta() < run.due_at - run.fire_time < timedelta(seconds=600)


def test_without_jitter_a_run_is_due_at_its_fire_time(app: Celery) -> None:
    [run] = RedisScheduleEntry("report", "proj.work", NOON, app=app).upcoming(1)

    assert run.due_at == run.fire_time
    assert run.as_dict()["due_at"] == run.as_dict()["fire_time"]


def test_an_entry_that_jitter_delays_returns_the_fire_time_it_waits_for(app: Celery, scheduler: RedisScheduler) -> None:
    fire_time = ago(seconds=1)
    entry = RedisScheduleEntry("report", "proj.work", clocked(fire_time), app=app, jitter=10_000).save()
    expected = entry.upcoming()
    assert run_due(scheduler) == []

    assert ScheduleStore(app).upcoming("report") == expected
    assert fire_times(expected) == [fire_time]


def test_a_broken_entry_has_no_upcoming_runs_and_raises_why(app: Celery, client: redis.Redis) -> None:
    entry = save_due(app, "report")
    client.hset(entry.key, "definition", "{")

    with pytest.raises(InvalidEntry):
        ScheduleStore(app).upcoming("report")


def test_runs_print_as_texts(app: Celery) -> None:
    [run] = RedisScheduleEntry("report", "proj.work", NOON, app=app, timezone="Asia/Tokyo").upcoming(1)

    texts = run.as_dict()

    assert list(texts) == ["name", "task", "fire_time", "local", "due_at", "note"]
    assert texts["fire_time"].endswith("T03:00:00+00:00")
    assert texts["local"].endswith("T12:00:00+09:00")
