"""Runs that RabbitMQ confirms together: one that it refuses is found among the others."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import redis
from broker_site import Site, counts
from celery import Celery, Task
from due import ago, save_due, stored
from kombu import Exchange, Queue
from outbox import names
from support.proxy import Proxy
from support.rabbitmq import RabbitMQ
from support.signals import end_process
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.dispatch.dispatcher import FIRST_PUBLISH_BATCH

MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture(autouse=True)
def full_publish_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill publish batches on a slow machine as well: they end by number of entries, and no task is sent alone."""
    monkeypatch.setattr("redisbeater.dispatch.batch.GATHER_SECONDS", 60)
    monkeypatch.setattr("redisbeater.dispatch.resources.SLOW_SECONDS", 60)


@pytest.fixture
def site(make_app: Callable[..., Celery], rabbitmq: RabbitMQ) -> Iterator[Site]:
    queue = f"queue-{uuid.uuid4().hex}"
    with Proxy(rabbitmq.port) as proxy:
        urls = {"broker_read_url": rabbitmq.url(), "broker_write_url": rabbitmq.url(proxy.port)}
        yield Site(proxy, make_app(**urls, task_default_queue=queue), queue)


def refused(site: Site) -> dict[str, Any]:
    """Options of an entry whose queue is full."""
    full = Queue(f"{site.queue}-full", Exchange(f"{site.queue}-full"), site.queue, max_length=0)
    full.queue_arguments = {"x-overflow": "reject-publish"}
    site.app.conf.task_queues = [Queue(site.queue), full]
    return {"queue": full.name}


def returned(site: Site) -> dict[str, Any]:
    """Options of an entry without a queue, which RabbitMQ returns."""
    return {"exchange": "amq.direct", "routing_key": site.queue, "mandatory": True}


def misdeclared(site: Site) -> dict[str, Any]:
    """Options of an entry whose queue exists with other arguments: RabbitMQ refuses to declare it."""
    name, exchange = f"{site.queue}-other", Exchange(f"{site.queue}-other")
    with site.app.connection_for_read() as connection:
        Queue(name, exchange, site.queue)(connection.default_channel).declare()
    site.app.conf.task_queues = [Queue(site.queue), Queue(name, exchange, site.queue, max_length=9)]
    return {"queue": name}


def misdirected(site: Site) -> dict[str, Any]:
    """Options of an entry for an exchange that does not exist: RabbitMQ closes the channel."""
    return {"exchange": f"{site.queue}-nowhere", "routing_key": site.queue}


def save_round(app: Celery, number: int, *, late: float = 1.0) -> list[str]:
    """Save one entry less than the first publish batch of a claim holds."""
    return [save_due(app, f"round-{number}-{index}", late=late).name for index in range(FIRST_PUBLISH_BATCH - 1)]


def until_failed(scheduler: RedisScheduler, client: redis.Redis, entry: RedisScheduleEntry) -> None:
    """Tick until an entry could not be sent; a new score takes the error away."""
    wait_until(lambda: scheduler.tick() is not None and client.hget(entry.key, "last_error"), "the error")


def test_all_messages_leave_before_the_first_is_confirmed(site: Site, make_scheduler: MakeScheduler) -> None:
    site.app.conf.redisbeater_publish_timeout = 1
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    assert names(site.until_sent(scheduler, 1)) == ["first"]  # it is connected, and the queue is there
    saved = [save_due(site.app, "oldest", late=9.0).name, *save_round(site.app, 1)]
    lost = site.proxy.lose_reply(b"proj.work")

    wait_until(lambda: scheduler.tick() is not None and lost.is_set(), "the loss")
    sent = site.take()

    assert names(sent) == saved + saved
    assert len({run.id for run in sent}) == len(saved)
    assert counts(site.app, *saved) == [1] * len(saved)


@pytest.mark.parametrize("options", [refused, returned, misdeclared])
def test_a_refused_run_does_not_affect_the_others_of_its_publish_batch(
    site: Site, make_scheduler: MakeScheduler, client: redis.Redis, options: Callable[[Site], dict[str, Any]]
) -> None:
    odd = save_due(site.app, "odd", options=options(site))
    saved = save_round(site.app, 1, late=9.0)
    scheduler = make_scheduler(site.app)

    until_failed(scheduler, client, odd)
    wait_until(lambda: scheduler.tick() is not None and counts(site.app, *saved) == [1] * len(saved), "their count")

    assert sorted(names(site.take())) == saved
    assert counts(site.app, "odd") == [0]


