"""The score of an entry in the schedule: the time at which beat must next look at it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from redisbeater.times import from_unix, to_unix

__all__ = ("FINISHED", "Score")

#: What RedBeat writes for an entry with nothing left to run, which is therefore no fire time.
_FINISHED_TEXT = "-1"


class Score(NamedTuple):
    """A fire time, or dormant: then the fire time, if any, only keeps the phase of the entry.

    On the wire a dormant score is the negative of that fire time, which RedBeat ignores as we do. With ``look_at`` the
    score is that later instant, and the fire time is stored in the entry.
    """

    fire_time: datetime | None
    dormant: bool = False
    look_at: datetime | None = None

    @classmethod
    def planned(cls, fire_time: datetime | None, *, enabled: bool = True) -> Score:
        """Return the score for a next fire time; no fire time means finished."""
        return cls(fire_time=fire_time, dormant=not enabled or fire_time is None)

    @classmethod
    def from_text(cls, text: str) -> Score:
        """Read the score of a member of the schedule."""
        if text == _FINISHED_TEXT:
            return FINISHED
        dormant = text.startswith("-")
        return cls(fire_time=from_unix(text.lstrip("-")), dormant=dormant)

    @property
    def is_finished(self) -> bool:
        """Whether there is no fire time left."""
        return self.fire_time is None

    def to_text(self) -> str:
        """Return the score as it is stored, in UNIX seconds."""
        if self.fire_time is None:
            return _FINISHED_TEXT
        return ("-" if self.dormant else "") + to_unix(self.look_at or self.fire_time)


#: The score of an entry with nothing left to run.
FINISHED = Score(fire_time=None, dormant=True)
