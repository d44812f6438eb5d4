"""Dates and times as RFC 5545 text: ``20260101T090000``, followed by ``Z`` in UTC."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone, tzinfo

from redisbeater.display import quoted, text_of

__all__ = ("local_text", "read_time", "utc_text")

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
