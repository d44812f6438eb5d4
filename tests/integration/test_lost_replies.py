"""Writes whose reply is lost: each call says what is true, and does what it does once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import run_due
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import (
    EntryExists,
    EntryNotFound,
    RedisScheduleEntry,
    RedisScheduler,
    ScheduleStore,
    StoreUnavailable,
)
from redisbeater.context import Context
from redisbeater.store import connection

#: Part of the key under which a script keeps its answer: no call that only reads has it.
WRITE = b"::answer:"

#: Edits of each kind while a neighbour kills connections.
EDITS = 100


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def proxied(make_app: Callable[..., Celery], proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Celery:
    """An app behind the proxy, which waits a moment for an answer, and asks again for as long as a test may take."""
    monkeypatch.setattr(connection, "RETRY_SECONDS", WAIT_SECONDS)
    url = f"redis://{LOOPBACK}:{proxy.port}/0"
    return make_app(redisbeater_redis_url=url, redisbeater_redis_options={"socket_timeout": 0.3})


@pytest.fixture
def store(proxied: Celery) -> ScheduleStore:
    return ScheduleStore(proxied)


@contextmanager
def lost_reply(proxy: Proxy) -> Iterator[None]:
    """Lose the reply to the next write."""
    lost = proxy.lose_reply(WRITE)
    yield
    assert lost.is_set()


def test_a_creation_whose_reply_is_lost_says_that_it_created_the_entry(store: ScheduleStore, proxy: Proxy) -> None:
    with lost_reply(proxy):
        entry = store.create("report", "proj.work", 60.0, args=[1])

    assert (entry.args, entry.due_at) == (store.get("report").args, store.get("report").due_at)
    with pytest.raises(EntryExists):
        store.create("report", "proj.work", 60.0, args=[1])


def test_an_entry_that_exists_is_reported_also_when_that_reply_is_lost(store: ScheduleStore, proxy: Proxy) -> None:
    store.create("report", "proj.work", 60.0)
    proxy.lose_reply(b"proj.work")

    with pytest.raises(EntryExists):
        store.create("report", "proj.work", 60.0)


def test_a_deletion_whose_reply_is_lost_says_that_it_deleted_the_entry(store: ScheduleStore, proxy: Proxy) -> None:
    store.create("report", "proj.work", 60.0)

    with lost_reply(proxy):
        store.delete("report")

    with pytest.raises(EntryNotFound):
        store.get("report")


def test_a_missing_entry_is_reported_also_when_that_reply_is_lost(store: ScheduleStore, proxy: Proxy) -> None:
    with lost_reply(proxy), pytest.raises(EntryNotFound):
        store.delete("report")


def test_a_deletion_that_is_tried_again_spares_an_entry_that_was_created_since(
    store: ScheduleStore, app: Celery, proxy: Proxy
) -> None:
    store.create("report", "proj.work", 60.0, args=["old"])
    lost = proxy.lose_reply(WRITE)
    deletion = threading.Thread(target=store.delete, args=("report",))
    deletion.start()
    assert lost.wait(WAIT_SECONDS)
    proxy.refuse()

    wait_until(lambda: ScheduleStore(app).count() == 0, "the deletion")
    ScheduleStore(app).create("report", "proj.work", 60.0, args=["new"])
    proxy.heal()
    deletion.join(WAIT_SECONDS)

    assert stored(app, "report").args == ["new"]


EDIT_CALLS: list[Any] = [
    pytest.param(lambda store, entry: store.update("report", args=[2]), id="update"),
    pytest.param(lambda store, entry: store.enable("report"), id="enable"),
    pytest.param(lambda store, entry: store.disable("report"), id="disable"),
    pytest.param(lambda store, entry: store.record_execution("report"), id="executed"),
    pytest.param(lambda store, entry: store.save(entry), id="upsert"),
    pytest.param(lambda store, entry: entry.reschedule(), id="reschedule"),
]


@pytest.mark.parametrize("edit", EDIT_CALLS)
def test_an_edit_whose_reply_is_lost_returns_the_entry_as_it_is_stored(
    store: ScheduleStore, proxy: Proxy, edit: Callable[[ScheduleStore, RedisScheduleEntry], RedisScheduleEntry]
) -> None:
    entry = store.create("report", "proj.work", 60.0, args=[1])
    entry.args = [3]

    with lost_reply(proxy):
        returned = edit(store, entry)

    found = store.get("report")
    for field in ("args", "enabled", "due_at", "last_run_at", "total_run_count"):
        assert getattr(returned, field) == getattr(found, field)


def test_a_bulk_counts_pages_whose_replies_are_lost_as_they_were_written(
    store: ScheduleStore, proxied: Celery, proxy: Proxy
) -> None:
    for name in ("changed", "unchanged", "deleted"):
        store.create(name, "proj.work", 60.0)

    with store.bulk() as bulk:
        bulk.save(RedisScheduleEntry("created", "proj.work", 60.0, app=proxied))
        bulk.save(RedisScheduleEntry("changed", "proj.work", 60.0, args=[1], app=proxied))
        bulk.save(RedisScheduleEntry("unchanged", "proj.work", 60.0, app=proxied))
        with lost_reply(proxy):
            bulk.flush()
        bulk.delete("deleted")
        with lost_reply(proxy):
            bulk.flush()

    assert (bulk.created, bulk.changed, bulk.unchanged, bulk.deleted) == (1, 1, 1, 1)


def test_a_quarantine_whose_reply_is_lost_is_logged(
    proxied: Celery,
    proxy: Proxy,
    make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = make_scheduler(proxied)
    scheduler.tick()
    client.hset(f"{prefix}broken", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}broken": 0})

    with lost_reply(proxy):
        run_due(scheduler)

    assert [record for record in caplog.records if "is broken, quarantined it" in record.message]


@pytest.mark.parametrize("fields", [{}, {"max_runs": 1, "on_finish": "delete"}], ids=["planned", "finished"])
def test_a_commit_whose_reply_is_lost_is_no_run_that_may_come_again(
    proxied: Celery,
    proxy: Proxy,
    make_scheduler: Callable[..., RedisScheduler],
    caplog: pytest.LogCaptureFixture,
    fields: dict[str, Any],
) -> None:
    scheduler = make_scheduler(proxied)
    save_due(proxied, "report", **fields)
    lost = proxy.lose_reply(b'"total_run_count"')

    runs = run_due(scheduler)

    assert [run.name for run in runs] == ["report"]
    assert lost.is_set()
    assert "may be sent again" not in caplog.text


@contextmanager
def killed_connections(client: redis.Redis, server: Server) -> Iterator[None]:
    """Kill the connections of all other clients, again and again; a call gets through now and then."""
    ended, pauses = threading.Event(), random.Random(0)
    killer = server.client(0)

    def kill() -> None:
        while not ended.wait(pauses.uniform(0.002, 0.02)):
            with suppress(redis.RedisError):
                killer.client_kill_filter(_type="normal", skipme=True)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        killer.close()


def test_a_line_of_a_log_whose_reply_is_lost_counts_once(store: ScheduleStore, proxied: Celery, proxy: Proxy) -> None:
    store.create("report", "proj.work", 60.0)
    log = Context.of(proxied).redis.log

    lost = proxy.lose_reply(b"triggered")
    store.trigger("report")
    assert lost.is_set()
    lost = proxy.lose_reply(b"leading")
    log.add("leading", beat="web1:4121")
    assert lost.is_set()

    assert [(line.what, line.count) for line in store.log("report")] == [("triggered", 1), ("created", 1)]
    assert [(line.what, line.count) for line in store.log()] == [("leading", 1)]
    log.add("leading", beat="web1:4121")
    assert store.log()[0].count == 2


def later(hours: float = 1) -> datetime:
    return datetime.now(timezone.utc) + timedelta(hours=hours)


CHANGES_OF_DELAYS: list[Any] = [
    pytest.param(lambda delays: delays.cancel(["a", "none"]), [], id="cancel"),
    pytest.param(lambda delays: delays.move(["a", "none"], shift=timedelta(hours=1)), [1], id="move"),
    pytest.param(lambda delays: delays.send(["a", "none"]), [-1], id="send"),
]


@pytest.mark.parametrize(("change", "hours"), CHANGES_OF_DELAYS)
def test_a_change_of_delays_whose_reply_is_lost_is_made_once_and_told(
    store: ScheduleStore, proxied: Celery, proxy: Proxy, change: Callable[[Any], Any], hours: list[int]
) -> None:
    at = later()
    store.delays.cancel(["none"])  # so that the server knows both scripts: otherwise it is another reply that is lost
    store.delays.add(proxied.signature("proj.work"), at=at, id="a")

    with lost_reply(proxy):
        outcomes = change(store.delays)

    assert [(each.id, each.error is None) for each in outcomes] == [("a", True), ("none", False)]
    assert [round((delay.at - at) / timedelta(hours=1)) for delay in store.delays.list()] == hours


@pytest.mark.parametrize("hours", [-1, 1], ids=["is sent", "is cancelled"])
def test_a_kept_task_whose_reply_is_lost_is_not_kept_again_once_it_has_gone(
    store: ScheduleStore,
    app: Celery,
    proxied: Celery,
    proxy: Proxy,
    make_scheduler: Callable[..., RedisScheduler],
    hours: int,
) -> None:
    scheduler = make_scheduler(app)
    scheduler.tick()
    signature, at = proxied.signature("proj.work"), later(hours)
    store.delays.add(signature, at=later(), id="first")  # so that the server knows the script
    ScheduleStore(app).delays.cancel(["first"])
    lost = proxy.lose_reply(WRITE)
    adding = threading.Thread(target=lambda: store.delays.add(signature, at=at, id="a"))
    adding.start()
    assert lost.wait(WAIT_SECONDS)
    proxy.refuse()

    delays = ScheduleStore(app).delays
    wait_until(delays.list, "the delay")
    if hours > 0:
        delays.cancel(["a"])
    else:
        wait_until(lambda: scheduler.tick() and not delays.list(), "a beat that has sent it")
    proxy.heal()
    adding.join(WAIT_SECONDS)

    assert delays.list() == []


def test_creations_and_deletions_tell_the_truth_while_connections_are_killed(
    app: Celery, client: redis.Redis, server: Server
) -> None:
    store = ScheduleStore(app)
    wrong: list[str] = []
    unknown = 0
    with killed_connections(client, server):
        for number in range(EDITS):
            for call in (lambda name: store.create(name, "proj.work", 60.0), store.delete):
                try:
                    call(f"e{number}")
                except StoreUnavailable:
                    unknown += 1
                    break
                except (EntryExists, EntryNotFound) as exc:
                    wrong.append(repr(exc))

    assert wrong == []
    assert unknown < EDITS / 2
