"""Hostile and odd data, case by case: one entry's fault is one entry's fault, and costs the others no time."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import CliRunner, Result
from due import save_due, stored
from outbox import MANY_TICKS, take
from support.hostile_site import LONGEST_REASON, UNPRINTABLE, Log, captured_log
from support.waiting import WAIT_SECONDS

from redisbeater import InvalidEntry, RedisScheduleEntry, RedisScheduler
from redisbeater.beat.repair import Repair
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured

pytestmark = pytest.mark.deep

MakeScheduler = Callable[..., RedisScheduler]

INTERVAL = {"__type__": "interval", "every": 3600}
SUNSET = {"__type__": "solar", "event": "sunset", "lat": 48.2, "lon": 16.4}

#: Seconds of processor time, of beat and of the server together, until control entries must have been sent, and of beat
#: alone: on a busy machine everything takes longer by the wall clock.
LATEST_SECONDS, MOST_CPU_SECONDS = 3.0, 2.0

WEEK, YEAR = timedelta(days=7), timedelta(days=365)

#: A name, a task or a text that would forge a line of a log, or rule a terminal.
SPOOF = "a\n[2026: INFO] forged \x1b[31m\x9b \u202egnp\u2066 \r\x07b"

TOO_LARGE = 1_200_000


def definition(schedule: dict[str, Any] | None = None, **fields: Any) -> str:
    return json.dumps(
        {"task": "proj.other", "schedule": schedule or INTERVAL, "options": {"queue": "others"}, **fields}
    )


def rule(*lines: str) -> dict[str, Any]:
    return {"__type__": "rrule", "text": "\n".join(lines)}


def late(amount: timedelta) -> float:
    return time.time() - amount.total_seconds()


class Writer:
    """Another program, which writes what it likes."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self.client, self.prefix = client, prefix
        self._pipe = client.pipeline(transaction=False)

    def entry(self, name: str | bytes, text: str | bytes, score: float = 1, **fields: str | bytes) -> None:
        self.hash(name, text, **fields)
        self.member(name, score)

    def hash(self, name: str | bytes, text: str | bytes, **fields: str | bytes) -> None:
        self._pipe.hset(self.key(name), mapping={"definition": text, **fields})  # type: ignore[dict-item]

    def member(self, name: str | bytes, score: float = 1) -> None:
        self._pipe.zadd(f"{self.prefix}:schedule", {self.key(name): score})

    def send(self) -> None:
        self._pipe.execute()

    def key(self, name: str | bytes) -> bytes:
        return self.prefix.encode() + (name.encode() if isinstance(name, str) else name)


@pytest.fixture
def writer(client: redis.Redis, prefix: str) -> Iterator[Writer]:
    yield Writer(client, prefix)
    client.flushdb()


@pytest.fixture
def log() -> Iterator[Log]:
    with captured_log() as log:
        yield log


def used_by_both(app: Celery) -> float:
    """Return the seconds of processor time that this process and the server have used so far."""
    with redis.Redis.from_url(app.conf.redisbeater_redis_url) as client:
        used = client.info("cpu")
    return time.process_time() + float(used["used_cpu_sys"]) + float(used["used_cpu_user"])


def controls_of(scheduler: RedisScheduler) -> str:
    """Let control entries become due now; return ``on time``, or what was wrong with how they were sent and counted."""
    app, names = scheduler.app, {f"control {uuid.uuid4()}" for _ in range(3)}
    for name in names:
        save_due(app, name)
    began, cpu, used, missing = time.monotonic(), time.process_time(), used_by_both(app), set(names)
    while missing and time.monotonic() < began + WAIT_SECONDS:
        scheduler.tick()
        missing -= {run.name for run in take(app)}
    took, cpu = used_by_both(app) - used, time.process_time() - cpu
    if missing:
        return f"{len(missing)} not sent in {took:.0f} s of the processor"
    if took > LATEST_SECONDS or cpu > MOST_CPU_SECONDS:
        return f"sent after {took:.1f} s of the processor, {cpu:.1f} s of it by beat"
    counts = [stored(app, name).total_run_count for name in names]
    return "on time" if counts == [1] * len(names) else f"counted {counts}"


def controls_for(scheduler: RedisScheduler, seconds: float) -> str:
    """Tick for so long, with control entries all the time; return ``on time``, or what went wrong first."""
    until = time.monotonic() + seconds
    while (found := controls_of(scheduler)) == "on time" and time.monotonic() < until:
        pass
    return found


