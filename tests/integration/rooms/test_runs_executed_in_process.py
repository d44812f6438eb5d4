"""Runs that beat sends and this process executes, as a worker does: what they cost Redis, and how some of them end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from celery.exceptions import Reject
from due import save_due
from outbox import Sent, run_due
from run_site import TRACKED, execute

from redisbeater import RedisScheduler, ScheduleStore

pytestmark = [
    pytest.mark.usefixtures("reporting"),
]


@pytest.fixture
def make(make_app: Callable[..., Celery]) -> Callable[..., Celery]:
    """Make an app with a task that ends well, and one that gives its message back."""

    def make(**settings: Any) -> Celery:
        app = make_app(**{**TRACKED, "result_expires": None, **settings})

        @app.task(name="proj.work", shared=False, ignore_result=True)
        def work() -> None:
            pass

        @app.task(name="proj.reject", shared=False, ignore_result=True)
        def reject(requeue: bool) -> None:
            raise Reject("no feed", requeue=requeue)

        return app

    return make


def calls(client: redis.Redis) -> int:
    """Return how many scripts the server has run; beats and workers do nothing else with a run."""
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])  # type: ignore[index]


def send_one(
    app: Celery, make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, name: str
) -> tuple[Sent, int]:
    """Let a beat send the only run that is due, and return it and the number of scripts that this took."""
    scheduler = make_scheduler(app)
    run_due(scheduler)
    save_due(app, name)
    before = calls(client)
    [sent] = run_due(scheduler)
    return sent, calls(client) - before


def test_a_tracked_run_costs_beat_no_round_trip_and_its_worker_two(
    make: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis
) -> None:
    _, untracked = send_one(make(redisbeater_track_runs=False), make_scheduler, client, "plain")
    app = make()
    first, tracked = send_one(app, make_scheduler, client, "report")
    execute(app, first)  # which connects, and loads the scripts
    second, _ = send_one(app, make_scheduler, client, "other")
    before = calls(client)

    execute(app, second)

    assert calls(client) - before == 2
    assert tracked == untracked
    assert ScheduleStore(app).runs.get(second.id).state == "SUCCESS"


@pytest.mark.parametrize(
    ("requeue", "acks_late", "state"), [(True, True, "RETRY"), (True, False, "FAILURE"), (False, True, "FAILURE")]
)
def test_a_rejected_run_waits_for_its_next_delivery_only_if_there_is_one(
    make: Callable[..., Celery], scheduler: RedisScheduler, app: Celery, requeue: bool, acks_late: bool, state: str
) -> None:
    app.tasks["proj.reject"].acks_late = acks_late
    save_due(app, "report", "proj.reject", args=[requeue])
    [sent] = run_due(scheduler)

    execute(app, sent)

    run = ScheduleStore(app).runs.get(sent.id)
    assert (run.state, run.note, run.error) == (state, "rejected", "no feed")


@pytest.fixture
def app(make: Callable[..., Celery]) -> Celery:
    return make()
