"""``Recurrence``: the rules, additional dates and excluded dates of RFC 5545.

The rules are evaluated in local times, as numbered seconds; additional and excluded dates are instants.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.local_time import to_utc
from redisbeater.schedules.rrule.clock import RuleClock
from redisbeater.schedules.rrule.occurrences import (
    count_between,
    occurrences_before,
    occurrences_from,
    without_occurrence,
)
from redisbeater.schedules.rrule.periods import END_OF_CALENDAR
from redisbeater.schedules.rrule.rule import RecurrenceRule

__all__ = ("Recurrence",)

#: What it takes to begin a search with one rule.
_RULE_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Rules (RRULE), additional dates (RDATE), and instants that are excluded from both (EXDATE).

    The dates are naive local times; one in the second pass of a repeated hour has ``fold=1``.
    """

    clock: RuleClock
    rules: tuple[RecurrenceRule, ...] = ()
    rdates: tuple[datetime, ...] = ()
    exdates: frozenset[datetime] = frozenset()

    def since(self, second: int, steps: Steps, limit: int = END_OF_CALENDAR) -> Iterator[int]:
        """Yield the local times of the rules from one on and before another, each once and in order."""
        steps.take(_RULE_STEPS * len(self.rules))
        found = [occurrences_from(rule, second, steps, limit) for rule in self.rules]
        return self._included(found[0] if len(found) == 1 else heapq.merge(*found), steps)

    def before(self, second: int, earliest: int, steps: Steps) -> Iterator[int]:
        """Yield the local times of the rules before one, back to the earliest, each once, the newest first."""
        steps.take(_RULE_STEPS * len(self.rules))
        found = (occurrences_before(rule, second, earliest, steps) for rule in self.rules)
        return self._included(heapq.merge(*found, reverse=True), steps)

    def count(self, first: int, limit: int, steps: Steps) -> Iterator[int]:
        """Yield numbers whose sum is that of the rules' local times from one on and before another.

        When the steps are exhausted before the end, the sum is too small, never too large.
        """
        if len(self.rules) != 1:
            yield from (1 for _ in self.since(first, steps, limit))
            return
        [rule] = self.rules
        excluded = self._sorted_exclusions[
            bisect_left(self._sorted_exclusions, first) : bisect_left(self._sorted_exclusions, limit)
        ]
        yield -len(excluded)
        yield from count_between(rule, first, limit, steps)
        yield from (1 for _ in without_occurrence(rule, excluded, steps))

    @cached_property
    def dates(self) -> dict[datetime, datetime]:
        """The instants of the additional dates that are not excluded, in order, with their local times."""
        instants = ((to_utc(local, self.clock.zone), local) for local in self.rdates)
        earliest = self.clock.starts_at
        return {at: local for at, local in sorted(instants) if at >= earliest and at not in self.exdates}

    @cached_property
    def instants(self) -> Sequence[datetime]:
        """The instants of the additional dates, in order."""
        return list(self.dates)

    @cached_property
    def _excluded(self) -> frozenset[int]:
        return frozenset(self.clock.seconds_at(self.exdates))

    @cached_property
    def _sorted_exclusions(self) -> Sequence[int]:
        return sorted(self._excluded)

    def _included(self, occurrences: Iterable[int], steps: Steps) -> Iterator[int]:
        """Yield the occurrences that are not excluded, each once."""
        latest, excluded = None, self._excluded
        for occurrence in occurrences:
            steps.take()
            if occurrence != latest and occurrence not in excluded:
                yield occurrence
            latest = occurrence
