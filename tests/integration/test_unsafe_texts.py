"""Names and tasks that forge log lines or drive terminals: refused by us, escaped where others stored them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import run_due

from redisbeater import EntryNotFound, InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.context import Context

UNSAFE = {"\n": "U+000A", "\x1b": "U+001B", "\x7f": "U+007F", "\x9b": "U+009B", "\u2028": "U+2028", "\u202e": "U+202E"}

unsafe = pytest.mark.parametrize("char", UNSAFE, ids=UNSAFE.get)


def write_raw(client: redis.Redis, prefix: str, name: str, task: str = "proj.work", **more: Any) -> None:
    """Write an entry as another program would."""
    definition = {"task": task, "schedule": {"__type__": "interval", "every": 60}, **more}
    client.hset(f"{prefix}{name}", "definition", json.dumps(definition))
    client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 1})


# Refused where they are set


@unsafe
def test_a_name_with_such_a_character_is_refused(app: Celery, char: str) -> None:
    entry = RedisScheduleEntry(f"a{char}b", "proj.work", 60, app=app)
    store = ScheduleStore(app)

    for refused in (entry.save, entry.create, lambda: store.save(entry), lambda: store.create(entry.name, "t", 60)):
        with pytest.raises(InvalidEntry, match=rf"^\$\.name: holds {UNSAFE[char].replace('+', '[+]')}, "):
            refused()
    with store.bulk() as bulk, pytest.raises(InvalidEntry, match=r"^\$\.name: holds U"):
        bulk.save(entry)
    assert store.count() == 0


@unsafe
def test_a_task_with_such_a_character_is_refused(app: Celery, char: str) -> None:
    store = ScheduleStore(app)
    store.create("good", "proj.work", 60)

    for refused in (
        RedisScheduleEntry("a", f"proj{char}.work", 60, app=app).save,
        lambda: store.update("good", task=f"proj{char}.work"),
    ):
        with pytest.raises(InvalidEntry, match=rf"^\$\.task: holds {UNSAFE[char].replace('+', '[+]')}, "):
            refused()
    assert stored(app, "good").task == "proj.work"


def test_a_static_entry_with_such_a_name_is_listed_as_broken(make_app: Callable[..., Celery]) -> None:
    report = {"task": "proj.work", "schedule": 60}
    scheduler = RedisScheduler(make_app(beat_schedule={"a\nb": report, "c": report}))
    scheduler.tick()
    scheduler.close()

    store = ScheduleStore(scheduler.app)
    assert store.broken()["a\nb"].startswith("$.name: holds U+000A")
    assert "c" in set(store.names())


# Read, run and changed where another program stored them


def test_an_entry_with_such_a_name_and_task_is_read_run_and_changed(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    store, name = ScheduleStore(app), "a\nb\x1b[2J"
    write_raw(client, prefix, name, "proj.\u202ework")

    [run] = run_due(scheduler)
    assert (run.name, run.task) == (name, "proj.\u202ework")
    assert store.get(name).total_run_count == 1
    assert store.update(name, args=[1]).args == [1]
    assert store.disable(name).enabled is False
    assert [entry.name for entry in store.list(prefix="a\n")] == [name]
    store.delete(name)
    assert name not in set(store.names())


def test_no_line_of_the_log_is_forged(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    forged = "x\nCRITICAL all is lost \x1b[2J\u202e"
    write_raw(client, prefix, f"runs {forged}", forged)
    write_raw(client, prefix, f"broken {forged}", schedule={"__type__": forged})
    write_raw(client, prefix, f"unknown field {forged}", schedule={"__type__": "interval", "every": 60, forged: 1})
    write_raw(client, prefix, f"refused {forged}", options={forged: forged, "producer": 1})
    client.zadd(f"{prefix}:schedule", {f"{prefix}gone {forged}": 1})

    run_due(scheduler)

    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "Sending due task runs x" in line]
    assert [line for line in lines if "is broken, quarantined it" in line]
    assert [line for line in lines if "gone x" in line]
    ours = [record for record in caplog.records if record.name.startswith(("redisbeater", "celery.beat"))]
    assert all(record.getMessage().isprintable() for record in ours)


def test_the_token_of_another_leader_is_escaped(
    scheduler: RedisScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client.set(f"{prefix}:lock", "a\nCRITICAL all is lost", px=60_000)

    scheduler.tick()

    assert "standing by; the leader is a\\x0aCRITICAL all is lost" in caplog.messages


def test_a_reason_is_short_however_long_the_value_is(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_raw(client, prefix, "huge", task=["x" * 900_000])  # type: ignore[arg-type]
    write_raw(client, prefix, "y" * 100_000, task=5)  # type: ignore[arg-type]

    run_due(scheduler)

    assert len(ScheduleStore(app).broken()["huge"]) <= 500
    assert max(map(len, caplog.messages)) <= 500


# The store refuses names whose keys are its own


@pytest.mark.parametrize("name", [":schedule", ":lock", ":broken", ":incidents", ":current", ""])
def test_no_way_of_deleting_reaches_our_own_keys(app: Celery, scheduler: RedisScheduler, name: str) -> None:
    save_due(app, "a")
    scheduler.tick()
    store = Context.of(app).redis
    before = set(ScheduleStore(app).names())

    def through_the_mapping() -> None:
        del scheduler.schedule[name]

    for delete in (
        through_the_mapping,
        lambda: store.delete(name),
        lambda: store.delete_many({"a b": "", name: ""}),
        lambda: store.rank(name),
        lambda: store.load(name),
        lambda: ScheduleStore(app).delete(name),
    ):
        with pytest.raises(InvalidEntry, match=r"^\$\.name: "):
            delete()
    assert set(ScheduleStore(app).names()) == before


def test_members_that_no_entry_can_have_hide_no_other(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("a", "proj.work", 60, app=app).save()
    client.zadd(f"{prefix}:schedule", {f"{prefix}:broken": 1, prefix: 1, f"{prefix}:schedule": 4e9})
    client.sadd(f"{prefix}:statics", ":x", "")

    assert list(ScheduleStore(app).names()) == ["a"]
    assert [entry.name for entry in ScheduleStore(app).list()] == ["a"]
    run_due(scheduler)
    assert "a" in scheduler.schedule


# The mapping


@pytest.mark.parametrize("name", [":x", 5, "", None, [], "unknown"], ids=repr)
def test_the_mapping_has_no_entry_of_a_name_that_none_can_have(scheduler: RedisScheduler, name: Any) -> None:
    assert name not in scheduler.schedule
    assert scheduler.schedule.get(name) is None
    with pytest.raises(EntryNotFound):
        scheduler.schedule[name]


# Fields


def test_the_name_of_an_entry_cannot_be_changed(app: Celery) -> None:
    store = ScheduleStore(app)
    store.create("a", "proj.work", 60)

    with pytest.raises(InvalidEntry, match=r"^\$\.name: cannot be changed$"):
        store.update("a", name="b")
    with pytest.raises(InvalidEntry, match=r"^\$\.self: is not a field of an entry$"):
        store.update("a", self=1)


@pytest.mark.parametrize("field", ["args", "kwargs", "options"])
@pytest.mark.parametrize("value", [0, "", False, 0.0, b""], ids=repr)
def test_a_wrong_type_that_is_falsy_is_refused(app: Celery, field: str, value: Any) -> None:
    store = ScheduleStore(app)
    store.create("good", "proj.work", 60)
    entry = RedisScheduleEntry("a", "proj.work", 60, app=app, **{field: value})

    for refused in (entry.save, lambda: store.update("good", **{field: value})):
        with pytest.raises(InvalidEntry, match=rf"^\$\.{field}: expected a "):
            refused()
    with store.bulk() as bulk, pytest.raises(InvalidEntry, match=rf"^\$\.{field}: expected a "):
        bulk.save(entry)


def test_args_that_are_a_dict_are_refused_and_none_is_the_default(app: Celery) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.args: expected a list, got {}$"):
        RedisScheduleEntry("a", "proj.work", 60, args={}, app=app).save()  # type: ignore[arg-type]

    saved = RedisScheduleEntry("a", "proj.work", 60, args=None, kwargs=None, options=None, app=app).save()
    assert (saved.args, saved.kwargs, saved.options) == ([], {}, {})
    assert RedisScheduleEntry("b", "proj.work", 60, args=(), app=app).save().args == []


def deep() -> Any:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    return value


def circular() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("field", ["args", "kwargs", "options"])
@pytest.mark.parametrize("make", [deep, circular])
def test_what_is_nested_without_end_is_refused_with_its_field(app: Celery, field: str, make: Callable[[], Any]) -> None:
    store = ScheduleStore(app)
    store.create("good", "proj.work", 60)
    value = [make()] if field == "args" else {"a": make()}
    entry = RedisScheduleEntry("a", "proj.work", 60, app=app, **{field: value})

    for refused in (entry.save, entry.create, lambda: store.update("good", **{field: value})):
        with pytest.raises(InvalidEntry, match=rf"^\$\.{field}"):
            refused()
    with store.bulk() as bulk, pytest.raises(InvalidEntry, match=rf"^\$\.{field}"):
        bulk.save(entry)


def test_a_number_that_python_does_not_write_is_refused(app: Celery) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.args\[0\]: is a whole number of more than 4300 digits"):
        RedisScheduleEntry("a", "proj.work", 60, args=[10**4300], app=app).save()

    assert RedisScheduleEntry("a", "proj.work", 60, args=[10**4300 - 1], app=app).save().args == [10**4300 - 1]
