"""A case: its measurements, its table and its targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from suite.job import Job, Outcome
from suite.results import Results

__all__ = ("Case", "Column", "Target")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the table, for one figure."""

    figure: str
    title: str
    digits: int = 1


@dataclass(frozen=True, kw_only=True)
class Target:
    """A bound for a figure.

    Arguments:
        measure: returns the value to compare; None if this run did not measure it.
        at_least: whether the bound is the smallest allowed value; otherwise it is the largest.
        aim: the value that would be better than the bound.
    """

    text: str
    bound: float
    measure: Callable[[Results], float | None]
    at_least: bool = False
    aim: float | None = None
    unit: str = "x"

    def is_met(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison.

    Arguments:
        sizes: the sizes of each contender: numbers of entries or beats.
        quick_sizes: the sizes in the quick mode; a contender without sizes is left out.
        once: from this size on, a contender is measured only once because it is slow.
        most_repeats: the largest number of rounds, whatever was requested.
        quick_repeats: the number of rounds in the quick mode.
    """

    name: str
    title: str
    about: str
    size_title: str
    sizes: Mapping[str, tuple[int, ...]]
    quick_sizes: Mapping[str, tuple[int, ...]]
    columns: tuple[Column, ...]
    measure: Callable[[Job], Outcome]
    targets: tuple[Target, ...] = ()
    once: Mapping[str, int] = field(default_factory=dict)
    most_repeats: int = 100
    quick_repeats: int = 1

    def jobs(self, *, quick: bool, repeat: int) -> list[tuple[int, str, int]]:
        """Return round, contender and size of each measurement, with the contenders in turn."""
        sizes = self.quick_sizes if quick else self.sizes
        rounds = min(repeat, self.most_repeats)
        return [
            (number, contender, size)
            for number in range(rounds)
            for size in sorted({size for each in sizes.values() for size in each})
            for contender, each in sizes.items()
            if size in each and (number == 0 or not self._is_slow(contender, size))
        ]

    def _is_slow(self, contender: str, size: int) -> bool:
        return contender in self.once and size >= self.once[contender]
