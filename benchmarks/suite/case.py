"""A case: what is measured of whom, how it is shown, and what the target is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from suite.job import Job, Outcome
from suite.results import Results

__all__ = ("Case", "Column", "Target")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A figure in the table."""

    figure: str
    title: str
    digits: int = 1


@dataclass(frozen=True, kw_only=True)
class Target:
    """A bound and how near a run came to it.

    Arguments:
        measure: from the results to what is compared; None: not measured in this run.
        at_least: whether the bound is the least; else the most.
        aim: what one would like, beyond the bound.
    """

    text: str
    bound: float
    measure: Callable[[Results], float | None]
    at_least: bool = False
    aim: float | None = None
    unit: str = "x"

    def is_met(self, value: float) -> bool:
        """Whether a value keeps within the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison.

    Arguments:
        sizes: of each contender, what is measured: how many entries, or beats.
        quick_sizes: those of the quick mode; a contender that is not named is left out.
        once: sizes from which on a contender is measured once only, because it takes so long.
        most_repeats: how often at most, whatever was asked for.
        quick_repeats: how often in the quick mode.
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
        """What is to be measured, interleaved: round, contender, size."""
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
