"""A lock whose holder is dead, and which Redis does not end because its clock went back.

For a beat that is the same as a clock of its own that goes ahead of the server's: the tests move that one.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from due import save_due
from outbox import names, run_due, take

from redisbeater import RedisScheduler
from redisbeater.context import Context
from redisbeater.store.lock import LONGEST_RENEWAL_SECONDS, Lock

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Pass = Callable[[float], None]

TIMEOUT_SECONDS = 15.0


@pytest.fixture
def key(prefix: str) -> str:
    return f"{prefix}:lock"


@pytest.fixture
def lock(app: Celery) -> Lock:
    return Context.of(app).redis.lock()


def hold(client: redis.Redis, key: str, seconds: float, *, by: str = "dead") -> None:
    client.set(key, by, px=int(seconds * 1000))


def test_a_standby_leads_within_the_timeout_and_logs_whose_lock_it_took(
    app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    key: str,
    let_pass: Pass,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hold(client, key, TIMEOUT_SECONDS)
    standby = make_scheduler(app)
    save_due(app, "report")
    standby.tick()
    let_pass(TIMEOUT_SECONDS - 1)
    standby.tick()
    assert take(app) == []

    let_pass(2)

    assert names(run_due(standby)) == ["report"]
    assert client.get(key).startswith(f"{socket.gethostname()}:{os.getpid()}:")
    assert "took the lock from dead, which does not renew it; Redis's clock went back" in caplog.text


def test_a_leader_that_renews_its_lock_keeps_it(lock: Lock, client: redis.Redis, key: str, let_pass: Pass) -> None:
    for seconds in (14.0, 14.5, 13.7, 14.9):
        hold(client, key, seconds)
        assert not lock.acquire()
        let_pass(TIMEOUT_SECONDS - 1)

    assert not lock.acquire()
    assert client.get(key) == "dead"


def test_a_lock_that_is_renewed_after_the_last_look_is_left(
    lock: Lock, client: redis.Redis, key: str, let_pass: Pass
) -> None:
    hold(client, key, TIMEOUT_SECONDS)
    lock.acquire()
    let_pass(TIMEOUT_SECONDS + 1)
    hold(client, key, TIMEOUT_SECONDS - 1)

    assert not lock.acquire()
    assert client.get(key) == "dead"


def test_another_leader_is_another_lock(lock: Lock, client: redis.Redis, key: str, let_pass: Pass) -> None:
    hold(client, key, TIMEOUT_SECONDS)
    lock.acquire()
    let_pass(TIMEOUT_SECONDS + 1)
    hold(client, key, TIMEOUT_SECONDS, by="another")

    assert not lock.acquire()
    assert not lock.acquire()
    assert (lock.holder, client.get(key)) == ("another", "another")


@pytest.mark.parametrize("left", [60.0, 583.0], ids=["a longer timeout", "a clock that went back before"])
def test_a_lock_that_lasts_longer_than_ours_gets_a_minute(
    lock: Lock, client: redis.Redis, key: str, let_pass: Pass, left: float
) -> None:
    hold(client, key, left)
    lock.acquire()
    let_pass(LONGEST_RENEWAL_SECONDS - 1)
    assert not lock.acquire()

    let_pass(2)

    assert lock.acquire()
    assert lock.taken_from == "dead"
    assert lock.acquire()
    assert lock.taken_from == ""


def test_the_lock_of_redbeat_is_left_until_it_ends_and_is_named(
    app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    key: str,
    let_pass: Pass,
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = uuid.uuid1().hex  # as redis-py makes it
    hold(client, key, 1500.0, by=token)
    standby = make_scheduler(app)

    standby.tick()
    let_pass(LONGEST_RENEWAL_SECONDS + 1)
    standby.tick()

    assert client.get(key) == token
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"the lock {key} is RedBeat's and ends in 1500 s unless its beat renews it" in warning
    assert warning.endswith(f" DEL {key}")


def test_a_lock_without_a_time_to_live_is_left(lock: Lock, client: redis.Redis, key: str, let_pass: Pass) -> None:
    client.set(key, "by hand")
    lock.acquire()
    let_pass(10_000)

    assert not lock.acquire()
    assert (lock.is_endless, client.get(key)) == (True, "by hand")
