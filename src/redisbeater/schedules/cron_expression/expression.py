"""``cron_expression``: a schedule of a cron text that Celery's crontab cannot hold."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from datetime import timezone as fixed_zone
from typing import Any

from celery.schedules import BaseSchedule, schedstate

from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.cron_expression.fields import check_hashed, read_fields, refuse_never, resolve
from redisbeater.schedules.cron_expression.slot import ExpressionSlots
from redisbeater.schedules.crontab import engine
from redisbeater.schedules.crontab.text import PATH, pointed_at, split_text
from redisbeater.schedules.local_time import in_zone
from redisbeater.schedules.zone import read_zone, zone_name

__all__ = ("cron_expression",)

#: What it takes to look at a month without success.
_MONTH_STEPS = 4

#: The least days that a month has.
_MONTH = timedelta(days=28)


class cron_expression(BaseSchedule):
    """Fire at the times of a cron text, to the second: with ``L``, ``W``, ``#`` and ``H``; ``cron()`` creates it.

    ``H`` stands for a number that the name of the entry decides. An entry binds its schedule to its own name; until
    then the schedule has no fire times.

    Arguments:
        text: five fields (minute, hour, day of month, month, day of week), or six with the second in front.
        timezone: the zone of its local times, a name or an object; default: the entry's, else the app's.
        entry_name: the name that decides ``H``.

    Raises:
        InvalidEntry: a field cannot be read (the path names it), or there is no such zone.
    """

    def __init__(
        self, text: str, timezone: str | tzinfo | None = None, entry_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        texts = split_text(text)
        self.text = " ".join(texts.values())
        zone = None if timezone is None else read_zone(timezone, "$.timezone")
        self.timezone = zone_name(zone)
        if zone is not None:
            self.tz = zone
        with pointed_at(texts):
            self._has_hash = check_hashed(texts)
            #: The name that decides ``H``; None without ``H``, and as long as it is not known.
            self.entry_name = entry_name if self._has_hash else None
            resolved = resolve(texts, self.entry_name or "")
            fields = read_fields(resolved)
            if self.is_bound:
                refuse_never(fields)
        #: The text with a number for each ``H``; None as long as the name is not known.
        self.resolved_text = " ".join(resolved.values()) if self.is_bound else None
        self._slots = ExpressionSlots(fields)

    @property
    def is_bound(self) -> bool:
        """Whether its fire times are known: it has no ``H``, or the name of its entry."""
        return not self._has_hash or self.entry_name is not None

    @property
    def slots(self) -> ExpressionSlots:
        """The local times that its fields allow, and the fields as numbers and rules.

        Raises:
            InvalidEntry: it has ``H``, and the name of its entry is not known.
        """
        if not self.is_bound:
            problem = f'H in "{self.text}" is decided by the name of an entry; give the schedule to an entry'
            raise InvalidEntry(PATH, f'{problem}, or use .for_entry("the name")')
        return self._slots

    def for_entry(self, name: str) -> cron_expression:
        """Return the schedule as the entry of that name has it; itself if it has no ``H``.

        Raises:
            InvalidEntry: with the numbers that the name decides, no date matches.
        """
        if not self._has_hash or name == self.entry_name:
            return self
        return type(self)(self.text, self.timezone, name, nowfun=self.nowfun, app=self._app)

    def next_fire_time(self, zone: tzinfo, after: datetime, steps: Steps | None = None) -> datetime | None:
        """Return the first fire time after an instant, both aware UTC; None when there is none within 41 years.

        Raises:
            InvalidEntry: the name of its entry is not known.
        """
        following = engine.next_fire_time(self, zone, after)
        if steps is not None and following is not None:
            steps.take((following - after) // _MONTH * _MONTH_STEPS)
        return following

    def remaining_estimate(self, last_run_at: datetime) -> timedelta | None:
        """Return the time until the next fire time, for Celery; None when there is none."""
        following = self.next_fire_time(self.tz, in_zone(last_run_at, fixed_zone.utc))
        return None if following is None else following - self.maybe_make_aware(self.now())

    def is_due(self, last_run_at: datetime) -> tuple[bool, Any]:
        """Return whether a fire time has passed since the last run and the seconds to the next one, for Celery."""
        remaining = self.remaining_estimate(last_run_at)
        is_due = remaining is not None and remaining <= timedelta()
        following = self.remaining_estimate(self.now()) if is_due else remaining
        return schedstate(is_due, None if following is None else max(following.total_seconds(), 0))

    def __repr__(self) -> str:
        return f"<cron: {self.text}{'' if self.entry_name is None else f' of {self.entry_name}'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, cron_expression) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type, tuple[str, str | None, str | None]]:
        return type(self), (self.text, self.timezone, self.entry_name)

    @property
    def _key(self) -> tuple[str, str | None]:
        return self.text, self.entry_name
