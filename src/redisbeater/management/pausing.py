"""Pause and resume a schedule; watch what changes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.entry_name import is_unreserved
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.health.status import read_pause
from redisbeater.model.beat_line import Pause
from redisbeater.model.passed_values import checked_instant
from redisbeater.signals import schedule_paused, schedule_resumed
from redisbeater.store.keys import SEVERAL
from redisbeater.times import MAX_SECONDS

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


def pause(context: Context, author: Author, until: datetime | timedelta | None) -> Pause:
    """Pause the schedule, and wait until the present claims have ended: half a lease at most.

    Raises:
        InvalidEntry: ``until`` is no time (also a TypeError), or has passed.
    """
    if until is not None and not isinstance(until, (datetime, timedelta)):
        raise WrongType("$.until", f"expected a datetime or a timedelta, got {quoted(until)}")
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
        raise InvalidEntry("$.until", f"{quoted(until)} is out of range")
    end = checked_instant(until, context.zone, "$.until")
    if end <= now:
        raise InvalidEntry("$.until", f"{end.isoformat(timespec='seconds')} has passed; pass a time that is to come")
    return end


def _wait_for_claims(context: Context) -> int:
    """Wait until no entry is claimed any more. Return how many still are."""
    stored = context.redis.pause
    deadline = host_seconds() + stored.lease / 2
    while (left := stored.claimed()) and host_seconds() < deadline:
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


#: How many names are listed at most; of more entries it is only known that they changed.
MOST_NAMES = 50


@dataclass(frozen=True, kw_only=True)
class LiveChanges:
    """What changed since the last look.

    Attributes:
        names: entries that were changed, or whose runs were; None: more than 50, or nobody knows which.
        runs: whether runs changed.
        status: whether a lock was released, or the schedule paused or resumed.
    """

    names: frozenset[str] | None = frozenset()
    runs: bool = False
    status: bool = False

    def __bool__(self) -> bool:
        return self.names is None or bool(self.names) or self.runs or self.status

    def __or__(self, other: LiveChanges) -> LiveChanges:
        names = None if self.names is None or other.names is None else self.names | other.names
        names = None if names is not None and len(names) > MOST_NAMES else names
        return LiveChanges(names=names, runs=self.runs or other.runs, status=self.status or other.status)


class Watcher:
    """Listens to the changes of a schedule and of its runs, on one connection; one thread waits."""

    def __init__(self, context: Context) -> None:
        self._listener = context.redis.watcher()
        self._of_runs = context.redis.keys.events

    def wait(self, seconds: float) -> LiveChanges:
        """Wait for a change, that many seconds at most, and return what changed.

        Raises:
            StoreError: Redis cannot be reached; what changed meanwhile is not known.
        """
        messages = self._listener.wait_on_each(seconds)
        of_runs = (text for channel, text in messages if channel == self._of_runs)
        return _of_entries(text for channel, text in messages if channel != self._of_runs) | _of_runs(of_runs)

    def close(self) -> None:
        """Stop listening; never raises."""
        self._listener.close()


def _of_entries(messages: Iterable[str]) -> LiveChanges:
    found = LiveChanges()
    for message in messages:
        if message == SEVERAL:
            found |= LiveChanges(names=None)
        else:
            found |= LiveChanges(names=frozenset({message})) if is_unreserved(message) else LiveChanges(status=True)
    return found


def _of_runs(messages: Iterable[str]) -> LiveChanges:
    found = LiveChanges()
    for message in messages:
        try:
            names = json.loads(message)
            found |= LiveChanges(names=frozenset(map(str, names)) if isinstance(names, list) else None, runs=True)
        except (ValueError, RecursionError):  # another program wrote it
            found |= LiveChanges(names=None, runs=True)
    return found
