"""A broker that refuses, hangs, or loses a reply: real ones, behind a proxy with faults."""

from __future__ import annotations

import logging
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from broker_site import Site, counts
from celery import Celery, Task
from due import now, save_due, stored
from kombu import Exchange, Queue
from outbox import Sent, names, take
from support.claims import is_claimed
from support.proxy import LOOPBACK, Proxy
from support.rabbitmq import RabbitMQ
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduler
from redisbeater.broker.broker import Broker

pytestmark = pytest.mark.deep

#: Database of the test server that the messages are in.
BROKER_DB = 1

#: A text in every message.
TASK = b"proj.work"

MINUTE = timedelta(minutes=1)

AWAY, BACK = "broker unavailable, retrying", "broker available again"

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture(params=["redis", pytest.param("rabbitmq", marks=pytest.mark.topology)])
def make_site(request: pytest.FixtureRequest, make_app: MakeApp, server: Server) -> Iterator[Callable[..., Site]]:
    """Make sites over a proxy to a real broker."""
    node: RabbitMQ | None = request.getfixturevalue("rabbitmq") if request.param == "rabbitmq" else None
    with Proxy(node.port if node else server.port) as proxy:

        def url(port: int) -> str:
            return node.url(port) if node else f"redis://{LOOPBACK}:{port}/{BROKER_DB}"

        def make(**settings: Any) -> Site:
            queue = f"queue-{uuid.uuid4().hex}"
            own = {"redisbeater_publish_timeout": 1, "task_default_queue": queue, "result_expires": None}
            own["redisbeater_one_commit"] = False  # the broker fails alone
            urls = {"broker_read_url": url(proxy.target_port), "broker_write_url": url(proxy.port)}
            return Site(proxy, make_app(**{**own, **urls, **settings}), queue)

        yield make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


@pytest.fixture
def scheduler(site: Site, make_scheduler: MakeScheduler) -> RedisScheduler:
    """A scheduler that has sent a run, so that it is connected."""
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    assert names(site.until_sent(scheduler, 1)) == ["first"]
    return scheduler


FAULTS = [
    pytest.param(Proxy.refuse, id="refuses"),
    pytest.param(Proxy.swallow, id="hangs"),
]


# The cost of an outage


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broker_that_fails_costs_no_run_and_counts_none(
    site: Site, scheduler: RedisScheduler, fault: Callable[[Proxy], None], client: redis.Redis
) -> None:
    entries = [save_due(site.app, name, late=late) for name, late in (("a", 2.0), ("b", 1.0))]
    fault(site.proxy)

    scheduler.tick()

    assert counts(site.app, "a", "b") == [0, 0]
    assert [stored(site.app, entry.name).due_at for entry in entries] == [entry.due_at for entry in entries]
    assert all(client.hget(entry.key, "last_error") for entry in entries)
    assert not any(is_claimed(client, entry.key) for entry in entries)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fire_time_is_sent_once_it_is_back_oldest_first_and_each_once(
    site: Site, scheduler: RedisScheduler, fault: Callable[[Proxy], None]
) -> None:
    first = save_due(site.app, "report", late=200.0, coalesce="all").due_at
    assert first is not None
    fault(site.proxy)
    scheduler.tick()

    site.proxy.heal()
    sent = site.until_sent(scheduler, 4)

    assert [run.fire_time for run in sent] == [first + number * MINUTE for number in range(4)]
    assert counts(site.app, "report") == [4]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_too_late_when_it_is_back_is_missed_and_the_others_are_sent(
    site: Site, scheduler: RedisScheduler, fault: Callable[[Proxy], None]
) -> None:
    save_due(site.app, "urgent", late=1.0, misfire_grace_time=2)
    save_due(site.app, "long-lived", late=1.0)
    fault(site.proxy)
    scheduler.tick()
    started = now()
    wait_until(lambda: now() - started > timedelta(seconds=2), "the grace time to pass")

    site.proxy.heal()
    sent = site.until_sent(scheduler, 1)
    wait_until(lambda: scheduler.tick(), "rest")

    assert names(sent + site.take()) == ["long-lived"]
    assert stored(site.app, "urgent").skipped["missed"].count == 1


