"""The signals of tracked runs: of a worker that executes them, and of a beat that loses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from due import save_due
from outbox import Sent, run_due
from run_site import TRACKED
from support.received import Received
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.context import Context
from redisbeater.results import State
from redisbeater.store import Execution
from redisbeater.testing import FakeClock

MakeApp = Callable[..., Celery]

#: How often a beat looks for lost runs: four times in ``redisbeater_run_timeout``.
LOOK_SECONDS = 15


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    app = make_app(**TRACKED, redisbeater_requeue_lost=1)

    @app.task(name="proj.work", shared=False)
    def work(divisor: int = 1) -> float:
        return 1 / divisor

    return app


def ticking_until_sent(scheduler: RedisScheduler, received: Received, number: int) -> Any:
    return wait_until(
        lambda: scheduler.tick() is not None and len(received.of("run_dispatched")) >= number, f"{number} runs"
    )


@pytest.mark.usefixtures("reporting")
def test_a_worker_says_that_a_run_began_and_how_it_ended(
    app: Celery, scheduler: RedisScheduler, received: Received
) -> None:
    save_due(app, "good")
    save_due(app, "bad", args=[0])
    ticking_until_sent(scheduler, received, 2)
    ids = {each["entry"].name: each["run_id"] for each in received.of("run_dispatched")}
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        wait_until(lambda: len(received.of("run_finished")) == 2, "both ends")

    started = {each["run"].name: each for each in received.of("run_started")}
    finished = {each["run"].name: each for each in received.of("run_finished")}
    assert {name: each["run"].id for name, each in started.items()} == ids
    assert {(each["state"], each["duration"]) for each in started.values()} == {("STARTED", None)}
    assert {name: each["state"] for name, each in finished.items()} == {"good": "SUCCESS", "bad": "FAILURE"}
    assert all(each["duration"] >= 0 for each in finished.values())
    assert finished["bad"]["run"].error == "ZeroDivisionError: division by zero"
    assert finished["good"]["run"].attempt == 1
    assert sorted(received.senders("run_finished")) == ["bad", "good"]


def test_a_beat_says_that_a_run_is_lost_that_it_is_requeued_and_that_it_was_sent_again(
    app: Celery, scheduler: RedisScheduler, received: Received, let_pass: Callable[[float], None]
) -> None:
    with FakeClock(app, "2026-05-01 00:00") as clock:
        RedisScheduleEntry("report", "proj.work", 86_400.0, app=app).save()
        clock.advance(days=1)
        [sent] = run_due(scheduler)
        start(app, sent)
        clock.advance(minutes=10)
        let_pass(LOOK_SECONDS)
        assert run_due(scheduler) == []
        clock.advance(minutes=1)
        [again] = run_due(scheduler)

    [lost], [requeued] = received.of("run_lost"), received.of("run_requeued")
    assert (lost["run"].id, lost["run"].state, lost["run"].name) == (sent.id, State.LOST, "report")
    assert (requeued["run"].id, requeued["run"].attempt) == (sent.id, 1)
    assert [each["kind"] for each in received.of("run_dispatched")] == ["schedule", "resend"]
    assert again.id == sent.id == received.of("run_dispatched")[1]["run_id"]


def test_a_beat_says_that_a_lost_run_without_a_requeue_is_lost_alone(
    app: Celery, scheduler: RedisScheduler, received: Received, let_pass: Callable[[float], None]
) -> None:
    with FakeClock(app, "2026-05-01 00:00") as clock:
        RedisScheduleEntry("report", "proj.work", 86_400.0, requeue_lost=0, app=app).save()
        clock.advance(days=1)
        [sent] = run_due(scheduler)
        start(app, sent)
        clock.advance(minutes=10)
        let_pass(LOOK_SECONDS)
        run_due(scheduler)

    assert received.senders("run_lost") == ["report"]
    assert received.of("run_requeued") == []


def start(app: Celery, sent: Sent) -> None:
    """Report that a worker executes a run, and nothing after that."""
    execution = Execution(run_id=sent.id, name=sent.name, task=sent.task, holder="w1:1:a")
    Context.of(app).redis.runs.start(execution)
