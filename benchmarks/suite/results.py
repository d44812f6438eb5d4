"""Results: the samples of a case, with their medians, spreads and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from suite.job import Outcome

__all__ = ("Results", "Sample", "Spread")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One measurement."""

    round: int
    contender: str
    size: int
    seconds: float
    outcome: Outcome


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median, the least and the most of some values."""

    median: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Return the spread of values; None if there are none."""
        found = sorted(values)
        if not found:
            return None
        return cls(median=statistics.median(found), least=found[0], most=found[-1], count=len(found))


class Results:
    """The samples of one case."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.samples = list(samples)

    def rows(self) -> list[tuple[str, int]]:
        """Return contender and size of each row, ordered by size."""
        seen = dict.fromkeys((sample.contender, sample.size) for sample in self.samples)
        return sorted(seen, key=lambda row: row[1])

    def of(self, contender: str, size: int) -> list[Sample]:
        """Return the samples of one row."""
        return [item for item in self.samples if (item.contender, item.size) == (contender, size)]

    def sizes(self, contender: str) -> list[int]:
        """Return the sizes that were measured for a contender."""
        return sorted({sample.size for sample in self.samples if sample.contender == contender})

    def spread(self, contender: str, size: int, figure: str) -> Spread | None:
        """Return the spread of a figure of one row."""
        return Spread.of(self._by_round(contender, size, figure).values())

    def median(self, contender: str, figure: str, size: int | None = None) -> float | None:
        """Return the median of a figure, at a size or else at the largest size that has it."""
        sizes = reversed(self.sizes(contender)) if size is None else [size]
        found = (self.spread(contender, each, figure) for each in sizes)
        return next((spread.median for spread in found if spread), None)

    def ratio(self, one: str, other: str, figure: str, *, at: int | None = None, by: str | None = None) -> float | None:
        """Return one contender's figure divided by another's, or by its ``by``: the median of each round's ratio.

        The size is ``at``; if one of them was not measured there, it is the largest size that both have.
        """
        for size in [*([] if at is None else [at]), *reversed(self.sizes(one))]:
            above = self._by_round(one, size, figure)
            below = self._by_round(other, size, by or figure)
            ratios = [above[number] / below[number] for number in above if below.get(number)]
            if ratios:
                return statistics.median(ratios)
        return None

    def pooled(self, contender: str, size: int, name: str) -> list[float]:
        """Return the samples for a plot, from all rounds."""
        return [value for sample in self.of(contender, size) for value in sample.outcome.samples.get(name, ())]

    def _by_round(self, contender: str, size: int, figure: str) -> dict[int, float]:
        found = ((item.round, item.outcome.figures.get(figure)) for item in self.of(contender, size))
        return {number: value for number, value in found if value is not None}