def test_nothing_is_claimed_while_the_broker_is_unavailable(
    site: Site, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    site.proxy.refuse()
    save_due(site.app, "a")
    scheduler.tick()
    later = save_due(site.app, "later")

    for _ in range(20):
        scheduler.tick()

    assert client.hget(later.key, "last_error") is None, "it was claimed and released"


@pytest.mark.parametrize("fault", FAULTS)
def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(
    site: Site, scheduler: RedisScheduler, fault: Callable[[Proxy], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redisbeater")
    save_due(site.app, "a")
    fault(site.proxy)
    wait_until(lambda: scheduler.tick() is not None and "still unavailable" in caplog.text, "another refusal")
    site.proxy.heal()
    site.until_sent(scheduler, 1)

    records = [record for record in caplog.records if record.name == "redisbeater.broker.broker"]
    lines = [(record.levelname, record.message) for record in records]
    assert Counter(level for level, _ in lines if level != "DEBUG") == {"ERROR": 1, "INFO": 1}
    assert [line for line in (AWAY, BACK) if any(line in message for _, message in lines)] == [AWAY, BACK]
    begin = next(message for _, message in lines if AWAY in message)
    assert re.search("refused|closed|reset|timed out|[Tt]imeout", begin), "it does not say why"


def test_a_broker_that_hangs_does_not_cost_the_lock(
    make_site: Callable[..., Site],
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "redisbeater")
    site = make_site(redisbeater_lock_timeout=3, redisbeater_publish_timeout=1.2)
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    site.until_sent(scheduler, 1)
    save_due(site.app, "report")
    wait_until(lambda: client.pttl(f"{prefix}:lock") < 2150, "a lock that is all but due to be renewed")
    site.proxy.swallow()
    started = now()

    wait_until(lambda: scheduler.tick() is not None and now() - started > timedelta(seconds=7), "two lock's timeouts")

    assert caplog.text.count("leading as") == 1
    assert client.get(f"{prefix}:lock") is not None


# A reply that is lost


def test_a_run_whose_acceptance_is_not_known_is_not_counted_and_sent_again_with_its_id(
    site: Site, scheduler: RedisScheduler
) -> None:
    save_due(site.app, "report")
    lost = site.proxy.lose_reply(TASK)

    wait_until(lambda: scheduler.tick() is not None and lost.is_set(), "the loss")
    assert counts(site.app, "report") == [0]
    sent = site.until_sent(scheduler, 2)

    assert names(sent) == ["report", "report"]
    assert len({run.id for run in sent}) == 1
    assert counts(site.app, "report") == [1]


def test_a_connection_that_is_cut_in_the_middle_of_a_batch_costs_none_of_it(
    site: Site, scheduler: RedisScheduler
) -> None:
    saved = [save_due(site.app, f"entry-{number}").name for number in range(10)]
    cut = site.proxy.cut_after(TASK, 4)

    sent: list[Sent] = []

    def tick() -> bool:
        scheduler.tick()
        sent.extend(site.take())
        return {run.name for run in sent} == set(saved)

    wait_until(tick, "all of them")
    wait_until(lambda: scheduler.tick() and set(counts(site.app, *saved)) == {1}, "their count")

    assert cut.is_set()
    assert len({run.id for run in sent}) == len(saved)


# The connection


def test_a_connection_that_has_idled_is_replaced(site: Site) -> None:
    broker = Broker(site.app, 5.0, site.app.amqp.Producer, idle_limit=0.0)
    assert broker.is_ready()
    before = site.proxy.accepted

    assert broker.is_ready()

    assert site.proxy.accepted > before
    broker.close()


def test_a_connection_in_use_is_kept(site: Site, scheduler: RedisScheduler) -> None:
    before = site.proxy.accepted
    save_due(site.app, "report")

    site.until_sent(scheduler, 1)

    assert site.proxy.accepted == before


def test_the_next_of_several_brokers_is_taken_when_the_first_hangs(
    make_site: Callable[..., Site], make_scheduler: MakeScheduler
) -> None:
    site = make_site()
    site.app.conf.broker_write_url = [site.app.conf.broker_write_url, site.app.conf.broker_read_url]
    site.proxy.swallow()
    save_due(site.app, "report")

    assert names(site.until_sent(make_scheduler(site.app), 1)) == ["report"]


# Other waits of a send


@pytest.fixture
def asked(app: Celery) -> list[Any]:
    """The retry option of each send of the task ``proj.asked``."""
    seen: list[Any] = []

    class Asked(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            seen.append(options.get("retry"))
            return super().apply_async(*args, **options)

    @app.task(name="proj.asked", base=Asked, shared=False)
    def asked() -> None: ...

    return seen


@pytest.mark.parametrize(
    ("options", "expected"),
    [pytest.param({}, False, id="unless-asked-to"), pytest.param({"retry": True}, True, id="when-asked-to")],
)
def test_the_broker_client_tries_again_only_when_the_entry_says_so(
    app: Celery, make_scheduler: MakeScheduler, asked: list[Any], options: dict[str, Any], expected: bool
) -> None:
    save_due(app, "report", "proj.asked", options=options)

    make_scheduler(app).tick()

    assert asked == [expected]


def test_a_result_backend_that_hangs_holds_no_run_up(
    make_app: MakeApp, make_scheduler: MakeScheduler, server: Server
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(result_backend=f"redis://{LOOPBACK}:{proxy.port}/{BROKER_DB}")
        save_due(app, "report")
        proxy.swallow()

        make_scheduler(app).tick()

        assert names(take(app)) == ["report"]


def test_a_broker_that_hangs_does_not_hang_beat_when_results_come_by_it(
    make_site: Callable[..., Site], make_scheduler: MakeScheduler
) -> None:
    site = make_site(result_backend="rpc://")
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    site.until_sent(scheduler, 1)
    save_due(site.app, "report")
    site.proxy.swallow()

    scheduler.tick()

    assert counts(site.app, "report") == [0]


# RabbitMQ


@pytest.fixture
def rabbit(rabbitmq: RabbitMQ, make_app: MakeApp) -> Site:
    """An app that sends to RabbitMQ itself."""
    queue = f"queue-{uuid.uuid4().hex}"
    app = make_app(broker_url=rabbitmq.url(), task_default_queue=queue)
    return Site(Proxy(rabbitmq.port), app, queue)


def declare(app: Celery, queue: Queue) -> None:
    with app.connection_for_write() as connection:
        queue(connection.default_channel).declare()


def test_a_run_that_rabbitmq_rejects_waits_alone(
    rabbit: Site, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    full = Queue(f"{rabbit.queue}-full", Exchange(f"{rabbit.queue}-full"), rabbit.queue, max_length=0)
    full.queue_arguments = {"x-overflow": "reject-publish"}
    rabbit.app.conf.task_queues = [Queue(rabbit.queue), full]
    rejected = save_due(rabbit.app, "rejected", late=3.0, options={"queue": full.name})
    save_due(rabbit.app, "other", late=2.0)

    sent = rabbit.until_sent(make_scheduler(rabbit.app), 1)

    assert names(sent) == ["other"]
    assert counts(rabbit.app, "rejected", "other") == [0, 1]
    assert client.hget(rejected.key, "last_error")


def test_a_run_that_rabbitmq_returns_is_not_counted(rabbit: Site, make_scheduler: MakeScheduler) -> None:
    options = {"exchange": "amq.direct", "routing_key": rabbit.queue, "mandatory": True}
    save_due(rabbit.app, "returned", late=3.0, options=options)
    save_due(rabbit.app, "other", late=2.0)

    sent = rabbit.until_sent(make_scheduler(rabbit.app), 1)

    assert names(sent) == ["other"]
    assert counts(rabbit.app, "returned", "other") == [0, 1]


def test_a_rabbitmq_that_is_out_of_memory_is_unavailable(
    rabbit: Site, rabbitmq: RabbitMQ, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(rabbit.app)
    save_due(rabbit.app, "first")
    rabbit.until_sent(scheduler, 1)
    save_due(rabbit.app, "report")

    rabbitmq.control("set_vm_memory_high_watermark", "0.0000001")
    try:
        wait_until(lambda: scheduler.tick() is not None and AWAY in caplog.text, "the alarm")
        assert counts(rabbit.app, "report") == [0]
        assert "out of memory or disk space" in caplog.text
    finally:
        rabbitmq.control("set_vm_memory_high_watermark", "0.4")

    sent = rabbit.until_sent(scheduler, 1)
    assert names(sent)[-1] == "report"
    assert len({run.id for run in sent}) == 1
    wait_until(lambda: scheduler.tick() is not None and counts(rabbit.app, "report") == [1], "its count")
