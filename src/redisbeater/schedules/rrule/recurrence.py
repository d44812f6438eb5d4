"""``Recurrence``: the rules, additional dates and excluded dates of RFC 5545, as naive local times."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from redisbeater.schedules.rrule.occurrences import occurrences_after
from redisbeater.schedules.rrule.rule import RecurrenceRule

__all__ = ("Recurrence",)


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Rules (RRULE), additional dates (RDATE), and local times that are excluded from both (EXDATE).

    A date in the second pass of a repeated hour has ``fold=1``; rules only have the first pass.
    """

    rules: tuple[RecurrenceRule, ...] = ()
    rdates: tuple[datetime, ...] = ()
    exdates: frozenset[datetime] = frozenset()

    def after(self, local: datetime) -> Iterator[datetime]:
        """Yield the occurrences of the rules that are later than a local time, each once and in order."""
        latest = local
        for occurrence in heapq.merge(*(occurrences_after(rule, local) for rule in self.rules)):
            if occurrence > latest and occurrence not in self.exdates:
                yield occurrence
            latest = occurrence

    def dates(self) -> list[datetime]:
        """Return the additional dates that are not excluded."""
        return [date for date in self.rdates if date not in self.exdates]
