"""RFC 5545 text: dates, rules, and whole recurrences, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime, time, timezone, tzinfo
from typing import Any

from dateutil.rrule import MONTHLY, YEARLY, weekday

from redisbeater.display import quoted, shown, text_of
from redisbeater.schedules.rrule.recurrence import Recurrence
from redisbeater.schedules.rrule.rule import FREQUENCIES, PARTS, RecurrenceRule, RuleClock, make_rule
from redisbeater.schedules.zones import in_zone, read_zone, to_utc, zone_name

_FORM = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)


def read_time(label: str, text: str, zone: tzinfo | None = None) -> datetime | date:
    """Return the time of a text: aware if it has a ``Z`` or a zone is passed, else naive; a date if it has no time.

    Raises:
        ValueError: the text is not valid; the message starts with the label.
    """
    form = _FORM.fullmatch(text.strip().upper())
    if form is None:
        raise ValueError(f"{label}: expected a time such as 20260101T090000, got {quoted(text)}")
    day, clock, utc = form.groups()
    if zone is not None and (utc or not clock):
        raise ValueError(f"{label}: with TZID, expected a time without Z such as 20260101T090000, got {quoted(text)}")
    try:
        moment = datetime(int(day[:4]), int(day[4:6]), int(day[6:]), *_clock(clock or "000000"))
    except ValueError as exc:
        raise ValueError(
            f"{label}: {text_of(exc)}, got {quoted(text)}; expected a time such as 20260101T090000"
        ) from exc
    return moment.replace(tzinfo=timezone.utc if utc else zone) if clock else moment.date()


def _clock(digits: str) -> tuple[int, int, int]:
    return int(digits[:2]), int(digits[2:4]), int(digits[4:])


def local_text(local: datetime) -> str:
    """Return the text of a naive time."""
    day, clock = f"{local.year:04}{local.month:02}{local.day:02}", f"{local.hour:02}{local.minute:02}{local.second:02}"
    return f"{day}T{clock}"


def utc_text(instant: datetime) -> str:
    """Return the text of an aware time, in UTC."""
    return local_text(instant.astimezone(timezone.utc).replace(tzinfo=None)) + "Z"


_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)


def rfc_name(part: str) -> str:
    """Return the name in RFC 5545 of a part of dateutil's rules."""
    return "BYDAY" if part == "byweekday" else part.upper()


_PARTS = {rfc_name(part): part for part in (*PARTS, "until")}


def read_rule(text: str) -> dict[str, Any]:
    """Return the parts of a rule by dateutil's names; ``until`` is read by :func:`read_time`.

    Raises:
        ValueError: a part is unknown or cannot be read; the message starts with its name.
    """
    parts: dict[str, Any] = {}
    for item in text.upper().split(";"):
        name, _, value = item.strip().partition("=")
        if not item.strip():
            raise ValueError(f"RRULE: has a semicolon too many in {quoted(text, 80)}; leave it out")
        if name not in _PARTS:
            raise ValueError(f"{shown(name or 'RRULE', 40)}: unknown part of a rule; expected {', '.join(_PARTS)}")
        if _PARTS[name] in parts:
            advice = f"list the values: {name}=1,2" if name.startswith("BY") else "write it once"
            raise ValueError(f"{name}: is given twice; {advice}")
        parts[_PARTS[name]] = _read_part(name, value)
    _check_together(parts)
    return parts


def write_rule(rule: RecurrenceRule, until: str | None) -> str:
    """Return the text of a rule without its defaults; ``until`` is the text of its end."""
    main_parts = {
        "FREQ": next(name for name, number in FREQUENCIES.items() if number == rule.freq),
        "INTERVAL": None if rule.interval == 1 else str(rule.interval),
        "WKST": _WEEKDAYS[rule.wkst] if rule.wkst else None,
        "COUNT": rule.count and str(rule.count),
        "UNTIL": until,
    }
    written = {name: _write_part(getattr(rule, part)) for name, part in _PARTS.items() if name not in main_parts}
    return ";".join(f"{name}={value}" for name, value in {**main_parts, **written}.items() if value)


def _read_part(name: str, value: str) -> Any:
    if name == "FREQ":
        return _read_frequency(value)
    if name == "UNTIL":
        return read_time(name, value)
    if name == "WKST":
        return _read_weekday(name, value)
    if name in ("INTERVAL", "COUNT"):
        return _read_whole(name, value)
    read = _read_weekday if name == "BYDAY" else _read_whole
    return [read(name, item.strip()) for item in value.split(",")]


def _read_frequency(value: str) -> int:
    if value not in FREQUENCIES:
        raise ValueError(f"FREQ: expected one of {', '.join(FREQUENCIES)}, got {quoted(value)}")
    return FREQUENCIES[value]


