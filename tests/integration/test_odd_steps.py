"""Steps above the range of their field: new ones are refused, what has run so goes on and is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from due import now

from redisbeater import InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore, cron
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.lint import preview_entry

MEANT = "every 90m, in Python timedelta(minutes=90)"


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app("shop", timezone="UTC")


@pytest.fixture
def store(app: Celery) -> ScheduleStore:
    return ScheduleStore(app)


@pytest.fixture
def run(app: Celery) -> Callable[..., Result]:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))

    return run


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Callable[..., None]:
    """Store an entry as RedBeat does."""

    def write(name: str, **schedule: Any) -> None:
        definition = {"name": name, "task": "t", "schedule": schedule, "args": [], "enabled": True}
        client.hset(f"{prefix}{name}", "definition", json.dumps(definition))
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": now().timestamp() + 1000})

    return write


def findings(run: Callable[..., Result]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("lint", "--json").stdout)
    return found


def bulk_upsert(store: ScheduleStore, entry: RedisScheduleEntry) -> None:
    with store.bulk() as bulk:
        bulk.save(entry)


WAYS: dict[str, Callable[[ScheduleStore, RedisScheduleEntry], object]] = {
    "create": lambda store, entry: store.create(entry.name, entry.task, entry.schedule),
    "dry run": lambda store, entry: store.create(entry.name, entry.task, entry.schedule, dry_run=True),
    "save": lambda store, entry: entry.save(),
    "update": lambda store, entry: store.update("old", schedule=entry.schedule),
    "bulk": bulk_upsert,
    "preview": lambda store, entry: preview_entry(Context.of(entry.app), entry, 5),
}


@pytest.mark.parametrize("when", [crontab(minute="*/90"), cron("*/90 * * * *"), cron("0 */90 * * * *")], ids=repr)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_stores_a_new_one(app: Celery, when: Any, way: str) -> None:
    store = ScheduleStore(app)
    store.create("old", "t", 60)

    with pytest.raises(InvalidEntry, match=r"^\$\.schedule\.minute: the step of '\*/90' is above its range of 60"):
        WAYS[way](store, RedisScheduleEntry("new", "t", when, app=app))

    assert list(store.names()) == ["old"]
    assert store.get("old").schedule.run_every == timedelta(seconds=60)


def test_the_command_line_and_files_refuse_a_new_one(
    run: Callable[..., Result], store: ScheduleStore, tmp_path: Path
) -> None:
    file = tmp_path / "schedule.json"
    entries = {"new": {"task": "t", "cron": "0 */36 * * *"}}
    file.write_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": entries}))

    created, applied = run("create", "new", "t", "--cron", "*/90 * * * *"), run("apply", str(file), "--yes")

    assert created.stderr.startswith("Error: --cron minute: the step of '*/90' is above its range of 60")
    assert MEANT in created.stderr
    assert "hour: the step of '*/36' is above its range of 24, so it is only hour 0 of each day" in applied.stderr
    assert (created.exit_code, applied.exit_code, store.count()) == (2, 2, 0)


def test_a_stored_one_goes_on_and_can_be_edited_and_is_named(
    run: Callable[..., Result], store: ScheduleStore, write: Callable[..., None]
) -> None:
    write("old", __type__="crontab", minute="*/90", hour="*")
    due_at = store.get("old").due_at

    store.update("old", args=[1])
    store.get("old").save()
    with store.bulk() as bulk:
        bulk.save(store.get("old"))
    store.rename("old", "older")

    [found] = [each for each in findings(run) if each["rule"] == "step-above-range"]
    assert (store.get("older").args, store.get("older").due_at) == ([1], due_at)
    assert (found["severity"], found["name"]) == ("warning", "older")
    assert MEANT in found["text"]


def test_uneven_steps_are_a_hint(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("uneven", "t", cron("*/45 * * * *"))
    store.create("even", "t", cron("*/15 */6 * * *"))

    hints = [(each["severity"], each["name"]) for each in findings(run) if each["rule"] == "uneven-step"]

    assert hints == [("hint", "uneven")]


def test_a_declared_one_runs_as_with_celerys_beat_and_a_warning_names_it(
    make_app: Callable[..., Celery], caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app("shop", beat_schedule={"old": {"task": "t", "schedule": crontab(minute="*/90")}})
    scheduler = RedisScheduler(app)
    scheduler.tick()
    scheduler.close()

    assert ScheduleStore(app).get("old").due_at.minute == 0  # type: ignore[union-attr]
    assert "static entry 'old' runs as Celery runs it: the step of '*/90' is above its range of 60" in caplog.text


def test_an_import_warns_of_it_and_of_a_very_short_interval(
    make_app: Callable[..., Celery],
) -> None:
    declared = {
        "old": {"task": "t", "schedule": crontab(minute="*/90")},
        "flood": {"task": "t", "schedule": timedelta(microseconds=10)},
        "fine": {"task": "t", "schedule": 60},
    }
    app = make_app("shop", beat_schedule=declared)

    def imported(*arguments: str) -> Result:
        words = ["import", "beat-schedule", *arguments]
        return CliRunner().invoke(redisbeater, words, obj=SimpleNamespace(app=app))

    warnings = {each["name"]: each["warnings"] for each in json.loads(imported("--json", "--yes").stdout)["entries"]}
    for name in declared:
        ScheduleStore(app).delete(name)
    result = imported("--yes")

    assert (len(warnings["old"]), len(warnings["flood"]), warnings["fine"]) == (1, 1, [])
    assert "Warning: old: the step of '*/90' is above its range" in result.stderr
    assert "Warning: flood: an interval below 0.1 seconds" in result.stderr
    assert sorted(ScheduleStore(app).names()) == sorted(declared)
