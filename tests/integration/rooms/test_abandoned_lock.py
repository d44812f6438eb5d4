"""A lock whose holder is dead, and which Redis does not end because its clock went back.

For a beat that is the same as a clock of its own that goes ahead of the server's: the tests move that one.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from due import save_due
from outbox import names, run_due, take

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater
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


def test_a_standby_that_takes_a_lock_that_has_expired_meanwhile_says_nothing_of_the_clock(
    app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    key: str,
    let_pass: Pass,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hold(client, key, TIMEOUT_SECONDS)
    standby = make_scheduler(app)
    standby.tick()
    let_pass(TIMEOUT_SECONDS + 1)  # an outage, in which the leader has ended, and the lock with it
    client.delete(key)

    standby.tick()

    assert client.get(key).startswith(f"{socket.gethostname()}:{os.getpid()}:")
    assert "clock went back" not in caplog.text


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
    assert f"the lock {key} is RedBeat's and ends in 1500 s unless its beat renews it" in begun(warning)
    assert warning.endswith(f" DEL {key}")


def begun(text: str) -> str:
    """Return a text as it was when the lock had just been taken, whatever has passed since."""
    return re.sub(r"\b14\d\d s", "1500 s", text)


@pytest.fixture
def redbeat(client: redis.Redis, key: str) -> str:
    """The lock as a RedBeat that was killed leaves it; its warning, up to the command that releases it."""
    hold(client, key, 1500.0, by=uuid.uuid1().hex)
    return f"the lock {key} is RedBeat's and ends in 1500 s unless its beat renews it; if that beat has ended, one that"


def test_the_status_says_whose_lock_it_is_when_that_ends_and_how_to_release_it(
    app: Celery, key: str, redbeat: str
) -> None:
    status = ScheduleStore(app).status()
    drawn = CliRunner().invoke(redisbeater, ["status"], obj=SimpleNamespace(app=app)).stdout

    [leader] = [line for line in drawn.splitlines() if line.startswith("leader")]
    command = f"{Context.of(app).redis.command_line} DEL {key}"
    expected = f"leader     RedBeat: {redbeat} stands by leads at once after {command}"
    assert begun(leader) == expected
    assert (status.leader_name, 1440 < status.as_dict()["lock_left"] <= 1500) == ("RedBeat", True)
    assert begun(status.as_dict()["lock_warning"]) == expected.partition("RedBeat: ")[2]


def test_a_lock_of_redbeat_is_no_healthy_leader(app: Celery, redbeat: str) -> None:
    health = ScheduleStore(app).health()

    assert health.failed == ("lead",)
    assert begun(health.sentence).startswith(f"unhealthy: {redbeat}")


def test_why_says_that_a_run_waits_for_the_lock_of_redbeat(app: Celery, redbeat: str) -> None:
    save_due(app, "report")

    answer = ScheduleStore(app).why("report")

    assert answer.verdict == "no_leader"
    assert begun(answer.sentence).startswith(f"Not sent yet: {redbeat}")
    assert "; due since " in answer.sentence


def test_why_shows_the_lock_of_redbeat_beside_a_time_to_come(app: Celery, redbeat: str) -> None:
    ScheduleStore(app).create("report", "proj.job", 3600)

    answer = ScheduleStore(app).why("report")

    assert answer.verdict == "waits"
    assert begun(answer.evidence[0].text).startswith(redbeat)


def test_a_lock_that_never_ends_is_a_warning_unless_its_beat_writes_that_it_runs(
    app: Celery, client: redis.Redis, key: str, prefix: str, make_scheduler: MakeScheduler
) -> None:
    make_scheduler(app).tick()
    client.persist(key)
    runs = ScheduleStore(app).status()
    client.delete(f"{prefix}:beats")
    silent = ScheduleStore(app).status()

    assert (runs.lock_warning, runs.lock_left, silent.lock_left) == ("", None, None)
    assert silent.lock_warning.startswith(f"the lock {key} of {socket.gethostname()}:")
    assert "has no time to live; if that beat has ended, no beat leads until redis-cli " in silent.lock_warning


def test_a_lock_without_a_time_to_live_is_left(lock: Lock, client: redis.Redis, key: str, let_pass: Pass) -> None:
    client.set(key, "by hand")
    lock.acquire()
    let_pass(10_000)

    assert not lock.acquire()
    assert (lock.is_endless, client.get(key)) == (True, "by hand")
