"""``rrule``: a schedule by a recurrence rule of RFC 5545, from parts as in RedBeat or from text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import MAXYEAR, datetime, timedelta, timezone, tzinfo
from itertools import islice, takewhile
from typing import Any, NamedTuple

from celery.schedules import BaseSchedule, schedstate

from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.datetime_codec import read_zone, zone_name
from redisbeater.schedules.local_time import in_zone, instant_of, offset_during, to_utc
from redisbeater.schedules.rrule.counting import count_of_rules
from redisbeater.schedules.rrule.recurrence import Recurrence
from redisbeater.schedules.rrule.rule import FREQUENCIES, PARTS, make_rule
from redisbeater.schedules.rrule.rule_text import rfc_name
from redisbeater.schedules.rrule.text import is_text, read_text, write_text

__all__ = ("rrule",)

#: No zone has put its clock forward by more than this within one date.
_MAX_SHIFT = timedelta(hours=3)

#: Further from a shift than this, local times follow each other like their instants.
_NEAR = timedelta(days=2)

#: Occurrences are listed at once, instead of one by one, when they lie within as many days.
_LISTED_DAYS = 400

#: What it takes to convert an additional date to an instant.
_DATE_STEPS = 4

_MICROSECOND = timedelta(microseconds=1)


class _Occurrence(NamedTuple):
    """A fire time, and the local time by which the rule has it."""

    instant: datetime
    local: datetime


class rrule(BaseSchedule):
    """Fire at the occurrences of a recurrence rule, including ``dtstart`` if the rule matches it.

    Local times are those of one zone, read by RFC 5545 section 3.3.5. Finding the next occurrence takes the same time
    however old ``dtstart`` is.

    Arguments:
        freq: ``"DAILY"`` or dateutil's number, with the parts below; or RFC 5545 text: one rule
            (``"FREQ=MONTHLY;BYDAY=1MO"``), or lines of DTSTART, RRULE, RDATE and EXDATE.
        dtstart: when the rule begins, in whole seconds; default: now.
        interval, wkst, count, until, bysetpos, ...: as in :class:`dateutil.rrule.rrule`; a text contains them.
        timezone: IANA name of the zone of the local times; default: that of ``dtstart``, else the app's.

    Raises:
        InvalidEntry: the value of a part is not valid; the message starts with its name. It is also a TypeError if the
            value has a wrong type.

    Example::

        rrule("FREQ=MONTHLY;BYDAY=1MO", dtstart=datetime(2026, 1, 1, 9), timezone="Europe/Vienna")
        rrule("MONTHLY", dtstart=datetime(2026, 1, 1, 9), timezone="Europe/Vienna", byweekday=MO(+1))
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
        timezone: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.interval, self.wkst, self.count = interval, wkst, count
        self.bysetpos, self.byeaster, self.byweekno = bysetpos, byeaster, byweekno
        self.bymonth, self.bymonthday, self.byyearday = bymonth, bymonthday, byyearday
        self.byweekday, self.byhour, self.byminute, self.bysecond = byweekday, byhour, byminute, bysecond
        zone = None if timezone is None else read_zone(timezone, "timezone")
        #: The normal form of the RFC 5545 text; None when it was created from parts.
        self.text: str | None = None
        #: dateutil's number; None when the text has more than one rule.
        self.freq: Any = None
        self.until: datetime | None = None
        try:
            self._set_rule(freq, dtstart, until, zone)
        except (ValueError, TypeError) as exc:
            raise InvalidEntry.of(exc, "rrule") from exc

    def _set_rule(self, freq: Any, dtstart: datetime | None, until: datetime | None, zone: tzinfo | None) -> None:
        if is_text(freq):
            self._refuse_parts(until)
            self._set_from_text(str(freq), dtstart, zone)
        else:
            self._set_from_parts(freq, dtstart, until, zone)

    def _refuse_parts(self, until: datetime | None) -> None:
        for name, value in {**self._parts(), "until": until}.items():
            if value is not None and not (name == "interval" and value == 1):
                raise TypeError(f"{name}: expected {rfc_name(name)} in the text, got the argument {name}={value!r}")

    def _set_from_text(self, text: str, dtstart: datetime | None, zone: tzinfo | None) -> None:
        parsed = read_text(text)
        if parsed.start is not None and dtstart is not None:
            raise ValueError(f"dtstart: expected one start, got DTSTART in the text and dtstart={dtstart!r}")
        self._set_start(dtstart if parsed.start is None else parsed.start, zone)
        if zone_name(self.zone) is None:
            raise ValueError(f"dtstart: a text cannot name the zone {self.zone}; pass timezone='Europe/Vienna'")
        self.recurrence = parsed.recurrence(self._start, self.zone)
        self.text = write_text(self._start, self.zone, self.recurrence)
        if len(parsed.rules) == 1 and not (parsed.rdates or parsed.exdates):
            self._expose_parts(parsed.rules[0])

    def _expose_parts(self, parts: dict[str, Any]) -> None:
        """Set the attributes to the parts of the only rule of a text, as if it had been created from them."""
        for name in parts.keys() - {"until"}:
            setattr(self, name, parts[name])
        until = self.recurrence.rules[0].until
        self.until = until and until.replace(tzinfo=self.zone)

    def _set_from_parts(
        self, freq: str | int, dtstart: datetime | None, until: datetime | None, zone: tzinfo | None
    ) -> None:
        self.freq = _frequency(freq)
        self._set_start(dtstart, zone)
        self.until = None if until is None else self._aware("until", until, zone)
        self.recurrence = Recurrence(rules=(make_rule(self._start, self._local_until(), self._parts()),))

    def _set_start(self, dtstart: datetime | None, zone: tzinfo | None) -> None:
        #: Whether the caller passed the start; otherwise the rule starts when it is created.
        self.has_explicit_start = dtstart is not None
        self.dtstart = self._aware("dtstart", self.now() if dtstart is None else dtstart, zone).replace(microsecond=0)
        if not 1 < self.dtstart.year < MAXYEAR:
            raise ValueError(f"dtstart: expected a year from 2 to {MAXYEAR - 1}, got {self.dtstart.year}")

    def _aware(self, name: str, moment: Any, zone: tzinfo | None) -> datetime:
        if not isinstance(moment, datetime):
            raise TypeError(f"{name}: expected a datetime, got {moment!r}")
        if moment.tzinfo is None:
            return moment.replace(tzinfo=zone or self.tz)
        return moment if zone is None else moment.astimezone(zone)

    def _local_until(self) -> datetime | None:
        if self.until is None or self.until.year == MAXYEAR:
            return None
        return self.until.astimezone(self.zone).replace(tzinfo=None, fold=0)

    @property
    def zone(self) -> tzinfo:
        """The zone of the rule's local times: that of ``dtstart``."""
        return self.dtstart.tzinfo or timezone.utc

    @property
    def _start(self) -> datetime:
        return self.dtstart.replace(tzinfo=None, fold=0)

    def first_occurrence(self, steps: Steps | None = None) -> datetime | None:
        """Return the first fire time as an instant; None when the rule has none."""
        begins = (self._start, *self.recurrence.rdates[:1])
        return self.next_fire_time(min(to_utc(local, self.zone) for local in begins) - _MAX_SHIFT, steps)

    def next_fire_time(self, after: datetime, steps: Steps | None = None) -> datetime | None:
        """Return the first occurrence after an instant; None when the rule has ended, or has none within 41 years.

        Raises:
            StepsExhausted: finding it takes more steps than there are left; an InvalidEntry.
        """
        following = self._next(after, steps or Steps())
        return None if following is None else following.instant

    def nominal_time(self, fire_time: datetime) -> datetime | None:
        """Return the naive local time of the occurrence that fires at an instant; None when none does.

        It differs from what the clock shows only when that local time does not exist, because the clock skips it.
        """
        occurrence = self._next(fire_time - _MICROSECOND, Steps())
        return occurrence.local if occurrence is not None and occurrence.instant == fire_time else None

    def reach_back(self, number: int, until: datetime, since: datetime, steps: Steps) -> datetime:
        """Return an instant, not before ``since``, from which on about so many occurrences lead up to another one."""
        local, earliest = (moment.astimezone(self.zone).replace(tzinfo=None) for moment in (until, since))
        before = islice(self.recurrence.before(local, earliest, steps), number - 1, None)
        dates = self.recurrence.dates
        index = bisect_right(dates, local) - number
        found = [*islice(before, 1), *([dates[index]] if index >= 0 else [])]
        return max([since, *(to_utc(local, self.zone) for local in found)])

    def listed(self, after: datetime, until: datetime, steps: Steps) -> list[datetime] | None:
        """Return the occurrences after one instant and up to another, if the offset does not change near them."""
        days = range(-_NEAR.days, (until - after).days + _NEAR.days + 1)
        if len(days) > _LISTED_DAYS:
            return None
        steps.take(len(days) * 2)
        offset = offset_during(after, self.zone)
        if any(offset_during(after + timedelta(days=day), self.zone) != offset for day in days):
            return None
        first, last = ((moment + offset).replace(tzinfo=None) for moment in (after, until))
        dates = self.recurrence.dates
        found = takewhile(lambda local: local <= last, self.recurrence.after(first, steps))
        locals_ = {*found, *dates[bisect_right(dates, first) : bisect_right(dates, last)]}
        steps.take(3 * len(locals_))
        return sorted((local - offset).replace(tzinfo=timezone.utc) for local in locals_)

    def count_between(self, first: datetime, last: datetime, steps: Steps) -> Iterator[int]:
        """Yield numbers whose sum is that of the occurrences between two instants, both included.

        When the steps are exhausted before the end, the sum is too small, never too large.
        """
        if self.recurrence.rules:
            yield from count_of_rules(self.recurrence, self.zone, first, last, steps)
        counted = set()
        for date in self._dates_between(first, last, steps):
            if date not in counted and not self._rules_fire_at(date, steps):
                yield 1
            counted.add(date)

    def _next(self, after: datetime, steps: Steps) -> _Occurrence | None:
        """Return the next occurrence; if two local times are the same instant, the one that exists."""
        found = [*self._dates_after(after, steps), *self._of_rules(after, steps)]
        return min(found, key=lambda occurrence: (occurrence.instant, datetime.max - occurrence.local), default=None)

    def _dates_after(self, after: datetime, steps: Steps) -> Iterator[_Occurrence]:
        """Yield candidates for the next additional date: only near a shift, more than one."""
        dates, local = self.recurrence.dates, after.astimezone(self.zone).replace(tzinfo=None)
        index = bisect_right(dates, local) if self._is_steady(after) else bisect_left(dates, local - _NEAR)
        for date in islice(dates, index, None):
            steps.take(_DATE_STEPS)
            if (instant := to_utc(date, self.zone)) > after:
                yield _Occurrence(instant, date.replace(fold=0))
                if self._is_steady(instant):
                    return

    def _dates_between(self, first: datetime, last: datetime, steps: Steps) -> Iterator[datetime]:
        """Yield the additional dates between two instants, both included, as instants."""
        dates = self.recurrence.dates
        begin, end = (moment.astimezone(self.zone).replace(tzinfo=None) for moment in (first, last))
        for date in islice(dates, bisect_left(dates, begin - _NEAR), bisect_right(dates, end + _NEAR)):
            steps.take(_DATE_STEPS)
            if first <= (instant := to_utc(date, self.zone)) <= last:
                yield instant

    def _is_steady(self, instant: datetime) -> bool:
        """Tell whether the offset does not change near an instant, so that local times follow each other as usual."""
        before, after = ((instant + near).astimezone(self.zone).utcoffset() for near in (-_NEAR, _NEAR))
        return before == after

    def _rules_fire_at(self, instant: datetime, steps: Steps) -> bool:
        return bool(self.recurrence.rules) and any(
            found.instant == instant for found in self._of_rules(instant - _MICROSECOND, steps)
        )

    def _of_rules(self, after: datetime, steps: Steps) -> list[_Occurrence]:
        """Return candidates for the next occurrence of the rules."""
        local = after.astimezone(self.zone).replace(tzinfo=None)
        found = list(self._next_of_rules(local, after, steps))
        earlier = local - self._recent_shift(after)
        if not instant_of(earlier, self.zone):  # times in a gap fire later than some local times that follow them
            found += islice(self._next_of_rules(earlier, after, steps), 1)
        return found

    def _next_of_rules(self, local: datetime, after: datetime, steps: Steps) -> Iterator[_Occurrence]:
        """Yield candidates for the next occurrence, up to the first one whose local time exists."""
        for occurrence in self.recurrence.after(local, steps):
            if (instant := to_utc(occurrence, self.zone)) > after:
                yield _Occurrence(instant, occurrence)
                if instant_of(occurrence, self.zone):
                    return

    def _recent_shift(self, after: datetime) -> timedelta:
        """Return how far the clock was put forward within the last three hours."""
        now, earlier = (moment.astimezone(self.zone).utcoffset() for moment in (after, after - _MAX_SHIFT))
        return max((now or timedelta()) - (earlier or timedelta()), timedelta())

    def remaining_estimate(self, last_run_at: datetime) -> timedelta | None:
        """Return the time until the next occurrence, for Celery; None when the rule has ended."""
        following = self.next_fire_time(in_zone(last_run_at, timezone.utc))
        return None if following is None else following - self.maybe_make_aware(self.now())

    def is_due(self, last_run_at: datetime) -> tuple[bool, Any]:
        """Return whether an occurrence has passed since the last run and the seconds to the next one, for Celery."""
        remaining = self.remaining_estimate(last_run_at)
        if remaining is None:
            return schedstate(False, None)
        if remaining > timedelta():
            return schedstate(False, remaining.total_seconds())
        following = self.remaining_estimate(self.now())
        return schedstate(True, None if following is None else max(following.total_seconds(), 0))

    def __repr__(self) -> str:
        text = write_text(self._start, self.zone, self.recurrence).replace("\n", " ")
        return f"<rrule: {text} in {self.zone}>"

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PARTS}

    def _constructor_arguments(self) -> dict[str, Any]:
        """Return keyword arguments that create an equal rule."""
        if self.text is not None:
            return {"freq": self.text}
        return {"dtstart": self.dtstart, "until": self.until, **self._parts()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, rrule):
            return False
        return self._constructor_arguments() == other._constructor_arguments() and _zone_key(self.dtstart) == _zone_key(
            other.dtstart
        )

    def __hash__(self) -> int:
        return hash(self.text or (self.freq, self.dtstart, self.interval))

    def __reduce__(self) -> Any:
        return _rebuild, (self._constructor_arguments(),)


def _rebuild(arguments: dict[str, Any]) -> rrule:
    return rrule(**arguments)


def _zone_key(moment: datetime) -> Any:
    """Return what distinguishes the zones of two rules that start at the same instant."""
    return zone_name(moment.tzinfo) or moment.utcoffset()


def _frequency(freq: str | int) -> int:
    if isinstance(freq, int) and not isinstance(freq, bool) and freq in FREQUENCIES.values():
        return freq
    if isinstance(freq, str) and freq.upper() in FREQUENCIES:
        return FREQUENCIES[freq.upper()]
    expected = f"expected one of {', '.join(FREQUENCIES)}, or RFC 5545 text such as 'FREQ=MONTHLY;BYDAY=1MO'"
    raise ValueError(f"freq: {expected}; got {freq!r}")
