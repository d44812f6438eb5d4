"""The next runs of the whole schedule, in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import Any

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.editing.upcoming import UpcomingRun, runs_from
from redisbeater.store import Snapshot

__all__ = ("MOST_LISTED_RUNS", "ScheduledRun", "next_runs", "next_runs_of")

#: The most runs that are listed at once.
MOST_LISTED_RUNS = 10_000


@dataclass(frozen=True, kw_only=True)
class ScheduledRun(UpcomingRun):
    """One planned run, and the entry and the task that it is of."""

    name: str
    task: str

    def as_dict(self) -> dict[str, str]:
        """Return the fields as texts, for printing and JSON."""
        return {"name": self.name, "task": self.task, **super().as_dict()}


def next_runs(
    context: Context,
    *,
    within: timedelta | None = None,
    limit: int = 20,
    start: datetime | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[ScheduledRun]:
    """Return the next runs; :meth:`redisbeater.ScheduleStore.next`.

    Arguments:
        context: the app whose schedule it is.
        within: only runs that are due within this time from now, or from ``start``.
        limit: how many at most.
        start: only runs from this instant on.
        progress: called with the number of entries read so far, after each page.

    Raises:
        ValueError: an argument is not valid.
    """
    _check(within, limit)
    agenda = _Agenda(context, start, progress)
    begin = start or context.redis.clock()[0]
    end = None if within is None else begin + within
    found: list[ScheduledRun] = []
    for run in agenda.runs():
        if len(found) == limit or (end is not None and run.due_at > end):
            break
        found.append(run)
    return sorted(found, key=lambda run: (run.due_at, run.name))


def next_runs_of(
    context: Context, name: str, *, within: timedelta | None = None, limit: int = 5, start: datetime | None = None
) -> list[UpcomingRun]:
    """Return the next runs of one entry, with the arguments of :func:`next_runs`.

    Raises:
        EntryNotFound: there is none of that name.
        InvalidEntry: it is broken.
        ValueError: an argument is not valid.
    """
    _check(within, limit)
    stored = load(context, name)
    end = None if within is None else (start or stored.now) + within
    runs = runs_from(stored, context.in_zone(stored.zone).defaults, start)
    return list(islice(takewhile(lambda run: end is None or run.due_at <= end, runs), limit))


class _Agenda:
    """Merges the runs of all entries. An entry is read only when no run of those that were read comes before it."""

    def __init__(self, context: Context, start: datetime | None, progress: Callable[[int], None] | None) -> None:
        self._context = context
        self._start = start
        self._progress = progress
        self._pages = context.redis.contents.names_by_score()
        self._read = 0
        #: No entry that was not read yet is due before; None: all were read.
        self._frontier: datetime | None = datetime.min.replace(tzinfo=context.redis.clock()[0].tzinfo)
        self._waiting: list[tuple[datetime, str, int, ScheduledRun, Iterator[ScheduledRun]]] = []
        self._seen: set[str] = set()

    def runs(self) -> Iterator[ScheduledRun]:
        """Yield the runs, the next one first."""
        while True:
            while self._frontier is not None and not (self._waiting and self._waiting[0][0] <= self._frontier):
                self._read_page()
            if not self._waiting:
                return
            *_, run, following = heappop(self._waiting)
            self._add(following)
            yield run

    def _read_page(self) -> None:
        page = next(self._pages, [])
        names = [name for name in page if name not in self._seen]
        snapshots = self._context.redis.load_many(names)
        self._seen.update(names)
        times = [time for snapshot in snapshots if (time := _score_of(snapshot)) is not None]
        for snapshot in snapshots:
            self._add(self._runs_of(snapshot))
        # Dormant entries come last. A run that is asked for at a later time may be of an entry that is due before it.
        if not page or (names and not times):
            self._frontier = None
        elif times:
            self._frontier = min(self._start, max(times)) if self._start else max(times)
        self._read += len(names)
        if self._progress is not None:
            self._progress(self._read)

    def _add(self, runs: Iterator[ScheduledRun]) -> None:
        run = next(runs, None)
        if run is not None:
            heappush(self._waiting, (run.due_at, run.name, id(runs), run, runs))

    def _runs_of(self, snapshot: Snapshot) -> Iterator[ScheduledRun]:
        """Yield the runs of an entry; of one that is broken none."""
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.reader.codec)
            defaults = self._context.in_zone(stored.zone).defaults
            for run in runs_from(stored, defaults, self._start):
                yield ScheduledRun(**vars(run), name=snapshot.name, task=stored.definition.task)
        except Exception:  # a custom schedule is the application's code, and must not hide the other entries
            return


def _score_of(snapshot: Snapshot) -> datetime | None:
    score = snapshot.score
    return None if score is None or score.dormant else score.fire_time


def _check(within: Any, limit: Any) -> None:
    if within is not None and within < timedelta():
        raise ValueError(f"within: expected a time that is not negative, got {quoted(within)}")
    if type(limit) is not int or not 1 <= limit <= MOST_LISTED_RUNS:
        raise ValueError(f"limit: expected a whole number from 1 to {MOST_LISTED_RUNS}, got {quoted(limit)}")
