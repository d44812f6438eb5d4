"""Files of entries: exported, planned and applied, from the command line and from Python."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from due import UTC
from jsonschema import Draft202012Validator
from redis.connection import AbstractConnection

from redisbeater import Export, InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked, cron, rrule
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.results import Applied
from redisbeater.schedules.zones import encode_datetime


@pytest.fixture
def shop(make_app: Callable[..., Celery]) -> Celery:
    return make_app("shop", timezone="UTC")


@pytest.fixture
def store(shop: Celery) -> ScheduleStore:
    return ScheduleStore(shop)


@pytest.fixture
def run(shop: Celery) -> Callable[..., Result]:
    def run(*arguments: str, input: str | None = None) -> Result:
        result = invoke(*arguments, input=input)
        if arguments[0] == "apply" and result.exit_code == 0:
            for path in filter(Path.is_file, map(Path, arguments)):
                if (text := path.read_text()).startswith("{"):
                    assert [error.message for error in schema.iter_errors(json.loads(text))] == []
        return result

    def invoke(*arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=shop), input=input)

    schema = Draft202012Validator(json.loads(invoke("files", "schema").stdout))
    return run


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write a file of entries of the owner shop, and return its name."""
    monkeypatch.chdir(tmp_path)

    def write(entries: Any, name: str = "schedule.json", **others: Any) -> str:
        text = {"redisbeater": 1, "owner": "shop", "entries": entries, **others}
        Path(name).write_text(json.dumps(text))
        return name

    return write


REPORT = {"task": "shop.report", "cron": "0 9 * * 1-5", "kwargs": {"pages": 3}}


def words(result: Result) -> list[str]:
    return [re.sub(r" {3,}", "|", line) for line in result.stdout.splitlines()]


def test_a_plan_is_drawn_and_applied(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str]
) -> None:
    name = file(
        {
            "report": REPORT,
            "invoices": {"task": "shop.bill", "cron": "0 0 1 * *"},
            "old export": {"task": "shop.old", "every": "1h"},
            "same": {"task": "shop.same", "every": 60},
        }
    )
    created = run("apply", name).stdout.splitlines()
    assert created[0] == "schedule.json, owner shop: 4 to create, 0 as they are"
    assert created[-1] == "4 created, 0 changed, 0 deleted"
    store.disable("invoices", by="anna@ops1")
    file(
        {
            "report": {**REPORT, "cron": "30 8 * * 1-5", "kwargs": {"pages": 5}},
            "invoices": {"task": "shop.bill", "cron": "0 0 1 * *"},
            "same": {"task": "shop.same", "every": 60},
            "cleanup": {"task": "shop.clean", "cron": "0 4 * * *"},
        }
    )

    planned = run("apply", name, "--dry-run")

    assert planned.exit_code == 0
    lines = words(planned)
    assert lines[0] == "schedule.json, owner shop: 1 to create, 1 to change, 1 to delete, 2 as they are"
    today = f"{datetime.now(UTC).astimezone(UTC):%-d %b}"
    day = r"\w{3} \d\d:\d\d"
    expected = [
        rf"  ~ report\|schedule  0 9 \* \* 1-5 -> 30 8 \* \* 1-5\|next run {day} -> {day}",
        r"\|kwargs.pages  3 -> 5",
        rf"  ! invoices\|disabled by anna@ops1 on {today}: stays so",
        rf"  \+ cleanup\|at 04:00 every day\|shop.clean\(\)\|first run {day}",
        r"  - old export\|every hour, 0 runs",
        r"over the next 7 days: \d+ runs more, \d+ fewer; busiest minute \d+( as before| -> \d+)",
    ]
    assert len(lines) == len(expected) + 1
    for line, pattern in zip(lines[1:], expected):
        assert re.fullmatch(pattern, line), line
    assert store.count() == 4
    assert run("apply", name, "--check").exit_code == 1

    applied = run("apply", name, "--note", "release 12", "--by", "ci")

    assert applied.exit_code == 0
    assert applied.stdout.splitlines()[-1] == "1 created, 1 changed, 1 deleted"
    assert set(store.names()) == {"report", "invoices", "same", "cleanup"}
    assert store.get("report").kwargs == {"pages": 5}
    assert not store.get("invoices").enabled
    again = run("apply", name, "--check")
    assert (again.exit_code, words(again)[0]) == (0, "schedule.json, owner shop: 4 as they are")
    line = store.log()[0]
    assert (line.what, dict(line.details)) == (
        "applied",
        {"owner": "shop", "by": "ci", "note": "release 12", "created": 1, "changed": 1, "deleted": 1},
    )
    assert store.log("report")[0].details["note"] == "release 12"


