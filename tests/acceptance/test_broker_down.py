"""``celery beat`` and a Redis broker that is unavailable, hangs or is cut off: no run is lost, beat goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from arrivals import AWAY, BACK, EACH_ONCE, Arrivals, says
from claims import is_claimed
from project import BROKER_DB, Project
from proxy import LOOPBACK, Proxy
from servers import Server

from redisbeater import RedisScheduleEntry

#: A text in every message.
TASK = b"proj.note"


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Between beat and its broker, and nothing else."""
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def project(proxy: Proxy, server: Server, client: redis.Redis, prefix: str, tmp_path: Path) -> Iterator[Project]:
    settings = {
        "broker_read_url": server.url(BROKER_DB),
        "broker_write_url": f"redis://{LOOPBACK}:{proxy.port}/{BROKER_DB}",
        "redisbeater_publish_timeout": 2,
    }
    with Project(server, prefix, tmp_path, **settings) as project:
        yield project


@pytest.fixture
def arrivals(project: Project, client: redis.Redis, prefix: str) -> Arrivals:
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


def test_a_connection_that_is_cut_again_and_again_costs_no_run(arrivals: Arrivals, proxy: Proxy) -> None:
    for _ in range(4):
        cut = proxy.cut_after(TASK, 2)
        assert cut.wait(60)

    assert arrivals.outcome() == EACH_ONCE


def test_a_reply_that_is_lost_costs_no_run_and_counts_none_twice(arrivals: Arrivals, proxy: Proxy) -> None:
    lost = proxy.lose_reply(TASK)
    assert lost.wait(60)

    assert arrivals.outcome() == EACH_ONCE


def test_a_connection_that_the_broker_closes_costs_no_run(arrivals: Arrivals, project: Project) -> None:
    project.broker.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    assert arrivals.outcome() == EACH_ONCE


def test_a_beat_that_starts_without_its_broker_waits_for_it(
    project: Project, proxy: Proxy, client: redis.Redis, prefix: str
) -> None:
    proxy.refuse()
    arrivals = Arrivals(project, client, prefix)
    arrivals.misses_the_broker()

    proxy.heal()

    assert arrivals.outcome() == EACH_ONCE


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
