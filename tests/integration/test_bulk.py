"""``ScheduleStore.bulk()``: many entries, a page at a time."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule
from due import UTC, ago, now, save_due, stored
from outbox import Sent, names, run_due, take
from support.definitions import definition_of
from support.ports import dead_port
from support.proxy import Proxy
from support.servers import Server

from redisbeater import (
    EditConflict,
    EntryNotFound,
    InvalidEntry,
    RedisScheduleEntry,
    RedisScheduler,
    ScheduleStore,
    StoreError,
    StoreUnavailable,
    clocked,
    cron,
    rrule,
)
from redisbeater.context import Context
from redisbeater.results import Bulk
from redisbeater.store import SAVE_PAGE, connection

MINUTE = timedelta(minutes=1)

#: More than one page, and the last one not full.
MANY = SAVE_PAGE * 2 + 7


@pytest.fixture
def entry(app: Celery) -> Callable[..., RedisScheduleEntry]:
    def entry(name: Any, schedule: Any = 60.0, task: str = "proj.work", **fields: Any) -> RedisScheduleEntry:
        return RedisScheduleEntry(name, task, schedule, app=app, **fields)

    return entry


Entry = Callable[..., RedisScheduleEntry]


def counts(bulk: Bulk) -> tuple[int, int, int, int]:
    return bulk.created, bulk.changed, bulk.unchanged, bulk.deleted


def fill(bulk: Bulk, *entries: RedisScheduleEntry) -> None:
    with bulk:
        for each in entries:
            bulk.save(each)


def everything(client: redis.Redis, prefix: str) -> dict[str, Any]:
    schedule = client.zrange(f"{prefix}:schedule", 0, -1, withscores=True)
    return {"schedule": schedule, **{key: client.hgetall(key) for key, _ in schedule}}


def test_many_entries_are_created_in_pages(store: ScheduleStore, entry: Entry) -> None:
    with store.bulk() as bulk:
        for number in range(MANY):
            bulk.save(entry(f"e{number}", 60.0 + number, args=[number]))

    assert counts(bulk) == (MANY, 0, 0, 0)
    assert store.count() == MANY
    last = store.get(f"e{MANY - 1}")
    assert (last.args, last.total_run_count, last.last_run_at) == ([MANY - 1], 0, None)
    assert last.due_at is not None
    assert timedelta() <= now() + timedelta(seconds=59 + MANY) - last.due_at < timedelta(seconds=30)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"enabled": False}, id="disabled"),
        pytest.param({"schedule": crontab(minute=5, hour="*/2"), "timezone": "Asia/Tokyo"}, id="crontab"),
        pytest.param({"schedule": clocked(datetime(2040, 1, 1, tzinfo=UTC)), "on_finish": "delete"}, id="one-off"),
        pytest.param({"start_at": datetime(2040, 1, 1, tzinfo=UTC), "jitter": 5, "max_runs": 3}, id="policies"),
        pytest.param({"last_run_at": datetime(2026, 1, 1, tzinfo=UTC), "total_run_count": 4}, id="has-run"),
        pytest.param({"args": ["ü \U0001f600", {"a\x00": None}], "kwargs": {"ß": 1.5}}, id="any-text"),
    ],
)
def test_an_entry_is_stored_as_its_own_save_would_store_it(
    store: ScheduleStore, entry: Entry, client: redis.Redis, prefix: str, fields: dict[str, Any]
) -> None:
    entry("report", **fields).save()
    saved = everything(client, prefix)
    store.delete("report")

    with store.bulk() as bulk:
        bulk.save(entry("report", **fields))

    assert counts(bulk) == (1, 0, 0, 0)
    stored_now = everything(client, prefix)
    [(_, score)], [(_, score_now)] = saved.pop("schedule"), stored_now.pop("schedule")
    assert stored_now == saved
    assert score_now == pytest.approx(score, abs=30)


@pytest.mark.parametrize("name", ["a b", "ü:{x}", "\u200d", "\U0001f600", "'\"\\/"])
def test_names_are_any_text(store: ScheduleStore, entry: Entry, name: str) -> None:
    with store.bulk() as bulk:
        bulk.save(entry(name))
        bulk.save(entry("report"))

    assert sorted(store.names()) == sorted([name, "report"])
    with store.bulk() as bulk:
        bulk.save(entry(name, args=[1]))
        bulk.delete("report")
    assert (counts(bulk), store.get(name).args, list(store.names())) == ((0, 1, 0, 1), [1], [name])


def test_entries_that_are_like_that_already_are_not_written(
    store: ScheduleStore, entry: Entry, client: redis.Redis, prefix: str
) -> None:
    entries = [entry(f"e{number}", args=[number]) for number in range(MANY)]
    with store.bulk() as bulk:
        for each in entries:
            bulk.save(each)
    before = everything(client, prefix)
    listener = client.pubsub()
    listener.subscribe(f"{prefix}:changes")
    assert listener.get_message(timeout=5)

    with store.bulk() as bulk:
        for each in entries:
            bulk.save(each)

    assert counts(bulk) == (0, 0, MANY, 0)
    assert everything(client, prefix) == before
    assert listener.get_message(timeout=0.05) is None
    listener.close()


def test_what_has_changed_is_written_and_the_rest_is_not(store: ScheduleStore, entry: Entry) -> None:
    with store.bulk() as bulk:
        for number in range(10):
            bulk.save(entry(f"e{number}"))

    with store.bulk() as bulk:
        for number in range(5, 15):
            bulk.save(entry(f"e{number}", args=[1] if number % 2 else []))

    assert counts(bulk) == (5, 3, 2, 0)
    assert [store.get(f"e{number}").args for number in (5, 6, 13, 14)] == [[1], [], [1], []]


def test_a_fire_time_moves_only_when_the_schedule_changed_and_counters_stay(
    app: Celery, store: ScheduleStore, entry: Entry, scheduler: RedisScheduler
) -> None:
    for name in ("args", "schedule"):
        save_due(app, name)
    assert names(run_due(scheduler)) == ["args", "schedule"]
    before = store.get("args")

    with store.bulk() as bulk:
        bulk.save(entry("args", args=[1]))
        bulk.save(entry("schedule", 3600.0))

    kept, moved = store.get("args"), store.get("schedule")
    assert (kept.due_at, kept.total_run_count, kept.last_run_at) == (before.due_at, 1, before.last_run_at)
    assert (moved.total_run_count, moved.due_at) == (1, moved.last_run_at + timedelta(hours=1))


def test_fields_that_another_program_wrote_stay(
    store: ScheduleStore, entry: Entry, client: redis.Redis, prefix: str
) -> None:
    saved = entry("report").save()
    definition = {**json.loads(client.hget(saved.key, "definition")), "owner": "data"}
    client.hset(saved.key, "definition", json.dumps(definition))

    with store.bulk() as bulk:
        bulk.save(entry("report", args=[1]))

    assert json.loads(client.hget(saved.key, "definition")) == {**definition, "args": [1]}


def test_a_broken_entry_is_repaired(
    store: ScheduleStore, entry: Entry, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 0})
    run_due(scheduler)
    assert "odd" in store.broken()

    with store.bulk() as bulk:
        bulk.save(entry("odd"))

    assert (counts(bulk), store.broken(), store.get("odd").task) == ((0, 1, 0, 0), {}, "proj.work")


def test_an_entry_that_is_listed_as_broken_is_written_though_it_is_the_same(
    app: Celery, store: ScheduleStore, entry: Entry
) -> None:
    entry("report").save()
    Context.of(app).redis.broken.report("report", "the moon is down")

    with store.bulk() as bulk:
        bulk.save(entry("report"))

    assert (counts(bulk), store.broken()) == ((0, 1, 0, 0), {})


# The fields that many entries share are checked and encoded once

#: Entries that are alike, but for one thing.
ALIKE: tuple[dict[str, Any], ...] = (
    {},
    {"schedule": 61.0},
    {"schedule": 60.000001},
    {"schedule": schedule(MINUTE, relative=True)},
    {"schedule": crontab(minute=1)},
    {"schedule": crontab(minute="1")},
    {"schedule": crontab(minute=[1, 2])},
    {"schedule": cron("1 * * * *", timezone="Asia/Tokyo")},
    {"schedule": rrule("DAILY", dtstart=datetime(2026, 1, 1, tzinfo=UTC))},
    {"schedule": clocked(datetime(2040, 1, 1, tzinfo=UTC))},
    {"task": "proj.other"},
    {"args": [1]},
    {"args": (1.0,)},
    {"args": [True]},
    {"kwargs": {"a": 1}},
    {"kwargs": {"a": {"b": [None]}}},
    {"options": {"priority": 1}},
    {"options": {"headers": {"a": True}}},
    {"options": {"expires": MINUTE}},
    {"options": {"headers": {"a": 1}}},
    {"enabled": False},
    {"timezone": "Asia/Tokyo"},
    {"start_at": datetime(2040, 10, 25, 2, 30)},
    {"start_at": datetime(2040, 10, 25, 2, 30, fold=1)},
    {"start_at": datetime(2040, 10, 25, 2, 30, tzinfo=UTC)},
    {"max_runs": 1},
    {"misfire_grace_time": 5},
    {"misfire_grace_time": 5.0},
    {"misfire_grace_time": None},
    {"jitter": 0},
    {"coalesce": "all"},
    {"on_finish": "disable"},
    {"description": "é"},
)


def test_entries_that_are_nearly_alike_are_each_stored_as_they_are(
    app: Celery, store: ScheduleStore, entry: Entry
) -> None:
    entries = [entry(f"e{number}", **fields) for number, fields in enumerate(ALIKE * 3)]
    random.Random(5).shuffle(entries)

    for _ in range(2):  # when they are new, and once more
        with store.bulk() as bulk:
            for each in entries:
                bulk.save(each)
        for each in entries:
            text = Context.of(app).redis.load(each.name).definition
            assert text == definition_of(each).to_text(Context.of(app).codec)

    assert counts(bulk) == (0, 0, len(entries), 0)


@pytest.mark.parametrize(
    ("good", "bad", "path"),
    [
        ({"enabled": True}, {"enabled": 1}, r"\$\.enabled"),
        ({"max_runs": 1}, {"max_runs": True}, r"\$\.max_runs"),
        ({"options": {}}, {"options": []}, r"\$\.options"),
        ({"options": {"priority": 1}}, {"options": {"priority": True}}, r"\$\.options\.priority"),
        ({"options": {"countdown": 1.0}}, {"options": {"countdown": float("inf")}}, r"\$\.options\.countdown"),
        ({"schedule": 60.0}, {"schedule": schedule(MINUTE, nowfun=now)}, r"\$\.schedule"),
        ({"schedule": crontab()}, {"schedule": crontab(nowfun=now)}, r"\$\.schedule"),
        ({}, {"args": {"a": 1}}, r"\$\.args"),
        ({}, {"kwargs": [1]}, r"\$\.kwargs"),
        ({}, {"args": 5}, r"\$\.args"),
    ],
    ids=str,
)
def test_an_entry_that_resembles_one_that_was_checked_is_checked_too(
    store: ScheduleStore, entry: Entry, good: dict[str, Any], bad: dict[str, Any], path: str | None
) -> None:
    with store.bulk() as bulk:
        bulk.save(entry("good", **good))
        with pytest.raises(InvalidEntry, match=f"^{path}") if path else nullcontext():
            bulk.save(entry("bad", **bad))


def test_an_object_may_be_used_for_one_entry_after_the_other(store: ScheduleStore, entry: Entry) -> None:
    headers = {"number": 0}
    each = entry("", options={"headers": headers}, args=[0])

    with store.bulk() as bulk:
        for number in (0, 1, 2, 0):
            each.name, each.args[0], headers["number"] = f"e{number}", number, number
            bulk.save(each)
            bulk.save(entry(f"{number} like the first", options={"headers": {"number": 0}}))

    for number in range(3):
        stored_entry = store.get(f"e{number}")
        assert (stored_entry.args, stored_entry.options) == ([number], {"headers": {"number": number}})
        assert store.get(f"{number} like the first").options == {"headers": {"number": 0}}


# Pages


def test_beat_is_notified_once_for_a_page(store: ScheduleStore, entry: Entry, client: redis.Redis, prefix: str) -> None:
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(f"{prefix}:changes")
    listener.get_message(timeout=5)

    with store.bulk() as bulk:
        for number in range(SAVE_PAGE + 1):
            bulk.save(entry(f"e{number}"))
    with store.bulk() as bulk:
        for number in range(SAVE_PAGE):
            bulk.delete(f"e{number}")

    heard = [message["data"] for message in iter(lambda: listener.get_message(timeout=0.2), None)]
    assert heard == [":several", f"e{SAVE_PAGE}", ":several"]
    listener.close()


def test_long_definitions_make_short_pages(store: ScheduleStore, entry: Entry) -> None:
    with store.bulk() as bulk:
        for number in range(3):
            bulk.save(entry(f"e{number}", args=["x" * 300_000]))
        assert store.count() == bulk.created == 2

    assert store.count() == 3


def test_waiting_changes_can_be_sent_at_once(store: ScheduleStore, entry: Entry) -> None:
    with store.bulk() as bulk:
        bulk.save(entry("report"))
        assert (store.count(), bulk.created) == (0, 0)
        bulk.flush()
        assert (store.count(), bulk.created) == (1, 1)


def test_a_block_that_ends_by_an_error_does_not_send_its_last_page(store: ScheduleStore, entry: Entry) -> None:
    with suppress(ZeroDivisionError), store.bulk() as bulk:
        for number in range(SAVE_PAGE + 5):
            bulk.save(entry(f"e{number}"))
        raise ZeroDivisionError

    assert store.count() == SAVE_PAGE


def test_a_bulk_takes_no_changes_outside_of_its_block(store: ScheduleStore, entry: Entry) -> None:
    with store.bulk() as bulk:
        pass
    for late in (bulk, store.bulk()):
        with pytest.raises(RuntimeError, match=r"with store\.bulk\(\) as bulk"):
            late.save(entry("report"))
        with pytest.raises(RuntimeError):
            late.delete("report")


def test_a_block_without_changes_writes_nothing(store: ScheduleStore, client: redis.Redis) -> None:
    with store.bulk() as bulk:
        pass

    assert (counts(bulk), client.keys()) == ((0, 0, 0, 0), [])


# Order


def test_the_changes_of_one_entry_are_written_in_their_order(store: ScheduleStore, entry: Entry) -> None:
    with store.bulk() as bulk:
        bulk.save(entry("a", args=[1]))
        bulk.save(entry("a", args=[2]))
        bulk.save(entry("b"))
        bulk.delete("b")
        bulk.delete("c")
        bulk.save(entry("c"))

    assert (store.get("a").args, sorted(store.names()), counts(bulk)) == ([2], ["a", "c"], (3, 1, 0, 1))


def test_an_entry_that_does_not_exist_can_be_deleted_and_is_not_counted(store: ScheduleStore, entry: Entry) -> None:
    entry("a").save()

    with store.bulk() as bulk:
        bulk.delete("a")
        bulk.delete("b")

    assert (store.count(), bulk.deleted) == (0, 1)
    with pytest.raises(EntryNotFound):
        store.get("a")


# Bad input


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"name": ":own"}, r"\$\.name", id="name"),
        pytest.param({"name": None}, r"\$\.name", id="no-name"),
        pytest.param({"task": ""}, r"\$\.task", id="task"),
        pytest.param({"schedule": 0}, r"\$\.schedule\.every", id="interval"),
        pytest.param({"args": [{1}]}, r"\$\.args\[0\]", id="args"),
        pytest.param({"kwargs": {"a": "\ud800"}}, r"\$\.kwargs\.a", id="no-unicode"),
        pytest.param({"jitter": -1}, r"\$\.jitter", id="policy"),
        pytest.param({"end_at": datetime(2020, 1, 1, tzinfo=UTC)}, r"\$\.end_at", id="never-fires"),
        pytest.param({"schedule": crontab(nowfun=now)}, r"\$\.schedule", id="own-clock"),
    ],
)
def test_bad_input_is_refused_at_once_and_the_others_are_stored(
    store: ScheduleStore, entry: Entry, fields: dict[str, Any], path: str
) -> None:
    with store.bulk() as bulk:
        bulk.save(entry("before"))
        with pytest.raises(InvalidEntry, match=f"^{path}"):
            bulk.save(entry(**{"name": "bad", **fields}))
        bulk.save(entry("after"))

    assert (sorted(store.names()), counts(bulk)) == (["after", "before"], (2, 0, 0, 0))


@pytest.mark.parametrize("name", ["", ":schedule", 5])
def test_an_invalid_name_is_not_deleted(store: ScheduleStore, name: Any) -> None:
    with store.bulk() as bulk, pytest.raises(InvalidEntry, match=r"^\$\.name: "):
        bulk.delete(name)


def test_an_entry_that_has_finished_may_be_upserted_again(
    app: Celery, store: ScheduleStore, entry: Entry, client: redis.Redis, prefix: str
) -> None:
    over = entry("over", end_at=ago(days=1))
    client.hset(over.key, "definition", definition_of(over).to_text(Context.of(app).codec))
    client.zadd(f"{prefix}:schedule", {over.key: -1})

    with store.bulk() as bulk:
        bulk.save(over)

    assert counts(bulk) == (0, 0, 1, 0)


def test_a_static_entry_that_would_delete_itself_is_refused_by_name_and_the_others_are_stored(
    app: Celery, store: ScheduleStore, entry: Entry, scheduler: RedisScheduler
) -> None:
    app.conf.beat_schedule = {"static": {"task": "proj.work", "schedule": 60.0}}
    scheduler.setup_schedule()

    bulk = store.bulk()

    with pytest.raises(InvalidEntry, match=r"^\$\.on_finish: .*; the entry is 'static'$"):
        fill(bulk, entry("before"), entry("static", on_finish="delete", max_runs=1), entry("after"))

    assert {"before", "after"} < set(store.names())
    assert (bulk.created, store.get("static").on_finish) == (2, "keep")


def test_a_key_that_holds_something_else_does_not_hold_up_the_others(
    store: ScheduleStore, entry: Entry, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}odd", "a text")

    with pytest.raises(StoreError, match="WRONGTYPE: the key of 'odd'"):
        fill(store.bulk(), *map(entry, ("a", "odd", "z")))

    assert (sorted(store.names()), client.get(f"{prefix}odd")) == (["a", "z"], "a text")
    client.delete(f"{prefix}odd")


# Other writers at the same time


class Gong(BaseSchedule):
    """A custom schedule that does something whenever it is encoded, so also between a read and a write."""

    meanwhile: list[Callable[[], Any]] = []  # noqa: RUF012

    def to_redisbeater(self) -> str:
        for act in list(Gong.meanwhile):
            act()
        return "gong"

    @classmethod
    def from_redisbeater(cls, data: str) -> Gong:
        return cls()

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return timedelta(hours=1)


class Moody(Gong):
    """Raises when it is asked for its next fire time."""

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        raise ZeroDivisionError("the moon is down")


@pytest.fixture
def gong_app(make_app: Callable[..., Celery]) -> Iterator[Celery]:
    yield make_app(redisbeater_schedule_classes=[f"{cls.__module__}.{cls.__qualname__}" for cls in (Gong, Moody)])
    Gong.meanwhile.clear()


def test_an_entry_that_was_changed_between_read_and_write_is_read_and_edited_again(
    gong_app: Celery, client: redis.Redis, prefix: str
) -> None:
    store = ScheduleStore(gong_app)
    saved = RedisScheduleEntry("report", "proj.work", Gong(), app=gong_app).save()
    gong = RedisScheduleEntry("report", "proj.work", Gong(), args=[1], app=gong_app)
    meta = json.dumps({"last_run_at": None, "total_run_count": 7})

    with store.bulk() as bulk:
        bulk.save(gong)
        bulk.save(RedisScheduleEntry("other", "proj.work", 60, app=gong_app))
        Gong.meanwhile.append(lambda: client.hset(saved.key, "meta", meta))

    entry = store.get("report")
    assert (entry.args, entry.total_run_count, bulk.changed, bulk.created) == ([1], 7, 1, 1)


def test_an_entry_that_others_never_stop_changing_is_reported_and_the_rest_of_its_page_is_stored(
    gong_app: Celery, client: redis.Redis, prefix: str
) -> None:
    store = ScheduleStore(gong_app)
    saved = RedisScheduleEntry("report", "proj.work", Gong(), app=gong_app).save()

    gong = RedisScheduleEntry("report", "proj.work", Gong(), args=[1], app=gong_app)
    Gong.meanwhile.append(lambda: client.hset(saved.key, "meta", json.dumps({"noise": uuid.uuid4().hex})))

    with pytest.raises(EditConflict, match="other programs changed 'report' 20 times"):
        fill(store.bulk(), gong, RedisScheduleEntry("other", "proj.work", 60, app=gong_app))

    Gong.meanwhile.clear()
    assert (store.get("report").args, store.get("other").task) == ([], "proj.work")


def test_a_custom_schedule_that_raises_is_refused_at_once(gong_app: Celery) -> None:
    store = ScheduleStore(gong_app)

    with store.bulk() as bulk:
        with pytest.raises(InvalidEntry, match=r"^\$\.schedule: ZeroDivisionError: "):
            bulk.save(RedisScheduleEntry("bad", "proj.work", Moody(), app=gong_app))
        bulk.save(RedisScheduleEntry("good", "proj.work", Gong(), app=gong_app))

    assert list(store.names()) == ["good"]


def test_bulks_at_the_same_time_create_each_entry_once(app: Celery) -> None:
    barrier = threading.Barrier(4)

    def fill(number: int) -> Bulk:
        barrier.wait(10)
        with ScheduleStore(app).bulk() as bulk:
            for each in range(MANY):
                bulk.save(RedisScheduleEntry(f"e{each}", "proj.work", 60.0, args=[number], app=app))
        return bulk

    with ThreadPoolExecutor(4) as pool:
        bulks = list(pool.map(fill, range(4)))

    assert sum(bulk.created for bulk in bulks) == MANY
    assert all(sum(counts(bulk)) == MANY for bulk in bulks)


def test_runs_that_beat_sends_meanwhile_are_all_counted(
    app: Celery, store: ScheduleStore, scheduler: RedisScheduler
) -> None:
    each = [f"e{number}" for number in range(10)]
    for name in each:
        store.create(name, "proj.work", 0.05, coalesce="all")
    done = threading.Event()

    def edit() -> int:
        edits = 0
        while not done.is_set():
            edits += 1
            with ScheduleStore(app).bulk() as bulk:
                for name in each:
                    bulk.save(RedisScheduleEntry(name, "proj.work", 0.05, coalesce="all", args=[edits], app=app))
        return edits

    sent: list[Sent] = []
    with ThreadPoolExecutor(1) as pool:
        editor = pool.submit(edit)
        try:
            while len(sent) < 300:
                scheduler.tick()
                sent += take(app)
        finally:
            done.set()
        edits = editor.result(20)

    counted = Counter(run.name for run in sent)
    for name in each:
        assert (stored(app, name).args, stored(app, name).total_run_count) == ([edits], counted[name])


# Redis that fails


def test_a_page_whose_reply_was_lost_is_sent_again_and_does_no_harm(
    server: Server, make_app: Callable[..., Celery], client: redis.Redis, prefix: str
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(redisbeater_redis_options={"socket_timeout": 0.3})
        app.conf.redisbeater_redis_url = f"redis://127.0.0.1:{proxy.port}/0"
        store = ScheduleStore(app)
        save_due(app, "report")
        due_at = store.get("report").due_at
        lost = proxy.lose_reply(b"proj.lost")

        with store.bulk() as bulk:
            for name in ("report", "new"):
                bulk.save(RedisScheduleEntry(name, "proj.lost", 60.0, app=app))

        assert lost.is_set()
        assert sum(counts(bulk)) == 2
        assert [store.get(name).task for name in ("report", "new")] == ["proj.lost"] * 2
        assert store.get("report").due_at == due_at


def test_without_redis_changes_go_on_waiting_and_are_sent_later(
    server: Server, make_app: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RETRY_SECONDS", 0.1)
    with Proxy(server.port) as proxy:
        app = make_app()
        app.conf.redisbeater_redis_url = f"redis://127.0.0.1:{proxy.port}/0"
        store = ScheduleStore(app)
        with store.bulk() as bulk:
            bulk.save(RedisScheduleEntry("report", "proj.work", 60.0, app=app))
            proxy.refuse()
            with pytest.raises(StoreUnavailable):
                bulk.flush()
            proxy.heal()

        assert (bulk.created, store.count()) == (1, 1)


def test_a_bulk_raises_when_redis_is_down(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_retry_period=0)
    app.conf.redisbeater_redis_url = f"redis://127.0.0.1:{dead_port()}/0"

    with pytest.raises(StoreUnavailable):
        fill(ScheduleStore(app).bulk(), RedisScheduleEntry("report", "proj.work", 60.0, app=app))
