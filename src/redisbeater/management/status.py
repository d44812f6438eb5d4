"""The status of a schedule: who leads, who stands by, what is late. Read from what beats write and what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redisbeater.context import Context
from redisbeater.management.beats import read_beats
from redisbeater.management.pausing import read_pause
from redisbeater.management.runs.record import workers_report
from redisbeater.model.beat_line import BeatLine, name_of
from redisbeater.model.pause import Pause

__all__ = ("Status", "read_status")


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
        beats: the beats that have written a line in the last minute, those that lead first.
        due, oldest: how many entries are due and have not run, and for how long the oldest has been waiting.
        oldest_name: the name of that one.
        pause: the pause of the schedule; None: it is not paused.
        workers_report: False: 20 runs were recorded as sent, and no worker has ever reported one.
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
    workers_report: bool = True

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
        """Host and process of the leader; empty: none leads."""
        return name_of(self.lock) if self.lock else ", ".join(beat.name for beat in self.leaders)

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {
            "now": self.now.isoformat(),
            **{name: getattr(self, name) for name in ("address", "prefix", "id", "entries", "broken", "failing")},
            "leader": self.lock,
            "lock_timeout": self.lock_timeout and self.lock_timeout.total_seconds(),
            "due": self.due,
            "oldest_late": round(self.oldest.total_seconds(), 3),
            "oldest_name": self.oldest_name,
            "paused": self.pause and self.pause.as_dict(),
            "workers_report": self.workers_report,
            "beats": [beat.as_dict() for beat in self.beats],
        }


def read_status(context: Context) -> Status:
    """Read the status of the schedule of an app."""
    redis, config = context.redis, context.config
    now, _ = redis.clock()
    late = redis.failing.late(0.0)
    return Status(
        now=now,
        address=redis.address,
        prefix=redis.keys.prefix,
        id=redis.identity(),
        entries=redis.contents.count(),
        broken=redis.broken.count(),
        failing=redis.failing.count(),
        lock="" if config.lock_key is None else redis.leader(),
        lock_timeout=None if config.lock_key is None else timedelta(seconds=config.lock_timeout),
        beats=tuple(read_beats(context)),
        due=late.entries,
        oldest=late.oldest,
        oldest_name=redis.failing.oldest() if late.entries else "",
        pause=read_pause(context),
        workers_report=workers_report(context),
    )
