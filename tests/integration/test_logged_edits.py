"""The log of runs, of edits and of the end of beat."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import redis
from celery import Celery
from celery.beat import Service
from celery.schedules import crontab
from celery.signals import beat_init
from due import save_due, stored
from outbox import run_due
from support.requirements import require

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.beat.outage import Edits
from redisbeater.cli.files import changes_as_dict
from redisbeater.context import Context
from redisbeater.testing import FakeClock
from redisbeater.testing import run_due as due_runs


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


@pytest.fixture
def served(app: Celery, make_scheduler: Callable[..., RedisScheduler]) -> RedisScheduler:
    """A beat that leads and waits inside its tick, as under ``celery beat``."""
    app.conf.result_expires = None  # no static entry: beat hears of its own changes, too
    scheduler = make_scheduler(app)
    service = Service(app, scheduler_cls=RedisScheduler)
    service.__dict__["scheduler"] = scheduler
    scheduler.tunes_process = False
    beat_init.send(sender=service)
    scheduler.max_interval = 0.05
    scheduler.tick()
    return scheduler


def beats_lines(caplog: pytest.LogCaptureFixture, scheduler: RedisScheduler, count: int = 1) -> list[str]:
    """Tick until beat has logged so many lines about edits, and return them."""

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "redisbeater.beat.outage"]

    for _ in range(100):
        if len(lines()) >= count:
            break
        scheduler.tick()
    return lines()


# Runs


def test_the_line_of_a_run_has_its_id_its_fire_time_and_how_late_it_is(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    save_due(app, "report", late=3.0)

    [sent] = run_due(scheduler)

    [line] = [message for message in caplog.messages if "Sending due task" in message]
    found = re.fullmatch(
        r"Scheduler: Sending due task report \(proj.work\), id (\S+), fire time (\S+), (\d+\.\d{3}) s late", line
    )
    assert found
    assert (found[1], found[2]) == (sent.id, sent.headers["scheduled_for"])
    assert 3.0 <= float(found[3]) < 60


def test_a_run_that_its_jitter_delays_is_not_late(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    due_at = save_due(app, "report", late=50.0, every=10_000.0, jitter=100.0).due_at
    assert due_at is not None

    if not run_due(scheduler):  # its jitter is not over
        entry = stored(app, "report")
        assert entry.due_at == due_at
        return
    [line] = [message for message in caplog.messages if "Sending due task" in message]

    late = timedelta(seconds=float(line.rpartition(", ")[2].split()[0]))
    assert late <= datetime.now(timezone.utc) - due_at


def test_each_line_is_about_its_own_run(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20):
        save_due(app, f"e{number}")

    ids = {sent.name: sent.id for sent in run_due(scheduler)}

    lines = [message for message in caplog.messages if "Sending due task" in message]
    assert {(line.split()[4], line.split()[7].rstrip(",")) for line in lines} == set(ids.items())


# Edits


def test_the_line_of_an_edit_has_the_next_run_in_the_zone_of_the_schedule_and_not_of_the_app(
    make_app: Callable[..., Celery], caplog: pytest.LogCaptureFixture
) -> None:
    vienna, new_york = make_app(timezone="Europe/Vienna"), make_app(timezone="America/New_York")
    with FakeClock(vienna, "2026-05-01T12:00Z") as clock:
        ScheduleStore(vienna).create("report", "proj.work", crontab(hour=9, minute=0))
        clock.advance(days=1)
        due_runs(vienna)

    with FakeClock(new_york, "2026-05-02T12:00Z"):
        store, context = ScheduleStore(new_york), Context.of(new_york)
        store.update("report", args=[1])
        beats_edits = Edits(context)
        beats_edits.record(["report"])
        beats_edits.step()
        [planned] = changes_as_dict(store.files.plan(store.files.export(), owner="ops", adopt=True), context)["entries"]

    assert "entry 'report' changed: args; next run 2026-05-03T07:00:00+00:00" in caplog.messages
    assert "entry 'report' created or changed, next run 2026-05-03T07:00:00+00:00" in caplog.messages
    assert planned["next_before"] == "2026-05-03T07:00:00+00:00"


def test_the_process_that_edits_logs_what_it_did(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    store = ScheduleStore(app)
    created = store.create("report", "proj.work", 3600)
    assert created.due_at is not None
    following = created.due_at.isoformat()

    store.update("report", args=[1], description="x")
    store.update("report", args=[1])
    store.disable("report")
    store.enable("report")
    store.delete("report")

    lines = [record.getMessage() for record in caplog.records if record.name.startswith("redisbeater.editing")]
    assert lines == [
        f"entry 'report' created, next run {following}",
        f"entry 'report' changed: args, description; next run {following}",
        "entry 'report' disabled",
        f"entry 'report' enabled, next run {following}",
        "entry 'report' deleted",
    ]


def test_a_bulk_is_logged_as_a_whole(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    RedisScheduleEntry("old", "proj.work", 60, app=app).save()
    caplog.clear()

    with ScheduleStore(app).bulk() as bulk:
        for number in range(5):
            bulk.save(RedisScheduleEntry(f"e{number}", "proj.work", 60, app=app))
        bulk.delete("old")

    assert caplog.messages == ["bulk: 5 entries created, 0 changed, 1 deleted, 0 unchanged"]


def test_beat_logs_what_it_hears_of_edits(
    app: Celery, served: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    due_at = RedisScheduleEntry("a", "proj.work", 3600, app=app).save().due_at
    assert due_at is not None
    RedisScheduleEntry("b", "proj.work", 3600, enabled=False, app=app).save()
    RedisScheduleEntry("c", "proj.work", 3600, app=app).save().delete()

    lines = beats_lines(caplog, served, 3)

    assert sorted(lines) == [
        f"entry 'a' created or changed, next run {due_at.isoformat()}",
        "entry 'b' created or changed, it is disabled",
        "entry 'c' is deleted",
    ]


def test_many_edits_are_few_lines(
    app: Celery, served: RedisScheduler, caplog: pytest.LogCaptureFixture, client: redis.Redis, prefix: str
) -> None:
    for number in range(50):
        client.publish(f"{prefix}:changes", f"e{number:02}")
    with ScheduleStore(app).bulk() as bulk:
        for number in range(2):
            bulk.save(RedisScheduleEntry(f"e{number}", "proj.work", 3600, app=app))

    lines = beats_lines(caplog, served, 5)

    assert len(lines) <= 10
    assert any(re.search(r"^\d+ more entries created, changed or deleted: 'e\d\d', ", line) for line in lines)
    assert "several entries created, changed or deleted together" in lines or len(lines) < 5


def test_without_edits_beat_reads_nothing_for_the_log(
    served: RedisScheduler, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    before = client.info("commandstats").get("cmdstat_hlen", {"calls": 0})["calls"]

    for _ in range(5):
        served.tick()

    assert client.info("commandstats").get("cmdstat_hlen", {"calls": 0})["calls"] == before
    assert beats_lines(caplog, served, 0) == []


# The end


def test_the_end_of_beat_is_logged_once(
    app: Celery, make_scheduler: Callable[..., RedisScheduler], caplog: pytest.LogCaptureFixture
) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()

    leader.close()
    leader.close()
    standby.close()

    assert [message for message in caplog.messages if "beat ended" in message] == [
        "beat ended; the lock is released",
        "beat ended",
    ]


# What the documentation says


OPERATING = (Path(__file__).parents[2] / "docs" / "operating.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ("ZCOUNT redisbeater::schedule", "1"),
        ("ZCOUNT redisbeater::failing", "0"),
        ("HLEN", "0"),
        ("GET redisbeater::lock", "host"),
        ("PTTL", "-2"),
    ],
)
def test_the_documented_lines_with_redis_cli_work_as_they_stand(
    app: Celery, client: redis.Redis, prefix: str, begin: str, expected: str
) -> None:
    require("redis-cli")
    save_due(app, "late", late=300.0)
    if begin.startswith("GET"):
        client.set(f"{prefix}:lock", "host")
    [line] = re.findall(rf"\$ (redis-cli -u \S+ {begin}.*)", OPERATING)
    command = line.replace("redis://localhost:6379/1", app.conf.redisbeater_redis_url).replace("redisbeater:", prefix)

    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.strip() == expected
