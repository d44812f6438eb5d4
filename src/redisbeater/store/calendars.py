"""``CalendarKeys``: the calendars of a schedule in Redis, each read again only when it has changed."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from redisbeater.exceptions import StoreError
from redisbeater.schedules.calendar import MOST_DAYS, NAME, NO_CALENDARS, Calendar, Calendars, Days
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.keys import SEVERAL, Keys

#: How many calendars a schedule has at most: each beat keeps them all.
MOST_CALENDARS = 100

#: The fields of the key that lists calendars: the number of the newest change, and that by which all entries that name
#: a calendar were planned.
VERSION, PLANNED = ":version", ":planned"

#: What the fields with the days of earlier versions begin with; the version follows.
_BEFORE = "before:"


class KnownCalendars(NamedTuple):
    """The calendars as they were read last, and the number of the newest change then; empty: there is none."""

    version: str = ""
    by_name: Calendars = NO_CALENDARS


class Versions(NamedTuple):
    """The numbers of changes: the newest, the last by which all entries were planned, and that of each calendar."""

    newest: int
    planned: int
    of: Mapping[str, int]


class CalendarKeys:
    """The calendars of a schedule. Whoever reads entries tells it the number of the newest change."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        #: The calendars as this process knows them.
        self.known = KnownCalendars()

    def see(self, version: str) -> None:
        """Read the calendars that have changed, unless the newest change is the one that is known."""
        if version != self.known.version:
            self.refresh()

    def refresh(self) -> Calendars:
        """Read the calendars that have changed, and return all."""
        fields = self._fields(self._keys.calendars)
        named = {name: text for name, text in fields.items() if NAME.fullmatch(name)}
        known = self.known.by_name
        kept = {name: known[name] for name, text in named.items() if name in known and str(known[name].version) == text}
        for name in [name for name in named if name not in kept]:
            if (calendar := read_calendar(name, self._fields(self._keys.calendar(name)))) is not None:
                kept[name] = calendar
        self.known = KnownCalendars(fields.get(VERSION, ""), MappingProxyType(dict(sorted(kept.items()))))
        return self.known.by_name

    def versions(self) -> Versions:
        """Return the numbers of changes."""
        fields = self._fields(self._keys.calendars)
        numbers = {name: int(text) for name, text in fields.items() if text.isdecimal() and len(text) < 16}
        of = {name: number for name, number in numbers.items() if NAME.fullmatch(name)}
        return Versions(numbers.get(VERSION, 0), numbers.get(PLANNED, 0), of)

    def details(self, name: str) -> dict[str, str]:
        """Return the stored fields of a calendar: what it was made of, by whom and when; none if there is none."""
        return self._fields(self._keys.calendar(name))

    def days_by_version(self, name: str) -> dict[int, Days]:
        """Return the days of a calendar by its versions: of now, and those before as far as they are kept."""
        fields = self._fields(self._keys.calendar(name))
        texts = {field.removeprefix(_BEFORE): text for field, text in fields.items() if field.startswith(_BEFORE)}
        read = {number: _read_days(*text.split(" ")) for number, text in texts.items() if number.isdecimal()}
        if (own := read_calendar(name, fields)) is not None:
            read[str(own.version)] = own.days
        return {int(number): days for number, days in read.items() if days is not None}

    def write(self, calendar: Calendar, *, by: str, at: str) -> int:
        """Store a calendar, and return the number of that change.

        Raises:
            StoreError: there are too many.
        """
        days = calendar.days
        fields = {
            "first": days.first.isoformat(),
            "last": days.last.isoformat(),
            "days": encoded(days),
            "names": json.dumps(dict(calendar.names), ensure_ascii=False),
            "source": calendar.source,
            "by": by,
            "at": at,
        }
        return self._write(calendar.name, fields)

    def delete(self, name: str) -> int:
        """Delete a calendar, and return the number of that change."""
        return self._write(name, {})

    def finish(self, version: int) -> None:
        """Record that all entries that name a calendar are planned as of a change; drop the days before it."""
        key = self._keys.calendars
        self._connection.call(lambda client: client.hset(key, PLANNED, str(version)))
        for name, own in self.versions().of.items():
            calendar = self._keys.calendar(name)
            old = [field for field in self._fields(calendar) if field.startswith(_BEFORE)] if own <= version else []
            if old:
                self._connection.call(partial(_remove, calendar, old))

    def _write(self, name: str, fields: Mapping[str, str]) -> int:
        keys = [self._keys.calendars, self._keys.calendar(name)]
        terms = [name, json.dumps(fields, ensure_ascii=False), str(MOST_CALENDARS), self._keys.changes, SEVERAL]
        reply = self._connection.run("write_calendar", keys, terms)
        if reply == "FULL":
            raise StoreError(f"there are {MOST_CALENDARS} calendars; delete one first (calendar delete)")
        self.refresh()
        return int(reply)

    def _fields(self, key: str) -> dict[str, str]:
        found: dict[str, str] | None = unless_wrong_type(self._connection, lambda client: client.hgetall(key))
        return found or {}


def _remove(key: str, fields: Sequence[str], client: Any) -> None:
    client.hdel(key, *fields)


def encoded(days: Days) -> str:
    """Return days as they are stored: a bit each, the first in the lowest bit of the first byte; base64."""
    return base64.b64encode(days.bits.to_bytes((days.length + 7) // 8, "little")).decode()


def read_calendar(name: str, fields: Mapping[str, str]) -> Calendar | None:
    """Return a calendar of what is stored; None if another program has written what is none."""
    days = _read_days(fields.get("first", ""), fields.get("last", ""), fields.get("days", ""))
    version = fields.get("version", "")
    if days is None or not version.isdecimal() or len(version) > 15:
        return None
    names: Any = {}
    with suppress(ValueError, RecursionError):
        names = json.loads(fields.get("names", "{}"))
    names = {str(day): str(text) for day, text in names.items()} if isinstance(names, dict) else {}
    return Calendar(name=name, days=days, names=names, version=int(version), source=fields.get("source", ""))


def _read_days(first: str = "", last: str = "", text: str = "", *_: Sequence[str]) -> Days | None:
    try:
        begin, end = date.fromisoformat(first), date.fromisoformat(last)
        bits = int.from_bytes(base64.b64decode(text, validate=True), "little")
    except (ValueError, binascii.Error):
        return None
    length = (end - begin) // timedelta(days=1) + 1
    return Days(begin, length, bits & ((1 << length) - 1)) if 0 < length <= MOST_DAYS else None
