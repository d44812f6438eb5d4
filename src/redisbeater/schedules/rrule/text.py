"""RFC 5545 text: lines of DTSTART, RRULE, RDATE and EXDATE, or a single rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime, time, tzinfo
from typing import Any

from redisbeater.schedules.datetime_codec import read_zone, zone_name
from redisbeater.schedules.local_time import in_zone, to_utc
from redisbeater.schedules.rrule.clock import RuleClock
from redisbeater.schedules.rrule.recurrence import Recurrence
from redisbeater.schedules.rrule.rule import make_rule
from redisbeater.schedules.rrule.rule_text import read_rule, rfc_name, write_rule
from redisbeater.schedules.rrule.time_text import local_text, read_time, utc_text

__all__ = ("RecurrenceText", "is_text", "read_text", "write_text")

_FOLD = re.compile(r"\r?\n[ \t]")


@dataclass(kw_only=True)
class RecurrenceText:
    """The parsed lines of a text; a time is aware, naive if the text has no zone, and a date if it has no time."""

    dtstart: list[datetime | date] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    rdates: list[datetime | date] = field(default_factory=list)
    exdates: list[datetime | date] = field(default_factory=list)

    @property
    def start(self) -> datetime | None:
        """DTSTART, where a date means its midnight; None when the text has none."""
        return _midnight(self.dtstart[0]) if self.dtstart else None

    def recurrence(self, clock: RuleClock) -> Recurrence:
        """Return the recurrence if its local times are those of a clock.

        Raises:
            ValueError: the value of a part is not valid; the message starts with its name.
        """
        zone = clock.zone
        return Recurrence(
            clock=clock,
            rules=tuple(make_rule(clock, _end(parts.get("until"), zone), parts, rfc_name) for parts in self.rules),
            rdates=_sorted(_local("RDATE", moment, zone) for moment in self.rdates),
            exdates=frozenset(_instant("EXDATE", _timed(moment, clock), zone) for moment in self.exdates),
        )


def is_text(value: object) -> bool:
    """Tell whether a value is RFC 5545 text, and not the name of a frequency."""
    return isinstance(value, str) and ("=" in value or ":" in value)


def read_text(text: str) -> RecurrenceText:
    """Parse the lines of a text, which may be folded.

    Raises:
        ValueError: a line is unknown or cannot be read; the message starts with its name, or with that of the part.
    """
    parsed = RecurrenceText()
    for line in _FOLD.sub("", text).splitlines():
        if line.strip():
            _read_line(line.strip(), parsed)
    if len(parsed.dtstart) > 1:
        raise ValueError("DTSTART: is given twice; further dates are RDATE")
    if not parsed.rules and not parsed.rdates:
        raise ValueError("RRULE: is missing; expected a line such as RRULE:FREQ=MONTHLY;BYDAY=1MO")
    return parsed


def write_text(recurrence: Recurrence) -> str:
    """Return the normal form: a line for DTSTART, each RRULE, RDATE and EXDATE, in local times of the zone.

    Only UTC can express the second pass of a repeated hour, so what is in it stands in UTC.
    """
    zone = recurrence.clock.zone
    start = recurrence.clock.start.replace(tzinfo=None)
    excluded = [instant.astimezone(zone).replace(tzinfo=None) for instant in sorted(recurrence.exdates)]
    lines = [
        *_lines("DTSTART", [start], zone),
        *(
            f"RRULE:{write_rule(rule, None if rule.until is None else utc_text(rule.until))}"
            for rule in recurrence.rules
        ),
        *_lines("RDATE", recurrence.rdates, zone),
        *_lines("EXDATE", excluded, zone),
    ]
    return "\n".join(lines)


def _read_line(line: str, parsed: RecurrenceText) -> None:
    head, colon, value = line.partition(":")
    if not colon:
        head, value = "RRULE", line
    name, *parameters = head.split(";")
    name = name.upper()
    if name == "RRULE" and not parameters:
        parsed.rules.append(read_rule(value))
    elif name in ("DTSTART", "RDATE", "EXDATE"):
        zone = _read_zone(name, parameters)
        times = {"DTSTART": parsed.dtstart, "RDATE": parsed.rdates, "EXDATE": parsed.exdates}[name]
        times.extend(read_time(name, text, zone) for text in value.split(","))
    elif name == "EXRULE":
        raise ValueError(
            "EXRULE: RFC 5545 does not have it any more; list the dates: EXDATE:20260101T090000,20260102T090000"
        )
    else:
        raise ValueError(f"{head}: unknown line; expected DTSTART, RRULE, RDATE or EXDATE")


def _read_zone(name: str, parameters: Iterable[str]) -> tzinfo | None:
    zone = None
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.upper() == "TZID":
            zone = read_zone(value.strip('"'), name)
        elif parameter.upper() not in ("VALUE=DATE", "VALUE=DATE-TIME"):
            raise ValueError(f"{name}: unknown parameter {parameter!r}; expected TZID=Europe/Vienna or VALUE=DATE-TIME")
    return zone


def _midnight(moment: datetime | date) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time())


def _timed(moment: datetime | date, clock: RuleClock) -> datetime | date:
    """Refuse a date without a time if the rule has one: it would exclude nothing, and nobody would notice."""
    if not isinstance(moment, datetime) and clock.local_start.time() != time():
        expected = f"expected a time such as {moment:%Y%m%d}T{clock.local_start:%H%M%S}"
        raise ValueError(f"EXDATE: {expected}, got {moment:%Y%m%d}")
    return moment


def _end(until: datetime | date | None, zone: tzinfo) -> datetime | None:
    """Return UNTIL as an instant; None, endless, when it is in the last year of the calendar."""
    return None if until is None or until.year == MAXYEAR else _instant("UNTIL", until, zone)


def _instant(label: str, moment: datetime | date, zone: tzinfo) -> datetime:
    """Return the instant of a time, whose year must be one that local times of any zone can have."""
    if not 1 < moment.year < MAXYEAR:
        raise ValueError(f"{label}: expected a year from 2 to {MAXYEAR - 1}, got {moment.year}")
    return in_zone(_midnight(moment), zone)


def _local(label: str, moment: datetime | date, zone: tzinfo) -> datetime:
    if not 1 < moment.year < MAXYEAR:
        raise ValueError(f"{label}: expected a year from 2 to {MAXYEAR - 1}, got {moment.year}")
    at = _midnight(moment)
    return (at if at.tzinfo is None else at.astimezone(zone)).replace(tzinfo=None)


def _sorted(times: Iterable[datetime]) -> tuple[datetime, ...]:
    return tuple(sorted({(moment, moment.fold): moment for moment in times}.values(), key=lambda at: (at, at.fold)))


def _lines(name: str, times: Iterable[datetime], zone: tzinfo) -> Iterator[str]:
    """Yield a line for the local times of a zone, and one in UTC for those in a second pass."""
    key = zone_name(zone)
    suffix, parameter = ("Z", "") if key == "UTC" else ("", f";TZID={key}" if key else "")
    times = list(times)
    if first := [local_text(moment) + suffix for moment in times if not moment.fold]:
        yield f"{name}{parameter}:{','.join(first)}"
    if second := [utc_text(to_utc(moment, zone)) for moment in times if moment.fold]:
        yield f"{name}:{','.join(second)}"
