"""The terms on which an entry runs: its fire times, and its policies with what the settings give filled in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from celery.schedules import crontab

from redisbeater.model.definition import Definition
from redisbeater.model.policies import INHERIT, Coalesce
from redisbeater.model.score import FINISHED, Score
from redisbeater.schedules import Timetable

__all__ = ("Defaults", "ResolvedPolicy")


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What entries inherit from the settings of their app; times in seconds, no grace: any lateness is fine."""

    zone: tzinfo
    misfire_grace_time: float | None = None
    crontab_grace_time: float | None = None
    coalesce: Coalesce = Coalesce.LATEST
    jitter: float = 0.0


class ResolvedPolicy(NamedTuple):
    """The terms of one entry, as they are at this moment: policies are settled as late as possible."""

    name: str
    enabled: bool
    is_interval: bool
    timetable: Timetable
    max_runs: int | None
    grace: timedelta | None
    coalesce: Coalesce
    jitter: timedelta

    @classmethod
    def of(cls, definition: Definition, defaults: Defaults) -> ResolvedPolicy:
        """The terms of an entry under the settings of its app."""
        grace = _grace(definition, defaults)
        jitter = defaults.jitter if definition.jitter is INHERIT else definition.jitter
        return cls(
            name=definition.name,
            enabled=definition.enabled,
            is_interval=definition.is_interval,
            timetable=definition.timetable(defaults.zone),
            max_runs=definition.max_runs,
            grace=None if grace is None else timedelta(seconds=grace),
            coalesce=defaults.coalesce if definition.coalesce is INHERIT else definition.coalesce,
            jitter=timedelta(seconds=jitter),
        )

    def due_at(self, fire_time: datetime) -> datetime:
        """When a fire time is due: with jitter a while later, but never past the next fire time.

        The while is the same whenever and by whomever it is asked.
        """
        return fire_time + self._delay(fire_time) if self.jitter else fire_time

    def score_after(self, fire_time: datetime, run_count: int) -> Score:
        """The score of the entry when its fire times up to one are dealt with and it has had that many runs."""
        if self.is_spent(run_count):
            return FINISHED
        return self.score_at(self.timetable.next(fire_time), run_count)

    def score_at(self, following: datetime | None, run_count: int) -> Score:
        """The same by the next fire time, where that is known; None: there is none."""
        return FINISHED if self.is_spent(run_count) else Score.planned(following, enabled=self.enabled)

    def is_spent(self, run_count: int) -> bool:
        """Whether the entry has had all the runs that it may have."""
        return self.max_runs is not None and run_count >= self.max_runs

    def _delay(self, fire_time: datetime) -> timedelta:
        following = self.timetable.next(fire_time)
        longest = self.jitter if following is None else min(self.jitter, following - fire_time)
        digest = hashlib.sha256(f"{self.name}@{fire_time.isoformat()}".encode()).digest()
        return longest * (int.from_bytes(digest[:6], "big") / 2**48)


def _grace(definition: Definition, defaults: Defaults) -> float | None:
    if definition.misfire_grace_time is not INHERIT:
        return definition.misfire_grace_time
    if isinstance(definition.schedule, crontab) and defaults.crontab_grace_time is not None:
        return defaults.crontab_grace_time
    return defaults.misfire_grace_time
