"""What other programs write below our prefix, on purpose or not: its cost is bounded, and beat goes on."""

from __future__ import annotations

import json
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import names, run_due

from redisbeater import InvalidEntry, RedisScheduler, ScheduleStore
from redisbeater.beat.repair import Repair
from redisbeater.context import Context
from redisbeater.management.search import Search
from redisbeater.store import schedule as store_entries

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]

#: The least that the setting accepts, so that little data is too much.
MOST = 10_000

DEFINITION = json.dumps({"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}})


def named(name: str, definition: str) -> str:
    """Return a definition that has the name of its entry: without it a hash that is no member is not ours."""
    return definition.replace("{", f'{{"name": "{name}", ', 1).replace(", }", "}")


@pytest.fixture
def small_app(make_app: MakeApp) -> Celery:
    return make_app(redisbeater_max_entry_size=MOST, redisbeater_lock_key=None)


@pytest.fixture
def put(client: redis.Redis, prefix: str) -> Iterator[Callable[..., None]]:
    """Write a key of any type, which the test removes at its end."""
    written: list[str] = []

    def put(key: str, kind: str) -> None:
        written.append(prefix + key)
        client.delete(prefix + key)
        {
            "string": lambda: client.set(prefix + key, "text"),
            "list": lambda: client.rpush(prefix + key, "a", "b"),
            "set": lambda: client.sadd(prefix + key, "a"),
            "zset": lambda: client.zadd(prefix + key, {"a": 1}),
            "hash": lambda: client.hset(prefix + key, "a", "b"),
        }[kind]()

    yield put
    client.delete(*written)


Put = Callable[[str, str], None]


def put_member(client: redis.Redis, prefix: str, member: str, score: float = 1) -> None:
    client.zadd(f"{prefix}:schedule", {member: score})


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


def repair_all(app: Celery) -> Repair:
    repair = Repair(Context.of(app))
    repair.step()
    while not repair.is_done:
        repair.step()
    return repair


# Size


@pytest.mark.parametrize("field", ["definition", "meta", "skipped", "recorded_run"])
def test_an_entry_that_is_too_large_is_quarantined_unread(
    small_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, field: str
) -> None:
    entry = save_due(small_app, "large")
    client.hset(entry.key, field, "x" * (MOST + 1))
    save_due(small_app, "good")

    assert names(run_due(make_scheduler(small_app))) == ["good"]
    reason = ScheduleStore(small_app).broken()["large"]
    assert "redisbeater_max_entry_size" in reason
    assert (
        str(sum(client.hstrlen(entry.key, name) for name in ("definition", "meta", "skipped", "recorded_run")))
        in reason
    )


def test_the_text_of_an_entry_that_is_too_large_stays_on_the_server(small_app: Celery, client: redis.Redis) -> None:
    entry = save_due(small_app, "large")
    client.hset(entry.key, "definition", "x" * 50_000)
    redis_schedule = Context.of(small_app).redis

    [claimed] = redis_schedule.claim(token="", limit=10).entries
    snapshot = redis_schedule.load("large")

    assert (claimed.definition, claimed.meta, claimed.oversized_bytes > 50_000) == ("", "", True)
    assert (snapshot.definition, snapshot.meta, snapshot.oversized_bytes) == ("", "", claimed.oversized_bytes)
    assert snapshot.exists


@pytest.mark.parametrize("field", ["fire_time", "look_at", "claim", "is_due_now", "origin", "last_error", "tries"])
def test_a_small_field_that_is_too_long_counts_as_missing(
    small_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, field: str
) -> None:
    entry = save_due(small_app, "report")
    client.hset(entry.key, field, "1" * 100_000)

    assert Search(Context.of(small_app)).one("report").state == "enabled"
    assert names(run_due(make_scheduler(small_app))) == ["report"]
    assert stored(small_app, "report").total_run_count == 1


def test_an_entry_that_is_too_large_is_listed_as_broken(small_app: Celery, client: redis.Redis) -> None:
    client.hset(save_due(small_app, "large").key, "definition", "x" * 50_000)
    save_due(small_app, "good")

    assert [(row.name, row.state) for row in Search(Context.of(small_app)).shown()] == [
        ("good", "enabled"),
        ("large", "broken"),
    ]
    page = ScheduleStore(small_app).list()
    assert [entry.name for entry in page] == ["good"]
    assert "redisbeater_max_entry_size" in page.broken["large"]
    with pytest.raises(InvalidEntry, match="redisbeater_max_entry_size"):
        ScheduleStore(small_app).get("large")
    with pytest.raises(InvalidEntry, match="redisbeater_max_entry_size"):
        ScheduleStore(small_app).disable("large")


@pytest.mark.parametrize("field", ["definition", "meta", "skipped"])
def test_an_entry_that_is_saved_over_one_that_is_too_large_runs(
    small_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, field: str
) -> None:
    client.hset(save_due(small_app, "report").key, field, "x" * 50_000)

    save_due(small_app, "report")
    client.zadd(f"{Context.of(small_app).redis.keys.schedule}", {stored(small_app, "report").key: 0})

    assert names(run_due(make_scheduler(small_app))) == ["report"]
    assert ScheduleStore(small_app).broken() == {}


def test_an_entry_that_would_be_too_large_is_refused_before_anything_is_written(
    small_app: Celery, client: redis.Redis, prefix: str
) -> None:
    store = ScheduleStore(small_app)
    with pytest.raises(InvalidEntry, match=r"^\$: takes \d+ bytes.*redisbeater_max_entry_size = 10000"):
        store.create("large", "proj.work", 60, args=["é" * 5_000])
    assert client.exists(f"{prefix}large") == 0

    store.create("report", "proj.work", 60)
    with pytest.raises(InvalidEntry, match="redisbeater_max_entry_size"):
        store.update("report", args=["x" * MOST])
    assert stored(small_app, "report").args == []


def test_a_claim_and_a_page_stop_when_their_texts_are_enough(
    small_app: Celery, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_entries, "ENOUGH_BYTES", 20_000)
    for number in range(10):
        save_due(small_app, f"e{number}", args=["x" * 6_000], late=20 - number)
    redis_schedule = Context.of(small_app).redis

    claim = redis_schedule.claim(token="", limit=100)
    assert [entry.name for entry in claim.entries] == ["e0", "e1", "e2", "e3"]
    assert claim.idle_seconds == 0
    redis_schedule.release(claim, claim.entries)

    assert [snapshot.name for snapshot in redis_schedule.load_many([f"e{n}" for n in range(10)])] == [
        f"e{n}" for n in range(10)
    ]
    assert sorted(names(run_due(make_scheduler(small_app)))) == [f"e{n}" for n in range(10)]


# Names


def test_a_key_whose_name_is_too_long_is_no_entry(app: Celery, client: redis.Redis, prefix: str) -> None:
    key = prefix + "a:" * 50_000
    client.hset(key, "definition", named("a:" * 50_000, DEFINITION))
    client.hset(f"{prefix}{'b' * 513}", "definition", named("b" * 513, DEFINITION))
    client.hset(f"{prefix}{'b' * 512}", "definition", named("b" * 512, DEFINITION))

    assert repair_all(app).repaired == 1
    assert list(ScheduleStore(app).names()) == ["b" * 512]


@pytest.mark.parametrize("member", ["a:" * 50_000, "x" * 513, ":broken", ":schedule", ":", ""], ids=lambda it: it[:9])
@pytest.mark.parametrize("is_key", [True, False], ids=["key", "bare"])
def test_a_member_that_no_entry_can_have_is_removed_and_logged_once(
    app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
    member: str,
    is_key: bool,
) -> None:
    save_due(app, "good")
    put_member(client, prefix, prefix + member if is_key else member)

    assert names(run_due(make_scheduler(app))) == ["good"]

    assert client.zscore(f"{prefix}:schedule", prefix + member if is_key else member) is None
    [line] = lines(caplog, "from the schedule that no entry can have")
    assert len(line) < 500


@pytest.mark.parametrize("name", ["x" * 513, ":leading", ":several words", ""], ids=["long", "colon", "word", "empty"])
@pytest.mark.parametrize("is_key", [True, False], ids=["key", "bare"])
def test_an_entry_whose_name_none_can_have_stays_dormant_and_is_listed_as_broken(
    app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
    name: str,
    is_key: bool,
) -> None:
    save_due(app, "good")
    client.hset(prefix + name, "definition", DEFINITION)
    put_member(client, prefix, prefix + name if is_key else name, 1700000000.25)

    assert names(run_due(make_scheduler(app))) == ["good"]

    assert client.zscore(f"{prefix}:schedule", prefix + name) == -1700000000.25
    assert client.zcard(f"{prefix}:schedule") == 2
    assert client.hget(prefix + name, "definition") == DEFINITION
    assert list(ScheduleStore(app).broken()) == [name]
    assert len(lines(caplog, "is broken, quarantined it: $.name: ")) == 1


@pytest.mark.parametrize("name", ["x" * 513, ":leading"], ids=["long", "colon"])
@pytest.mark.parametrize("change", ["rename", "delete", "disable"])
def test_an_entry_whose_name_none_can_have_can_be_put_right(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, name: str, change: str
) -> None:
    store = ScheduleStore(app)
    client.hset(prefix + name, "definition", named(name, DEFINITION))
    put_member(client, prefix, prefix + name)
    scheduler = make_scheduler(app)
    run_due(scheduler)

    if change == "rename":
        store.rename(name, "right")
        assert store.get("right").task == "proj.work"
        assert list(store.names()) == ["right"]
        assert names(run_due(scheduler)) == ["right"]
    elif change == "delete":
        store.delete(name)
        assert list(store.names()) == []
    else:
        store.disable(name)
        with pytest.raises(InvalidEntry, match="an entry of that name does not run"):
            store.enable(name)
    assert list(store.broken()) == []


def test_a_member_of_beats_own_is_removed_although_there_is_such_a_hash(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "good")
    client.hset(f"{prefix}:broken", "definition", DEFINITION)
    put_member(client, prefix, ":broken")

    assert names(run_due(make_scheduler(app))) == ["good"]

    assert client.zscore(f"{prefix}:schedule", ":broken") is None


def test_a_key_of_beats_own_is_never_claimed(app: Celery, client: redis.Redis, prefix: str) -> None:
    fields = {"definition": DEFINITION, "odd": "text"}
    client.hset(f"{prefix}:broken", mapping=fields)
    put_member(client, prefix, f"{prefix}:broken")

    assert Context.of(app).redis.claim(token="", limit=10).entries == ()

    assert client.hgetall(f"{prefix}:broken") == fields
    assert client.zcard(f"{prefix}:schedule") == 0


@pytest.mark.parametrize("fire_time", ["+1", "-0", "1e", "--1"])
def test_a_broken_entry_with_an_odd_fire_time_is_quarantined_and_holds_up_no_other(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, fire_time: str
) -> None:
    save_due(app, "good")
    client.hset(f"{prefix}bad", mapping={"definition": "{", "fire_time": fire_time, "look_at": "1"})
    put_member(client, prefix, f"{prefix}bad")

    assert names(run_due(make_scheduler(app))) == ["good"]

    assert list(ScheduleStore(app).broken()) == ["bad"]


# Members without a hash, and entries without a member


def test_thousands_of_members_without_a_hash_cost_few_round_trips_and_lines(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.zadd(f"{prefix}:schedule", {f"{prefix}gone {number}": 1 for number in range(5_000)})
    save_due(app, "good")
    before = client.info("commandstats")

    assert names(run_due(make_scheduler(app))) == ["good"]

    calls = client.info("commandstats")["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"]
    assert calls < 200
    assert len(lines(caplog, "have no hash")) == 12
    assert "500 entries have no hash" in caplog.text


def test_thousands_of_broken_entries_without_a_member_cost_a_page_each_and_few_lines(
    app: Celery, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client.pipeline(transaction=False) as pipe:
        for number in range(2_000):
            pipe.hset(f"{prefix}unscheduled {number}", "definition", named(f"unscheduled {number}", "{}"))
        pipe.execute()

    repair_all(app)

    assert len(ScheduleStore(app).broken()) == 2_000
    assert len(lines(caplog, "cannot be restored")) == 4
    assert "1997 more entries are missing and cannot be restored" in caplog.text

    caplog.clear()
    repair_all(app)
    assert lines(caplog, "cannot be restored") == []


BAD = {
    "nested": f'{DEFINITION[:-1]}, "odd": {"[" * 900}{"]" * 900}}}',
    "weekday": json.dumps(
        {"task": "t", "schedule": {"__type__": "rrule", "freq": {"__type__": "weekday", "wkday": 7}, "dtstart": 1.7e9}}
    ),
    "text": '{"task": 0}',
}


@pytest.mark.parametrize("definition", BAD.values(), ids=BAD.keys())
def test_whatever_restoring_one_entry_raises_it_alone_is_listed(
    app: Celery, client: redis.Redis, prefix: str, definition: str
) -> None:
    client.hset(f"{prefix}bad", "definition", named("bad", definition))
    client.hset(f"{prefix}good", "definition", named("good", DEFINITION))

    assert repair_all(app).repaired == 1
    assert list(ScheduleStore(app).broken()) == ["bad"]


# Keys of the schedule itself

OTHERS = {
    ":id": ["list", "set", "zset", "hash"],
    ":broken": ["string", "list", "set", "zset"],
    ":statics": ["string", "list", "hash", "zset"],
    ":failing": ["string", "list", "set"],
}
every_key = pytest.mark.parametrize(("key", "kind"), [(key, kind) for key, kinds in OTHERS.items() for kind in kinds])


@every_key
def test_a_key_of_another_type_is_logged_once_and_beat_works_without_it(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    prefix: str,
    put: Put,
    caplog: pytest.LogCaptureFixture,
    key: str,
    kind: str,
) -> None:
    put(key, kind)
    held = client.dump(prefix + key)
    app = make_app(beat_schedule={"static": {"task": "proj.work", "schedule": 3600.0}})
    save_due(app, "good")
    bad = save_due(app, "bad")
    client.hset(bad.key, "definition", "{")
    client.hset(f"{prefix}unscheduled", "definition", named("unscheduled", "{}"))
    scheduler = make_scheduler(app)

    assert names(run_due(scheduler)) == ["good"]
    client.delete(f"{prefix}:lock")
    for _ in range(2):  # a claim finds that the lock is lost, and beat begins to lead once more
        scheduler.tick()

    [line] = lines(caplog, f"{prefix}{key} holds a {kind}")
    url = app.conf.redisbeater_redis_url
    assert f"redis-cli -u {url} DEL {prefix}{key}" in line
    assert client.dump(prefix + key) == held
    assert stored(app, "static").task == "proj.work"
    ScheduleStore(app).delete("good")
    assert not client.exists(f"{prefix}good")


@every_key
def test_a_key_of_another_type_is_survived_by_a_beat_that_leads_already(
    app: Celery, make_scheduler: MakeScheduler, put: Put, client: redis.Redis, prefix: str, key: str, kind: str
) -> None:
    scheduler = make_scheduler(app)
    save_due(app, "before")
    assert names(run_due(scheduler)) == ["before"]
    client.zadd(f"{prefix}:schedule", {f"{prefix}before": 0})

    put(key, kind)
    save_due(app, "after", on_finish="delete", max_runs=1)

    assert sorted(names(run_due(scheduler))) == ["after", "before"]


def test_an_identity_that_was_overwritten_stays_the_same_until_the_key_is_free(
    app: Celery, client: redis.Redis, prefix: str, put: Put, make_app: MakeApp
) -> None:
    redis_schedule = Context.of(make_app(redisbeater_lock_key=None)).redis
    known = redis_schedule.claim(token="", limit=1).schedule_id
    put(":id", "list")

    assert redis_schedule.claim(token="", limit=1).schedule_id == known
    client.delete(f"{prefix}:id")
    assert redis_schedule.claim(token="", limit=1).schedule_id == known
    assert client.get(f"{prefix}:id") == known


def test_a_beat_that_knew_no_identity_has_a_stand_in_that_others_have_as_well(make_app: MakeApp, put: Put) -> None:
    put(":id", "hash")

    found = {Context.of(make_app(redisbeater_lock_key=None)).redis.claim(token="", limit=1).schedule_id for _ in "ab"}

    assert uuid.UUID(found.pop())
    assert not found


def test_static_entries_are_known_again_when_the_lost_key_is_free(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    settings: dict[str, Any] = {
        "beat_schedule": {"a": {"task": "proj.work", "schedule": 3600.0}},
        "result_expires": None,
    }
    make_scheduler(make_app(**settings, redisbeater_lock_key=None)).tick()
    client.delete(f"{prefix}:statics")

    make_scheduler(make_app(**settings, redisbeater_lock_key=None)).tick()
    assert client.smembers(f"{prefix}:statics") == {"a"}

    make_scheduler(make_app(redisbeater_lock_key=None)).tick()
    assert not client.exists(f"{prefix}a")


@pytest.mark.parametrize("text", ["nonsense", "", "nan", "1e999"], ids=repr)
def test_a_receipt_that_holds_nonsense_does_not_keep_beat_from_claiming(
    make_app: MakeApp, client: redis.Redis, prefix: str, text: str
) -> None:
    app = make_app(redisbeater_lock_key=None)
    save_due(app, "good")
    redis_schedule = Context.of(app).redis
    redis_schedule.lost_claims.append("lost")
    client.set(f"{prefix}:claim:lost", text)

    assert [entry.name for entry in redis_schedule.claim(token="", limit=10).entries] == ["good"]


def test_a_receipt_of_another_type_does_not_keep_beat_from_claiming(make_app: MakeApp, put: Put) -> None:
    redis_schedule = Context.of(make_app(redisbeater_lock_key=None)).redis
    redis_schedule.lost_claims.append("lost")
    put(":claim:lost", "list")

    assert redis_schedule.claim(token="", limit=10).entries == ()


# The lock


@pytest.mark.parametrize("kind", ["list", "set", "zset", "hash", "string"])
def test_a_lock_that_holds_no_token_is_logged_once_and_beat_stands_by(
    app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    prefix: str,
    put: Put,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    scheduler = make_scheduler(app)
    save_due(app, "good")
    scheduler.tick()
    put(":lock", kind)
    if kind == "string":
        client.set(f"{prefix}:lock", "")

    for _ in range(4):
        scheduler.tick()

    [line] = lines(caplog, f" DEL {prefix}:lock")
    assert f"{prefix}:lock holds a {kind} and no lock" in line
    client.delete(f"{prefix}:lock")
    scheduler.tick()
    assert client.get(f"{prefix}:lock").startswith(f"{socket.gethostname()}:{os.getpid()}:")


def test_a_lock_without_a_time_to_live_is_logged_once(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.set(f"{prefix}:lock", "another")
    scheduler = make_scheduler(app)

    for _ in range(3):
        scheduler.tick()

    [record] = [record for record in caplog.records if "no time to live" in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert f"the lock {prefix}:lock of another" in record.getMessage()
    assert f" DEL {prefix}:lock" in record.getMessage()


def test_a_lock_with_a_time_to_live_is_not_warned_of(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.set(f"{prefix}:lock", "another", px=60_000)

    make_scheduler(app).tick()

    assert "no time to live" not in caplog.text
