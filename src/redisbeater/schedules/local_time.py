"""Local times of a zone as instants, and the shifts of its UTC offset, which cause gaps and repeated times.

The code reads only :meth:`~datetime.datetime.utcoffset`, never ``dst()``: a shift may be 30 minutes or two hours, and
"summer" time may be the standard one (Europe/Dublin). The shifts of a zone are days apart (since 1970: a week or more).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

__all__ = (
    "Shift",
    "in_zone",
    "instant_of",
    "is_in_gap",
    "offset_at",
    "offset_during",
    "recent_shift",
    "shift_on",
    "shifts_between",
    "steady_offset",
    "to_utc",
)

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A change of the UTC offset of a zone.

    Attributes:
        at: the first instant of the new offset.
        before: the old offset.
        after: the new offset.
    """

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def from_local(self) -> datetime:
        """The naive local time at the shift by the old offset: the start of a gap."""
        return (self.at + self.before).replace(tzinfo=None)

    @property
    def to_local(self) -> datetime:
        """The naive local time at the shift by the new offset: the end of a gap, or the start of a repeated time."""
        return (self.at + self.after).replace(tzinfo=None)


def offset_at(local: datetime, zone: tzinfo) -> timedelta:
    """Return the UTC offset at a naive local time: before a gap if in it, the first one if repeated (PEP 495)."""
    return zone.utcoffset(local.replace(tzinfo=zone)) or timedelta()


def offset_during(instant: datetime, zone: tzinfo) -> timedelta:
    """Return the UTC offset at an instant."""
    return instant.astimezone(zone).utcoffset() or timedelta()


def to_utc(local: datetime, zone: tzinfo) -> datetime:
    """Return the instant of a naive local time by RFC 5545 section 3.3.5, which :func:`offset_at` follows."""
    return (local - offset_at(local, zone)).replace(tzinfo=timezone.utc)


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Return the instant of a datetime; a naive one is in the zone, and one in a gap has the offset before it."""
    local = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    return (local.replace(fold=0) if is_in_gap(local) else local).astimezone(timezone.utc)


def is_in_gap(moment: datetime) -> bool:
    """Tell whether the clock of its zone skips the local time of an aware datetime."""
    before, after = (moment.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    return before < after


def instant_of(local: datetime, zone: tzinfo) -> datetime | None:
    """Return the instant of a naive local time, the first one if it is repeated; None if it does not exist."""
    instant = to_utc(local, zone)
    return instant if instant.astimezone(zone).replace(tzinfo=None) == local else None


def steady_offset(day: date, zone: tzinfo, since: datetime) -> timedelta | None:
    """Return the UTC offset of a local date if it does not change from ``since`` to the end of the date; else None.

    ``since`` counts as the start of the date when it is not on that date. The offset is compared one second before
    that start and at the end of the date, so that a repeated time at the start is noticed, too.
    """
    if isinstance(zone, (timezone, ZoneInfo)) and (fixed := zone.utcoffset(None)) is not None:
        return fixed
    following, local = day + _DAY, since.astimezone(zone)
    start = local if local.date() == day else datetime(day.year, day.month, day.day, tzinfo=zone)
    end = datetime(following.year, following.month, following.day, tzinfo=zone, fold=1)
    offset = (start - _SECOND).utcoffset()
    return offset if offset == end.utcoffset() else None


def shift_on(day: date, zone: tzinfo) -> Shift:
    """Return the shift on a local date that has no steady offset."""
    midnight = datetime(
        day.year, day.month, day.day, tzinfo=timezone.utc
    )  # less than a day from the zone's own midnight
    return _shift_between(midnight - _DAY, midnight + 2 * _DAY, zone)


def recent_shift(instant: datetime, zone: tzinfo) -> Shift | None:
    """Return the shift within the day up to an instant; None if there is none.

    A gap is a day at most (Pacific/Kwajalein in 1993), so what it moved has fired when a day has passed.
    """
    since = instant - _DAY
    if offset_during(since, zone) == offset_during(instant, zone):
        return None
    return _shift_between(since, instant, zone)


def shifts_between(after: datetime, until: datetime, zone: tzinfo) -> Iterator[Shift]:
    """Yield the shifts after ``after`` and up to ``until``, in order."""
    start, offset = after, offset_during(after, zone)
    while start < until:
        stop = min(start + _DAY, until)
        following = offset_during(stop, zone)
        if following != offset:
            yield _shift_between(start, stop, zone)
        start, offset = stop, following


def _shift_between(start: datetime, stop: datetime, zone: tzinfo) -> Shift:
    """Return the only shift after ``start`` and up to ``stop``."""
    before, after = offset_during(start, zone), offset_during(stop, zone)
    seconds = range(int(start.timestamp()), int(stop.timestamp()) + 1)
    index = bisect_left(seconds, True, key=lambda second: datetime.fromtimestamp(second, zone).utcoffset() != before)
    return Shift(at=datetime.fromtimestamp(seconds[index], timezone.utc), before=before, after=after)
