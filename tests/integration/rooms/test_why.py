"""Why an entry did or did not run: the first line of each answer, with a fixed clock, and what is not known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from outbox import run_due
from support.definitions import definition_of

from redisbeater import EntryNotFound, RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.why.past import explain
from redisbeater.times import to_unix

#: A Saturday, 23:31:07 in Vienna.
NOW = datetime(2026, 11, 21, 22, 31, 7, tzinfo=timezone.utc)

Write = Callable[..., None]
Say = Callable[..., str]


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app("shop", timezone="Europe/Vienna")


@pytest.fixture
def due(client: redis.Redis, prefix: str) -> Write:
    """Set when an entry is next due."""

    def due(name: str, at: str) -> None:
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": to_unix(utc(at))})

    return due


@pytest.fixture
def log(client: redis.Redis, prefix: str) -> Write:
    """Replace the log of an entry, or of the schedule: word, time or two times, count and details; the newest first."""

    def log(name: str, *lines: tuple[Any, ...]) -> None:
        key = f"{prefix}:log:{name}" if name else f"{prefix}:log"
        client.delete(key)
        for what, at, *more in lines:
            first, last = at if isinstance(at, tuple) else (at, at)
            count, details = (more[0] if more else 1), (more[1] if len(more) > 1 else {})
            client.rpush(key, f"{to_unix(utc(last))} {count} {to_unix(utc(first))} {what} {json.dumps(details)}")

    return log


@pytest.fixture
def say(app: Celery) -> Say:
    """Return verdict and sentence about an entry."""

    def say(name: str = "report", at: str = "") -> str:
        answer = explain(Context.of(app), name, utc(at) if at else None, now=NOW)
        return f"{answer.verdict}: {answer.sentence}"

    return say


@pytest.fixture
def lead(client: redis.Redis, prefix: str) -> None:
    client.set(f"{prefix}:lock", "web1:4121:abcdef", px=60_000)


def utc(local: str) -> datetime:
    """Return a local time of Vienna in winter."""
    return datetime.fromisoformat(local).replace(tzinfo=timezone(timedelta(hours=1))).astimezone(timezone.utc)


def report(store: ScheduleStore, **fields: Any) -> RedisScheduleEntry:
    """Create the entry that runs at nine on weekdays."""
    return store.create("report", "shop.report", crontab(hour=9, minute=0, day_of_week="1-5"), **fields)


def ran(client: redis.Redis, prefix: str, name: str, at: str, count: int = 1) -> None:
    """Store a run as beat records it."""
    moment = utc(at)
    parts = {
        part: getattr(moment, part) for part in ("year", "month", "day", "hour", "minute", "second", "microsecond")
    }
    meta = {"last_run_at": {"__type__": "datetime", **parts, "timezone": "UTC"}, "total_run_count": count}
    client.hset(f"{prefix}{name}", mapping={"meta": json.dumps(meta), "recorded_run": to_unix(moment)})


# Now


@pytest.mark.usefixtures("lead")
def test_it_waits_for_its_time(store: ScheduleStore, due: Write, say: Say) -> None:
    report(store)
    due("report", "2026-11-23T09:00")

    assert say() == "waits: Waits for its time: Mon 09:00:00 CET, in 1 d 9 h."


def test_that_nobody_leads_is_said_of_an_entry_that_waits(store: ScheduleStore, app: Celery, due: Write) -> None:
    report(store)
    due("report", "2026-11-23T09:00")

    answer = explain(Context.of(app), "report", now=NOW)

    assert answer.evidence[0].text == "no beat leads at this moment: without one nothing runs"


def test_it_is_disabled_since_when_by_whom_and_why(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store, enabled=False)
    log("report", ("disabled", "2026-11-17T14:02:11", 1, {"by": "anna@ops1", "note": "3 pages are enough"}))

    expected = 'Disabled since Tue 14:02:11 CET by anna@ops1: "3 pages are enough". It runs again when it is enabled.'
    assert say() == f"disabled: {expected}"


def test_it_is_disabled_until_a_time_in_the_zone_of_the_entry(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), timezone="Africa/Lagos")
    now = datetime.now(timezone.utc)
    until = now.replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=2)
    first = until.replace(hour=8) + timedelta(days=1)
    store.disable("report", until=until, by="anna@ops1", note="no paper")

    answer = explain(Context.of(app), "report", now=now)

    until_words, first_words = f"{until:%a} 13:00:00 WAT", f"{first:%a} 09:00:00 WAT"
    assert answer.verdict == "disabled"
    start = f'Disabled until {until_words} by anna@ops1: "no paper": first run {first_words}, in '
    assert answer.sentence.startswith(start)
    lines = [fact.text for fact in answer.evidence if fact.text.startswith("disabled")]
    assert len(lines) == 1
    assert lines[0].startswith(f"disabled: until {until_words}, next ")
    assert lines[0].endswith(f' WAT -> {first_words} by anna@ops1: "no paper"')
    assert "+00:00" not in lines[0]


@pytest.mark.usefixtures("lead")
def test_the_schedule_is_paused(store: ScheduleStore, client: redis.Redis, prefix: str, due: Write, say: Say) -> None:
    report(store)
    client.set(f"{prefix}:pause", json.dumps({"since": "2026-11-21T20:00:00+00:00", "by": "anna", "note": "deploy"}))
    due("report", "2026-11-21T23:00")

    expected = (
        'The schedule is paused since Sat 21:00:00 CET by anna: "deploy": due since Sat 23:00:00 CET, 31 min 7 s ago.'
    )
    assert say() == f"paused: {expected}"


def test_an_entry_that_was_created_disabled_says_who_did_that_and_when(
    store: ScheduleStore, app: Celery, say: Say
) -> None:
    report(store, enabled=False, by="anna@ops1", note="not yet")
    created = explain(Context.of(app), "report").evidence[0]

    expected = (
        r'disabled: Disabled since it was created .*:\d\d CES?T by anna@ops1: "not yet"\. It runs once it is enabled\.'
    )
    assert re.fullmatch(expected, say())
    assert created.text == 'created: state disabled by anna@ops1: "not yet"'


def test_many_that_were_created_disabled_say_so_too(store: ScheduleStore, app: Celery, say: Say) -> None:
    with store.bulk(by="anna@ops1") as bulk:
        for name in ("a", "b"):
            bulk.save(RedisScheduleEntry(name, "shop.report", 60.0, enabled=name == "a", app=app))

    assert say("b").startswith("disabled: Disabled since it was created ")
    assert [line.text for line in explain(Context.of(app), "a").evidence if "disabled" in line.text] == []


@pytest.mark.usefixtures("lead")
def test_what_comes_during_a_pause_waits_for_its_end(
    store: ScheduleStore, client: redis.Redis, prefix: str, due: Write, say: Say
) -> None:
    report(store)
    due("report", "2026-11-22T00:00")
    client.set(f"{prefix}:pause", json.dumps({"since": "2026-11-21T20:00:00+00:00", "by": "anna"}))
    paused = "paused: The schedule is paused since Sat 21:00:00 CET"
    assert re.fullmatch(rf"{paused} by anna: its next run, .*CET, in .*, waits for the end\.", say())
    client.expire(f"{prefix}:pause", 60)
    due("report", "2126-01-01T00:00")
    assert say().startswith("waits: Waits for its time: ")


def test_it_is_disabled_and_nobody_knows_since_when(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store, enabled=False)
    log("report", ("changed", "2026-11-17T14:02:11"))

    assert say() == "disabled: Disabled; its log does not say since when."


def test_it_is_before_its_start(store: ScheduleStore, due: Write, say: Say) -> None:
    report(store, start_at=utc("2026-12-01T00:00"))
    due("report", "2026-12-01T09:00")

    assert say().startswith(
        "not_started: Before its start_at, 1 Dec 00:00:00 CET: first run 1 Dec 09:00:00 CET, in 9 d"
    )


def test_it_is_after_its_end(store: ScheduleStore, client: redis.Redis, prefix: str, say: Say) -> None:
    report(store, end_at=utc("2026-12-20T00:00"))
    changed = json.loads(client.hget(f"{prefix}report", "definition"))
    changed["end_at"] = {**changed["end_at"], "month": 11}
    client.hset(f"{prefix}report", "definition", json.dumps(changed))
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": -1})

    assert re.fullmatch(r"ended: After its end_at, .*: no fire time is left\.", say())


def test_it_has_had_its_runs(store: ScheduleStore, client: redis.Redis, prefix: str, say: Say) -> None:
    report(store, max_runs=12)
    ran(client, prefix, "report", "2026-11-20T09:00", 12)
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": -1})

    assert say() == "spent: Has had its 12 runs (max_runs)."


def test_an_entry_that_beat_disabled_when_it_finished_is_not_said_to_be_disabled(
    store: ScheduleStore, app: Celery, scheduler: RedisScheduler
) -> None:
    entry = store.create("report", "shop.report", 3600, max_runs=1, on_finish="disable")
    entry.reschedule(datetime.now(timezone.utc) - timedelta(hours=1))
    run_due(scheduler)

    assert store.why("report").sentence == "Has had its 1 run (max_runs)."


def test_its_only_time_has_passed(store: ScheduleStore, client: redis.Redis, prefix: str, say: Say) -> None:
    store.create("report", "shop.report", clocked(utc("2026-11-20T09:00")))
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": -1})

    assert say() == "finished: Finished: its schedule has no fire time left."


def test_it_is_broken(store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str, say: Say) -> None:
    report(store)
    client.hset(f"{prefix}report", "definition", '{"task": 5, "schedule": {"__type__": "interval", "every": 60}}')

    assert say() == "broken: Broken: $.task: expected a task or its name, got 5"

    Context.of(app).redis.broken.report("report", "no such schedule")
    assert re.fullmatch(r"broken: Broken: no such schedule \(since .*\d\d:\d\d:\d\d CES?T\)", say())


def test_a_broken_entry_says_what_to_do(store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str) -> None:
    report(store)
    client.hset(f"{prefix}report", "definition", "{")

    advice = (
        "To correct it: show report --definition > entry.json, correct that, delete report,"
        " create --json-file entry.json"
    )
    assert store.why("report").advice == advice
    Context.of(app).redis.broken.report("report", "no JSON")
    assert store.why("report").advice == f"{advice}. If the reason is gone: broken --retry report"
    refused = CliRunner().invoke(redisbeater, ["update", "report", "--every", "60s"], obj=SimpleNamespace(app=app))
    assert (refused.exit_code, advice in refused.output) == (2, True)


def test_status_counts_entries_as_broken_that_beat_has_not_met(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str
) -> None:
    report(store)
    client.hset(f"{prefix}report", "definition", "{")

    assert (store.status().broken, store.health(strict=True).problems) == (1, ("no leader", "1 broken"))


def failing(store: ScheduleStore, client: redis.Redis, prefix: str, retry_at: datetime) -> None:
    """Store an entry whose run could not be sent."""
    report(store)
    retry = to_unix(retry_at)
    fields = {"last_error": "Connection refused", "tries": "4", "failing_since": to_unix(utc("2026-11-21T22:58"))}
    later = {"fire_time": to_unix(utc("2026-11-21T22:58")), "look_at": retry}
    client.hset(f"{prefix}report", mapping={**fields, **later})
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": retry})
    client.zadd(f"{prefix}:failing", {f"{prefix}report": to_unix(utc("2026-11-21T22:58"))})


@pytest.mark.usefixtures("lead")
def test_sending_it_failed(store: ScheduleStore, client: redis.Redis, prefix: str, say: Say) -> None:
    failing(store, client, prefix, NOW + timedelta(seconds=20))

    expected = "sending it failed 4 times since Sat 22:58:00 CET (Connection refused), next try in 20 s."
    assert say() == f"failing: Not sent yet: {expected}"


def test_what_keeps_every_run_is_said_before_the_error_of_one(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str
) -> None:
    failing(store, client, prefix, NOW - timedelta(seconds=20))
    assert explain(Context.of(app), "report", now=NOW).verdict == "no_leader"

    client.set(f"{prefix}:lock", "web1:4121:abcdef", px=60_000)
    beat_line(client, prefix, broker_away=598.0)
    answer = explain(Context.of(app), "report", now=NOW)
    assert (answer.verdict, answer.sentence) == (
        "broker_away",
        "Not sent yet: the broker has been unavailable for 10 min; due since Sat 22:58:00 CET, 33 min 7 s ago.",
    )
    assert answer.evidence[0].text == "sending it failed 4 times: Connection refused"

    beat_line(client, prefix)
    expected = "sending it failed 4 times since Sat 22:58:00 CET (Connection refused), it is tried now."
    assert explain(Context.of(app), "report", now=NOW).sentence == f"Not sent yet: {expected}"


def test_nobody_leads(store: ScheduleStore, due: Write, log: Write, say: Say) -> None:
    store.create("report", "shop.report", 60)
    due("report", "2026-11-21T23:30:07")
    assert say() == "no_leader: No beat is running: due since Sat 23:30:07 CET, 1 min ago."

    log("", ("lock_lost", "2026-11-21T23:29:00"), ("leading", "2026-11-21T20:00"))
    assert say().startswith("no_leader: No beat is running since Sat 23:29:00 CET: due since")


@pytest.mark.usefixtures("lead")
def test_it_is_late(store: ScheduleStore, due: Write, say: Say) -> None:
    store.create("report", "shop.report", 60)
    due("report", "2026-11-21T23:30:07")

    assert say() == "late: Late: due since Sat 23:30:07 CET, 1 min ago, and not sent yet; web1:4121 leads."


def beat_line(client: redis.Redis, prefix: str, role: str = "leader", **fields: Any) -> None:
    """Write the line of the beat that leads; ``last_pass`` is a local time."""
    line = {
        "last_pass": "2026-11-21T23:31:05", "since": 0, "role": role, "host": "web1", "pid": 4121, "version": "1.0",
        "celery": "5.7.0", "python": "3.13.1", "redis": "redis://10.0.0.5", "embedded": False, "sent": 1, "refused": 0,
        "skipped": 0, "late_ms": 4, "broker": "redis", "broker_away": 0.0,
    } | fields  # fmt: skip
    line["last_pass"] = float(to_unix(utc(line["last_pass"])))
    client.hset(f"{prefix}:beats", "web1:4121:abcdef", json.dumps(line))


@pytest.mark.usefixtures("lead")
def test_it_is_not_sent_because_the_broker_is_away(
    store: ScheduleStore, client: redis.Redis, prefix: str, due: Write, say: Say
) -> None:
    store.create("report", "shop.report", 60)
    due("report", "2026-11-21T23:30:07")
    beat_line(client, prefix, broker_away=598.0)

    assert say() == (
        "broker_away: Not sent yet: the broker has been unavailable for 10 min; due since Sat 23:30:07 CET, 1 min ago."
    )


@pytest.mark.parametrize("role", ["leader", "active"])
def test_it_is_not_sent_because_the_beat_hangs(
    make_app: Callable[..., Celery], client: redis.Redis, prefix: str, due: Write, role: str
) -> None:
    app = make_app(
        "shop", timezone="Europe/Vienna", redisbeater_lock_key=None if role == "active" else f"{prefix}:lock"
    )
    client.set(f"{prefix}:lock", "web1:4121:abcdef", px=60_000)
    ScheduleStore(app).create("report", "shop.report", 60)
    due("report", "2026-11-21T23:30:07")
    beat_line(client, prefix, role, last_pass="2026-11-21T23:24:07", broker_away=1.0)

    answer = explain(Context.of(app), "report", now=NOW)

    assert (answer.verdict, answer.sentence) == (
        "no_pass", "Not sent yet: web1:4121 has made no pass for 7 min; due since Sat 23:30:07 CET, 1 min ago."
    )  # fmt: skip


def test_that_redis_is_full_is_said_by_all_who_are_asked(
    store: ScheduleStore, client: redis.Redis, prefix: str, due: Write, say: Say, run: Callable[..., Result]
) -> None:
    store.create("report", "shop.report", 60)
    due("report", "2026-11-21T23:30:07")
    beat_line(client, prefix)
    client.set(f"{prefix}:lock", "web1:4121:abcdef", px=60_000)
    before = client.config_get("maxmemory*")
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    try:
        why, status, health = say(), run("status"), run("health")
    finally:
        client.config_set("maxmemory", before["maxmemory"])
        client.config_set("maxmemory-policy", before["maxmemory-policy"])

    refusal = "its memory is full; raise maxmemory, or delete what nobody needs"
    since = "due since Sat 23:30:07 CET, 1 min ago"
    assert why == f"redis_refuses: Not sent yet: Redis refuses changes: {refusal}; {since}."
    assert f"redis      refuses changes, so nothing is sent: {refusal}" in status.stdout
    assert f"Redis refuses changes: {refusal}" in health.stdout
    assert (health.exit_code, store.status().refusal) == (1, "")


def test_that_redis_is_a_replica_is_said(store: ScheduleStore, client: redis.Redis, due: Write, say: Say) -> None:
    store.create("report", "shop.report", 60)
    due("report", "2026-11-21T23:30:07")
    client.replicaof("127.0.0.1", 1)  # nobody is there, so that it keeps its data
    try:
        why, refusal = say(), store.status().refusal
    finally:
        client.replicaof("NO", "ONE")

    assert refusal == "it is a replica; use the address of the master in redisbeater_redis_url, or Sentinel"
    assert why.startswith(f"redis_refuses: Not sent yet: Redis refuses changes: {refusal}; due since ")


def test_all_times_of_an_answer_are_in_utc_if_asked(store: ScheduleStore, log: Write, app: Celery) -> None:
    report(store)
    store.disable("report")
    log("report", ("disabled", "2026-11-17T14:02", 1, {"by": "anna@ops1", "next": [NOW.isoformat(), None]}))
    words = ["why", "report", "--now", "2026-11-21T22:31:07Z"]

    here, universal = (
        CliRunner().invoke(redisbeater, [*words, *more], obj=SimpleNamespace(app=app)).stdout
        for more in ((), ("--utc",))
    )

    assert ("14:02:00 CET" in here, "13:02:00 UTC" in universal) == (True, True)
    assert "CET" not in universal
    assert "22:31:07 UTC" in universal


def test_it_was_deleted(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    store.delete("report")
    log("report", ("deleted", "2026-11-17T14:02", 1, {"by": "anna@ops1", "note": "too many"}))

    assert say() == 'deleted: Deleted Tue 14:02:00 CET by anna@ops1: "too many".'
    assert say(at="2026-11-18T09:00") == 'deleted: Deleted Tue 14:02:00 CET by anna@ops1: "too many".'


def test_nobody_said_that_it_was_deleted(store: ScheduleStore, client: redis.Redis, prefix: str, say: Say) -> None:
    report(store)
    client.delete(f"{prefix}report")

    assert say() == "gone: It is not in the schedule any more, and its log does not say who deleted it."


def test_a_name_that_is_not_known_is_an_error(store: ScheduleStore) -> None:
    with pytest.raises(EntryNotFound):
        store.why("report")


# Then


def test_it_ran_where_that_was_the_last_run(store: ScheduleStore, client: redis.Redis, prefix: str, say: Say) -> None:
    report(store)
    ran(client, prefix, "report", "2026-11-20T09:00")

    expected = "It ran: the run of Fri 09:00:00 CET was sent; it is the last one that beat recorded."
    assert say(at="2026-11-20T09:00") == f"ran: {expected}"


def test_a_last_run_that_the_application_wrote_proves_nothing(
    store: ScheduleStore, client: redis.Redis, prefix: str, log: Write, say: Say
) -> None:
    report(store)
    ran(client, prefix, "report", "2026-11-20T09:00")
    client.hdel(f"{prefix}report", "recorded_run")
    log("report", ("created", "2026-11-01T09:00"))

    assert say(at="2026-11-20T09:00").startswith("unknown: No evidence left: ")


def test_it_was_missed(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store, misfire_grace_time=3600)
    log("report", ("skipped", "2026-11-20T09:00", 1, {"reason": "missed"}))

    expected = "Missed: it was later than its misfire_grace_time allowed, which is 1 h now."
    assert say(at="2026-11-20T09:00") == f"missed: {expected}"


def test_it_was_coalesced_into_another_run(store: ScheduleStore, log: Write, say: Say) -> None:
    store.create("report", "shop.report", crontab(minute=0))
    log("report", ("skipped", ("2026-11-20T03:00", "2026-11-20T05:00"), 3, {"reason": "coalesced"}))

    expected = "Coalesced into Fri 06:00:00 CET, the newest of the missed fire times."
    assert [say(at=f"2026-11-20T0{hour}:00") for hour in (3, 4, 5)] == [f"coalesced: {expected}"] * 3


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("skip", "skip: Left out: somebody told it to (skip-next)."),
        ("disabled_until", "disabled_until: Not run: it was disabled until a later time (disable --until)."),
    ],
)
def test_it_was_left_out(store: ScheduleStore, log: Write, say: Say, reason: str, sentence: str) -> None:
    report(store)
    log("report", ("skipped", "2026-11-20T09:00", 1, {"reason": reason}))

    assert say(at="2026-11-20T09:00") == sentence


def test_nobody_led_then(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    log("report", ("created", "2026-11-01T09:00"))
    log(
        "",
        ("leading", "2026-11-20T09:02:31"),
        ("standing_by", "2026-11-20T09:01"),
        ("lock_lost", "2026-11-20T08:59:04"),
    )

    expected = "Nobody led from Fri 08:59:04 CET to Fri 09:02:31 CET: nothing ran meanwhile."
    assert say(at="2026-11-20T09:00") == f"no_leader: {expected}"
    assert say(at="2026-11-19T09:00").startswith("unknown: ")


def test_a_folded_line_does_not_say_which_fire_time_was_skipped(store: ScheduleStore, log: Write, say: Say) -> None:
    store.create("report", "shop.report", crontab(minute=0))
    log("report", ("skipped", ("2026-11-20T03:00", "2026-11-20T06:00"), 2, {"reason": "missed"}))

    assert say(at="2026-11-20T04:00") == (
        "unknown: Not known: 2 fire times between Fri 03:00:00 CET and Fri 06:00:00 CET were skipped (missed); "
        "the log does not say which."
    )
    assert say(at="2026-11-20T06:00").startswith("missed: ")


def test_it_was_created_only_later(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    log("report", ("created", "2026-11-20T10:12", 1, {"by": "anna@ops1"}))

    assert say(at="2026-11-20T09:00") == (
        "created_later: It did not exist at Fri 09:00:00 CET: it was created at Fri 10:12:00 CET by anna@ops1."
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["disabled 19T08:00", "created 01T08:00"], "Disabled since Thu 08:00:00 CET by anna@ops1."),
        (
            ["enabled 20T10:00", "disabled 19T08:00"],
            "Disabled since Thu 08:00:00 CET by anna@ops1, enabled Fri 10:00:00 CET.",
        ),
        (["enabled 20T10:00", "changed 19T08:00"], "Disabled then, enabled Fri 10:00:00 CET."),
    ],
)
def test_it_was_disabled_then(store: ScheduleStore, log: Write, say: Say, lines: list[str], sentence: str) -> None:
    report(store)
    words = [line.split() for line in lines]
    log("report", *((what, f"2026-11-{at}", 1, {"by": "anna@ops1"}) for what, at in words))

    assert say(at="2026-11-20T09:00") == f"disabled: {sentence}"


def test_it_was_disabled_only_until_its_time(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    until = utc("2026-11-20T08:00").isoformat()
    log("report", ("disabled", "2026-11-18T08:00", 1, {"by": "anna@ops1", "until": until}))

    assert say(at="2026-11-19T09:00") == (
        "disabled: Disabled since Wed 08:00:00 CET until Fri 08:00:00 CET by anna@ops1."
    )
    assert say(at="2026-11-20T09:00").startswith("unknown: ")  # it runs again, and an ordinary run is no line


def test_it_was_disabled_while_a_run_was_owed(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    following = [utc("2026-11-19T09:00").isoformat(), None]
    log("report", ("disabled", "2026-11-20T10:00", 1, {"by": "anna@ops1", "next": following}))

    expected = "Not sent yet when it was disabled Fri 10:00:00 CET by anna@ops1."
    assert say(at="2026-11-20T09:00") == f"disabled: {expected}"
    assert say(at="2026-11-18T09:00").startswith("unknown: ")


@pytest.mark.usefixtures("lead")
def test_what_comes_after_the_run_that_is_owed_waits_for_the_same(store: ScheduleStore, due: Write, say: Say) -> None:
    report(store)
    due("report", "2026-11-19T09:00")

    assert say(at="2026-11-20T09:00") == (
        "late: Late: due since Thu 09:00:00 CET, 2 d 14 h ago, and not sent yet; web1:4121 leads."
    )


@pytest.mark.usefixtures("lead")
def test_it_waits_for_its_jitter(store: ScheduleStore, due: Write, say: Say) -> None:
    store.create("report", "shop.report", crontab(hour=23, minute=31), jitter=600)
    due("report", "2026-11-21T23:31")

    assert re.fullmatch(
        r"waits: Waits for its jitter: Sat 23:31:00 CET is sent Sat 23:\d\d:\d\d CET, in .+\.", say()
    ), say()


def test_it_had_finished_then(store: ScheduleStore, client: redis.Redis, prefix: str, log: Write, say: Say) -> None:
    report(store, max_runs=12)
    ran(client, prefix, "report", "2026-11-18T09:00", 12)
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": "inf"})
    log("report", ("triggered", "2026-11-19T08:00"), ("finished", "2026-11-18T09:00:01", 1, {"then": "keep"}))

    expected = "Finished at Wed 09:00:01 CET: has had its 12 runs (max_runs)."
    assert say(at="2026-11-19T09:00") == f"finished: {expected}"
    assert say(at="2026-11-17T09:00").startswith("unknown: ")


def test_it_was_broken_then(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    log("report", ("fixed", "2026-11-20T10:00"), ("broken", "2026-11-19T09:00", 1, {"reason": "$.task: is missing"}))

    expected = "Broken since Thu 09:00:00 CET, fixed Fri 10:00:00 CET: $.task: is missing"
    assert say(at="2026-11-20T09:00") == f"broken: {expected}"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"start_at": utc("2026-11-20T10:00")}, "not_started: Before its start_at, Fri 10:00:00 CET."),
        ({"end_at": utc("2026-11-20T08:00")}, "ended: After its end_at, Fri 08:00:00 CET."),
    ],
)
def test_it_was_out_of_its_bounds(
    app: Celery, client: redis.Redis, prefix: str, log: Write, say: Say, fields: Any, sentence: str
) -> None:
    definition = definition_of(
        RedisScheduleEntry("report", "shop.report", crontab(hour=9, minute=0), app=app, **fields)
    )
    client.hset(f"{prefix}report", "definition", definition.to_text(Context.of(app).codec))
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": -1})
    log("report", ("created", "2026-11-01T09:00"))

    assert say(at="2026-11-20T09:00") == sentence


def test_a_local_time_that_did_not_exist_ran_at_another(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str
) -> None:
    store.create("report", "shop.report", crontab(hour=2, minute=30))
    ran(client, prefix, "report", "2026-03-29T02:00")

    answer = explain(Context.of(app), "report", datetime(2026, 3, 29, 2, 30), now=NOW)

    assert answer.verdict == "ran"
    assert answer.sentence.startswith("Clock change: 02:30 did not exist, it fires at 03:00. It ran: ")


def test_the_run_that_is_owed_is_answered_as_of_now(store: ScheduleStore, due: Write, say: Say) -> None:
    store.create("report", "shop.report", crontab(minute="*/5"))
    due("report", "2026-11-21T23:30")

    assert say(at="2026-11-21T23:30") == "no_leader: No beat is running: due since Sat 23:30:00 CET, 1 min 7 s ago."


def test_a_time_to_come(store: ScheduleStore, due: Write, log: Write, say: Say) -> None:
    report(store)
    due("report", "2026-11-23T09:00")
    log("report", ("created", "2026-11-01T09:00"))

    assert say(at="2026-11-23T09:00") == "waits: Waits for its time: Mon 09:00:00 CET, in 1 d 9 h."
    assert say(at="2026-11-24T09:00").endswith("Tue 09:00:00 CET, in 2 d 9 h; its next run is Mon 09:00:00 CET.")
    assert say(at="2026-11-22T09:00") == (
        "no_fire_time: It does not fire at Sun 09:00:00 CET; its next fire time after that is Mon 09:00:00 CET."
    )


def test_a_changed_schedule_leaves_no_evidence(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    log("report", ("changed", "2026-11-20T12:00", 1, {"fields": ["schedule"]}), ("created", "2026-11-01T09:00"))

    assert say(at="2026-11-20T08:00") == (
        "unknown: No evidence left: its schedule was changed Fri 12:00:00 CET, and the one before is not kept."
    )


def test_a_full_log_says_how_many_lines_it_keeps(store: ScheduleStore, log: Write, say: Say) -> None:
    report(store)
    log("report", *(("changed", "2026-11-21T12:00", 1, {"fields": ["args"], "by": str(n)}) for n in range(100)))

    assert say(at="2026-11-20T09:00") == (
        "unknown: No evidence left: its log keeps 100 lines, and none of them is about Fri 09:00:00 CET."
    )


def test_what_beat_had_to_wait_for_at_that_time_is_evidence(store: ScheduleStore, app: Celery, log: Write) -> None:
    report(store)
    log("report", ("created", "2026-11-01T09:00"))
    log("", ("broker_away", ("2026-11-20T08:50", "2026-11-20T09:10")), ("leading", "2026-11-01T08:00"))

    answer = explain(Context.of(app), "report", utc("2026-11-20T09:00"), now=NOW)

    assert answer.verdict == "unknown"
    assert "broker away" in [fact.text for fact in answer.evidence]


def test_an_interval_that_ran_in_the_minute_that_is_asked_about_ran(
    store: ScheduleStore, client: redis.Redis, prefix: str, say: Say
) -> None:
    store.create("report", "shop.report", 10)
    ran(client, prefix, "report", "2026-11-20T09:00:23")

    assert say(at="2026-11-20T09:00").startswith("ran: It ran: the run of Fri 09:00:23 CET")


# The command


def command(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, ["why", *arguments], obj=SimpleNamespace(app=app))


def test_the_command_prints_the_answer_and_the_evidence(store: ScheduleStore, app: Celery, log: Write) -> None:
    report(store, enabled=False)
    log("report", ("disabled", "2026-11-17T14:02:11", 1, {"by": "anna@ops1"}), ("created", "2026-11-03T08:00"))

    result = command(app, "report", "--now", "2026-11-21T23:31:07")

    assert result.output.splitlines() == [
        "Disabled since Tue 14:02:11 CET by anna@ops1. It runs again when it is enabled.",
        "  Tue 14:02:11    disabled by anna@ops1",
        "  3 Nov 08:00:00  created",
    ]


def test_the_command_reads_times_as_people_write_them_and_prints_json(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str
) -> None:
    report(store)
    ran(client, prefix, "report", "2026-11-20T09:00")

    result = command(app, "report", "--at", "fri 09:00", "--json", "--now", "2026-11-21T23:31:07")

    answer = json.loads(result.output)
    assert (answer["verdict"], list(answer)) == ("ran", ["verdict", "sentence", "evidence", "advice"])


@pytest.mark.parametrize(("at", "verdict"), [("2d", "ran"), ("+34h", "waits")])
def test_a_bare_duration_behind_at_means_ago(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str, due: Write, at: str, verdict: str
) -> None:
    report(store)
    ran(client, prefix, "report", "2026-11-20T09:00")
    due("report", "2026-11-23T09:00")

    result = command(
        app, "report", "--at", at, "--json", "--now", "2026-11-22T09:00" if at == "2d" else "2026-11-21T23:00"
    )

    assert json.loads(result.output)["verdict"] == verdict


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("repor",), "Error: no entry named 'repor' in the schedule; did you mean 'report'?\n"),
        (("report", "--at", "once"), "Error: --at 'once': expected a time such as"),
    ],
)
def test_wrong_input_is_one_line(store: ScheduleStore, app: Celery, arguments: tuple[str, ...], problem: str) -> None:
    report(store)

    result = command(app, *arguments)

    assert (result.exit_code, result.output.startswith(problem)) == (2, True), result.output
