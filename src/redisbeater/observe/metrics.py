"""The metrics of a schedule for Prometheus, and the catalogue of all metrics.

This module needs ``prometheus_client``, the extra ``metrics``; others import it where they need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.exceptions import InvalidEntry, StoreError
from redisbeater.health.verdict import Question
from redisbeater.log_lines import get_logger
from redisbeater.model.beat_line import BeatLine
from redisbeater.model.incident import KINDS as INCIDENT_KINDS
from redisbeater.model.meta import Meta
from redisbeater.model.run import FINAL, read_count
from redisbeater.sending.counts import Histogram
from redisbeater.store import Snapshot
from redisbeater.store.measures import Measured

logger = get_logger(__name__)


#: What the name of each metric begins with.
PREFIX = "redisbeater_"


class MetricKind(Enum):
    """What a number does: it grows, it has a value now, or it counts values by their size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A metric: ``labels`` besides ``schedule``, which each one has."""

    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()
    #: Whether beats that lead read it from Redis, so that it is not to be added up; others are each beat's own.
    is_shared: bool = False


def _own(kind: MetricKind, meaning: str, *labels: str) -> CatalogueEntry:
    return CatalogueEntry(kind=kind, meaning=meaning, labels=labels)


def _shared(kind: MetricKind, meaning: str, *labels: str) -> CatalogueEntry:
    return CatalogueEntry(kind=kind, meaning=meaning, labels=labels, is_shared=True)


#: Name, without ``redisbeater_`` and without the ``_total`` of counters, -> what it is.
CATALOGUE = {
    "dispatched": _own(MetricKind.COUNTER, "Runs that the broker has accepted.", "task", "kind"),
    "refused": _own(MetricKind.COUNTER, "Tries to send that were not accepted.", "reason"),
    "skipped": _own(MetricKind.COUNTER, "Fire times that were not run.", "reason"),
    "lateness_seconds": _own(MetricKind.HISTOGRAM, "From the time a run was due until the broker had accepted it."),
    "claims": _own(MetricKind.COUNTER, "Claims of due entries.", "outcome"),
    "claimed_entries": _own(MetricKind.COUNTER, "Entries that were claimed."),
    "fenced": _own(MetricKind.COUNTER, "Commits that came after the lease of their claim."),
    "delays_sent": _own(MetricKind.COUNTER, "Delays that the broker has accepted."),
    "pass_seconds": _own(MetricKind.HISTOGRAM, "Time of a pass, without its wait."),
    "last_pass_timestamp_seconds": _own(MetricKind.GAUGE, "When the last pass ended, by the clock of the host."),
    "leader": _own(MetricKind.GAUGE, "1: this beat leads, 0: it does not; absent without a lock."),
    "lead_changes": _own(
        MetricKind.COUNTER, "Times that this beat began to lead, to stand by, or lost the lock.", "to"
    ),
    "redis_up": _own(MetricKind.GAUGE, "1: Redis answered the last pass."),
    "broker_up": _own(MetricKind.GAUGE, "1: the broker accepts runs, as far as is known."),
    "redis_errors": _own(MetricKind.COUNTER, "Requests to Redis that failed.", "kind"),
    "clock_offset_seconds": _own(MetricKind.GAUGE, "Clock of the host minus clock of Redis."),
    "wakeups": _own(MetricKind.COUNTER, "Ends of waits.", "by"),
    "incidents_opened": _own(MetricKind.COUNTER, "Incidents that this beat has opened.", "kind"),
    "messages": _own(MetricKind.COUNTER, "Messages about incidents, one for each receiver.", "outcome"),
    "info": _own(MetricKind.GAUGE, "Always 1.", "version", "celery", "prefix", "server"),
    "entries": _shared(MetricKind.GAUGE, "Entries by state; each one has one state.", "state"),
    "overdue_entries": _shared(MetricKind.GAUGE, "Entries that are due and have not run."),
    "oldest_overdue_seconds": _shared(MetricKind.GAUGE, "Since when the oldest of them has been due; 0 without one."),
    "paused": _shared(MetricKind.GAUGE, "1: the schedule is paused."),
    "beats": _shared(MetricKind.GAUGE, "Beats that were seen within a minute.", "role"),
    "runs": _shared(MetricKind.COUNTER, "Runs that have ended.", "state", "task"),
    "runs_active": _shared(MetricKind.GAUGE, "Runs that were sent and have not ended."),
    "runs_waiting": _shared(MetricKind.GAUGE, "Runs that wait for beat to send them."),
    "runs_unstarted": _shared(MetricKind.GAUGE, "Runs that no worker has started for half a minute."),
    "entry_results": _shared(
        MetricKind.GAUGE, "Entries of which the last run failed, or at least 3 of the last 30.", "result"
    ),
    "incidents": _shared(MetricKind.GAUGE, "Incidents that are open and that nobody has acknowledged.", "kind"),
    "delays": _shared(MetricKind.GAUGE, "Delays that wait; of these, how many are late, or failing.", "state"),
    "delays_oldest_late_seconds": _shared(MetricKind.GAUGE, "Since when the oldest has been due; 0 without one."),
    "run_seconds": _shared(MetricKind.HISTOGRAM, "Time from start to end of a run.", "task"),
    "runs_due": _shared(MetricKind.GAUGE, "Runs that are due soon.", "queue", "within"),
    "entry_next_timestamp_seconds": _shared(MetricKind.GAUGE, "Next fire time of an entry.", "entry", "task"),
    "entry_last_timestamp_seconds": _shared(
        MetricKind.GAUGE, "Last fire time of an entry that was run.", "entry", "task"
    ),
    "entry_failures": _shared(MetricKind.GAUGE, "Failures of an entry in a row.", "entry", "task"),
    "entries_without_metrics": _shared(MetricKind.GAUGE, "Entries that match, and are too many to have metrics."),
}


#: Seconds for which the value is used again: monitors ask every fifteen, and there may be two of them.
FRESH_SECONDS = 14.0

#: Seconds that Redis has for its answer; a monitor that waits much longer loses the beat's own numbers, too.
ANSWER_SECONDS = 2.0

T = TypeVar("T")


class Reading(Generic[T]):
    """A value that is read from Redis, and kept for a few seconds.

    Arguments:
        read: reads the value.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._value: T | None = None
        self._read_at = float("-inf")

    def get(self) -> T | None:
        """Return the value; None if Redis does not answer within two seconds, or refuses."""
        with self._lock:
            if time.monotonic() < self._read_at + FRESH_SECONDS:
                return self._value
            try:
                self._value = Question(self._read).answer(ANSWER_SECONDS)
            except StoreError as exc:
                logger.debug("Redis was not read for metrics: %s", exc)
                self._value = None
            self._read_at = float("-inf") if self._value is None else time.monotonic()
            return self._value

    def drop(self) -> None:
        """Forget the value: another beat leads, and reads it."""
        self._value, self._read_at = None, float("-inf")


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
        except InvalidEntry:  # it is still there
            last, task = None, ""
        return EntryNumbers(
            name=snapshot.name,
            task=task,
            next_timestamp_seconds=next_time.timestamp() if next_time else None,
            last_timestamp_seconds=last.timestamp() if last else None,
            failures=read_count(snapshot.failures) + (read_count(snapshot.tries) if snapshot.is_failing else 0),
        )