def test_a_grace_without_an_end_is_planned(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str]
) -> None:
    run("apply", file({"report": REPORT}))
    name = file({"report": {**REPORT, "misfire_grace_time": None}})

    checked, data = run("apply", name, "--check"), run("apply", name, "--dry-run", "--json")
    applied, again = run("apply", name).stdout.splitlines(), run("apply", name).stdout.splitlines()

    assert checked.exit_code == 1
    assert re.search(r'~ report +misfire_grace_time  the setting -> "none"   next run', checked.stdout)
    [entry] = json.loads(data.stdout)[0]["entries"]
    assert entry["fields"] == [{"field": "misfire_grace_time", "before": None, "after": "none"}]
    assert (applied[-1], again[-1]) == ("0 created, 1 changed, 0 deleted", "0 created, 0 changed, 0 deleted")
    assert store.get("report").misfire_grace_time is None


def test_an_override_stays_until_the_files_own_field_changes(store: ScheduleStore) -> None:
    def apply(**fields: Any) -> None:
        text = json.dumps({"redisbeater": 1, "owner": "shop", "entries": {"a": {"task": "t", "every": 60, **fields}}})
        store.files.apply(store.files.plan(Export.from_text(text)))

    apply(args=[1], description="old")
    store.update("a", args=[7], description="operator")

    apply(args=[1], description="new")
    entry = store.get("a")
    assert (entry.args, entry.description) == ([7], "new")

    apply(args=[2], description="new")
    assert store.get("a").args == [2]


def test_the_entry_of_another_is_refused_unless_it_is_adopted(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str]
) -> None:
    store.create("report", "shop.other", 60)
    name = file({"report": REPORT})

    refused = run("apply", name)
    taken = run("apply", name, "--adopt")
    other = run("apply", file({"report": REPORT}, "b.json", owner="depot"))

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "Error: schedule.json: 'report': $.name: a dynamic entry has that name; pass --adopt to take it over\n"
    )
    assert taken.exit_code == 0
    assert store.get("report").task == "shop.report"
    assert "an entry of owner 'shop' has that name" in other.stderr
    assert run("show", "report").stdout.splitlines()[0].rpartition(",")[0].endswith("enabled, file, shop")


def test_an_export_leaves_out_static_entries_unless_it_is_a_backup(
    shop: Celery, run: Callable[..., Result], store: ScheduleStore, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    shop.conf.beat_schedule = {f"static {number}": {"task": "code", "schedule": 60.0} for number in range(7)}
    make_scheduler(shop).tick()
    store.create("dynamic", "shop.report", 60)

    entries, backup = run("export"), run("export", "--state")

    assert (entries.exit_code, list(json.loads(entries.stdout)["entries"])) == (0, ["dynamic"])
    assert entries.stderr == (
        "without 7 static entries of shop: static 0, static 1, static 2, static 3, static 4, ...; "
        "the code declares them, and --state exports them, too\n"
    )
    assert store.files.export().statics == {f"static {number}": "shop" for number in range(7)}
    assert (len(json.loads(backup.stdout)["entries"]), backup.stderr) == (8, "")
    again = run("apply", "-", "--state", "--dry-run", input=backup.stdout)
    assert words(again)[0] == "-: 8 as they are"


@pytest.mark.parametrize("more", [[], ["--adopt"]], ids=["plain", "adopt"])
def test_a_file_never_takes_over_static_entries(
    shop: Celery,
    run: Callable[..., Result],
    store: ScheduleStore,
    file: Callable[..., str],
    make_scheduler: Callable[..., RedisScheduler],
    more: list[str],
) -> None:
    shop.conf.beat_schedule = {name: {"task": "code", "schedule": 60.0} for name in ("a", "b")}
    make_scheduler(shop).tick()
    before = Context.of(shop).redis.contents.origins(["a", "b"])
    name = file({each: {"task": "t", "every": 60} for each in ("a", "b", "new")})

    refused = run("apply", name, *more)

    fix = "leave it out of the file, or remove its declaration there, so that beat deletes the entry, and apply again"
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines() == [
        f"Error: schedule.json: '{each}': $.name: is a static entry of application 'shop'; {fix}" for each in ("a", "b")
    ]
    assert (Context.of(shop).redis.contents.origins(["a", "b"]), store.count()) == (before, 2)


def test_a_plan_names_the_entries_that_change_their_owner(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str]
) -> None:
    run("apply", file({"of depot": {"task": "t", "every": 60}}, "b.json", owner="depot"))
    entries = {"of depot": {"task": "t", "every": 60}}
    for name in ("a", "b"):
        store.create(name, "t", 60)
        entries[name] = {"task": "t", "every": 60 if name == "a" else 90}
    name = file(entries)

    planned, as_json = run("apply", name, "--adopt", "--dry-run"), run("apply", name, "--adopt", "--check", "--json")
    applied = run("apply", name, "--adopt")

    lines = [line.rpartition("|next run")[0] or line for line in words(planned)]
    assert lines[:-1] == [
        "schedule.json, owner shop: 3 to change, 0 as they are; 3 change owner (2 dynamic, 1 depot)",
        "  ~ of depot|owner  depot -> shop",
        "  ~ a|owner  none -> shop",
        "  ~ b|owner  none -> shop",
        "|schedule  every 1m -> every 90",
    ]
    fields = [each["fields"][0] for each in json.loads(as_json.stdout)[0]["entries"]]
    assert (as_json.exit_code, fields[:2]) == (
        1,
        [{"field": "owner", "before": "depot", "after": "shop"}, {"field": "owner", "before": None, "after": "shop"}],
    )
    assert applied.stdout.splitlines()[-1] == "0 created, 3 changed, 0 deleted"
    assert words(run("apply", name, "--check"))[0] == "schedule.json, owner shop: 3 as they are"