def tick_until_idle(scheduler: RedisScheduler) -> None:
    for _ in range(MANY_TICKS):
        if scheduler.tick():
            return
    raise AssertionError(f"still busy after {MANY_TICKS} ticks")


def reports(app: Celery) -> dict[str, dict[str, str]]:
    return Context.of(app).redis.broken.reports()


def longest_text(log: Log, app: Celery) -> int:
    """Return the characters of the longest reason or line of the log, which somebody is to read."""
    return max(map(len, [*(report["reason"] for report in reports(app).values()), *log.lines]), default=0)


def run_command(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))


# H1: names

LONG_NAMES = {
    "of 50,000 colons": "a:" * 50_000,
    "of 513 bytes": "x" * 513,
    "of 600 bytes in 300 characters": "é" * 300,
    "of a megabyte": "x" * 1_000_000,
}
every_long_name = pytest.mark.parametrize("name", LONG_NAMES.values(), ids=LONG_NAMES)


@every_long_name
@pytest.mark.parametrize("has_member", [False, True], ids=["without a member", "with a member"])
def test_a_long_name_delays_nobody(
    scheduler: RedisScheduler, writer: Writer, log: Log, name: str, has_member: bool
) -> None:
    writer.hash(name, "x")
    if has_member:
        writer.member(name)
    writer.send()

    assert controls_of(scheduler) == "on time"
    assert controls_of(scheduler) == "on time"
    assert longest_text(log, scheduler.app) <= LONGEST_REASON


@every_long_name
def test_a_long_name_is_no_entry(scheduler: RedisScheduler, writer: Writer, name: str) -> None:
    writer.entry(name, definition())
    writer.send()

    tick_until_idle(scheduler)

    assert take(scheduler.app, "others") == []
    assert writer.client.hget(writer.key(name).decode(), "definition") == definition(), "it is not ours to delete"


def test_a_name_of_512_bytes_is_an_entry(scheduler: RedisScheduler, writer: Writer) -> None:
    writer.entry("x" * 512, definition())
    writer.send()

    tick_until_idle(scheduler)

    assert [run.name for run in take(scheduler.app, "others")] == ["x" * 512]


# H2: planning

DATES = [f"202501{day + 1:02}T{minute // 60:02}{minute % 60:02}00Z" for day in range(14) for minute in range(1430)]
SLOW_PLANS: dict[str, tuple[dict[str, Any], timedelta]] = {
    "seconds of two weeks a year": (rule("DTSTART:19700101T000000Z", "RRULE:FREQ=SECONDLY;BYWEEKNO=40,41"), 56 * YEAR),
    "20,000 dates": (rule("DTSTART:20250101T000000Z", f"RDATE:{','.join(DATES)}"), timedelta(days=1)),
    "20,000 exceptions": (
        rule("DTSTART:20250101T000000Z", "RRULE:FREQ=SECONDLY", f"EXDATE:{','.join(DATES)}"),
        timedelta(hours=3),
    ),
    "minutes of a week": (rule("DTSTART:20200101T000000Z", "RRULE:FREQ=MINUTELY"), WEEK),
    "seconds of three hours": (rule("DTSTART:20200101T000000Z", "RRULE:FREQ=SECONDLY"), timedelta(hours=3)),
    "days since 1970": (rule("DTSTART:19700101T000000Z", "RRULE:FREQ=DAILY"), 56 * YEAR),
    "seconds that never come": (rule("DTSTART:19700101T000000Z", "RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"), WEEK),
    "hours that never come": (rule("DTSTART:19700101T000000Z", "RRULE:FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=31"), WEEK),
    "sunsets since 1970": (SUNSET, 56 * YEAR),
    "seconds of an interval": ({"__type__": "interval", "every": 1e-6}, YEAR),
    "minutes of a crontab": ({"__type__": "crontab"}, 56 * YEAR),
    "a leap day": ({"__type__": "crontab", "minute": 0, "day_of_month": 29, "month_of_year": 2}, 56 * YEAR),
}


