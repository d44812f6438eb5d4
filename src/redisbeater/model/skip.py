"""Skipped fire times: why they are not run, and their counts, which are stored with the entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import MAX_COUNT
from redisbeater.model.policies import TextEnum
from redisbeater.times import from_iso


class Reason(TextEnum):
    """Why a fire time is not run."""

    #: It was later than ``misfire_grace_time`` allows.
    MISSED = "missed"
    #: ``coalesce`` runs another of the missed fire times instead.
    COALESCED = "coalesced"
    #: ``coalesce="all"`` runs only the newest 100 missed fire times.
    LEFT_OUT = "left_out"
    #: The entry has had all the runs that ``max_runs`` allows.
    MAX_RUNS = "max_runs"
    #: It is before ``start_at`` or after ``end_at``: another program wrote it.
    OUT_OF_BOUNDS = "out_of_bounds"
    #: It is before ``disabled_until``.
    DISABLED_UNTIL = "disabled_until"
    #: The entry's field ``skip`` has it.
    SKIP = "skip"
    #: A run of the entry was active, and its ``overlap`` allows no other.
    OVERLAP = "overlap"
    #: The ``apply_async`` of its task published nothing.
    DECLINED = "declined"


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Consecutive fire times that are not run; ``first`` and ``last`` are aware UTC, both included.

    ``is_at_least``: there were too many to count them all, so there may be more than ``count``. ``run``: the id of the
    run that was in the way; empty: there was none, or it is one of the same plan.
    """

    reason: Reason
    count: int
    first: datetime
    last: datetime
    is_at_least: bool = False
    run: str = ""

    @property
    def count_text(self) -> str:
        """The count for people: ``3``, or ``at least 10000``."""
        return _count_text(self.count, self.is_at_least)

    def to_log_line(self) -> LogLine:
        """Return the line of the entry's log, of which the times are the fire times."""
        details = {"reason": self.reason.value, **({"is_at_least": True} if self.is_at_least else {}), "run": self.run}
        return LogLine(what="skipped", count=self.count, first=self.first, last=self.last, details=details)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """How many fire times of an entry were not run for one reason, and the newest of them, aware UTC.

    ``is_at_least``: once there were too many to count them all, so there may have been more than ``count``.
    """

    count: int
    last: datetime
    is_at_least: bool = False

    @property
    def count_text(self) -> str:
        """The count for people: ``3``, or ``at least 10000``."""
        return _count_text(self.count, self.is_at_least)


def read_skipped(text: str) -> dict[str, Skipped]:
    """Return the skips of an entry so far, by reason.

    An unreadable record counts as empty, and a count or a time that cannot be right is left out.
    """
    try:
        record = json_text.from_text(text, "skipped") if text else {}
        read = {
            reason: Skipped(count=int(item["count"]), last=last, is_at_least=bool(item.get("is_at_least", False)))
            for reason, item in record.items()
            if (last := from_iso(item["last"])) is not None
        }
    # Only beat writes it, and it holds mere counts.
    except (InvalidEntry, AttributeError, KeyError, TypeError, ValueError):
        return {}
    return {reason: skipped for reason, skipped in read.items() if 0 <= skipped.count <= MAX_COUNT}


def add_skips(text: str, skips: Iterable[Skip]) -> str:
    """Return the stored text with more skipped fire times added."""
    record = read_skipped(text)
    for skip in skips:
        before = record.get(skip.reason)
        count = skip.count + (before.count if before else 0)
        is_at_least = skip.is_at_least or (before is not None and before.is_at_least)
        record[skip.reason.value] = Skipped(count=min(count, MAX_COUNT), last=skip.last, is_at_least=is_at_least)
    return _to_text(record)


def _to_text(record: Mapping[str, Skipped]) -> str:
    return json_text.to_text({reason: _stored(item) for reason, item in record.items()})


def _stored(item: Skipped) -> dict[str, object]:
    stored = {"count": item.count, "last": item.last.isoformat()}
    return {**stored, "is_at_least": True} if item.is_at_least else stored


def _count_text(count: int, is_at_least: bool) -> str:
    return f"at least {count}" if is_at_least else str(count)