#: Upper bounds of the buckets of durations, in seconds, as the script that ends a run counts them.
RUN_BOUNDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

#: What a field of a bucket begins with: its bound follows, and the task. The sum of a task is in milliseconds.
BUCKET, MILLISECONDS = "<=", "ms"


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """How many runs ended how, by state and task, and how long they took, by task."""

    states: dict[tuple[str, ...], float]
    durations: dict[tuple[str, ...], Histogram]

    @classmethod
    def read(cls, totals: Mapping[str, str]) -> RunTotals:
        """Read the fields of ``P:totals``; what another program wrote there is left out."""
        found = cls(states={}, durations={})
        for field, text in totals.items():
            what, blank, task = field.partition(" ")
            if blank and (number := read_count(text)):
                found._add(what, task, number)
        return found

    def _add(self, what: str, task: str, number: int) -> None:
        if what in FINAL:
            for state in FINAL:  # a counter that begins at 1 has not grown, for a monitor
                self.states.setdefault((state.value, task), 0)
            self.states[what, task] = number
        elif what == MILLISECONDS:
            self._durations_of(task).sum = number / 1000
        elif what.startswith(BUCKET) and (place := _PLACES.get(what.removeprefix(BUCKET))) is not None:
            self._durations_of(task).counts[place] = number

    def _durations_of(self, task: str) -> Histogram:
        return self.durations.setdefault((task,), Histogram(RUN_BOUNDS))


_PLACES = {bound: place for place, bound in enumerate([*(f"{bound:g}" for bound in RUN_BOUNDS), "+Inf"])}


#: The text format of Prometheus that every version reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Characters of a label. The name of an entry has at most 512 bytes; that of a task may be any text.
MOST_LABEL_CHARACTERS = 1000

#: What is counted of delays.
DELAY_STATES = ("waiting", "late", "failing")

