"""Pause and resume the whole schedule: while it is paused, no beat claims an entry."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.beat_line import Pause
from redisbeater.model.passed_values import checked_instant
from redisbeater.signals import schedule_paused, schedule_resumed
from redisbeater.times import MAX_SECONDS

__all__ = ("Resumption", "pause", "read_pause", "resume")

#: Seconds between two looks at the claims that have not ended.
LOOK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """The end of a pause.

    Attributes:
        pause: the pause that was ended; None: the schedule was not paused.
        held: how many entries became due meanwhile and run now, by their ``misfire_grace_time`` and ``coalesce``.
        oldest: for how long the oldest of them has waited.
    """

    pause: Pause | None
    held: int = 0
    oldest: timedelta = timedelta(0)


def read_pause(context: Context) -> Pause | None:
    """Return the pause of the schedule; None: it is not paused."""
    found = context.redis.pause.read()
    if found is None:
        return None
    text, seconds_left = found
    until = None if seconds_left is None else context.redis.clock()[0] + timedelta(seconds=seconds_left)
    return Pause.from_text(text, until)


def pause(context: Context, author: Author, until: datetime | timedelta | None) -> Pause:
    """Pause the schedule, and wait until the present claims have ended: half a lease at most.

    Raises:
        InvalidEntry: ``until`` is no time, or has passed.
    """
    redis = context.redis
    now, stored_zone = redis.clock()
    end = None if until is None else _end(until, now, context.in_zone(stored_zone))
    begun = Pause(since=now, by=author.by, note=author.note, until=end)
    details = {"by": author.by, "note": author.note, "until": end.isoformat() if end else ""}
    redis.pause.begin(begun.text, None if end is None else (end - now).total_seconds(), **details)
    schedule_paused.send(redis.keys.prefix, by=author.by, note=author.note)
    return replace(begun, still_claimed=_wait_for_claims(context))


def _end(until: datetime | timedelta, now: datetime, context: Context) -> datetime:
    if isinstance(until, timedelta) and abs(until.total_seconds()) < MAX_SECONDS:
        until = now + until
    if not isinstance(until, datetime):
        raise InvalidEntry("$.until", f"expected a datetime or a timedelta, got {quoted(until)}")
    end = checked_instant(until, context.zone, "$.until")
    if end <= now:
        raise InvalidEntry("$.until", f"{end.isoformat(timespec='seconds')} has passed; pass a time that is to come")
    return end


def _wait_for_claims(context: Context) -> int:
    """Wait until no entry is claimed any more. Return how many still are."""
    stored = context.redis.pause
    deadline = time.monotonic() + stored.lease / 2
    while (left := stored.claimed()) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return left


def resume(context: Context, author: Author) -> Resumption:
    """End the pause of the schedule; beats go on at once."""
    ended = read_pause(context)
    if ended is None:
        return Resumption(pause=None)
    late = context.redis.failing.late(0.0)
    context.redis.pause.end(by=author.by, note=author.note)
    schedule_resumed.send(context.redis.keys.prefix, by=author.by, note=author.note)
    return Resumption(pause=ended, held=late.entries, oldest=late.oldest)
