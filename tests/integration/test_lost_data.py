"""What Redis loses, and what comes back: a flush, an eviction, an old snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from due import ago, save_due, stored
from outbox import names, run_due

from redisbeater import ImproperlyConfigured, RedisScheduleEntry, RedisScheduler, ScheduleStore

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]

STATIC = {"nightly": {"task": "proj.clean", "schedule": 3600.0}}


@pytest.fixture(params=[":lock", None], ids=["with-lock", "without-lock"])
def static_app(request: pytest.FixtureRequest, make_app: MakeApp) -> Celery:
    return make_app(beat_schedule=STATIC, redisbeater_lock_key=request.param)


def test_static_entries_come_back_by_themselves_after_a_flush(
    static_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    scheduler = make_scheduler(static_app)
    run_due(scheduler)
    client.flushdb()

    for _ in range(3):  # one to notice, one to lead again
        scheduler.tick()

    assert stored(static_app, "nightly").due_at is not None


def test_what_was_saved_after_a_flush_runs(
    static_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    scheduler = make_scheduler(static_app)
    run_due(scheduler)
    client.flushdb()
    save_due(static_app, "report")

    sent = [run for _ in range(3) for run in run_due(scheduler)]

    assert names(sent) == ["report"]
    assert stored(static_app, "nightly").due_at is not None


def test_a_flush_is_logged(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_lock_key=None))
    run_due(scheduler)
    client.flushdb()

    run_due(scheduler)

    assert "Redis lost the schedule" in caplog.text


def test_a_restored_backup_is_not_logged_as_entries_that_are_gone(
    static_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """It brings its identity, as apply --state writes it while beat runs."""
    scheduler, store = make_scheduler(static_app), ScheduleStore(static_app)
    run_due(scheduler)
    store.create("report", "proj.work", 3600)
    backup = store.files.export(state=True)
    client.flushdb()
    for _ in range(3):
        scheduler.tick()
    caplog.clear()
    store.files.apply(store.files.plan(backup, state=True))

    scheduler.tick()

    assert "a backup was restored" in caplog.text
    assert "are gone" not in caplog.text
    assert stored(static_app, "report").due_at is not None


def test_a_schedule_that_was_evicted_comes_back_with_its_entries(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("report", "proj.work", 3600, app=app, last_run_at=ago(minutes=59)).save()
    client.delete(f"{prefix}:schedule")

    scheduler.tick()

    due_at = stored(app, "report").due_at
    assert due_at is not None
    assert due_at < ago(minutes=-2)


def test_an_old_snapshot_causes_no_storm(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    """Restored scores and claims of long ago: each entry runs once, for the newest of its fire times."""
    entries = [RedisScheduleEntry(f"entry {n}", "proj.work", 1.0, app=app).save() for n in range(20)]
    long_ago = ago(days=30)
    for entry in entries:
        entry.reschedule(long_ago)
        client.hset(entry.key, mapping={"fire_time": "1", "look_at": "1", "claim": "dead"})

    sent = run_due(scheduler)

    assert sorted(names(sent)) == sorted(str(entry.name) for entry in entries)
    assert all(run.fire_time > ago(minutes=5) for run in sent)
    assert stored(app, "entry 0").skipped["coalesced"].count > 2_500_000


# -- eviction


@pytest.fixture
def evicting(client: redis.Redis) -> redis.Redis:
    """A server that evicts any key; put right by the fixture below."""
    client.config_set("maxmemory", "500mb")
    client.config_set("maxmemory-policy", "allkeys-lru")
    return client


@pytest.fixture(autouse=True)
def keeping(client: redis.Redis) -> object:
    yield
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", "0")


@pytest.mark.parametrize(
    ("check", "level"), [("warn", logging.WARNING), ("error", logging.ERROR)], ids=["warn", "error"]
)
def test_a_server_that_evicts_any_key_is_reported_at_start(
    evicting: redis.Redis,
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    caplog: pytest.LogCaptureFixture,
    check: str,
    level: int,
) -> None:
    make_scheduler(make_app(redisbeater_key_expiry_check=check)).tick()

    [record] = [record for record in caplog.records if "maxmemory-policy allkeys-lru" in record.getMessage()]
    assert record.levelno == level


def test_a_server_that_evicts_any_key_can_end_beat(
    evicting: redis.Redis, make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_key_expiry_check="raise"))

    with pytest.raises(ImproperlyConfigured, match="noeviction"):
        scheduler.tick()


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        pytest.param({"redisbeater_key_expiry_check": "ignore"}, "allkeys-lru", id="ignored"),
        pytest.param({}, "volatile-lru", id="only-keys-with-a-time-to-live"),
        pytest.param({}, "noeviction", id="never"),
    ],
)
def test_nothing_is_reported_where_there_is_no_danger(
    evicting: redis.Redis,
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, str],
    policy: str,
) -> None:
    evicting.config_set("maxmemory-policy", policy)

    make_scheduler(make_app(**settings)).tick()

    assert "maxmemory-policy" not in caplog.text


def test_a_server_that_forbids_config_is_asked_otherwise(
    evicting: redis.Redis, make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    evicting.execute_command("ACL", "SETUSER", "noconfig", "on", ">secret", "~*", "&*", "+@all", "-config")

    options = {"username": "noconfig", "password": "secret"}
    make_scheduler(make_app(redisbeater_redis_options=options)).tick()
    evicting.execute_command("ACL", "DELUSER", "noconfig")

    assert "maxmemory-policy allkeys-lru" in caplog.text