@pytest.mark.parametrize("coalesce", ["latest", "earliest", "all"])
@pytest.mark.parametrize(("schedule", "lateness"), SLOW_PLANS.values(), ids=SLOW_PLANS)
def test_an_entry_that_is_hard_to_plan_delays_nobody(
    scheduler: RedisScheduler, writer: Writer, schedule: dict[str, Any], lateness: timedelta, coalesce: str
) -> None:
    for number in range(5):
        writer.entry(f"slow {number}", definition(schedule, coalesce=coalesce, x=number), late(lateness))
    writer.send()

    assert controls_of(scheduler) == "on time"


def test_a_rule_of_minutes_that_is_late_by_a_week_costs_milliseconds(scheduler: RedisScheduler, writer: Writer) -> None:
    schedule, lateness = SLOW_PLANS["minutes of a week"]
    scheduler.tick()
    writer.entry("slow", definition(schedule), late(lateness))
    writer.send()

    began = time.process_time()
    tick_until_idle(scheduler)

    assert time.process_time() - began < 0.2
    assert [run.name for run in take(scheduler.app, "others")] == ["slow"]


# H3, H7: thousands


@pytest.mark.deep
def test_thousands_of_unscheduled_hashes_delay_nobody(app: Celery, scheduler: RedisScheduler, writer: Writer) -> None:
    for number in range(6000):
        writer.hash(f"unscheduled {number}", json.dumps({"name": f"unscheduled {number}"}))
    writer.send()

    assert controls_for(scheduler, 5) == "on time"


def test_the_repair_of_hashes_that_are_listed_already_reads_no_list_of_all_of_them(app: Celery, writer: Writer) -> None:
    for number in range(3000):
        writer.hash(f"unscheduled {number}", json.dumps({"name": f"unscheduled {number}"}))
    writer.send()

    for _ in range(2):  # the second time all are listed
        repair, began = Repair(Context.of(app)), used_by_both(app)
        repair.step()
        while not repair.is_done:
            repair.step()
    assert used_by_both(app) - began < LATEST_SECONDS
    assert len(reports(app)) == 3000


@pytest.mark.deep
@pytest.mark.parametrize("has_hash", [True, False], ids=["broken", "without a hash"])
def test_thousands_of_broken_members_delay_nobody(
    scheduler: RedisScheduler, writer: Writer, log: Log, has_hash: bool
) -> None:
    for number in range(10_000):
        writer.member(f"bad {number}")
        if has_hash:
            writer.hash(f"bad {number}", "{")
    writer.send()

    assert controls_for(scheduler, 5) == "on time"

    assert len(log.lines) < 2000, "a line for each of them"
    assert longest_text(log, scheduler.app) <= LONGEST_REASON


# H4, H5: sizes

LARGE_FIELDS: dict[str, Callable[[], dict[str, str]]] = {
    "definition": lambda: {"definition": definition(args=["x" * TOO_LARGE])},
    "definition that is broken": lambda: {"definition": "x" * TOO_LARGE},
    "meta": lambda: {"definition": definition(), "meta": json.dumps({"note": "x" * TOO_LARGE})},
    "skipped": lambda: {"definition": definition(), "skipped": json.dumps({"x": "x" * TOO_LARGE})},
}


@pytest.mark.parametrize("make", LARGE_FIELDS.values(), ids=LARGE_FIELDS)
def test_an_entry_that_is_too_large_is_quarantined_unread(
    scheduler: RedisScheduler, writer: Writer, log: Log, make: Callable[[], dict[str, str]]
) -> None:
    fields = make()
    for number in range(12):
        writer.entry(f"large {number}", fields["definition"], **{k: v for k, v in fields.items() if k != "definition"})
    writer.send()

    assert controls_of(scheduler) == "on time"
    tick_until_idle(scheduler)

    assert set(reports(scheduler.app)) == {f"large {number}" for number in range(12)}
    assert take(scheduler.app, "others") == []
    assert longest_text(log, scheduler.app) <= LONGEST_REASON


def test_entries_just_below_the_bound_are_claimed_a_few_at_a_time(scheduler: RedisScheduler, writer: Writer) -> None:
    for number in range(20):
        writer.entry(f"large {number}", definition(args=["x" * 900_000]))
    writer.send()

    assert controls_of(scheduler) == "on time"
    tick_until_idle(scheduler)

    assert len(take(scheduler.app, "others")) == 20


