"""A broker that answers, and refuses every run: that is an outage, and no fault of the entries."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import redis
from broker_site import Site, counts
from celery import Celery
from due import save_due, stored
from failing_saves import end_failing_saves, fail_saves
from kombu import Exchange, Queue
from outbox import names
from support.ports import LOOPBACK, dead_port
from support.proxy import Proxy
from support.rabbitmq import RabbitMQ
from support.servers import Server, programs, running
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore

MakeScheduler = Callable[..., RedisScheduler]

#: How long after the cure runs may be sent again: the longest delay, and what a busy machine takes.
RECOVERY_SECONDS = 5.0 + 5.0

#: Characters that an outage may log: a line for its beginning, a line for its end.
LOG_CHARACTERS = 1_000

AWAY, REFUSES = "broker unavailable, retrying", "broker refuses every run, retrying"


@pytest.fixture(scope="module")
def broker() -> Iterator[Server]:
    """A Redis of its own: the schedule's goes on."""
    with running(programs()[0]) as broker:
        yield broker


@pytest.fixture
def queue() -> str:
    return f"queue-{uuid.uuid4().hex}"


@pytest.fixture
def site(make_app: Callable[..., Celery], broker: Server, queue: str) -> Iterator[Site]:
    app = make_app(broker_url=broker.url(), task_default_queue=queue)
    yield Site(Proxy(broker.port), app, queue)
    broker.client().flushdb()


@dataclass(frozen=True)
class Refusal:
    """A way in which a Redis refuses, and how that is cured."""

    word: str
    begin: Callable[[redis.Redis, str], object]
    cure: Callable[[redis.Redis, str], object]
    line: str = AWAY
    tries: int = 1


def names_failing(app: Celery) -> set[str]:
    return {entry.name for entry in ScheduleStore(app).list(state="failing")}


def replicate(client: redis.Redis, _: str) -> None:
    client.replicaof(LOOPBACK, dead_port())


def lead(client: redis.Redis, _: str) -> None:
    client.replicaof("NO", "ONE")


def without_stale_data(client: redis.Redis, queue: str) -> None:
    client.config_set("replica-serve-stale-data", "no")
    replicate(client, queue)


REFUSALS = [
    Refusal("MISCONF", lambda c, _: fail_saves(c), lambda c, _: end_failing_saves(c)),
    Refusal("OOM", lambda c, _: c.config_set("maxmemory", 1), lambda c, _: c.config_set("maxmemory", 0), tries=2),
    Refusal("READONLY", replicate, lead),
    Refusal("MASTERDOWN", without_stale_data, lead),
    Refusal(
        "NOREPLICAS",
        lambda c, _: c.config_set("min-replicas-to-write", 1),
        lambda c, _: c.config_set("min-replicas-to-write", 0),
    ),
    Refusal("WRONGTYPE", lambda c, q: c.hset(q, "a", "list"), lambda c, q: c.delete(q), REFUSES),
]


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= level and record.name.startswith("redisbeater")]


def until_retried(scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture, times: int) -> None:
    """Tick until the broker, or an entry, was tried again so many times without success."""

    def is_retried() -> bool:
        scheduler.tick()
        return caplog.text.count("still unavailable") + caplog.text.count("still cannot be sent") >= times

    wait_until(is_retried, f"{times} failed tries")


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.word)
def test_a_redis_that_refuses_everything_is_logged_once_and_used_within_seconds_of_the_cure(
    site: Site, make_scheduler: MakeScheduler, broker: Server, caplog: pytest.LogCaptureFixture, refusal: Refusal
) -> None:
    caplog.set_level(logging.DEBUG, "redisbeater")
    scheduler = make_scheduler(site.app)
    save_due(site.app, "first")
    site.until_sent(scheduler, 1)  # it is connected
    saved = [save_due(site.app, f"entry-{number}", late=number + 1, every=3600).name for number in range(20)]
    before, characters = len(lines(caplog)), sum(len(record.getMessage()) for record in lines(caplog))

    refusal.begin(broker.client(), site.queue)
    try:
        until_retried(scheduler, caplog, refusal.tries)
        failing = names_failing(site.app)
        assert counts(site.app, *saved) == [0] * len(saved)
    finally:
        refusal.cure(broker.client(), site.queue)
    cured_at = time.monotonic()
    sent = site.until_sent(scheduler, len(saved))
    took = time.monotonic() - cured_at

    assert took < RECOVERY_SECONDS
    assert sorted(names(sent)) == sorted(saved)
    assert failing == set(saved)
    wait_until(lambda: scheduler.tick() and counts(site.app, *saved) == [1] * len(saved), "their count")
    assert names_failing(site.app) == set()
    outage = [record for record in lines(caplog)[before:] if "unavailable" in record.msg or "broker" in record.msg]
    assert [record.levelname for record in outage if record.levelno >= logging.ERROR] == ["ERROR"]
    assert refusal.line in outage[0].getMessage() or refusal.line in outage[-2].getMessage()
    assert sum(len(record.getMessage()) for record in lines(caplog)) - characters < LOG_CHARACTERS
    assert not any(record.exc_info for record in lines(caplog))


