"""Datetimes as RedBeat stores them: objects of their parts, with an IANA zone or an offset in seconds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.zone import read_zone, zone_name

__all__ = ("decode_datetime", "encode_datetime", "read_zone", "zone_name")


def encode_datetime(moment: datetime) -> dict[str, Any]:
    """Return the stored form of a datetime; a naive one has no ``timezone``."""
    parts: dict[str, Any] = {
        "__type__": "datetime",
        "year": moment.year,
        "month": moment.month,
        "day": moment.day,
        "hour": moment.hour,
        "minute": moment.minute,
        "second": moment.second,
        "microsecond": moment.microsecond,
    }
    offset = moment.utcoffset()
    if offset is not None:
        parts["timezone"] = zone_name(moment.tzinfo) or offset.total_seconds()
    if moment.fold:
        parts["fold"] = moment.fold
    return parts


def decode_datetime(data: Any, path: str, default_zone: tzinfo | None = timezone.utc) -> datetime:
    """Return the datetime of a stored form; without a ``timezone``, it is in the default zone, or naive for None.

    Raises:
        InvalidEntry: it is not such an object, or no such date exists.
    """
    if not isinstance(data, dict) or data.get("__type__") != "datetime":
        raise InvalidEntry(path, f"expected an object with __type__ 'datetime', got {quoted(data)}")
    parts = dict(data)
    del parts["__type__"]
    zone = parts.pop("timezone", None)
    try:
        return datetime(**parts, tzinfo=_zone(zone, path, default_zone))
    except InvalidEntry:
        raise
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidEntry(path, text_of(exc)) from exc


def _zone(zone: Any, path: str, default: tzinfo | None) -> tzinfo | None:
    if zone is None:
        return default
    if isinstance(zone, (int, float)):
        return timezone(timedelta(seconds=zone)) if zone else timezone.utc
    return read_zone(zone, f"{path}.timezone")
