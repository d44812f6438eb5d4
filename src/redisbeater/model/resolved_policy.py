"""The resolved policy of an entry: its timetable and its policies, with the settings' defaults filled in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any, NamedTuple

from redisbeater.model.definition import Definition
from redisbeater.model.fields import INHERITED, POLICY_FIELDS, PROMISES
from redisbeater.model.meta import FINISHED, Score
from redisbeater.model.policies import INHERIT, Anchor, Coalesce, Overlap
from redisbeater.schedules.budget import SEARCHING_STEPS
from redisbeater.schedules.calendar import NO_CALENDARS, Calendars
from redisbeater.schedules.kinds import kind_of
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.zones import in_zone

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What entries inherit from the settings of their app; times are in seconds, and None as grace means no limit.

    Without ``track_runs``, nobody knows which runs are active: every overlap is ``allow``, every anchor the fire time.
    The calendars are those of the schedule.
    """

    zone: tzinfo
    misfire_grace_time: float | None = None
    crontab_grace_time: float | None = None
    coalesce: Coalesce = Coalesce.LATEST
    jitter: float = 0.0
    overlap: Overlap = Overlap.ALLOW
    requeue_lost: int = 0
    max_failures: int = 0
    start_within: float | None = 300.0
    finish_within: float | None = None
    track_runs: bool = False
    calendars: Calendars = field(default_factory=lambda: NO_CALENDARS)


class ResolvedPolicy(NamedTuple):
    """The policy of one entry under the current settings; it is never stored."""

    name: str
    enabled: bool
    is_interval: bool
    timetable: Timetable
    max_runs: int | None
    grace: timedelta | None
    coalesce: Coalesce
    jitter: timedelta
    #: No fire time before it runs; None: any may.
    disabled_until: datetime | None
    #: The fire times that are left out, in order.
    skip: tuple[datetime, ...]
    overlap: Overlap = Overlap.ALLOW
    anchor: Anchor = Anchor.FIRE_TIME
    #: How long after a run was sent one must have ended well, in seconds; None: nothing is promised.
    finish_within: float | None = None

    @classmethod
    def of(cls, definition: Definition, defaults: Defaults) -> ResolvedPolicy:
        """Resolve the policy of an entry under the settings of its app."""
        value = partial(policy_value, definition, defaults)
        grace = value("misfire_grace_time")
        return cls(
            name=definition.name,
            enabled=definition.enabled,
            is_interval=definition.is_interval,
            timetable=definition.timetable(defaults.zone, defaults.calendars),
            max_runs=definition.max_runs,
            grace=None if grace is None else timedelta(seconds=grace),
            coalesce=value("coalesce"),
            jitter=timedelta(seconds=value("jitter")),
            disabled_until=_instant(definition.disabled_until, definition, defaults),
            skip=definition.skip,
            overlap=value("overlap"),
            anchor=value("anchor"),
            finish_within=value("finish_within"),
        )

    def afresh(self, limit: int = SEARCHING_STEPS) -> ResolvedPolicy:
        """Return an equal policy whose searches for fire times may take that many engine steps."""
        return self._replace(timetable=self.timetable.afresh(limit))

    def due_at(self, fire_time: datetime) -> datetime:
        """Return when a fire time is due: its own instant plus the jitter, which never reaches past the next fire time.

        The jitter is deterministic per entry and fire time.
        """
        return fire_time + self._delay(fire_time) if self.jitter else fire_time

    def score_after(self, fire_time: datetime, run_count: int) -> Score:
        """Return the score of the entry once its fire times up to ``fire_time`` are run or skipped."""
        if self.is_spent(run_count):
            return FINISHED
        return self.score_at(self.resumed(self.timetable.next(fire_time)), run_count)

    def score_at(self, following: datetime | None, run_count: int) -> Score:
        """Return the score of the entry; ``following`` is its next fire time, or None if it has none left."""
        return FINISHED if self.is_spent(run_count) else Score.planned(following, enabled=self.enabled)

    @property
    def leaves_out(self) -> bool:
        """Whether operators have left out fire times of the entry, now or before."""
        return self.disabled_until is not None or bool(self.skip)

    @property
    def runs_alone(self) -> bool:
        """Whether no run of the entry begins while another is active."""
        return self.overlap is not Overlap.ALLOW or self.anchor is Anchor.EXECUTION

    def resumed(self, fire_time: datetime | None) -> datetime | None:
        """Return a fire time, or the first one after it that is not before ``disabled_until``."""
        until = self.disabled_until
        if until is None or fire_time is None or fire_time >= until:
            return fire_time
        return self.timetable.next(self.timetable.newest(fire_time, until - _MICROSECOND))

    def kept(self, fire_time: datetime | None) -> datetime | None:
        """Return a fire time, or the first one after it that is neither in ``skip`` nor before ``disabled_until``."""
        fire_time = self.resumed(fire_time)
        while fire_time is not None and fire_time in self.skip:
            fire_time = self.timetable.next(fire_time)
        return fire_time

    def kept_from(self, fire_time: datetime | None) -> Iterator[datetime]:
        """Yield a fire time and those after it, each found when it is asked for, without those that are left out."""
        following = self.kept(fire_time)
        while following is not None:
            yield following
            following = self.kept(self.timetable.next(following))

    def is_spent(self, run_count: int) -> bool:
        """Tell whether the entry has had all runs that ``max_runs`` allows."""
        return self.max_runs is not None and run_count >= self.max_runs

    def ended_calendar(self, run_count: int) -> str:
        """Return the calendar because of which an entry has no fire time left; empty where it has finished."""
        return "" if self.is_spent(run_count) else self.timetable.ended_calendar

    def _delay(self, fire_time: datetime) -> timedelta:
        following = self.timetable.next(fire_time)
        longest = self.jitter if following is None else min(self.jitter, following - fire_time)
        digest = hashlib.sha256(f"{self.name}@{fire_time.isoformat()}".encode()).digest()
        return longest * (int.from_bytes(digest[:6], "big") / 2**48)


def inherited_policies(definition: Definition, defaults: Defaults) -> dict[str, Any]:
    """Return the policies that settings decide for an entry, by field; only those that affect its runs."""
    inherited = [name for name in INHERITED if name not in PROMISES and getattr(definition, name) is INHERIT]
    values = {name: policy_value(definition, defaults, name) for name in inherited}
    return {name: value for name, value in values.items() if value not in (None, 0, Overlap.ALLOW)}


def policy_value(definition: Definition, defaults: Defaults, name: str) -> Any:
    """Return the value of a policy of an entry: its own, else that of the settings; INHERIT is never returned."""
    known, value = POLICY_FIELDS[name], getattr(definition, name)
    if known.untracked and not defaults.track_runs:
        return known.untracked[-1]
    if value is not INHERIT:
        return value
    of_cron = defaults.crontab_grace_time if name == "misfire_grace_time" else None
    if of_cron is not None and kind_of(definition.schedule).is_cron(definition.schedule):
        return of_cron
    return getattr(defaults, name)


def _instant(moment: datetime | None, definition: Definition, defaults: Defaults) -> datetime | None:
    return None if moment is None else in_zone(moment, definition.zone(defaults.zone))
