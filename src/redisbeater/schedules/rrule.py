"""``rrule``: a recurrence rule of RFC 5545, made like RedBeat's."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Any

from celery.schedules import BaseSchedule, schedstate
from dateutil.rrule import DAILY, HOURLY, MINUTELY, MONTHLY, SECONDLY, WEEKLY, YEARLY
from dateutil.rrule import rrule as dateutil_rrule

from redisbeater.schedules.local_time import in_zone, instant_of, to_utc

__all__ = ("rrule",)

FREQUENCIES = {
    "YEARLY": YEARLY,
    "MONTHLY": MONTHLY,
    "WEEKLY": WEEKLY,
    "DAILY": DAILY,
    "HOURLY": HOURLY,
    "MINUTELY": MINUTELY,
    "SECONDLY": SECONDLY,
}

_PERIOD_SECONDS = {WEEKLY: 604_800, DAILY: 86_400, HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}

#: No zone has put its clocks forward by more at once and kept the date.
_LONGEST_SHIFT = timedelta(hours=3)

_BY = (
    "bysetpos",
    "bymonth",
    "bymonthday",
    "byyearday",
    "byeaster",
    "byweekno",
    "byweekday",
    "byhour",
    "byminute",
    "bysecond",
)

#: The parts of a rule besides its two dates, in the order of RedBeat's stored form.
PARTS = ("freq", "interval", "wkst", "count", *_BY)


class rrule(BaseSchedule):
    """Fire at the occurrences of a recurrence rule; the first one, ``dtstart``, included.

    Arguments:
        freq: ``"DAILY"`` or dateutil's number.
        dtstart: the first occurrence, whole seconds; default: now. Local times of the rule are those of its zone.
        interval, wkst, count, until, bysetpos, ...: as in :class:`dateutil.rrule.rrule`.

    Example::

        rrule("MONTHLY", dtstart=datetime(2026, 1, 1, 9, tzinfo=ZoneInfo("Europe/Vienna")), byweekday=MO(+1))
    """

    def __init__(
        self,
        freq: str | int,
        dtstart: datetime | None = None,
        interval: int = 1,
        wkst: Any = None,
        count: int | None = None,
        until: datetime | None = None,
        bysetpos: Any = None,
        bymonth: Any = None,
        bymonthday: Any = None,
        byyearday: Any = None,
        byeaster: Any = None,
        byweekno: Any = None,
        byweekday: Any = None,
        byhour: Any = None,
        byminute: Any = None,
        bysecond: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.freq = _frequency(freq)
        #: Whether the caller said when the rule begins; else it began when it was made.
        self.has_explicit_start = dtstart is not None
        self.dtstart = self._aware(dtstart or self.now()).replace(microsecond=0)
        self.until = self._aware(until) if until else None
        self.interval, self.wkst, self.count = _interval(interval), wkst, count
        self.bysetpos, self.byeaster, self.byweekno = bysetpos, byeaster, byweekno
        self.bymonth, self.bymonthday, self.byyearday = bymonth, bymonthday, byyearday
        self.byweekday, self.byhour, self.byminute, self.bysecond = byweekday, byhour, byminute, bysecond
        self.rule  # noqa: B018 - a rule that dateutil refuses is refused here

    def _aware(self, moment: datetime) -> datetime:
        return moment if moment.tzinfo else moment.replace(tzinfo=self.tz)

    @property
    def zone(self) -> tzinfo:
        """The zone of the rule's local times: that of ``dtstart``."""
        return self.dtstart.tzinfo or timezone.utc

    @cached_property
    def rule(self) -> Any:
        """The rule over naive local times, as RFC 5545 section 3.3.5 reads them."""
        parts = {name: getattr(self, name) for name in PARTS if name != "freq"}
        until = self.until.astimezone(self.zone).replace(tzinfo=None) if self.until else None
        frequency: Any = self.freq  # any int to us, seven literals to the type
        return dateutil_rrule(frequency, dtstart=self.dtstart.replace(tzinfo=None), until=until, **parts)

    def first_occurrence(self) -> datetime | None:
        """The first fire time, as an instant; None when the rule has none."""
        first = next(iter(self.rule), None)
        return None if first is None else to_utc(first, self.zone)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first occurrence after an instant; None when the rule has ended."""
        local = self._local_before(after)
        earliest: datetime | None = None
        for occurrence in self._rule_near(local).xafter(local):
            instant = to_utc(occurrence, self.zone)
            if instant > after:
                earliest = instant if earliest is None else min(earliest, instant)
                if instant_of(occurrence, self.zone):  # one in a gap fires later than some that follow it on the clock
                    break
        return earliest

    def _local_before(self, after: datetime) -> datetime:
        """The local time to search from: a time in a gap fires later than some that follow it on the clock."""
        local, earlier = after.astimezone(self.zone), (after - _LONGEST_SHIFT).astimezone(self.zone)
        start = local if local.utcoffset() == earlier.utcoffset() else earlier
        return start.replace(tzinfo=None)

    def _rule_near(self, local: datetime) -> Any:
        """The rule begun anew shortly before a local time: dateutil steps through all occurrences since ``dtstart``.

        In whole intervals, so that the phase stays. Years and months are few; a count needs them all.
        """
        start = self.dtstart.replace(tzinfo=None)
        seconds = _PERIOD_SECONDS.get(self.freq, 0) * self.interval
        if not seconds or self.count is not None or local <= start:
            return self.rule
        intervals = int((local - start).total_seconds()) // seconds - 1
        return self.rule if intervals < 1 else self.rule.replace(dtstart=start + timedelta(seconds=intervals * seconds))

    def remaining_estimate(self, last_run_at: datetime) -> timedelta | None:
        """How long until the next occurrence; for Celery, which asks schedules this way. None: the rule has ended."""
        following = self.next_fire_time(in_zone(last_run_at, timezone.utc))
        return None if following is None else following - self.maybe_make_aware(self.now())

    def is_due(self, last_run_at: datetime) -> tuple[bool, Any]:
        """Celery's question: whether an occurrence has passed since the last run, and seconds to the next."""
        remaining = self.remaining_estimate(last_run_at)
        if remaining is None:
            return schedstate(False, None)
        if remaining > timedelta():
            return schedstate(False, remaining.total_seconds())
        following = self.remaining_estimate(self.now())
        return schedstate(True, None if following is None else max(following.total_seconds(), 0))

    def __repr__(self) -> str:
        return f"<rrule: {self.rule} in {self.zone}>".replace("\n", " ")

    def _parts(self) -> dict[str, Any]:
        return {"dtstart": self.dtstart, "until": self.until, **{name: getattr(self, name) for name in PARTS}}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, rrule) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((self.freq, self.dtstart, self.interval))

    def __reduce__(self) -> Any:
        return _rebuild, (self._parts(),)


def _rebuild(parts: dict[str, Any]) -> rrule:
    return rrule(**parts)


def _frequency(freq: str | int) -> int:
    if isinstance(freq, int) and not isinstance(freq, bool) and freq in FREQUENCIES.values():
        return freq
    if isinstance(freq, str) and freq.upper() in FREQUENCIES:
        return FREQUENCIES[freq.upper()]
    raise ValueError(f"freq: expected one of {', '.join(FREQUENCIES)}, got {freq!r}")


def _interval(interval: int) -> int:
    if isinstance(interval, int) and not isinstance(interval, bool) and interval > 0:
        return interval
    raise ValueError(f"interval: expected a whole number above 0, got {interval!r}")
