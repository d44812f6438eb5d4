"""Results: the samples of a case, and the medians, spreads and ratios of them."""

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
    """The median of some values, the least and the most."""

    median: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """That of values; None: there are none."""
        found = sorted(values)
        if not found:
            return None
        return cls(median=statistics.median(found), least=found[0], most=found[-1], count=len(found))


class Results:
    """The samples of one case."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.samples = list(samples)

    def rows(self) -> list[tuple[str, int]]:
        """Contender and size of each line, in the order of the sizes."""
        seen = dict.fromkeys((sample.contender, sample.size) for sample in self.samples)
        return sorted(seen, key=lambda row: row[1])

    def of(self, contender: str, size: int) -> list[Sample]:
        """The samples of one line."""
        return [item for item in self.samples if (item.contender, item.size) == (contender, size)]

    def sizes(self, contender: str) -> list[int]:
        """The sizes that were measured of a contender."""
        return sorted({sample.size for sample in self.samples if sample.contender == contender})

    def spread(self, contender: str, size: int, figure: str) -> Spread | None:
        """A figure of one line."""
        return Spread.of(self._by_round(contender, size, figure).values())

    def median(self, contender: str, figure: str, size: int | None = None) -> float | None:
        """The median of a figure, at the largest size that has it unless one is given."""
        sizes = reversed(self.sizes(contender)) if size is None else [size]
        found = (self.spread(contender, each, figure) for each in sizes)
        return next((spread.median for spread in found if spread), None)

    def ratio(self, one: str, other: str, figure: str, *, at: int | None = None) -> float | None:
        """One contender's figure by another's: the median of each round's ratio.

        At a given size, and where one of them has none there at the largest that both have.
        """
        for size in [*([] if at is None else [at]), *reversed(self.sizes(one))]:
            above = self._by_round(one, size, figure)
            below = self._by_round(other, size, figure)
            ratios = [above[number] / below[number] for number in above if below.get(number)]
            if ratios:
                return statistics.median(ratios)
        return None

    def pooled(self, contender: str, size: int, name: str) -> list[float]:
        """The samples of a plot, of all rounds."""
        return [value for sample in self.of(contender, size) for value in sample.outcome.samples.get(name, ())]

    def _by_round(self, contender: str, size: int, figure: str) -> dict[int, float]:
        found = ((item.round, item.outcome.figures.get(figure)) for item in self.of(contender, size))
        return {number: value for number, value in found if value is not None}
