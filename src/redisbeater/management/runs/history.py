"""The history of runs: records, newest first; one run; waiting for its end; its facts in words."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from statistics import median
from types import NoneType
from typing import Any

from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.display import did_you_mean, json_fields, json_form, quoted
from redisbeater.editing.stored_entry import stored_definition
from redisbeater.entry_name import check_name
from redisbeater.exceptions import (
    EntryNotFound,
    ImproperlyConfigured,
    InvalidEntry,
    RunNotFound,
    StoreError,
    StoreUnavailable,
    WrongType,
)
from redisbeater.log_lines import get_logger
from redisbeater.management.blanking import redacted_line, shown_run, shown_runs, shown_traceback
from redisbeater.management.long_read import long_read
from redisbeater.management.runs.results import FEWEST_FOR_USUAL, EntryResult
from redisbeater.model.incident import Incident
from redisbeater.model.log_line import LogLine
from redisbeater.model.passed_values import MOST_LISTED, check_id, check_number
from redisbeater.model.run import FINAL, STATES, Kind, Payload, Run, RunBrief, RunCounts, State, sentence_of
from redisbeater.redaction import redacted
from redisbeater.store import FoundRuns, Notifier, pages
from redisbeater.store.snapshot import version_of
from redisbeater.times import EPOCH, duration_words, relative_words, span_words

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The newest run of an entry, and the counts of its runs by outcome."""

    last: Run | None
    counts: RunCounts

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return json_form({"last_run": self.last, "counts": self.counts})


def read_recorded(context: Context, name: str) -> Recorded | None:
    """Return the newest run of an entry and its counts by outcome, or None if runs are not recorded."""
    if not context.config.track_runs:
        return None
    runs = context.redis.runs
    newest = runs.history(check_name(name), 1)
    return Recorded(last=shown_runs(context, newest)[0] if newest else None, counts=runs.counts(name))


def lateness(run: Run) -> timedelta | None:
    """Return how long after it was due a run was sent, or None if that is unknown or it has no fire time."""
    due_at = run.due_at or run.fire_time
    if run.kind is not Kind.SCHEDULE or run.sent_at is None or due_at is None:
        return None
    return max(run.sent_at - due_at, timedelta(0))


def late_words(late: timedelta) -> str:
    """Return how late a run was sent: ``0.04 s``, ``3 min 20 s``."""
    return f"{late.total_seconds():.2f} s" if late < timedelta(seconds=10) else duration_words(late, units=2)


def running_time(run: Run, now: datetime) -> timedelta | None:
    """Return how long a run took, or has taken so far, or None if it has not started."""
    if run.started_at is None:
        return None
    end = run.finished_at or (now if run.state is State.STARTED else run.seen_at)
    return None if end is None else max(end - run.started_at, timedelta(0))


def outcome_words(run: Run, now: datetime) -> str:
    """Return the state of a run with its duration and its worker: ``SUCCESS in 41.2 s on celery@w2``."""
    length = running_time(run, now)
    where = f" on {run.worker}" if run.worker else ""
    if run.state is State.STARTED:
        since = f", running for {span_words(length, units=2)}" if length is not None else ""
        return f"STARTED{where}{since}"
    if STATES[run.state].is_reported and length is not None:
        return f"{run.state} in {span_words(length)}{where}"
    return f"{run.state}{where}"


def end_words(run: Run, now: datetime) -> str:
    """Return how a run has ended, for the line of a command: its state, duration, worker and error."""
    detail = run.error or run.note
    return outcome_words(run, now) + (f": {detail}" if detail and STATES[run.state].tone != "good" else "")


def note_words(run: Run, now: datetime) -> str:
    """Return the notes on a run for a table that has its states and times."""
    return ", ".join(filter(None, _notes(run, now)))


def _notes(run: Run, now: datetime) -> Iterator[str]:
    if run.state is State.STARTED:
        yield f"seen {relative_words(run.seen_at, now)}" if run.seen_at else ""
    elif run.state not in FINAL or not (run.error or run.note):
        yield sentence_of(run)
    yield run.error
    yield run.note
    if run.state in FINAL and run.resend_at is not None:
        yield f"sent again {relative_words(run.resend_at, now)}" if run.resend_at > now else "to be sent again"
    yield "asked to stop" if run.is_to_stop and not run.is_final else ""
    yield _origin(run)
    yield f"{run.starts:,} executions" if run.starts > max(run.attempt, 1) else ""
    yield run.result


def _origin(run: Run) -> str:
    if run.kind is Kind.SCHEDULE:
        return ""
    by = f" by {run.by}" if run.by else ""
    return f"restart of {run.restart_of}{by}" if run.kind is Kind.RESTART else f"{run.kind}{by}"


