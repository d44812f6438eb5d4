"""Workers report that they are there, with their places and queues, and take that back when they end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.project import Project, leading
from support.waiting import wait_until

from redisbeater import ScheduleStore
from redisbeater.context import Context

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(("pool", "slots"), [("prefork", 3), ("threads", 3), ("solo", 1)])
def test_an_idle_worker_is_seen_until_it_ends(make_project: Callable[..., Project], pool: str, slots: int) -> None:
    project = make_project(redisbeater_track_runs=True, imports=["redisbeater.runs"])
    worker = project.celery(
        "worker", "--pool", pool, "--concurrency", "3", "-Q", "celery,gpu", "-n", "w1@here", "--without-mingle"
    )
    runs = Context.of(project.app()).redis.runs

    text = wait_until(runs.nodes, "a report")["w1@here"]

    assert f'"pool":"{pool.removesuffix("s")}"' in text
    assert f'"slots":{slots}' in text
    assert all(queue in text for queue in ("celery", "gpu"))
    assert worker.end() == 0
    assert runs.nodes() == {}


def test_a_worker_that_was_killed_is_forgotten_by_the_beat_that_leads(make_project: Callable[..., Project]) -> None:
    project = make_project(redisbeater_track_runs=True, imports=["redisbeater.runs"])
    store = ScheduleStore(project.app())
    runs = Context.of(project.app()).redis.runs
    worker = project.worker("-n", "w1@here")
    wait_until(runs.nodes, "a report")
    worker.kill()
    beat = leading(project.beat())
    wait_until(lambda: "worker w1@here has not reported since" in beat.output(), "the beat to forget it", 150)
    assert runs.nodes() == {}
    assert any(line.what == "worker_gone" and line.details["worker"] == "w1@here" for line in store.log())
