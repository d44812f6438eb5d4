"""What users may do with their schedules: add one, list them, remove one, and leave."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

from proj import app, wake

from redisbeater import EntryExists, RedisScheduleEntry, ScheduleStore, cron

MOST_OF_A_USER = 5
LEAST_DISTANCE = timedelta(minutes=15)

store = ScheduleStore(app)


class Refused(Exception):
    """What a user asked for is not allowed; the message is for the user."""


def add(user: int, when: str, zone: str, prompt: int) -> RedisScheduleEntry:
    """Store a schedule of a user, or raise Refused or InvalidEntry."""
    fields: dict[str, Any] = {"args": [user, prompt], "timezone": zone, "jitter": 60, "labels": {"user": str(user)}}
    draft = RedisScheduleEntry("draft", wake, cron(when), app=app, **fields)
    times = [run.fire_time for run in draft.upcoming(100)]
    if any(later - sooner < LEAST_DISTANCE for sooner, later in pairwise(times)):
        raise Refused(f"runs must be {LEAST_DISTANCE} apart")
    for name in _names(user):
        try:
            return store.create(name, wake, cron(when), by=f"user {user}", **fields)
        except EntryExists:
            continue
    raise Refused(f"{MOST_OF_A_USER} schedules are all that you may have")


def mine(user: int) -> list[RedisScheduleEntry]:
    """Return the schedules of a user."""
    return list(store.list(prefix=f"user/{user}/"))


def remove(user: int, slot: int) -> None:
    """Delete one schedule of a user, or raise EntryNotFound."""
    store.delete(f"user/{user}/{slot}", by=f"user {user}")


def leave(user: int) -> None:
    """Delete all schedules of a user who has gone."""
    store.delete_many(_names(user), note="the user has left")


def _names(user: int) -> list[str]:
    return [f"user/{user}/{slot}" for slot in range(1, MOST_OF_A_USER + 1)]