def test_an_entry_of_a_file_is_no_static_one(
    shop: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    text = json.dumps({"redisbeater": 1, "owner": "shop", "entries": {"a": {"task": "t", "every": 60}}})
    store.files.apply(store.files.plan(Export.from_text(text)))
    shop.conf.beat_schedule = {"a": {"task": "code", "schedule": 60.0}}

    make_scheduler(shop).tick()

    assert not client.sismember(f"{prefix}:statics", "a")
    assert store.get("a").task == "t"
    assert "$.name: an entry of the file of owner 'shop' has that name" in str(
        Context.of(shop).redis.broken.declarations()["a"]
    )
    store.delete("a")
    assert str(client.hget(f"{prefix}:deleted:a", "origin")).startswith("file:shop ")


def test_only_entries_of_the_owner_are_deleted(store: ScheduleStore) -> None:
    def apply(owner: str, *names: str, **terms: Any) -> None:
        entries = {name: {"task": "t", "every": 60} for name in names}
        text = json.dumps({"redisbeater": 1, "owner": owner, "entries": entries})
        store.files.apply(store.files.plan(Export.from_text(text), **terms))

    apply("shop", "a", "b")
    apply("depot", "c")
    store.create("d", "t", 60)

    apply("shop", "a", delete=False)
    assert set(store.names()) == {"a", "b", "c", "d"}
    apply("shop", "a")
    assert set(store.names()) == {"a", "c", "d"}


def test_what_was_changed_since_the_plan_is_left_out(
    run: Callable[..., Result], store: ScheduleStore, monkeypatch: pytest.MonkeyPatch, file: Callable[..., str]
) -> None:
    name = file({"a": {"task": "t", "every": 60}, "b": {"task": "t", "every": 60}, "c": {"task": "t", "every": 60}})
    run("apply", name)
    export = Export.from_text(
        json.dumps(
            {
                "redisbeater": 1,
                "owner": "shop",
                "entries": {name: {"task": "new", "every": 60} for name in ("a", "b")},
            }
        )
    )
    changes = store.files.plan(export)
    store.update("a", args=[1])
    store.delete("c")
    store.create("c", "mine", 60)

    done = store.files.apply(changes)

    assert (done.changed, done.deleted) == (["b"], [])
    assert sorted(done.conflicts) == ["a", "c"]
    assert "changed since the plan was made" in done.conflicts["a"]
    assert store.get("a").args == [1]
    assert store.get("c").task == "mine"


def test_what_was_done_is_known_after_an_interrupt_and_applying_again_does_the_rest(store: ScheduleStore) -> None:
    entries = {f"e-{number}": {"task": "t", "every": 60} for number in range(300)}
    export = Export.from_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": entries}))
    done = Applied()

    def progress(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.files.apply(store.files.plan(export), done, progress)

    assert len(done.created) == store.count() == 250
    assert store.log()[0].details["created"] == 250
    rest = store.files.plan(export)
    assert len(rest.of_kind("create")) == 50
    store.files.apply(rest)
    assert store.count() == 300


def test_ctrl_c_says_what_was_done(
    run: Callable[..., Result],
    file: Callable[..., str],
    store: ScheduleStore,
    client: redis.Redis,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = file({f"e-{number}": {"task": "t", "every": 60} for number in range(2000)})
    send, asks = AbstractConnection.send_packed_command, [False]

    def press_after_the_first_page(connection: AbstractConnection, *arguments: Any, **options: Any) -> Any:
        if not asks[0]:  # the question whether there is a page is sent, too
            asks[0] = True
            asks[0] = client.zcard(f"{prefix}:schedule") > 0
            if asks[0]:
                os.kill(os.getpid(), signal.SIGINT)
        return send(connection, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(AbstractConnection, "send_packed_command", press_after_the_first_page)
        result = run("apply", name)

    assert result.exit_code == 130
    assert result.stderr == (
        f"interrupted after: {store.count():,} created, 0 changed, 0 deleted; apply again does the rest\n"
    )
    assert 0 < store.count() < 2000


def test_what_was_deleted_can_be_restored(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str], client: redis.Redis, prefix: str
) -> None:
    run("apply", file({"report": REPORT}), "--yes")
    store.update("report", description="by hand")
    run("apply", file({}), "--yes")

    restored = run("restore", "report")

    assert (restored.exit_code, restored.stdout) == (0, "report: restored\n")
    assert (store.get("report").description, list(store.deleted())) == ("by hand", [])
    assert not client.exists(f"{prefix}:statics")  # it belongs to a file, not to code
    run("apply", file({}), "--yes")
    assert list(store.names()) == []


def test_several_deletions_are_confirmed(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str]
) -> None:
    run("apply", file({name: {"task": "t", "every": 60} for name in "abc"}))
    name = file({"a": {"task": "t", "every": 60}})

    refused = run("apply", name)

    assert refused.exit_code == 2
    assert refused.stderr == "Error: this would delete 2 entries; pass --yes to do it\n"
    assert store.count() == 3
    assert run("apply", name, "--yes").exit_code == 0
    assert list(store.names()) == ["a"]


def test_several_files_of_one_owner_are_one(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str]
) -> None:
    entry = {"task": "t", "every": 60}
    first, second = file({"a": entry}, "a.json"), file({"b": entry}, "b.json")

    assert (
        run("apply", first, second).stdout.splitlines()[0] == "a.json, b.json, owner shop: 2 to create, 0 as they are"
    )
    assert set(store.names()) == {"a", "b"}
    twice = run("apply", first, file({"a": entry}, "c.json"))
    assert (twice.exit_code, twice.stderr) == (2, "Error: c.json: 'a': is in another file as well: a.json: 'a'\n")


# Bad input


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"task": "t", "cron": "61 * * * *"}, "$.cron.minute: "),
        ({"task": "t"}, "$.schedule: is missing; expected one of every, cron, rrule, at, solar"),
        ({"task": "t", "every": 60, "cron": "* * * * *"}, "$.schedule: expected only one of every, cron"),
        ({"task": "t", "evrey": 60}, "$.evrey: is not a field of an entry; did you mean 'every'?"),
        ({"task": "t", "every": "soon"}, "$.every: 'soon': expected a duration such as 90, 90s, 1h30m or 2d"),
        ({"task": "t", "every": 60, "timezone": "Europe/Wien"}, "$.timezone: "),
        ({"every": 60}, "$.task: expected a task or its name, got None"),
        ({"task": "t", "every": 60, "options": {"quue": "a"}}, "$.options.quue: "),
        ({"task": "t", "at": "tomorrow"}, "$.at: 'tomorrow': expected a time such as 2026-11-23T09:00"),
        (
            {"task": "t", "solar": "sunset"},
            "$.solar: expected an event, latitude and longitude such as sunset,48.2,16.4, got 'sunset'",
        ),
        ({"task": "t", "rrule": "FREQ=DAILY"}, "$.rrule: has no DTSTART"),
        ({"task": "t", "every": 60, "jitter": "5x"}, "$.jitter: '5x': expected a duration"),
        ({"task": "t", "every": 60, "name": "b"}, "$.name: is the key of the entry already"),
        ({"task": "t", "every": 60, "end_at": "2001-01-01T00:00:00Z"}, "$.end_at: "),
        (
            {"task": "t", "every": 60, "end_at": "2040-01-01T09:00:00+02:00[Europe/Vienna]"},
            "$.end_at: Europe/Vienna has another offset then: write 2040-01-01T09:00:00+01:00[Europe/Vienna]",
        ),
        ({"task": "t", "every": 60, "start_at": "2040-01-01T09:00[Europe/Wien]"}, "$.start_at: "),
        ("t", "expected the fields of an entry, got 't'"),
    ],
)
def test_an_error_names_the_file_the_entry_and_the_field(
    run: Callable[..., Result], file: Callable[..., str], store: ScheduleStore, entry: Any, problem: str
) -> None:
    result = run("apply", file({"good": {"task": "t", "every": 60}, "a": entry}))

    assert (result.exit_code, result.stdout, store.count()) == (2, "", 0)
    assert result.stderr.startswith(f"Error: schedule.json: 'a': {problem}")
    assert result.stderr.count("\n") == 1


