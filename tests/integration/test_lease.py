"""The lease of a claim: sending ends long before it does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery, Task
from celery.schedules import BaseSchedule
from due import now, save_due, stored
from outbox import names, run_due, take
from support.claims import is_claimed
from support.proxy import Proxy
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduler

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


class Slow(Task):
    """A task that takes 50 ms to send."""

    def apply_async(self, *args: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return super().apply_async(*args, **options)


@pytest.fixture
def make_slow_scheduler(make_app: MakeApp, make_scheduler: MakeScheduler) -> Callable[..., RedisScheduler]:
    """Make schedulers whose lease is shorter than the sending of all that the tests let become due."""

    def make(**settings: Any) -> RedisScheduler:
        app = make_app(redisbeater_lease_timeout=2, **settings)

        @app.task(name="proj.slow", base=Slow, shared=False)
        def slow() -> None: ...

        app.finalize()
        return make_scheduler(app)

    return make


def save_many(app: Celery) -> list[str]:
    """Sixty of them: three seconds of sending."""
    return [save_due(app, f"entry-{number:02}", "proj.slow").name for number in range(60)]


def test_without_a_lock_a_batch_longer_than_its_lease_is_sent_without_one_run_twice(
    make_slow_scheduler: Callable[..., RedisScheduler],
) -> None:
    schedulers = [make_slow_scheduler(redisbeater_lock_key=None) for _ in range(2)]
    saved = save_many(schedulers[0].app)
    late = time.monotonic() + 30

    def work(scheduler: RedisScheduler) -> None:
        # A tick that finds nothing may find what the other one releases, or would have sent on an old lease.
        while not all(stored(scheduler.app, name).total_run_count for name in saved) and time.monotonic() < late:
            scheduler.tick()

    threads = [threading.Thread(target=work, args=(scheduler,)) for scheduler in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)

    sent = take(schedulers[0].app)
    assert sorted(names(sent)) == saved
    assert len({run.id for run in sent}) == len(saved)
    assert {stored(schedulers[0].app, name).total_run_count for name in saved} == {1}


def test_a_batch_longer_than_its_lease_is_sent_for_half_of_it_and_the_rest_released(
    make_slow_scheduler: Callable[..., RedisScheduler], client: redis.Redis
) -> None:
    scheduler = make_slow_scheduler()
    saved = save_many(scheduler.app)

    scheduler.tick()

    sent = names(take(scheduler.app))
    assert 0 < len(sent) <= 21, "a second holds twenty of 50 ms"
    assert sent == [name for name in saved if stored(scheduler.app, name).total_run_count]
    assert not [name for name in saved if is_claimed(client, stored(scheduler.app, name).key)]


class Sundial(BaseSchedule):
    """A custom schedule that takes its time to plan."""

    def to_redisbeater(self) -> None: ...

    @classmethod
    def from_redisbeater(cls, data: Any) -> Sundial:
        return cls()

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        time.sleep(0.15)
        return timedelta(minutes=1)


@pytest.fixture
def sundials(make_app: MakeApp, client: redis.Redis, prefix: str) -> Celery:
    """An app with due entries that take longer to plan than a lease lasts, and two before them that do not."""
    app = make_app(redisbeater_lease_timeout=1, redisbeater_schedule_classes=[Sundial])
    save_due(app, "first", late=30.0)
    save_due(app, "second", late=20.0)
    path = f"{Sundial.__module__}.{Sundial.__qualname__}"
    definition = {"task": "proj.work", "schedule": {"__type__": "custom", "import_path": path, "data": None}}
    for number in range(6):
        key = f"{prefix}sundial-{number}"
        client.hset(key, "definition", json.dumps(definition))
        client.zadd(f"{prefix}:schedule", {key: now().timestamp() - 10 + number})
    return app


def test_entries_before_those_that_are_slow_to_plan_are_sent_on_the_first_lease(
    sundials: Celery, make_scheduler: MakeScheduler
) -> None:
    make_scheduler(sundials).tick()

    assert names(take(sundials))[:2] == ["first", "second"]


def test_entries_that_are_slow_to_plan_are_each_sent_once(sundials: Celery, make_scheduler: MakeScheduler) -> None:
    sent = names(run_due(make_scheduler(sundials)))

    assert sent == ["first", "second", *(f"sundial-{number}" for number in range(6))]


def test_a_lease_that_ends_while_runs_are_sent_leaves_the_unsent_ones_due(
    make_slow_scheduler: Callable[..., RedisScheduler],
) -> None:
    scheduler = make_slow_scheduler()
    saved = save_many(scheduler.app)
    due_at = stored(scheduler.app, saved[-1]).due_at

    scheduler.tick()

    assert stored(scheduler.app, saved[-1]).due_at == due_at
    wait_until(lambda: scheduler.tick() or stored(scheduler.app, saved[-1]).total_run_count, "the last one's run")


def test_nothing_is_sent_on_a_lease_of_which_a_slow_reply_has_taken_half(
    make_app: MakeApp, make_scheduler: MakeScheduler, server: Server
) -> None:
    with Proxy(server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        app = make_app(redisbeater_redis_url=url, redisbeater_lease_timeout=1)
        scheduler = make_scheduler(app)
        save_due(app, "report")
        scheduler.tick()
        assert names(take(app)) == ["report"]
        save_due(app, "next")

        proxy.delay(0.3)
        scheduler.tick()
        sent_late = take(app)
        proxy.heal()

        assert sent_late == []
        assert names(wait_until(lambda: run_due(scheduler), "the run")) == ["next"]
        scheduler.close()
