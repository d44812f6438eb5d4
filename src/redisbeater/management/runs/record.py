"""What the records of runs say about one entry, and whether workers report to them at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisbeater.context import Context
from redisbeater.management.blanking import shown_run
from redisbeater.model.run import Run, RunCounts

__all__ = ("NO_REPORTS", "Recorded", "read_recorded", "workers_report")

#: So many runs can be sent before it is odd that no worker has reported one.
UNREPORTED = 20

#: What is said where no worker has reported.
NO_REPORTS = "workers do not report: is redisbeater.runs installed there?"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The newest run of an entry, and how many of its runs came to what."""

    last: Run | None
    counts: RunCounts

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {"last_run": self.last and self.last.as_dict(), "counts": vars(self.counts)}


def read_recorded(context: Context, name: str) -> Recorded | None:
    """Return what is recorded of the runs of an entry; None: runs are not recorded."""
    if not context.config.track_runs:
        return None
    runs = context.redis.runs
    newest = runs.history(name, 1)
    return Recorded(last=shown_run(context, newest[0]) if newest else None, counts=runs.counts(name))


def workers_report(context: Context) -> bool:
    """Return whether workers report runs; True also where none is expected: nothing is recorded, or little was sent."""
    if not context.config.track_runs:
        return True
    runs = context.redis.runs
    return runs.has_reported() or runs.totals().get("SENT", 0) < UNREPORTED
