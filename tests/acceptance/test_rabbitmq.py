"""``celery beat`` with RabbitMQ: runs are confirmed, and no end of a connection costs one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from arrivals import AWAY, BACK, EACH_ONCE, Arrivals, says
from project import Project
from proxy import Proxy
from rabbitmq import RabbitMQ
from servers import Server

#: A text in every message.
TASK = b"proj.note"


@pytest.fixture
def proxy(rabbitmq: RabbitMQ) -> Iterator[Proxy]:
    """Between beat and its broker, and nothing else."""
    with Proxy(rabbitmq.port) as proxy:
        yield proxy


@pytest.fixture
def arrivals(
    proxy: Proxy, rabbitmq: RabbitMQ, server: Server, client: redis.Redis, prefix: str, tmp_path: Path
) -> Iterator[Arrivals]:
    """A beat that sends through the proxy, and a worker that does not read through it; the first run has arrived."""
    settings = {
        "broker_read_url": rabbitmq.url(),
        "broker_write_url": rabbitmq.url(proxy.port),
        "task_default_queue": f"queue-{uuid.uuid4().hex}",
        "redisbeater_publish_timeout": 2,
    }
    with Project(server, prefix, tmp_path, **settings) as project:
        arrivals = Arrivals(project, client, prefix)
        arrivals.wait_for_more(1)
        yield arrivals


def test_a_node_that_crashes_and_starts_again_costs_no_run(arrivals: Arrivals, rabbitmq: RabbitMQ) -> None:
    rabbitmq.kill()
    arrivals.misses_the_broker()
    rabbitmq.start()
    arrivals.has_the_broker_again()

    assert arrivals.outcome() == EACH_ONCE

    assert [arrivals.beat.output().count(line) for line in (AWAY, BACK)] == [1, 1]


@pytest.mark.parametrize("fault", [pytest.param(Proxy.refuse, id="refuses"), pytest.param(Proxy.swallow, id="hangs")])
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


def test_a_connection_that_is_cut_again_and_again_costs_no_run(arrivals: Arrivals, proxy: Proxy) -> None:
    for _ in range(4):
        cut = proxy.cut_after(TASK, 2)
        assert cut.wait(60)

    assert arrivals.outcome() == EACH_ONCE


def test_a_confirmation_that_is_lost_costs_no_run_and_counts_none_twice(arrivals: Arrivals, proxy: Proxy) -> None:
    lost = proxy.lose_reply(TASK)
    assert lost.wait(60)

    assert arrivals.outcome() == EACH_ONCE


def test_a_connection_that_the_broker_closes_costs_no_run(arrivals: Arrivals, rabbitmq: RabbitMQ) -> None:
    rabbitmq.control("close_all_connections", "maintenance")

    assert arrivals.outcome() == EACH_ONCE
