"""A percentile that never lies beyond what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ("percentile",)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share / 100) - 1, 0)]
