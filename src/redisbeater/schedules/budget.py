"""The budget of engine steps, which bounds the work for one entry whatever its schedule is.

Steps are counted and never clocked, so that a slow machine decides nothing. One step is what it takes to look at one
occurrence of a rule, about half a microsecond; dearer things cost several.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from redisbeater.exceptions import InvalidEntry

#: What finding the fire times of one plan may cost: about 30 ms of processor time.
SEARCHING_STEPS = 60_000

#: What counting the fire times that one plan skips may cost, in addition: about 20 ms.
COUNTING_STEPS = 40_000


class StepsExhausted(InvalidEntry):
    """Finding the next fire time takes too many steps; the schedule can be neither saved nor planned."""

    def __init__(
        self,
        path: str = "$.schedule",
        problem: str = "finding its next fire time takes too many steps; expected a rule that matches more often, with "
        "fewer lines and fewer excluded times, and UNTIL instead of a large COUNT",
    ) -> None:
        super().__init__(path, problem)


class Steps:
    """The steps that are left of a budget.

    Arguments:
        limit: how many steps there are.
    """

    __slots__ = ("_paid", "left", "limit")

    def __init__(self, limit: int = SEARCHING_STEPS) -> None:
        self.limit = self.left = limit
        #: What was paid for already; None: nothing. Each plan has a budget, and few remember anything.
        self._paid: set[Hashable] | None = None

    @property
    def taken(self) -> int:
        """How many steps were taken so far."""
        return self.limit - self.left

    def take(self, steps: int = 1) -> None:
        """Take steps from the budget.

        Raises:
            StepsExhausted: there are not as many left.
        """
        self.left -= steps
        if self.left < 0:
            raise StepsExhausted

    def take_once(self, key: Hashable, steps: int) -> None:
        """Take steps for something that is remembered, and costs nothing the next time."""
        if self._paid is None:
            self._paid = set()
        if key not in self._paid:
            self._paid.add(key)
            self.take(steps)


class Count(NamedTuple):
    """A number of fire times; ``is_at_least``: counting all of them would have taken too many steps."""

    number: int
    is_at_least: bool = False