def usual_seconds(runs: Sequence[Run]) -> float | None:
    """Return the median duration of runs that have succeeded; None where there are too few."""
    known = [run.took for run in runs if STATES[run.state].tone == "good" and run.took is not None]
    return median(known) if len(known) >= FEWEST_FOR_USUAL else None


def usually(runs: Sequence[Run]) -> str:
    """Return how long runs usually take, `` (usual: 40 s)``; empty where nobody knows."""
    seconds = usual_seconds(runs)
    if seconds is None:
        return ""
    length = timedelta(seconds=seconds)
    return f" (usual: {span_words(length) if seconds < 1 else duration_words(length)})"


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


def item_dict(item: Run | LogLine) -> dict[str, object]:
    """Return a run or a log line as a JSON object."""
    return {"type": "run" if isinstance(item, Run) else "log", **json_form(item)}


@long_read
def read_history(
    context: Context,
    name: str | None,
    *,
    limit: int,
    before: datetime | None = None,
    since: datetime | None,
    states: Collection[str],
    names: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> HistoryPage:
    """Return a page of the history; :meth:`redisbeater.ScheduleStore.history`.

    Without a name it may be that of several, by their ``names``, without log lines. ``progress`` is called with the
    number of entries whose runs were read.

    Raises:
        EntryNotFound: nothing is known of that name.
        ValueError: limit or states are not valid.
    """
    check_number("limit", limit)
    wanted = check_states(states)
    read = partial(_runs, context, name, names)
    runs = read(limit + 1, before, wanted, progress=progress)
    has_lines = names is None and (not wanted or "skipped" in states)
    lines = [] if not has_lines else _log_lines(context, name, before, only_skipped=bool(wanted))
    items: list[Run | LogLine] = [*lines, *runs]  # the line of a trigger follows its run, also within a microsecond
    found = sorted(items, key=moment_of, reverse=True)
    if since is not None:
        found = [item for item in found if moment_of(item) >= since]
    if name is not None and not found:
        check_known(context, name)
    if len(found) <= limit:
        return HistoryPage(items=tuple(found))
    last = moment_of(found[limit - 1])
    page = [item for item in found if moment_of(item) >= last]
    rest: Sequence[Run | LogLine] = found[len(page) :]
    if len(page) > limit:  # the next page begins before that moment: all of it is on this one
        here = {item.id for item in page if isinstance(item, Run)}
        page += [run for run in read(MOST_LISTED, None, wanted, at=last) if run.id not in here]
        rest = rest or read(1, last, wanted)
    is_last = not rest or (since is not None and moment_of(rest[0]) < since)
    return HistoryPage(items=tuple(page), before=None if is_last else last)


def end_of_history(context: Context, name: str, items: Sequence[Run | LogLine]) -> tuple[str, Incident | None]:
    """Say why the history of an entry ends there, where older runs were removed, or nothing of a whole one.

    The second part: an incident of it that is open and began before the oldest run that is kept.
    """
    limit, runs = context.config.run_history_limit, [item for item in items if isinstance(item, Run)]
    if not runs or context.redis.runs.number_kept(name) < limit:
        return "", None
    oldest = min(map(moment_of, runs))
    begun = [each for each in context.redis.incidents.open_of(name) if each.opened < oldest]
    return f"older runs are not kept ({limit:,} for each entry)", min(begun, key=lambda each: each.opened, default=None)


def check_known(context: Context, name: str) -> None:
    """Refuse a name of which neither an entry, a deleted one, a line of a log nor a run is known.

    Raises:
        EntryNotFound: it is one.
    """
    redis = context.redis
    is_there = redis.contents.origins([name])[name] is not None or redis.deleted.has(name)
    if not (is_there or redis.log.of_entry(name, 1) or newest_runs(context, [name], 1)[name]):
        raise EntryNotFound(name)


def newest_runs(context: Context, names: Sequence[str], limit: int) -> dict[str, list[RunBrief]]:
    """Return the newest runs of each entry in brief, the newest first; nothing where runs are not recorded."""
    found = context.redis.runs.briefs(names, limit) if context.config.track_runs else {}
    return {name: found.get(name, []) for name in names}


def read_hours(context: Context) -> dict[datetime, Counter[State]]:
    """Return how many runs ended in which state, by the hours of the last seven days; none where none are recorded."""
    return context.redis.runs.hours() if context.config.track_runs else {}


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
    """Return the time to sort an item by: when a run was sent, or when a log line happened last."""
    if isinstance(item, LogLine):
        return item.last or EPOCH
    return item.sent_at or item.started_at or item.finished_at or item.fire_time or EPOCH


#: Characters of the begin of an id by which runs are searched, and of a whole id: then one is there, or not.
LEAST_BEGIN, WHOLE_ID = 8, 36

#: How many runs an error names.
MOST_NAMED = 10


def is_begin(run_id: str) -> bool:
    """Tell whether runs are searched for by this begin of their ids, which takes up to a second."""
    return LEAST_BEGIN <= len(run_id) < WHOLE_ID


def ids_from(context: Context, begin: str, most: int) -> list[str]:
    """Return ids of runs that begin with a text, to complete it: with a short one only of those that go on."""
    runs = context.redis.runs
    if len(begin) >= LEAST_BEGIN:
        return list(runs.find(begin, most).ids)
    return [run_id for run_id in runs.active_ids(most) if run_id.startswith(begin)]


def run_events(context: Context) -> Notifier:
    """Return a listener for what happens to runs."""
    return context.redis.runs.events()


def read_run(context: Context, run_id: str) -> Run:
    """Return a run with its payload, by its id or by 8 or more characters of its begin.

    Raises:
        RunNotFound: none of that id is kept, or several may be meant.
        ImproperlyConfigured: runs are not recorded.
    """
    check_id("run_id", run_id, "a run")
    check_tracked(context)
    runs, begin = context.redis.runs, run_id.lower()
    for each in dict.fromkeys((run_id, begin)):
        if found := runs.run(each):
            return found
    searched = runs.find(begin, MOST_NAMED) if is_begin(begin) else FoundRuns()
    known = runs.many(searched.ids)
    if len(known) == 1 and searched.is_all and (found := runs.run(*known)):
        return found
    raise RunNotFound(run_id, _not_found(context, run_id, known, searched), runs=tuple(known))


def _not_found(context: Context, run_id: str, known: Mapping[str, Run], searched: FoundRuns) -> str:
    """Return why no run is meant by an id, or which ones may be."""
    is_cut = len(searched.ids) >= MOST_NAMED
    seen = "" if searched.is_all or is_cut else ", of what was seen in a second of searching"
    if known:
        several = "1 run begins" if len(known) == 1 else f"{len(known)}{' or more' if is_cut else ''} runs begin"
        named = "; ".join(f"{run.id} ({quoted(run.name)}, {run.state})" for run in known.values())
        return f"{several} with {quoted(run_id)}{seen}; pass the whole id: {named}"
    config = context.config
    kept = f"{duration_words(timedelta(seconds=config.run_retention))} after their end"
    hint = "" if len(run_id) >= LEAST_BEGIN else f"pass a whole id, or {LEAST_BEGIN} characters of its begin; "
    return (
        f"no run {quoted(run_id)} is kept{seen}; {hint}runs are kept for {kept}, of each entry the newest"
        f" {config.run_history_limit:,}"
    )


@dataclass(frozen=True, kw_only=True)
class RunDetails:
    """What is known of one run: its record, and all that belongs to it.

    Attributes:
        run: the run.
        args, kwargs: what it was sent with, without secrets; None: that is not known.
        arguments_note: why it is not known; else empty.
        queue: the queue that it was sent to; empty: not known.
        traceback: where its error was raised, in lines; empty: that is not kept.
        restarted_as: the ids of the runs that repeat it, the newest first; ``run.restart_of`` is the one that it
            repeats.
        before, after: the ids of the runs of its entry that were sent before and after it; empty: none is kept.
        entry: what became of the last runs of its entry; None: that is deleted.
    """

    run: Run
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    arguments_note: str
    queue: str
    traceback: str
    restarted_as: tuple[str, ...]
    before: str
    after: str
    entry: EntryResult | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, with the fields of the run beside the others."""
        return {**self.run.as_dict(), **json_fields(self, "run")}


def read_details(context: Context, run: Run, entry: EntryResult | None) -> RunDetails:
    """Return a run, which was read with its payload, with all that belongs to it and the result of its entry."""
    sent, note = _sent(context, run)
    shown = redacted({"args": sent.args, "kwargs": sent.kwargs}, context.config.redact, in_texts=True) if sent else {}
    before, after = context.redis.runs.beside(run)
    return RunDetails(
        run=shown_run(context, run),
        args=shown.get("args"),
        kwargs=shown.get("kwargs"),
        arguments_note=note,
        queue=run.queue or (_queue_of(context, sent.options) if sent else ""),
        traceback=shown_traceback(context, run),
        restarted_as=tuple(context.redis.runs.restarts_of(run)),
        before=before,
        after=after,
        entry=entry,
    )


def _sent(context: Context, run: Run) -> tuple[Payload | None, str]:
    """Return the payload of a run, as it is kept, or as its entry has it still; or None and why it is not known."""
    with suppress(InvalidEntry):  # none is kept, or another program wrote it
        return Payload.from_text(run.payload), ""
    snapshot = context.redis.load(run.name)
    if not snapshot.exists:
        return None, "not kept, and its entry is deleted"
    if not run.version or run.version != version_of(snapshot.definition):
        return None, "not kept, and its entry was changed since" if run.version else "not kept"
    with suppress(InvalidEntry):
        sent = stored_definition(snapshot, context.codec)
        return Payload(task=sent.task, args=sent.args, kwargs=sent.kwargs, options=sent.options), ""
    return None, "not kept, and its entry is broken"


def _queue_of(context: Context, options: Mapping[str, Any]) -> str:
    """Return the queue that options name, or the default one; empty where they name an exchange instead."""
    is_elsewhere = options.get("exchange") or options.get("routing_key")
    return str(options.get("queue") or ("" if is_elsewhere else context.app.conf.task_default_queue))


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
    names: Sequence[str] | None,
    limit: int,
    before: datetime | None,
    wanted: Collection[str],
    *,
    at: datetime | None = None,
    progress: Callable[[int], None] | None = None,
) -> Sequence[Run]:
    """Return the newest runs, or those of one moment; of one entry, of several, or of all."""
    if not context.config.track_runs:
        return ()
    states = [state for state in State if state.value in wanted]
    if wanted and not states:
        return ()
    store = context.redis.runs
    if name is not None:
        return shown_runs(context, store.history(name, limit, states=states, before=before, at=at))
    found: list[Run] = []
    read = 0
    for page in pages(sorted(context.redis.contents.names()) if names is None else names, PIECE):
        if states:
            newest = [run for each in page for run in store.history(each, limit, states=states, before=before, at=at)]
        else:
            newest = store.newest(page, limit, before, at)
        found = sorted((*found, *newest), key=moment_of, reverse=True)[:limit]
        read += len(page)
        if progress is not None:
            progress(read)
    return shown_runs(context, found)


def _log_lines(context: Context, name: str | None, before: datetime | None, *, only_skipped: bool) -> list[LogLine]:
    log = context.redis.log
    lines = log.of_schedule() if name is None else log.of_entry(name)
    return [
        redacted_line(context, line)
        for line in lines
        if line.last is not None
        and (before is None or line.last < before)
        and (not only_skipped or line.what == "skipped")
    ]


#: The longest time between two looks, as a message may be lost, and the shortest, as other runs end as well.
LONGEST_LOOK_SECONDS, SHORTEST_LOOK_SECONDS = 1.0, 0.05


def deadline_of(timeout: float | timedelta | None) -> float:
    """Return when a time-out is over by the monotonic clock, or infinity for None."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not isinstance(seconds, (int, float, NoneType)):
        raise WrongType("timeout", f"expected seconds, a timedelta or None, got {quoted(timeout)}")
    return math.inf if seconds is None else host_seconds() + seconds


def wait_for_end(
    context: Context, run_id: str, timeout: float | timedelta | None, progress: Callable[[Run], None] | None = None
) -> Run:
    """Wait until a run has ended, for ``timeout`` at most, and return it as it is then.

    It listens to the events of runs, and also reads the run each second. ``progress`` is called after each time. Once
    it has found the run, it outlasts an outage of Redis, such as a failover.

    Raises:
        RunNotFound: none of that id is kept.
        StoreUnavailable: Redis cannot be reached at the first look, or when the time is over.
    """
    check_tracked(context)
    deadline = deadline_of(timeout)
    events = context.redis.runs.events()
    try:
        with suppress(StoreError):
            events.listen()
        run = read_run(context, run_id)
        run_id = run.id
        while True:
            if progress is not None:
                progress(shown_run(context, run))
            left = deadline - host_seconds()
            if run.is_final or left <= 0:
                return shown_run(context, run)
            wait_for_event(events, min(left, LONGEST_LOOK_SECONDS))
            run = _read_again(context, run_id, deadline)
    finally:
        events.close()


def _read_again(context: Context, run_id: str, deadline: float) -> Run:
    """Read a run; while Redis cannot be reached, try again until the deadline."""
    is_first = True
    while True:
        try:
            return read_run(context, run_id)
        except StoreUnavailable as exc:
            wait_on(exc, run_id, deadline, is_first=is_first)
            is_first = False
            time.sleep(LONGEST_LOOK_SECONDS)


def wait_on(outage: StoreUnavailable, run_id: str, deadline: float, *, is_first: bool) -> None:
    """Log that a wait for a run goes on in an outage of Redis, such as a failover, the first time.

    Raises:
        StoreUnavailable: the deadline is over, and nobody knows whether the run has ended.
    """
    if host_seconds() >= deadline:
        raise outage
    if is_first:
        logger.warning("still waiting for the end of run %s: %s", run_id, outage)


def wait_for_event(events: Notifier, seconds: float) -> None:
    """Wait until a run has changed, ``seconds`` at most; a busy schedule cannot make the waits arbitrarily short."""
    until = host_seconds() + seconds
    try:
        events.wait(seconds)
        time.sleep(min(SHORTEST_LOOK_SECONDS, seconds))
    except StoreError:
        time.sleep(max(until - host_seconds(), 0))
