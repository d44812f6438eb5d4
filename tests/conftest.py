from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from celery import _state as celery_state
from hypothesis import HealthCheck, settings
from support import rabbitmq
from support.servers import INSTALL, Program, Server, programs, running
from support.topologies import Cluster, Keeper, Sentinels, running_cluster, running_sentinels

#: Databases of the test server: of the schedule and of the broker.
SCHEDULE_DB, BROKER_DB = 0, 1

# Examples have no deadline: on a shared machine any of them may take long.
settings.register_profile("shared-machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")

# A test that asks a real server in each example takes this profile: few examples, the same in each run, unless the
# environment sets another number.
settings.register_profile(
    "real-server",
    settings.get_profile("shared-machine"),
    max_examples=int(os.environ.get("REDISBEATER_EXAMPLES", "25")),
    derandomize="REDISBEATER_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)


#: Seconds that a test of real processes may take on a busy machine: they start, fail over and are healed.
PROCESSES_TIMEOUT = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start many processes more time than the default."""
    for item in items:
        slow = "acceptance" in item.path.parts or {"sentinels", "cluster"} & set(getattr(item, "fixturenames", ()))
        if slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PROCESSES_TIMEOUT))


def _name(program: Program | None) -> str:
    return program.name if program else "no-server"


@pytest.fixture(scope="session", params=programs() or [None], ids=_name)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A real server; the tests that use it run once for each program on this machine."""
    if request.param is None:
        pytest.fail(INSTALL)
    with running(request.param) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_program() -> None:
    """RabbitMQ on this machine; where it is not required, the tests that need it are skipped without it."""
    if rabbitmq.program() is None:
        give_up = pytest.fail if rabbitmq.is_required() else pytest.skip
        give_up(rabbitmq.INSTALL)


@pytest.fixture(scope="session", name="rabbitmq")
def rabbitmq_node(rabbitmq_program: None) -> Iterator[rabbitmq.RabbitMQ]:
    """A real RabbitMQ node, started for the first test that asks for it."""
    with rabbitmq.running() as node:
        yield node


@pytest.fixture
def prefix() -> str:
    return f"t-{uuid.uuid4().hex[:8]}:"


@pytest.fixture
def client(server: Server, prefix: str) -> Iterator[redis.Redis]:
    """A plain client of the schedule's database; fails the test if it leaves a key that the wire format has not."""
    client = server.client(SCHEDULE_DB)
    yield client
    try:
        unknown = [key for key in client.scan_iter() if not _is_known(client, key, prefix)]
    finally:
        for db in (SCHEDULE_DB, BROKER_DB):
            server.client(db).flushdb()
    assert not unknown, f"the test left unknown keys: {unknown}"


def _is_known(client: redis.Redis, key: str, prefix: str) -> bool:
    if not key.startswith(prefix):
        return False
    texts = dict.fromkeys(("lock", "id", "format", "zone", "zone:before", "pause"), "string")
    ours = {
        "schedule": "zset",
        "failing": "zset",
        "deleted": "zset",
        "statics": "set",
        "broken": "hash",
        "log": "list",
        "active": "zset",
        "resend": "zset",
        **texts,
    }
    kinds = {f"{prefix}:claim:": "string", f"{prefix}:answer:": "string", f"{prefix}:log:": "list"}
    kinds[f"{prefix}:payload:"] = "string"
    kinds |= {f"{prefix}:runs:": "zset", f"{prefix}:active:": "set"}
    kind = next((kind for start, kind in kinds.items() if key.startswith(start)), "hash")
    expected = ours.get(key.removeprefix(f"{prefix}:"), kind)
    return client.type(key) == expected


@pytest.fixture
def nothing_of_a_worker_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a worker in this process sets for the whole process: current app, root of all loggers."""
    monkeypatch.setattr(celery_state, "default_app", celery_state.default_app)
    root, current = logging.getLogger(), celery_state._tls.current_app
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    celery_state._tls.current_app = current


@pytest.fixture
def make_app(server: Server, client: redis.Redis, prefix: str) -> Callable[..., Celery]:
    """Make apps over one new schedule; their broker is in memory unless the settings name another."""

    def make(name: str = "proj", **settings: Any) -> Celery:
        app = Celery(name, broker="memory://", set_as_current=False)
        own = {
            "redisbeater_redis_url": server.url(SCHEDULE_DB),
            "redisbeater_key_prefix": prefix,
            "redisbeater_run_write_timeout": 60.0,  # a busy machine is no Redis that is away
            "result_expires": None,  # at 04:00 Celery's own cleanup would run, too
        }
        app.conf.update({**own, **settings})
        return app

    return make


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app()


@pytest.fixture(scope="session", params=programs() or [None], ids=_name)
def _sentinels(request: pytest.FixtureRequest) -> Iterator[Keeper[Sentinels]]:
    if request.param is None:
        pytest.fail(INSTALL)
    with contextlib.closing(Keeper(lambda: running_sentinels(request.param))) as keeper:
        yield keeper


@pytest.fixture
def sentinels(_sentinels: Keeper[Sentinels]) -> Sentinels:
    """Sentinels with a master and a replica, whole and empty, whatever the test before left."""
    return _sentinels.whole()


@pytest.fixture(scope="session", params=programs() or [None], ids=_name)
def _cluster(request: pytest.FixtureRequest) -> Iterator[Keeper[Cluster]]:
    if request.param is None:
        pytest.fail(INSTALL)
    with contextlib.closing(Keeper(lambda: running_cluster(request.param))) as keeper:
        yield keeper


@pytest.fixture
def cluster(_cluster: Keeper[Cluster]) -> Cluster:
    """A cluster of three masters, each with a replica, whole and empty, whatever the test before left."""
    return _cluster.whole()
