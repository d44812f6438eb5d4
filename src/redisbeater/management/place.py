"""Where a schedule is: its address, whether it can be changed there and a beat leads, what the web page keeps there."""

from __future__ import annotations

from datetime import timedelta

from redisbeater.context import Context
from redisbeater.store.records import PageKeys


def address_of(context: Context) -> str:
    """Return where the schedule is looked for, without a password."""
    return context.redis.address


def refusal(context: Context) -> str:
    """Return why the server refuses changes and what to do, or an empty text if it takes them or does not say."""
    return context.redis.refusal()


def is_led(context: Context) -> bool:
    """Return whether a beat holds the lock; without one, any that runs leads."""
    return context.config.lock_key is None or bool(context.redis.leader())


def count_late(context: Context, more_than: timedelta) -> int:
    """Return how many entries have been due for longer than that."""
    return context.redis.failing.late(more_than.total_seconds()).entries


def page_keys(context: Context) -> PageKeys:
    """Return the records of the web page in Redis: ended sessions, how to undo a change, and who has looked."""
    return context.redis.page
