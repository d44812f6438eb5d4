"""The heartbeat of a beat: its line in Redis, the clock of the server, and how its passes go."""

from __future__ import annotations

import json
import os
import platform
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from typing import Any

import celery

from redisbeater.broker.broker import Broker
from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.log_lines import get_logger
from redisbeater.sending.counts import Counts
from redisbeater.store import ClaimedEntry, Lock, new_token

logger = get_logger(__name__)


#: Smaller steps are corrections of a clock that drifts.
LEAST_STEP_SECONDS = 1.0

#: A reply that took longer says little about the difference of two clocks.
LONGEST_REPLY_SECONDS = 0.5


class ServerClock:
    """The server's time as this beat has seen it last, compared with this host's clock."""

    def __init__(self) -> None:
        #: Seconds by which this host's clock is ahead of the server's, by the last quick reply; None: there was none.
        self.offset: float | None = None
        self._now: datetime | None = None
        self._seen_at = 0.0

    def observe(self, now: datetime, *, asked_at: float) -> None:
        """Record the server's time in a reply, and log it if the clock went back since the last one.

        Arguments:
            now: the server's time.
            asked_at: when it was asked, on this host's clock.
        """
        if self._now is not None:
            # The last reply may have taken long, so at least this much time has passed between the two.
            passed = max(asked_at - self._seen_at, 0.0)
            step = passed - (now - self._now).total_seconds()
            if step >= LEAST_STEP_SECONDS:
                logger.warning(
                    "Redis's clock went back by %.1f s; entries run when it reaches their fire times again", step
                )
        self._now, self._seen_at = now, host_seconds()
        if (took := self._seen_at - asked_at) < LONGEST_REPLY_SECONDS:
            self.offset = time.time() - took / 2 - now.timestamp()


class Passes:
    """Times the passes of a beat. One that failed for lack of Redis counts, too: beat is alive, and waits for Redis."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._began_at = self._waited = 0.0
        #: Called at the end of each pass; it must be quick and must not raise.
        self.on_end: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Begin a pass."""
        self._began_at, self._waited = time.monotonic(), 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Leave the time of the block out of the pass."""
        began_at = time.monotonic()
        try:
            yield
        finally:
            self._waited += time.monotonic() - began_at

    def end(self) -> None:
        """End the pass."""
        self._counts.count_pass(max(time.monotonic() - self._began_at - self._waited, 0.0))
        for call in self.on_end:
            call()


#: Seconds between two lines.
PERIOD_SECONDS = 5.0


class Heartbeat:
    """The line of one beat in ``P:beats``.

    Arguments:
        context: the app whose schedule it is.
        lock: the lock, whose requests carry the line, too; None: no lock is used.
        counts: what became of runs.
        broker: the broker of this beat.
        clock: the server's clock as this beat sees it.
    """

    def __init__(
        self,
        context: Context,
        lock: Lock | None,
        counts: Counts,
        broker: Broker,
        clock: ServerClock,
    ) -> None:
        #: The token that the lock holds while this beat leads; another one where there is no lock.
        self.token = lock.token if lock else new_token()
        if lock:
            lock.next_line = self.next_line
        self._redis = redis = context.redis
        #: Whether beat is part of a worker.
        self.is_embedded = False
        #: Whether a line may be stored: one was given to a request.
        self.may_have_line = False
        self._counts = counts
        self._broker = broker
        self._clock = clock
        #: What the server of the schedule is, such as ``valkey 9.1.0``; empty: not asked yet, or it did not say.
        self.server = ""
        #: The zones in which it has other rules than the beat that leads.
        self.other_rules: Callable[[], Sequence[str]] = tuple
        #: What is to be said of how messages are made.
        self.messages: Callable[[], str] = str
        self._role = self._led_as = "standby"
        self._since = time.monotonic()
        self._due_at = 0.0
        self._fixed = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "application": context.application,
            "version": version("redisbeater"),
            "celery": celery.__version__,
            "python": platform.python_version(),
            "redis": redis.address,
        }

    def lead(self, *, has_lock: bool) -> None:
        """Record that this beat leads. If it stood by, restart its counts and let the next request carry a line."""
        if self._role == "standby":
            self._counts.restart()
            self._begin("leader" if has_lock else "active")

    def write_at_once(self) -> None:
        """Let the next request carry a line: this beat has got the lock, which may have been its own before."""
        self._due_at = 0.0

    def stand_by(self) -> None:
        """Record that this beat stands by."""
        if self._role != "standby":
            self._begin("standby")

    def claimed(self, now: datetime, entries: Collection[ClaimedEntry]) -> None:
        """Record a claim: the schedule is not paused, and how late its oldest entry was."""
        if self._role == "paused":
            self._role, self._due_at = self._led_as, 0.0
        if entries:
            oldest = min(entry.fire_time for entry in entries)
            self._counts.late_ms = max(round((now - oldest).total_seconds() * 1000), 0)

    def pause(self) -> None:
        """Record that the schedule is paused; since when this beat leads stays as it is."""
        if self._role != "paused":
            self._led_as, self._role, self._due_at = self._role, "paused", 0.0

    def end(self) -> None:
        """Delete the line, if there may be one."""
        if self.may_have_line:
            self._redis.beats.remove(self.token)

    def _begin(self, role: str) -> None:
        self._role, self._since, self._due_at = role, time.monotonic(), 0.0

    @property
    def versions(self) -> dict[str, Any]:
        """The versions of what runs here: ``version`` is redisbeater's, ``celery`` and ``python`` theirs."""
        return self._fixed

    @property
    def role(self) -> str:
        """What this beat does: ``leader``, ``standby``, ``active`` or ``paused``."""
        return self._role

    def next_line(self) -> str:
        """Return the line for the next request if it is due, as the scripts take it; else an empty text."""
        now = time.monotonic()
        if now < self._due_at:
            return ""
        self._due_at = now + PERIOD_SECONDS
        self.may_have_line = True
        return f"{self.token} {now - self._since:.6f} {json.dumps(self._facts(), separators=(',', ':'))}"

    def _facts(self) -> dict[str, Any]:
        counts = self._counts
        return {
            "role": self._role,
            **self._fixed,
            "embedded": self.is_embedded,
            "sent": counts.sent,
            "refused": counts.refused,
            "skipped": counts.skipped,
            "skipped_by": counts.skipped_by,
            "late_ms": counts.late_ms,
            "late_p50_ms": round(counts.lateness.quantile(0.5) * 1000, 1),
            "late_p99_ms": round(counts.lateness.quantile(0.99) * 1000, 1),
            "server": self.server,
            "clock_offset_ms": None if self._clock.offset is None else round(self._clock.offset * 1000, 3),
            "broker": self._broker.transport,
            "delivery": self._broker.one_step.words,
            "sent_apart": counts.sent_apart,
            "messages": self.messages(),
            "other_rules": self.other_rules(),
            "broker_away": round(self._broker.away_seconds, 3),
        }
