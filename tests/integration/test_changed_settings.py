"""Settings that a program changes after the first use of its app, as fixtures of tests do: the present ones count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from support.project import BROKER_DB, SCHEDULE_DB
from support.servers import Server

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured

MakeApp = Callable[..., Celery]


@pytest.fixture
def used(make_app: MakeApp) -> Celery:
    """An app whose schedule was used."""
    app = make_app()
    assert ScheduleStore(app).count() == 0
    return app


@pytest.fixture
def other(prefix: str, client: redis.Redis) -> Iterator[str]:
    """The prefix of another schedule."""
    yield f"other-{prefix}"
    for key in client.scan_iter(f"other-{prefix}*"):
        client.delete(key)


def by_attribute(app: Celery, **settings: Any) -> None:
    for name, value in settings.items():
        setattr(app.conf, name, value)


def by_item(app: Celery, **settings: Any) -> None:
    for name, value in settings.items():
        app.conf[name] = value


def by_update(app: Celery, **settings: Any) -> None:
    app.conf.update(settings)


@pytest.mark.parametrize("change", [by_attribute, by_item, by_update])
def test_what_is_made_after_a_change_uses_the_present_settings(
    change: Callable[..., None], used: Celery, other: str, client: redis.Redis, prefix: str
) -> None:
    change(used, redisbeater_key_prefix=other)

    ScheduleStore(used).create("by the store", "proj.note", 60)
    RedisScheduleEntry("by itself", "proj.note", 60, app=used).save()

    assert client.exists(f"{other}by the store", f"{other}by itself") == 2
    assert client.exists(f"{prefix}by the store", f"{prefix}by itself") == 0
    assert RedisScheduler(used).app.conf.redisbeater_key_prefix == other


def test_what_was_made_before_a_change_uses_the_present_settings_too(
    used: Celery, other: str, client: redis.Redis, prefix: str
) -> None:
    store, entry = ScheduleStore(used), RedisScheduleEntry("report", "proj.note", 60, app=used)
    used.conf.redisbeater_key_prefix = other

    entry.save()
    store.disable("report")

    assert (client.exists(f"{other}report"), client.exists(f"{prefix}report")) == (1, 0)


def test_another_database_is_used_at_once(used: Celery, server: Server, prefix: str) -> None:
    used.conf.redisbeater_redis_url = server.url(BROKER_DB)

    entry = ScheduleStore(used).create("report", "proj.note", 60)

    try:
        assert server.client(BROKER_DB).exists(f"{prefix}report") == 1
        assert server.client(SCHEDULE_DB).exists(f"{prefix}report") == 0
    finally:
        Context.of(used).redis.contents.erase()
    assert entry.key == f"{prefix}report"


@pytest.mark.parametrize("changes", [{"timezone": "Asia/Tokyo"}, {"timezone": "Asia/Tokyo", "enable_utc": False}])
def test_another_zone_is_that_of_entries_without_their_own(used: Celery, changes: dict[str, Any]) -> None:
    """Celery itself computes the zone of an app once."""
    store = ScheduleStore(used)
    assert store.now().tzname() == "UTC"
    used.conf.update(changes)

    store.create("report", "proj.note", crontab(minute=0, hour=9))

    (run,) = store.upcoming("report", limit=1)
    assert (run.local.hour, run.local.tzname(), store.now().tzname()) == (9, "JST", "JST")


def test_another_broker_is_that_of_the_schedule_where_no_url_is_set(
    server: Server, client: redis.Redis, prefix: str
) -> None:
    app = Celery("proj", broker=server.url(BROKER_DB), set_as_current=False)
    app.conf.redisbeater_key_prefix = prefix
    assert ScheduleStore(app).count() == 0
    app.conf.broker_url = server.url(SCHEDULE_DB)

    ScheduleStore(app).create("report", "proj.note", 60)

    assert client.exists(f"{prefix}report") == 1


def test_options_that_are_changed_in_place_count(used: Celery) -> None:
    used.conf.redisbeater_redis_options = options = {"client_name": "one"}
    assert Context.of(used).config.redis_options["client_name"] == "one"
    options["client_name"] = "two"

    assert Context.of(used).config.redis_options["client_name"] == "two"


def test_an_object_of_settings_that_is_changed_counts(server: Server, prefix: str) -> None:
    settings = SimpleNamespace(
        CELERY_REDISBEATER_KEY_PREFIX=prefix, CELERY_REDISBEATER_REDIS_URL=server.url(SCHEDULE_DB)
    )
    app = Celery("proj", set_as_current=False)
    app.config_from_object(settings, namespace="CELERY")
    assert not Context.of(app).config.track_runs
    settings.CELERY_REDISBEATER_TRACK_RUNS = True

    assert Context.of(app).config.track_runs


def test_settings_that_are_read_again_from_another_object_count(server: Server, prefix: str, other: str) -> None:
    app = Celery("proj", set_as_current=False)
    for each in (prefix, other):
        app.config_from_object({"redisbeater_redis_url": server.url(SCHEDULE_DB), "redisbeater_key_prefix": each})
        assert Context.of(app).config.key_prefix == each


def test_a_setting_that_is_taken_back_does_not_count(used: Celery) -> None:
    used.conf.redisbeater_track_runs = True
    assert Context.of(used).config.track_runs
    used.conf.pop("redisbeater_track_runs")

    assert not Context.of(used).config.track_runs


def test_runs_that_are_tracked_late_may_not_overlap(used: Celery) -> None:
    used.conf.redisbeater_track_runs = True

    assert ScheduleStore(used).create("report", "proj.note", 60, overlap="skip").overlap == "skip"


def test_a_wrong_setting_is_refused_when_it_is_used(used: Celery) -> None:
    used.conf.redisbeater_key_prefix = "other"

    with pytest.raises(ImproperlyConfigured, match="redisbeater_key_prefix = 'other'"):
        ScheduleStore(used).count()


def test_without_a_change_there_is_one_connection_pool(used: Celery) -> None:
    first = Context.of(used)
    used.conf.update(first.app.conf.changes)
    used.conf.task_default_queue = "other"

    assert Context.of(used) is first


def test_a_beat_keeps_the_settings_that_it_began_with(
    make_app: MakeApp, make_scheduler: Callable[..., RedisScheduler], other: str, client: redis.Redis, prefix: str
) -> None:
    app = make_app()
    scheduler = make_scheduler(app)
    app.conf.redisbeater_key_prefix = other
    scheduler.tick()

    assert client.exists(f"{prefix}:lock") == 1
    assert client.exists(f"{other}:lock") == 0
