"""A line of a log: what happened to an entry, or to the schedule, when, how often, by whom and why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from redisbeater.display import shown
from redisbeater.model import json_text
from redisbeater.times import from_unix, to_unix

#: The words of changes that say so whoever made them.
CHANGES = frozenset({"created", "changed", "enabled", "disabled", "restored", "deleted", "renamed", "skip", "fixed"})

_STORED = re.compile(r"(\S+) (\d+) (\S+) ([a-z_]+) (.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line of a log. Equal neighbours are folded into one, which has the ``count`` of all.

    Attributes:
        what: a word: created, changed, skipped, broken, ...
        first, last: when it happened first and last, aware UTC; of skipped fire times the oldest and the newest.
            None in a new line: at the server's time.
        count: how often it happened; of skipped fire times how many there were.
        details: more about it: ``by``, ``note``, ``fields``, ``next``, ``was``, ``reason``, ``error``,
            ``is_at_least``.
    """

    what: str
    count: int = 1
    first: datetime | None = None
    last: datetime | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str) -> LogLine:
        """Read a stored line; of one that another program wrote, the text is the detail ``text``."""
        found = _STORED.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            last, count, first, what, details = found.groups()
            return cls(
                what=what,
                first=from_unix(first),
                last=from_unix(last),
                count=int(count),
                details=_read_details(details),
            )
        except (ValueError, TypeError):
            return cls(what="unreadable", details={"text": shown(text)})

    @property
    def text(self) -> str:
        """The word and the details, as they are stored; lines of the same text are folded."""
        return line_text(self.what, **self.details)

    @property
    def is_change(self) -> bool:
        """Whether it is about a change of an entry or of the schedule; a run that somebody sent is none."""
        return self.what in CHANGES or ("by" in self.details and self.what != "triggered")

    def overlaps(self, start: datetime, end: datetime) -> bool:
        """Tell whether what the line is about happened in a span of time, whose end is not part of it."""
        return self.first is not None and self.last is not None and self.first < end and self.last >= start

    def to_row(self) -> list[Any]:
        """Return the line as the commit script takes it: its text, its count, and its first and last time."""
        times = [to_unix(moment) for moment in (self.first, self.last) if moment is not None]
        return [self.text, self.count, *times]


def line_text(what: str, **details: Any) -> str:
    """Return the text of a line: its word, and its details as JSON; those that are empty are left out."""
    kept = {name: _shortened(value) for name, value in details.items() if value or value == 0 or value == {}}
    return f"{what} {json.dumps(kept, separators=(',', ':'))}"


def _shortened(value: Any) -> Any:
    return shown(value) if isinstance(value, str) else value


def _read_details(text: str) -> dict[str, Any]:
    details = dict(json_text.from_text(text, "details"))
    fields = details.get("fields", [])
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise ValueError
    return details