LONG_REASONS = {
    "a task of a list": definition(task=["x" * 900_000]),
    "an unknown schedule": definition({"__type__": "x" * 900_000}),
    "an unknown field of a schedule": definition({"__type__": "rrule", "x" * 900_000: 1}),
    "a line of a rule": definition(rule("x" * 900_000)),
    "a solar event": definition({**SUNSET, "event": "x" * 900_000}),
    "a time zone": definition(timezone="x" * 900_000),
    "a number of digits": definition({"__type__": "interval", "every": 10**4000}),
    "a queue": definition(options={"headers": "x" * 900_000}),
}


@pytest.mark.parametrize("text", LONG_REASONS.values(), ids=LONG_REASONS)
def test_a_reason_quotes_the_beginning_of_a_value(
    scheduler: RedisScheduler, writer: Writer, log: Log, text: str
) -> None:
    writer.entry("bad", text)
    writer.hash("unscheduled", text.replace("{", '{"name": "unscheduled", ', 1))
    writer.send()

    assert controls_of(scheduler) == "on time"

    assert set(reports(scheduler.app)) == {"bad", "unscheduled"}
    assert longest_text(log, scheduler.app) <= LONGEST_REASON


# H6: catching up


@pytest.mark.parametrize("number", [20, pytest.param(200, marks=pytest.mark.deep)])
def test_entries_that_catch_up_for_ever_delay_nobody(scheduler: RedisScheduler, writer: Writer, number: int) -> None:
    for each in range(number):
        text = definition({"__type__": "interval", "every": 1e-6}, coalesce="all")
        writer.entry(f"microsecond {each}", text, late(YEAR))
    writer.send()

    assert controls_for(scheduler, 6) == "on time"


def test_the_first_run_of_every_entry_comes_before_the_second_of_any(scheduler: RedisScheduler, writer: Writer) -> None:
    names = [f"late {number}" for number in range(3)]
    for name in names:
        writer.entry(
            name, definition({"__type__": "interval", "every": 60}, coalesce="all"), late(timedelta(minutes=5))
        )
    writer.send()

    tick_until_idle(scheduler)

    assert sorted(run.name for run in take(scheduler.app, "others")[:3]) == names


# M1, M2: what people and terminals see

spoofed = {
    "a name": lambda writer: writer.entry(SPOOF, definition()),
    "a name that is broken": lambda writer: writer.entry(SPOOF, "{"),
    "a name without a hash": lambda writer: writer.member(SPOOF),
    "a name without a member": lambda writer: writer.hash(SPOOF, definition()),
    "a broken name without a member": lambda writer: writer.hash(SPOOF, "{"),
    "a task": lambda writer: writer.entry("bad", definition(task=SPOOF)),
    "a field of a schedule": lambda writer: writer.entry("bad", definition({"__type__": "rrule", SPOOF: 1})),
    "a line of a rule": lambda writer: writer.entry("bad", definition(rule(SPOOF))),
    "a solar event": lambda writer: writer.entry("bad", definition({**SUNSET, "event": SPOOF})),
    "a zone": lambda writer: writer.entry("bad", definition(timezone=SPOOF)),
    "a description": lambda writer: writer.entry("bad", definition(description=SPOOF)),
    "an origin": lambda writer: writer.entry("bad", definition(), origin=SPOOF),
    "an error": lambda writer: writer.entry("bad", definition(), last_error=SPOOF),
    "a reason of skips": lambda writer: writer.entry("bad", definition(), skipped=json.dumps({SPOOF: {"count": 1}})),
    "bytes that are no UTF-8": lambda writer: writer.entry(b"\xff\xfe\x1b", definition()),
}  # fmt: skip
every_spoof = pytest.mark.parametrize("write", spoofed.values(), ids=spoofed)


@every_spoof
def test_the_log_shows_no_character_that_rules_a_terminal(
    scheduler: RedisScheduler, writer: Writer, log: Log, write: Callable[[Writer], None]
) -> None:
    write(writer)
    writer.send()

    assert controls_of(scheduler) == "on time"
    tick_until_idle(scheduler)

    assert [line for line in [*log.lines, *log.sending] if UNPRINTABLE.search(line)] == []


