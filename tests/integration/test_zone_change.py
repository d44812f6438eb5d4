"""When the application's time zone changes, entries that inherit it are planned again; no local time runs twice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import crontab, schedule
from due import UTC, ago, stored

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, any_of, clocked, cron, rrule
from redisbeater.beat import replanning, zone_change
from redisbeater.beat.zone_change import ZoneChange
from redisbeater.context import Context
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.rescheduling import Before, Replan
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.resolved_policy import Defaults
from redisbeater.results import Score
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.limited import limited
from redisbeater.store import Snapshot
from redisbeater.store.schedule import ZONE_KEPT_MILLISECONDS

CODEC = ScheduleCodec()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# One entry, by values


def snapshot_of(definition: Definition, *, now: str, pending: str, last: str | None, **fields: Any) -> Snapshot:
    meta = "" if last is None else Meta(last_run_at=at(last), total_run_count=1, score_follows_last_run=True).to_text()
    score = Score(fire_time=at(pending))
    return Snapshot(name="report", now=at(now), definition=definition.to_text(CODEC), meta=meta, score=score, **fields)


def replanned(
    given: Any, before: str, after: str, *, now: str, pending: str, last: str | None, **fields: Any
) -> datetime | None:
    """Plan the entry again by a new zone; its fire time then, which a second time does not change."""
    known = {name: fields.pop(name) for name in ("claim_id", "skipped") if name in fields}
    definition = Definition.checked(name="report", task="proj.work", schedule=given, **fields)
    snapshot = snapshot_of(definition, now=now, pending=pending, last=last, **known)
    change, defaults = (
        Replan(name="report", before=Before(zone=before, codec=CODEC, inherits_other=True), decoder=CODEC),
        Defaults(zone=ZoneInfo(after)),
    )
    score = change.apply(snapshot, defaults, CODEC).score or snapshot.score
    again = change.apply(replace(snapshot, score=score), defaults, CODEC).score
    assert again is None
    return score and score.fire_time


MONTHLY, DAILY, HOURLY = crontab(0, 9, day_of_month=1), crontab(0, 9), crontab(11)
NEW_YORK, KOLKATA = "America/New_York", "Asia/Kolkata"


@pytest.mark.parametrize(
    ("given", "after", "now", "pending", "last", "expected"),
    [
        pytest.param(
            MONTHLY, NEW_YORK, "2026-12-01 10:00", "2027-01-01 09:00", "2026-12-01 09:00", "2027-01-01 14:00",
            id="monthly-that-ran-today-does-not-run-again-today",
        ),
        pytest.param(
            MONTHLY, NEW_YORK, "2026-12-01 08:00", "2026-12-01 09:00", "2026-11-01 09:00", "2026-12-01 14:00",
            id="monthly-that-is-to-run-today-runs-today",
        ),
        pytest.param(
            DAILY, NEW_YORK, "2026-12-05 08:00", "2026-12-05 09:00", "2026-12-04 09:00", "2026-12-05 14:00",
            id="daily-to-the-west",
        ),
        pytest.param(
            DAILY, KOLKATA, "2026-12-05 10:00", "2026-12-06 09:00", "2026-12-05 09:00", "2026-12-06 03:30",
            id="daily-to-the-east",
        ),
        pytest.param(
            DAILY, KOLKATA, "2026-12-05 05:00", "2026-12-05 09:00", "2026-12-04 09:00", "2026-12-05 03:30",
            id="daily-whose-time-has-passed-in-the-east-is-due",
        ),
        pytest.param(
            DAILY, KOLKATA, "2026-12-05 05:00", "2026-12-05 09:00", None, "2026-12-06 03:30",
            id="new-entry-waits-for-its-next-time",
        ),
        pytest.param(
            DAILY, KOLKATA, "2026-12-05 10:00", "2026-12-05 09:00", None, "2026-12-05 03:30",
            id="new-entry-that-is-overdue-stays-due",
        ),
        pytest.param(
            crontab(0, "9,10,14"), NEW_YORK, "2026-12-05 09:30", "2026-12-05 10:00", "2026-12-05 09:00",
            "2026-12-05 15:00", id="of-several-local-times-none-runs-twice",
        ),
        pytest.param(
            HOURLY, KOLKATA, "2026-12-05 22:20", "2026-12-05 23:11", "2026-12-05 22:11", "2026-12-05 22:41",
            id="hourly-keeps-its-local-minute",
        ),
        pytest.param(
            crontab("*/5"), NEW_YORK, "2026-12-05 22:12", "2026-12-05 22:15", "2026-12-05 22:10", "2026-12-05 22:15",
            id="elapsed-time-is-never-silent-for-the-difference",
        ),
        pytest.param(
            cron("30 */5 * * * *"), NEW_YORK, "2026-12-05 22:12", "2026-12-05 22:15:30", "2026-12-05 22:10:30",
            "2026-12-05 22:15:30", id="nor-are-expressions-with-seconds",
        ),
        pytest.param(
            crontab(30, 2), NEW_YORK, "2026-03-08 02:00", "2026-03-08 02:30", "2026-03-07 02:30", "2026-03-08 07:00",
            id="in-the-gap-of-the-new-zone",
        ),
        pytest.param(
            crontab(30, 2), NEW_YORK, "2026-03-08 03:00", "2026-03-09 02:30", "2026-03-08 02:30", "2026-03-09 06:30",
            id="on-the-day-of-the-gap-not-twice",
        ),
        pytest.param(
            crontab(30, 1), NEW_YORK, "2026-11-01 02:00", "2026-11-02 01:30", "2026-11-01 01:30", "2026-11-02 06:30",
            id="on-the-day-of-a-repeated-hour-not-twice",
        ),
        pytest.param(
            any_of("0 9 * * *", "0 12 * * *"), NEW_YORK, "2026-12-05 10:00", "2026-12-05 12:00", "2026-12-05 09:00",
            "2026-12-05 17:00", id="of-several-crons-none-runs-twice",
        ),
        pytest.param(
            any_of("0 9 * * *", "*/30 * * * *"), NEW_YORK, "2026-12-05 10:10", "2026-12-05 10:30", "2026-12-05 10:00",
            "2026-12-05 10:30", id="of-several-crons-the-repeating-one-is-never-silent",
        ),
        pytest.param(
            any_of("0 9 * * *", "0 23-21/2 * * *"), KOLKATA, "2026-12-05 05:10", "2026-12-05 07:00", "2026-12-05 05:00",
            "2026-12-05 05:30", id="of-several-crons-none-goes-back-behind-the-last-run",
        ),
        pytest.param(
            limited(schedule(3600), "09:00-17:00"), NEW_YORK, "2026-12-05 11:30", "2026-12-05 12:00",
            "2026-12-05 11:00", "2026-12-05 14:00", id="interval-within-a-window-waits-for-it",
        ),
        pytest.param(
            limited(cron("0 9,12 * * *"), "10:00-13:00"), NEW_YORK, "2026-12-05 10:00", "2026-12-05 12:00",
            "2026-12-04 12:00", "2026-12-05 17:00", id="cron-within-a-window-keeps-its-local-time",
        ),
        pytest.param(
            clocked(datetime(2027, 1, 1, 9)), NEW_YORK, "2026-12-05 10:00", "2027-01-01 09:00", None,
            "2027-01-01 14:00", id="moment-without-a-zone",
        ),
        pytest.param(
            schedule(timedelta(days=1), relative=True), NEW_YORK, "2026-12-05 10:00", "2026-12-06 00:00",
            "2026-12-05 00:00", "2026-12-06 05:00", id="relative-interval-of-a-day",
        ),
    ],
)  # fmt: skip
def test_the_next_fire_time_by_a_new_zone(
    given: Any, after: str, now: str, pending: str, last: str | None, expected: str
) -> None:
    assert replanned(given, "UTC", after, now=now, pending=pending, last=last) == at(expected)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        pytest.param(DAILY, {"timezone": "UTC"}, id="own-zone"),
        pytest.param(cron("0 9 * * *", "UTC"), {}, id="zone-of-cron"),
        pytest.param(86_400, {}, id="interval"),
        pytest.param(clocked(at("2026-12-05 09:00")), {}, id="moment-with-a-zone"),
        pytest.param(rrule("FREQ=DAILY", dtstart=at("2026-01-01 09:00")), {}, id="rule"),
        pytest.param(DAILY, {"claim_id": "c"}, id="claimed"),
        pytest.param(crontab(7, 8), {}, id="fire-time-that-a-program-has-set"),
    ],
)
def test_other_entries_keep_their_fire_time(given: Any, fields: dict[str, Any]) -> None:
    found = replanned(given, "UTC", NEW_YORK, now="2026-12-05 08:00", pending="2026-12-05 09:00", last=None, **fields)

    assert found == at("2026-12-05 09:00")


def test_a_skipped_fire_time_does_not_run_after_all() -> None:
    skipped = '{"missed": {"count": 1, "last": "2026-12-01T09:00:00+00:00"}}'

    found = replanned(
        MONTHLY, "UTC", NEW_YORK, now="2026-12-01 10:00", pending="2027-01-01 09:00", last=None, skipped=skipped
    )

    assert found == at("2027-01-01 14:00")


# In Redis, with beats


@pytest.fixture
def in_zone(make_app: Callable[..., Celery]) -> Callable[[str], Celery]:
    return lambda zone: make_app(timezone=zone)


@pytest.fixture
def lead(
    make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str
) -> Callable[[Celery], RedisScheduler]:
    """Let a beat of an app lead until it has planned everything again, then end it."""

    def lead(app: Celery) -> RedisScheduler:
        scheduler = make_scheduler(app)
        scheduler.tick()
        while client.pttl(f"{prefix}:zone:before") == -1:
            scheduler.tick()
        scheduler.close()
        return scheduler

    return lead


def save(app: Celery, name: str = "report", given: Any = DAILY, **fields: Any) -> RedisScheduleEntry:
    return RedisScheduleEntry(name, "proj.work", given, app=app, **fields).save()


def local_hour(app: Celery, zone: str, name: str = "report") -> int:
    due_at = stored(app, name).due_at
    assert due_at is not None
    return due_at.astimezone(ZoneInfo(zone)).hour


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        record.getMessage() for record in caplog.records if record.levelno == level and "zone" in record.getMessage()
    ]


def test_a_new_zone_plans_again_and_logs_before_and_after(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], client: redis.Redis, prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO, "redisbeater")
    lead(in_zone("UTC"))
    before = save(in_zone("UTC"), last_run_at=ago(hours=30)).due_at
    hourly = save(in_zone("UTC"), "interval", 3600).due_at

    lead(in_zone(NEW_YORK))

    after = stored(in_zone(NEW_YORK), "report").due_at
    assert before is not None
    assert after is not None
    assert local_hour(in_zone("UTC"), NEW_YORK) == 9
    assert stored(in_zone(NEW_YORK), "interval").due_at == hourly
    assert (client.get(f"{prefix}:zone"), client.get(f"{prefix}:zone:before")) == (NEW_YORK, "UTC")
    assert 0 < int(client.pttl(f"{prefix}:zone:before")) <= ZONE_KEPT_MILLISECONDS  # type: ignore[arg-type]
    assert lines(caplog, logging.WARNING) == [
        "time zone changed from UTC to America/New_York; planning entries without their own again, "
        "sending none until then"
    ]
    assert lines(caplog, logging.INFO) == [
        f"entry 'report': planned at {after.isoformat()} by the new time zone, was {before.isoformat()}",
        "time zone is America/New_York now; planned 1 of 2 entries again",
    ]


def test_deleted_entries_come_back_in_the_new_zone(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any]
) -> None:
    old, new = in_zone("UTC"), in_zone(NEW_YORK)
    for app in (old, new):
        app.conf.beat_schedule = {"static": {"task": "proj.work", "schedule": DAILY}}
    lead(old)
    save(old, "dynamic")
    for name in ("static", "dynamic"):
        ScheduleStore(old).delete(name)

    lead(new)
    ScheduleStore(new).restore("dynamic")

    assert [local_hour(new, NEW_YORK, name) for name in ("static", "dynamic")] == [9, 9]


def test_a_restart_in_the_same_zone_writes_and_logs_nothing(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], client: redis.Redis, prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    entry = save(in_zone(NEW_YORK))
    lead(in_zone(NEW_YORK))
    lead(in_zone(NEW_YORK))

    assert stored(in_zone(NEW_YORK), "report").due_at == entry.due_at
    assert client.get(f"{prefix}:zone:before") is None
    assert "zone" not in caplog.text


def test_every_program_plans_by_the_recorded_zone(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any]
) -> None:
    lead(in_zone(NEW_YORK))
    other = in_zone("UTC")

    save(other)
    with ScheduleStore(other).bulk() as bulk:
        bulk.save(RedisScheduleEntry("bulk", "proj.work", DAILY, app=other))

    assert local_hour(other, NEW_YORK) == local_hour(other, NEW_YORK, "bulk") == 9
    entry = RedisScheduleEntry("new", "proj.work", DAILY, app=other)
    assert {run.local.strftime("%H:%M %Z")[:7] for run in entry.upcoming(3)} <= {"09:00 E"}
    assert {run.local.hour for run in stored(other, "report").upcoming(3)} == {9}


def test_the_first_program_that_plans_records_its_zone_and_beat_plans_again_by_its_own(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], client: redis.Redis, prefix: str
) -> None:
    save(in_zone("UTC"), "interval", 60)
    assert client.get(f"{prefix}:zone") is None
    save(in_zone("UTC"))
    assert client.get(f"{prefix}:zone") == "UTC"

    lead(in_zone(KOLKATA))

    assert local_hour(in_zone("UTC"), KOLKATA) == 9


def test_saving_again_changes_nothing_before_and_after_the_change(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any]
) -> None:
    old, new = in_zone("UTC"), in_zone(NEW_YORK)
    lead(old)
    planned = save(old).due_at
    assert save(new).due_at == planned  # beat has not changed the zone yet

    lead(new)

    replanned_at = stored(new, "report").due_at
    assert local_hour(new, NEW_YORK) == 9
    assert save(new).due_at == save(old).due_at == replanned_at


def test_two_applications_with_different_zones_do_not_replan_for_ever(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], caplog: pytest.LogCaptureFixture
) -> None:
    save(in_zone("UTC"))
    lead(in_zone("UTC"))
    lead(in_zone(NEW_YORK))
    caplog.clear()

    for zone in ("UTC", NEW_YORK, "UTC"):
        lead(in_zone(zone))

    assert local_hour(in_zone("UTC"), NEW_YORK) == 9
    assert lines(caplog, logging.WARNING) == []
    conflicts = lines(caplog, logging.ERROR)
    assert len(conflicts) == 2
    assert all(
        "time zone UTC of this application is not used: the schedule was changed from UTC to America/New_York" in line
        for line in conflicts
    )


def test_after_an_hour_the_leader_uses_the_zone_of_its_application(
    in_zone: Callable[[str], Celery], make_scheduler: Callable[..., RedisScheduler], lead: Callable[[Celery], Any],
    client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    save(in_zone("UTC"))
    lead(in_zone("UTC"))
    lead(in_zone(NEW_YORK))
    monkeypatch.setattr(zone_change, "RETRY_SECONDS", 0.0)
    beat = make_scheduler(in_zone("UTC"))
    beat.tick()
    assert client.get(f"{prefix}:zone") == NEW_YORK

    client.delete(f"{prefix}:zone:before")  # as it expires after an hour
    for _ in range(3):
        beat.tick()

    assert client.get(f"{prefix}:zone") == "UTC"
    assert local_hour(in_zone("UTC"), "UTC") == 9


def test_a_beat_that_ends_in_the_middle_is_followed_by_one_that_finishes(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], client: redis.Redis, prefix: str,
    monkeypatch: pytest.MonkeyPatch, make_scheduler: Callable[..., RedisScheduler], let_pass: Callable[[float], None],
) -> None:  # fmt: skip
    names = [f"e{number}" for number in range(7)]
    lead(in_zone("UTC"))
    for name in names:
        save(in_zone("UTC"), name)
    monkeypatch.setattr(replanning, "PAGE_ENTRIES", 2)
    halfway, pages = ZoneChange(Context.of(in_zone(NEW_YORK))), []

    def write_slowly(*args: Any, **options: Any) -> Any:
        pages.append(write_page(*args, **options))
        let_pass(zone_change.STEP_SECONDS)  # its step is over, and it ends here
        return pages[-1]

    with monkeypatch.context() as patch:
        patch.setattr(replanning, "write_page", write_slowly)
        halfway.begin()
        halfway.step()
    assert [len(page.written) for page in pages] == [2]
    other = make_scheduler(in_zone("UTC"))  # of an application that has the old zone still

    client.zadd(f"{prefix}:schedule", {f"{prefix}{names[0]}": 1.0})  # due: no beat may send it yet
    other.tick()
    assert client.get(f"{prefix}:zone:before") == "UTC"
    assert client.hget(f"{prefix}{names[0]}", "claim") is None
    monkeypatch.setattr(zone_change, "STEP_SECONDS", 5.0)
    while int(client.pttl(f"{prefix}:zone:before")) == -1:  # type: ignore[arg-type]
        other.tick()

    assert {local_hour(in_zone("UTC"), NEW_YORK, name) for name in names[1:]} == {9}


def test_a_beat_without_a_lock_sends_nothing_while_another_one_plans_again(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str
) -> None:
    app = make_app(redisbeater_lock_key=None)
    beat = make_scheduler(app)
    beat.tick()
    RedisScheduleEntry("due", "proj.work", 60, app=app, last_run_at=ago(seconds=61)).save()
    client.set(f"{prefix}:zone", NEW_YORK)
    client.set(f"{prefix}:zone:before", "UTC")  # as another beat has just written it

    beat.tick()
    assert stored(app, "due").total_run_count == 0
    beat.tick()  # begins again, and finds what is unfinished
    while stored(app, "due").total_run_count == 0:
        beat.tick()

    assert int(client.pttl(f"{prefix}:zone:before")) > 0  # type: ignore[arg-type]


def test_a_run_of_beat_is_followed_by_one_in_the_recorded_zone(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis, prefix: str,
) -> None:  # fmt: skip
    lead(in_zone("UTC"))
    lead(in_zone(NEW_YORK))
    app = in_zone("UTC")
    save(app, last_run_at=ago(days=3))

    make_scheduler(app).tick()

    assert stored(app, "report").total_run_count == 1
    assert local_hour(app, NEW_YORK) == 9


@pytest.mark.parametrize("text", ["Mars/Base", "localtime", ""])
def test_a_key_that_holds_no_zone_is_replaced(
    text: str, in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], client: redis.Redis, prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    client.set(f"{prefix}:zone", text)
    entry = save(in_zone(KOLKATA))
    assert local_hour(in_zone(KOLKATA), KOLKATA) == 9

    lead(in_zone(KOLKATA))

    assert client.get(f"{prefix}:zone") == KOLKATA
    assert stored(in_zone(KOLKATA), "report").due_at == entry.due_at
    assert f"{prefix}:zone held {text!r}, which is no time zone, and holds {KOLKATA} now" in caplog.text


def test_a_key_of_another_type_is_left_and_reported(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], client: redis.Redis, prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    client.sadd(f"{prefix}:zone", "x")

    save(in_zone(KOLKATA))
    lead(in_zone(KOLKATA))

    assert local_hour(in_zone(KOLKATA), KOLKATA) == 9
    assert client.type(f"{prefix}:zone") == "set"
    assert f"{prefix}:zone holds a set, which beat did not write" in caplog.text
    client.delete(f"{prefix}:zone")


def test_a_broken_entry_stays_quarantined(
    in_zone: Callable[[str], Celery], lead: Callable[[Celery], Any], client: redis.Redis, prefix: str
) -> None:
    app = in_zone("UTC")
    client.hset(f"{prefix}report", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": 1.0})
    lead(app)
    assert "report" in ScheduleStore(app).broken()

    lead(in_zone(NEW_YORK))

    assert "report" in ScheduleStore(app).broken()
