"""The entries that name a calendar, found by a walk through all entries: other programs would keep no index of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from redisbeater.context import Context
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.english import date_text

#: From how long before its end on a calendar is named as one that ends.
ENDS_SOON = timedelta(days=60)


class EndingCalendar(NamedTuple):
    """A calendar that has ended or ends soon, and how many entries name it."""

    name: str
    sentence: str


def search_terms(names: Iterable[str]) -> Mapping[str, Any]:
    """Return the terms by which ``Contents.found_names()`` finds entries that may name one of some calendars."""
    return {"fields": {"schedule": {"__type__": "limited"}}, "parts": [sorted(names)]}


def users_of(context: Context, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the entries that name each of some calendars, in order; of all entries that can be read."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for page in context.redis.contents.found_names(search_terms(found), "") if found else ():
        for snapshot in context.redis.load_many([name for name, _ in page]):
            with suppress(InvalidEntry):
                if snapshot.exists and not snapshot.oversized_bytes:
                    definition, _ = context.reader.read(snapshot.name, snapshot.definition)
                    for name in found.keys() & set(definition.calendars):
                        found[name].add(snapshot.name)
    return {name: tuple(sorted(users)) for name, users in found.items()}


def ending_calendars(context: Context, now: datetime) -> Iterator[EndingCalendar]:
    """Yield the calendars that entries name and that have ended, or end within 60 days."""
    calendars, today = context.redis.calendars.refresh(), now.date()
    ending = [name for name, calendar in calendars.items() if calendar.days.last - today < ENDS_SOON]
    for name, users in users_of(context, ending).items():
        last = calendars[name].days.last
        verb = "has ended" if last < today else "ends"
        entries = "1 entry names" if len(users) == 1 else f"{len(users):,} entries name"
        if users:
            text = f"calendar {name} {verb} on {date_text(last)}, and {entries} it: import more years of it"
            yield EndingCalendar(name, text)
