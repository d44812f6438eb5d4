"""Redis Sentinel: beat uses the master that the Sentinels name, also after a failover."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from failing_over import failed_over, user_beat, users_of
from outbox import names, run_due
from redis.credentials import UsernamePasswordCredentialProvider
from support.ports import LOOPBACK, dead_port
from support.servers import Server
from support.topologies import FAILOVER_SECONDS, SERVICE, Sentinels, app_with, running_watcher
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore, StoreError, StoreUnavailable

MakeScheduler = Callable[..., RedisScheduler]

LOCK = "redisbeater::lock"


@pytest.fixture
def make_app(sentinels: Sentinels) -> Callable[..., Celery]:
    """Make apps over the Sentinels, whose schedulers end before these are healed."""
    return app_with


@pytest.fixture
def app(make_app: Callable[..., Celery], sentinels: Sentinels) -> Celery:
    """An app whose lock outlasts a failover, however long that takes."""
    return make_app(**sentinels.settings(), redisbeater_lock_timeout=2 * FAILOVER_SECONDS)


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
    app: Celery, scheduler: RedisScheduler, sentinels: Sentinels
) -> None:
    seen = failed_over(scheduler, LOCK, lambda: sentinels.master, sentinels.fail_over)

    assert seen.lock == seen.lock_before is not None
    assert (seen.sent_before, seen.sent) == (["before"], ["after"])
    assert stored(app, "before").total_run_count == 1


@contextlib.contextmanager
def demoted(client: redis.Redis) -> Iterator[None]:
    """Make a server a replica, and a master again whatever happens: other tests use it, too."""
    client.replicaof(LOOPBACK, str(dead_port()))
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
    hosts = [(LOOPBACK, dead_port()), *sentinels.hosts[:1]]
    options = {"sentinels": hosts, "service_name": SERVICE}

    app = app_with(redisbeater_redis_url="redis-sentinel://", redisbeater_redis_options=options)

    assert ScheduleStore(app).count() == 0


@pytest.mark.usefixtures("short_retries")
def test_without_a_sentinel_that_answers_redis_is_unavailable() -> None:
    app = app_with(
        redisbeater_redis_url=f"sentinel://:hunter2@127.0.0.1:{dead_port()}",
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
    with user_beat(sentinels.servers) as password:
        yield password


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
    assert "beat" in users_of(sentinels.master)
