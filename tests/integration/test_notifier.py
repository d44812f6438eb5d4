"""The changes channel: what wakes a beat that waits."""

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
from waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, StoreError
from redisbeater.context import Context
from redisbeater.store import Notifier


@pytest.fixture
def notifier(app: Celery) -> Iterator[Notifier]:
    """A listener that has begun to listen."""
    notifier = Context.of(app).redis.notifier()
    notifier.listen()
    yield notifier
    notifier.close()


@pytest.fixture
def channel(prefix: str) -> str:
    return f"{prefix}:changes"


def entry(app: Celery, name: str = "report", **fields: Any) -> RedisScheduleEntry:
    return RedisScheduleEntry(name, "proj.report", 60.0, app=app, **fields)


def test_saving_publishes_the_name(app: Celery, notifier: Notifier) -> None:
    entry(app).save()

    assert notifier.wait(5) == {"report"}


@pytest.mark.parametrize("verb", ["save", "enable", "disable", "reschedule", "delete"])
def test_each_change_is_published(app: Celery, client: redis.Redis, channel: str, verb: str) -> None:
    stored = entry(app).save()
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(channel)
        listener.get_message(timeout=5)

        getattr(stored, verb)()

        message = wait_until(lambda: listener.get_message(timeout=1), "a message")
    assert (message["channel"], message["data"]) == (channel, "report")


def test_reading_publishes_nothing(app: Celery, notifier: Notifier) -> None:
    stored = entry(app).save()
    notifier.wait(5)

    RedisScheduleEntry.from_key(stored.key, app=app)

    assert notifier.wait(0.1) == set()


def test_waiting_ends_at_once_with_a_message(app: Celery, notifier: Notifier) -> None:
    saving = threading.Timer(0.1, entry(app).save)
    begin = time.monotonic()
    saving.start()

    assert notifier.wait(30) == {"report"}
    assert time.monotonic() - begin < 10
    saving.join()


def test_waiting_without_a_message_ends_after_the_timeout(notifier: Notifier) -> None:
    begin = time.monotonic()

    assert notifier.wait(0.3) == set()
    assert 0.3 <= time.monotonic() - begin < 5


def test_a_change_between_two_waits_is_heard(app: Celery, notifier: Notifier) -> None:
    notifier.wait(0)
    entry(app).save()

    assert notifier.wait(5) == {"report"}


def test_several_changes_are_heard_together(app: Celery, notifier: Notifier) -> None:
    for name in ("a", "b", "c"):
        entry(app, name).save()

    heard = notifier.wait(5) | notifier.wait(0.2)

    assert heard == {"a", "b", "c"}


def test_a_message_that_is_not_utf8_is_heard(notifier: Notifier, client: redis.Redis, channel: str) -> None:
    client.publish(channel, b"\xff")

    assert len(notifier.wait(5)) == 1


def test_a_closed_notifier_listens_again_when_it_is_asked(app: Celery, notifier: Notifier) -> None:
    notifier.close()
    notifier.close()
    notifier.listen()
    entry(app).save()

    assert notifier.wait(5) == {"report"}


def test_a_notifier_whose_connection_was_killed_hears_again(
    app: Celery, notifier: Notifier, client: redis.Redis
) -> None:
    client.client_kill_filter(_type="pubsub")

    def heard() -> set[str]:
        try:
            notifier.listen()
            entry(app).save()
            return notifier.wait(1)
        except StoreError:
            return set()

    assert wait_until(heard, "a change to be heard") == {"report"}


@pytest.fixture
def served(make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]) -> RedisScheduler:
    """A leader that waits inside its ticks, and by itself would look again after minutes."""
    scheduler = make_scheduler(make_app(beat_max_loop_interval=300))
    scheduler.is_served = True
    scheduler.tick()
    return scheduler


def sent_by_ticking(scheduler: RedisScheduler) -> list[str]:
    scheduler.tick()
    return names(take(scheduler.app))


def test_a_beat_that_waits_is_woken_by_a_save(served: RedisScheduler) -> None:
    saving = threading.Timer(0.1, save_due, (served.app, "report"))
    saving.start()

    assert wait_until(lambda: sent_by_ticking(served), "the run of the saved entry") == ["report"]
    saving.join()


def test_a_served_beat_waits_inside_its_tick_for_a_short_while(served: RedisScheduler) -> None:
    begin = time.monotonic()

    assert served.tick() == 0
    assert 0.5 < time.monotonic() - begin < 5


def test_a_beat_whose_connections_were_killed_is_woken_all_the_same(
    served: RedisScheduler, client: redis.Redis
) -> None:
    client.client_kill_filter(_type="pubsub")
    client.client_kill_filter(_type="normal", skipme=True)
    served.tick()
    served.tick()

    save_due(served.app, "report")

    assert wait_until(lambda: sent_by_ticking(served), "the run of the saved entry") == ["report"]


def test_a_standby_that_waits_is_woken_by_the_release_of_the_lock(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app()
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.is_served = True
    standby.tick()
    save_due(app, "report")
    closing = threading.Timer(0.1, leader.close)
    closing.start()

    assert wait_until(lambda: sent_by_ticking(standby), "the standby to lead", patience=10) == ["report"]
    closing.join()
