"""Files of many entries: read and planned once, written as planned, with progress."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from due import now
from support.waiting import wait_until

from redisbeater import Export, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.simulation import forecast


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app("shop", timezone="UTC")


def file(number: int, **fields: Any) -> Export:
    entries = {f"e{each}": {"task": "shop.work", "every": 3600, **fields} for each in range(number)}
    return Export.from_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": entries}))


def test_each_entry_is_read_once_and_written_once(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    store.count()

    def scripts() -> int:
        stats: Any = client.info("commandstats")
        return int(stats.get("cmdstat_evalsha", {"calls": 0})["calls"])

    store.files.apply(store.files.plan(file(500)))
    before = scripts()
    done = store.files.apply(store.files.plan(file(500, args=[1])))

    assert len(done.changed) == 500
    # The clock twice, a page of names, two pages to read and two to write, and a line of the log.
    assert scripts() - before == 8


def test_what_is_written_has_the_next_runs_that_were_planned(store: ScheduleStore) -> None:
    changes = store.files.plan(file(3))
    planned = {each.name: each.after and each.after.score.fire_time for each in changes.entries}

    store.files.apply(changes)

    assert {entry.name: entry.due_at for entry in store.list()} == planned


def test_a_plan_whose_next_runs_have_passed_is_planned_again(store: ScheduleStore) -> None:
    changes = store.files.plan(file(1, every=0.2))
    (change,) = changes.entries
    assert change.after
    passed = change.after.score.fire_time
    assert passed
    wait_until(lambda: now() > passed, "the planned run to be over")

    done = store.files.apply(changes)

    due_at = store.get("e0").due_at
    assert due_at
    assert (done.created, due_at > passed) == (["e0"], True)


def test_a_run_between_plan_and_apply_is_kept(store: ScheduleStore) -> None:
    store.files.apply(store.files.plan(file(1)))
    changes = store.files.plan(file(1, args=[1]))
    store.get("e0").record_execution()
    ran = store.get("e0").last_run_at

    done = store.files.apply(changes)

    entry = store.get("e0")
    assert (done.changed, done.conflicts) == (["e0"], {})
    assert (entry.args, entry.last_run_at) == ([1], ran)
    assert ran is not None


def test_work_on_many_entries_reports_how_far_it_is(store: ScheduleStore) -> None:
    planned, exported, simulated = list[int](), list[int](), list[int]()

    store.files.apply(store.files.plan(file(600), progress=planned.append))
    store.files.export(progress=exported.append)
    store.simulate(progress=simulated.append)

    assert planned == exported == [250, 500, 600]
    read, counted = simulated[:3], simulated[3:]
    assert read == [250, 500, 600]
    assert counted == sorted(counted)  # of each schedule all at once: how many depends on when they were written
    assert counted[-1] == 600


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["apply", "f.json", "--dry-run"], "planned 300 entries"),
        (["apply", "f.json", "--dry-run"], "counted the runs of 300 entries"),
        (["apply", "f.json"], "applied 300 entries"),
        (["export", "-o", "out.json"], "read 300 entries"),
        (["simulate"], "looked at 300 entries"),
        (["simulate", "--file", "f.json"], "looked at 300 entries"),
        (["upcoming"], "read 300 entries"),
        (["history"], "read the runs of 300 entries"),
        (["lint"], "looked at 300 entries"),
        (["lint", "--file", "f.json"], "looked at 300 entries"),
        (["import", "beat-schedule", "--yes"], "imported 300 entries"),
    ],
)
def test_a_command_that_takes_long_shows_how_far_it_is(
    app: Celery, store: ScheduleStore, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("redisbeater.cli.terminal.QUIET_SECONDS", -1.0)
    terminal = Terminal()
    app.conf.redisbeater_track_runs = arguments == ["history"]
    (tmp_path / "f.json").write_text(file(300, args=[1]).to_text())
    if arguments[0] == "import":
        app.conf.beat_schedule = {f"e{number}": {"task": "shop.work", "schedule": 60} for number in range(300)}
    else:
        store.files.apply(store.files.plan(file(300)))

    monkeypatch.setattr("sys.stderr", terminal)
    redisbeater.main(arguments, obj=SimpleNamespace(app=app), standalone_mode=False)

    assert f"\r{line}" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_runs_of_entries_that_share_them_are_counted_for_each(app: Celery, store: ScheduleStore) -> None:
    found = forecast(Context.of(app), store.files.plan(file(400)))

    assert found
    assert (found.more, found.fewer, found.busiest_before) == (400 * (7 * 24 - 1), 0, 0)
