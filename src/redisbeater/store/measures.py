"""The numbers of a schedule for monitors, read in one round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redisbeater.store.connection.connection import Connection
from redisbeater.store.failing import MOST_COUNTED
from redisbeater.store.keys import Keys
from redisbeater.times import from_unix

__all__ = ("Measured", "Measures")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A schedule in numbers, at one moment of the server's clock.

    Attributes:
        now: that moment.
        waiting, dormant, failing, broken: how many entries there are; each one counts once.
        overdue: how many entries are due and have not run.
        oldest_overdue: for how many seconds the oldest of them has been waiting; 0 without one.
        paused: whether the schedule is paused.
        active, resend: runs that were sent and have not ended, and those that wait for beat to send them.
        beats: the lines of the beats: token -> JSON.
        totals: what became of runs so far; see :meth:`~redisbeater.store.runs.RunStore.totals`.
    """

    now: datetime
    waiting: int
    dormant: int
    failing: int
    broken: int
    overdue: int
    oldest_overdue: float
    paused: bool
    active: int
    resend: int
    beats: Mapping[str, str]
    totals: Mapping[str, str]

    @classmethod
    def from_reply(cls, text: str) -> Measured:
        """Read the script's reply. Failing entries are among those with a time, broken ones among those without."""
        reply: dict[str, Any] = json.loads(text)
        now, failing, broken = from_unix(reply["now"]), int(reply["failing"]), int(reply["broken"])
        oldest = now - from_unix(reply["oldest"]) if reply["oldest"] else None
        return cls(
            now=now,
            waiting=max(int(reply["scheduled"]) - failing, 0),
            dormant=max(int(reply["dormant"]) - broken, 0),
            failing=failing,
            broken=broken,
            overdue=int(reply["overdue"]),
            oldest_overdue=oldest.total_seconds() if oldest else 0.0,
            paused=bool(reply["paused"]),
            active=int(reply["active"]),
            resend=int(reply["resend"]),
            beats=_pairs(reply["beats"]),
            totals=_pairs(reply["totals"]),
        )


class Measures:
    """Reads the numbers of a schedule."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def read(self) -> Measured:
        """Return the numbers as they are now."""
        keys = self._keys
        ours = [keys.schedule, keys.failing, keys.broken, keys.pause, keys.beats, keys.active, keys.resend, keys.totals]
        return Measured.from_reply(self._connection.run("measure", ours, [str(MOST_COUNTED)]))


def _pairs(flat: Any) -> dict[str, str]:
    """Return names and values that follow one another; Lua's JSON has an object for an empty list."""
    return dict(zip(flat[::2], flat[1::2])) if isinstance(flat, list) else {}