def _read_whole(name: str, value: str) -> int:
    if _WHOLE.fullmatch(value) is None:
        raise ValueError(f"{name}: expected a whole number, got {quoted(value)}")
    return int(value)


def _read_weekday(name: str, value: str) -> weekday:
    form = _WEEKDAY.fullmatch(value)
    if form is None or (form[1] is not None and (name == "WKST" or not int(form[1]))):
        numbered = "" if name == "WKST" else ", or with a number such as 1MO or -1FR"
        raise ValueError(f"{name}: expected a day such as MO{numbered}, got {quoted(value)}")
    return weekday(_WEEKDAYS.index(form[2]), int(form[1]) if form[1] else None)


def _check_together(parts: dict[str, Any]) -> None:
    if "freq" not in parts:
        raise ValueError(f"FREQ: is missing; expected one of {', '.join(FREQUENCIES)}")
    if "count" in parts and "until" in parts:
        raise ValueError("COUNT: cannot be combined with UNTIL; use one of the two")
    numbered = [day for day in parts.get("byweekday", ()) if day.n]
    if numbered and parts["freq"] > MONTHLY:
        raise ValueError(f"BYDAY: expected FREQ=MONTHLY or FREQ=YEARLY with {_write_weekday(numbered[0])}")


def _write_part(values: Any) -> str | None:
    if values is None:
        return None
    return ",".join(_write_weekday(value) if isinstance(value, weekday) else str(value) for value in values)


def _write_weekday(day: weekday) -> str:
    return f"{day.n:+d}{_WEEKDAYS[day.weekday]}" if day.n else _WEEKDAYS[day.weekday]


#: How many further and excluded dates a rule may have: reading these takes about 50 ms of processor time.
MAX_DATES = 5_000

#: The parts of a text that select days of weeks.
_DAY_PARTS = frozenset(("byweekday", "bymonthday", "byyearday", "byeaster"))

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
        for parts in self.rules:
            _add_weekday(parts, clock)
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
        *_date_lines("DTSTART", [start], zone),
        *(
            f"RRULE:{write_rule(rule, None if rule.until is None else utc_text(rule.until))}"
            for rule in recurrence.rules
        ),
        *_date_lines("RDATE", recurrence.rdates, zone),
        *_date_lines("EXDATE", excluded, zone),
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
        _check_number(name, value, parsed)
        times = {"DTSTART": parsed.dtstart, "RDATE": parsed.rdates, "EXDATE": parsed.exdates}[name]
        times.extend(read_time(name, text, zone) for text in value.split(","))
    elif name == "EXRULE":
        raise ValueError(
            "EXRULE: RFC 5545 does not have it any more; list the dates: EXDATE:20260101T090000,20260102T090000"
        )
    else:
        raise ValueError(f"{shown(head, 40)}: unknown line; expected DTSTART, RRULE, RDATE or EXDATE")


def _check_number(name: str, value: str, parsed: RecurrenceText) -> None:
    number = len(parsed.rdates) + len(parsed.exdates) + value.count(",") + 1
    if number > MAX_DATES:
        raise ValueError(
            f"{name}: expected at most {MAX_DATES} dates in RDATE and EXDATE together, got {number} or more; "
            "write a rule that needs fewer, or several entries"
        )


def _read_zone(name: str, parameters: Iterable[str]) -> tzinfo | None:
    zone = None
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.upper() == "TZID":
            zone = read_zone(value.strip('"'), name)
        elif parameter.upper() not in ("VALUE=DATE", "VALUE=DATE-TIME"):
            raise ValueError(
                f"{name}: unknown parameter {quoted(parameter)}; expected TZID=Europe/Vienna or VALUE=DATE-TIME"
            )
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


def _add_weekday(parts: dict[str, Any], clock: RuleClock) -> None:
    """Add the weekday of its start to a rule that lists weeks and no days (RFC 5545).

    To dateutil, and so in a rule that is made from parts, it has all days of these weeks.
    """
    if parts["freq"] == YEARLY and "byweekno" in parts and _DAY_PARTS.isdisjoint(parts):
        parts["byweekday"] = [weekday(clock.local_start.weekday())]


def _date_lines(name: str, times: Iterable[datetime], zone: tzinfo) -> Iterator[str]:
    """Yield a line for the local times of a zone, and one in UTC for those in a second pass."""
    key = zone_name(zone)
    suffix, parameter = ("Z", "") if key == "UTC" else ("", f";TZID={key}" if key else "")
    times = list(times)
    if first := [local_text(moment) + suffix for moment in times if not moment.fold]:
        yield f"{name}{parameter}:{','.join(first)}"
    if second := [utc_text(to_utc(moment, zone)) for moment in times if moment.fold]:
        yield f"{name}:{','.join(second)}"
