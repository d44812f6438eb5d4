"""The version of what beat writes: a beat that is older than the data does not lead, and waits until it may."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from due import save_due, stored
from flight import mark_in_flight
from outbox import names, run_due

from redisbeater import RedisScheduler
from redisbeater.beat import repair
from redisbeater.context import Context
from redisbeater.exceptions import FormatTooNew
from redisbeater.store import keys as data_format

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]

STATIC = {"nightly": {"task": "proj.clean", "schedule": 3600.0}}

#: What a newer beat writes, and what no beat writes.
NEWER = ["3", "10", "999999999999999999999"]
NONSENSE = ["", "one", "1.5", "-1", " 1", "0x1", "nan", "1\n", b"\xff\xfe"]


@pytest.fixture
def key(prefix: str) -> str:
    return f"{prefix}:format"


@pytest.fixture(params=[":lock", None], ids=["with-lock", "without-lock"])
def app(request: pytest.FixtureRequest, make_app: MakeApp, prefix: str) -> Celery:
    lock_key = request.param and f"{prefix}{request.param}"
    return make_app(redisbeater_lock_key=lock_key, beat_schedule=STATIC)


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def test_a_beat_that_begins_to_lead_records_its_version(
    scheduler: RedisScheduler, client: redis.Redis, key: str
) -> None:
    scheduler.tick()

    assert client.get(key) == str(data_format.FORMAT)


@pytest.mark.parametrize("older", ["0", "1", "02"])
def test_an_older_version_is_raised(
    scheduler: RedisScheduler, client: redis.Redis, key: str, older: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_format, "FORMAT", 3)
    client.set(key, older)

    scheduler.tick()

    assert client.get(key) == "3"


@pytest.mark.parametrize("found", [*NEWER, *NONSENSE], ids=repr)
def test_a_beat_does_not_lead_over_data_that_is_newer_or_unknown(
    app: Celery,
    scheduler: RedisScheduler,
    client: redis.Redis,
    prefix: str,
    key: str,
    found: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    save_due(app, "report")
    client.set(key, found)

    delays = [scheduler.tick() for _ in range(3)]

    assert min(delays) > 0.1, "it waits, and does not ask again at once"
    assert client.get(f"{prefix}:lock") is None
    assert not client.exists(f"{prefix}nightly"), "an older beat stores no static entries"
    assert stored(app, "report").total_run_count == 0
    [refusal] = refusals(caplog)
    assert refusal.startswith(f"refusing to lead: {key} holds ")
    assert f"this beat writes format {data_format.FORMAT}" in refusal
    client.delete(key)


def test_the_lock_is_not_even_taken_over_newer_data(make_app: MakeApp, client: redis.Redis, key: str) -> None:
    client.set(key, "3")
    lock = Context.of(make_app()).redis.lock()

    with pytest.raises(FormatTooNew):
        lock.acquire()

    assert client.get(lock.key) is None


def test_what_is_no_text_is_treated_as_newer(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    save_due(app, "report")
    client.hset(key, "version", "1")

    assert run_due(scheduler) == []

    assert f"{key} holds 'a hash'" in refusals(caplog)[0]
    client.delete(key)
    assert names(run_due(scheduler)) == ["report"]


def test_the_log_names_the_version_that_is_needed(
    scheduler: RedisScheduler, client: redis.Redis, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.set(key, "7")

    scheduler.tick()

    assert "start a redisbeater that writes format 7, or roll the data back" in refusals(caplog)[0]


def test_each_version_is_logged_once(
    scheduler: RedisScheduler, client: redis.Redis, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    for found in ("3", "3", "4", "4"):
        client.set(key, found)
        scheduler.tick()
        scheduler.tick()

    assert [f"holds '{number}'" in refusal for number, refusal in zip((3, 4), refusals(caplog), strict=True)] == [
        True
    ] * 2


def test_a_beat_that_refused_leads_after_the_rollback(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    save_due(app, "report")
    client.set(key, "3")
    assert run_due(scheduler) == []

    client.set(key, str(data_format.FORMAT))

    assert names(run_due(scheduler)) == ["report"]
    assert stored(app, "nightly").due_at is not None
    client.set(key, "3")
    scheduler.tick()
    assert len(refusals(caplog)) == 2, "it has led since, so it is news again"


def test_a_leader_steps_down_when_the_data_becomes_newer(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, key: str
) -> None:
    scheduler.tick()
    client.set(key, "3")
    save_due(app, "report")

    assert run_due(scheduler) == []

    assert client.get(f"{prefix}:lock") is None
    assert stored(app, "report").total_run_count == 0
    client.set(key, "2")
    assert names(run_due(scheduler)) == ["report"]


def test_a_leader_that_steps_down_writes_nothing_more(
    scheduler: RedisScheduler, client: redis.Redis, prefix: str, key: str, let_pass: Callable[[float], None]
) -> None:
    scheduler.tick()
    client.set(key, "3")
    client.zrem(f"{prefix}:schedule", f"{prefix}nightly")
    let_pass(repair.PERIOD_SECONDS)

    scheduler.tick()
    scheduler.tick()

    assert client.zscore(f"{prefix}:schedule", f"{prefix}nightly") is None, "it is not put back"


def test_a_standby_that_could_not_lead_is_reported_before_it_has_to(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app()
    with monkeypatch.context() as newer:
        newer.setattr(data_format, "FORMAT", 3)
        make_scheduler(app).tick()

    make_scheduler(app).tick()

    assert f"{key} holds '3'" in refusals(caplog)[0]


def test_what_a_beat_has_claimed_is_committed_although_the_data_became_newer(
    make_app: MakeApp, client: redis.Redis, key: str
) -> None:
    app = make_app(redisbeater_lock_key=None)
    save_due(app, "report")
    flight = mark_in_flight(app)
    client.set(key, "3")

    flight.confirm()

    assert stored(app, "report").total_run_count == 1


def test_a_flush_loses_no_version(scheduler: RedisScheduler, client: redis.Redis, key: str) -> None:
    scheduler.tick()
    client.flushdb()

    for _ in range(3):
        scheduler.tick()

    assert client.get(key) == str(data_format.FORMAT)
