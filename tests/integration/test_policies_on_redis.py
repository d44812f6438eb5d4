"""Policies from the claim to the commit: which runs are sent, which are skipped and why, and when beat looks again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import UTC, ago, now, save_due, stored
from outbox import Sent, names, run_due, take
from support.claims import claim_fields
from support.waiting import wait_until

from redisbeater import EntryNotFound, RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked, rrule
from redisbeater.context import Context
from redisbeater.sending.run import task_id

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]

MINUTE = timedelta(minutes=1)

#: Five fire times of an interval of a minute have passed, the newest half a minute ago.
FIVE_LATE = 270.0


def fire_times(sent: list[Sent]) -> list[datetime]:
    return [run.fire_time for run in sent]


def due(entry: RedisScheduleEntry) -> datetime:
    assert entry.due_at is not None
    return entry.due_at


def skipped(app: Celery, name: str = "report") -> dict[str, int]:
    return {reason: record.count for reason, record in stored(app, name).skipped.items()}


def traces(client: redis.Redis, prefix: str, name: str) -> list[str]:
    """Return the places in Redis that still have data of an entry."""
    found = {
        "hash": client.exists(f"{prefix}{name}"),
        "schedule": client.zscore(f"{prefix}:schedule", f"{prefix}{name}") is not None,
        "broken": client.hexists(f"{prefix}:broken", name),
        "statics": client.sismember(f"{prefix}:statics", name),
    }
    return [place for place, is_there in found.items() if is_there]


# coalesce


@pytest.mark.parametrize(
    ("coalesce", "expected", "counts"),
    [
        pytest.param("latest", [4], {"coalesced": 4}, id="latest"),
        pytest.param("earliest", [0], {"coalesced": 4}, id="earliest"),
        pytest.param("all", [0, 1, 2, 3, 4], {}, id="all"),
    ],
)
def test_coalesce_decides_which_of_the_fire_times_that_passed_are_run(
    app: Celery, scheduler: RedisScheduler, coalesce: str, expected: list[int], counts: dict[str, int]
) -> None:
    first = due(save_due(app, "report", late=FIVE_LATE, coalesce=coalesce))

    sent = run_due(scheduler)

    entry = stored(app, "report")
    assert fire_times(sent) == [first + number * MINUTE for number in expected]
    assert (entry.due_at, entry.total_run_count, skipped(app)) == (first + 5 * MINUTE, len(expected), counts)


def test_the_newest_coalesced_fire_time_is_recorded(app: Celery, scheduler: RedisScheduler) -> None:
    first = due(save_due(app, "report", late=FIVE_LATE))

    run_due(scheduler)

    assert stored(app, "report").skipped["coalesced"].last == first + 3 * MINUTE


def test_the_count_of_coalesced_fire_times_adds_up(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", late=FIVE_LATE)
    run_due(scheduler)
    stored(app, "report").reschedule(ago(seconds=150))

    run_due(scheduler)

    assert skipped(app) == {"coalesced": 4 + 1}


def test_each_run_of_a_catch_up_has_the_id_of_its_fire_time(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "report", late=FIVE_LATE, coalesce="all")

    sent = run_due(scheduler)

    namespace = client.get(f"{prefix}:id")
    assert [run.id for run in sent] == [task_id(namespace, "report", run.fire_time) for run in sent]
    assert len({run.id for run in sent}) == 5


def test_a_crontab_catches_up_on_each_minute_that_passed(app: Celery, scheduler: RedisScheduler) -> None:
    entry = RedisScheduleEntry(
        "report", "proj.work", crontab(), app=app, last_run_at=ago(minutes=10), coalesce="all"
    ).save()
    first = due(entry)

    sent = run_due(scheduler)

    assert len(sent) >= 10
    assert fire_times(sent) == [first + number * MINUTE for number in range(len(sent))]
    assert stored(app, "report").due_at == first + len(sent) * MINUTE


def test_after_a_long_downtime_the_newest_hundred_run_and_the_others_are_recorded_as_left_out(
    app: Celery, scheduler: RedisScheduler
) -> None:
    first = due(save_due(app, "report", late=60 * 60 * 24 * 365 - 30, coalesce="all"))

    sent = run_due(scheduler)

    left_out = stored(app, "report").skipped["left_out"]
    assert len(sent) == 100
    assert left_out.last == sent[0].fire_time - MINUTE
    assert left_out.count == (sent[0].fire_time - first) // MINUTE


def test_the_skipped_fire_times_of_a_year_of_a_crontab_are_counted_exactly(
    app: Celery, scheduler: RedisScheduler
) -> None:
    # Without this hour and the next one: no minute of the schedule ends in the test.
    began = now()
    hours = sorted({*range(24)} - {began.hour, (began.hour + 1) % 24})
    RedisScheduleEntry(
        "report", "proj.work", crontab(hour=hours), app=app, last_run_at=began - timedelta(days=365)
    ).save()

    [run] = run_due(scheduler)

    assert stored(app, "report").skipped["coalesced"].count == 365 * 22 * 60 - 1
    assert run.fire_time == began.replace(minute=59, second=0, microsecond=0) - timedelta(hours=1)


# misfire_grace_time


@pytest.mark.parametrize(
    ("fields", "expected", "counts"),
    [
        pytest.param({}, [4], {"missed": 3, "coalesced": 1}, id="latest"),
        pytest.param({"coalesce": "earliest"}, [3], {"missed": 3, "coalesced": 1}, id="earliest"),
        pytest.param({"coalesce": "all"}, [3, 4], {"missed": 3}, id="all"),
    ],
)
def test_fire_times_that_are_later_than_the_grace_are_missed(
    app: Celery, scheduler: RedisScheduler, fields: dict[str, Any], expected: list[int], counts: dict[str, int]
) -> None:
    first = due(save_due(app, "report", late=FIVE_LATE, misfire_grace_time=120, **fields))

    sent = run_due(scheduler)

    assert fire_times(sent) == [first + number * MINUTE for number in expected]
    assert skipped(app) == counts
    assert stored(app, "report").due_at == first + 5 * MINUTE


def test_an_entry_whose_fire_times_were_all_missed_continues_without_a_run(
    app: Celery, scheduler: RedisScheduler
) -> None:
    first = due(save_due(app, "report", late=FIVE_LATE, misfire_grace_time=1))
    last_run_at = stored(app, "report").last_run_at

    assert run_due(scheduler) == []

    entry = stored(app, "report")
    assert (entry.due_at, entry.total_run_count, entry.last_run_at) == (first + 5 * MINUTE, 0, last_run_at)
    assert skipped(app) == {"missed": 5}


def test_a_one_off_that_was_missed_has_finished(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = clocked(ago(minutes=10))
    RedisScheduleEntry("report", "proj.work", schedule, app=app, misfire_grace_time=60).save()

    assert run_due(scheduler) == []

    assert (stored(app, "report").due_at, skipped(app)) == (None, {"missed": 1})
    assert "entry 'report': skipped 1 fire time (missed), " in caplog.text


# Settings and entries


def test_the_settings_give_the_defaults(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    app = make_app(redisbeater_misfire_grace_time=120, redisbeater_coalesce="all")
    first = due(save_due(app, "report", late=FIVE_LATE))

    sent = run_due(make_scheduler(app))

    assert fire_times(sent) == [first + 3 * MINUTE, first + 4 * MINUTE]
    assert skipped(app) == {"missed": 3}


def test_an_entry_may_override_the_settings(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    app = make_app(redisbeater_misfire_grace_time=1, redisbeater_coalesce="all", redisbeater_jitter=50)
    first = due(save_due(app, "report", late=FIVE_LATE, misfire_grace_time=None, coalesce="earliest", jitter=0))

    assert fire_times(run_due(make_scheduler(app))) == [first]
    assert skipped(app) == {"coalesced": 4}


def test_an_entry_may_override_the_jitter_of_the_settings_with_none(make_app: MakeApp) -> None:
    app = make_app(redisbeater_jitter=50)
    fire_time = now() + timedelta(minutes=5)

    inherits = RedisScheduleEntry("a", "proj.work", clocked(fire_time), app=app).save()
    overrides = RedisScheduleEntry("b", "proj.work", clocked(fire_time), app=app, jitter=0).save()

    assert fire_time < due(inherits) < fire_time + timedelta(seconds=50)
    assert due(overrides) == fire_time


def test_celerys_deadline_for_crontabs_is_the_grace_of_crontabs_only(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    app = make_app(beat_cron_starting_deadline=1)
    save_due(app, "interval", late=30.0)
    yesterday = ago(days=1)
    fire_time = ago(minutes=30)
    schedule = crontab(minute=fire_time.minute, hour=fire_time.hour)
    RedisScheduleEntry("cron", "proj.work", schedule, app=app, timezone="UTC", last_run_at=yesterday).save()

    assert names(run_due(make_scheduler(app))) == ["interval"]
    assert skipped(app, "cron") == {"missed": 1}


def test_an_edit_of_a_policy_takes_effect_for_what_is_due_next(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report", late=FIVE_LATE, coalesce="latest")
    first = due(entry)

    edited = ScheduleStore(app).update("report", coalesce="all", misfire_grace_time=180)
    sent = run_due(scheduler)

    assert edited.due_at == first
    assert fire_times(sent) == [first + number * MINUTE for number in (2, 3, 4)]


# Logs


def test_missed_fire_times_are_logged_as_a_warning_with_the_entry_and_the_reason(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    first = due(save_due(app, "report", late=FIVE_LATE, misfire_grace_time=1))

    with caplog.at_level(logging.INFO, "redisbeater"):
        run_due(scheduler)

    [warning] = [record for record in caplog.records if "skipped" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    for word in ("'report'", "5 fire times", "missed", first.isoformat(), (first + 4 * MINUTE).isoformat()):
        assert word in warning.getMessage()


def test_coalesced_fire_times_are_logged_as_information(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    save_due(app, "report", late=FIVE_LATE)

    with caplog.at_level(logging.INFO, "redisbeater"):
        run_due(scheduler)

    [line] = [record for record in caplog.records if "one run replaces" in record.getMessage()]
    assert (line.levelno, "4 other fire times" in line.getMessage()) == (logging.INFO, True)


def test_an_entry_on_time_logs_nothing_about_skipping(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    save_due(app, "report")

    with caplog.at_level(logging.INFO, "redisbeater"):
        run_due(scheduler)

    assert "fire times" not in caplog.text
    assert stored(app, "report").skipped == {}


# max_runs


def test_an_entry_that_has_had_its_runs_has_finished(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report", max_runs=2)
    run_due(scheduler)
    entry.reschedule(ago(seconds=61))

    assert names(run_due(scheduler)) == ["report"]

    entry = stored(app, "report")
    assert (entry.due_at, entry.total_run_count, entry.enabled) == (None, 2, True)


def test_max_runs_runs_the_oldest_of_the_fire_times_that_passed(app: Celery, scheduler: RedisScheduler) -> None:
    first = due(save_due(app, "report", late=FIVE_LATE, coalesce="all", max_runs=3))

    sent = run_due(scheduler)

    entry = stored(app, "report")
    assert fire_times(sent) == [first, first + MINUTE, first + 2 * MINUTE]
    assert (entry.due_at, skipped(app)) == (None, {"max_runs": 2})


def test_missed_fire_times_do_not_count_as_runs(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report", late=FIVE_LATE, misfire_grace_time=20, max_runs=1)
    run_due(scheduler)
    entry.reschedule(ago(seconds=60.5))

    assert names(run_due(scheduler)) == ["report"]
    assert stored(app, "report").total_run_count == 1


def test_an_entry_that_had_its_runs_does_not_run_when_another_program_sets_it_due(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report", max_runs=1)
    run_due(scheduler)

    client.zadd(f"{prefix}:schedule", {entry.key: 0})

    assert run_due(scheduler) == []
    assert (stored(app, "report").due_at, skipped(app)) == (None, {"max_runs": 1})


def test_raising_max_runs_resumes_a_finished_entry_on_its_grid(app: Celery, scheduler: RedisScheduler) -> None:
    first = due(save_due(app, "report", late=30.0, max_runs=1))
    run_due(scheduler)

    resumed = ScheduleStore(app).update("report", max_runs=2)

    assert resumed.due_at == first + MINUTE


# start_at, end_at


def test_an_interval_begins_at_start_at(app: Celery, scheduler: RedisScheduler) -> None:
    start = ago(seconds=30)
    RedisScheduleEntry("report", "proj.work", 60.0, app=app, start_at=start).save()

    sent = run_due(scheduler)

    assert fire_times(sent) == [start]
    assert stored(app, "report").due_at == start + MINUTE


def test_nothing_runs_after_end_at(app: Celery, scheduler: RedisScheduler) -> None:
    last_run_at = ago(seconds=60 + FIVE_LATE)
    end_at = last_run_at + 3 * MINUTE
    RedisScheduleEntry(
        "report", "proj.work", 60.0, app=app, last_run_at=last_run_at, end_at=end_at, coalesce="all"
    ).save()

    sent = run_due(scheduler)

    assert fire_times(sent) == [last_run_at + MINUTE, last_run_at + 2 * MINUTE, end_at]
    assert stored(app, "report").due_at is None
    assert stored(app, "report").skipped == {}


@pytest.mark.parametrize(
    "bounds",
    [{"end_at": datetime(2020, 1, 1, tzinfo=timezone.utc)}, {"start_at": datetime(2100, 1, 1, tzinfo=timezone.utc)}],
    ids=["after-end_at", "before-start_at"],
)
def test_a_fire_time_that_another_program_sets_out_of_bounds_is_recorded_as_skipped(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, bounds: dict[str, datetime]
) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 60.0, app=app, last_run_at=datetime(2019, 1, 1, tzinfo=UTC))
    entry.save()
    ScheduleStore(app).update("report", **bounds)

    client.zadd(f"{prefix}:schedule", {entry.key: 0})

    assert run_due(scheduler) == []
    assert skipped(app) == {"out_of_bounds": 1}
    assert stored(app, "report").due_at == bounds.get("start_at")


def test_extending_end_at_resumes_a_finished_entry_on_its_grid(app: Celery, scheduler: RedisScheduler) -> None:
    first = due(save_due(app, "report", late=30.0, end_at=now()))
    run_due(scheduler)
    assert stored(app, "report").due_at is None

    resumed = ScheduleStore(app).update("report", end_at=None)

    assert resumed.due_at == first + MINUTE


# jitter


def delayed(app: Celery, *, seconds: float, passed: float = 1.0) -> RedisScheduleEntry:
    """Store a one-off whose fire time has passed and which its jitter delays by about so many seconds from now."""
    fire_time, jitter = ago(seconds=passed), 2 * (passed + seconds)
    for number in range(10_000):
        entry = RedisScheduleEntry(f"report-{number}", "proj.work", clocked(fire_time), app=app, jitter=jitter)
        [run] = entry.upcoming(1)
        if timedelta(seconds=seconds) < run.due_at - now() < timedelta(seconds=seconds * 1.5):
            return entry.save()
    raise AssertionError("no name gives such a delay")


def test_beat_plans_an_entry_with_jitter_at_its_fire_time_and_runs_it_when_it_is_due(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = delayed(app, seconds=60)
    fire_time = client.zscore(f"{prefix}:schedule", entry.key)

    assert run_due(scheduler) == []

    fields = claim_fields(client, entry.key)
    score = client.zscore(f"{prefix}:schedule", entry.key)
    assert {field: float(text) for field, text in fields.items()} == {"fire_time": fire_time, "look_at": score}
    assert score == pytest.approx(due(entry).timestamp(), abs=1e-6)
    assert (stored(app, entry.name).due_at, stored(app, entry.name).total_run_count) == (due(entry), 0)


def test_an_idle_tick_waits_until_an_entry_with_jitter_is_due(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    app = make_app(beat_max_loop_interval=3600)
    entry = delayed(app, seconds=60)
    scheduler = make_scheduler(app)
    run_due(scheduler)

    before = now()

    assert scheduler.tick() <= (due(entry) - before).total_seconds() + 1


def test_a_run_with_jitter_is_never_sent_before_it_is_due_and_keeps_its_fire_time(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = delayed(app, seconds=1)
    due_at = due(entry)
    assert isinstance(entry.schedule, clocked)
    fire_time = entry.schedule.at

    def tick() -> list[Sent]:
        scheduler.tick()
        sent = take(app)
        assert not sent or now() >= due_at
        return sent

    [run] = wait_until(tick, "the run")

    assert run.fire_time == fire_time
    assert run.id == task_id(client.get(f"{prefix}:id"), entry.name, fire_time)
    assert (stored(app, entry.name).last_run_at, stored(app, entry.name).due_at) == (fire_time, None)


def test_the_fire_times_of_an_entry_with_jitter_stay_on_their_grid(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report", late=90.0, jitter=30)
    fire_time = entry.upcoming(1)[0].fire_time

    sent = run_due(scheduler)

    assert fire_times(sent) in ([fire_time], [fire_time + MINUTE], [fire_time, fire_time + MINUTE])
    assert stored(app, "report").upcoming(1)[0].fire_time == sent[-1].fire_time + MINUTE


def test_raising_the_jitter_moves_the_due_time_of_a_delayed_entry_but_not_its_fire_time(
    app: Celery, scheduler: RedisScheduler
) -> None:
    entry = delayed(app, seconds=60)
    run_due(scheduler)
    [before] = entry.upcoming(1)

    [after] = ScheduleStore(app).update(entry.name, jitter=600).upcoming(1)

    assert after.fire_time == before.fire_time
    assert after.due_at > before.due_at
    assert run_due(scheduler) == []


def test_an_entry_that_its_jitter_delays_runs_at_once_when_the_jitter_is_removed(
    app: Celery, scheduler: RedisScheduler
) -> None:
    entry = delayed(app, seconds=60)
    fire_time = entry.upcoming(1)[0].fire_time
    run_due(scheduler)

    ScheduleStore(app).update(entry.name, jitter=0)

    assert fire_times(run_due(scheduler)) == [fire_time]


def test_a_disabled_entry_does_not_run_when_its_jitter_is_removed(app: Celery, scheduler: RedisScheduler) -> None:
    entry = delayed(app, seconds=60)
    run_due(scheduler)

    entry.disable()
    ScheduleStore(app).update(entry.name, jitter=0)

    assert run_due(scheduler) == []
    assert stored(app, entry.name).due_at is None


def test_an_edit_of_arguments_does_not_move_an_entry_that_its_jitter_delays(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = delayed(app, seconds=60)
    run_due(scheduler)
    before = client.zscore(f"{prefix}:schedule", entry.key)

    edited = ScheduleStore(app).update(entry.name, args=["new"])

    assert client.zscore(f"{prefix}:schedule", entry.key) == before
    assert edited.due_at == due(entry)


def test_the_grace_counts_from_the_due_time_and_not_from_the_fire_time(app: Celery, scheduler: RedisScheduler) -> None:
    entry = delayed(app, seconds=1, passed=30)
    ScheduleStore(app).update(entry.name, misfire_grace_time=20)
    wait_until(lambda: now() > due(entry), "its due time")

    assert names(run_due(scheduler)) == [entry.name]


# on_finish


@pytest.mark.parametrize("fields", [{"max_runs": 1}, {"end_at": None}], ids=["max_runs", "end_at"])
@pytest.mark.parametrize("on_finish", ["keep", "disable"])
def test_an_entry_that_has_finished_is_kept_or_disabled(
    app: Celery, scheduler: RedisScheduler, on_finish: str, fields: dict[str, Any]
) -> None:
    end = {"end_at": now()} if "end_at" in fields else fields
    save_due(app, "report", on_finish=on_finish, description="monthly", args=[1], **end)

    assert names(run_due(scheduler)) == ["report"]

    entry = stored(app, "report")
    assert (entry.due_at, entry.total_run_count, entry.enabled) == (None, 1, on_finish == "keep")
    assert (entry.args, entry.description, entry.on_finish) == ([1], "monthly", on_finish)


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(lambda: clocked(ago(seconds=1)), id="clocked"),
        pytest.param(lambda: rrule("DAILY", dtstart=ago(seconds=2), count=1), id="rrule"),
    ],
)
def test_an_entry_that_is_deleted_when_it_finishes_leaves_no_data(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, schedule: Callable[[], Any]
) -> None:
    RedisScheduleEntry("once", "proj.work", schedule(), app=app, on_finish="delete").save()
    client.hset(f"{prefix}:broken", "once", "{}")
    client.sadd(f"{prefix}:statics", "once")

    assert names(run_due(scheduler)) == ["once"]

    assert traces(client, prefix, "once") == []


def test_an_entry_whose_last_fire_time_was_missed_is_deleted_too(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    schedule = clocked(ago(minutes=5))
    RedisScheduleEntry("once", "proj.work", schedule, app=app, on_finish="delete", misfire_grace_time=1).save()

    assert run_due(scheduler) == []
    assert traces(client, prefix, "once") == []


def test_deleting_a_finished_entry_does_not_affect_the_others_of_its_batch(
    app: Celery, scheduler: RedisScheduler
) -> None:
    save_due(app, "a", late=3.0, max_runs=1, on_finish="delete")
    save_due(app, "b", late=2.0, max_runs=1, on_finish="disable")
    save_due(app, "c", late=1.0)

    assert names(run_due(scheduler)) == ["a", "b", "c"]

    assert set("abc").intersection(ScheduleStore(app).names()) == {"b", "c"}
    assert stored(app, "b").enabled is False
    assert stored(app, "c").due_at is not None


def test_a_deleted_entry_may_be_created_again_and_begins_at_zero(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", late=FIVE_LATE, max_runs=1, on_finish="delete")
    run_due(scheduler)

    entry = ScheduleStore(app).create("report", "proj.work", 60.0)

    assert (entry.total_run_count, stored(app, "report").skipped) == (0, {})


def test_an_entry_with_runs_left_is_not_deleted(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", max_runs=2, on_finish="delete")

    run_due(scheduler)

    assert stored(app, "report").due_at is not None


# Static entries


def test_static_entries_may_have_policies(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    policies = {"coalesce": "all", "misfire_grace_time": 120, "max_runs": 9, "jitter": 0, "on_finish": "disable"}
    app = make_app(beat_schedule={"report": {"task": "proj.work", "schedule": 60.0, **policies}})
    scheduler = make_scheduler(app)
    scheduler.tick()
    entry = stored(app, "report")
    first = due(entry.reschedule(ago(seconds=60 + FIVE_LATE)))

    sent = run_due(scheduler)

    assert {name: getattr(entry, name) for name in policies} == policies
    assert fire_times(sent) == [first + 3 * MINUTE, first + 4 * MINUTE]


def test_a_static_entry_that_has_finished_stays_finished_after_a_restart(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    declared = {"report": {"task": "proj.work", "schedule": 60.0, "max_runs": 1, "on_finish": "disable"}}
    first = make_scheduler(make_app(beat_schedule=declared))
    first.tick()
    stored(first.app, "report").reschedule(ago(seconds=61))
    run_due(first)
    first.close()

    second = make_scheduler(make_app(beat_schedule=declared))

    assert run_due(second) == []
    assert (stored(second.app, "report").enabled, stored(second.app, "report").total_run_count) == (False, 1)


def test_a_static_entry_that_deletes_itself_is_listed_as_broken_and_the_others_run(
    make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    declared = {
        "bad": {"task": "proj.work", "schedule": 60.0, "on_finish": "delete"},
        "good": {"task": "proj.work", "schedule": 60.0},
    }
    app = make_app(beat_schedule=declared)

    make_scheduler(app).tick()

    reason = "$.on_finish: beat would store a static entry again when it starts; use 'keep' or 'disable'"
    assert Context.of(app).redis.broken.reports()["bad"]["reason"] == reason
    assert ScheduleStore(app).broken() == {"bad": reason}
    assert f"static entry 'bad' cannot be stored: {reason}" in caplog.text
    assert list(ScheduleStore(app).names()) == ["good"]
    with pytest.raises(EntryNotFound):
        stored(app, "bad")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_runs", 0), ("coalesce", "newest"), ("misfire_grace_time", 0.5),
        ("jitter", -1), ("on_finish", "explode"), ("start_at", "tomorrow"),
    ],
)  # fmt: skip
def test_a_bad_policy_of_a_static_entry_is_reported_by_its_name(
    make_app: MakeApp, make_scheduler: MakeScheduler, field: str, value: Any
) -> None:
    declared = {"bad": {"task": "proj.work", "schedule": 60.0, field: value}}
    app = make_app(beat_schedule=declared)

    make_scheduler(app).tick()

    assert ScheduleStore(app).broken()["bad"].startswith(f"$.{field}: ")
