"""Time zones: the IANA zone that is meant by a name, or by a zone object of another library."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any
from zoneinfo import TZPATH, ZoneInfo, available_timezones

from dateutil import tz

from redisbeater.display import did_you_mean, quoted
from redisbeater.exceptions import InvalidEntry

__all__ = ("in_iana_zone", "read_zone", "zone_name", "zone_names")

_EXAMPLE = "an IANA name such as 'Europe/Vienna'"

#: Files that are no zones of the IANA, and what each of them is.
_NO_ZONES = {
    "localtime": "is the local zone of whichever host reads it",
    "local": "is the local zone of whichever host reads it",
    "posixrules": "is not a zone but the default rules of a host",
    "Factory": "is not a zone but the mark of a host without one",
}

#: The directory of the IANA's zones with leap seconds, in which no clock of ours counts; and of those without.
_LEAP_SECONDS, _NO_LEAP_SECONDS = "right/", "posix/"

#: The regions of the IANA's names; those without one, such as ``US/Eastern`` or ``EST``, are kept for old programs.
_REGIONS = frozenset(
    {"Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"}
)

#: Characters of a name at most for which a similar one is looked for: none is longer than 40.
_LONGEST_NAME = 60

#: How similar a name must be, from 0 to 1: 'Europe/Wien' is meant for 'Europe/Vienna'.
_SIMILAR = 0.75

#: The IANA has zones for these whole hours of offset: Etc/GMT-14 is 14 hours ahead of UTC.
_OFFSET_HOURS = range(-12, 15)


def read_zone(given: Any, path: str) -> tzinfo:
    """Return the IANA zone that is meant by its name, or by a zone object of zoneinfo, pytz or dateutil.

    Raises:
        InvalidEntry: there is no such zone, or hosts differ about it; the message says what to write.
    """
    name = given if isinstance(given, str) else _name_of(given)
    if name == "UTC":
        return timezone.utc
    if name is None:
        raise InvalidEntry(path, _without_name(given))
    name = name.removeprefix(_NO_LEAP_SECONDS)
    if name in _NO_ZONES:
        raise InvalidEntry(path, f"{quoted(name)} {_NO_ZONES[name]}; expected {_EXAMPLE}")
    if name.startswith(_LEAP_SECONDS):
        plain = name.removeprefix(_LEAP_SECONDS)
        raise InvalidEntry(path, f"{quoted(name)} counts leap seconds, which no clock here does; write {quoted(plain)}")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError) as exc:
        raise InvalidEntry(path, f"unknown time zone {quoted(given)}; expected {_EXAMPLE}{_similar(name)}") from exc


@cache
def zone_names() -> tuple[str, ...]:
    """Return the names of zones to choose from, in order: those with a region, and ``UTC``."""
    names = {name for name in available_timezones() if name.partition("/")[0] in _REGIONS}
    return tuple(sorted(names | {"UTC"}))


def _similar(name: Any) -> str:
    """Return ``; did you mean 'Europe/Vienna'?`` for a name with a mistake, or for a city without its region."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return ""
    word = name.strip().replace(" ", "_").casefold()
    cities = [zone for zone in zone_names() if zone.rpartition("/")[2].casefold() == word]
    return did_you_mean(name, cities or zone_names(), cutoff=0.0 if cities else _SIMILAR)


def zone_name(zone: tzinfo | None) -> str | None:
    """Return the IANA name of a zone; None for a fixed offset, and for a zone that has none."""
    if zone is timezone.utc:
        return "UTC"
    try:
        found = None if zone is None else read_zone(zone, "$")
    except InvalidEntry:
        return None
    return "UTC" if found is timezone.utc else getattr(found, "key", None)


def in_iana_zone(moment: datetime, path: str) -> datetime:
    """Return the same instant and local time, with the IANA zone that is meant by the zone of the moment.

    One with a fixed offset gets Python's own, and a naive one stays as it is.

    Raises:
        InvalidEntry: its zone means none, or does not have the offset of the moment then.
    """
    zone, offset = moment.tzinfo, moment.utcoffset()
    if zone is None or offset is None or type(zone) is timezone:
        return moment
    if _name_of(zone) is None and _fixed_offset(zone) is not None:
        return moment.replace(tzinfo=timezone(offset))
    iana = read_zone(zone, path)
    for fold in (moment.fold, 1 - moment.fold):  # pytz tells the passes of a repeated hour apart by their zones
        found = moment.replace(tzinfo=iana, fold=fold)
        if found.utcoffset() == offset:
            return found
    name = zone_name(iana)
    problem = f"{quoted(zone)} has the offset {timezone(offset)}, which {name} does not have at {moment:%Y-%m-%d %H:%M}"
    raise InvalidEntry(path, f"{problem}; pass tzinfo=ZoneInfo({name!r}), or with pytz zone.localize(...)")


def _name_of(zone: Any) -> str | None:
    """Return the name of a zone as its library gives it; None if it has none."""
    if not isinstance(zone, tzinfo):
        return None
    if isinstance(zone, tz.tzlocal):
        return "localtime"
    if isinstance(zone, tz.tzfile):
        return _name_of_file(str(getattr(zone, "_filename", "")))
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # of zoneinfo, of pytz
    if isinstance(name, str):
        return name
    return "UTC" if _fixed_offset(zone) == timedelta() else None


def _fixed_offset(zone: tzinfo) -> timedelta | None:
    """Return the offset of a zone that has only one; None for any other."""
    try:
        return zone.utcoffset(None)
    except Exception:  # anybody's class, which may not know that it can be asked without a time
        return None


def _name_of_file(path: str) -> str | None:
    """Return the name of the zone in a file of dateutil; that of a file in its own archive is a name already."""
    for folder in (*TZPATH, *tz.tz.TZPATHS, "/etc"):
        if path.startswith(f"{folder}/"):
            return path.removeprefix(f"{folder}/")
    return path if path and not path.startswith("/") else None


def _without_name(given: Any) -> str:
    """Return why an object that has no name is refused, and what to write instead."""
    if not isinstance(given, tzinfo):
        return f"unknown time zone {quoted(given)}; expected {_EXAMPLE}"
    offset = _fixed_offset(given)
    if offset is None:
        return f"the time zone {quoted(given)} has no name; expected {_EXAMPLE}"
    hours, odd = divmod(offset, timedelta(hours=1))
    fixed = f"'Etc/GMT{-hours:+d}' for {timezone(offset)} all year, or " if not odd and hours in _OFFSET_HOURS else ""
    return f"{quoted(given)} is a fixed offset, not a time zone; expected {fixed}{_EXAMPLE}"
