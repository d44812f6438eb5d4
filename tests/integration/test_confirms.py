"""Runs that RabbitMQ confirms together: one that it does not take is told from the others."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from broker_site import Site, counts
from celery import Celery
from due import ago, save_due
from kombu import Exchange, Queue
from outbox import names
from proxy import Proxy
from rabbitmq import RabbitMQ
from servers import programs
from waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.dispatch import FIRST_VOLLEY

#: Which Redis the schedule is in makes no difference here.
pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])

MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture(autouse=True)
def full_volleys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A volley is never cut short by the time that it takes, which a slow machine might need."""
    monkeypatch.setattr("redisbeater.dispatch.GATHERING", 60)


@pytest.fixture
def site(make_app: Callable[..., Celery], rabbitmq: RabbitMQ) -> Iterator[Site]:
    queue = f"queue-{uuid.uuid4().hex}"
    with Proxy(rabbitmq.port) as proxy:
        urls = {"broker_read_url": rabbitmq.url(), "broker_write_url": rabbitmq.url(proxy.port)}
        settings = {"redisbeater_publish_timeout": 1, "task_default_queue": queue, "result_expires": None}
        yield Site(proxy, make_app(**urls, **settings), queue)


@pytest.fixture
def scheduler(site: Site, make_scheduler: MakeScheduler) -> RedisScheduler:
    """A scheduler that has sent a run, so that it is connected and the queue is there."""
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    assert names(site.until_sent(scheduler, 1)) == ["first"]
    return scheduler


def refused(site: Site) -> dict[str, Any]:
    """Options of an entry whose queue is full."""
    full = Queue(f"{site.queue}-full", Exchange(f"{site.queue}-full"), site.queue, max_length=0)
    full.queue_arguments = {"x-overflow": "reject-publish"}
    site.app.conf.task_queues = [Queue(site.queue), full]
    return {"queue": full.name}


def returned(site: Site) -> dict[str, Any]:
    """Options of an entry that no queue takes, and that is to come back then."""
    return {"exchange": "amq.direct", "routing_key": site.queue, "mandatory": True}


def misdirected(site: Site) -> dict[str, Any]:
    """Options of an entry for an exchange that there is not: RabbitMQ closes the channel."""
    return {"exchange": f"{site.queue}-nowhere", "routing_key": site.queue}


def save_round(app: Celery, number: int, *, late: float = 1.0) -> list[str]:
    """As many entries as there are in the first volley of a batch; but for one."""
    return [save_due(app, f"round-{number}-{index}", late=late).name for index in range(FIRST_VOLLEY - 1)]


def until_failed(scheduler: RedisScheduler, client: redis.Redis, entry: RedisScheduleEntry) -> None:
    """Tick until an entry could not be sent; a new score takes the error away."""
    wait_until(lambda: scheduler.tick() is not None and client.hget(entry.key, "last_error"), "the error")


def test_a_volley_is_on_its_way_before_any_of_it_is_confirmed(site: Site, scheduler: RedisScheduler) -> None:
    saved = [save_due(site.app, "oldest", late=9.0).name, *save_round(site.app, 1)]
    lost = site.proxy.lose_reply(b"proj.work")

    wait_until(lambda: scheduler.tick() is not None and lost.is_set(), "the loss")
    sent = site.take()

    assert names(sent) == saved + saved
    assert len({run.id for run in sent}) == len(saved)
    assert counts(site.app, *saved) == [1] * len(saved)


@pytest.mark.parametrize("options", [refused, returned])
def test_what_is_not_taken_costs_the_others_of_its_volley_nothing(
    site: Site, make_scheduler: MakeScheduler, client: redis.Redis, options: Callable[[Site], dict[str, Any]]
) -> None:
    odd = save_due(site.app, "odd", late=9.0, options=options(site))
    saved = save_round(site.app, 1)
    scheduler = make_scheduler(site.app)

    until_failed(scheduler, client, odd)

    assert sorted(names(site.take())) == saved
    assert counts(site.app, "odd", *saved) == [0] + [1] * len(saved)


@pytest.mark.parametrize("options", [refused, returned, misdirected])
def test_what_failed_once_goes_alone(
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
