"""The history of an entry, or of the schedule: its runs and the lines of its log, the newest first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from redisbeater.context import Context
from redisbeater.display import did_you_mean, quoted
from redisbeater.exceptions import ImproperlyConfigured, RunNotFound
from redisbeater.management.blanking import redacted_line, shown_run
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import Run, RunBrief, State
from redisbeater.store import pages
from redisbeater.times import EPOCH

__all__ = (
    "MOST_RUNS",
    "HistoryPage",
    "check_states",
    "check_tracked",
    "newest_runs",
    "read_history",
    "read_run",
)

#: How many runs and lines are read at once.
MOST_RUNS = 10_000

#: Entries of which one step reads the newest runs.
PIECE = 500


@dataclass(frozen=True, kw_only=True)
class HistoryPage:
    """Runs and lines of a log, the newest first; iterating over it yields them.

    Attributes:
        items: each a :class:`~redisbeater.Run` or a line of the log.
        before: what gets the next page, as ``before``; None: this is the last one. What
            happened at one moment is on one page, which may be longer for that.
    """

    items: tuple[Run | LogLine, ...]
    before: datetime | None = None

    def __iter__(self) -> Iterator[Run | LogLine]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def read_history(
    context: Context,
    name: str | None,
    *,
    limit: int,
    before: datetime | None = None,
    since: datetime | None = None,
    states: Collection[str] = (),
    progress: Callable[[int], None] | None = None,
) -> HistoryPage:
    """Return a page of the history; :meth:`redisbeater.ScheduleStore.history`.

    ``progress`` is called with the number of entries whose runs were read, where no name is given.

    Raises:
        ValueError: limit or states are not valid.
    """
    if type(limit) is not int or not 1 <= limit <= MOST_RUNS:
        raise ValueError(f"limit: expected 1 to {MOST_RUNS}, got {limit}")
    wanted = check_states(states)
    runs = _runs(context, name, limit + 1, before, wanted, progress=progress)
    lines = [] if wanted and "skipped" not in states else _lines(context, name, before, only_skipped=bool(wanted))
    items: list[Run | LogLine] = [*runs, *lines]
    found = sorted(items, key=moment_of, reverse=True)
    if since is not None:
        found = [item for item in found if moment_of(item) >= since]
    if len(found) <= limit:
        return HistoryPage(items=tuple(found))
    last = moment_of(found[limit - 1])
    page = [item for item in found if moment_of(item) >= last]
    rest: Sequence[Run | LogLine] = found[len(page) :]
    if len(page) > limit:  # the next page begins before that moment: all of it is on this one
        here = {item.id for item in page if isinstance(item, Run)}
        page += [run for run in _runs(context, name, MOST_RUNS, None, wanted, at=last) if run.id not in here]
        rest = rest or _runs(context, name, 1, last, wanted)
    is_last = not rest or (since is not None and moment_of(rest[0]) < since)
    return HistoryPage(items=tuple(page), before=None if is_last else last)


def newest_runs(context: Context, names: Sequence[str], limit: int) -> dict[str, list[RunBrief]]:
    """Return the newest runs of each entry in brief, the newest first; nothing where runs are not recorded."""
    found = context.redis.runs.briefs(names, limit) if context.config.track_runs else {}
    return {name: found.get(name, []) for name in names}


def check_states(states: Collection[str]) -> frozenset[str]:
    """Return the states that a caller asks for; ``skipped`` stands for the lines about skipped fire times.

    Raises:
        ValueError: one of them is none.
    """
    known = (*map(str, State), "skipped")
    for state in states:
        if state not in known:
            raise ValueError(
                f"state: expected {', '.join(known)}, got {quoted(state)}{did_you_mean(str(state), known)}"
            )
    return frozenset(map(str, states))


def moment_of(item: Run | LogLine) -> datetime:
    """Return by which time an item is in order: when a run was sent, or the end of what a line is about."""
    if isinstance(item, LogLine):
        return item.last or EPOCH
    return item.sent_at or item.started_at or item.finished_at or item.fire_time or EPOCH


def read_run(context: Context, run_id: str) -> Run:
    """Return a run with its payload.

    Raises:
        RunNotFound: none of that id is kept.
        ImproperlyConfigured: runs are not recorded.
    """
    check_tracked(context)
    found = context.redis.runs.run(run_id)
    if found is None:
        raise RunNotFound(run_id)
    return found


def check_tracked(context: Context) -> None:
    """Refuse what needs records of runs where there are none.

    Raises:
        ImproperlyConfigured: ``redisbeater_track_runs`` is off.
    """
    if not context.config.track_runs:
        problem = "runs are not recorded; set it to True, and import redisbeater.runs in the workers"
        raise ImproperlyConfigured(f"redisbeater_track_runs = False: {problem}")


def _runs(
    context: Context,
    name: str | None,
    limit: int,
    before: datetime | None,
    wanted: Collection[str],
    *,
    at: datetime | None = None,
    progress: Callable[[int], None] | None = None,
) -> Sequence[Run]:
    """Return the newest runs, or those of one moment; of one entry, or of all."""
    if not context.config.track_runs:
        return ()
    states = [state for state in State if state.value in wanted]
    if wanted and not states:
        return ()
    store = context.redis.runs
    if name is not None:
        return [shown_run(context, run) for run in store.history(name, limit, states=states, before=before, at=at)]
    found: list[Run] = []
    read = 0
    for page in pages(sorted(context.redis.contents.names()), PIECE):
        if states:
            newest = [run for each in page for run in store.history(each, limit, states=states, before=before, at=at)]
        else:
            newest = store.newest(page, limit, before, at)
        found = sorted((*found, *newest), key=moment_of, reverse=True)[:limit]
        read += len(page)
        if progress is not None:
            progress(read)
    return [shown_run(context, run) for run in found]


def _lines(context: Context, name: str | None, before: datetime | None, *, only_skipped: bool) -> list[LogLine]:
    log = context.redis.log
    lines = log.of_schedule() if name is None else log.of_entry(name)
    return [
        redacted_line(context, line)
        for line in lines
        if line.last is not None
        and (before is None or line.last < before)
        and (not only_skipped or line.what == "skipped")
    ]
