"""Schedules on one Redis whose prefixes begin alike: each touches its own keys and no other's."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from click.testing import Result
from due import save_due
from outbox import names, run_due
from web_site import browse

from redisbeater import (
    EntryExists,
    EntryNotFound,
    InvalidEntry,
    RedisScheduleEntry,
    RedisScheduler,
    ScheduleStore,
)
from redisbeater.beat.repair import Repair
from redisbeater.context import Context
from redisbeater.entry_name import OWN_KEYS
from redisbeater.store.keys import Keys

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]

#: What is published on, and stored nowhere.
CHANNELS = ("changes", "events")

NAMELESS = {"task": "proj.work", "schedule": {"__type__": "interval", "every": 3600}}


@pytest.fixture
def longer(prefix: str) -> str:
    """The prefix of a schedule that begins like the test's own."""
    return f"{prefix}b:"


@pytest.fixture
def theirs(app: Celery, longer: str, client: redis.Redis) -> ScheduleStore:
    """The schedule of that prefix, with an entry."""
    store = ScheduleStore(app, key_prefix=longer)
    store.create("foo", "proj.work", 3600, kwargs={"of": "theirs"})
    return store


@pytest.fixture(autouse=True)
def only_known_keys(client: redis.Redis) -> object:
    """Delete what the schedules leave: the fixture of the client knows only the keys of one."""
    yield
    client.flushdb()


def contents(client: redis.Redis, longer: str) -> dict[str, bytes]:
    return {key: client.dump(key) for key in client.scan_iter(f"{longer}*") if ":answer:" not in key}


def repair_all(app: Celery, prefix: str | None = None) -> Repair:
    repair = Repair(Context.of(app, prefix))
    repair.step()
    while not repair.is_done:
        repair.step()
    return repair


# Beat


def test_an_entry_that_was_deleted_in_a_longer_prefix_stays_deleted(
    app: Celery, theirs: ScheduleStore, scheduler: RedisScheduler
) -> None:
    theirs.delete("foo")
    save_due(app, "own")

    assert names(run_due(scheduler)) == ["own"]
    assert list(ScheduleStore(app).names()) == ["own"]
    assert theirs.restore("foo").kwargs == {"of": "theirs"}


