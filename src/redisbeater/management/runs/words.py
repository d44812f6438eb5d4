"""Runs in words: how late, how long, where, and what else is to be said of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from statistics import median

from redisbeater.model.run import Kind, Run, State
from redisbeater.times import duration_words, relative_words, span_words

__all__ = ("end_words", "late_words", "lateness", "note_words", "outcome_words", "took", "usual_seconds", "usually")

#: How many runs tell how long one usually takes.
FEWEST_FOR_USUAL = 3


def lateness(run: Run) -> timedelta | None:
    """Return how long after its fire time a run was sent; None: not known, or it has no fire time of its schedule."""
    if run.kind is not Kind.SCHEDULE or run.sent_at is None or run.fire_time is None:
        return None
    return max(run.sent_at - run.fire_time, timedelta(0))


def late_words(late: timedelta) -> str:
    """Return how late a run was sent: ``0.04 s``, ``3 min 20 s``."""
    return f"{late.total_seconds():.2f} s" if late < timedelta(seconds=10) else duration_words(late, units=2)


def took(run: Run, now: datetime) -> timedelta | None:
    """Return how long a run took, or how long it has been executed so far; None: it has not started."""
    if run.started_at is None:
        return None
    end = run.finished_at or (now if run.state is State.STARTED else run.seen_at)
    return None if end is None else max(end - run.started_at, timedelta(0))


def outcome_words(run: Run, now: datetime) -> str:
    """Return the state of a run with its duration and its worker: ``SUCCESS in 41.2 s on celery@w2``."""
    length = took(run, now)
    where = f" on {run.worker}" if run.worker else ""
    if run.state is State.STARTED:
        since = f", running for {span_words(length, units=2)}" if length is not None else ""
        return f"STARTED{where}{since}"
    if run.state in (State.SUCCESS, State.FAILURE) and length is not None:
        return f"{run.state} in {span_words(length)}{where}"
    return f"{run.state}{where}"


def end_words(run: Run, now: datetime) -> str:
    """Return how a run has ended, for the line of a command: its state, duration, worker and error."""
    detail = run.error or run.note
    return outcome_words(run, now) + (f": {detail}" if detail and run.state is not State.SUCCESS else "")


def note_words(run: Run, now: datetime) -> str:
    """Return what a table of runs says of one besides its states and times."""
    return ", ".join(filter(None, _notes(run, now)))


def _notes(run: Run, now: datetime) -> Iterator[str]:
    if run.state is State.STARTED:
        yield f"seen {relative_words(run.seen_at, now)}" if run.seen_at else ""
    elif run.state is State.BUFFERED:
        yield "waits for the run before it"
    elif run.state in (State.SENT, State.RETRY):
        yield "no worker has reported its start" if run.state is State.SENT else "to be tried again"
    yield run.error
    yield run.note
    if run.state is State.LOST and run.resend_at is not None:
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
    known = [run.took for run in runs if run.state is State.SUCCESS and run.took is not None]
    return median(known) if len(known) >= FEWEST_FOR_USUAL else None


def usually(runs: Sequence[Run]) -> str:
    """Return how long runs usually take, `` (usual: 40 s)``; empty where nobody knows."""
    seconds = usual_seconds(runs)
    if seconds is None:
        return ""
    length = timedelta(seconds=seconds)
    return f" (usual: {span_words(length) if seconds < 1 else duration_words(length)})"
