"""The catalogue of metrics: names, kinds, labels and meanings. Alerts and dashboard are checked against it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ("CATALOGUE", "PREFIX", "Entry", "Kind", "series_names")

#: What the name of each metric begins with.
PREFIX = "redisbeater_"


class Kind(Enum):
    """What a number does: it grows, it has a value now, or it counts values by their size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A metric: ``labels`` besides ``schedule``, which each one has."""

    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    #: Whether beats that lead read it from Redis, so that it is not to be added up; others are each beat's own.
    is_shared: bool = False


def _own(kind: Kind, meaning: str, *labels: str) -> Entry:
    return Entry(kind=kind, meaning=meaning, labels=labels)


def _shared(kind: Kind, meaning: str, *labels: str) -> Entry:
    return Entry(kind=kind, meaning=meaning, labels=labels, is_shared=True)


#: Name, without ``redisbeater_`` and without the ``_total`` of counters, -> what it is.
CATALOGUE = {
    "dispatched": _own(Kind.COUNTER, "Runs that the broker has accepted.", "task", "kind"),
    "refused": _own(Kind.COUNTER, "Tries to send that were not accepted.", "reason"),
    "skipped": _own(Kind.COUNTER, "Fire times that were not run.", "reason"),
    "lateness_seconds": _own(Kind.HISTOGRAM, "From the time a run was due until the broker had accepted it."),
    "claims": _own(Kind.COUNTER, "Claims of due entries.", "outcome"),
    "claimed_entries": _own(Kind.COUNTER, "Entries that were claimed."),
    "fenced": _own(Kind.COUNTER, "Commits that came after the lease of their claim."),
    "pass_seconds": _own(Kind.HISTOGRAM, "Time of a pass, without its wait."),
    "last_pass_timestamp_seconds": _own(Kind.GAUGE, "When the last pass ended, by the clock of the host."),
    "leader": _own(Kind.GAUGE, "1: this beat leads, 0: it does not; absent without a lock."),
    "lead_changes": _own(Kind.COUNTER, "Times that this beat began to lead, to stand by, or lost the lock.", "to"),
    "redis_up": _own(Kind.GAUGE, "1: Redis answered the last pass."),
    "broker_up": _own(Kind.GAUGE, "1: the broker accepts runs, as far as is known."),
    "redis_errors": _own(Kind.COUNTER, "Requests to Redis that failed.", "kind"),
    "clock_offset_seconds": _own(Kind.GAUGE, "Clock of the host minus clock of Redis."),
    "wakeups": _own(Kind.COUNTER, "Ends of waits.", "by"),
    "info": _own(Kind.GAUGE, "Always 1.", "version", "celery", "prefix", "server"),
    "entries": _shared(Kind.GAUGE, "Entries by state; each one has one state.", "state"),
    "overdue_entries": _shared(Kind.GAUGE, "Entries that are due and have not run."),
    "oldest_overdue_seconds": _shared(Kind.GAUGE, "Since when the oldest of them has been due; 0 without one."),
    "paused": _shared(Kind.GAUGE, "1: the schedule is paused."),
    "beats": _shared(Kind.GAUGE, "Beats that were seen within a minute.", "role"),
    "runs": _shared(Kind.COUNTER, "Runs that have ended.", "state", "task"),
    "runs_active": _shared(Kind.GAUGE, "Runs that were sent and have not ended."),
    "runs_waiting": _shared(Kind.GAUGE, "Runs that wait for beat to send them."),
    "run_seconds": _shared(Kind.HISTOGRAM, "Time from start to end of a run.", "task"),
    "entry_next_timestamp_seconds": _shared(Kind.GAUGE, "Next fire time of an entry.", "entry", "task"),
    "entry_last_timestamp_seconds": _shared(Kind.GAUGE, "Last fire time of an entry that was run.", "entry", "task"),
    "entry_failures": _shared(Kind.GAUGE, "Failures of an entry in a row.", "entry", "task"),
    "entries_without_metrics": _shared(Kind.GAUGE, "Entries that match, and are too many to have metrics."),
}


def series_names(name: str) -> tuple[str, ...]:
    """Return the full names of the series of a metric, as a monitor stores them."""
    full = f"{PREFIX}{name}"
    endings = {Kind.COUNTER: ("_total",), Kind.GAUGE: ("",), Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
    return tuple(full + ending for ending in endings[CATALOGUE[name].kind])