def test_what_is_no_yaml_is_one_line_with_its_place(run: Callable[..., Result], store: ScheduleStore) -> None:
    for entries, problem in {
        "  on: {task: t, every: 60}": "the key on means True; write it as a text: 'on', line 4, column 3",
        "  ? [a, b]\n  : {task: t, every: 60}": "a key must be a text, not a list or an object, line 4, column 5",
        "  a: {task: t, every: !!bool maybe}": "'maybe' cannot be read as bool, line 4, column 23",
    }.items():
        result = run("apply", "-", input=f"redisbeater: 1\nowner: shop\nentries:\n{entries}\n")

        assert (result.exit_code, result.stdout, store.count()) == (2, "", 0)
        assert result.stderr == f"Error: standard input: not YAML: {problem}\n"


# Backups


def test_a_backup_restores_counts_next_runs_and_ids(
    shop: Celery, store: ScheduleStore, run: Callable[..., Result], client: redis.Redis, prefix: str, tmp_path: Path
) -> None:
    ran_at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    RedisScheduleEntry("a", "t", 3600, last_run_at=ran_at, total_run_count=12, app=shop).save()
    RedisScheduleEntry("b", "t", crontab(minute=0), enabled=False, app=shop).save()
    client.hset(f"{prefix}a", "skipped", json.dumps({"missed": [3, "1", "2", False]}))
    client.set(f"{prefix}:id", "8f3e0f6e-0000-4000-8000-000000000000")
    before = {name: dict(client.hgetall(f"{prefix}{name}")) for name in ("a", "b")}
    scores = client.zrange(f"{prefix}:schedule", 0, -1, withscores=True)
    backup = str(tmp_path / "backup.json")

    assert run("export", "--state", "-o", backup).stdout == f"{backup}: 2 entries\n"
    client.delete(*client.keys(f"{prefix}*"))
    restored = run("apply", backup, "--state")

    assert restored.exit_code == 0
    assert {name: dict(client.hgetall(f"{prefix}{name}")) for name in ("a", "b")} | before == before
    assert client.zrange(f"{prefix}:schedule", 0, -1, withscores=True) == scores
    assert client.get(f"{prefix}:id") == "8f3e0f6e-0000-4000-8000-000000000000"
    assert store.get("a").total_run_count == 12
    assert client.hget(f"{prefix}a", "skipped") == before["a"]["skipped"]


