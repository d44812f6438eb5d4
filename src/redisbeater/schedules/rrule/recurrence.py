"""``Recurrence``: the rules, additional dates and excluded dates of RFC 5545, as naive local times."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import takewhile

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.rrule.occurrences import (
    count_between,
    occurrences_before,
    occurrences_from,
    without_occurrence,
)
from redisbeater.schedules.rrule.rule import RecurrenceRule
from redisbeater.schedules.rrule.time_of_day import local_at, second_of

__all__ = ("Recurrence",)

#: What it takes to begin a search with one rule.
_RULE_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Rules (RRULE), additional dates (RDATE), and local times that are excluded from both (EXDATE).

    A date in the second pass of a repeated hour has ``fold=1``; rules only have the first pass.
    """

    rules: tuple[RecurrenceRule, ...] = ()
    rdates: tuple[datetime, ...] = ()
    exdates: frozenset[datetime] = frozenset()

    def after(self, local: datetime, steps: Steps) -> Iterator[datetime]:
        """Yield the occurrences of the rules that are later than a local time, each once and in order."""
        return map(local_at, self._from(second_of(local) + 1, steps))  # occurrences are whole seconds

    def before(self, local: datetime, earliest: datetime, steps: Steps) -> Iterator[datetime]:
        """Yield the occurrences of the rules up to a local time, back to the earliest, each once, the newest first."""
        steps.take(_RULE_STEPS * len(self.rules))
        limit, last = second_of(local) + 1, second_of(earliest)
        found = (occurrences_before(rule, limit, last, steps) for rule in self.rules)
        return map(local_at, self._included(heapq.merge(*found, reverse=True), steps))

    def between(self, first: datetime, limit: datetime, steps: Steps) -> Iterator[datetime]:
        """Yield the occurrences of the rules from a local time on and before another one."""
        return map(local_at, self._between(_round_up(first), _round_up(limit), steps))

    def count(self, first: datetime, limit: datetime, steps: Steps) -> Iterator[int]:
        """Yield numbers whose sum is that of the rules' occurrences from a local time on and before another one.

        When the steps are exhausted before the end, the sum is too small, never too large.
        """
        begin, end = _round_up(first), _round_up(limit)
        if len(self.rules) != 1:
            yield from (1 for _ in self._between(begin, end, steps))
            return
        [rule] = self.rules
        excluded = self._sorted_exclusions[
            bisect_left(self._sorted_exclusions, begin) : bisect_left(self._sorted_exclusions, end)
        ]
        yield -len(excluded)
        yield from count_between(rule, begin, end, steps)
        yield from (1 for _ in without_occurrence(rule, excluded, steps))

    @cached_property
    def dates(self) -> Sequence[datetime]:
        """The additional dates that are not excluded, in order."""
        return [date for date in self.rdates if date not in self.exdates]

    @cached_property
    def _excluded(self) -> frozenset[int]:
        return frozenset(map(second_of, self.exdates))

    @cached_property
    def _sorted_exclusions(self) -> Sequence[int]:
        return sorted(self._excluded)

    def _from(self, second: int, steps: Steps) -> Iterator[int]:
        steps.take(_RULE_STEPS * len(self.rules))
        return self._included(heapq.merge(*(occurrences_from(rule, second, steps) for rule in self.rules)), steps)

    def _between(self, first: int, limit: int, steps: Steps) -> Iterator[int]:
        return takewhile(lambda second: second < limit, self._from(first, steps)) if first < limit else iter(())

    def _included(self, occurrences: Iterable[int], steps: Steps) -> Iterator[int]:
        """Yield the occurrences that are not excluded, each once."""
        latest, excluded = None, self._excluded
        for occurrence in occurrences:
            steps.take()
            if occurrence != latest and occurrence not in excluded:
                yield occurrence
            latest = occurrence


def _round_up(local: datetime) -> int:
    return second_of(local) + (local.microsecond > 0)