@every_spoof
def test_the_command_line_shows_no_character_that_rules_a_terminal(
    app: Celery, scheduler: RedisScheduler, writer: Writer, write: Callable[[Writer], None], log: Log
) -> None:
    write(writer)
    writer.send()
    tick_until_idle(scheduler)

    for name in (SPOOF, "bad"):
        for arguments in (
            ["list"],
            ["broken"],
            ["show", name],
            ["upcoming", name],
            ["disable", name],
            ["enable", name],
        ):
            output = run_command(app, *arguments).output
            assert not UNPRINTABLE.search(output.replace("\n", "")), (arguments, output)
            assert "\n[2026" not in output, (arguments, output)


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m", "\x9b", "\u202egnp", "\u2066", "a\x00"])
def test_names_and_tasks_with_control_characters_are_refused(app: Celery, text: str) -> None:
    with pytest.raises(InvalidEntry):
        RedisScheduleEntry(text, "proj.work", 60.0, app=app).save()
    with pytest.raises(InvalidEntry):
        RedisScheduleEntry("report", text, 60.0, app=app).save()


def test_a_token_of_a_lock_is_escaped(
    make_app: Callable[..., Celery], make_scheduler: MakeScheduler, writer: Writer, log: Log, prefix: str
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_lock_lost="standby"))
    writer.client.set(f"{prefix}:lock", SPOOF, px=500)
    scheduler.tick()
    writer.client.delete(f"{prefix}:lock")
    scheduler.tick()
    writer.client.set(f"{prefix}:lock", SPOOF * 100, px=60_000)
    for _ in range(3):  # one finds that the claim is refused, the next that the lock is lost
        scheduler.tick()

    assert sum("forged" in line for line in log.lines) >= 2
    assert [line for line in log.lines if UNPRINTABLE.search(line)] == []
    assert max(map(len, log.lines)) <= LONGEST_REASON


def test_a_listing_is_no_wider_for_a_long_name(app: Celery, writer: Writer) -> None:
    for number in range(20):
        save_due(app, f"entry {number}")
    writer.entry("x" * 100_000, definition())
    writer.entry("y" * 500, definition(task="z" * 100_000))
    writer.send()

    assert len(run_command(app, "list").output) < 20_000


# M3: passwords


def test_the_report_of_celery_shows_no_password(make_app: Callable[..., Celery]) -> None:
    app = make_app(
        redisbeater_redis_url="redis://user:hunter2@127.0.0.1:1/0",
        redisbeater_redis_options={"password": "hunter3", "sentinel_kwargs": {"password": "hunter4"}},
        redisbeater_notify={"ops": "mailtos://beat:hunter5@mail.example.com", "dev": ["ntfy://hunter6"]},
        redisbeater_ping_url="https://hc.example.com/hunter7",
    )

    report = app.bugreport()

    assert "redisbeater_redis_options" in report
    assert "redisbeater_notify: '********'" in report
    assert re.findall("hunter.", report) == []


# M4, M5: keys of beat's own, while a beat of the test's process leads