#: The roles of beats.
ROLES = ("leader", "active", "standby", "paused")


def create_schedule_registry(context: Context) -> CollectorRegistry:
    """Return a registry that reads the metrics of a schedule that a leading beat has, for a process that is no beat."""
    registry = CollectorRegistry()
    registry.register(ScheduleCollector(context))
    return registry


def exposition_of(registry: CollectorRegistry) -> bytes:
    """Return the metrics of a registry as the body of the answer to a scrape, of the type ``CONTENT_TYPE``."""
    return generate_latest(registry)


class ScheduleCollector(Collector):
    """Reads the metrics of a schedule.

    Arguments:
        context: the schedule.
    """

    def __init__(self, context: Context) -> None:
        self.schedule = context.config.key_prefix
        self.measured = Reading(context.redis.measures.read)
        self._entries = EntryMetrics(context)
        self.of_entries = Reading(self._entries.read)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what is collected needs no check for names that are taken."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what Redis says of the schedule; nothing where it does not answer in time."""
        measured = self.measured.get()
        if measured is None:
            return
        yield from self._of_schedule(measured)
        yield from self._of_runs(measured)
        if self._entries.patterns:
            yield from self._of_single_entries()

    def _of_schedule(self, measured: Measured) -> Iterator[Metric]:
        states = {state: getattr(measured, state) for state in ("waiting", "dormant", "broken", "failing")}
        yield self.family("entries", by_one(states))
        yield self.family("overdue_entries", {(): measured.overdue})
        yield self.family("oldest_overdue_seconds", {(): measured.oldest_overdue})
        yield self.family("paused", {(): measured.pause is not None})
        lines = (BeatLine.from_text(token, text) for token, text in measured.beats.items())
        roles = [line.role for line in lines if line is not None]
        yield self.family("beats", {(role,): roles.count(role) for role in ROLES})
        yield self.family("runs_active", {(): measured.active})
        yield self.family("runs_waiting", {(): measured.resend})
        yield self.family("runs_unstarted", {(): measured.unstarted})
        yield self.family("incidents", by_one({**dict.fromkeys(INCIDENT_KINDS, 0), **measured.news}))
        if (delays := measured.delays) is not None:
            yield self.family("delays", by_one({state: getattr(delays, state) for state in DELAY_STATES}))
            late = measured.now - delays.next if delays.next else timedelta(0)
            yield self.family("delays_oldest_late_seconds", {(): max(late.total_seconds(), 0.0)})
        yield self.family("entry_results", by_one({"failed": measured.failed, "unstable": measured.unstable}))

    def _of_runs(self, measured: Measured) -> Iterator[Metric]:
        totals = RunTotals.read(measured.totals)
        yield self.family("runs", totals.states)
        yield self.histogram("run_seconds", totals.durations)

    def _of_single_entries(self) -> Iterator[Metric]:
        found = self.of_entries.get() or ()
        for name in ("next_timestamp_seconds", "last_timestamp_seconds", "failures"):
            values = {(each.name, each.task): getattr(each, name) for each in found}
            yield self.family(f"entry_{name}", {key: value for key, value in values.items() if value is not None})
        yield self.family("entries_without_metrics", {(): self._entries.left_out})

    # Families

    def family(self, name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
        """Return a metric of the catalogue with its values by their labels."""
        entry = CATALOGUE[name]
        make = CounterMetricFamily if entry.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = make(f"{PREFIX}{name}", entry.meaning, labels=["schedule", *entry.labels])
        merged: dict[tuple[str, ...], float] = {}
        for raw, value in values.items():
            labels = tuple(map(_label, raw))
            merged[labels] = merged.get(labels, 0.0) + value
        for labels, value in merged.items():
            family.add_metric([self.schedule, *labels], value)
        return family

    def histogram(self, name: str, values: Mapping[tuple[str, ...], Histogram]) -> Metric:
        """Return a histogram of the catalogue with what was counted by its labels."""
        entry = CATALOGUE[name]
        family = HistogramMetricFamily(f"{PREFIX}{name}", entry.meaning, labels=["schedule", *entry.labels])
        merged: dict[tuple[str, ...], Histogram] = {}
        for raw, found in values.items():
            labels = tuple(map(_label, raw))
            merged[labels] = merged[labels].plus(found) if labels in merged else found
        for labels, found in merged.items():
            family.add_metric([self.schedule, *labels], found.cumulative(), found.sum)
        return family


def by_one(values: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    """Return values by their only label."""
    return {(label,): value for label, value in values.items()}


def _label(text: str) -> str:
    return shown(text, MOST_LABEL_CHARACTERS)
