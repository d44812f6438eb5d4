"""The calendars of a schedule: listed, stored, deleted; and what a new one changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from redisbeater.context import Context
from redisbeater.display import did_you_mean, shown
from redisbeater.editing.calendar_users import users_of
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import EditConflict, InvalidEntry
from redisbeater.log_lines import get_logger
from redisbeater.management.long_read import long_read
from redisbeater.management.simulation import read_stored
from redisbeater.model import json_text
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.calendar import Calendar, Calendars, Days, check_calendar_name
from redisbeater.schedules.kinds import kind_of

logger = get_logger(__name__)

#: Fire times of one entry that are compared: more are counted as "at least".
MOST_COMPARED = 2_000

#: Engine steps that the fire times of one entry may take.
_STEPS = 1_000_000

#: How many different schedules are compared: each takes some 50 ms.
MOST_SCHEDULES = 500

#: How many names of entries an error shows.
_SHOWN = 5

_DAY = timedelta(days=1)

#: How far runs are compared.
YEAR = timedelta(days=365)


@dataclass(frozen=True, kw_only=True)
class StoredCalendar:
    """A calendar as it is stored.

    Attributes:
        by, at: who has stored it, and when; empty where another program has.
        users: the names of the entries that name it, in order.
    """

    calendar: Calendar
    by: str
    at: str
    users: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            **self.calendar.as_dict(),
            "by": self.by,
            "at": self.at,
            "version": self.calendar.version,
            "entries": list(self.users),
        }


@dataclass(frozen=True, kw_only=True)
class MovedRuns:
    """How a calendar changes the runs of one entry within a year: which fall away and are added, in its zone.

    ``is_at_least``: it has too many runs to compare them all.
    """

    name: str
    away: tuple[datetime, ...]
    added: tuple[datetime, ...]
    is_at_least: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        away, added = ([each.isoformat() for each in times] for times in (self.away, self.added))
        return {"name": self.name, "away": away, "added": added, "is_at_least": self.is_at_least}


@dataclass(frozen=True, kw_only=True)
class CalendarPreview:
    """What storing a calendar changes.

    Attributes:
        before: the calendar that is stored; None: there is none.
        days: the days that count now and did not, or the other way round, of those that both cover.
        moved: the entries of which runs change.
        others: how many entries were not compared, because too many have schedules of their own.
    """

    calendar: Calendar
    before: Calendar | None
    days: tuple[date, ...]
    moved: tuple[MovedRuns, ...]
    others: int = 0


@long_read
def list_calendars(context: Context) -> list[StoredCalendar]:
    """Return all calendars, by name."""
    calendars = context.redis.calendars.refresh()
    users = users_of(context, list(calendars))
    return [_stored(context, calendar, users[name]) for name, calendar in calendars.items()]


@long_read
def read_calendar(context: Context, name: str) -> StoredCalendar:
    """Return a calendar.

    Raises:
        InvalidEntry: there is none of that name.
    """
    calendar = _known(context, name)
    return _stored(context, calendar, users_of(context, [name])[name])


@long_read
def preview_calendar(context: Context, calendar: Calendar, *, with_runs: bool = True) -> CalendarPreview:
    """Return the changes that storing a calendar would make; write nothing. Comparing runs takes long."""
    calendars = context.redis.calendars.refresh()
    before = calendars.get(calendar.name)
    after = {**calendars, calendar.name: replace(calendar, version=-1)}
    names = users_of(context, [calendar.name])[calendar.name] if with_runs else ()
    known: dict[tuple[object, ...], MovedRuns] = {}
    found, others = list[MovedRuns](), 0
    for stored in read_stored(context, names):
        group = _group(context, stored)
        if group not in known and len(known) >= MOST_SCHEDULES:
            others += 1
            continue
        if group not in known:
            known[group] = _moved(context, stored, after)
        found.append(replace(known[group], name=stored.definition.name))
    return CalendarPreview(
        calendar=calendar,
        before=before,
        days=() if before is None else tuple(_differing(before.days, calendar.days)),
        moved=tuple(each for each in found if each.away or each.added),
        others=others,
    )


def store_calendar(context: Context, calendar: Calendar, author: Author) -> bool:
    """Store a calendar; beat plans the entries that name it again. Return whether it was another one before."""
    now, _ = context.redis.clock()
    before = context.redis.calendars.refresh().get(calendar.name)
    if before is not None and (before.days, before.names) == (calendar.days, calendar.names):
        return False
    version = context.redis.calendars.write(calendar, by=author.by, at=now.isoformat(timespec="seconds"))
    logger.info("calendar %s stored: %s to %s", calendar.name, calendar.days.first, calendar.days.last)
    details: dict[str, Any] = {"name": calendar.name, "source": calendar.source, "version": version}
    context.redis.log.add("calendar_stored", by=author.by, note=author.note, **details)
    return True


def delete_calendar(context: Context, name: str, author: Author) -> None:
    """Delete a calendar that no entry names.

    Raises:
        InvalidEntry: there is none of that name.
        EditConflict: entries name it.
    """
    _known(context, name)
    if users := users_of(context, [name])[name]:
        first = ", ".join(map(shown, users[:_SHOWN]))
        more = f" and {len(users) - _SHOWN:,} more" if len(users) > _SHOWN else ""
        raise EditConflict(f"entries name the calendar {name}: {first}{more}; change or delete them first")
    context.redis.calendars.delete(name)
    logger.info("calendar %s deleted", name)
    context.redis.log.add("calendar_deleted", name=name, by=author.by, note=author.note)


def _known(context: Context, name: str) -> Calendar:
    check_calendar_name(name, "$.name")
    calendars = context.redis.calendars.refresh()
    if name not in calendars:
        known = f"; known are {', '.join(calendars)}" if calendars else "; none is stored"
        raise InvalidEntry("$.name", f"there is no calendar {name!r}{did_you_mean(name, calendars) or known}")
    return calendars[name]


def _stored(context: Context, calendar: Calendar, users: tuple[str, ...]) -> StoredCalendar:
    fields = context.redis.calendars.details(calendar.name)
    return StoredCalendar(calendar=calendar, by=fields.get("by", ""), at=fields.get("at", ""), users=users)


def _differing(before: Days, after: Days) -> Iterator[date]:
    first, last = max(before.first, after.first), min(before.last, after.last)
    for number in range((last - first).days + 1):
        day = first + number * _DAY
        if before.counts(day) != after.counts(day):
            yield day


def _group(context: Context, stored: StoredEntry) -> tuple[object, ...]:
    """Return a key that entries with the same fire times share."""
    definition = stored.definition
    own = definition.name if kind_of(definition.schedule).depends_on_entry(definition.schedule) else ""
    bounds = (definition.start_at, definition.end_at, definition.disabled_until, definition.skip, definition.enabled)
    return (own, json_text.to_text(context.codec.encode(definition.schedule)), definition.timezone, bounds)


def _moved(context: Context, stored: StoredEntry, after: Calendars) -> MovedRuns:
    defaults = context.in_zone(stored.zone).defaults
    old = _fire_times(stored, defaults)
    new = _fire_times(stored, replace(defaults, calendars=after))
    is_at_least = max(len(old), len(new)) >= MOST_COMPARED
    if is_at_least:  # only as far as both are known
        until = min(each[-1] for each in (old, new) if len(each) >= MOST_COMPARED)
        old, new = ([each for each in times if each <= until] for times in (old, new))
    zone = stored.definition.zone(defaults.zone)
    away, added = (
        tuple(each.astimezone(zone) for each in sorted(set(one) - set(other)))
        for one, other in ((old, new), (new, old))
    )
    return MovedRuns(name=stored.definition.name, away=away, added=added, is_at_least=is_at_least)


def _fire_times(stored: StoredEntry, defaults: Defaults) -> list[datetime]:
    """Return the fire times of the next year; none of an entry that is disabled, or whose calendar is missing."""
    policy, found = ResolvedPolicy.of(stored.definition, defaults).afresh(_STEPS), list[datetime]()
    if not stored.definition.enabled:
        return found
    with suppress(InvalidEntry, OverflowError):
        times = policy.kept_from(policy.timetable.next(stored.now))
        found.extend(takewhile(lambda each: each < stored.now + YEAR, islice(times, MOST_COMPARED)))
    return found