def test_a_backup_that_was_just_made_changes_nothing(
    shop: Celery, store: ScheduleStore, run: Callable[..., Result], make_scheduler: Callable[..., RedisScheduler],
    tmp_path: Path,
) -> None:  # fmt: skip
    store.create("new", "t", 3600)
    store.create("off", "t", crontab(minute=0), enabled=False)
    RedisScheduleEntry("counted", "t", 7, last_run_at=datetime.now(UTC), total_run_count=12, app=shop).save()
    RedisScheduleEntry("over", "t", clocked(datetime(2020, 1, 1, tzinfo=UTC)), app=shop).save()
    store.create("ran", "t", 3600, start_at=datetime.now(UTC) - timedelta(hours=2))
    store.trigger("ran")
    backup = str(tmp_path / "backup.json")
    assert run("export", "--state", "-o", backup).exit_code == 0

    plan = run("apply", backup, "--state", "--dry-run")

    assert plan.stdout.splitlines()[0] == f"{backup}: 5 as they are"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"owner": "", "state": {"n": [1]}}, "state: expected an object, got [1]"),
        (
            {"owner": ""},
            "state: is missing, and the file names no owner; pass --owner NAME without --state, "
            "or a file that export --state wrote",
        ),
    ],
)
def test_what_is_no_backup_is_refused(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str], more: dict[str, Any], problem: str
) -> None:
    refused = run("apply", file({"n": {"task": "t", "every": 60}}, **more), "--state")

    assert (refused.exit_code, refused.stderr) == (2, f"Error: schedule.json: 'n': {problem}\n")
    assert store.count() == 0


