"""The Redis of an app that sets none: its broker, where that is one."""

from __future__ import annotations

import re

from celery import Celery

from redisbeater.config.redis_url import SCHEMES, RedisUrl, Topology, scheme_of
from redisbeater.exceptions import ImproperlyConfigured

__all__ = ("app_text", "broker_redis_url")


def broker_redis_url(app: Celery) -> str:
    """Return the URL of the broker as that of the schedule.

    Raises:
        ImproperlyConfigured: the broker is no Redis, or its URL cannot be parsed.
    """
    broker = app.conf.broker_write_url or ""
    brokers = list(broker) if isinstance(broker, (list, tuple)) else broker.split(";")
    first = brokers[0].replace("redis+socket://", "unix://", 1).replace("socket://", "unix://", 1)
    scheme = scheme_of(first)
    if scheme not in SCHEMES:
        raise ImproperlyConfigured(
            f"redisbeater_redis_url is not set, and the broker ({scheme or 'none'}) of {app_text(app)} is not a Redis "
            f"that could keep the schedule; {_advice(app)}"
        )
    # Of several brokers only the first is used, but several Sentinels belong to one Redis.
    url = ";".join(brokers) if SCHEMES[scheme] is Topology.SENTINEL else first
    if scheme == "unix":  # kombu has the database of a socket there
        url = re.sub(r"(?<=[?&])virtual_host=", "db=", url)
    RedisUrl.read("broker_url", url)
    return url


def app_text(app: Celery) -> str:
    """Return the name of an app for people, and say so if it is the one that Celery makes when there is no other."""
    return "Celery's own default app" if _is_nobodys(app) else f"the app {str(app.main or '__main__')!r}"


def _is_nobodys(app: Celery) -> bool:
    """Return whether Celery made the app itself, because none was passed and none was current."""
    return bool(app.main == "default" and not app.set_as_current)


def _advice(app: Celery) -> str:
    if _is_nobodys(app):
        return "pass your app: celery -A proj ... on the command line, ScheduleStore(app) in a program"
    return "set redisbeater_redis_url = 'redis://host:6379/0'"
