"""``create``, ``update`` and ``show --definition`` of the command line."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, Task
from celery.schedules import crontab, solar
from click.testing import CliRunner, Result

from redisbeater import (
    AsyncScheduleStore,
    EntryExists,
    EntryNotFound,
    RedisScheduleEntry,
    ScheduleStore,
    cron,
    rrule,
)
from redisbeater.cli import redisbeater
from redisbeater.runs import OnceTask
from redisbeater.schedules.timetable import next_fire_time

CRON = ("--cron", "0 9 * * mon-fri")


def new_year(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def vienna(make_app: Callable[..., Celery]) -> Celery:
    app = make_app("shop", timezone="Europe/Vienna")

    @app.task(name="shop.report", shared=False)
    def report() -> None: ...

    return app


@pytest.fixture
def store(vienna: Celery) -> ScheduleStore:
    return ScheduleStore(vienna)


@pytest.fixture
def run(vienna: Celery) -> Callable[..., Result]:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=vienna))

    return run


# create


def test_create_says_what_it_created(run: Callable[..., Result], store: ScheduleStore) -> None:
    result = run("create", "report", "shop.report", "--at", "2030-01-03T09:00", "--note", "for the board")

    assert result.stdout.splitlines()[:2] == [
        "report: created",
        "  schedule     once, on 3 January 2030 at 09:00, Europe/Vienna",
    ]
    assert result.stdout.splitlines()[2].startswith("  next runs    Thu 3 Jan 2030 09:00:00 CET   in ")
    assert (result.exit_code, result.stderr) == (0, "")
    assert store.log("report")[0].details["note"] == "for the board"


@pytest.mark.parametrize(
    ("option", "text", "schedule"),
    [
        ("--every", "90", 90.0),
        ("--every", "1h30m", 5400.0),
        ("--every", "1:30:00", 5400.0),
        ("--cron", "0 9 * * mon-fri", crontab("0", "9", day_of_week="mon-fri")),
        ("--cron", "0 0 9 * * *", cron("0 0 9 * * *")),
        ("--solar", "sunset, 48.2, 16.4", solar("sunset", 48.2, 16.4)),
        (
            "--rrule",
            "DTSTART;TZID=Europe/Vienna:20300101T090000\nRRULE:FREQ=DAILY",
            rrule("DTSTART;TZID=Europe/Vienna:20300101T090000\nRRULE:FREQ=DAILY"),
        ),
    ],
)
def test_a_schedule_is_created_from_words(
    run: Callable[..., Result], store: ScheduleStore, option: str, text: str, schedule: object
) -> None:
    assert run("create", "a", "shop.report", option, text).exit_code == 0

    stored = store.get("a").schedule
    assert (stored.run_every.total_seconds() if isinstance(schedule, float) else stored) == schedule


def test_a_rule_keeps_the_zone_that_its_text_names(run: Callable[..., Result], store: ScheduleStore) -> None:
    rule = "DTSTART;TZID=Europe/Vienna:20300101T090000\nRRULE:FREQ=DAILY"

    assert run("create", "a", "shop.report", "--rrule", rule, "--timezone", "UTC").exit_code == 0

    summer = datetime(2030, 7, 1, tzinfo=timezone.utc)
    assert next_fire_time(store.get("a").schedule, timezone.utc, summer) == summer.replace(hour=7)


def test_every_option_becomes_its_field(run: Callable[..., Result], store: ScheduleStore, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text("[1]")

    result = run(
        "create", "a", "shop.report", *CRON, "--timezone", "Asia/Tokyo", "--args", f"@{tmp_path / 'args.json'}",
        "--kwargs", '{"pages": 3}', "--options", '{"expires": 60}', "--queue", "slow", "--priority", "5",
        "--start-at", "2030-01-01T00:00", "--end-at", "2031-01-01T00:00Z", "--max-runs", "12", "--on-finish", "disable",
        "--grace", "1h", "--coalesce", "all", "--jitter", "30s", "--description", "for people", "--disabled",
    )  # fmt: skip

    entry = store.get("a")
    assert result.exit_code == 0
    assert (entry.timezone, entry.args, entry.kwargs, entry.enabled) == ("Asia/Tokyo", [1], {"pages": 3}, False)
    assert entry.options == {"expires": 60, "queue": "slow", "priority": 5}
    assert str(entry.start_at) == "2030-01-01 00:00:00+09:00"
    assert str(entry.end_at) == "2031-01-01 09:00:00+09:00"
    assert (entry.max_runs, entry.on_finish, entry.misfire_grace_time) == (12, "disable", 3600.0)
    assert (entry.coalesce, entry.jitter, entry.description) == ("all", 30.0, "for people")
    assert "none: the entry is disabled" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "schedule: is missing; expected one of --every, --cron"),
        (("--every", "x"), "--every: 'x': expected a duration such as 90, 90s, 1h30m or 2d"),
        (("--every", "0"), "--every: expected a duration of at least 1 microsecond, got '0'"),
        (("--every", "5", "--at", "now"), "--every and --at: give only one"),
        (("--cron", "61 * * * *"), "--cron minute: '61' is out of range"),
        (("--at", "soon"), "--at: 'soon': expected a time such as"),
        (
            ("--at", "31 February 2027"),
            "--at: '31 February 2027': expected a time such as 2026-11-23T09:00, 09:00, tom",
        ),
        (("--every", "1M"), "--every: '1M': expected a duration such as 90, 90s, 1h30m or 2d; M could mean months"),
        (("--every", "0.0000001"), "--every: expected a duration of at least 1 microsecond, got '0.0000001'"),
        ((*CRON, "--timezone", ""), "--timezone: unknown time zone ''; expected an IANA name such as"),
        ((*CRON, "--timezone", "UTC+1"), "--timezone: unknown time zone 'UTC+1'; expected an IANA name such as"),
        (("--solar", "sunset"), "--solar: expected an event, latitude and longitude such as"),
        (("--solar", "sunzet,1,2"), "--solar: solar: "),
        (("--rrule", "FREQ=NEVER"), "--rrule: "),
        ((*CRON, "--timezone", "Europe/Wien"), "--timezone: unknown time zone 'Europe/Wien'"),
        ((*CRON, "--args", "{"), '--args: not valid JSON at line 1, column 2. Write a list, such as ["orders"]'),
        ((*CRON, "--args", "@/nowhere"), "--args /nowhere: cannot be read: No such file or directory"),
        ((*CRON, "--options", '{"quue": "x"}'), "--options quue: "),
        ((*CRON, "--max-runs", "many"), "--max-runs: expected a whole number, got 'many'"),
        ((*CRON, "--on-finish", "retain"), "--on-finish: expected one of 'keep', 'disable', 'delete', got 'retain'"),
        ((*CRON, "--end-at", "2020-01-01"), "--end-at: 2020-01-01T00:00:00+01:00 has passed; "),
        (("--every", "1h", "--end-at", "+2s"), "--end-at: "),
        ((*CRON, "--args", '"x"'), '--args: expected a JSON list, got \'"x"\'. For one argument write ["x"]'),
        ((*CRON, "--kwargs", "[1]"), "--kwargs: expected a JSON object, got '[1]'. Write an object, such as {"),
        ((*CRON, "--grace", "0.1s"), "--grace: expected a duration such as 90s, from 1 s to 1000 years, got "),
        ((*CRON, "--label", "team=\n"), "--label team: holds U+000A"),
        (("--at", "2020-01-01"), "--at: Wed 1 Jan 2020 00:00 has passed, "),
        ((*CRON, "--json-file", "a.json"), "--json-file holds the whole definition; "),
    ],
)
def test_what_cannot_be_read_is_one_line_and_writes_nothing(
    run: Callable[..., Result], store: ScheduleStore, arguments: tuple[str, ...], error: str
) -> None:
    result = run("create", "a", "shop.report", *arguments)

    assert (result.exit_code, result.stdout, store.count()) == (2, "", 0)
    assert result.stderr.startswith(f"Error: {error}")
    assert len(result.stderr.splitlines()) == 1


def test_a_time_that_the_clocks_skip_is_named_with_what_counts_instead(
    run: Callable[..., Result], store: ScheduleStore
) -> None:
    at, zone = "2027-03-28T02:30", ("--timezone", "Europe/Vienna")
    once = run("create", "a", "shop.report", "--at", at, *zone)
    bounds = run("create", "b", "shop.report", "--every", "1h", "--start-at", at, "--end-at", "2027-04-01T02:30", *zone)
    moved = run("update", "b", "--end-at", "2028-03-26T02:15")
    paused = run("disable", "b", "--until", at)

    assert "once, on 28 March 2027 at 03:30, Europe/Vienna (for 02:30, which the clock skips)" in once.stdout
    assert "moved from 02:30, which does not exist on 2027-03-28" in once.stdout
    note = "02:30 does not exist on 2027-03-28 in Europe/Vienna, so 03:30 counts\n"
    assert bounds.stderr.partition("Warning")[0] == f"Note: start_at: {note}"
    assert moved.stderr == "Note: end_at: 02:15 does not exist on 2028-03-26 in Europe/Vienna, so 03:15 counts\n"
    assert paused.stderr == f"Note: --until {note}"
    assert str(store.get("b").disabled_until) == "2027-03-28 01:30:00+00:00"


def test_an_entry_is_created_once(run: Callable[..., Result], store: ScheduleStore) -> None:
    run("create", "a", "shop.report", "--every", "10s")

    again = run("create", "a", "shop.report", "--every", "20s")
    kept = run("create", "a", "shop.report", "--every", "20s", "--if-missing")
    kept_as_json = run("create", "a", "shop.report", "--every", "20s", "--if-missing", "--json")
    new_as_json = run("create", "b", "shop.report", "--every", "20s", "--if-missing", "--json")

    assert (again.exit_code, again.stderr) == (
        2,
        "Error: an entry named 'a' exists in the schedule; update changes it, create --if-missing keeps it unchanged\n",
    )
    assert (kept.exit_code, kept.stdout) == (0, "a: exists, left as it is\n")
    assert json.loads(kept_as_json.stdout) == {"name": "a", "dry_run": False, "created": False}
    assert json.loads(new_as_json.stdout)["created"]
    assert store.get("a").schedule.run_every.total_seconds() == 10


def test_a_dry_run_creates_nothing(run: Callable[..., Result], store: ScheduleStore) -> None:
    result = run("create", "a", "shop.report", *CRON, "--dry-run")
    data = json.loads(run("create", "a", "shop.report", *CRON, "--dry-run", "--json").stdout)

    assert result.stdout.splitlines()[0] == "a: would be created"
    assert (data["name"], data["dry_run"], data["created"], len(data["next"])) == ("a", True, False, 3)
    assert store.count() == 0
    run("create", "a", "shop.report", *CRON)
    assert run("create", "a", "shop.report", *CRON, "--dry-run").exit_code == 2
    with pytest.raises(EntryExists):
        store.create("a", "shop.report", 60, dry_run=True)


def test_a_run_that_the_clocks_move_is_announced(run: Callable[..., Result]) -> None:
    daily = run("create", "a", "shop.report", "--cron", "30 2 * * *").stdout.splitlines()

    [line] = [line for line in daily if line.startswith("  clocks ")]
    assert "moved from 02:30, which does not exist on" in line or "02:30 comes twice on" in line
    assert "  clocks " not in run("create", "b", "shop.report", "--cron", "0 12 * * *").stdout
    assert "  clocks " not in run("create", "c", "shop.report", "--every", "1d").stdout


def test_a_task_that_the_app_does_not_have_is_a_warning(run: Callable[..., Result], store: ScheduleStore) -> None:
    result = run("create", "a", "shop.rreport", "--every", "10s")

    assert (result.exit_code, store.count()) == (0, 1)
    assert result.stderr == (
        "Warning: this app has no task 'shop.rreport', and workers refuse to run a task that they do not have; "
        "did you mean 'shop.report'?\n"
    )


@pytest.mark.parametrize("task", ["shop.nope", "shop.tasks.of_orders.nope", "other.report2"])
def test_a_task_that_only_its_module_is_like_is_not_proposed(
    app: Celery, run: Callable[..., Result], task: str
) -> None:
    app.task(lambda: None, name="shop.tasks.of_orders.fetch")

    assert "did you mean" not in run("create", "a", task, "--every", "10s").stderr


def test_an_interval_below_a_tenth_of_a_second_is_a_warning(run: Callable[..., Result]) -> None:
    result = run("create", "a", "shop.report", "--every", "1ms")

    assert (result.exit_code, result.stderr) == (
        0,
        "Warning: an interval below 0.1 seconds: fire times that pass while a run is sent are coalesced into one run\n",
    )


def test_arguments_that_the_task_does_not_take_are_a_warning(
    run: Callable[..., Result], vienna: Celery, store: ScheduleStore
) -> None:
    @vienna.task(name="shop.send", bind=True, shared=False)
    def send(self: Any, to: str, *, pages: int = 1) -> None: ...

    warning = "Warning: each run will fail, the task does not take these arguments: "
    kwargs = ["--kwargs", '{"page": 2}']

    created = run("create", "a", "shop.send", "--every", "10s")
    copied = run("copy", "a", "b", *kwargs, "--args", '["anna"]')
    moved = run("update", "b", "--every", "20s")
    healed = run("update", "b", "--kwargs", '{"pages": 2}')

    assert created.stderr == f"{warning}send() missing 1 required positional argument: 'to'\n"
    assert copied.stderr == f"{warning}send() got an unexpected keyword argument 'page'\n"
    assert moved.stderr == healed.stderr == ""  # nothing about what was left as it is
    assert [store.count(), created.exit_code, copied.exit_code] == [2, 0, 0]


class AddsAnna(Task):  # type: ignore[misc]
    """A task that brings an argument of its own."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return super().apply_async([*args, "anna"], kwargs, **options)