def test_a_beat_that_starts_with_a_redis_that_refuses_waits_for_it(
    site: Site, make_scheduler: MakeScheduler, broker: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redisbeater")
    broker.client().config_set("maxmemory", 1)
    save_due(site.app, "report")
    scheduler = make_scheduler(site.app)

    try:
        until_retried(scheduler, caplog, 1)
    finally:
        broker.client().config_set("maxmemory", 0)

    assert names(site.until_sent(scheduler, 1)) == ["report"]
    assert caplog.text.count(AWAY) == 1


def test_a_probe_that_is_not_permitted_is_no_refusal(site: Site, make_scheduler: MakeScheduler, broker: Server) -> None:
    broker.client().execute_command("ACL", "SETUSER", "default", "-lpushx")
    try:
        save_due(site.app, "report")
        assert names(site.until_sent(make_scheduler(site.app), 1)) == ["report"]
    finally:
        broker.client().execute_command("ACL", "SETUSER", "default", "+@all")


def test_the_probe_leaves_nothing_behind(site: Site, make_scheduler: MakeScheduler, broker: Server) -> None:
    save_due(site.app, "report")
    site.until_sent(make_scheduler(site.app), 1)

    assert [key for key in broker.client().scan_iter() if "nowhere" in key] == []


def test_entries_of_a_queue_that_is_refused_do_not_hold_up_those_of_another(
    site: Site, make_scheduler: MakeScheduler, broker: Server, caplog: pytest.LogCaptureFixture
) -> None:
    broker.client().set(f"{site.queue}-odd", "no list")
    odd = [save_due(site.app, f"odd-{i}", late=9, options={"queue": f"{site.queue}-odd"}).name for i in range(5)]
    scheduler = make_scheduler(site.app)
    wait_until(lambda: scheduler.tick() is not None and len(names_failing(site.app)) == 5, "all to fail")

    save_due(site.app, "fine")
    sent = site.until_sent(scheduler, 1)

    assert names(sent) == ["fine"]
    assert counts(site.app, *odd, "fine") == [0, 0, 0, 0, 0, 1]
    assert AWAY not in caplog.text
    wait_until(lambda: scheduler.tick() is not None and stored(site.app, "fine").total_run_count == 1, "its count")
    broker.client().delete(f"{site.queue}-odd")


# RabbitMQ


def test_a_rabbitmq_whose_queue_is_full_for_all_is_logged_once(
    make_app: Callable[..., Celery],
    rabbitmq: RabbitMQ,
    queue: str,
    make_scheduler: MakeScheduler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "redisbeater")
    full = Queue(queue, Exchange(queue), queue, max_length=0)
    full.queue_arguments = {"x-overflow": "reject-publish"}
    app = make_app(broker_url=rabbitmq.url(), task_default_queue=queue, task_queues=[full])
    saved = [save_due(app, f"entry-{number}", late=number + 1).name for number in range(10)]
    scheduler = make_scheduler(app)

    until_retried(scheduler, caplog, 20)

    assert [record.getMessage().count(REFUSES) for record in lines(caplog, logging.ERROR)].count(1) == 1
    assert len(lines(caplog, logging.WARNING)) <= 5
    assert names_failing(app) == set(saved)
