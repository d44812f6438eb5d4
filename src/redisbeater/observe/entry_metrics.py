"""The metrics of single entries, for those whose names an operator has listed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from redisbeater.context import Context
from redisbeater.model.meta import Meta
from redisbeater.store import Snapshot

__all__ = ("EntryMetrics", "EntryNumbers")

#: How many entries have metrics of their own.
MOST_ENTRIES = 1000

#: Seconds for which the list of names that match is kept: finding them reads the names of the whole schedule.
NAMES_KEPT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class EntryNumbers:
    """The numbers of one entry; times are UNIX seconds, None: there is none.

    ``failures``: how many of its runs have failed in a row, and how often its next one could not be sent.
    """

    name: str
    task: str
    next_timestamp_seconds: float | None
    last_timestamp_seconds: float | None
    failures: float


class EntryMetrics:
    """Reads the entries that ``redisbeater_metrics_entries`` names.

    Attributes:
        left_out: about how many match and have no metrics, because there are too many.
    """

    def __init__(self, context: Context) -> None:
        self.patterns = context.config.metrics_entries
        self._context = context
        self.left_out = 0
        self._names: list[str] = []
        self._listed_at = float("-inf")

    def read(self) -> list[EntryNumbers]:
        """Return the numbers of the entries that match, in the order of their names."""
        if time.monotonic() >= self._listed_at + NAMES_KEPT_SECONDS:
            self._names, self._listed_at = self._find_names(), time.monotonic()
        found = self._context.redis.load_many(self._names)
        return [self._numbers(snapshot) for snapshot in found if snapshot.exists]

    def _find_names(self) -> list[str]:
        contents = self._context.redis.contents
        found = [contents.names_like(pattern, MOST_ENTRIES) for pattern in self.patterns]
        names = sorted({name for first, _ in found for name in first})
        beyond = sum(number - len(first) for first, number in found)  # several patterns may count one twice
        self.left_out = max(len(names) - MOST_ENTRIES, 0) + beyond
        return names[:MOST_ENTRIES]

    def _numbers(self, snapshot: Snapshot) -> EntryNumbers:
        score = snapshot.score
        next_time = score.fire_time if score is not None and not score.dormant else None
        try:
            definition, _ = self._context.reader.read(snapshot.name, snapshot.definition)
            last = Meta.from_text(snapshot.meta, snapshot.recorded_run).last_run_at
            task = definition.task
        except Exception:  # it is broken, or a custom schedule raises: the entry is still there
            last, task = None, ""
        return EntryNumbers(
            name=snapshot.name,
            task=task,
            next_timestamp_seconds=next_time.timestamp() if next_time else None,
            last_timestamp_seconds=last.timestamp() if last else None,
            failures=_whole(snapshot.failures) + (_whole(snapshot.tries) if snapshot.is_failing else 0),
        )


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else 0