@pytest.mark.parametrize("terms", [{"typing": False}, {"base": AddsAnna}], ids=["typing", "apply_async"])
def test_arguments_that_celery_does_not_check_are_not_checked(
    run: Callable[..., Result], vienna: Celery, terms: dict[str, Any]
) -> None:
    @vienna.task(name="shop.send", shared=False, **terms)
    def send(to: str) -> None: ...

    assert run("create", "a", "shop.send", "--every", "10s").stderr == ""


def test_once_without_its_class_of_tasks_is_a_warning(make_app: Callable[..., Celery]) -> None:
    app = make_app("shop", redisbeater_track_runs=True)

    @app.task(name="shop.report", shared=False)
    def report() -> None: ...

    @app.task(name="shop.bill", shared=False, base=OnceTask)
    def bill() -> None: ...

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))

    warned = run("create", "a", "shop.report", "--every", "1h", "--once", "--dry-run")
    created = run("create", "b", "shop.bill", "--every", "1h", "--once")
    changed = run("update", "b", "--task", "shop.report")
    [finding] = [each for each in ScheduleStore(app).lint() if each.rule == "no-once-task"]

    problem = "once has no effect: the class of shop.report is not OnceTask; declare it with base=OnceTask"
    assert (warned.exit_code, warned.stderr) == (0, f"Warning: {problem}\n")
    assert (created.stderr, changed.stderr) == ("", f"Warning: {problem}\n")
    assert (finding.name, finding.text) == ("b", problem)
    assert problem in [each.text for each in ScheduleStore(app).why("b").evidence]


