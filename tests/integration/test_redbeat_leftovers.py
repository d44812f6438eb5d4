"""What an application that used RedBeat has left of it: settings, its package, and datetimes in stored arguments."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.beat import Service
from celery.signals import beat_init
from due import UTC, ago, stored
from outbox import run_due
from redbeat import RedBeatSchedulerEntry
from redbeat.schedulers import RedBeatScheduler
from support.servers import Server

from redisbeater import ImproperlyConfigured, RedisScheduler, ScheduleStore
from redisbeater.context import Context

MakeApp = Callable[..., Celery]

LOSANGELES = ZoneInfo("America/Los_Angeles")


def lines_at_start(app: Celery, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What is logged when the beat service starts, from warning on; RedBeat's handlers are called as well."""
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        service = Service(app, scheduler_cls=RedisScheduler)
        beat_init.send(sender=service)
        service.scheduler.close()
    return [(record.levelname, record.getMessage()) for record in caplog.records]


# Settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"redbeat_redis_url": "redis://:secret@h/1"},
            "(redbeat_redis_url); to use its schedule, set redisbeater_redis_url as redbeat_redis_url, "
            "redisbeater_key_prefix = 'redbeat:', else remove them",
            id="url",
        ),
        pytest.param(
            {"REDBEAT_KEY_PREFIX": "mine:", "redisbeater_redis_url": "redis://h/1"},
            "(redbeat_key_prefix); to use its schedule, set redisbeater_key_prefix = 'mine:', else remove them",
            id="prefix in upper case",
        ),
        pytest.param(
            {"redbeat_lock_timeout": 60, "redisbeater_redis_url": "redis://h/1", "redisbeater_key_prefix": "redbeat:"},
            "(redbeat_lock_timeout); to use its schedule, set redisbeater_lock_timeout as redbeat_lock_timeout, "
            "else remove them",
            id="lock",
        ),
    ],
)
def test_settings_of_redbeat_without_successors_are_reported_at_the_start(
    settings: dict[str, Any], expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Celery("proj", broker="redis://h/0", set_as_current=False)
    app.conf.update(settings)

    assert lines_at_start(app, caplog) == [("WARNING", f"settings of RedBeat are not read {expected}")]


def test_settings_of_redbeat_are_found_under_the_namespace_of_django(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("proj", broker="redis://h/0", set_as_current=False, namespace="CELERY")
    app.conf.update(CELERY_REDBEAT_REDIS_URL="redis://h/1")

    [(level, line)] = lines_at_start(app, caplog)

    assert (level, "redisbeater_redis_url as redbeat_redis_url" in line) == ("WARNING", True)


def test_settings_of_both_packages_side_by_side_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("proj", broker="redis://h/0", set_as_current=False)
    both = {"redis_url": "redis://h/1", "key_prefix": "redbeat:", "lock_timeout": 60}
    app.conf.update({f"{package}_{name}": both[name] for package in ("redbeat", "redisbeater") for name in both})

    assert lines_at_start(app, caplog) == []


@pytest.mark.parametrize(
    ("option", "instead"),
    [("retry_period", "set redisbeater_retry_period"), ("cluster", "use redis-cluster:// in redisbeater_redis_url")],
)
def test_an_option_that_redbeat_reads_itself_names_what_takes_its_place(option: str, instead: str) -> None:
    app = Celery("proj", set_as_current=False)
    app.conf.redisbeater_redis_url = "redis-sentinel://redis-sentinel:26379/0"
    app.conf.redisbeater_redis_options = {"sentinels": [("s1", 26379)], "service_name": "master", option: 60}

    with pytest.raises(ImproperlyConfigured) as caught:
        Context.of(app)

    expected = f"redisbeater_redis_options: {option} is no option of redis-py; remove it, and {instead}"
    assert str(caught.value) == expected


# Its package


def test_the_package_of_redbeat_takes_no_lock_for_our_beat_and_logs_no_error(
    app: Celery, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert RedBeatScheduler, "it is imported, and so its handler of beat_init is connected"

    assert lines_at_start(app, caplog) == []
    assert client.keys(f"{prefix}*lock*") == []


# Datetimes in arguments


@pytest.fixture
def both(make_app: MakeApp, server: Server, prefix: str) -> Celery:
    """An app that both packages read."""
    return make_app(redbeat_redis_url=server.url(), redbeat_key_prefix=prefix, redbeat_redis_options={})


MOMENTS = {
    "utc": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    "zone": datetime(2026, 7, 2, 3, 4, 5, tzinfo=LOSANGELES),
    "offset": datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=5, minutes=45))),
}


def test_datetimes_in_arguments_are_sent_as_redbeat_sends_them(
    both: Celery, make_scheduler: Callable[..., RedisScheduler], client: redis.Redis
) -> None:
    args, kwargs = [1, *MOMENTS.values()], {"since": MOMENTS["zone"], "nested": {"list": [MOMENTS["utc"], None]}}
    fields = {"args": args, "kwargs": kwargs, "app": both}
    entry = RedBeatSchedulerEntry("job", "proj.job", 60.0, last_run_at=ago(minutes=5), **fields).save()
    text = client.hget(entry.key, "definition")
    theirs = RedBeatSchedulerEntry.from_key(entry.key, app=both)

    [run] = run_due(make_scheduler(both))

    assert (run.args, run.kwargs) == (list(theirs.args), theirs.kwargs) == (args, kwargs)
    assert client.hget(entry.key, "definition") == text
    assert stored(both, "job").args == json.loads(text)["args"]


@pytest.mark.parametrize(
    "value",
    [{"__type__": "datetime", "year": 2026, "month": 2, "day": 30}, {"__type__": "datetime"}, {"__type__": "date"}],
    ids=["no such date", "no parts", "another type"],
)
def test_an_object_that_is_no_datetime_is_an_argument_like_any_other(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, value: dict[str, Any]
) -> None:
    ScheduleStore(app).create("job", "proj.job", 60.0, args=[value], kwargs={"value": value})
    client.zadd(f"{prefix}:schedule", {f"{prefix}job": 0})

    [run] = run_due(scheduler)

    assert (run.args, run.kwargs) == ([value], {"value": value})
