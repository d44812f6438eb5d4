"""New entries that are saved one after the other are not read before, and what has changed meanwhile is found."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import now, stored

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.exceptions import EntryExists, InvalidEntry


def save(app: Celery, name: str, given: Any = 60.0, **fields: Any) -> RedisScheduleEntry:
    return RedisScheduleEntry(name, "proj.work", given, app=app, **fields).save()


def scripts_run(client: redis.Redis) -> int:
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


def due(entry: RedisScheduleEntry) -> datetime:
    assert entry.due_at is not None
    return entry.due_at


def test_each_new_entry_after_the_first_takes_one_script(app: Celery, client: redis.Redis) -> None:
    save(app, "first", crontab(0, 9))
    save(app, "second", crontab(0, 9))
    before = scripts_run(client)

    for number in range(20):
        save(app, f"e{number}", crontab(0, number))

    # One that has waited for a second, on a machine with much to do, is read all the same.
    assert 20 <= scripts_run(client) - before < 30
    assert len([*ScheduleStore(app).names()]) == 22
    assert due(stored(app, "e5")).minute == 0


def test_entries_that_are_stored_take_two_scripts_each(app: Celery, client: redis.Redis) -> None:
    for number in range(10):
        save(app, f"e{number}")
    save(app, "e0", 61.0)
    before = scripts_run(client)

    for number in range(1, 10):
        save(app, f"e{number}", 61.0)

    assert scripts_run(client) - before == 18


def test_an_entry_that_another_program_has_stored_keeps_its_counters(
    app: Celery, make_app: Callable[..., Celery]
) -> None:
    save(make_app(), "theirs", last_run_at=now(), total_run_count=7)
    save(app, "ours")

    entry = save(app, "theirs", 120.0)

    assert (entry.total_run_count, entry.schedule.run_every) == (7, timedelta(minutes=2))


def test_an_entry_that_another_program_has_stored_is_not_created_again(
    app: Celery, make_app: Callable[..., Celery]
) -> None:
    save(make_app(), "theirs")
    save(app, "ours")

    with pytest.raises(EntryExists):
        RedisScheduleEntry("theirs", "proj.other", 60.0, app=app).create()
    assert stored(app, "theirs").task == "proj.work"


def test_a_new_entry_is_planned_by_the_zone_of_now(app: Celery, client: redis.Redis, prefix: str) -> None:
    save(app, "first", crontab(0, 9))
    save(app, "second", crontab(0, 9))
    client.set(f"{prefix}:zone", "Asia/Kolkata")

    assert due(save(app, "third", crontab(0, 9))).strftime("%H:%M") == "03:30"


@pytest.mark.parametrize("seconds", [5.0, -5.0])
def test_a_new_entry_is_planned_by_the_clock_of_the_server(
    seconds: float, app: Celery, let_pass: Callable[[float], None]
) -> None:
    save(app, "first")
    let_pass(seconds)

    assert abs(due(save(app, "second", 1_000.0)) - now() - timedelta(seconds=1_000)) < timedelta(seconds=4)


def test_a_new_entry_that_never_fires_is_refused(app: Celery) -> None:
    save(app, "first")

    with pytest.raises(InvalidEntry, match=r"\$\.end_at"):
        save(app, "second", end_at=now() - timedelta(days=1))
    assert [*ScheduleStore(app).names()] == ["first"]