def test_entries_below_a_prefix_that_goes_on_without_a_colon_are_not_restored(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    """As RedBeat stores them: its prefix need not end with a colon."""
    client.hset(f"{prefix}stagingreport", "definition", json.dumps({"name": "report", **NAMELESS}))
    client.zadd(f"{prefix}staging:schedule", {f"{prefix}stagingreport": 0})

    assert repair_all(app).repaired == 0
    with pytest.raises(EntryNotFound):
        ScheduleStore(app).get("stagingreport")


def test_a_schedule_takes_over_no_entry_of_a_shorter_prefix(app: Celery, longer: str) -> None:
    ScheduleStore(app).create("b:foo", "proj.work", 3600)
    store = ScheduleStore(app, key_prefix=longer)

    assert repair_all(app, longer).repaired == 0
    with pytest.raises(EntryNotFound):
        store.get("foo")
    with pytest.raises(InvalidEntry, match="belongs to another schedule"):
        store.create("foo", "proj.work", 60)


@pytest.mark.parametrize("definition", [NAMELESS, {"name": "other", **NAMELESS}, "{"], ids=["no name", "other", "bad"])
def test_a_hash_that_nobody_added_to_the_schedule_is_no_entry(
    app: Celery, client: redis.Redis, prefix: str, definition: object
) -> None:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    client.hset(f"{prefix}report", "definition", text)

    assert repair_all(app).repaired == 0
    with pytest.raises(InvalidEntry, match="not added it to"):
        ScheduleStore(app).create("report", "proj.work", 60)
    assert client.hgetall(f"{prefix}report") == {"definition": text}
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": 0})
    assert list(ScheduleStore(app).names()) == ["report"]


def test_an_entry_without_a_name_that_is_listed_bare_can_be_edited(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}report", "definition", json.dumps(NAMELESS))
    client.zadd(f"{prefix}:schedule", {"report": 4e9})

    assert ScheduleStore(app).update("report", schedule=60).schedule.seconds == 60


@pytest.mark.parametrize(
    "name", ["report", "b:report", "grüße", 'a "b" \\'], ids=["plain", "colon", "unicode", "quoted"]
)
def test_an_entry_whose_definition_has_its_name_is_restored(
    app: Celery, client: redis.Redis, prefix: str, name: str
) -> None:
    """Our own always has it, and RedBeat's, which escapes what is not ASCII."""
    client.hset(f"{prefix}{name}", "definition", json.dumps({"name": name, **NAMELESS}))

    assert repair_all(app).repaired == 1
    assert list(ScheduleStore(app).names()) == [name]


def test_a_static_entry_whose_key_is_anothers_is_broken(
    make_app: MakeApp, make_scheduler: MakeScheduler, theirs: ScheduleStore, client: redis.Redis, longer: str
) -> None:
    before = contents(client, longer)
    entry = {"task": "proj.work", "schedule": 1.0}
    app = make_app(beat_schedule={"b:foo": dict(entry), "b:new": dict(entry)})

    make_scheduler(app).tick()

    reasons = {name: report["reason"] for name, report in Context.of(app).redis.broken.declarations().items()}
    assert reasons["b:foo"] == "$.name: a hash, which is no entry, has that name"
    assert "'b:new' belongs to another schedule" in reasons["b:new"]
    assert contents(client, longer) == before


def test_a_late_report_of_a_run_writes_nothing_to_the_entry_that_another_schedule_has_there_now(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, longer: str
) -> None:
    app = make_app(redisbeater_track_runs=True)
    store = ScheduleStore(app)
    store.create("b:foo", "proj.work", 3600)
    store.trigger("b:foo")
    [run] = store.runs.active()
    store.delete("b:foo")
    ScheduleStore(app, key_prefix=longer).create("foo", "proj.work", 3600)
    before = contents(client, longer)

    Context.of(app).redis.runs.withdraw(run.id, error="the broker refused it")

    assert contents(client, longer) == before
    assert store.runs.counts("b:foo").sent == 0


def test_the_list_of_failing_entries_clears_nothing_in_the_entry_of_another_schedule(
    app: Celery, theirs: ScheduleStore, client: redis.Redis, prefix: str, longer: str
) -> None:
    """Ours had that key, was failing, and another program deleted it."""
    client.hset(f"{longer}foo", mapping={"last_error": "no such queue", "tries": "3"})
    client.zadd(f"{prefix}:failing", {f"{longer}foo": 1})
    before = contents(client, longer)

    repair_all(app)

    assert contents(client, longer) == before
    assert client.zcard(f"{prefix}:failing") == 0


# Programs that use the API

VERBS: dict[str, Callable[[ScheduleStore], object]] = {
    "get": lambda store: store.get("b:foo"),
    "upcoming": lambda store: store.upcoming("b:foo"),
    "create": lambda store: store.create("b:foo", "proj.steal", 1),
    "upsert": lambda store: store.save(RedisScheduleEntry("b:foo", "proj.steal", 1)),
    "update": lambda store: store.update("b:foo", kwargs={"of": "ours"}),
    "enable": lambda store: store.enable("b:foo"),
    "disable": lambda store: store.disable("b:foo"),
    "skip_next": lambda store: store.skip_next("b:foo"),
    "trigger": lambda store: store.trigger("b:foo"),
    "executed": lambda store: store.record_execution("b:foo"),
    "retry": lambda store: store.retry("b:foo"),
    "delete": lambda store: store.delete("b:foo"),
    "restore": lambda store: store.restore("b:foo"),
    "rename": lambda store: store.rename("b:foo", "mine"),
    "rename onto": lambda store: store.rename("own", "b:foo"),
    "rename below": lambda store: store.rename("own", "b:new"),
    "copy": lambda store: store.copy("b:foo", "mine"),
    "copy onto": lambda store: store.copy("own", "b:foo"),
    "create below": lambda store: store.create("b:new", "proj.steal", 1),
    "create deeper": lambda store: store.create("b:c:new", "proj.steal", 1),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_no_verb_reads_or_changes_the_key_of_another_schedule(
    app: Celery,
    theirs: ScheduleStore,
    client: redis.Redis,
    prefix: str,
    longer: str,
    verb: Callable[[ScheduleStore], object],
) -> None:
    store = ScheduleStore(app, key_prefix=prefix)
    store.create("own", "proj.work", 3600)
    before = contents(client, longer)

    with pytest.raises((EntryNotFound, EntryExists, InvalidEntry)):
        verb(store)

    assert contents(client, longer) == before
    assert list(store.names()) == ["own"]


def test_what_is_refused_says_why(app: Celery, theirs: ScheduleStore) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.name: 'b:new' belongs to another schedule"):
        ScheduleStore(app).create("b:new", "proj.work", 60)


def test_a_bulk_leaves_the_keys_of_another_schedule_alone(
    app: Celery, theirs: ScheduleStore, client: redis.Redis, longer: str
) -> None:
    before = contents(client, longer)

    def write() -> None:
        with ScheduleStore(app).bulk() as bulk:
            for name in ("own", "b:foo", "b:new"):
                bulk.save(RedisScheduleEntry(name, "proj.work", 60, app=app))

    with pytest.raises(InvalidEntry, match="belongs to another schedule"):
        write()

    assert contents(client, longer) == before
    assert list(ScheduleStore(app).names()) == ["own"]


def test_an_entry_that_was_there_before_the_other_schedule_stays_ours(app: Celery, longer: str) -> None:
    store = ScheduleStore(app)
    store.create("b:old", "proj.work", 3600)
    ScheduleStore(app, key_prefix=longer).create("foo", "proj.work", 3600)

    assert store.update("b:old", schedule=60).schedule.seconds == 60
    store.delete("b:old")
    with pytest.raises(InvalidEntry, match="belongs to another schedule"):
        store.restore("b:old")


@pytest.mark.parametrize(
    "name", ["b::broken", "b::deleted:foo", "a:b::log:x", "b::run:1", "b::undo:1", "b::current", "b::delays"]
)
def test_a_name_that_would_be_a_key_of_a_schedule_itself_is_refused(app: Celery, name: str) -> None:
    with pytest.raises(InvalidEntry, match="a key of a schedule itself"):
        ScheduleStore(app).create(name, "proj.work", 60)


def test_every_key_of_a_schedule_itself_is_a_word_that_no_new_name_has_behind_two_colons(prefix: str) -> None:
    keys = Keys(prefix, None)
    methods = [method for name, method in inspect.getmembers(keys, inspect.ismethod) if not name.startswith("_")]
    with_names = [
        method("x")
        for method in methods
        if len(inspect.signature(method).parameters) == 1 and inspect.signature(method).return_annotation == "str"
    ]
    every = [*(key for key in vars(keys).values() if isinstance(key, str)), *keys.bookkeeping(), *with_names]
    own = [key.removeprefix(f"{prefix}:") for key in every if key.startswith(f"{prefix}:")]

    assert {key.split(":")[0] for key in own} == {*OWN_KEYS, *CHANNELS}


@pytest.mark.parametrize("name", ["billing::nightly", "b::logs", "run", "a:run:b"])
def test_other_names_with_colons_stay_valid(app: Celery, name: str) -> None:
    assert ScheduleStore(app).create(name, "proj.work", 60).name == name


# Command line and page


def test_the_command_line_refuses_the_names_of_another_schedule(
    run: Callable[..., Result], theirs: ScheduleStore, client: redis.Redis, longer: str
) -> None:
    before = contents(client, longer)

    for command in ("show b:foo", "delete b:foo --yes", "create b:foo proj.steal --every 1s"):
        assert run(*command.split()).exit_code == 2
    assert contents(client, longer) == before


def test_the_page_shows_and_changes_no_entry_of_another_schedule(
    app: Celery, theirs: ScheduleStore, client: redis.Redis, longer: str
) -> None:
    before = contents(client, longer)
    web = browse(app)

    assert web.get("/entry.json", params={"name": "b:foo"}).status_code == 404
    assert web.get("/entry", params={"name": "b:foo"}).status_code == 404
    for verb in ("trigger", "disable", "delete"):
        web.post(f"/entries/{verb}", data={"name": "b:foo"})
    web.post("/entry", data={"was": "b:foo", "name": "b:foo", "task": "proj.steal", "every": "1h"})
    assert contents(client, longer) == before