@pytest.mark.parametrize("verb", [("create", "b", "shop.report"), ("update", "a"), ("copy", "a", "b")])
def test_a_time_that_has_passed_is_meant_only_with_a_yes(
    run: Callable[..., Result], store: ScheduleStore, verb: tuple[str, ...]
) -> None:
    store.create("a", "shop.report", 3600)
    given = (*verb, "--at", "2020-01-01T09:00")

    refused = run(*given)

    assert (refused.exit_code, refused.stderr.startswith("Error: --at: Wed 1 Jan 2020 09:00 has passed, ")) == (2, True)
    assert [list(store.names()), store.get("a").as_dict()["schedule"]["__type__"]] == [["a"], "interval"]
    assert run(*given, "--dry-run").exit_code == 0
    assert (run(*given, "--yes").exit_code, run("create", "now", "shop.report", "--at", "now").exit_code) == (0, 0)


def test_the_preview_of_a_jittered_entry_says_when_its_runs_are_sent(run: Callable[..., Result]) -> None:
    lines = run("create", "a", "shop.report", "--every", "1h", "--jitter", "30s").stdout.splitlines()

    assert all(re.search(r"   in \d+ \w+   sent [\d.]+ s later$", line) for line in lines[2:])


# update


def test_update_changes_only_what_is_named(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create(
        "a", "shop.report", cron("0 9 1 1 *"), args=[1], kwargs={"pages": 3}, options={"queue": "slow", "expires": 60}
    )

    result = run("update", "a", "--cron", "0 10 1 1 *", "--kwargs", '{"pages": 5}', "--queue", "fast", "--note", "more")

    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "a: changed",
        "  kwargs.pages   3 -> 5",
        "  options.queue  slow -> fast",
        "  schedule       at 09:00 on day 1 of the month in January -> at 10:00 on day 1 of the month in January",
    ]
    assert lines[4].split()[:2] == ["next", "run"]
    entry = store.get("a")
    assert (entry.args, entry.options) == ([1], {"queue": "fast", "expires": 60})
    assert store.log("a")[0].details["note"] == "more"


