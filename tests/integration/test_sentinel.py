"""Redis Sentinel: beat uses the master that the Sentinels name, also after a failover."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import names, run_due, take
from ports import LOOPBACK
from redis.credentials import UsernamePasswordCredentialProvider
from servers import Server, free_port
from topologies import FAILOVER_SECONDS, SERVICE, Sentinels, app_with, running_watcher
from waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore, StoreError, StoreUnavailable
from redisbeater.store.connection import connection

MakeScheduler = Callable[..., RedisScheduler]

LOCK = "redisbeater::lock"


@pytest.fixture
def make_scheduler() -> Iterator[MakeScheduler]:
    """Make schedulers that the test drives by hand; they are closed when it ends."""
    with contextlib.ExitStack() as stack:

        def make(app: Celery) -> RedisScheduler:
            scheduler = RedisScheduler(app)
            stack.callback(scheduler.close)
            return scheduler

        yield make


@pytest.fixture
def app(sentinels: Sentinels) -> Celery:
    """An app whose lock outlasts a failover, however long that takes."""
    return app_with(**sentinels.settings(), redisbeater_lock_timeout=2 * FAILOVER_SECONDS)


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make calls give up soon, for tests that need several of them to fail."""
    monkeypatch.setattr(connection, "RETRY_SECONDS", 0.2)


def redbeat_form(sentinels: Sentinels) -> dict[str, Any]:
    options = {"sentinels": sentinels.hosts, "service_name": SERVICE, "db": 1}
    return {"redisbeater_redis_url": "redis-sentinel://redis-sentinel:26379/0", "redisbeater_redis_options": options}


def kombu_form(sentinels: Sentinels) -> dict[str, Any]:
    return {
        "redisbeater_redis_url": sentinels.url(db=1),
        "redisbeater_redis_options": {"master_name": SERVICE},
    }


@pytest.mark.parametrize("form", [kombu_form, redbeat_form])
def test_entries_run_on_the_master(
    sentinels: Sentinels, make_scheduler: MakeScheduler, form: Callable[[Sentinels], dict[str, Any]]
) -> None:
    app = app_with(**form(sentinels))
    save_due(app, "report")

    assert names(run_due(make_scheduler(app))) == ["report"]

    assert sentinels.master.info("keyspace")["db1"]["keys"] >= 3


def test_a_failover_loses_neither_the_lock_nor_a_run(
    app: Celery, sentinels: Sentinels, make_scheduler: MakeScheduler
) -> None:
    scheduler = make_scheduler(app)
    scheduler.is_served = True
    save_due(app, "before")
    assert wait_until(lambda: ticked(scheduler), "a run") == ["before"]
    token = sentinels.master.ask("GET", LOCK)
    wait_until(lambda: {node.ask("GET", LOCK) for node in sentinels.servers} == {token}, "the replica to have the lock")

    sentinels.fail_over()

    wait_until(lambda: scheduler.tick() == 0 and not scheduler._outage.is_on, "the outage to end", FAILOVER_SECONDS)
    assert sentinels.master.ask("GET", LOCK) == token
    saving = threading.Timer(0.1, save_due, (app, "after"))  # to the former replica, which has no script yet
    saving.start()
    assert wait_until(lambda: ticked(scheduler), "the run of an entry saved after it") == ["after"]
    saving.join()
    assert stored(app, "before").total_run_count == 1


def ticked(scheduler: RedisScheduler) -> list[str]:
    scheduler.tick()
    return names(take(scheduler.app))


@contextlib.contextmanager
def demoted(client: redis.Redis) -> Iterator[None]:
    """Make a server a replica, and a master again whatever happens: other tests use it, too."""
    client.replicaof(LOOPBACK, str(free_port()))
    try:
        yield
    finally:
        client.replicaof("NO", "ONE")


@pytest.mark.usefixtures("short_retries")
def test_a_master_that_became_a_replica_is_unavailable(server: Server) -> None:
    app = app_with(redisbeater_redis_url=server.url(), redisbeater_key_prefix="demoted:")
    with server.client() as client, demoted(client), pytest.raises(StoreUnavailable):
        save_due(app, "report")

    save_due(app, "report")
    ScheduleStore(app).delete("report")
    with server.client() as client:  # answers, the log and the deleted entry, which would expire
        client.delete(*client.scan_iter("demoted:*"))


def test_one_sentinel_that_answers_is_enough(sentinels: Sentinels) -> None:
    hosts = [(LOOPBACK, free_port()), *sentinels.hosts[:1]]
    options = {"sentinels": hosts, "service_name": SERVICE}

    app = app_with(redisbeater_redis_url="redis-sentinel://", redisbeater_redis_options=options)

    assert ScheduleStore(app).count() == 0


@pytest.mark.usefixtures("short_retries")
def test_without_a_sentinel_that_answers_redis_is_unavailable() -> None:
    app = app_with(
        redisbeater_redis_url=f"sentinel://:hunter2@127.0.0.1:{free_port()}",
        redisbeater_redis_options={"service_name": SERVICE, "sentinel_kwargs": {"password": "hunter2"}},
    )

    with pytest.raises(StoreUnavailable, match=f"no Sentinel knows a master '{SERVICE}'") as raised:
        ScheduleStore(app).count()

    assert "hunter2" not in repr(raised.value) + repr(raised.value.__cause__) + repr(raised.value.__cause__.__cause__)


@pytest.mark.usefixtures("short_retries")
def test_the_error_of_an_unknown_service_names_it(sentinels: Sentinels) -> None:
    app = app_with(redisbeater_redis_url=sentinels.url(), redisbeater_redis_options={"service_name": "another"})

    with pytest.raises(StoreUnavailable, match="no Sentinel knows a master 'another' that is up"):
        ScheduleStore(app).count()


def test_the_password_of_the_sentinels_is_in_sentinel_kwargs(server: Server, prefix: str) -> None:
    with running_watcher(server, password="right") as watcher:
        url = f"sentinel://{watcher.address}"
        options = {"service_name": SERVICE, "sentinel_kwargs": {"password": "right"}}
        app = app_with(redisbeater_redis_url=url, redisbeater_redis_options=options, redisbeater_key_prefix=prefix)
        assert wait_until(lambda: ScheduleStore(app).count() == 0, "the Sentinel to know its master")

        options = {"service_name": SERVICE, "sentinel_kwargs": {"password": "hunter2"}}
        app = app_with(redisbeater_redis_url=url, redisbeater_redis_options=options)
        with pytest.raises(StoreError) as raised:
            ScheduleStore(app).count()

    assert not isinstance(raised.value, StoreUnavailable), "a wrong password is not an outage"
    assert "hunter2" not in str(raised.value)


@pytest.fixture
def password(sentinels: Sentinels) -> Iterator[str]:
    """The password of the user beat, whom both servers know."""
    for server in sentinels.servers:
        server.ask("ACL", "SETUSER", "beat", "on", ">right", "~*", "resetchannels", "&*", "+@all")
    yield "right"
    for server in sentinels.servers:
        server.ask("ACL", "DELUSER", "beat")


def test_the_credential_provider_is_asked_for_the_password(
    sentinels: Sentinels, password: str, make_scheduler: MakeScheduler
) -> None:
    provider = UsernamePasswordCredentialProvider("beat", password)
    app = app_with(
        redisbeater_redis_url=sentinels.url(),
        redisbeater_redis_options={"service_name": SERVICE, "credential_provider": provider},
    )
    save_due(app, "report")

    assert names(run_due(make_scheduler(app))) == ["report"]
    with sentinels.master.client as client:
        assert "beat" in {each["user"] for each in client.client_list()}