def test_an_export_that_cannot_be_written_leaves_the_file_as_it_was(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path
) -> None:
    store.create("a", "t", 60, description="x" * 2000)
    backup = tmp_path / "backup.json"
    backup.write_text("the last good one")
    backup.chmod(0o640)
    limits, on_limit = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # like a disk that is full
    try:
        full = run("export", "-o", str(backup))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, on_limit)

    assert (full.exit_code, full.stderr) == (2, f"Error: {backup}: cannot be written: File too large\n")
    assert (backup.read_text(), os.listdir(tmp_path)) == ("the last good one", ["backup.json"])
    assert run("export", "-o", str(backup)).exit_code == 0
    assert (list(json.loads(backup.read_text())["entries"]), os.listdir(tmp_path)) == (["a"], ["backup.json"])


@pytest.mark.parametrize(("before", "after"), [(None, 0o600), (0o644, 0o600), (0o600, 0o600), (0o400, 0o400)])
def test_only_its_owner_may_read_an_export(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path, before: int | None, after: int
) -> None:
    backup = tmp_path / "backup.json"
    if before is not None:
        backup.touch()
        backup.chmod(before)

    assert run("export", "-o", str(backup)).exit_code == 0

    assert backup.stat().st_mode & 0o777 == after


def test_an_export_is_its_owners_alone_from_the_first_byte(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path
) -> None:
    modes = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and is_watched:
            modes.append(os.stat(arguments[0]).st_mode & 0o777)
        if event == "open" and is_watched and str(arguments[0]).startswith(str(tmp_path)):
            flags = arguments[2]
            modes.append(bool(flags & os.O_EXCL and flags & os.O_NOFOLLOW))

    is_watched = True
    sys.addaudithook(watch)
    try:
        assert run("export", "-o", str(tmp_path / "backup.json")).exit_code == 0
    finally:
        is_watched = False

    assert modes == [True, 0o600]


def test_an_export_replaces_a_file_on_a_system_without_modes(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "backup.json").touch()
    monkeypatch.delattr(os, "fchmod")  # as on Windows
    monkeypatch.setattr(os, "supports_fd", os.supports_fd - {os.chmod})

    assert run("export", "-o", str(tmp_path / "backup.json")).exit_code == 0

    assert json.loads((tmp_path / "backup.json").read_text())["entries"] == {}


@pytest.mark.parametrize("target", ["a file", "nothing"])
def test_an_export_follows_no_link(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path, target: str
) -> None:
    victim, planted = tmp_path / "victim", tmp_path / "backup.json"
    if target == "a file":
        victim.write_text("of somebody else")
    planted.symlink_to(victim)

    refused = run("export", "-o", str(planted))

    fix = "name the file that it leads to, or - for the standard output"
    assert (refused.exit_code, refused.stderr) == (2, f"Error: {planted}: is a link, which is not followed; {fix}\n")
    assert (planted.is_symlink(), victim.exists() and victim.read_text()) == (
        True,
        target == "a file" and "of somebody else",
    )