OWN_KEYS = [":id", ":broken", ":failing", ":statics", ":beats"]
WRONG = {
    "string": ("SET", "x"),
    "list": ("RPUSH", "x"),
    "set": ("SADD", "x"),
    "zset": ("ZADD", "1", "x"),
    "hash": ("HSET", "x", "x"),
    "stream": ("XADD", "*", "x", "x"),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", OWN_KEYS)
def test_a_bookkeeping_key_of_any_type_stops_nothing(
    make_app: Callable[..., Celery], make_scheduler: MakeScheduler, writer: Writer, prefix: str, name: str, kind: str
) -> None:
    verb, *values = WRONG[kind]
    app = make_app(beat_schedule={"static": {"task": "proj.work", "schedule": 3600.0}})
    writer.client.execute_command(verb, prefix + name, *values)
    scheduler = make_scheduler(app)
    assert controls_of(scheduler) == "on time"
    assert stored(app, "static").task == "proj.work"

    writer.client.delete(prefix + name)
    writer.client.execute_command(verb, prefix + name, *values)
    writer.entry("bad", "{")
    writer.send()
    assert controls_for(scheduler, 0.1) == "on time"
    assert (writer.client.zscore(f"{prefix}:schedule", f"{prefix}bad") or 0) < 0


def test_a_claim_that_finds_an_id_of_a_wrong_type_takes_nothing_that_it_cannot_commit(
    make_app: Callable[..., Celery], make_scheduler: MakeScheduler, writer: Writer, prefix: str
) -> None:
    scheduler = make_scheduler(make_app())
    scheduler.tick()
    writer.client.delete(f"{prefix}:id")
    writer.client.rpush(f"{prefix}:id", "x")

    assert controls_of(scheduler) == "on time"

    assert [key for key in writer.client.scan_iter(f"{prefix}control*") if writer.client.hexists(key, "claim")] == []


def test_a_schedule_that_is_no_sorted_set_is_named_and_ends_no_beat(
    scheduler: RedisScheduler, writer: Writer, log: Log, prefix: str
) -> None:
    scheduler.tick()
    writer.client.delete(f"{prefix}:schedule")
    writer.client.set(f"{prefix}:schedule", "x")
    scheduler.tick()
    scheduler.tick()

    assert log.names(f"{prefix}:schedule")
    if writer.client.type(f"{prefix}:schedule") != "zset":
        writer.client.delete(f"{prefix}:schedule")
    assert controls_of(scheduler) == "on time"


def test_what_the_list_of_broken_entries_holds_is_never_claimed_as_an_entry(
    scheduler: RedisScheduler, writer: Writer, prefix: str
) -> None:
    writer.member(":broken")
    writer.client.hset(f"{prefix}:broken", "definition", "{")
    writer.send()

    assert controls_of(scheduler) == "on time"
    tick_until_idle(scheduler)

    assert set(writer.client.hkeys(f"{prefix}:broken")) <= {"definition"}


# M6: what cannot be printed


@pytest.mark.parametrize("depth", [600, 950, 9000])
def test_a_deep_definition_is_shown(app: Celery, writer: Writer, depth: int) -> None:
    writer.entry("bad", f'{definition()[:-1]}, "args": {"[" * depth}{"]" * depth}}}')
    writer.send()

    for arguments in (["show", "bad"], ["show", "bad", "--json"], ["list"], ["list", "--json"], ["broken"]):
        result = run_command(app, *arguments)
        assert (result.exit_code, result.exception) == (0, None), arguments


NO_JSON = ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "{", '"\\ud800"', "9" * 5000, "\ud800"]


@pytest.mark.parametrize("text", NO_JSON, ids=range(len(NO_JSON)))
def test_what_is_printed_as_json_is_json_whatever_is_stored(
    app: Celery, scheduler: RedisScheduler, writer: Writer, text: str
) -> None:
    value = text.encode("utf-8", "surrogatepass")
    writer.entry("bad", value)
    writer.entry("bad field", definition()[:-1].encode() + b', "args": [' + value + b"]}")
    writer.entry("bad meta", definition(), meta=value)
    writer.send()
    tick_until_idle(scheduler)

    for arguments in (["show", "bad"], ["show", "bad field"], ["show", "bad meta"], ["broken"], ["list"]):
        result = run_command(app, *arguments, "--json")
        assert result.exit_code == 0, (arguments, result.output)
        for line in result.output.splitlines() if arguments == ["list"] else [result.output]:
            json.loads(line, parse_constant=_refuse)
            line.encode()


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize("depth", [700, 9000])
def test_arguments_that_are_nested_too_deeply_are_refused_by_their_field(app: Celery, depth: int) -> None:
    args: list[Any] = []
    for _ in range(depth):
        args = [args]

    with pytest.raises(InvalidEntry, match="args"):
        RedisScheduleEntry("report", "proj.work", 60.0, args=[args], app=app).save()


# LOW


def test_a_batch_size_that_no_server_takes_is_refused(make_app: Callable[..., Celery]) -> None:
    with pytest.raises(ImproperlyConfigured, match="batch_size"):
        Context.of(make_app(redisbeater_batch_size=10**30)).config  # noqa: B018


def test_the_next_major_version_of_celery_is_not_installed() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")

    assert re.search(r'"celery>=5\.5(\.0)?,<6(\.0)?"', project)


@pytest.mark.parametrize(
    "moment", [datetime(1, 1, 1, tzinfo=timezone.utc), datetime(9999, 12, 31, tzinfo=timezone.utc)]
)
def test_a_last_run_at_the_end_of_all_times_harms_nobody(
    scheduler: RedisScheduler, writer: Writer, moment: datetime
) -> None:
    last = {"__type__": "datetime", "year": moment.year, "month": moment.month, "day": moment.day}
    writer.entry("odd", definition(), meta=json.dumps({"last_run_at": last, "total_run_count": 1}), recorded_run="1")
    writer.send()

    assert controls_of(scheduler) == "on time"
