"""What ``list`` selects, sorts and reads, changes of thousands of entries, and what only a terminal gets."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import CliRunner, Result
from support.waiting import wait_until

from redisbeater import AsyncScheduleStore, InvalidEntry, RedisScheduler, ScheduleStore
from redisbeater.cli import changing, redisbeater, runs
from redisbeater.cli.terminal import MOST_SILENT_SECONDS, with_progress
from redisbeater.context import Context
from redisbeater.editing.edit import Author
from redisbeater.management.bulk import disable_many
from redisbeater.management.shown_entries import read_views
from redisbeater.management.verbs import Verb
from redisbeater.results import Runs
from redisbeater.signals import entry_changed

DEFINITION = '{"task":"proj.work","schedule":{"__type__":"interval","every":60}}'


@pytest.fixture
def run(app: Celery) -> Callable[..., Result]:
    def run(*arguments: str, **extra: object) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app), **extra)  # type: ignore[arg-type]

    return run


@pytest.fixture
def names(run: Callable[..., Result]) -> Callable[..., list[str]]:
    return lambda *arguments: run("list", "--names", *arguments).stdout.split()


def write_many(client: redis.Redis, prefix: str, number: int, defined: int) -> None:
    """Store entries as another program would; the first ``defined`` of them have a definition."""
    pipeline = client.pipeline(transaction=False)
    for start in range(0, number, 1000):
        part = range(start, min(start + 1000, number))
        pipeline.zadd(f"{prefix}:schedule", {f"{prefix}{each:06}": 4e9 + each for each in part})
    for each in range(defined):
        pipeline.hset(f"{prefix}{each:06}", "definition", DEFINITION)
    pipeline.execute()


class Interrupted(io.StringIO):
    """The output of a command that Ctrl-C interrupts when it has printed a text so many times."""

    def __init__(self, at: str, times: int) -> None:
        super().__init__()
        self._at, self._times = at, times

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._times and self.getvalue().count(self._at) >= self._times:
            self._times = 0
            os.kill(os.getpid(), signal.SIGINT)
        return written


def interrupted(app: Celery, *arguments: str, at: str, times: int) -> tuple[int, str, str]:
    """Run a command up to its interruption; return its exit code, its output and its errors."""
    with redirect_stdout(Interrupted(at, times)) as printed, redirect_stderr(io.StringIO()) as errors:
        code = redisbeater([*arguments], obj=SimpleNamespace(app=app), standalone_mode=False)
    return code or 0, printed.getvalue(), errors.getvalue()


# Filters and orders


def test_entries_are_selected_by_state_and_queue(
    store: ScheduleStore, client: redis.Redis, prefix: str, names: Callable[..., list[str]], run: Callable[..., Result]
) -> None:
    store.create("soon", "proj.work", 60, options={"queue": "slow"})
    store.create("off", "proj.work", 60, enabled=False)
    store.create("late", "proj.work", 60).reschedule(datetime.now(timezone.utc) - timedelta(hours=1))
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})

    assert names("--state", "disabled") == ["off"]
    assert names("--state", "late") == ["late"]
    assert names("--state", "enabled") == ["late", "soon"]
    assert names("--state", "broken, disabled") == ["odd", "off"]
    assert names("--queue", "slow") == ["soon"]
    assert [entry.name for entry in store.list(queue="slow")] == ["soon"]
    refused = run("list", "--state", "broekn")
    assert (refused.exit_code, refused.stderr.endswith("got 'broekn'; did you mean 'broken'?\n")) == (2, True)


def test_entries_are_sorted(store: ScheduleStore, names: Callable[..., list[str]]) -> None:
    now = datetime.now(timezone.utc)
    store.create("b", "proj.work", 7200, last_run_at=now - timedelta(minutes=1))
    store.create("c", "proj.work", 3600, last_run_at=now - timedelta(minutes=100))
    store.create("a", "proj.work", 60, last_run_at=now - timedelta(minutes=5))
    store.create("never", "proj.work", 9000)

    assert names() == names("--sort", "next") == ["c", "a", "b", "never"]
    assert names("--sort", "name") == ["a", "b", "c", "never"]
    assert names("--sort", "last") == ["b", "a", "c", "never"]
    assert names("--sort", "late") == ["c", "a", "b", "never"]
    assert names("--sort", "name", "--limit", "2") == ["a", "b"]
    assert names("--sort", "last", "--limit", "2") == ["b", "a"]
    assert names("--sort", "late", "--limit", "1") == ["c"]


def test_pages_of_the_api_have_the_states_and_orders_of_the_command(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, names: Callable[..., list[str]]
) -> None:
    now = datetime.now(timezone.utc)
    store.create("b", "proj.work", 7200, last_run_at=now - timedelta(minutes=1))
    store.create("c", "proj.work", 3600, last_run_at=now - timedelta(minutes=100))
    store.create("off", "proj.work", 60, enabled=False)
    store.create("over", "proj.work", 60, max_runs=1, total_run_count=1, last_run_at=now)
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})
    everything = ["next", "name", "last", "late"]

    def listed(**arguments: Any) -> list[str]:
        page = store.list(**arguments)
        return [*(entry.name for entry in page), *page.broken]

    for sort in everything:
        shown = names("--sort", sort)
        assert [name for name in shown if name != "odd"] == [entry.name for entry in store.list(sort=sort)]
        assert [row.name for row in read_views(Context.of(app), sort=sort).entries] == shown
        walked, cursor = listed(sort=sort, limit=2), store.list(sort=sort, limit=2).cursor
        while cursor is not None:
            walked += listed(sort=sort, limit=2, cursor=cursor)
            cursor = store.list(sort=sort, limit=2, cursor=cursor).cursor
        assert sorted(walked) == ["b", "c", "odd", "off", "over"]
    for state, expected in (
        ("enabled", ["b", "c"]), ("disabled", ["off"]), ("finished", ["over"]), ("broken", ["odd"]),
        ("late", ["c"]), ("failing", []), (["finished", "late"], ["c", "over"]),
    ):  # fmt: skip
        assert listed(state=state) == expected
        chosen = state if isinstance(state, str) else ",".join(state)
        assert names("--state", chosen, "--sort", "name") == expected
    asked = AsyncScheduleStore(app)
    assert [entry.name for entry in asyncio.run(asked.list(state="late", sort="next"))] == ["c"]
    for arguments, problem in (
        ({"state": "brokn"}, "state: expected .*, got 'brokn'; did you mean 'broken'"),
        ({"state": [5]}, "state: expected .*, got 5"),
        ({"sort": "lates"}, "sort: expected .*, got 'lates'; did you mean 'late'"),
        ({"sort": "next", "cursor": "b"}, "cursor: expected the cursor of a page in the order 'next', or None"),
    ):
        with pytest.raises(ValueError, match=problem):
            store.list(**arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--state", "late"], ["owing", "due"]),
        (["--state", "failing"], ["owing"]),
        (["--sort", "late", "--limit", "1"], ["owing"]),
        (["--state", "finished", "--sort", "name"], ["over"]),
        (["--prefix", "000", "--limit", "2"], ["000000", "000001"]),
        (["--state", "disabled"], ["off"]),
        (["--task", "proj.other"], ["off"]),
    ],
    ids=" ".join,
)
def test_states_are_found_without_reading_the_others(
    client: redis.Redis,
    prefix: str,
    names: Callable[..., list[str]],
    store: ScheduleStore,
    arguments: list[str],
    expected: list[str],
) -> None:
    write_many(client, prefix, 2000, defined=2000)
    store.create("over", "proj.work", 60, max_runs=1, total_run_count=1, last_run_at=datetime.now(timezone.utc))
    store.create("off", "proj.other", 60, enabled=False)
    store.create("due", "proj.work", 3600).reschedule(datetime.now(timezone.utc) - timedelta(hours=2))
    owed, again = time.time() - 7200, time.time() + 20
    failing = {"definition": DEFINITION, "fire_time": owed, "look_at": again, "last_error": "x", "tries": 1}
    client.hset(f"{prefix}owing", mapping=failing)
    client.zadd(f"{prefix}:schedule", {f"{prefix}owing": again})
    client.zadd(f"{prefix}:failing", {f"{prefix}owing": owed})
    before = client.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"]

    found = names(*arguments)

    assert found == expected
    assert client.info("commandstats")["cmdstat_hmget"]["calls"] - before <= 3


@pytest.mark.parametrize("sort", ["next", "name"])
def test_a_limit_of_20_reads_20_of_100_000(
    client: redis.Redis, prefix: str, run: Callable[..., Result], sort: str
) -> None:
    write_many(client, prefix, 100_000, defined=250)
    before = client.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"]

    began = time.process_time()
    found = [
        json.loads(line)["name"] for line in run("list", "--json", "--limit", "20", "--sort", sort).stdout.splitlines()
    ]

    took = time.process_time() - began
    read = client.info("commandstats")["cmdstat_hmget"]["calls"] - before
    client.delete(f"{prefix}:schedule")
    assert found == [f"{number:06}" for number in range(20)]
    assert read == 20
    assert took < 10  # two seconds, on a quiet machine


# Changes of many entries


def test_thousands_of_entries_are_changed_by_pages(
    client: redis.Redis, prefix: str, run: Callable[..., Result], store: ScheduleStore
) -> None:
    write_many(client, prefix, 1200, defined=1200)
    scripts = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]

    disabled = run("disable", "--all", "--yes", "--note", "bad deploy")
    calls = client.info("commandstats")["cmdstat_evalsha"]["calls"] - scripts
    deleted = run("delete", "--prefix", "001", "--yes")

    assert (disabled.exit_code, disabled.stdout) == (0, "1,200 entries disabled\n")
    assert calls < 40
    assert store.get("000007").enabled is False
    assert store.log("000007")[0].details["note"] == "bad deploy"
    assert deleted.stdout.splitlines()[-1] == "001199: deleted"
    assert store.count() == 1000


def test_one_that_cannot_be_changed_does_not_hold_up_the_others(
    client: redis.Redis, prefix: str, store: ScheduleStore
) -> None:
    write_many(client, prefix, 3, defined=3)
    client.hset(f"{prefix}000001", "definition", "{")

    disabled = {
        outcome.name: outcome.error for outcome in store.disable_many(["000000", "000001", ":x", "gone", "000002"])
    }
    deleted = {outcome.name: outcome.error for outcome in store.delete_many(["000000", ":x", "gone"])}

    assert list(disabled) == ["000000", "000001", ":x", "gone", "000002"]
    assert [name for name, error in disabled.items() if error is None] == ["000000", "000002"]
    assert [name for name, error in deleted.items() if error is None] == ["000000"]
    assert [outcome.error for outcome in store.enable_many(["000002"], note="again")] == [None]
    assert store.get("000002").enabled


def test_a_change_of_many_is_made_whether_or_not_somebody_looks_at_its_outcomes(
    client: redis.Redis, prefix: str, store: ScheduleStore
) -> None:
    write_many(client, prefix, 3, defined=3)

    store.disable_many(["000000", "000001"])
    store.enable_many(["000001"])
    store.delete_many(["000002"])

    assert {entry.name: entry.enabled for entry in store.list()} == {"000000": False, "000001": True}


@pytest.mark.parametrize("change", ["enable_many", "disable_many", "delete_many"])
def test_one_text_is_no_list_of_names(client: redis.Redis, prefix: str, store: ScheduleStore, change: str) -> None:
    write_many(client, prefix, 1, defined=1)
    store.rename("000000", "k")

    with pytest.raises(InvalidEntry, match=r"^names: expected a list of names, got 'k'; for one entry pass \['k'\]$"):
        getattr(store, change)("k")
    with pytest.raises(TypeError, match=r"^names: expected names, which are texts; one of them is <RedisScheduleEntry"):
        getattr(store, change)(["k", store.get("k")])
    assert store.get("k").enabled


def test_ctrl_c_ends_after_a_page_and_says_what_was_done(
    client: redis.Redis, prefix: str, run: Callable[..., Result], store: ScheduleStore
) -> None:
    write_many(client, prefix, 1200, defined=1200)
    disabled: list[str] = []

    def interrupt(name: str, **_: object) -> None:
        disabled.append(name)
        if len(disabled) == 300:
            os.kill(os.getpid(), signal.SIGINT)

    entry_changed.connect(interrupt)
    try:
        result = run("disable", "--all", "--yes")
    finally:
        entry_changed.disconnect(interrupt)

    assert result.exit_code == 130
    assert result.stderr == "interrupted: 500 of 1,200 entries disabled; the others are as they were\n"
    assert len(store.list(enabled=False, limit=2000).entries) == len(disabled) == 500


def test_ctrl_c_while_a_page_is_printed_counts_all_of_it(
    client: redis.Redis, prefix: str, app: Celery, store: ScheduleStore
) -> None:
    write_many(client, prefix, 600, defined=600)

    code, printed, errors = interrupted(app, "disable", "--all", "--yes", at=": disabled\n", times=30)

    number = len(store.list(enabled=False, limit=2000).entries)
    assert (code, 0 < number < 600) == (130, True)
    assert errors == f"interrupted: {number} of 600 entries disabled; the others are as they were\n"
    assert printed.count(": disabled\n") == number
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_entries_disabled_until_a_time_are_enabled_at_once(
    store: ScheduleStore, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    for name in ("a", "b"):
        store.create(name, "proj.work", 60, labels={"team": "x"}, kwargs={"pages": [1, {"deep": 2.50}]})
    client.hset(f"{prefix}b", "definition", client.hget(f"{prefix}b", "definition")[:-1] + ',"theirs":7}')
    before = {name: client.hget(f"{prefix}{name}", "definition") for name in "ab"}
    run("disable", "a", "b", "--until", "2h")

    result = run("enable", "a", "b", "--note", "back")

    assert [line[:20] for line in result.stdout.splitlines()] == ["a: enabled, next run", "b: enabled, next run"]
    assert {name: client.hget(f"{prefix}{name}", "definition") for name in "ab"} == before
    assert store.get("a").state == "enabled"
    assert [line.what for line in store.log("a")][:2] == ["enabled", "disabled"]
    assert store.log("a")[0].details["note"] == "back"


def mixed(store: ScheduleStore) -> dict[str, datetime]:
    """Store entries that run, that are disabled for good, and until a time sooner and later than in 2 h."""
    ends = {
        "sooner": datetime.now(timezone.utc) + timedelta(hours=1),
        "later": datetime.now(timezone.utc) + timedelta(hours=9),
    }
    for name in ("runs", "for good", "sooner", "later"):
        store.create(name, "proj.work", 60, labels={"team": "x"}, disabled_until=ends.get(name))
    store.disable("for good", note="waits for the new texts")
    return ends


def test_many_are_not_disabled_for_a_shorter_time_than_they_are(
    store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    ends = mixed(store)
    keys = [f"{prefix}for good", f"{prefix}later"]
    kept = [client.hgetall(key) for key in keys]
    lines = len(store.log("for good"))

    outcomes = {
        each.name: each
        for each in store.disable_many(["runs", "for good", "sooner", "later", "gone"], until=timedelta(hours=2))
    }

    assert {name: each.left for name, each in outcomes.items()} == {
        "runs": "", "for good": "disabled for longer", "sooner": "", "later": "disabled for longer", "gone": "",
    }  # fmt: skip
    assert [client.hgetall(key) for key in keys] == kept
    assert len(store.log("for good")) == lines
    assert [name for name, each in outcomes.items() if each.is_changed] == ["runs", "sooner", "gone"]
    before = {name: (each.was_enabled, each.was_until) for name, each in outcomes.items() if not each.error}
    assert before == {
        "runs": (True, None), "for good": (False, None), **{name: (False, end) for name, end in ends.items()},
    }  # fmt: skip
    assert [each.state for each in (outcomes["for good"].entry, store.get("runs"), store.get("sooner"))] == [
        "disabled"
    ] * 3


def test_who_disables_an_entry_for_good_while_many_are_disabled_until_a_time_is_not_overruled(
    app: Celery, store: ScheduleStore
) -> None:
    store.create("report", "proj.work", 60)
    asked: list[tzinfo] = []

    def until(zone: tzinfo) -> datetime:
        if not asked:  # behind the read, in front of the write
            store.disable("report", note="for good")
        asked.append(zone)
        return datetime.now(timezone.utc) + timedelta(hours=2)

    [outcome] = disable_many(Context.of(app), ["report"], author=Author.of(), until=until, keeps_longer=True)

    assert (outcome.left, store.get("report").enabled, len(asked)) == ("disabled for longer", False, 2)


def test_the_command_says_what_it_left_and_changes_one_that_is_named_alone(
    store: ScheduleStore, run: Callable[..., Result]
) -> None:
    mixed(store)
    done = run("disable", "--label", "team=x", "--until", "2h", "--yes")
    assert done.exit_code == 0
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert {name: said[name] for name in ("for good", "later")} == dict.fromkeys(
        ("for good", "later"), "left as it was: disabled for longer"
    )
    assert "no longer" not in said["runs"]
    assert ", no longer until " in said["sooner"]
    data = [
        json.loads(line) for line in run("disable", "for good", "runs", "--until", "2h", "--json").stdout.splitlines()
    ]
    assert [(each["name"], each["done"], each["is_changed"], each.get("reason")) for each in data] == [
        ("for good", "left", False, "disabled for longer"),
        ("runs", "disabled", True, None),
    ]
    store.delete_many(["runs", "sooner", "later"])
    assert run("disable", "--all", "--until", "2h").stdout == "for good: left as it was: disabled for longer\n"
    assert not store.get("for good").enabled
    assert ", no longer for good; next run " in run("disable", "for good", "--until", "2h").stdout
    assert store.get("for good").enabled


# Broken entries


def test_a_broken_entry_runs_again_when_its_reason_is_gone(
    client: redis.Redis, prefix: str, run: Callable[..., Result], store: ScheduleStore, scheduler: RedisScheduler
) -> None:
    client.hset(f"{prefix}odd", "definition", '{"task":"proj.work","schedule":{"__type__":"odd"}}')
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1e9})
    scheduler.tick()
    still = run("broken", "--retry", "odd")

    client.hset(f"{prefix}odd", "definition", DEFINITION)
    done = run("broken", "--retry", "odd", "--note", "deployed", "--json")

    assert (still.exit_code, still.stderr[:26]) == (2, "Error: $.schedule.__type__")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (0, "enabled")
    assert store.broken() == {}
    assert store.get("odd").due_at is not None
    assert store.log("odd")[0].details["note"] == "deployed"
    with pytest.raises(InvalidEntry, match=r"^'odd': not broken"):
        store.retry("odd")
    assert run("broken", "--retry", "od").stderr.endswith("did you mean 'odd'?\n")


# Only for a terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def readline(self, _size: int | None = -1) -> str:
        """Ctrl-C at a prompt."""
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_file", [False, True], ids=["delete", "apply"])
def test_ctrl_c_at_a_question_ends_with_130_and_writes_nothing(
    app: Celery, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_file: bool
) -> None:
    for name in ("a", "b"):
        ScheduleStore(app).create(name, "t", 60)
    entries = {f"e-{number}": {"task": "t", "every": 60} for number in range(101)}
    state = {name: {"score": "1700000000.000000"} for name in entries}
    (tmp_path / "backup.json").write_text(json.dumps({"redisbeater": 1, "entries": entries, "state": state}))
    words = ["apply", str(tmp_path / "backup.json"), "--state"] if is_file else ["delete", "--all"]
    monkeypatch.setattr(sys, "stdin", Terminal())

    code = redisbeater.main(words, obj=SimpleNamespace(app=app), standalone_mode=False)

    assert (code, sorted(ScheduleStore(app).names())) == (130, ["a", "b"])


def test_work_of_more_than_a_second_shows_its_progress(server: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> Iterator[int]:
        began = time.monotonic()
        for number in range(12):
            if number == 10:
                wait_until(lambda: time.monotonic() - began > MOST_SILENT_SECONDS, "a second of work")
            yield number

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert list(with_progress(slow(), "reading entries", 12)) == list(range(12))
    slow_output = terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", quick := Terminal())
    assert list(with_progress(iter(range(12)), "reading entries", 12)) == list(range(12))
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    assert len(list(with_progress(slow(), "reading entries", 12))) == 12

    assert "reading entries" in slow_output
    assert "12/12" in slow_output
    assert quick.getvalue() == file.getvalue() == ""


def test_states_have_colours_on_a_terminal(
    store: ScheduleStore, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    store.create("off", "proj.work", 60, enabled=False)

    assert "\x1b[33mdisabled\x1b[0m" in run("list", color=True).stdout
    assert "\x1b" not in run("list").stdout
    assert "\x1b" not in run("list", "--no-color", color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("list", color=True).stdout
    assert json.loads(run("list", "--json", color=True).stdout)["state"] == "disabled"


def test_what_was_deleted_is_drawn_again_until_ctrl_c(
    store: ScheduleStore, app: Celery, run: Callable[..., Result]
) -> None:
    store.create("a", "proj.work", 60)
    store.delete("a")

    code, printed, _ = interrupted(app, "list", "--state", "deleted", "--watch", "0.1s", at="NAME  DELETED", times=3)

    assert (code, printed.count("NAME  DELETED")) == (0, 3)
    assert json.loads(run("list", "--state", "deleted", "--names", "--json").stdout)["name"] == "a"


def test_a_listing_is_drawn_again_until_ctrl_c(store: ScheduleStore, run: Callable[..., Result]) -> None:
    store.create("a", "proj.work", 60)
    threading.Timer(1.0, os.kill, [os.getpid(), signal.SIGINT]).start()

    result = run("list", "--watch", "0.2s")

    assert result.exit_code == 0
    assert result.stdout.count("now ") >= 2
    assert run("list", "--watch", "soon").exit_code == 2
    assert run("list", "--watch", "0").exit_code == 2


# Verbs that have no command of their own


def test_the_command_of_a_verb_says_what_became_of_each_entry(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "proj.work", 3600)
    store.create("off", "proj.work", 3600, enabled=False)
    command = changing.command_of(
        Verb("record", "Record", "recorded", "operate", ScheduleStore.record_execution, says_next=True)
    )

    result = CliRunner().invoke(command, ["report", "off", "nosuch", "--by", "anna"], obj=SimpleNamespace(app=app))

    assert result.stdout.splitlines()[0].startswith("report: recorded, next run ")
    assert result.stdout.splitlines()[1:] == ["off: recorded"]
    assert (result.exit_code, result.stderr) == (2, "Error: no entry named 'nosuch' in the schedule\n")
    assert store.log("report")[0].details["by"] == "anna"


def test_the_command_of_a_verb_asks_by_its_name(app: Celery, store: ScheduleStore) -> None:
    store.create("a", "proj.work", 60)
    store.create("b", "proj.work", 60)
    command = changing.command_of(Verb("record", "Record", "recorded", "operate", ScheduleStore.record_execution))

    result = CliRunner().invoke(command, ["--all"], obj=SimpleNamespace(app=app))

    assert (result.exit_code, result.stderr) == (2, "Error: this would record 2 entries: a, b; pass --yes to do it\n")


def test_the_command_of_a_verb_on_runs_reports_each(app: Celery) -> None:
    app.conf.redisbeater_track_runs = True
    command = runs.command_of(Verb("again", "Send again", "sent again", "operate", Runs.restart, of="runs"))

    result = CliRunner().invoke(command, ["nosuch"], obj=SimpleNamespace(app=app))

    assert (result.exit_code, "nosuch" in result.stderr) == (2, True)


def test_each_command_that_changes_something_prints_json(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("a", "proj.work", 3600)

    def changed(*arguments: str) -> dict[str, Any]:
        result = run(*arguments, "--json")
        assert (result.exit_code, result.stderr) == (0, ""), arguments
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer

    disabled, enabled = changed("disable", "a"), changed("enable", "a")
    until, skipped = changed("disable", "a", "--until", "2h"), changed("skip-next", "a")
    renamed, deleted, restored = changed("rename", "a", "b"), changed("delete", "b"), changed("restore", "b")
    paused, resumed, again = changed("pause", "--note", "move"), changed("resume"), changed("resume")

    done = [each["done"] for each in (disabled, enabled, until, skipped, renamed, deleted, restored)]
    assert done == ["disabled", "enabled", "disabled", "skipped", "renamed", "deleted", "restored"]
    assert [disabled["due_at"], deleted["due_at"], deleted["state"]] == [None, None, None]
    due_at = store.get("b").due_at
    assert due_at is not None
    assert [skipped["due_at"], restored["due_at"], restored["name"]] == [due_at.isoformat(), due_at.isoformat(), "b"]
    assert (until["disabled_until"] > enabled["due_at"][:10], renamed["new"], len(skipped["skip"])) == (True, "b", 1)
    assert (paused["note"], paused["until"], resumed["pause"]["note"]) == ("move", None, "move")
    assert (again["pause"], again["held"]) == (None, 0)


def test_json_of_several_entries_is_a_line_for_each(run: Callable[..., Result], store: ScheduleStore) -> None:
    for name in ("a", "b"):
        store.create(name, "proj.work", 3600)

    result = run("delete", "a", "nope", "b", "--json")

    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["a", "b"]
    assert (result.exit_code, result.stderr) == (2, "Error: no entry named 'nope' in the schedule\n")


def test_what_a_deleted_entry_is_restored_by_is_said(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("a", "proj.work", 3600)

    deleted, again = run("delete", "a"), run("show", "a")

    assert deleted.stdout == "a: deleted; restore undoes that\n"
    assert again.stderr == "Error: no entry named 'a' in the schedule; it was deleted, restore a brings it back\n"
    assert store.why("a").advice == "To bring it back within 7 days: restore a"


def test_a_pause_says_which_one_it_replaces(run: Callable[..., Result]) -> None:
    run("pause", "--until", "2h", "--note", "database is moved")

    first, _ = run("pause").stdout.splitlines()

    assert first.startswith("this replaces the pause before it: paused ")
    assert first.endswith(': "database is moved"')
