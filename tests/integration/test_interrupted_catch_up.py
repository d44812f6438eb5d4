"""Catching up with ``coalesce="all"`` that is interrupted: sent runs count, others become due again, oldest first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery, Task
from due import now, save_due, stored
from outbox import MANY_TICKS, Sent, names, run_due, take
from support.ports import dead_port
from support.waiting import wait_until

from redisbeater import RedisScheduler

MINUTE = timedelta(minutes=1)


class Flaky(Task):
    """A task of which the broker accepts some messages, and then no more until the test allows it."""

    takes = 2
    #: Whether the broker cannot be reached at all then.
    goes_down = False

    def apply_async(self, *args: Any, **options: Any) -> Any:
        if not self.takes:
            if self.goes_down:
                self.app.conf.broker_url = f"amqp://guest@127.0.0.1:{dead_port()}//"
            raise ConnectionError("the broker is gone")
        self.takes -= 1
        return super().apply_async(*args, **options)


@pytest.fixture(params=[False, True], ids=["broker-refuses", "broker-is-down"])
def flaky(request: pytest.FixtureRequest, app: Celery) -> Flaky:

    @app.task(name="proj.flaky", base=Flaky, shared=False)
    def flaky() -> None: ...

    flaky.goes_down = request.param
    return flaky


def five(app: Celery, **fields: Any) -> list[datetime]:
    """Store an entry and return its five missed fire times."""
    entry = save_due(app, "report", "proj.flaky", late=270.0, coalesce="all", **fields)
    assert entry.due_at is not None
    return [entry.due_at + number * MINUTE for number in range(5)]


def run_until_it_fails(scheduler: RedisScheduler) -> list[Sent]:
    """Tick until nothing is due any more. Return the runs that the broker accepted."""
    for _ in range(MANY_TICKS):
        if scheduler.tick():
            scheduler.app.conf.broker_url = "memory://"
            return take(scheduler.app)
    raise AssertionError(f"still busy after {MANY_TICKS} ticks")


def run_the_rest(scheduler: RedisScheduler, is_all: Callable[[list[Sent]], bool]) -> list[Sent]:
    """Tick until everything that waited for a retry was sent. Return the runs that the broker accepted."""
    sent: list[Sent] = []

    def tick() -> bool:
        scheduler.tick()
        sent.extend(take(scheduler.app))
        return is_all(sent)

    wait_until(tick, "the rest")
    return sent + run_due(scheduler)


def fire_times(sent: list[Sent]) -> list[datetime]:
    return [run.fire_time for run in sent]


def skipped(app: Celery) -> dict[str, int]:
    return {reason: record.count for reason, record in stored(app, "report").skipped.items()}


@pytest.mark.usefixtures("flaky")
def test_what_was_sent_before_the_broker_failed_is_counted_and_the_rest_waits(
    app: Celery, scheduler: RedisScheduler
) -> None:
    expected = five(app)

    sent = run_until_it_fails(scheduler)

    entry = stored(app, "report")
    assert fire_times(sent) == expected[:2]
    assert (entry.total_run_count, entry.last_run_at, entry.due_at) == (2, expected[1], expected[2])


def test_the_rest_is_sent_once_the_broker_is_back_none_twice_none_lost_oldest_first(
    app: Celery, scheduler: RedisScheduler, flaky: Flaky
) -> None:
    expected = five(app)
    before = run_until_it_fails(scheduler)

    flaky.takes = 100
    sent = before + run_the_rest(scheduler, lambda rest: len(rest) >= 3)

    entry = stored(app, "report")
    assert fire_times(sent) == expected
    assert len({run.id for run in sent}) == 5
    assert (entry.total_run_count, entry.due_at, entry.skipped) == (5, expected[-1] + MINUTE, {})


def test_a_broker_that_accepts_one_run_at_a_time_gets_each_once(
    app: Celery, scheduler: RedisScheduler, flaky: Flaky
) -> None:
    expected = five(app)
    sent: list[Sent] = []

    def tick() -> bool:
        flaky.takes = 1
        scheduler.tick()
        app.conf.broker_url = "memory://"
        sent.extend(take(app))
        return len(sent) >= 5

    wait_until(tick, "all five")

    assert fire_times(sent) == expected
    assert run_until_it_fails(scheduler) == []


def test_what_was_skipped_is_counted_once(app: Celery, scheduler: RedisScheduler, flaky: Flaky) -> None:
    expected = five(app, misfire_grace_time=240, max_runs=3)
    before = run_until_it_fails(scheduler)
    assert skipped(app) == {"missed": 1}

    flaky.takes = 100
    sent = before + run_the_rest(scheduler, lambda rest: bool(rest))

    assert fire_times(sent) == expected[1:4]
    assert skipped(app) == {"missed": 1, "max_runs": 1}


@pytest.mark.usefixtures("flaky")
def test_an_entry_that_is_deleted_at_its_end_stays_while_runs_of_it_are_unsent(
    app: Celery, scheduler: RedisScheduler
) -> None:
    five(app, max_runs=5, on_finish="delete")

    run_until_it_fails(scheduler)

    assert stored(app, "report").total_run_count == 2


def test_the_other_entries_of_the_batch_wait_with_it_only_for_a_broker_that_is_down(
    app: Celery, scheduler: RedisScheduler, flaky: Flaky
) -> None:
    flaky.takes = 0
    five(app)
    other = save_due(app, "other", late=1.0)

    sent = run_until_it_fails(scheduler)

    assert names(sent) == ([] if flaky.goes_down else ["other"])
    if flaky.goes_down:
        assert (stored(app, "other").due_at, stored(app, "other").total_run_count) == (other.due_at, 0)


def test_the_other_entries_of_the_batch_are_sent_before_a_second_run_that_the_broker_does_not_take(
    app: Celery, scheduler: RedisScheduler, flaky: Flaky
) -> None:
    flaky.takes = 1
    five(app)
    save_due(app, "other", late=1.0)

    assert names(run_until_it_fails(scheduler)) == ["report", "other"]
    assert (stored(app, "report").total_run_count, stored(app, "other").total_run_count) == (1, 1)


def test_a_lease_that_ends_between_two_runs_of_an_entry_costs_none_and_sends_none_twice(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app(redisbeater_lease_timeout=1)

    class Slow(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            result = super().apply_async(*args, **options)
            started = now()
            wait_until(lambda: now() - started > timedelta(seconds=0.3), "a slow broker")
            return result

    @app.task(name="proj.slow", base=Slow, shared=False)
    def slow() -> None: ...

    entry = save_due(app, "report", "proj.slow", late=270.0, coalesce="all")
    assert entry.due_at is not None
    scheduler = make_scheduler(app)

    scheduler.tick()
    begun = take(app)
    assert 0 < len(begun) < 5, "half a second holds two of 300 ms"

    assert fire_times(begun + run_due(scheduler)) == [entry.due_at + number * MINUTE for number in range(5)]
    assert stored(app, "report").total_run_count == 5
