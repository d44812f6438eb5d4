"""``celery beat`` and a broker that is unavailable, hangs, crashes or is cut off: no run is lost, beat goes on."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from arrivals import AWAY, BACK, EACH_ONCE, Arrivals, says
from support.claims import is_claimed
from support.project import BROKER_DB, Project
from support.proxy import LOOPBACK, Proxy
from support.rabbitmq import RabbitMQ
from support.servers import Server

from redisbeater import RedisScheduleEntry

#: A text in every message.
TASK = b"proj.note"


@dataclass(frozen=True)
class Broker:
    """A broker, its URL on a port, and how it closes its connections."""

    port: int
    url: Callable[[int], str]
    close_connections: Callable[[], object]
    settings: dict[str, Any] = field(default_factory=dict)


def redis_broker(server: Server) -> Broker:
    def close() -> object:
        return server.client(BROKER_DB).execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    # Messages go through the proxy, and not with the commit by the connection of the schedule.
    settings = {"redisbeater_one_commit": False}
    return Broker(server.port, lambda port: f"redis://{LOOPBACK}:{port}/{BROKER_DB}", close, settings)


def rabbitmq_broker(node: RabbitMQ) -> Broker:
    def close() -> None:
        node.control("close_all_connections", "maintenance")

    return Broker(node.port, node.url, close, {"task_default_queue": f"queue-{uuid.uuid4().hex}"})


@pytest.fixture(params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest, server: Server) -> Broker:
    """A broker of each kind; its tests are skipped without a RabbitMQ."""
    return redis_broker(server) if request.param == "redis" else rabbitmq_broker(request.getfixturevalue("rabbitmq"))


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    """Between beat and its broker, and nothing else."""
    with Proxy(broker.port) as proxy:
        yield proxy


@pytest.fixture
def project(
    broker: Broker, proxy: Proxy, server: Server, client: redis.Redis, prefix: str, tmp_path: Path
) -> Iterator[Project]:
    """A project that sends through the proxy, and whose worker does not read through it."""
    settings = {
        "broker_read_url": broker.url(broker.port),
        "broker_write_url": broker.url(proxy.port),
        "redisbeater_publish_timeout": 2,
        **broker.settings,
    }
    with Project(server, prefix, tmp_path, **settings) as project:
        yield project


@pytest.fixture
def arrivals(project: Project, client: redis.Redis, prefix: str) -> Arrivals:
    """A beat and a worker; the first run has arrived."""
    arrivals = Arrivals(project, client, prefix)
    arrivals.wait_for_more(1)
    return arrivals


FAULTS = [
    pytest.param(Proxy.refuse, id="refuses"),
    pytest.param(Proxy.swallow, id="hangs"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_an_outage_costs_no_run_and_no_leader_and_is_logged_once(
    arrivals: Arrivals, proxy: Proxy, fault: Callable[[Proxy], None]
) -> None:
    fault(proxy)
    arrivals.misses_the_broker()
    says(arrivals.beat, "broker still unavailable")
    proxy.heal()
    arrivals.has_the_broker_again()

    assert arrivals.outcome() == EACH_ONCE

    assert [arrivals.beat.output().count(line) for line in (AWAY, BACK)] == [1, 1]


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
def test_a_node_that_crashes_and_starts_again_costs_no_run(arrivals: Arrivals, rabbitmq: RabbitMQ) -> None:
    rabbitmq.kill()
    arrivals.misses_the_broker()
    rabbitmq.start()
    arrivals.has_the_broker_again()

    assert arrivals.outcome() == EACH_ONCE

    assert [arrivals.beat.output().count(line) for line in (AWAY, BACK)] == [1, 1]


def test_a_connection_that_is_cut_again_and_again_costs_no_run(arrivals: Arrivals, proxy: Proxy) -> None:
    for _ in range(4):
        cut = proxy.cut_after(TASK, 2)
        assert cut.wait(60)

    assert arrivals.outcome() == EACH_ONCE


def test_a_reply_that_is_lost_costs_no_run_and_counts_none_twice(arrivals: Arrivals, proxy: Proxy) -> None:
    lost = proxy.lose_reply(TASK)  # RabbitMQ's is its confirmation
    assert lost.wait(60)

    assert arrivals.outcome() == EACH_ONCE


def test_a_connection_that_the_broker_closes_costs_no_run(arrivals: Arrivals, broker: Broker) -> None:
    broker.close_connections()

    assert arrivals.outcome() == EACH_ONCE


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_beat_that_starts_without_its_broker_waits_for_it(
    project: Project, proxy: Proxy, client: redis.Redis, prefix: str
) -> None:
    proxy.refuse()
    arrivals = Arrivals(project, client, prefix)
    arrivals.misses_the_broker()

    proxy.heal()

    assert arrivals.outcome() == EACH_ONCE


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_sigterm_ends_a_beat_whose_broker_is_unavailable(
    project: Project, proxy: Proxy, fault: Callable[[Proxy], None], client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("hello", "proj.note", 0.2, app=project.app()).save()
    fault(proxy)
    beat = project.beat()
    beat.says(AWAY)

    assert beat.end() == 0

    assert "Traceback" not in beat.output()
    assert client.get(f"{prefix}:lock") is None
    assert not is_claimed(client, f"{prefix}hello")
