"""The status of a schedule: who leads, who stands by, what is late. Read from what beats write and what is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redisbeater.context import Context
from redisbeater.management.beats import read_beats, warning_of_lock
from redisbeater.management.last_hour import LastHour, read_last_hour
from redisbeater.management.pausing import read_pause
from redisbeater.management.runs.record import workers_report
from redisbeater.management.server_words import eviction_words, memory_words, persistence_words
from redisbeater.model.beat_line import BeatLine, Pause, name_of
from redisbeater.store import is_of_redbeat
from redisbeater.store.server import ServerFacts

__all__ = ("Server", "Status", "read_status")


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server of a schedule.

    Attributes:
        facts: what it says about itself.
        now: its time.
        clock_offset_ms: how far the clock of this host is ahead of its clock, now.
    """

    facts: ServerFacts
    now: datetime
    clock_offset_ms: float

    @property
    def memory(self) -> str:
        """How much memory it uses and may use, in words."""
        return memory_words(self.facts)

    @property
    def eviction(self) -> str:
        """What it does when its memory is full, and whether the schedule can be lost by that, in words."""
        return eviction_words(self.facts)

    @property
    def persistence(self) -> str:
        """What it writes to its disk, and what a crash loses, in words."""
        return persistence_words(self.facts, self.now)

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it; null or empty is what the server does not say."""
        facts = self.facts
        return {
            "server": facts.name,
            "role": facts.role,
            "used_memory": facts.used_memory,
            "max_memory": facts.max_memory,
            "eviction_policy": facts.policy,
            "may_evict": facts.may_evict,
            "append_only_file": facts.has_log,
            "fsync": facts.fsync,
            "snapshots": facts.has_snapshots,
            "last_snapshot": facts.last_snapshot and facts.last_snapshot.isoformat(),
            "unsaved_changes": facts.unsaved,
            "problems": list(facts.problems),
            "clock_offset_ms": self.clock_offset_ms,
            **{name: getattr(self, name) for name in ("memory", "eviction", "persistence")},
        }


@dataclass(frozen=True, kw_only=True)
class Status:
    """A schedule and its beats at one moment.

    Attributes:
        now: the time of the Redis server.
        address, prefix: where the schedule is.
        id: its identity; empty: no beat has led yet.
        entries, broken, failing: how many there are.
        lock: the token that the lock holds; empty: no beat holds it, or there is no lock.
        lock_timeout: how long a lock lasts that is not renewed; None: no lock is used.
        lock_left: how long the lock lasts from now on unless it is renewed; None: no beat holds it, or it never ends.
        lock_warning: why the lock may keep every beat from leading, and how to release it, where that may be for
            long: it is RedBeat's, or never ends. Empty: it does not.
        beats: the beats that have written a line in the last minute, those that lead first.
        due, oldest: how many entries are due and have not run, and for how long the oldest has been waiting.
        oldest_name: the name of that one.
        pause: the pause of the schedule; None: it is not paused.
        refusal: why the server refuses changes, and what to do; empty: it takes them, or does not say.
        workers_report: False: 20 runs were recorded as sent, and no worker has ever reported one.
        server: the server of the schedule; None: it was not asked.
        last_hour: the last hour in numbers; None: these were not read.
    """

    now: datetime
    address: str
    prefix: str
    id: str
    entries: int
    broken: int
    failing: int
    lock: str
    lock_timeout: timedelta | None
    beats: tuple[BeatLine, ...]
    due: int
    oldest: timedelta
    oldest_name: str
    pause: Pause | None
    refusal: str = ""
    workers_report: bool = True
    lock_left: timedelta | None = None
    lock_warning: str = ""
    server: Server | None = None
    last_hour: LastHour | None = None

    @property
    def leaders(self) -> list[BeatLine]:
        """The line of the beat that holds the lock; where there is no lock, those of all active beats."""
        if self.lock_timeout is None:
            return [beat for beat in self.beats if beat.leads]
        return [beat for beat in self.beats if beat.token == self.lock]

    @property
    def standbys(self) -> list[BeatLine]:
        """The lines of the other beats."""
        leaders = self.leaders
        return [beat for beat in self.beats if beat not in leaders]

    @property
    def is_led(self) -> bool:
        """Whether a beat leads, as far as is known."""
        return bool(self.lock or self.leaders)

    @property
    def leader_name(self) -> str:
        """Host and process of the leader, or ``RedBeat``; empty: none leads."""
        if is_of_redbeat(self.lock):
            return "RedBeat"
        return name_of(self.lock) if self.lock else ", ".join(beat.name for beat in self.leaders)

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {
            "now": self.now.isoformat(),
            **{name: getattr(self, name) for name in ("address", "prefix", "id", "entries", "broken", "failing")},
            "leader": self.lock,
            "lock_timeout": self.lock_timeout and self.lock_timeout.total_seconds(),
            "lock_left": None if self.lock_left is None else self.lock_left.total_seconds(),
            "lock_warning": self.lock_warning,
            "due": self.due,
            "oldest_late": round(self.oldest.total_seconds(), 3),
            "oldest_name": self.oldest_name,
            "paused": self.pause and self.pause.as_dict(),
            "refusal": self.refusal,
            "workers_report": self.workers_report,
            "beats": [beat.as_dict() for beat in self.beats],
            "redis": self.server and self.server.as_dict(),
            "last_hour": self.last_hour and self.last_hour.as_dict(),
        }


def read_status(context: Context, *, details: bool = False) -> Status:
    """Read the status of the schedule of an app; with ``details`` also what takes longer to read."""
    redis, config = context.redis, context.config
    now, _ = redis.clock()
    late = redis.failing.late(0.0)
    beats, held = tuple(read_beats(context)), None if config.lock_key is None else redis.held_lock()
    left = held.seconds_left if held else None
    return Status(
        now=now,
        address=redis.address,
        prefix=redis.keys.prefix,
        id=redis.identity(),
        entries=redis.contents.count(),
        broken=redis.broken.count(),
        failing=redis.failing.count(),
        lock=held.holder if held else "",
        lock_timeout=None if config.lock_key is None else timedelta(seconds=config.lock_timeout),
        lock_left=None if left is None else timedelta(seconds=left),
        lock_warning=warning_of_lock(held, beats) if held else "",
        beats=beats,
        due=late.entries,
        oldest=late.oldest,
        oldest_name=redis.failing.oldest() if late.entries else "",
        pause=read_pause(context),
        refusal=redis.refusal(),
        workers_report=workers_report(context),
        server=_read_server(context) if details else None,
        last_hour=read_last_hour(context, now) if details else None,
    )


def _read_server(context: Context) -> Server:
    facts = context.redis.server_facts()
    asked_at = time.time()
    now, _ = context.redis.clock()
    offset = (asked_at + time.time()) / 2 - now.timestamp()
    return Server(facts=facts, now=now, clock_offset_ms=round(offset * 1000, 3))
