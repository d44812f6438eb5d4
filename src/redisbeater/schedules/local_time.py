"""Local times of a zone as instants: what a gap and a repeated hour do to them.

Only :meth:`~datetime.tzinfo.utcoffset` is asked, never ``dst()``: a shift may be 30 minutes or two hours, and
"summer" time may be the standard one (Europe/Dublin).
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone, tzinfo

__all__ = ("gap_end", "in_zone", "instant_of", "is_plain_day", "offset_at", "to_utc")

_SECOND = timedelta(seconds=1)


def offset_at(local: datetime, zone: tzinfo) -> timedelta:
    """The UTC offset at a naive local time; in a gap the one before it, of a repeated time the first (PEP 495)."""
    return zone.utcoffset(local.replace(tzinfo=zone)) or timedelta()


def to_utc(local: datetime, zone: tzinfo) -> datetime:
    """The instant of a naive local time by RFC 5545 section 3.3.5, which :func:`offset_at` follows."""
    return (local - offset_at(local, zone)).replace(tzinfo=timezone.utc)


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """The instant of a moment: as it is when aware, read in the zone when naive."""
    return to_utc(moment, zone) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def is_plain_day(day: date, zone: tzinfo) -> bool:
    """Whether the offset stays the same on that date, so that every local time of it exists once."""
    midnight = datetime(day.year, day.month, day.day)
    return offset_at(midnight, zone) == offset_at(midnight + timedelta(days=1), zone)


def instant_of(local: datetime, zone: tzinfo) -> datetime | None:
    """The instant of a naive local time, the first one when it is repeated; None when it does not exist."""
    instant = to_utc(local, zone)
    return instant if instant.astimezone(zone).replace(tzinfo=None) == local else None


def gap_end(local: datetime, zone: tzinfo) -> datetime:
    """The first instant after the gap that a naive local time falls into."""
    after = to_utc(local, zone)
    before = to_utc(local.replace(fold=1), zone)
    offset = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after
