"""The changes channel, which wakes a waiting beat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due
from outbox import names, take
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, StoreError
from redisbeater.context import Context
from redisbeater.store import Notifier


@pytest.fixture
def notifier(app: Celery) -> Iterator[Notifier]:
    """A notifier that has begun to listen."""
    notifier = Context.of(app).redis.notifier()
    notifier.listen()
    yield notifier
    notifier.close()


@pytest.fixture
def channel(prefix: str) -> str:
    return f"{prefix}:changes"


def heard(notifier: Notifier, names: set[str]) -> set[str]:
    """Wait until these names, or others beside them, were heard; return all that were heard."""
    found: set[str] = set()
    wait_until(lambda: found.update(notifier.wait(1)) or found >= names, f"{names} to be heard")
    return found


def entry(app: Celery, name: str = "report", **fields: Any) -> RedisScheduleEntry:
    return RedisScheduleEntry(name, "proj.report", 60.0, app=app, **fields)


def test_saving_publishes_the_name(app: Celery, notifier: Notifier) -> None:
    entry(app).save()

    assert notifier.wait(WAIT_SECONDS) == {"report"}


@pytest.mark.parametrize("verb", ["save", "enable", "disable", "reschedule", "delete"])
def test_each_change_is_published(app: Celery, client: redis.Redis, channel: str, verb: str) -> None:
    stored = entry(app).save()
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(channel)
        listener.get_message(timeout=WAIT_SECONDS)

        getattr(stored, verb)()

        message = wait_until(lambda: listener.get_message(timeout=1), "a message")
    assert (message["channel"], message["data"]) == (channel, "report")


def test_reading_publishes_nothing(app: Celery, notifier: Notifier) -> None:
    stored = entry(app).save()
    heard(notifier, {"report"})

    RedisScheduleEntry.from_key(stored.key, app=app)

    entry(app, "saved after reading").save()
    assert heard(notifier, {"saved after reading"}) == {"saved after reading"}


def test_a_message_ends_the_wait_at_once(app: Celery, notifier: Notifier) -> None:
    saving = threading.Timer(0.1, entry(app).save)
    begin = time.monotonic()
    saving.start()

    assert notifier.wait(1.5 * WAIT_SECONDS) == {"report"}
    assert time.monotonic() - begin < WAIT_SECONDS
    saving.join()


def test_without_a_message_the_wait_ends_after_the_timeout(notifier: Notifier) -> None:
    begin = time.monotonic()

    assert notifier.wait(0.3) == set()
    assert 0.3 <= time.monotonic() - begin < WAIT_SECONDS


def test_a_change_between_two_waits_is_heard(app: Celery, notifier: Notifier) -> None:
    notifier.wait(0)
    entry(app).save()

    assert notifier.wait(WAIT_SECONDS) == {"report"}


def test_several_changes_are_heard_together(app: Celery, notifier: Notifier) -> None:
    for name in ("a", "b", "c"):
        entry(app, name).save()

    assert heard(notifier, {"a", "b", "c"}) == {"a", "b", "c"}


def test_a_message_that_is_not_utf8_is_heard(notifier: Notifier, client: redis.Redis, channel: str) -> None:
    client.publish(channel, b"\xff")

    assert len(notifier.wait(WAIT_SECONDS)) == 1


def test_a_closed_notifier_can_listen_again(app: Celery, notifier: Notifier) -> None:
    notifier.close()
    notifier.close()
    notifier.listen()
    entry(app).save()

    assert notifier.wait(WAIT_SECONDS) == {"report"}


def test_a_notifier_whose_connection_was_killed_hears_again(
    app: Celery, notifier: Notifier, client: redis.Redis
) -> None:
    client.client_kill_filter(_type="pubsub")

    def next_heard() -> set[str]:
        try:
            notifier.listen()
            entry(app).save()
            return notifier.wait(1)
        except StoreError:
            return set()

    assert wait_until(next_heard, "a change to be heard") == {"report"}


@pytest.fixture
def served(make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]) -> RedisScheduler:
    """A leader that waits inside its ticks, and that without a message would look again only after minutes."""
    scheduler = make_scheduler(make_app(beat_max_loop_interval=300))
    scheduler.is_served = True
    scheduler.tick()
    return scheduler


def sent_by_ticking(scheduler: RedisScheduler) -> list[str]:
    scheduler.tick()
    return names(take(scheduler.app))


def test_a_save_wakes_a_waiting_beat(served: RedisScheduler) -> None:
    saving = threading.Timer(0.1, save_due, (served.app, "report"))
    saving.start()

    assert wait_until(lambda: sent_by_ticking(served), "the run of the saved entry") == ["report"]
    saving.join()


def test_a_served_beat_waits_inside_its_tick_but_not_for_long(served: RedisScheduler) -> None:
    begin = time.monotonic()

    assert served.tick() == 0
    assert 0.5 < time.monotonic() - begin < WAIT_SECONDS


def test_a_save_wakes_a_beat_whose_connections_were_killed(served: RedisScheduler, client: redis.Redis) -> None:
    client.client_kill_filter(_type="pubsub")
    client.client_kill_filter(_type="normal", skipme=True)
    served.tick()
    served.tick()

    save_due(served.app, "report")

    assert wait_until(lambda: sent_by_ticking(served), "the run of the saved entry") == ["report"]


def test_a_connection_that_no_longer_answers_counts_as_lost(
    make_app: Callable[..., Celery], server: Server, prefix: str
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(
            redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0",
            redisbeater_redis_options={"health_check_interval": 0.01, "socket_timeout": 2.0},
        )
        notifier = Context.of(app).redis.notifier()
        notifier.listen()
        proxy.swallow()

        error = wait_until(lambda: refusal_of(lambda: notifier.wait(0.05)), "the connection to be given up")
        assert "no answer to a PING for 2 s" in str(error)
        proxy.heal()
        notifier.listen()
        entry(make_app()).save()
        assert heard(notifier, {"report"}) == {"report"}
        notifier.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_listener_that_was_busy_for_longer_than_an_answer_may_take_loses_nothing(
    make_app: Callable[..., Celery], protocol: int
) -> None:
    options = {"health_check_interval": 0.001, "socket_timeout": 1.0, "protocol": protocol}
    app = make_app(redisbeater_redis_options=options)
    notifier = Context.of(app).redis.notifier()
    notifier.listen()
    begin = time.monotonic()

    notifier.wait(0.001)
    wait_until(lambda: time.monotonic() > begin + 1.5, "the end of the work")
    notifier.wait(0.1)
    entry(app).save()

    assert heard(notifier, {"report"}) == {"report"}
    notifier.close()


def refusal_of(call: Callable[[], object]) -> StoreError | None:
    try:
        call()
    except StoreError as exc:
        return exc
    return None


def test_the_release_of_the_lock_wakes_a_waiting_standby(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app(redisbeater_lock_timeout=5 * WAIT_SECONDS, beat_max_loop_interval=5 * WAIT_SECONDS)
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.is_served = True
    standby.tick()
    save_due(app, "report")
    closing = threading.Timer(0.1, leader.close)
    closing.start()

    assert wait_until(lambda: sent_by_ticking(standby), "the standby to lead") == ["report"]
    closing.join()