def test_no_name_beside_an_export_can_be_planted(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("of somebody else")
    (tmp_path / f".backup.json.{os.getpid()}.tmp").symlink_to(victim)

    assert run("export", "-o", str(tmp_path / "backup.json")).exit_code == 0

    assert (victim.read_text(), (tmp_path / "backup.json").is_symlink()) == ("of somebody else", False)


def test_many_entries_that_would_be_due_at_once_are_confirmed(
    run: Callable[..., Result], store: ScheduleStore, file: Callable[..., str]
) -> None:
    entries = {f"e-{number}": {"task": "t", "every": 60} for number in range(101)}
    name = file(entries, owner="", state={name: {"score": "1700000000.000000"} for name in entries})

    refused = run("apply", name, "--state")

    assert (refused.exit_code, store.count()) == (2, 0)
    assert "this would make 101 entries due at once" in refused.stderr
    assert run("apply", name, "--state", "--yes").exit_code == 0
    assert store.status().due == 101


def test_every_kind_of_schedule_comes_back_from_a_file(
    shop: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    start = datetime(2030, 1, 1, 9, tzinfo=UTC)
    schedules: dict[str, Any] = {
        "interval": 90.5,
        "day": timedelta(days=1),
        "crontab": crontab(minute="*/5", hour="9-17", day_of_week="mon-fri"),
        "cron": cron("0 18 * * friL"),
        "rrule": rrule("DAILY", dtstart=start),
        "text": rrule("FREQ=MONTHLY;BYDAY=1MO", dtstart=start, timezone="Europe/Vienna"),
        "clocked": clocked(start),
        "naive": clocked(datetime(2030, 1, 1, 9)),
    }
    for name, schedule in schedules.items():
        store.create(name, "t", schedule, jitter=5, end_at=datetime(2040, 1, 1, tzinfo=UTC), options={"queue": "q"})
    before = {name: client.hget(f"{prefix}{name}", "definition") for name in schedules}

    export = store.files.export()
    text = export.to_text()
    for name in schedules:
        store.delete(name)
    store.files.apply(store.files.plan(Export.from_text(text), "shop"))

    assert {name: client.hget(f"{prefix}{name}", "definition") for name in schedules} == before
    assert export.entries["crontab"].fields["cron"] == "*/5 9-17 * * mon-fri"
    assert export.entries["day"].fields["every"] == "1d"
    assert export.entries["clocked"].fields["at"] == "2030-01-01T09:00:00+00:00"


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({"__type__": "crontab", "hour": 3, "minute": 30}, {"cron": "30 3 * * *"}),
        ({"__type__": "crontab", "hour": [3, 5], "minute": "0"}, {"cron": "0 3,5 * * *"}),
        ({"__type__": "crontab"}, {"cron": "* * * * *"}),
        ({"__type__": "interval", "every": 5}, {"every": "5"}),
        ({"__type__": "interval", "every": 90.5, "relative": None}, {"every": 90.5}),
    ],
    ids=str,
)
def test_what_another_program_stored_is_exported_in_words_which_change_nothing(
    store: ScheduleStore, client: redis.Redis, prefix: str, stored: dict[str, Any], words: dict[str, Any]
) -> None:
    client.hset(f"{prefix}raw", "definition", json.dumps({"task": "t", "schedule": stored}))
    client.zadd(f"{prefix}:schedule", {f"{prefix}raw": datetime.now(UTC).timestamp() + 1000})
    due_at = store.get("raw").due_at

    export = store.files.export()
    planned = store.files.plan(Export.from_text(export.to_text()), "shop", adopt=True)
    store.files.apply(planned)
    store.update("raw", args=[1])

    fields = {
        name: value for name, value in export.entries["raw"].fields.items() if name in ("cron", "every", "schedule")
    }
    assert {name: str(value) for name, value in fields.items()} == {name: str(value) for name, value in words.items()}
    [change] = planned.entries
    assert (change.kind, [field.path for field in change.fields]) == ("change", ["owner"])
    assert store.get("raw").due_at == due_at
    assert [line.details.get("fields") for line in store.log("raw") if line.what == "changed"][:1] == [["args"]]


VIENNA = ZoneInfo("Europe/Vienna")


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2040, 1, 1, 9, tzinfo=UTC), "2040-01-01T09:00:00+00:00"),
        (datetime(2040, 1, 1, 9, tzinfo=VIENNA), "2040-01-01T09:00:00+01:00[Europe/Vienna]"),
        (datetime(2030, 10, 27, 2, 30, tzinfo=VIENNA), "2030-10-27T02:30:00+02:00[Europe/Vienna]"),
        (datetime(2030, 10, 27, 2, 30, fold=1, tzinfo=VIENNA), "2030-10-27T02:30:00+01:00[Europe/Vienna]"),
        (datetime(2030, 3, 31, 2, 30, 0, 5, tzinfo=VIENNA), "2030-03-31T02:30:00.000005+01:00[Europe/Vienna]"),
        (datetime(2040, 1, 1, 9, tzinfo=timezone(timedelta(hours=2))), "2040-01-01T09:00:00+02:00"),
    ],
)
def test_times_come_back_from_a_file_as_they_were(
    store: ScheduleStore, client: redis.Redis, prefix: str, moment: datetime, text: str
) -> None:
    bounds: dict[str, Any] = {"end_at": moment, "disabled_until": moment - timedelta(days=1), "start_at": None}
    store.create("a", "t", 60, **bounds, options={"expires": moment})
    store.create("b", "t", clocked(moment))
    before = {name: client.hget(f"{prefix}{name}", "definition") for name in "ab"}

    export = store.files.export()
    for name in "ab":
        store.delete(name)
    store.files.apply(store.files.plan(Export.from_text(export.to_text(as_yaml=True)), "shop"))

    fields = export.entries["a"].fields
    assert (fields["end_at"], fields["options"]["expires"], export.entries["b"].fields["at"]) == (text, text, text)
    assert {name: client.hget(f"{prefix}{name}", "definition") for name in "ab"} == before


