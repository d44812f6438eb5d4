"""Entries with cron expressions in Redis: saved, read, sent, and shown by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from due import UTC, ago, now, stored
from outbox import run_due

from redisbeater import InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore, cron
from redisbeater.cli import redisbeater

MakeApp = Callable[..., Celery]


def definition(client: redis.Redis, app: Celery, name: str) -> dict[str, Any]:
    text = client.hget(RedisScheduleEntry.generate_key(app, name), "definition")
    return json.loads(text or "{}")


def run_cli(app: Celery, *arguments: str) -> str:
    result = CliRunner().invoke(redisbeater, arguments, obj=SimpleNamespace(app=app), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_it_is_stored_as_its_text_and_read_again(app: Celery, client: redis.Redis) -> None:
    made = cron("*/10 0 18 LW * 5L", timezone="Europe/Vienna")

    RedisScheduleEntry("payday", "proj.work", made, app=app).save()

    assert definition(client, app, "payday")["schedule"] == {"__type__": "cron", "text": "*/10 0 18 LW * 5L"}
    assert definition(client, app, "payday")["timezone"] == "Europe/Vienna"
    assert stored(app, "payday").schedule == made
    assert stored(app, "payday").timezone == "Europe/Vienna"


def test_h_is_stored_as_it_is_written_and_planned_by_the_name(app: Celery, client: redis.Redis) -> None:
    shared = cron("H H * * *")
    for name in ("report", "invoice"):
        RedisScheduleEntry(name, "proj.work", shared, app=app).save()

    due = {name: stored(app, name).due_at for name in ("report", "invoice")}

    assert definition(client, app, "report")["schedule"]["text"] == "H H * * *"
    assert [f"{at:%H:%M}" for at in due.values() if at] == ["06:56", "13:34"]
    assert stored(app, "report").schedule.resolved_text == "56 6 * * *"


def test_a_bulk_plans_each_entry_by_its_own_name(app: Celery) -> None:
    with ScheduleStore(app).bulk() as bulk:
        for number in range(20):
            bulk.save(RedisScheduleEntry(f"entry {number}", "proj.work", cron("H H * * *"), app=app))

    planned = {f"entry {number}": stored(app, f"entry {number}").due_at for number in range(20)}
    expected = {name: cron("H H * * *").for_entry(name).resolved_text for name in planned}

    assert {name: f"{at.minute} {at.hour} * * *" for name, at in planned.items() if at} == expected
    assert len(set(expected.values())) > 10


def test_a_template_by_name_is_not_shared_between_names(app: Celery) -> None:
    store = ScheduleStore(app)
    store.create("report", "proj.work", cron("H H * * *"))

    renamed = RedisScheduleEntry(**{**dict(stored(app, "report")), "name": "invoice", "last_run_at": None}).save()

    assert f"{renamed.due_at:%H:%M}" == "13:34"


def test_an_entry_that_never_fires_is_refused_and_not_stored(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = RedisScheduleEntry("report", "proj.work", cron("0 9 H(30-31) feb *"), app=app)

    with pytest.raises(InvalidEntry, match=r"^\$.schedule.day_of_month: no month of the crontab has such a day"):
        entry.save()

    assert not list(client.scan_iter(f"{prefix}*report"))


def test_a_run_of_every_second_is_sent_and_the_next_one_is_planned(app: Celery, scheduler: RedisScheduler) -> None:
    RedisScheduleEntry("tick", "proj.work", cron("* * * * * *"), app=app, last_run_at=ago(seconds=5)).save()

    sent = run_due(scheduler)

    assert sent
    assert {run.name for run in sent} == {"tick"}
    assert all(run.fire_time.microsecond == 0 for run in sent)
    after = stored(app, "tick")
    assert after.due_at is not None
    assert after.due_at == sent[-1].fire_time + timedelta(seconds=1)
    assert after.skipped["coalesced"].count >= 3


def test_after_a_day_the_newest_missed_fire_time_is_run_and_the_others_are_counted(
    app: Celery, scheduler: RedisScheduler
) -> None:
    day = timedelta(days=1)
    last_run_at = (now() - day).replace(microsecond=0)
    RedisScheduleEntry("tick", "proj.work", cron("*/10 * * * * *"), app=app, last_run_at=last_run_at).save()

    first, *_ = run_due(scheduler)

    assert now() - first.fire_time < timedelta(seconds=60)
    assert first.fire_time.second % 10 == 0
    assert stored(app, "tick").skipped["coalesced"].count >= day // timedelta(seconds=10) - 1


def test_what_another_program_writes_runs(
    app: Celery, client: redis.Redis, scheduler: RedisScheduler, prefix: str
) -> None:
    key = RedisScheduleEntry.generate_key(app, "raw")
    text = json.dumps({"task": "proj.work", "schedule": {"__type__": "cron", "text": "H H * * *"}})
    client.hset(key, "definition", text)
    client.zadd(f"{prefix}:schedule", {key: 0})

    (sent,) = run_due(scheduler)

    planned = stored(app, "raw")
    assert sent.name == "raw"
    assert planned.due_at is not None
    assert f"{planned.due_at.minute} {planned.due_at.hour} * * *" == planned.schedule.resolved_text


def test_a_text_that_cannot_be_read_quarantines_its_entry_alone(
    app: Celery, client: redis.Redis, scheduler: RedisScheduler, prefix: str
) -> None:
    RedisScheduleEntry("tick", "proj.work", cron("* * * * * *"), app=app, last_run_at=ago(seconds=5)).save()
    key = RedisScheduleEntry.generate_key(app, "raw")
    text = json.dumps({"task": "proj.work", "schedule": {"__type__": "cron", "text": "0 9 * * fri#9"}})
    client.hset(key, "definition", text)
    client.zadd(f"{prefix}:schedule", {key: 0})

    sent = run_due(scheduler)

    assert {run.name for run in sent} == {"tick"}
    assert "$.schedule.text: cannot read 'fri#9'" in run_cli(app, "broken")


def test_static_entries_may_have_it(make_app: MakeApp, make_scheduler: Callable[..., RedisScheduler]) -> None:
    app = make_app(beat_schedule={"report": {"task": "proj.work", "schedule": cron("0 H H * * fri#1")}})

    make_scheduler(app).setup_schedule()

    due = stored(app, "report").due_at
    assert due is not None
    assert (due.isoweekday(), f"{due:%H:%M:%S}") == (5, "06:56:00")
    assert due.day <= 7


def test_the_command_line_shows_resolved_times(app: Celery) -> None:
    RedisScheduleEntry("report", "proj.work", cron("0 H H * * fri#1"), app=app).save()

    listed, shown = (run_cli(app, *arguments) for arguments in (("list",), ("show", "report")))
    upcoming = [json.loads(line) for line in run_cli(app, "upcoming", "report", "-n", "3", "--json").splitlines()]

    assert "at 06:56 on the first Friday of the month" in listed
    assert "at 06:56 on the first Friday of the month" in shown
    assert "  cron         0 H H * * fri#1: 0 56 6 * * fri#1\n" in shown
    times = [datetime.fromisoformat(run["fire_time"]).astimezone(UTC) for run in upcoming]
    assert {f"{time:%a %H:%M:%S}" for time in times} == {"Fri 06:56:00"}
    assert len({time.month for time in times}) == 3
