"""``Before``: what happened before an entry began to fail, which says nothing about why it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.management.blanking import redacted_line
from redisbeater.management.why.facts import kind_words, line_words
from redisbeater.model.incident import FAILED, GAP, KINDS
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import RunBrief, State
from redisbeater.times import FAR_FUTURE, from_iso, span_words

#: Lines of a log that are read.
MOST_LINES = 100

#: How long before the first failure something is said in words, and how many things are.
NEAR, MOST_NEAR = timedelta(minutes=15), 4

#: Entries that begin to fail within this time of each other did so together, and how many of them are named.
TOGETHER, MOST_NAMED = timedelta(seconds=30), 50

#: Without a leader for less than this one beat has taken over from another.
TAKEN_OVER = timedelta(seconds=5)

#: Words of the log of the schedule about what was away, what they are in a picture, and what it was.
_AWAY = {"redis_away": ("no Redis", "Redis"), "broker_away": ("no broker", "the broker")}

TimeWords = Callable[[datetime], str]


class Event(NamedTuple):
    """Something that happened to an entry, to its schedule, or to a worker.

    Attributes:
        kind: ``change``, ``release``, ``incident``, ``pause``, ``gap``, ``beat`` or ``worker``.
        begin, end: when, aware UTC; the end of one that goes on is far away.
        label: a few words for a picture.
        text: the whole of it in words.
        run: the id of the run that tells it; empty: a log does.
    """

    kind: str
    begin: datetime
    end: datetime
    label: str
    text: str
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class Before:
    """What happened before an entry began to fail, and since.

    Attributes:
        events: all that is known, the newest first.
        since: when the first of its failures in a row ended; None: its last run has not failed, or it is not known.
        near: of each kind of event the nearest one that was at most 15 minutes before, the nearest first.
        together: other entries that began to fail within half a minute, 50 at most.
        known_from: since when the log of the schedule is known; None: it has no line that was dropped.
    """

    events: Sequence[Event]
    since: datetime | None
    near: Sequence[Event]
    together: Sequence[str]
    known_from: datetime | None


def read_before(
    context: Context, name: str, runs: Sequence[RunBrief], since: datetime | None, time_words: TimeWords
) -> Before:
    """Return the events before an entry began to fail.

    Arguments:
        context: the app whose schedule it is.
        name: the entry.
        runs: its newest runs.
        since: since when it fails; None: it does not.
        time_words: says a time that is a detail of a line of a log.
    """
    of_entry = [redacted_line(context, line) for line in context.redis.log.of_entry(name, MOST_LINES)]
    of_schedule = [redacted_line(context, line) for line in context.redis.log.of_schedule(MOST_LINES)]
    events = [
        *_changes(of_entry, time_words),
        *_of_schedule(of_schedule, time_words),
        *_incidents(of_entry),
        *_incidents(of_schedule),
        *_releases(context.redis.incidents.releases(), of_schedule),
        *_lost(runs),
    ]
    events.sort(key=lambda event: event.begin, reverse=True)
    together = context.redis.runs.began_to_fail(since - TOGETHER, since + TOGETHER, MOST_NAMED) if since else ()
    return Before(
        events=events,
        since=since,
        near=near(events, since) if since else (),
        together=[each for each in together if each != name],
        known_from=of_schedule[-1].last if len(of_schedule) == MOST_LINES else None,
    )


def near(events: Iterable[Event], since: datetime) -> list[Event]:
    """Return of each kind of event the nearest one that began before a moment, and ended 15 minutes before at most."""
    nearest: dict[str, Event] = {}
    for event in sorted(events, key=lambda event: min(event.end, since), reverse=True):
        if event.begin <= since and event.end >= since - NEAR:
            nearest.setdefault(event.kind, event)
    return list(nearest.values())[:MOST_NEAR]


def _changes(lines: Iterable[LogLine], time_words: TimeWords) -> Iterator[Event]:
    for line in lines:
        if line.is_change and line.last is not None:
            by = str(line.details.get("by", "")).partition("@")[0]
            label = f"{line.what} by {by}" if by else line.what
            yield Event("change", line.first or line.last, line.last, label, line_words(line, time_words))


def _of_schedule(lines: Sequence[LogLine], time_words: TimeWords) -> Iterator[Event]:
    """Yield the pauses, outages and leaders in the log of the schedule, which is passed the newest line first."""
    resumed = led = FAR_FUTURE
    gaps = [line for line in lines if line.what == "gap"]
    for line in lines:
        if (at := line.last) is None:
            continue
        if line.what in _AWAY:
            label, what = _AWAY[line.what]
            text = f"{what} was away for {span_words(at - (line.first or at))}: {shown(line.details.get('error', ''))}"
            yield Event("gap", line.first or at, at, label, text)
        elif line.what == "gap":
            yield Event("gap", line.first or at, at, "no beat", shown(line.details.get("why", "no run was sent")))
        elif line.what == "resumed":
            resumed = at
        elif line.what == "paused":
            until = from_iso(line.details.get("until")) or FAR_FUTURE  # such a pause ends without a line
            yield Event("pause", at, min(resumed, until), "paused", line_words(line, time_words))
        elif line.what == "worker_gone":
            worker = shown(line.details.get("worker", "a worker"))
            yield Event("worker", at, at, f"{worker} gone", f"{worker} had not reported for a minute")
        elif line.what == "leading":
            yield Event(
                "beat", at, at, "a beat began to lead", f"beat {shown(line.details.get('beat', ''))} began to lead"
            )
            led = at
        elif line.what in ("stopped_leading", "lock_lost"):
            if led - at > TAKEN_OVER and not any(gap.overlaps(at, led) for gap in gaps):
                yield Event("gap", at, led, "no beat", "no beat led")
            led = at


def _incidents(lines: Iterable[LogLine]) -> Iterator[Event]:
    """Yield the incidents in a log, which is passed the newest line first; that an entry fails still is no event."""
    ends: dict[str, datetime] = {}
    for line in lines:
        kind, why = str(line.details.get("kind", "")), str(line.details.get("why", ""))
        which = str(line.details.get("id", kind))
        if line.last is None or kind == GAP:  # the log has a line of the gap itself
            continue
        if line.what in ("incident_closed", "incident_acknowledged"):
            if line.what == "incident_closed" or (kind in KINDS and KINDS[kind].ends_when_acknowledged):
                ends[which] = line.last
        elif line.what == "incident_opened" and (which in ends or kind != FAILED):
            text = f"incident {kind_words(kind, why)}"
            yield Event("incident", line.first or line.last, ends.pop(which, FAR_FUTURE), shown(kind), text)


def _releases(releases: Mapping[str, datetime], lines: Iterable[LogLine]) -> Iterator[Event]:
    """Yield the releases of the code of workers, with who has reported them first where the log knows that."""
    workers = {str(each.details.get("release")): each.details.get("worker") for each in lines if each.what == "release"}
    for release, at in releases.items():
        by = shown(workers.get(release) or "workers")
        yield Event("release", at, at, f"release {shown(release)}", f"release {shown(release)}, first reported by {by}")


def _lost(runs: Iterable[RunBrief]) -> Iterator[Event]:
    for run in runs:
        if run.state is State.LOST and run.started_at and (at := run.finished_at or run.started_at):
            yield Event("worker", at, at, "worker lost", "a worker was lost that had started a run", run.id)