def test_update_shows_the_next_run_before_and_after(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("a", "shop.report", cron("0 9 1 1 *"))

    moved = json.loads(run("update", "a", "--cron", "0 10 1 1 *", "--json").stdout)
    kept = run("update", "a", "--description", "x").stdout.splitlines()

    assert [moment[10:] for moment in moved["next"]] == ["T08:00:00+00:00", "T09:00:00+00:00"]
    assert kept[-1].endswith("10:00:00 CET, as before")
    assert run("update", "a", "--description", "x").stdout == "a: as it was\n"


def test_a_dry_run_changes_nothing(app: Celery, run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("a", "shop.report", 60)

    result = run("update", "a", "--every", "90", "--disabled", "--dry-run")

    assert result.stdout.splitlines()[0] == "a: would be changed"
    assert result.stdout.splitlines()[-1].endswith(" -> none")
    assert store.get("a").schedule.run_every.total_seconds() == 60
    assert store.update("a", dry_run=True, description="y").description == "y"
    assert store.get("a").description == ""
    with pytest.raises(EntryNotFound):
        store.update("b", dry_run=True, description="y")


def test_a_field_is_unset(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create(
        "a", "shop.report", 60, end_at=new_year(2040), misfire_grace_time=9, options={"queue": "q", "expires": 1}
    )

    assert run("update", "a", "--unset", "end-at", "--unset", "grace", "--unset", "queue").exit_code == 0

    assert set(store.get("a").as_dict()) == {"name", "task", "args", "kwargs", "options", "schedule", "enabled"}
    assert store.get("a").options == {"expires": 1}


def test_a_grace_without_an_end_is_a_change(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("a", "shop.report", 60)

    would = json.loads(run("update", "a", "--grace", "none", "--dry-run", "--json").stdout)
    done, again, back = (
        run("update", "a", *words).stdout.splitlines()
        for words in (("--grace", "none"), ("--grace", "none"), ("--unset", "grace"))
    )

    assert would["changed"] == {"misfire_grace_time": [None, "none"]}
    assert [line.split() for line in done[:2]] == [["a:", "changed"], ["misfire_grace_time", "-", "->", "none"]]
    assert again == ["a: as it was"]
    assert back[1].split() == ["misfire_grace_time", "none", "->", "-"]
    assert [(line.what, line.count) for line in store.log("a")] == [("changed", 2), ("created", 1)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "nothing to change; "),
        (("--unset", "quue"), "--unset quue: is not a field that can be unset; did you mean 'queue'?"),
        (("--unset", "schedule"), "--unset schedule: cannot be unset; "),
        (("--unset", "queue", "--queue", "q"), "--unset queue: --queue sets it; pass only one of the two"),
        (("--priority", "high"), "--priority: expected a whole number, got 'high'"),
        (("--jitter", "-1"), "--jitter: '-1': expected a duration such as"),
    ],
)
def test_an_update_that_cannot_be_read_writes_nothing(
    run: Callable[..., Result], store: ScheduleStore, arguments: tuple[str, ...], error: str
) -> None:
    store.create("a", "shop.report", 60)
    before = store.get("a").as_dict()

    result = run("update", "a", *arguments)

    assert (result.exit_code, result.stdout, store.get("a").as_dict()) == (2, "", before)
    assert result.stderr.startswith(f"Error: {error}")


def test_all_that_is_wrong_is_printed_at_once(run: Callable[..., Result], store: ScheduleStore) -> None:
    result = run("create", "report", "proj.work", "--every", "often", "--args", "orders", "--max-runs", "0")

    assert (result.exit_code, store.count()) == (2, 0)
    assert [line.partition(":")[::2] for line in result.stderr.splitlines()] == [
        ("Error", ' --args: not valid JSON. Write a list, such as ["orders"]'),
        ("Error", " --max-runs: expected a whole number of runs, at least 1, got 0"),
        ("Error", " --every: 'often': expected a duration such as 90, 90s, 1h30m or 2d"),
    ]


def test_a_part_of_a_zone_is_enough(run: Callable[..., Result], store: ScheduleStore) -> None:
    run("create", "report", "proj.work", "--cron", "0 9 * * *", "--timezone", "vienna")

    assert store.get("report").timezone == "Europe/Vienna"


def test_labels_and_the_author_are_kept(run: Callable[..., Result], store: ScheduleStore) -> None:
    run("create", "report", "proj.work", "--every", "60", "--label", "team=a", "--label", "tier=gold", "--by", "anna")
    created = store.get("report").labels

    run("update", "report", "--label", "team=b", "--by", "bert", "--note", "they have moved")
    changed = store.get("report").labels
    assert run("update", "report", "--label", "tier=", "--label", "n=1", "--if-version", "00000000").exit_code == 2
    run("update", "report", "--label", "tier=", "--label", "n=1")
    removed = store.get("report").labels
    run("update", "report", "--unset", "label")

    assert (created, changed) == ({"team": "a", "tier": "gold"}, {"team": "b", "tier": "gold"})
    assert removed == {"team": "b", "n": "1"}
    assert run("create", "other", "proj.work", "--every", "60", "--label", "tier=").exit_code == 2
    assert store.get("report").labels == {}
    assert [line.details.get("by") for line in store.log("report")][1:] == ["bert", "anna"]
    assert store.log("report")[1].details["note"] == "they have moved"


def test_who_upserts_and_who_reports_an_execution_is_kept(app: Celery, store: ScheduleStore) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 60, app=app)

    store.save(entry, by="anna", note="new")
    store.record_execution("report")
    asyncio.run(AsyncScheduleStore(app).record_execution("report", by="bert", note="ran by hand"))
    entry.args = [1]
    asyncio.run(AsyncScheduleStore(app).save(entry, by="carl", note="one page"))

    said = [(line.what, line.details.get("by"), line.details.get("note")) for line in store.log("report")]
    assert said == [("changed", "carl", "one page"), ("changed", "bert", "ran by hand"), ("created", "anna", "new")]


def test_an_update_of_another_version_changes_nothing(run: Callable[..., Result], store: ScheduleStore) -> None:
    seen = store.create("report", "proj.work", 60).version
    store.update("report", args=[1])
    found = store.get("report").version

    late = run("update", "report", "--args", "[2]", "--if-version", seen)
    again = run("update", "report", "--args", "[2]", "--if-version", found)

    assert late.exit_code == 2
    assert late.stderr == f"Error: 'report' has version {found}, not {seen}: read it again, then change that\n"
    assert (again.exit_code, store.get("report").args) == (0, [2])


def test_local_times_are_those_of_the_entry(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("a", "shop.report", 60, timezone="Asia/Tokyo")

    run("update", "a", "--end-at", "2040-01-01T09:00")
    run("update", "a", "--start-at", "2039-01-01T09:00", "--timezone", "America/New_York")

    entry = store.get("a")
    assert str(entry.end_at) == "2040-01-01 09:00:00+09:00"
    assert str(entry.start_at) == "2039-01-01 09:00:00-05:00"


def test_a_misspelt_name_gets_the_nearest_one(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60)

    result = run("update", "rport", "--every", "5")

    assert (result.exit_code, result.stderr) == (
        2,
        "Error: no entry named 'rport' in the schedule; did you mean 'report'?\n",
    )


# Definitions in files


def test_a_definition_goes_round(run: Callable[..., Result], store: ScheduleStore, tmp_path: Path) -> None:
    store.create(
        "a", "shop.report", rrule("DTSTART:20300101T090000Z\nRRULE:FREQ=DAILY"), args=["ü", None], kwargs={"x": [1.5]},
        options={"queue": "q", "expires": new_year(2041)}, timezone="Asia/Tokyo", end_at=new_year(2040), jitter=3,
        max_runs=4, on_finish="disable", description="d", enabled=False, misfire_grace_time=None, coalesce="all",
    )  # fmt: skip
    before, file = store.get("a").as_dict(), tmp_path / "a.json"
    file.write_text(run("show", "a", "--definition").stdout)
    store.delete("a")

    created = run("create", "--json-file", str(file))
    renamed = run("create", "b", "--json-file", str(file))

    assert (created.exit_code, renamed.exit_code) == (0, 0)
    assert store.get("a").as_dict() == before == json.loads(file.read_text())
    assert store.get("b").as_dict() == {**before, "name": "b"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "$: not JSON: "),
        ("[]", "$: expected an object, got list"),
        ('{"name": "a"}', "$.task: is missing"),
        ('{"task": "shop.report"}', "$.name: is missing"),
        ('{"name": 1, "task": "shop.report"}', "$.name: expected a text, got 1"),
        (
            '{"name": "a", "task": "t", "schedulee": 5}',
            "$.schedulee: is not a field of an entry; did you mean 'schedule'?",
        ),
        ('{"name": "a", "task": "t", "schedule": {"__type__": "interval", "every": 0}}', "$.schedule.every: "),
        ("[" * 200 + "]" * 200, "$: nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_writes_nothing(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path, text: str, error: str
) -> None:
    (tmp_path / "a.json").write_text(text)

    result = run("create", "--json-file", str(tmp_path / "a.json"))

    assert (result.exit_code, result.stdout, store.count()) == (2, "", 0)
    assert result.stderr.startswith(f"Error: {tmp_path / 'a.json'}: {error}")


def test_the_name_of_a_file_that_cannot_be_read_is_shown_with_escapes(run: Callable[..., Result]) -> None:
    result = run("create", "--json-file", "x\nroot: deleted\u202e")

    assert result.stderr == "Error: --json-file x\\x0aroot: deleted\\u202e: cannot be read: No such file or directory\n"
