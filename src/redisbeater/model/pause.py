"""The pause of a whole schedule: who paused it, when, why and until when."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redisbeater.display import shown
from redisbeater.times import from_iso

__all__ = ("Pause",)


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A pause of the whole schedule: no beat claims anything.

    Attributes:
        since: when it began, by the clock of the Redis server; None: another program wrote it and does not say.
        by, note: who paused the schedule, and why.
        until: when it ends by itself; None: when somebody resumes it.
        still_claimed: how many entries beats were still sending when the call that paused the schedule returned.
    """

    since: datetime | None
    by: str = ""
    note: str = ""
    until: datetime | None = None
    still_claimed: int = 0

    @classmethod
    def from_text(cls, text: str, until: datetime | None) -> Pause:
        """Read a stored pause; one that another program wrote, in whatever form, is a pause all the same."""
        try:
            stored = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            stored = {"note": text}
        return cls(
            since=from_iso(stored.get("since")),
            by=shown(stored.get("by", "")),
            note=shown(stored.get("note", "")),
            until=until,
        )

    @property
    def text(self) -> str:
        """The JSON to store; the end is the time to live of its key."""
        since = self.since.isoformat() if self.since else ""
        return json.dumps({"since": since, "by": self.by, "note": self.note})

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        times = {"since": self.since, "until": self.until}
        return {**{name: time and time.isoformat() for name, time in times.items()}, "by": self.by, "note": self.note}
