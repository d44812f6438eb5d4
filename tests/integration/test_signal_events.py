"""Each signal is fired when its event happens, with what the documentation says; its line in the log has the same."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
from broker_site import counts
from celery import Celery, Task
from due import save_due
from outbox import run_due
from support.proxy import LOOPBACK, Proxy
from support.received import Received
from support.servers import Server
from support.waiting import wait_until

from redisbeater import LockNotOwnedError, RedisScheduleEntry, RedisScheduler, ScheduleStore, signals
from redisbeater.signals import run_dispatched, run_skipped

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    app = make_app(redisbeater_lock_key=None)

    @app.task(name="proj.one", shared=False)
    def one(only: int) -> None: ...

    return app


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[dict[str, Any]]]:
    """Return what the lines about an event have as data."""
    caplog.set_level(logging.INFO, "celery.beat")
    caplog.set_level(logging.DEBUG, "redisbeater")

    def of(event: str) -> list[dict[str, Any]]:
        found = [getattr(record, "redisbeater", {}) for record in caplog.records]
        json.dumps(found)
        return [facts for facts in found if facts.get("event") == event]

    return of


Lines = Callable[[str], list[dict[str, Any]]]


def is_now(moment: datetime) -> bool:
    return abs(moment - datetime.now(timezone.utc)) < timedelta(minutes=5) and moment.utcoffset() == timedelta(0)


# Runs


def test_a_run_is_reported_when_it_is_recorded(
    app: Celery, scheduler: RedisScheduler, received: Received, lines: Lines
) -> None:
    recorded: list[int] = []

    @run_dispatched.connect
    def look(sender: str, **_: Any) -> None:
        recorded.extend(counts(app, sender))

    save_due(app, "report", late=2.0, args=["x"])
    [sent] = run_due(scheduler)

    assert recorded == [1]
    [run] = received.of("run_dispatched")
    assert (run["run_id"], run["fire_time"], run["kind"]) == (sent.id, sent.fire_time, "schedule")
    assert 2.0 <= run["late"] < 60.0
    assert (run["entry"].name, run["entry"].args, run["entry"].options["task_id"]) == ("report", ["x"], sent.id)
    [line] = lines("run_dispatched")
    assert line.items() >= {"name": "report", "task": "proj.work", "run_id": sent.id, "kind": "schedule"}.items()
    assert (datetime.fromisoformat(line["fire_time"]), line["late"] >= 2.0) == (sent.fire_time, True)


def test_skipped_fire_times_are_reported_by_reason(
    app: Celery, scheduler: RedisScheduler, received: Received, lines: Lines
) -> None:
    save_due(app, "report", late=150.0, every=60.0, coalesce="latest")
    [sent] = run_due(scheduler)

    [skip] = received.of("run_skipped")
    assert (skip["name"], skip["reason"], skip["count"]) == ("report", "coalesced", 2)
    assert skip["first"] < skip["last"] < sent.fire_time
    expected = {**skip, "first": skip["first"].isoformat(), "last": skip["last"].isoformat()}
    assert lines("run_skipped") == [{"event": "run_skipped", **expected}]


def test_a_run_that_cannot_be_sent_is_reported_with_each_try_until_it_is(
    app: Celery, scheduler: RedisScheduler, received: Received, lines: Lines
) -> None:
    save_due(app, "argc", "proj.one", args=[1, 2])
    wait_until(lambda: scheduler.tick() is not None and len(received.of("run_refused")) >= 2, "the second try")
    ScheduleStore(app).update("argc", args=[1])
    wait_until(lambda: scheduler.tick() is not None and received.of("run_dispatched"), "the run")

    first, second = received.of("run_refused")[:2]
    assert (first["name"], first["tries"], second["tries"]) == ("argc", 1, 2)
    assert "takes 1 positional argument" in str(first["error"])
    assert is_now(first["next_try"])
    assert [facts["tries"] for facts in lines("run_refused")][:2] == [1, 2]
    assert received.of("entry_failing") == [{"name": "argc", "reason": f"TypeError: {first['error']}"}]
    assert received.of("entry_fixed") == [{"name": "argc", "reason": "sent"}]
    assert lines("entry_fixed") == [{"event": "entry_fixed", "name": "argc", "reason": "sent"}]


def test_a_run_is_reported_as_it_was_sent_though_its_entry_was_edited_meanwhile(
    app: Celery, scheduler: RedisScheduler, received: Received
) -> None:
    class Edited(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            ScheduleStore(app).update("report", args=["new"], options={"queue": "other"})
            return super().apply_async(args, kwargs, **options)

    @app.task(name="proj.edited", base=Edited, shared=False)
    def edited(argument: str) -> None: ...

    save_due(app, "report", "proj.edited", args=["old"])
    [sent] = run_due(scheduler)

    [run] = received.of("run_dispatched")
    assert sent.args == run["entry"].args == ["old"]
    assert run["entry"].options.get("queue") is None
    assert ScheduleStore(app).get("report").args == ["new"]


def test_a_receiver_that_raises_costs_no_run(app: Celery, scheduler: RedisScheduler) -> None:
    seen: list[str] = []

    @run_dispatched.connect
    @run_skipped.connect
    def failing(sender: str, **_: Any) -> None:
        seen.append(sender)
        raise RuntimeError("the chat is down")

    for name in ("a", "b"):
        save_due(app, name, late=150.0)
    sent = run_due(scheduler)

    assert len(sent) == 2
    assert counts(app, "a", "b") == [1, 1]
    assert sorted(seen) == ["a", "a", "b", "b"]


def test_a_batch_without_receivers_makes_nothing_of_its_runs(
    app: Celery, scheduler: RedisScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("a signal without receivers was sent")

    for name in ("run_dispatched", "run_skipped"):
        monkeypatch.setattr(getattr(signals, name), "send", fail)
    save_due(app, "report", late=150.0)

    assert len(run_due(scheduler)) == 1


# Entries


def test_each_change_of_an_entry_is_reported_where_it_is_made(app: Celery, received: Received, lines: Lines) -> None:
    store = ScheduleStore(app)
    store.create("report", "proj.work", 60, by="ann")
    store.update("report", args=[1], kwargs={"to": "all"}, by="ann")
    store.update("report", args=[1], by="ann")
    store.disable("report", by="bob")
    store.enable("report", by="bob")
    store.rename("report", "summary", by="ann")
    store.delete("summary", by="ann")
    store.restore("summary", by="ann")

    changes = [{**dict.fromkeys(("renamed_from",), ""), **each} for each in received.of("entry_changed")]
    assert [(each["name"], each["change"], each["fields"], each["by"]) for each in changes] == [
        ("report", "created", [], "ann"),
        ("report", "changed", ["args", "kwargs"], "ann"),
        ("report", "disabled", ["enabled"], "bob"),
        ("report", "enabled", ["enabled"], "bob"),
        ("summary", "renamed", ["name"], "ann"),
        ("summary", "deleted", [], "ann"),
        ("summary", "restored", [], "ann"),
    ]
    assert [each["renamed_from"] for each in changes if each["change"] == "renamed"] == ["report"]
    assert lines("entry_changed") == [{"event": "entry_changed", **each} for each in changes]


def test_bulk_changes_are_reported_entry_by_entry(app: Celery, received: Received) -> None:
    store = ScheduleStore(app)
    store.create("old", "proj.work", 60)
    store.create("changed", "proj.work", 60)
    with store.bulk() as bulk:
        bulk.save(RedisScheduleEntry("new", "proj.work", 60, app=app))
        bulk.save(RedisScheduleEntry("changed", "proj.work", 60, args=[1], app=app))
        bulk.save(RedisScheduleEntry("other", "proj.work", 60, app=app))
        bulk.delete("old")

    reported = {each["name"]: each["change"] for each in received.of("entry_changed")}
    assert reported == {"old": "deleted", "changed": "changed", "new": "created", "other": "created"}


def test_what_beat_records_is_no_change(app: Celery, scheduler: RedisScheduler, received: Received) -> None:
    entry = save_due(app, "report")
    received.all.clear()
    run_due(scheduler)
    entry.record_execution()

    assert received.of("run_dispatched")
    assert received.of("entry_changed") == []


def test_static_entries_are_reported_by_the_beat_that_stores_them(
    make_app: MakeApp, make_scheduler: MakeScheduler, received: Received, lines: Lines
) -> None:
    declared = {"good": {"task": "proj.work", "schedule": 60}, "bad": {"task": "proj.work", "schedule": float("nan")}}
    app = make_app(beat_schedule=declared)
    make_scheduler(app).tick()

    assert received.senders("entry_changed") == ["good"]
    assert received.of("entry_changed")[0]["by"] == "code of proj"
    [broken] = received.of("entry_broken")
    assert (broken["name"], broken["reason"].partition(":")[0]) == ("bad", "$.schedule.every")
    assert lines("entry_broken") == [{"event": "entry_broken", **broken}]


def test_an_entry_that_cannot_be_read_is_broken_until_it_is_saved(
    app: Celery, client: redis.Redis, prefix: str, scheduler: RedisScheduler, received: Received, lines: Lines
) -> None:
    client.hset(f"{prefix}report", "definition", '{"task": 7}')
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": 1})
    run_due(scheduler)
    [broken] = received.of("entry_broken")
    assert (broken["name"], broken["reason"].startswith("$")) == ("report", True)
    assert lines("entry_broken") == [{"event": "entry_broken", **broken}]

    RedisScheduleEntry("report", "proj.work", 60, app=app).save()

    assert received.of("entry_fixed") == [{"name": "report", "reason": "saved"}]


# Beat, and what it needs


def test_a_beat_reports_that_it_leads_stands_by_and_ends(
    make_app: MakeApp, make_scheduler: MakeScheduler, prefix: str, received: Received
) -> None:
    app = make_app()
    first, second = make_scheduler(app), make_scheduler(app)
    first.tick()
    second.tick()
    second.tick()
    first.close()
    second.tick()

    roles = [(each["previous"], each["role"]) for each in received.of("lead_changed")]
    assert roles == [("", "leader"), ("", "standby"), ("leader", "ended"), ("standby", "leader")]
    assert received.of("lead_changed")[0]["token"] != received.of("lead_changed")[1]["token"]
    assert set(received.senders("lead_changed")) == {prefix}


def test_a_leader_whose_lock_was_taken_reports_that_it_lost_it(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, received: Received
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_lock_timeout=3.0))
    scheduler.tick()
    client.set(f"{prefix}:lock", "another", px=60_000)

    with pytest.raises(LockNotOwnedError):
        wait_until(lambda: scheduler.tick() is None, "the end")

    assert [each["role"] for each in received.of("lead_changed")] == ["leader", "lost"]


def test_without_a_lock_a_beat_is_active(scheduler: RedisScheduler, received: Received, lines: Lines) -> None:
    scheduler.tick()

    assert received.of("lead_changed") == [{"role": "active", "token": "", "previous": ""}]
    assert lines("lead_changed") == [{"event": "lead_changed", "role": "active", "token": ""}]


def test_a_pause_is_reported_where_it_is_made_and_where_it_is_found(
    app: Celery, scheduler: RedisScheduler, received: Received, lines: Lines
) -> None:
    store = ScheduleStore(app)
    store.pause(by="ann", note="migration")
    scheduler.tick()
    scheduler.tick()
    store.resume(by="bob")
    scheduler.tick()

    assert received.of("schedule_paused") == [{"by": "ann", "note": "migration"}] * 2
    assert received.of("schedule_resumed") == [{"by": "bob", "note": ""}, {"by": "", "note": ""}]
    assert [len(lines(event)) for event in ("schedule_paused", "schedule_resumed")] == [1, 1]


def test_an_outage_of_redis_is_reported_when_it_begins_and_when_it_ends(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, received: Received, lines: Lines
) -> None:
    scheduler = make_scheduler(make_app())
    scheduler.tick()
    client.delete(f"{prefix}:schedule")
    client.set(f"{prefix}:schedule", "nonsense")
    wait_until(lambda: scheduler.tick() is not None and received.of("redis_away"), "the outage")
    client.delete(f"{prefix}:schedule")
    wait_until(lambda: scheduler.tick() is not None and received.of("redis_back"), "the end of the outage")

    [away], [back] = received.of("redis_away"), received.of("redis_back")
    assert (away["seconds"], "WRONGTYPE" in away["error"]) == (0.0, True)
    assert (back["seconds"] > 0, back["error"]) == (True, away["error"])
    assert [len(lines(event)) for event in ("redis_away", "redis_back")] == [1, 1]


def test_an_outage_of_the_broker_is_reported_when_it_begins_and_when_it_ends(
    make_app: MakeApp, make_scheduler: MakeScheduler, server: Server, received: Received, lines: Lines
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(broker_url=f"redis://{LOOPBACK}:{proxy.port}/1", redisbeater_publish_timeout=1)
        scheduler = make_scheduler(app)
        proxy.refuse()
        save_due(app, "report")
        wait_until(lambda: scheduler.tick() is not None and received.of("broker_away"), "the outage")
        proxy.heal()
        wait_until(lambda: scheduler.tick() is not None and received.of("run_dispatched"), "the run")

    [away], [back] = received.of("broker_away"), received.of("broker_back")
    assert (away["seconds"], bool(away["error"])) == (0.0, True)
    assert (back["seconds"] > 0, back["error"]) == (True, away["error"])
    assert [len(lines(event)) for event in ("broker_away", "broker_back")] == [1, 1]
