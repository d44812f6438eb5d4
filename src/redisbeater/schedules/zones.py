"""Time zones: their names, local times and datetimes as they are stored.

The code reads only :meth:`~datetime.datetime.utcoffset`, never ``dst()``: a shift may be 30 minutes or two hours, and
"summer" time may be the standard one (Europe/Dublin). The shifts of a zone are days apart (since 1970: a week or more).
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any
from zoneinfo import TZPATH, ZoneInfo, available_timezones

from dateutil import tz

from redisbeater.display import did_you_mean, quoted, text_of
from redisbeater.exceptions import InvalidEntry

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

#: Names that a message about a part of several has at most.
_MOST_NAMES = 5

#: A fixed offset, which is no zone: ``UTC+1``, ``GMT-05:00``, ``+02:00``.
_OFFSET = re.compile(
    r"(?:UTC|GMT)?\s*(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?", re.ASCII | re.IGNORECASE
)

#: The IANA has zones for these whole hours of offset: Etc/GMT-14 is 14 hours ahead of UTC.
_OFFSET_HOURS = range(-12, 15)


#: The zones by other rules than those of this host, while entries are read as another beat has planned them.
_OTHERS: ContextVar[Mapping[str, tzinfo]] = ContextVar("others", default=MappingProxyType({}))


@contextmanager
def by_rules(zones: Mapping[str, tzinfo]) -> Iterator[None]:
    """Let these zones count in place of those of this host, by their names, until the block ends."""
    token = _OTHERS.set(zones)
    try:
        yield
    finally:
        _OTHERS.reset(token)


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
        return _OTHERS.get().get(name) or ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError) as exc:
        raise InvalidEntry(path, f"unknown time zone {quoted(given)}; expected {_EXAMPLE}{_similar(name)}") from exc


@cache
def zone_names() -> tuple[str, ...]:
    """Return the names of zones to choose from, in order: those with a region, and ``UTC``."""
    names = {name for name in available_timezones() if name.partition("/")[0] in _REGIONS}
    return tuple(sorted(names | {"UTC"}))


def zone_meant(text: str, path: str) -> str:
    """Return the name of the zone that a person means by its name, or by a part that no other name has.

    Raises:
        InvalidEntry: there is no such zone, or there are several; the message names them.
    """
    try:
        read_zone(text, path)
    except InvalidEntry:
        word = text.strip().replace(" ", "_").casefold()
        names = [zone for zone in zone_names() if word and word in zone.casefold()]
        names = [zone for zone in names if zone.rpartition("/")[2].casefold() == word] or names
        if not names:
            raise
        if len(names) > 1:
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            which = f"{', '.join(names[:_MOST_NAMES])}{more}"
            raise InvalidEntry(path, f"{quoted(text)} is a part of {which}; write more of the name") from None
        return names[0]
    return text


def _similar(name: Any) -> str:
    """Return ``; did you mean 'Europe/Vienna'?`` for a name with a mistake, or for a city without its region."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return ""
    if fixed := _OFFSET.fullmatch(name.strip()):
        hours = int(fixed["hours"]) * (-1 if fixed["sign"] == "+" else 1)  # Etc/GMT-1 is an hour ahead of UTC
        is_known = fixed["minutes"] in (None, "00") and -hours in _OFFSET_HOURS
        return f", or for {name.strip()} all year 'Etc/GMT{hours:+d}'" if is_known else ""
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


_ZONED = re.compile(r"(?P<local>[^\[\]]+)\[(?P<zone>[^\[\]]+)\]")


def moment_text(stored: Any) -> Any:
    """Return the text of a stored datetime: ``2026-11-23T09:00:00+01:00[Europe/Vienna]``.

    A naive one has neither offset nor zone. What is no datetime, or would be read otherwise, is returned unchanged.
    """
    if not isinstance(stored, Mapping):
        return stored
    try:
        moment = decode_datetime(dict(stored), "$", None)
        zone = stored.get("timezone")
        text = moment.isoformat() + (f"[{zone}]" if isinstance(zone, str) and zone != "UTC" else "")
        return text if encode_datetime(moment_of(text, "$")) == stored else stored
    except InvalidEntry:
        return stored


def moment_of(value: Any, path: str) -> Any:
    """Return the datetime of a text in the form of ISO 8601, perhaps with a zone; return anything else unchanged.

    Raises:
        InvalidEntry: the text is no such time, or its zone has another offset then.
    """
    if not isinstance(value, str):
        return value
    zoned = _ZONED.fullmatch(value)
    text = zoned["local"] if zoned else value
    text = f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidEntry(path, f"{quoted(value)}: expected a time such as 2026-11-23T09:00") from exc
    return _in_named_zone(moment, zoned["zone"], path) if zoned else moment


