"""Pause and resume a schedule; the beats of a schedule; watch what changes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.entry_name import is_unreserved
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.model.beat_line import BeatLine, Pause
from redisbeater.model.passed_values import checked_instant
from redisbeater.signals import schedule_paused, schedule_resumed
from redisbeater.store import lock_warning
from redisbeater.store.keys import SEVERAL
from redisbeater.times import MAX_SECONDS

#: A beat that has written no line for longer than this makes no passes any more.
LONGEST_PASS = timedelta(seconds=30)

#: Where ``beat_max_loop_interval`` is long: without a lock a beat writes its line with each claim, and may miss two.
INTERVALS = 3


def beats_of(lines: Mapping[str, str]) -> list[BeatLine]:
    """Return the lines of beats, those that lead first; what another program wrote is left out."""
    read = (BeatLine.from_text(token, text) for token, text in lines.items())
    return sorted(filter(None, read), key=lambda beat: (not beat.leads, beat.token))


def warning_of_lock(context: Context, lock: tuple[str, float | None], beats: Sequence[BeatLine]) -> str:
    """Return why the lock may keep every beat from leading, or an empty text if its holder is running.

    ``lock``: the token that it holds, and the seconds to its end, if it has one.
    """
    holder, seconds = lock
    if holder in [beat.token for beat in beats]:
        return ""
    redis = context.redis
    return lock_warning(redis.keys.lock, holder, math.inf if seconds is None else seconds, redis.command_line)


def longest_pass(max_interval: float) -> timedelta:
    """Return how old the last pass of a beat may be; ``max_interval``: seconds between two of its claims."""
    return max(LONGEST_PASS, INTERVALS * timedelta(seconds=max_interval))


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
    """Return the pause of the schedule, or None if it is not paused."""
    return pause_of(context.redis.pause.read(), lambda: context.redis.clock()[0])


def pause_of(stored: tuple[str, float | None] | None, clock: Callable[[], datetime]) -> Pause | None:
    """Return a pause of its JSON and the seconds to its end, if it has one; ``clock`` gives the time of the server."""
    if stored is None:
        return None
    text, seconds_left = stored
    return Pause.from_text(text, None if seconds_left is None else clock() + timedelta(seconds=seconds_left))


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
