"""``Tracking``: what a job needs to record its runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from redisbeater.sending.run import task_id

__all__ = ("Tracking",)


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """What is needed to record the runs of a job, in an app with ``redisbeater_track_runs``.

    Attributes:
        schedule_id: the identity of the schedule.
        now: the server's time at the claim.
        sent_before: fire times whose runs an earlier claim has sent, although it was not committed: they are not sent
            again.
        gives_up: the entry is disabled, and nothing is sent.
        ids: the ids of the runs that were made, by fire time: computing one takes as long as planning it.
    """

    schedule_id: str
    now: datetime
    sent_before: frozenset[datetime] = frozenset()
    gives_up: bool = False
    ids: dict[datetime, str] = field(default_factory=dict)

    def id(self, name: str, fire_time: datetime) -> str:
        """Return the id of the run of an entry at a fire time."""
        return self.ids.get(fire_time) or task_id(self.schedule_id, name, fire_time)
