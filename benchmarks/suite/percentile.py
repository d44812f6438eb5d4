"""A percentile that is always one of the measured values."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ("percentile",)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share / 100) - 1, 0)]
