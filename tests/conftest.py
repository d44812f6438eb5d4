from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rabbitmq
import redis
from celery import Celery
from hypothesis import HealthCheck, settings
from servers import INSTALL, Program, Server, programs, running
from topologies import Cluster, Sentinels, running_cluster, running_sentinels

#: Databases of the test server: the schedule's, the broker's.
SCHEDULE_DB, BROKER_DB = 0, 1

# How long an example takes on a shared machine says nothing about it.
settings.register_profile("shared-machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")


def _name(program: Program | None) -> str:
    return program.name if program else "no-server"


@pytest.fixture(scope="session", params=programs() or [None], ids=_name)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A real server; the tests that use it run once for each program found."""
    if request.param is None:
        pytest.fail(INSTALL)
    with running(request.param) as server:
        yield server


@pytest.fixture(scope="session", name="rabbitmq")
def rabbitmq_node() -> Iterator[rabbitmq.RabbitMQ]:
    """A real RabbitMQ node, started for the first test that asks for it."""
    if rabbitmq.program() is None:
        give_up = pytest.fail if rabbitmq.is_required() else pytest.skip
        give_up(rabbitmq.INSTALL)
    with rabbitmq.running() as node:
        yield node


@pytest.fixture
def prefix() -> str:
    return f"t-{uuid.uuid4().hex[:8]}:"


@pytest.fixture
def client(server: Server, prefix: str) -> Iterator[redis.Redis]:
    """A plain client of the schedule's database, which must hold no key afterwards that we do not know."""
    client = server.client(SCHEDULE_DB)
    yield client
    unknown = [key for key in client.scan_iter() if not _is_known(client, key, prefix)]
    for db in (SCHEDULE_DB, BROKER_DB):
        server.client(db).flushdb()
    assert not unknown, f"keys left that are none of ours: {unknown}"


def _is_known(client: redis.Redis, key: str, prefix: str) -> bool:
    if not key.startswith(prefix):
        return False
    ours = {"schedule": "zset", "statics": "set", "broken": "hash", **dict.fromkeys(("lock", "id", "format"), "string")}
    kind = "string" if key.startswith(f"{prefix}:claim:") else "hash"
    expected = ours.get(key.removeprefix(f"{prefix}:"), kind)
    return client.type(key) == expected


@pytest.fixture
def make_app(server: Server, client: redis.Redis, prefix: str) -> Callable[..., Celery]:
    """Make apps over one fresh schedule; their broker is in memory unless they say otherwise."""

    def make(name: str = "proj", **settings: Any) -> Celery:
        app = Celery(name, broker="memory://", set_as_current=False)
        own = {"redisbeater_redis_url": server.url(SCHEDULE_DB), "redisbeater_key_prefix": prefix}
        app.conf.update({**own, **settings})
        return app

    return make


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app()


@pytest.fixture(scope="session", params=programs() or [None], ids=_name)
def _sentinels(request: pytest.FixtureRequest) -> Iterator[Sentinels]:
    if request.param is None:
        pytest.fail(INSTALL)
    with running_sentinels(request.param) as sentinels:
        yield sentinels


@pytest.fixture
def sentinels(_sentinels: Sentinels) -> Iterator[Sentinels]:
    """Sentinels with a master and a replica, empty; whole again after each test."""
    yield _sentinels
    _sentinels.heal()
    _sentinels.master.ask("FLUSHALL")


@pytest.fixture(scope="session", params=programs() or [None], ids=_name)
def _cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param is None:
        pytest.fail(INSTALL)
    with running_cluster(request.param) as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: Cluster) -> Iterator[Cluster]:
    """A cluster of three masters, each with a replica, empty; whole again after each test."""
    yield _cluster
    _cluster.heal()
    for master in _cluster.masters:
        master.ask("FLUSHALL")
