"""The tables of the command line, with a fixed clock, and what its changes print."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from due import UTC, save_due, stored

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked
from redisbeater.cli import redisbeater
from redisbeater.model.fields import FIELDS

#: A Saturday, 23:31:07 in Vienna.
NOW = "2026-11-21T23:31:07"
FRIDAY = datetime(2026, 11, 20, 8, tzinfo=UTC)

DEFINITION = {"task": "shop.tasks.digest", "schedule": {"__type__": "interval", "every": 10}}


@pytest.fixture
def vienna(make_app: Callable[..., Celery]) -> Celery:
    return make_app("shop", timezone="Europe/Vienna")


@pytest.fixture
def run(vienna: Celery) -> Callable[..., Result]:
    """Run a command of the app in Vienna."""

    def run(*arguments: str, app: Celery = vienna, input: str | None = None) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app), input=input)

    return run


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Callable[..., None]:
    """Store an entry as another program would, with a fire time, and with a last run and a run count."""

    def write(name: str, at: str, last: str = "", runs: int = 0, **fields: Any) -> None:
        client.hset(f"{prefix}{name}", "definition", json.dumps({**DEFINITION, **fields}))
        if last:
            moment = datetime.fromisoformat(last)
            parts = {part: getattr(moment, part) for part in ("year", "month", "day", "hour", "minute", "second")}
            run_at = {"__type__": "datetime", **parts, "microsecond": 0, "timezone": "UTC"}
            meta = {"last_run_at": run_at, "total_run_count": runs}
            client.hset(f"{prefix}{name}", "meta", json.dumps(meta))
        score = datetime.fromisoformat(f"{at}+00:00").timestamp() if at else -1
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": score})

    return write


CRON = {"__type__": "crontab", "minute": "0", "hour": "9", "day_of_week": "1-5"}


def test_the_listing_is_drawn_for_people(run: Callable[..., Result], write: Callable[..., None]) -> None:
    minute = {"__type__": "interval", "every": 60}
    write("mail digest", "2026-11-21T22:31:10", "2026-11-21T22:31:00", 88_120)
    write("price feed", "2026-11-21T22:30:00", "2026-11-21T21:58:00", 2003, task="shop.tasks.prices", schedule=minute)
    write("report", "2026-11-23T08:00:00", "2026-11-20T08:00:00", 318, schedule=CRON)
    write("tokyo", "2026-11-23T00:00:00", schedule=CRON, timezone="Asia/Tokyo")
    write("invoices", "", "2026-11-03T08:00:00", 12, enabled=False)
    write("odd", "", task=5)

    result = run("list", "--now", NOW)

    assert result.exit_code == 0
    lines = [re.sub(r" {2,}", "|", line) for line in result.stdout.splitlines()]
    assert lines == [
        "now Sat 21 Nov 23:31:07 Europe/Vienna|6 entries, 1 disabled, 1 broken, 1 late, no beat leads",
        "NAME|STATE|NEXT|IN|LAST|RUNS|SCHEDULE|TASK",
        "price feed|enabled|Sat 23:30:00|67 s late|33 min ago|2,003|every minute|shop.tasks.prices",
        "mail digest|enabled|Sat 23:31:10|3 s|7 s ago|88,120|every 10 seconds|shop.tasks.digest",
        "tokyo|enabled|Mon 09:00:00 JST|25 h|-|0|at 09:00 on Monday to Friday, Asia/Tokyo|shop.tasks.digest",
        "report|enabled|Mon 09:00:00|33 h|Fri 09:00|318|at 09:00 on Monday to Friday|shop.tasks.digest",
        "invoices|disabled|-|-|3 Nov|12|every 10 seconds|shop.tasks.digest",
        "odd|broken|-|-|-|0|$.task: expected a task or its name, got 5|-",
    ]
    places = [line.index("TASK") for line in result.stdout.splitlines()[1:2]]
    assert all(line[places[0] - 2 : places[0]] == "  " for line in result.stdout.splitlines()[2:])


def test_the_listing_shows_utc_on_demand(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write("tokyo", "2026-11-23T00:00:00", schedule=CRON, timezone="Asia/Tokyo")

    lines = run("list", "--now", NOW, "--utc").stdout.splitlines()

    assert lines[0].startswith("now Sat 21 Nov 22:31:07 UTC   1 entry")
    assert "  Mon 00:00:00  " in lines[2]


def test_names_alone_are_listed_for_other_commands(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write("b", "2026-11-23T00:00:00")
    write("a\n", "2026-11-24T00:00:00")

    assert run("list", "--names").stdout == "b\na\\x0a\n"


def test_an_empty_schedule_says_where_it_looked(
    run: Callable[..., Result], make_app: Callable[..., Celery], prefix: str, write: Callable[..., None]
) -> None:
    app = make_app("shop")
    address = app.conf.redisbeater_redis_url
    app.conf.redisbeater_redis_url = address.replace("redis://", "redis://:hunter2@").replace("hunter2", "")

    result = run("list", app=app)

    assert result.exit_code == 0
    assert result.stdout == (
        f"no entries in {address} below the prefix '{prefix}', and no beat leads there; "
        "redisbeater_redis_url and redisbeater_key_prefix say where to look\n"
    )
    write("a", "2026-11-23T00:00:00")
    assert run("list", "--prefix", "b").stdout == "none of 1 entries is selected\n"
    assert run("list", "--prefix", "b", "--json").stdout == ""


def test_the_head_knows_whether_a_beat_leads(
    run: Callable[..., Result], vienna: Celery, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    RedisScheduleEntry("a", "proj.work", 3600, app=vienna).save()
    before = run("list").stdout.splitlines()[0]

    make_scheduler(vienna).tick()

    assert before.endswith("1 entry, no beat leads")
    assert run("list").stdout.splitlines()[0].endswith("1 entry")


def test_show_draws_one_entry(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(
        "report", "2026-11-23T08:00:00", "2026-11-20T08:00:00", 318, schedule=CRON, max_runs=400, jitter=0,
        args=[1], kwargs={"pages": 3}, options={"queue": "slow"}, description="for the board",
    )  # fmt: skip

    assert run("show", "report", "--now", NOW).stdout.splitlines() == [
        "report   shop.tasks.digest(1, pages=3)   enabled, dynamic, version c568f730",
        "  description  for the board",
        "  schedule     at 09:00 on Monday to Friday, Europe/Vienna "
        "(fixed: once for each time of the day, also when the clocks change)",
        "  cron         0 9 * * 1-5",
        "  next         Mon 23 Nov 2026 09:00:00 CET   2026-11-23T08:00:00Z   in 1 d 9 h",
        "  last run     Fri 20 Nov 2026 09:00:00 CET   2026-11-20T08:00:00Z   1 d 14 h ago",
        "  counts       318 runs",
        "  policies     max_runs 400; jitter 0; coalesce latest (setting)",
        '  options      {"queue": "slow"}',
    ]


def test_show_says_which_policies_come_from_settings(
    run: Callable[..., Result], make_app: Callable[..., Celery]
) -> None:
    given = {"redisbeater_jitter": 300, "redisbeater_misfire_grace_time": 3600, "redisbeater_coalesce": "all"}
    app = make_app("shop", redisbeater_track_runs=True, redisbeater_overlap="skip", **given)
    RedisScheduleEntry("report", "proj.work", 60, jitter=5, app=app).save()

    [policies] = [line for line in run("show", "report", app=app).stdout.splitlines() if line.startswith("  policies")]

    assert policies.split(maxsplit=1)[1] == (
        "jitter 5 s; misfire_grace_time 1 h (setting); coalesce all (setting); overlap skip (setting)"
    )


def test_show_prints_the_zone_of_an_entry_whose_schedule_does_not_say_it(
    run: Callable[..., Result], write: Callable[..., None]
) -> None:
    write("hourly", "2026-11-23T08:00:00", timezone="Asia/Tokyo")
    write("nightly", "2026-11-23T08:00:00", timezone="Asia/Tokyo", schedule=CRON)

    shown, nightly = run("show", "hourly").stdout, run("show", "nightly").stdout

    assert "\n  timezone     Asia/Tokyo\n" in shown
    assert nightly.count("Asia/Tokyo") == 1


def test_show_prints_every_field_that_is_set(run: Callable[..., Result], make_app: Callable[..., Celery]) -> None:
    app = make_app("shop", redisbeater_track_runs=True)
    fields: Any = {
        "timezone": "Asia/Tokyo", "start_at": datetime(2027, 1, 3), "end_at": datetime(2028, 1, 3), "max_runs": 77,
        "on_finish": "delete", "misfire_grace_time": 90, "coalesce": "all", "jitter": 7, "overlap": "skip",
        "requeue_lost": 4, "anchor": "execution", "deadline": 80, "disable_after_failures": 66, "max_failures": 3,
        "start_within": 95, "finish_within": 96, "notify": "none",
    }  # fmt: skip
    told = {
        "args": (["A1"], "'A1'"), "kwargs": ({"pages": 9}, "pages=9"),
        "options": ({"queue": "slow"}, '"queue": "slow"'),
        "enabled": (True, "disabled, dynamic"), "description": ("for the board", "description  for the board"),
        "labels": ({"team": "data"}, "labels       team=data"),
        "disabled_until": (datetime(2027, 5, 1), "until Sat 1 May 2027"),
        "skip": ([datetime(2027, 6, 1, 8, tzinfo=UTC)], "skips        2027-06-01 17:00:00"),
    }  # fmt: skip
    assert {*fields, *told, "once"} == set(FIELDS) - {"between", "days", "calendar", "roll"}, (
        "of a new field beside the schedule, its value and what show says of it"
    )
    given = {**fields, **{name: value for name, (value, _) in told.items()}}

    RedisScheduleEntry("report", "proj.work", 60, app=app, **given).save()
    shown = run("show", "report", app=app).stdout

    assert [name for name in fields if f"{name} " not in shown] == []
    assert [text for _, text in told.values() if text not in shown] == []


def test_show_has_the_last_change(run: Callable[..., Result], vienna: Celery) -> None:
    store = ScheduleStore(vienna)
    store.create("report", "proj.work", 60, by="anna@ops1")
    store.update("report", args=[1], by="bert@ops1", note="one page is enough")
    store.trigger("report")

    changed = [line for line in run("show", "report").stdout.splitlines() if line.startswith("  changed ")]
    read = json.loads(run("show", "report", "--json").stdout)["changed"]

    assert len(changed) == 1
    assert re.fullmatch(
        r'  changed      \w{3} \d\d:\d\d:\d\d CES?T   args by bert@ops1: "one page is enough"', changed[0]
    )
    assert (read["what"], read["fields"], read["by"]) == ("changed", ["args"], "bert@ops1")


def test_upcoming_marks_what_is_overdue(run: Callable[..., Result], vienna: Celery) -> None:
    RedisScheduleEntry("late", "proj.work", clocked(FRIDAY), app=vienna).save()

    [header, line] = run("upcoming", "late", "--now", NOW).stdout.splitlines()

    assert header.split() == ["FIRE", "TIME", "(UTC)", "LOCAL", "IN", "NOTE"]
    assert re.sub(r" {2,}", "|", line) == ("2026-11-20 08:00:00|Fri 20 Nov 2026 09:00:00 CET|39 h ago|overdue")


def test_upcoming_says_where_it_ends_before_its_time(run: Callable[..., Result], vienna: Celery) -> None:
    RedisScheduleEntry("often", "proj.work", 1, app=vienna).save()

    cut, whole = (run("upcoming", "often", "--within", length) for length in ("24h", "5m"))

    assert len(cut.stdout.splitlines()) == 10_001
    assert cut.stderr == "only the first 10,000 runs are shown: shorten --within\n"
    assert whole.stderr == ""


def test_a_time_that_is_none_is_refused(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write("a", "2026-11-23T00:00:00")

    result = run("list", "--now", "soon")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: --now 'soon': expected a time such as ")


# Several names


@pytest.mark.parametrize("command", ["enable", "disable", "delete"])
def test_a_missing_name_does_not_hold_up_the_others(run: Callable[..., Result], vienna: Celery, command: str) -> None:
    for name in ("alpha", "gamma"):
        RedisScheduleEntry(name, "proj.work", 60, enabled=command == "disable", app=vienna).save()

    result = run(command, "alpha", "gama", "gamma")

    assert result.exit_code == 2
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["alpha", "gamma"]
    hint = "" if command == "delete" and "gamma" not in result.stderr else "; did you mean 'gamma'?"
    assert result.stderr == f"Error: no entry named 'gama' in the schedule{hint}\n"


def test_a_filter_selects_many_and_needs_a_yes(run: Callable[..., Result], vienna: Celery) -> None:
    for number in range(7):
        RedisScheduleEntry(f"c-{number}", "proj.work", 60, app=vienna).save()
    RedisScheduleEntry("other", "proj.other", 60, app=vienna).save()

    refused = run("disable", "--prefix", "c-")
    done = run("disable", "--prefix", "c-", "--yes")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("Error: this would disable 7 entries: c-")
    assert refused.stderr.endswith(" and 2 more; pass --yes to do it\n")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 7)
    assert [entry.name for entry in ScheduleStore(vienna).list(enabled=True)] == ["other"]
    assert run("delete", "--task", "proj.other").stdout == "other: deleted; restore undoes that\n"
    assert run("delete", "--task", "proj.other").exit_code == 2
    assert run("delete").exit_code == 2
    assert run("delete", "x", "--all").exit_code == 2


# Static entries


def lead(app: Celery) -> None:
    """Let a beat of the app lead once, and end it."""
    scheduler = RedisScheduler(app)
    scheduler.tick()
    scheduler.close()


NIGHTLY = {"task": "proj.nightly", "schedule": crontab(minute=0, hour=3)}


def test_deleting_a_static_entry_says_that_it_comes_back(run: Callable[..., Result], vienna: Celery) -> None:
    vienna.conf.beat_schedule = {"nightly": NIGHTLY}
    lead(vienna)

    assert run("delete", "nightly").stdout == (
        "nightly: deleted; it is static, and the next beat that leads stores it again: "
        "disable it, or remove it from the code\n"
    )


def test_what_a_pause_holds_is_not_late(run: Callable[..., Result], vienna: Celery) -> None:
    save_due(vienna, "overdue", "proj.work", late=75.0, every=3600.0)
    heading, _, row = run("list").stdout.splitlines()
    assert (", 1 late" in heading, " late " in row) == (True, True)
    ScheduleStore(vienna).pause()
    heading, _, row = run("list").stdout.splitlines()
    assert ("late" in heading, " late " in row, " held " in row) == (False, False, True)


def test_a_broken_declaration_is_listed_and_shown(run: Callable[..., Result], vienna: Celery) -> None:
    vienna.conf.beat_schedule = {"notask": {"schedule": 60.0}, "good": NIGHTLY}
    lead(vienna)

    rows = [json.loads(line) for line in run("list", "--json").stdout.splitlines()]

    assert [(row["name"], row["state"]) for row in rows] == [("good", "enabled"), ("notask", "broken")]
    assert "1 broken" in run("list").stdout.splitlines()[0]
    shown = run("show", "notask").stdout.splitlines()
    assert shown[0] == "notask   -   broken, static, shop"
    assert shown[-1].startswith("  error        $.task: ")
    assert run("list", "--prefix", "other").stdout.startswith("none of 1")


def test_an_entry_that_runs_as_before_shows_what_is_wrong_with_its_declaration(
    run: Callable[..., Result], vienna: Celery
) -> None:
    vienna.conf.beat_schedule = {"nightly": NIGHTLY}
    lead(vienna)
    vienna.conf.beat_schedule = {"nightly": {**NIGHTLY, "task": ""}}
    lead(vienna)

    details = json.loads(run("show", "nightly", "--json").stdout)

    assert (details["state"], details["last_error"]) == ("enabled", "")
    assert "1 entry, 1 broken" in run("list").stdout, "as status counts"
    assert "broken 1, " in run("status").stdout
    assert details["declaration"].startswith("$.task: ")
    assert "  declaration  not stored: $.task: " in run("show", "nightly").stdout


def test_a_renamed_application_adopts_what_it_left(
    run: Callable[..., Result], vienna: Celery, make_app: Callable[..., Celery]
) -> None:
    old = make_app("proj", timezone="Europe/Vienna")
    old.conf.beat_schedule = {"nightly": NIGHTLY, "gone": NIGHTLY}
    lead(old)
    stored(old, "nightly").disable()
    vienna.conf.beat_schedule = {"nightly": NIGHTLY}

    lead(vienna)
    before = run("show", "nightly").stdout
    adopted = run("adopt", "proj", "--note", "renamed", "--by", "anna@ops1")
    lead(vienna)

    assert "enabled" not in before
    assert before.splitlines()[0].split("   ")[-1].startswith("disabled, static, proj, version ")
    assert "  declaration  not stored: $.name: a static entry of application 'proj' has that name" in before
    assert adopted.stdout == "".join(f"{name}: belongs to application 'shop' now\n" for name in ("gone", "nightly"))
    assert set(ScheduleStore(vienna).names()) == {"nightly"}
    assert run("show", "nightly").stdout.splitlines()[0].split("   ")[-1].startswith("disabled, static, shop, version ")
    assert "declaration" not in run("show", "nightly").stdout
    assert '  origin by anna@ops1: "renamed"' in run("show", "nightly").stdout
    assert run("adopt", "proj").stderr == (
        "Error: no static entry belongs to application 'proj'; those of the schedule belong to shop\n"
    )


def test_what_a_renamed_application_declared_wrongly_is_listed_as_broken_until_it_is_adopted(
    run: Callable[..., Result], vienna: Celery, make_app: Callable[..., Celery]
) -> None:
    old = make_app("proj")
    old.conf.beat_schedule = {"nightly": {**NIGHTLY, "task": None}}
    lead(old)
    lead(vienna)
    before = run("broken").stdout

    own, adopted = run("adopt", "shop"), run("adopt", "proj")

    assert before.startswith("nightly: $.task: ")
    assert own.exit_code == 2
    assert adopted.stdout == "nightly: its declaration, which could not be stored, is no longer listed as broken\n"
    assert run("broken").stdout.startswith("nothing is quarantined; ")


def test_no_entry_loses_its_phase_by_an_edit_of_the_command_line(run: Callable[..., Result], vienna: Celery) -> None:
    entry = RedisScheduleEntry("a", "proj.work", timedelta(hours=1), app=vienna).save()

    run("disable", "a")
    result = run("enable", "a")

    assert entry.due_at is not None
    assert f"next run {entry.due_at.astimezone(vienna.timezone):%a %H:%M:%S}" in result.stdout
