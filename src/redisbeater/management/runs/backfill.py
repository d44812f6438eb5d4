"""Backfill: runs for the fire times of a span in the past, except for those that have run already."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.display import json_fields, quoted
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.exceptions import RunActive, StoreError, WrongType
from redisbeater.log_lines import get_logger
from redisbeater.management.runs.history import LONGEST_LOOK_SECONDS, wait_for_event
from redisbeater.management.runs.reserved import RunSender, SendRequest, send_run, triggered_run
from redisbeater.model.passed_values import MOST_LISTED
from redisbeater.model.policies import Overlap
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import FINAL, Kind, Span, State
from redisbeater.schedules.zones import in_zone

logger = get_logger(__name__)

#: Fire times of one backfill at most.
MOST_FIRE_TIMES = 10_000

#: Engine steps that finding them may take.
_STEPS = 20_000_000

_MICROSECOND = timedelta(microseconds=1)

#: How far the fire time before a span is looked for, one after the other: a day of seconds has 86,400.
_LOOKS_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=31), timedelta(days=366))

#: The states of runs that need no other one.
_DONE = frozenset(State) - FINAL | {State.SUCCESS}


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """The fire times of an entry in a span, and what becomes of them.

    Attributes:
        name: the name of the entry.
        fire_times: all of them, aware UTC, oldest first.
        done: those that have run already, or are running, as far as the history of the entry knows.
        sent: fire time -> the id of the run that was sent for it; empty in a dry run.
    """

    name: str
    fire_times: tuple[datetime, ...]
    done: frozenset[datetime] = frozenset()
    sent: dict[datetime, str] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[datetime, ...]:
        """The fire times without a run that has succeeded or is going on, as far as is known."""
        return tuple(each for each in self.fire_times if each not in self.done)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return json_fields(self)


def plan_backfill(context: Context, name: str, start: datetime, end: datetime) -> Backfill:
    """Return the fire times of an entry from one time to another, both included, and those that ran already.

    Raises:
        EntryNotFound, InvalidEntry: there is no such entry, or it is broken.
        ValueError: the span is empty, reaches into the future, or has more than 10,000 fire times.
    """
    first, last = _moment("start", start), _moment("end", end)
    stored = load(context, name)
    zone = stored.definition.zone(context.in_zone(stored.zone).zone)
    first, last = in_zone(first, zone), in_zone(last, zone)
    if not first <= last <= stored.now:
        problem = f"expected a span in the past, got {first.isoformat()} to {last.isoformat()}"
        raise ValueError(f"start, end: {problem}")
    fire_times: list[datetime] = []
    for fire_time in _fire_times(context, stored, first, last):
        if len(fire_times) == MOST_FIRE_TIMES:
            raise ValueError(
                f"start, end: more than {MOST_FIRE_TIMES:,} fire times of {quoted(name)}; take a part of it"
            )
        fire_times.append(fire_time)
    return Backfill(name=name, fire_times=tuple(fire_times), done=_done(context, name, fire_times))


def send_backfill(
    caller: RunSender,
    planned: Backfill,
    *,
    rate: float | None,
    overlap: Overlap | None,
    author: Author,
    progress: Callable[[int], None] | None,
) -> Backfill:
    """Send a run for each missing fire time, oldest first, and return what was sent.

    Where the overlap is any but ``allow``, each waits for the end of the one before it, and of any other of the entry.
    ``rate`` is how many are sent in a second at most. ``progress`` is called with the number of those that were sent.

    Raises:
        EntryNotFound, InvalidEntry, SendFailed: those before it were sent.
    """
    context = caller.context
    stored = load(context, planned.name)
    policy = ResolvedPolicy.of(stored.definition, context.defaults).overlap if overlap is None else overlap
    errand = SendRequest(
        author=author,
        overlap=Overlap.ALLOW if policy is Overlap.ALLOW else Overlap.SKIP,
        kind=Kind.BACKFILL,
        version=stored.version,
    )
    began, missing = host_seconds(), planned.missing
    before = dict(zip(planned.fire_times, (_before(context, stored, planned.fire_times), *planned.fire_times)))
    try:
        for number, fire_time in enumerate(missing):
            if rate is not None:
                time.sleep(max(began + number / rate - host_seconds(), 0))
            planned.sent[fire_time] = _send(caller, stored, fire_time, Span(before[fire_time]), errand)
            if progress is not None:
                progress(number + 1)
    finally:
        _log(context, planned, author)
    return planned


def _send(caller: RunSender, stored: StoredEntry, fire_time: datetime, span: Span, errand: SendRequest) -> str:
    """Send one run as soon as its overlap allows, and return its id."""
    context = caller.context
    events = context.redis.runs.events()
    try:
        while True:
            # Read again: the runs before may have taken hours, and a deadline counts from the send.
            present = replace(stored, now=context.redis.clock()[0])
            run = triggered_run(context, present, stored.definition, fire_time, span)
            try:
                send_run(caller, run, errand, present.now)
                return str(run.options["task_id"])
            except RunActive:
                wait_for_event(events, LONGEST_LOOK_SECONDS)
    finally:
        events.close()


def _before(context: Context, stored: StoredEntry, fire_times: Sequence[datetime]) -> datetime | None:
    """Return the fire time before the first of several, or None if there is none in the year before."""
    for span in _LOOKS_BACK if fire_times else ():
        first = fire_times[0]
        if found := list(_fire_times(context, stored, first - span, first - _MICROSECOND)):
            return found[-1]
    return None


def _fire_times(context: Context, stored: StoredEntry, first: datetime, last: datetime) -> Iterator[datetime]:
    """Yield the fire times of an entry in a span, by the phase that an interval has now."""
    policy = ResolvedPolicy.of(stored.definition, context.in_zone(stored.zone).defaults).afresh(_STEPS)
    table = policy.timetable
    after = first - _MICROSECOND
    every = table.period
    if every is None:
        yield from table.between(after, last)
        return
    known = stored.fire_time(policy) or stored.meta.last_run_at
    if known is None:
        return
    fire_time = known - ((known - after - _MICROSECOND) // every) * every
    while fire_time <= last:
        if table.includes(fire_time):
            yield fire_time
        fire_time += every


def _done(context: Context, name: str, fire_times: list[datetime]) -> frozenset[datetime]:
    if not context.config.track_runs:
        return frozenset()
    wanted = set(fire_times)
    runs = context.redis.runs.history(name, MOST_LISTED, states=_DONE)
    return frozenset(run.fire_time for run in runs if run.fire_time in wanted and run.fire_time is not None)


def _moment(name: str, given: Any) -> datetime:
    if not isinstance(given, datetime):
        raise WrongType(f"$.{name}", f"expected a datetime, got {type(given).__name__}")
    return given


def _log(context: Context, planned: Backfill, author: Author) -> None:
    if not planned.sent:
        return
    logger.info("entry %r: %d runs of past fire times sent", planned.name, len(planned.sent))
    span = {"first": min(planned.sent).isoformat(), "last": max(planned.sent).isoformat()}
    try:
        line = author.line("backfilled", runs=len(planned.sent), **span)
        context.redis.log.add_to_entry(planned.name, line)
    except StoreError as exc:
        logger.warning("entry %r was backfilled, but its log does not say so: %s", planned.name, exc)
