"""RFC 5545 text: lines of DTSTART, RRULE, RDATE and EXDATE, or one rule alone."""

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
    """What a text says: aware times, naive ones where it names no zone, and days where it names no time."""

    dtstart: list[datetime | date] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    rdates: list[datetime | date] = field(default_factory=list)
    exdates: list[datetime | date] = field(default_factory=list)

    @property
    def start(self) -> datetime | None:
        """DTSTART, a day being its midnight; None when the text has none."""
        return _midnight(self.dtstart[0]) if self.dtstart else None

    def recurrence(self, start: datetime, zone: tzinfo) -> Recurrence:
        """What it means when it begins at a local time of a zone.

        Raises:
            ValueError: a part has a value that it cannot have; the message begins with its name.
        """
        return Recurrence(
            rules=tuple(
                make_rule(start, _local_until(parts.get("until"), zone), parts, rfc_name) for parts in self.rules
            ),
            rdates=_sorted(_local("RDATE", moment, zone) for moment in self.rdates),
            exdates=frozenset(_local("EXDATE", _timed(moment, start), zone) for moment in self.exdates),
        )


def is_text(value: object) -> bool:
    """Whether it is a text at all, and not the name of a frequency."""
    return isinstance(value, str) and ("=" in value or ":" in value)


def read_text(text: str) -> RecurrenceText:
    """What the lines of a text say; lines may be folded.

    Raises:
        ValueError: a line is unknown or cannot be read; the message begins with its name, or with that of the part.
    """
    said = RecurrenceText()
    for line in _FOLD.sub("", text).splitlines():
        if line.strip():
            _read_line(line.strip(), said)
    if len(said.dtstart) > 1:
        raise ValueError("DTSTART: is given twice; further dates are RDATE")
    if not said.rules and not said.rdates:
        raise ValueError("RRULE: is missing; expected a line such as RRULE:FREQ=MONTHLY;BYDAY=1MO")
    return said


def write_text(start: datetime, zone: tzinfo, recurrence: Recurrence) -> str:
    """The normal form: lines of DTSTART, each RRULE, RDATE and EXDATE, all in local times of the zone."""
    untils = [None if rule.until is None else utc_text(to_utc(rule.until, zone)) for rule in recurrence.rules]
    again = [moment for moment in recurrence.rdates if moment.fold]
    lines = [
        _line("DTSTART", [start], zone),
        *(f"RRULE:{write_rule(rule, until)}" for rule, until in zip(recurrence.rules, untils)),
        _line("RDATE", [moment for moment in recurrence.rdates if not moment.fold], zone),
        # Only in UTC can the second pass of a repeated hour be said.
        f"RDATE:{','.join(utc_text(to_utc(moment, zone)) for moment in again)}" if again else "",
        _line("EXDATE", sorted(recurrence.exdates), zone),
    ]
    return "\n".join(line for line in lines if line)


def _read_line(line: str, said: RecurrenceText) -> None:
    head, colon, value = line.partition(":")
    if not colon:
        head, value = "RRULE", line
    name, *parameters = head.split(";")
    name = name.upper()
    if name == "RRULE" and not parameters:
        said.rules.append(read_rule(value))
    elif name in ("DTSTART", "RDATE", "EXDATE"):
        zone = _read_zone(name, parameters)
        times = {"DTSTART": said.dtstart, "RDATE": said.rdates, "EXDATE": said.exdates}[name]
        times.extend(read_time(name, text, zone) for text in value.split(","))
    elif name == "EXRULE":
        raise ValueError("EXRULE: RFC 5545 has given it up; list the dates: EXDATE:20260101T090000,20260102T090000")
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
    """A day excludes nothing of a rule that has a time: that would go unnoticed."""
    if not isinstance(moment, datetime) and start.time() != time():
        raise ValueError(f"EXDATE: expected a time such as {moment:%Y%m%d}T{start:%H%M%S}, got {moment:%Y%m%d}")
    return moment


def _local_until(until: datetime | date | None, zone: tzinfo) -> datetime | None:
    """An instant as local time; in the last year of the calendar it means for ever."""
    if until is None or until.year == MAXYEAR:
        return None
    moment = _midnight(until)
    instant = to_utc(moment, zone) if moment.tzinfo is None else moment
    return _local("UNTIL", instant, zone).replace(fold=0)


def _local(label: str, moment: datetime | date, zone: tzinfo) -> datetime:
    said = _midnight(moment)
    try:
        return (said if said.tzinfo is None else said.astimezone(zone)).replace(tzinfo=None)
    except OverflowError as exc:
        raise ValueError(f"{label}: expected a year from 2 to {MAXYEAR - 1}, got {moment.year}") from exc


def _sorted(times: Iterable[datetime]) -> tuple[datetime, ...]:
    return tuple(sorted({(moment, moment.fold): moment for moment in times}.values(), key=lambda at: (at, at.fold)))


def _line(name: str, times: Iterable[datetime], zone: tzinfo) -> str:
    key = zone_name(zone)
    suffix, parameter = ("Z", "") if key == "UTC" else ("", f";TZID={key}" if key else "")
    values = ",".join(local_text(moment) + suffix for moment in times)
    return values and f"{name}{parameter}:{values}"
