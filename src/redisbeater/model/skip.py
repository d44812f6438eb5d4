"""Fire times that are not run: each has a reason, which is recorded with the entry and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text

__all__ = ("Reason", "Skip", "Skipped", "add_skips", "read_skipped")


class Reason(str, Enum):
    """Why a fire time is not run."""

    #: It was later than ``misfire_grace_time`` allows.
    MISSED = "missed"
    #: Another fire time that passed meanwhile stands for it.
    COALESCED = "coalesced"
    #: ``coalesce="all"`` had more fire times to make up for than it runs.
    LEFT_OUT = "left_out"
    #: The entry has had all the runs that ``max_runs`` allows.
    MAX_RUNS = "max_runs"
    #: It lies before ``start_at`` or after ``end_at``: another program set it.
    OUT_OF_BOUNDS = "out_of_bounds"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Some fire times in a row that are not run; ``first`` and ``last`` are aware UTC, both included."""

    reason: Reason
    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """How many fire times of an entry were not run for one reason, and the newest of them, aware UTC."""

    count: int
    last: datetime


def read_skipped(text: str) -> dict[str, Skipped]:
    """What was skipped of an entry so far, by reason, from its stored text; a record that cannot be read is empty."""
    try:
        record = json_text.from_text(text, "skipped") if text else {}
        return {
            reason: Skipped(count=int(item["count"]), last=datetime.fromisoformat(item["last"]))
            for reason, item in record.items()
        }
    except (InvalidEntry, AttributeError, KeyError, TypeError, ValueError):  # it is ours alone, and only counts
        return {}


def add_skips(text: str, skips: Iterable[Skip]) -> str:
    """The stored text with more fire times counted in."""
    record = read_skipped(text)
    for skip in skips:
        before = record.get(skip.reason)
        count = skip.count + (before.count if before else 0)
        record[skip.reason.value] = Skipped(count=count, last=skip.last)
    return _to_text(record)


def _to_text(record: Mapping[str, Skipped]) -> str:
    return json_text.to_text(
        {reason: {"count": item.count, "last": item.last.isoformat()} for reason, item in record.items()}
    )
