"""RFC 5545 text: lines of DTSTART, RRULE, RDATE and EXDATE, or a single rule."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime, time, tzinfo
from typing import Any

from redisbeater.schedules.datetime_codec import read_zone, zone_name
from redisbeater.schedules.local_time import to_utc
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

    def recurrence(self, start: datetime, zone: tzinfo) -> Recurrence:
        """Return the recurrence if it starts at a naive local time of the zone.

        Raises:
            ValueError: the value of a part is not valid; the message starts with its name.
        """
        return Recurrence(
            rules=tuple(
                make_rule(start, _local_until(parts.get("until"), zone), parts, rfc_name) for parts in self.rules
            ),
            rdates=_sorted(_local("RDATE", moment, zone) for moment in self.rdates),
            exdates=frozenset(_local("EXDATE", _timed(moment, start), zone) for moment in self.exdates),
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


def write_text(start: datetime, zone: tzinfo, recurrence: Recurrence) -> str:
    """Return the normal form: a line for DTSTART, each RRULE, RDATE and EXDATE, in local times of the zone."""
    untils = [None if rule.until is None else utc_text(to_utc(rule.until, zone)) for rule in recurrence.rules]
    second_passes = [moment for moment in recurrence.rdates if moment.fold]
    lines = [
        _line("DTSTART", [start], zone),
        *(f"RRULE:{write_rule(rule, until)}" for rule, until in zip(recurrence.rules, untils)),
        _line("RDATE", [moment for moment in recurrence.rdates if not moment.fold], zone),
        # Only UTC can express the second pass of a repeated hour.
        f"RDATE:{','.join(utc_text(to_utc(moment, zone)) for moment in second_passes)}" if second_passes else "",
        _line("EXDATE", sorted(recurrence.exdates), zone),
    ]
    return "\n".join(line for line in lines if line)


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


def _timed(moment: datetime | date, start: datetime) -> datetime | date:
    """Refuse a date without a time if the rule has one: it would exclude nothing, and nobody would notice."""
    if not isinstance(moment, datetime) and start.time() != time():
        raise ValueError(f"EXDATE: expected a time such as {moment:%Y%m%d}T{start:%H%M%S}, got {moment:%Y%m%d}")
    return moment


def _local_until(until: datetime | date | None, zone: tzinfo) -> datetime | None:
    """Return UNTIL as naive local time; None, endless, when it is in the last year of the calendar."""
    if until is None or until.year == MAXYEAR:
        return None
    moment = _midnight(until)
    instant = to_utc(moment, zone) if moment.tzinfo is None else moment
    return _local("UNTIL", instant, zone).replace(fold=0)


def _local(label: str, moment: datetime | date, zone: tzinfo) -> datetime:
    at = _midnight(moment)
    try:
        return (at if at.tzinfo is None else at.astimezone(zone)).replace(tzinfo=None)
    except OverflowError as exc:
        raise ValueError(f"{label}: expected a year from 2 to {MAXYEAR - 1}, got {moment.year}") from exc


def _sorted(times: Iterable[datetime]) -> tuple[datetime, ...]:
    return tuple(sorted({(moment, moment.fold): moment for moment in times}.values(), key=lambda at: (at, at.fold)))


def _line(name: str, times: Iterable[datetime], zone: tzinfo) -> str:
    key = zone_name(zone)
    suffix, parameter = ("Z", "") if key == "UTC" else ("", f";TZID={key}" if key else "")
    values = ",".join(local_text(moment) + suffix for moment in times)
    return values and f"{name}{parameter}:{values}"
