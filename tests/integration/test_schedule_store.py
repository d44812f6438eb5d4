"""``ScheduleStore``: entries created, read and changed by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery._state import get_current_app
from celery.schedules import crontab, schedule
from due import UTC, ago, now, save_due, stored
from outbox import Sent, names, run_due, take
from support.ports import dead_port

from redisbeater import (
    INHERIT,
    EntryExists,
    EntryNotFound,
    InvalidEntry,
    RedisScheduleEntry,
    RedisScheduler,
    ScheduleStore,
    StoreUnavailable,
)
from redisbeater.context import Context
from redisbeater.management.shown_entries import read_views

MINUTE = timedelta(minutes=1)

#: A value for each field that an entry has beside name, task and schedule.
FIELDS: dict[str, Any] = {
    "args": [1, "two"],
    "kwargs": {"three": 3},
    "options": {"queue": "reports", "priority": 4},
    "enabled": True,
    "timezone": "Asia/Tokyo",
    "start_at": datetime(2030, 1, 1, tzinfo=UTC),
    "end_at": datetime(2040, 1, 1, tzinfo=UTC),
    "max_runs": 7,
    "on_finish": "disable",
    "misfire_grace_time": 30.0,
    "coalesce": "all",
    "jitter": 5.0,
    "description": "the monthly one",
}


# create


def test_a_store_can_be_built_while_redis_is_down(make_app: Callable[..., Celery]) -> None:
    app = make_app()
    app.conf.redisbeater_redis_url = f"redis://127.0.0.1:{dead_port()}/0"
    store = ScheduleStore(app)

    with pytest.raises(StoreUnavailable):
        store.count()


def test_an_entry_is_created_with_all_its_fields(store: ScheduleStore) -> None:
    created = store.create("report", "proj.report", crontab(minute=5), **FIELDS)

    for entry in (created, store.get("report")):
        assert (entry.name, entry.task, entry.schedule) == ("report", "proj.report", crontab(minute=5))
        assert {name: getattr(entry, name) for name in FIELDS} == FIELDS
        assert (entry.total_run_count, entry.last_run_at, entry.due_at) == (0, None, created.due_at)


@pytest.mark.parametrize("every", [60, 60.0, timedelta(minutes=1)], ids=["int", "float", "timedelta"])
def test_seconds_are_an_interval(store: ScheduleStore, every: Any) -> None:
    assert store.create("report", "proj.report", every).schedule == schedule(MINUTE)


def test_a_created_entry_runs(store: ScheduleStore, scheduler: RedisScheduler) -> None:
    store.create("report", "proj.report", 60.0, args=[1], last_run_at=ago(seconds=61))

    [run] = run_due(scheduler)

    assert (run.name, run.task, run.args) == ("report", "proj.report", [1])


def test_an_entry_that_exists_is_not_created(store: ScheduleStore, client: redis.Redis) -> None:
    entry = store.create("report", "proj.report", 60.0)
    before = client.hgetall(entry.key)

    with pytest.raises(EntryExists, match="an entry named 'report' exists in the schedule"):
        store.create("report", "proj.other", 5.0)

    assert client.hgetall(entry.key) == before


def test_an_entry_that_exists_and_is_broken_is_not_created_either(
    store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 4e9})

    with pytest.raises(EntryExists):
        store.create("odd", "proj.report", 60.0)

    assert client.hget(f"{prefix}odd", "definition") == "{"


def test_of_many_that_create_one_entry_at_once_one_succeeds(app: Celery) -> None:
    barrier = threading.Barrier(8)

    def create(number: int) -> bool:
        store = ScheduleStore(app)
        barrier.wait(10)
        try:
            store.create("report", "proj.report", 60.0, args=[number])
        except EntryExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(create, range(8)))

    assert created.count(True) == 1
    assert stored(app, "report").args == [created.index(True)]


@pytest.mark.parametrize(
    ("name", "task", "schedule_", "fields", "path"),
    [
        pytest.param("", "proj.work", 60, {}, r"\$\.name", id="empty-name"),
        pytest.param(":own", "proj.work", 60, {}, r"\$\.name", id="our-name"),
        pytest.param("a", "", 60, {}, r"\$\.task", id="task"),
        pytest.param("a", "proj.work", 0, {}, r"\$\.schedule", id="no-interval"),
        pytest.param("a", "proj.work", "every minute", {}, r"\$\.schedule", id="no-schedule"),
        pytest.param("a", "proj.work", 60, {"args": [{1}]}, r"\$\.args\[0\]", id="args"),
        pytest.param("a", "proj.work", 60, {"timezone": "Mars/Olympus"}, r"\$\.timezone", id="timezone"),
        pytest.param("a", "proj.work", 60, {"max_runs": 0}, r"\$\.max_runs", id="max_runs"),
        pytest.param("a", "proj.work", 60, {"max_runs": True}, r"\$\.max_runs", id="max_runs-bool"),
        pytest.param("a", "proj.work", 60, {"on_finish": "stay"}, r"\$\.on_finish", id="on_finish"),
        pytest.param("a", "proj.work", 60, {"on_finish": None}, r"\$\.on_finish", id="on_finish-none"),
        pytest.param("a", "proj.work", 60, {"coalesce": "some"}, r"\$\.coalesce", id="coalesce"),
        pytest.param("a", "proj.work", 60, {"jitter": float("nan")}, r"\$\.jitter", id="jitter"),
        pytest.param("a", "proj.work", 60, {"misfire_grace_time": 0}, r"\$\.misfire_grace_time", id="grace"),
        pytest.param("a", "proj.work", 60, {"description": 5}, r"\$\.description", id="description"),
        pytest.param(
            "a", "proj.work", 60,
            {"start_at": datetime(2030, 1, 2, tzinfo=UTC), "end_at": datetime(2030, 1, 1, tzinfo=UTC)},
            r"\$\.end_at", id="order",
        ),
        pytest.param(
            "a", "proj.work", 60, {"end_at": datetime(2020, 1, 1, tzinfo=UTC)}, r"\$\.end_at", id="in-the-past"
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_refused_by_the_name_of_its_field(
    store: ScheduleStore, name: str, task: str, schedule_: Any, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidEntry, match=f"^{path}"):
        store.create(name, task, schedule_, **fields)

    assert store.count() == 0


# update


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_can_be_updated_and_the_others_stay(store: ScheduleStore, name: str) -> None:
    value = not FIELDS[name] if name == "enabled" else FIELDS[name]
    before = store.create("report", "proj.report", 60.0)

    updated = store.update("report", **{name: value})

    for entry in (updated, store.get("report")):
        assert getattr(entry, name) == value
        assert {other: getattr(entry, other) for other in FIELDS if other != name} == {
            other: getattr(before, other) for other in FIELDS if other != name
        }


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("start_at", None), ("end_at", None), ("max_runs", None), ("on_finish", "keep"), ("coalesce", INHERIT),
        ("misfire_grace_time", INHERIT), ("jitter", INHERIT), ("description", ""), ("timezone", None),
    ],
)  # fmt: skip
def test_a_field_that_is_set_back_leaves_no_trace_in_the_definition(
    store: ScheduleStore, client: redis.Redis, name: str, default: Any
) -> None:
    plain = store.create("report", "proj.report", 60.0)
    before = client.hget(plain.key, "definition")
    store.update("report", **{name: FIELDS[name]})
    assert client.hget(plain.key, "definition") != before

    store.update("report", **{name: default})

    assert client.hget(plain.key, "definition") == before


def test_an_update_of_task_and_schedule_makes_them_new(store: ScheduleStore) -> None:
    store.create("report", "proj.report", 60.0)
    before = now()

    updated = store.update("report", task="proj.other", schedule=3600)

    assert (updated.task, updated.schedule) == ("proj.other", schedule(timedelta(hours=1)))
    assert updated.due_at is not None
    assert updated.due_at >= before + timedelta(hours=1)


def test_an_update_that_leaves_the_schedule_moves_no_fire_time_and_no_count(
    store: ScheduleStore, scheduler: RedisScheduler, app: Celery
) -> None:
    save_due(app, "report")
    run_due(scheduler)
    before = store.get("report")

    after = store.update("report", args=[9], coalesce="all", max_runs=5)

    assert (after.due_at, after.total_run_count, after.last_run_at) == (before.due_at, 1, before.last_run_at)


def test_an_update_keeps_fields_that_another_program_wrote(
    store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    entry = store.create("report", "proj.report", 60.0)
    definition = {**json.loads(client.hget(entry.key, "definition")), "owner": "data"}
    client.hset(entry.key, "definition", json.dumps(definition))

    store.update("report", args=[1])

    assert json.loads(client.hget(entry.key, "definition")) == {**definition, "args": [1]}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"colour": "red"}, r"\$\.colour: is not a field of an entry"),
        ({"arg": [1], "args": [1]}, r"\$\.arg: is not a field of an entry"),
        ({"extra": {}}, r"\$\.extra: is not a field of an entry"),
        ({"last_run_at": None}, r"\$\.last_run_at: is not a field of an entry"),
        ({"total_run_count": 5}, r"\$\.total_run_count: is not a field of an entry"),
        ({"args": "one"}, r"\$\.args: "),
        ({"enabled": "yes"}, r"\$\.enabled: "),
        ({"schedule": None}, r"\$\.schedule: "),
        ({"max_runs": -1}, r"\$\.max_runs: "),
        ({"coalesce": None}, r"\$\.coalesce: "),
        ({"jitter": None}, r"\$\.jitter: "),
        ({"args": [1], "jitter": -1}, r"\$\.jitter: "),
        ({"timezone": "Nowhere"}, r"\$\.timezone: "),
    ],
    ids=str,
)
def test_an_invalid_update_is_refused_by_field_and_changes_nothing(
    store: ScheduleStore, client: redis.Redis, changes: dict[str, Any], path: str
) -> None:
    entry = store.create("report", "proj.report", 60.0)
    before = client.hgetall(entry.key)

    with pytest.raises(InvalidEntry, match=f"^{path}"):
        store.update("report", **changes)

    assert client.hgetall(entry.key) == before


def test_an_update_of_an_entry_that_does_not_exist_is_an_error(store: ScheduleStore) -> None:
    with pytest.raises(EntryNotFound, match="no entry named 'nobody' in the schedule"):
        store.update("nobody", args=[1])
    assert store.count() == 0


def test_updates_of_different_fields_at_once_are_all_kept(app: Celery) -> None:
    ScheduleStore(app).create("report", "proj.report", 60.0)
    changes = [{name: FIELDS[name]} for name in ("args", "kwargs", "options", "max_runs", "coalesce", "description")]
    barrier = threading.Barrier(len(changes))

    def update(change: dict[str, Any]) -> None:
        store = ScheduleStore(app)
        for _ in range(5):
            barrier.wait(20)
            store.update("report", **change)

    with ThreadPoolExecutor(len(changes)) as pool:
        list(pool.map(update, changes))

    entry = stored(app, "report")
    for change in changes:
        for name, value in change.items():
            assert getattr(entry, name) == value


def test_updates_while_beat_runs_the_entry_lose_neither_runs_nor_edits(
    app: Celery, store: ScheduleStore, scheduler: RedisScheduler
) -> None:
    store.create("report", "proj.report", 0.01, coalesce="all")
    done = threading.Event()

    def edit() -> int:
        edits = 0
        while not done.is_set():
            edits += 1
            ScheduleStore(app).update("report", args=[edits])
        return edits

    sent: list[Sent] = []
    with ThreadPoolExecutor(1) as pool:
        editor = pool.submit(edit)
        try:
            while len(sent) < 200:
                scheduler.tick()
                sent += take(app)
        finally:
            done.set()
        edits = editor.result(20)

    entry = stored(app, "report")
    assert entry.args == [edits]
    assert entry.total_run_count == len(sent)
    times = [run.fire_time for run in sent]
    assert times == [times[0] + timedelta(seconds=0.01) * number for number in range(len(sent))]


# upsert, get, delete


def test_an_upsert_creates_and_then_changes(app: Celery, store: ScheduleStore) -> None:
    first = store.save(RedisScheduleEntry("report", "proj.report", 60.0, app=app))
    second = store.save(RedisScheduleEntry("report", "proj.report", 60.0, args=[1], app=app))

    assert (store.get("report").args, second.due_at) == ([1], first.due_at)
    assert store.count() == 1


def test_an_upsert_removes_policies_that_the_new_entry_does_not_have(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "proj.report", 60.0, max_runs=5, coalesce="all", jitter=3)

    store.save(RedisScheduleEntry("report", "proj.report", 60.0, app=app))

    entry = store.get("report")
    assert (entry.max_runs, entry.coalesce, entry.jitter) == (None, INHERIT, INHERIT)


def test_an_entry_that_does_not_exist_cannot_be_read_or_deleted(store: ScheduleStore) -> None:
    with pytest.raises(EntryNotFound):
        store.get("nobody")
    with pytest.raises(EntryNotFound):
        store.delete("nobody")
    with pytest.raises(KeyError):
        store.get("nobody")


@pytest.mark.parametrize("verb", ["get", "delete", "enable", "disable", "update", "record_execution", "upcoming"])
def test_an_invalid_name_is_refused_by_every_verb(store: ScheduleStore, verb: str) -> None:
    for name in ("", ":schedule", 5):
        with pytest.raises(InvalidEntry, match=r"^\$\.name: "):
            getattr(store, verb)(name)


def test_a_deleted_entry_is_gone(store: ScheduleStore, scheduler: RedisScheduler, app: Celery) -> None:
    save_due(app, "report")

    store.delete("report")

    assert (store.count(), list(store.names())) == (0, [])
    assert run_due(scheduler) == []
    with pytest.raises(EntryNotFound):
        store.get("report")


def test_a_broken_entry_is_an_error_to_read_and_can_be_deleted(
    store: ScheduleStore, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 0})
    run_due(scheduler)
    assert "odd" in store.broken()

    with pytest.raises(InvalidEntry):
        store.get("odd")
    store.delete("odd")

    assert store.broken() == {}


# enable, disable, executed


def test_a_disabled_entry_does_not_run_until_it_is_enabled(
    store: ScheduleStore, scheduler: RedisScheduler, app: Celery
) -> None:
    first = save_due(app, "report", late=30.0).due_at
    assert first is not None

    disabled = store.disable("report")
    sent_while_disabled = run_due(scheduler)
    enabled = store.enable("report")

    assert (disabled.enabled, disabled.due_at, sent_while_disabled) == (False, None, [])
    assert (enabled.enabled, enabled.due_at) == (True, first + MINUTE)


def test_an_execution_can_be_reported_by_name(store: ScheduleStore, app: Celery) -> None:
    save_due(app, "report")
    at = ago(seconds=5)

    entry = store.record_execution("report", at)

    assert (entry.name, entry.task, entry.last_run_at, entry.due_at) == ("report", "proj.work", at, at + MINUTE)
    assert store.record_execution("report").last_run_at > at


# names, count, broken


def test_names_and_count_are_of_all_entries_dormant_and_broken_ones_too(
    store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    assert (list(store.names()), store.count()) == ([], 0)
    for name in ("a", "b c", "ü:{x}"):
        store.create(name, "proj.work", 60.0)
    store.disable("a")
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})

    assert sorted(store.names()) == ["a", "b c", "odd", "ü:{x}"]
    assert store.count() == 4


def test_broken_entries_are_listed_with_the_reason(
    store: ScheduleStore, scheduler: RedisScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    definition = {"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}, "coalesce": "some"}
    client.hset(f"{prefix}odd", "definition", json.dumps(definition))
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 0})
    save_due(app, "good")

    assert names(run_due(scheduler)) == ["good"]

    assert store.broken() == {"odd": "$.coalesce: expected one of 'latest', 'earliest', 'all', got 'some'"}
    assert Context.of(app).redis.broken.reports()["odd"]["since"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_runs", "3"), ("max_runs", 0), ("start_at", "2030-01-01"), ("end_at", 5), ("jitter", -1),
        ("jitter", "5"), ("misfire_grace_time", 0.1), ("coalesce", 3), ("on_finish", "boom"), ("description", []),
    ],
)  # fmt: skip
def test_a_policy_that_another_program_wrote_badly_breaks_that_entry_alone(
    store: ScheduleStore,
    scheduler: RedisScheduler,
    app: Celery,
    client: redis.Redis,
    prefix: str,
    name: str,
    value: Any,
) -> None:
    definition = {"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}, name: value}
    client.hset(f"{prefix}odd", "definition", json.dumps(definition))
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 0})
    save_due(app, "good")

    assert names(run_due(scheduler)) == ["good"]
    assert store.broken()["odd"].startswith(f"$.{name}: ")


def test_a_policy_of_another_program_that_is_null_is_its_default(
    store: ScheduleStore, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    policies = dict.fromkeys(("start_at", "end_at", "max_runs", "on_finish", "coalesce", "jitter", "description"))
    definition = {"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}, **policies}
    client.hset(f"{prefix}raw", "definition", json.dumps(definition))
    client.zadd(f"{prefix}:schedule", {f"{prefix}raw": 0})

    assert names(run_due(scheduler)) == ["raw"]
    entry = store.get("raw")
    assert (entry.on_finish, entry.coalesce, entry.jitter, entry.description) == ("keep", INHERIT, INHERIT, "")


# Bounds


def test_naive_bounds_are_local_times_of_the_entry(store: ScheduleStore) -> None:
    start = datetime(2030, 6, 1, 9, 30)

    entry = store.create("report", "proj.report", 60.0, timezone="Asia/Tokyo", start_at=start)

    assert entry.due_at == start.replace(tzinfo=ZoneInfo("Asia/Tokyo"))
    assert store.get("report").start_at == start
    moved = store.update("report", timezone="America/New_York")
    assert moved.due_at == start.replace(tzinfo=ZoneInfo("America/New_York"))


def test_the_end_of_all_time_is_an_end_like_any_other(store: ScheduleStore) -> None:
    end_at = datetime.max.replace(tzinfo=UTC)

    entry = store.create("report", "proj.report", 60.0, timezone="America/New_York", end_at=end_at)

    assert entry.due_at is not None
    assert len(store.upcoming("report")) == 5


def test_a_store_of_the_current_app_needs_no_app(app: Celery) -> None:
    with bound_current(app):
        ScheduleStore().create("report", "proj.report", 60.0)

    assert stored(app, "report").task == "proj.report"


def test_a_store_that_is_older_than_its_app_finds_it_at_each_call(make_app: Callable[..., Celery]) -> None:
    store, first, second = ScheduleStore(), make_app("first"), make_app("second", redisbeater_key_prefix="t-second:")
    with bound_current(first):
        store.create("report", "proj.report", 60.0)
        pages = [[entry.name for entry in store.list().entries]]

        assert repr(store) == "<ScheduleStore of the app 'first'>"
    with bound_current(second):
        pages.append([entry.name for entry in store.list().entries])

        assert repr(store) == "<ScheduleStore of the app 'second'>"
    assert pages == [["report"], []]


@contextmanager
def bound_current(app: Celery) -> Iterator[None]:
    """Make an app the current one during a block."""
    before = get_current_app()
    app.set_current()
    try:
        yield
    finally:
        before.set_current()


# Arguments of other methods


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.health(max_late="x"), "^max_late: expected seconds or a timedelta"),
        (lambda store: store.health(require="all"), "^require: expected 'leader' or 'any', got 'all'"),
        (lambda store: store.log("a", 5.5), "^limit: expected a whole number from 1 to 10000, got 5.5"),
        (lambda store: store.simulate("2030-01-01"), "^start: expected a datetime, got '2030-01-01'"),
        (lambda store: store.upcoming(start="noon"), "^start: expected a datetime, got 'noon'"),
        (lambda store: store.history("a", since="noon"), "^since: expected a datetime, got 'noon'"),
        (
            lambda store: store.update("a", last_run_at=now()),
            r"^\$.last_run_at: .* or record_execution\(\)",
        ),
        (lambda store: store.save("a"), "^entry: expected a RedisScheduleEntry, got 'a'"),
    ],
)
def test_a_wrong_argument_is_named(store: ScheduleStore, call: Callable[[Any], Any], message: str) -> None:
    store.create("a", "proj.report", 60)

    with pytest.raises(ValueError, match=message):
        call(store)
    with pytest.raises(ValueError, match=r"^entry: expected a RedisScheduleEntry, got 5"), store.bulk() as bulk:
        bulk.save(5)  # type: ignore[arg-type]


def test_a_naive_time_is_in_the_zone_of_the_app(make_app: Callable[..., Celery]) -> None:
    app = make_app(timezone="Asia/Tokyo")
    store = ScheduleStore(app)
    store.create("a", "proj.report", crontab(hour=9, minute=0))
    local = datetime(2030, 1, 1, 9, 0)
    later, earlier = (now().astimezone(app.timezone).replace(tzinfo=None) + each for each in (MINUTE, -MINUTE))

    assert store.upcoming(start=local, limit=1)[0].fire_time == local.replace(tzinfo=app.timezone)
    assert len(store.history("a", before=later, since=earlier).items) == 1
    assert not store.history("a", since=later).items
    assert not store.history("a", before=earlier).items


def test_entries_are_found_by_a_task_as_by_its_name(app: Celery, store: ScheduleStore) -> None:
    @app.task(name="proj.report", shared=False)
    def report() -> None: ...

    store.create("a", report, 60)
    store.create("b", "proj.other", 60)

    assert [entry.name for entry in store.list(task=report)] == ["a"]
    assert [row.name for row in read_views(Context.of(app), task=report).entries] == ["a"]
    assert store.simulate(task=report).entries == 1


# What is there


def test_an_entry_exists_also_where_it_is_broken(
    store: ScheduleStore, client: redis.Redis, prefix: str, scheduler: RedisScheduler
) -> None:
    store.create("report", "proj.report", 3600)
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})
    run_due(scheduler)

    assert set(store.broken()) == {"odd"}
    assert [store.exists(name) for name in ("report", "odd", "other")] == [True, True, False]
    assert [name in store for name in ("report", "odd", "other")] == [True, True, False]
    assert sorted(store) == sorted(store.names())
    assert "report" in set(store)
    assert bool(store), "a store of an empty schedule is true, too"


def test_an_empty_store_is_true_and_has_no_length(store: ScheduleStore) -> None:
    sized: Any = store

    assert (bool(store), list(store), store.count()) == (True, [], 0)
    with pytest.raises(TypeError, match="no len"):
        len(sized)


def test_upsert_gives_fields_that_are_not_passed_their_defaults_and_keeps_the_counters(
    store: ScheduleStore, scheduler: RedisScheduler, app: Celery
) -> None:
    save_due(app, "report", "proj.report")
    run_due(scheduler)
    store.update("report", args=[1], max_runs=9, labels={"team": "a"})

    drafted = store.upsert("report", "proj.report", 60, args=[2], dry_run=True)
    assert (drafted.args, drafted.max_runs, drafted.labels) == ([2], None, {})
    assert (store.get("report").args, store.get("report").max_runs) == ([1], 9)

    written = store.upsert("report", "proj.report", 60, args=[2], note="why", by="anna")
    assert (written.args, written.max_runs, written.labels, written.total_run_count) == ([2], None, {}, 1)
    assert store.get("report") == written
    assert [line.details.get("note") for line in store.log("report", 1)] == ["why"]


def test_upsert_creates_what_is_not_there(store: ScheduleStore) -> None:
    assert store.upsert("new", "proj.report", 60, dry_run=True).due_at is not None
    assert "new" not in store

    assert store.upsert("new", "proj.report", 60).total_run_count == 0
    assert "new" in store


def test_update_checks_and_drafts_without_writing(store: ScheduleStore) -> None:
    store.create("report", "proj.report", 60, options={"queue": "low", "priority": 3})
    version = store.get("report").version

    drafted = store.update("report", task_options={"queue": None, "priority": 5}, dry_run=True)
    assert drafted.options == {"priority": 5}
    with pytest.raises(InvalidEntry, match=r"\$.options.que: "):
        store.update("report", task_options={"que": "x"}, dry_run=True)
    assert store.get("report").version == version

    assert store.update("report", task_options={"queue": None}).options == {"priority": 3}


@pytest.mark.parametrize("field", ["args", "kwargs", "options", "labels", "skip", "enabled", "task", "schedule"])
def test_a_field_that_has_no_none_is_refused_before_anything_is_written(store: ScheduleStore, field: str) -> None:
    store.create("report", "proj.report", 60, args=[1], kwargs={"a": 1}, options={"queue": "low"})
    before = store.get("report")

    with pytest.raises(InvalidEntry, match=rf"^\$\.{field}: expected .*None"):
        store.update("report", **{field: None})
    with pytest.raises(InvalidEntry, match=rf"^\$\.{field}: expected .*None"):
        store.copy("report", "other", **{field: None})

    assert (store.get("report"), list(store)) == (before, ["report"])


def test_a_history_is_asked_only_of_a_name_of_which_something_is_known(store: ScheduleStore) -> None:
    for name in ("stored", "deleted", "in bulk"):
        store.create(name, "proj.report", 3600)
    store.delete("deleted")
    with store.bulk() as bulk:
        bulk.delete("in bulk")

    assert [len(store.history(name)) > 0 for name in ("stored", "deleted", "in bulk")] == [True] * 3
    later = now() + timedelta(days=1)
    assert [len(store.history(name, since=later)) for name in ("stored", "deleted")] == [0, 0]
    for since in (None, later):
        with pytest.raises(EntryNotFound):
            store.history("nobody", since=since)


def test_a_deleted_entry_whose_log_is_gone_has_an_empty_history(
    store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    store.create("report", "proj.report", 3600)
    store.delete("report")
    client.delete(f"{prefix}:log:report")

    assert len(store.history("report")) == 0


def test_the_time_is_that_of_redis_in_the_zone_of_the_schedule(make_app: Callable[..., Celery]) -> None:
    store = ScheduleStore(make_app(timezone="Asia/Tokyo"))

    assert store.now().utcoffset() == timedelta(hours=9)
    assert abs(store.now() - now()) < timedelta(minutes=1)


def test_a_pause_is_asked_for_with_a_call(store: ScheduleStore) -> None:
    assert store.paused() is None
    store.pause(until=timedelta(hours=1), note="deploy", by="anna")

    paused = store.paused()
    assert paused is not None
    assert (paused.note, paused.by, paused.until is not None) == ("deploy", "anna", True)

    store.resume(note="done", by="ben")
    assert store.paused() is None