def test_the_stored_form_of_a_time_is_read_as_well(store: ScheduleStore) -> None:
    moment = datetime(2040, 1, 1, 9, tzinfo=VIENNA)
    entry = {
        "task": "t",
        "every": 60,
        "end_at": encode_datetime(moment),
        "options": {"expires": encode_datetime(moment)},
    }

    store.files.apply(
        store.files.plan(Export.from_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": {"a": entry}})))
    )

    assert (store.get("a").end_at, store.get("a").options["expires"]) == (moment, moment)


def test_an_export_names_the_schema_that_lies_beside_it_and_can_be_applied(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", "t", 60)
    monkeypatch.chdir(tmp_path)
    run("export", "-o", "before.yaml")
    Path("redisbeater.schema.json").write_text(run("files", "schema").stdout)
    for name in ("schedule.yaml", "schedule.yml", "schedule.json"):
        run("export", "-o", name)
    Path("elsewhere").mkdir()
    run("export", "-o", "elsewhere/schedule.yaml")

    first = "# yaml-language-server: $schema=redisbeater.schema.json\n"
    assert [Path(name).read_text().startswith(first) for name in ("schedule.yaml", "schedule.yml")] == [True, True]
    assert ["$schema" in Path(name).read_text() for name in ("before.yaml", "schedule.json")] == [False, False]
    assert "$schema" not in Path("elsewhere/schedule.yaml").read_text()
    assert run("apply", "schedule.yaml", "--owner", "shop", "--adopt", "--yes").exit_code == 0


def test_a_file_may_name_its_schema(run: Callable[..., Result], file: Callable[..., str], store: ScheduleStore) -> None:
    assert run("apply", file({"report": REPORT}, **{"$schema": "./redisbeater.schema.json"})).exit_code == 0
    assert [entry.name for entry in store.list()] == ["report"]


def test_an_export_can_be_of_one_owner(
    run: Callable[..., Result], file: Callable[..., str], store: ScheduleStore
) -> None:
    name = file({"report": REPORT})
    run("apply", name)
    store.create("other", "t", 60)

    exported = json.loads(run("export", "--owner", "shop").stdout)

    assert exported == {"redisbeater": 1, "owner": "shop", "entries": {"report": REPORT}}
    assert set(json.loads(run("export").stdout)["entries"]) == {"report", "other"}


def test_what_cannot_be_read_is_left_out_of_an_export(
    run: Callable[..., Result], client: redis.Redis, prefix: str, store: ScheduleStore
) -> None:
    store.create("good", "t", 60)
    client.hset(f"{prefix}bad", "definition", "{}")
    client.zadd(f"{prefix}:schedule", {f"{prefix}bad": 0})

    result = run("export")

    assert result.exit_code == 1
    assert list(json.loads(result.stdout)["entries"]) == ["good"]
    assert result.stderr.startswith("Error: bad is skipped, because it cannot be read: $.task: is missing")
    with pytest.raises(InvalidEntry, match=r"\$\.task"):
        store.get("bad")


def test_a_file_comes_from_the_standard_input(run: Callable[..., Result], shop: Celery) -> None:
    text = json.dumps({"redisbeater": 1, "owner": "shop", "entries": {"ping": {"task": "t", "every": "1h"}}})

    applied = run("apply", "-", input=text)
    simulated = run("simulate", "--file", "-", input=text)
    refused = run("apply", "-", input=text.replace("every", "evrey"))

    assert applied.stdout.splitlines()[-1] == "1 created, 0 changed, 0 deleted"
    assert "23 runs of 1 entry" in simulated.stdout  # the first one is an hour from now
    assert (refused.exit_code, refused.stderr) == (
        2,
        "Error: standard input: 'ping': $.evrey: is not a field of an entry; did you mean 'every'?\n",
    )
    assert run("apply", "-", "--check", input=run("export", "-o", "-", "--owner", "shop").stdout).exit_code == 0
