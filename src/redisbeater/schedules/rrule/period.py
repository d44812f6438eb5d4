"""A period of a recurrence rule (a year, a month or a week) and its occurrences, as numbered seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from redisbeater.schedules.rrule.clock import DAY_SECONDS

__all__ = ("DaysAtTimes", "Period", "indices_at")


class Period(Protocol):
    """The occurrences of a period, in order and computed lazily."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> int: ...

    def rank(self, second: int) -> int:
        """Return how many occurrences are before a second."""

    def since(self, second: int) -> Iterator[int]:
        """Yield the occurrences that are not before a second."""

    def before(self, second: int) -> Iterator[int]:
        """Yield the occurrences before a second, the newest first."""


@dataclass(frozen=True)
class DaysAtTimes:
    """Each day at each time, or those of them at the positions."""

    days: Sequence[int]
    times: Sequence[int]
    positions: Sequence[int] | None

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> int:
        day, time = divmod(self._indices[index], len(self.times))
        return self.days[day] * DAY_SECONDS + self.times[time]

    @cached_property
    def _indices(self) -> Sequence[int]:
        return indices_at(self.positions, len(self.days) * len(self.times))

    def rank(self, second: int) -> int:
        """Return how many occurrences are before a second."""
        return bisect_left(self, second)

    def since(self, second: int) -> Iterator[int]:
        """Yield the occurrences that are not before a second."""
        return (self[index] for index in range(self.rank(second), len(self)))

    def before(self, second: int) -> Iterator[int]:
        """Yield the occurrences before a second, the newest first."""
        return (self[index] for index in reversed(range(self.rank(second))))


def indices_at(positions: Sequence[int] | None, count: int) -> Sequence[int]:
    """Return the indices of the positions, which count from 1 or from the end; all indices if there are none."""
    if not positions:
        return range(count)
    indices = {position - 1 if position > 0 else position + count for position in positions}
    return sorted(index for index in indices if 0 <= index < count)