def _in_named_zone(moment: datetime, name: str, path: str) -> datetime:
    """Return a time with its zone; the offset in its text tells the two passes of a repeated hour apart.

    Raises:
        InvalidEntry: there is no such zone, or its offset is another one then.
    """
    zone, offset = read_zone(name, path), moment.utcoffset()
    passes = [moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    for local in passes:
        if offset in (None, local.utcoffset()):
            return local
    raise InvalidEntry(path, f"{name} has another offset then: write {passes[0].isoformat()}[{name}]")


def _zone(zone: Any, path: str, default: tzinfo | None) -> tzinfo | None:
    if zone is None:
        return default
    if isinstance(zone, (int, float)):
        return timezone(timedelta(seconds=zone)) if zone else timezone.utc
    return read_zone(zone, f"{path}.timezone")


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


def skipped_text(moment: datetime) -> str:
    """Return the text about a local time that the clock of its zone skips; empty for one that exists."""
    if not is_in_gap(moment):
        return ""
    meant = in_zone(moment, timezone.utc).astimezone(moment.tzinfo)
    zone = zone_name(moment.tzinfo) or moment.tzinfo
    return f"{moment:%H:%M} does not exist on {moment:%Y-%m-%d} in {zone}, so {meant:%H:%M} counts"


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


#: What to do about hosts with different rules.
SAME_RULES = (
    "install one version of the package tzdata for all processes and set PYTHONTZPATH='' for them, or update the zone "
    "data of their systems, then restart them"
)

#: For how many years the rules of a zone are compared, from the first of January of the current one on.
YEARS = 4


@dataclass(frozen=True, kw_only=True)
class ZoneRules:
    """The UTC offsets of a zone in some years, by the zone data of one host.

    Attributes:
        offsets: the UNIX seconds from which an offset counts, and its seconds, in order; the first begin the years.
        until: the UNIX seconds at which the years end.
        beat: host and process of who recorded them.
    """

    offsets: tuple[tuple[int, int], ...]
    until: int
    beat: str = field(default="", compare=False)

    @classmethod
    def from_text(cls, text: str) -> ZoneRules | None:
        """Return stored rules, or None if another program has written something else there."""
        try:
            stored = json.loads(text)
            offsets = tuple((int(at), int(seconds)) for at, seconds in stored["offsets"])
            found = cls(offsets=offsets, until=int(stored["until"]), beat=str(stored["beat"]))
            found.zone("UTC")
            _ = [timezone(timedelta(seconds=seconds)) for _, seconds in offsets]  # less than a day
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, struct.error):
            return None
        return found

    @property
    def text(self) -> str:
        """The JSON that is stored."""
        return json.dumps({"id": self.id, "offsets": self.offsets, "until": self.until, "beat": self.beat})

    @property
    def id(self) -> str:
        """What marks the entries that were planned by these rules: equal rules have equal ids."""
        return hashlib.sha1(repr((self.offsets, self.until)).encode(), usedforsecurity=False).hexdigest()[:8]

    def agrees_with(self, other: ZoneRules) -> bool:
        """Tell whether both have the same offsets in the years that both are about."""
        start, end = max(self.offsets[0][0], other.offsets[0][0]), min(self.until, other.until)
        return self._between(start, end) == other._between(start, end)

    def zone(self, name: str) -> ZoneInfo:
        """Return the zone of that name by these rules; before and after their years it keeps one offset."""
        kinds = list(dict.fromkeys(seconds for _, seconds in self.offsets))
        shifts = self.offsets[1:]
        head = struct.Struct(">4sc15x6l")  # a TZif file of RFC 8536
        data = [head.pack(b"TZif", b"2", *[0] * 6), head.pack(b"TZif", b"2", 0, 0, 0, len(shifts), len(kinds), 4)]
        data += (struct.pack(">q", at) for at, _ in shifts)
        data += (struct.pack("B", kinds.index(seconds)) for _, seconds in shifts)
        data += (struct.pack(">lBB", seconds, 0, 0) for seconds in kinds)
        return ZoneInfo.from_file(io.BytesIO(b"".join([*data, b"LMT\0\n\n"])), key=name)

    def _between(self, start: int, end: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for at, seconds in self.offsets:
            if at <= start:
                found = [(start, seconds)]
            elif at < end and found[-1][1] != seconds:
                found.append((at, seconds))
        return found if start < end else []


@lru_cache(maxsize=1_000)
def rules_of(zone: tzinfo, year: int) -> ZoneRules:
    """Return the rules of a zone by the data of this host, from the first of January of a year on."""
    start, end = (datetime(each, 1, 1, tzinfo=timezone.utc) for each in (year, year + YEARS))
    offsets = [
        (start, offset_during(start, zone)),
        *((each.at, each.after) for each in shifts_between(start, end, zone)),
    ]
    return ZoneRules(
        offsets=tuple((int(at.timestamp()), int(offset.total_seconds())) for at, offset in offsets),
        until=int(end.timestamp()),
    )


class PlannedBy:
    """By which rules this program has planned the entries that it writes at one time.

    Arguments:
        year: the current one.
        program: host and process of this program.
        zone: the zone of entries without their own, to be stored if none is.
        is_beat: whether a beat plans entries again: nobody has to look at them after that.
    """

    def __init__(self, year: int, program: str = "", zone: str = "", *, is_beat: bool = False) -> None:
        self._year, self._program, self._zone, self._is_beat = year, program, zone, is_beat
        self._rules: dict[str, ZoneRules] = {}

    def marks(self, names: Iterable[str]) -> tuple[str, str]:
        """Return these zones, and the ids of their rules here, as an entry keeps them."""
        zones = sorted(names)
        for name in zones:
            if name not in self._rules:
                rules = rules_of(read_zone(name, "timezone"), self._year)
                self._rules[name] = replace(rules, beat=self._program)
        return " ".join(zones), " ".join(self._rules[name].id for name in zones)

    @property
    def text(self) -> str:
        """The JSON that the script takes."""
        rules = {name: {"id": each.id, "text": each.text} for name, each in self._rules.items()}
        return json.dumps({"zone": self._zone, "is_beat": self._is_beat, "rules": rules})