def test_a_run_that_is_not_confirmed_is_logged(
    site: Site, make_scheduler: MakeScheduler, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    odd = save_due(site.app, "odd", options=refused(site))

    until_failed(make_scheduler(site.app), client, odd)

    assert re.search(
        "entry 'odd' cannot be sent, retrying in [0-9.]+ s: RabbitMQ refused the message\nTraceback", caplog.text
    )


def test_of_several_runs_only_the_confirmed_ones_are_committed(
    site: Site, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    name, exchange = f"{site.queue}-small", Exchange(f"{site.queue}-small")
    small = Queue(name, exchange, site.queue, max_length=2, queue_arguments={"x-overflow": "reject-publish"})
    site.app.conf.task_queues = [Queue(site.queue), small]
    odd = save_due(site.app, "odd", late=250.0, options={"queue": name}, coalesce="all")
    missed = [(odd.due_at + timedelta(minutes=number)).isoformat() for number in range(5)]
    scheduler = make_scheduler(site.app)

    until_failed(scheduler, client, odd)
    odd.reschedule(stored(site.app, "odd").last_run_at)
    until_failed(scheduler, client, odd)

    assert counts(site.app, "odd") == [2]
    with site.app.connection_for_read() as connection:
        queued = [small(connection.default_channel).get(no_ack=True) for _ in range(3)]
    assert [None if run is None else run.headers["scheduled_for"] for run in queued] == [*missed[:2], None]


def test_runs_that_were_confirmed_before_beat_ends_are_committed(site: Site, make_scheduler: MakeScheduler) -> None:
    class Ending(Task):
        """A task that the end of beat comes in the middle of."""

        def apply_async(self, *args: Any, **options: Any) -> Any:
            end_process()

    @site.app.task(name="proj.ending", base=Ending, shared=False)
    def ending() -> None: ...

    saved = save_round(site.app, 1, late=9.0)
    save_due(site.app, "ending", "proj.ending")
    scheduler = make_scheduler(site.app)
    with pytest.raises(SystemExit):
        scheduler.tick()
    scheduler.close()

    assert sorted(names(site.take())) == saved
    assert counts(site.app, *saved) == [1] * len(saved)


def test_other_messages_that_close_the_channel_cost_one_publish_batch(
    site: Site, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    class Chatty(Task):
        """A task that sends something else, too, which RabbitMQ does not allow, and does not mind."""

        def apply_async(self, *args: Any, producer: Any = None, **options: Any) -> Any:
            result = super().apply_async(*args, producer=producer, **options)
            with suppress(Exception):
                producer.publish({}, exchange=f"{site.queue}-nowhere", routing_key="event")
            return result

    @site.app.task(name="proj.chatty", base=Chatty, shared=False)
    def chatty() -> None: ...

    scheduler = make_scheduler(site.app)
    for number in (1, 2):
        saved = [save_due(site.app, f"chatty-{number}-{index}", "proj.chatty").name for index in range(5)]
        wait_until(lambda: scheduler.tick() is not None and counts(site.app, *saved) == [1] * 5, "their count")  # noqa: B023
        sent = site.take()
        assert len({run.id for run in sent}) == 5
    assert len(sent) <= 6, "of a whole batch; one confirm may be lost with a channel that closes"
    assert caplog.text.count("RabbitMQ closed the channel and confirms were lost") == 1


@pytest.mark.parametrize("options", [refused, returned, misdirected])
def test_an_entry_that_failed_is_sent_alone(
    site: Site, make_scheduler: MakeScheduler, client: redis.Redis, options: Callable[[Site], dict[str, Any]]
) -> None:
    odd = save_due(site.app, "odd", late=9.0, options=options(site))
    scheduler = make_scheduler(site.app)
    until_failed(scheduler, client, odd)

    saved = save_round(site.app, 2, late=20.0)
    odd.reschedule(ago(seconds=69))
    until_failed(scheduler, client, odd)
    wait_until(lambda: scheduler.tick() is not None and counts(site.app, *saved) == [1] * len(saved), "the others")

    assert sorted(names(site.take())) == saved


@pytest.mark.parametrize("number", [1, 5])
def test_a_queue_that_is_deleted_is_declared_again_and_no_run_is_lost(
    site: Site, make_scheduler: MakeScheduler, number: int
) -> None:
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    assert names(site.until_sent(scheduler, 1)) == ["first"]
    with site.app.connection_for_write(connect_timeout=WAIT_SECONDS) as connection:
        connection.default_channel.queue_delete(site.queue)
    saved = [save_due(site.app, f"entry-{index}", late=9.0 - index).name for index in range(number)]

    wait_until(lambda: scheduler.tick() is not None and counts(site.app, *saved) == [1] * number, "their count")

    assert sorted(names(site.take())) == saved
