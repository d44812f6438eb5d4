"""The usual text of a meta, a last run in UTC and a count: read and written with each run, so without JSON between.

What differs from it by a letter is left to JSON.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

__all__ = ("read_usual", "usual_text")

_TEXT = (
    '{"last_run_at":{"__type__":"datetime","year":%d,"month":%d,"day":%d,"hour":%d,"minute":%d,"second":%d,'
    '"microsecond":%d,"timezone":"UTC"},"total_run_count":%d}'
)
_PATTERN = re.compile(re.escape(_TEXT).replace("%d", "(0|[1-9][0-9]*)"))


def usual_text(at: datetime | None, count: int) -> str | None:
    """The text for a last run and a count; None when it is not the usual one."""
    if at is None or at.tzinfo is not timezone.utc or at.fold or type(count) is not int:
        return None
    return _TEXT % (at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, count)


def read_usual(text: str) -> tuple[datetime, int] | None:
    """The last run, aware UTC, and the count of a text; None when it is not the usual one, or wrong."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    try:
        year, month, day, hour, minute, second, microsecond, count = map(int, match.groups())
        return datetime(year, month, day, hour, minute, second, microsecond, timezone.utc), count
    except (ValueError, OverflowError):  # no such date: whoever reads it by JSON can say so
        return None
