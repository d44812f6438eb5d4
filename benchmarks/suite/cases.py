"""All cases, in the order of the report."""

from __future__ import annotations

from suite.bulk import BULK, LISTING
from suite.burst import BURST
from suite.case import Case
from suite.due_cost import DUE_COST
from suite.idle import IDLE
from suite.lateness import SAME_SECOND, SPREAD
from suite.memory import MEMORY
from suite.save import SAVE
from suite.small import SMALL
from suite.start import START

__all__ = ("CASES", "case_named")

CASES: tuple[Case, ...] = (
    BURST,
    SAVE,
    SAME_SECOND,
    SPREAD,
    IDLE,
    DUE_COST,
    BULK,
    LISTING,
    START,
    MEMORY,
    SMALL,
)


def case_named(name: str) -> Case:
    """Return the case with a name."""
    return next(case for case in CASES if case.name == name)
