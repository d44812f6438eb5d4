"""The metrics of a beat for Prometheus: its own numbers, and those of its schedule while it leads.

This module needs ``prometheus_client``, the extra ``metrics``; others import it where they need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.model.beat_line import BeatLine
from redisbeater.observe.beat import Beat
from redisbeater.observe.catalogue import CATALOGUE, PREFIX, Kind
from redisbeater.observe.counting import Meter
from redisbeater.observe.entry_metrics import EntryMetrics
from redisbeater.observe.reading import Reading
from redisbeater.observe.run_totals import RunTotals
from redisbeater.observe.server import Answer
from redisbeater.sending.counts import Histogram
from redisbeater.store.connection.failure import KINDS
from redisbeater.store.measures import Measured

__all__ = ("create_registry", "create_schedule_registry", "exposition_of")

#: The text format of Prometheus that every version reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Characters of a label. The name of an entry has at most 512 bytes; that of a task may be any text.
MOST_LABEL_CHARACTERS = 1000

#: The roles of beats.
ROLES = ("leader", "active", "standby", "paused")


def create_registry(beat: Beat) -> CollectorRegistry:
    """Return a registry that reads the metrics of a beat whenever it is collected. It registers nothing elsewhere."""
    registry = CollectorRegistry()
    registry.register(_Beat(beat))
    return registry


def create_schedule_registry(context: Context) -> CollectorRegistry:
    """Return a registry that reads the metrics of a schedule that a leading beat has, for a process that is no beat."""
    registry = CollectorRegistry()
    registry.register(_Schedule(context))
    return registry


def exposition_of(registry: CollectorRegistry) -> Answer:
    """Return what a registry has now as the answer to a scrape."""
    return Answer(status=HTTPStatus.OK, body=generate_latest(registry), content_type=CONTENT_TYPE)


class _Schedule(Collector):
    def __init__(self, context: Context) -> None:
        self._schedule = context.config.key_prefix
        self._measured = Reading(context.redis.measures.read)
        self._entries = EntryMetrics(context)
        self._of_entries = Reading(self._entries.read)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what is collected needs no check for names that are taken."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what Redis says of the schedule; nothing where it does not answer in time."""
        measured = self._measured.get()
        if measured is None:
            return
        yield from self._of_schedule(measured)
        yield from self._of_runs(measured)
        if self._entries.patterns:
            yield from self._of_single_entries()

    def _of_schedule(self, measured: Measured) -> Iterator[Metric]:
        states = {state: getattr(measured, state) for state in ("waiting", "dormant", "broken", "failing")}
        yield self._family("entries", _by_one(states))
        yield self._family("overdue_entries", {(): measured.overdue})
        yield self._family("oldest_overdue_seconds", {(): measured.oldest_overdue})
        yield self._family("paused", {(): measured.paused})
        lines = (BeatLine.from_text(token, text) for token, text in measured.beats.items())
        roles = [line.role for line in lines if line is not None]
        yield self._family("beats", {(role,): roles.count(role) for role in ROLES})
        yield self._family("runs_active", {(): measured.active})
        yield self._family("runs_waiting", {(): measured.resend})

    def _of_runs(self, measured: Measured) -> Iterator[Metric]:
        totals = RunTotals.read(measured.totals)
        yield self._family("runs", totals.states)
        yield self._histogram("run_seconds", totals.durations)

    def _of_single_entries(self) -> Iterator[Metric]:
        found = self._of_entries.get() or ()
        for name in ("next_timestamp_seconds", "last_timestamp_seconds", "failures"):
            values = {(each.name, each.task): getattr(each, name) for each in found}
            yield self._family(f"entry_{name}", {key: value for key, value in values.items() if value is not None})
        yield self._family("entries_without_metrics", {(): self._entries.left_out})

    # Families

    def _family(self, name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
        entry = CATALOGUE[name]
        make = CounterMetricFamily if entry.kind is Kind.COUNTER else GaugeMetricFamily
        family = make(f"{PREFIX}{name}", entry.meaning, labels=["schedule", *entry.labels])
        merged: dict[tuple[str, ...], float] = {}
        for raw, value in values.items():
            labels = tuple(map(_label, raw))
            merged[labels] = merged.get(labels, 0.0) + value
        for labels, value in merged.items():
            family.add_metric([self._schedule, *labels], value)
        return family

    def _histogram(self, name: str, values: Mapping[tuple[str, ...], Histogram]) -> Metric:
        entry = CATALOGUE[name]
        family = HistogramMetricFamily(f"{PREFIX}{name}", entry.meaning, labels=["schedule", *entry.labels])
        merged: dict[tuple[str, ...], Histogram] = {}
        for raw, found in values.items():
            labels = tuple(map(_label, raw))
            merged[labels] = merged[labels].plus(found) if labels in merged else found
        for labels, found in merged.items():
            family.add_metric([self._schedule, *labels], found.cumulative(), found.sum)
        return family


class _Beat(_Schedule):
    def __init__(self, beat: Beat) -> None:
        super().__init__(beat.context)
        self._beat = beat
        self._schedule = beat.schedule

    def collect(self) -> Iterator[Metric]:
        """Yield this beat's own metrics, and while it leads those of its schedule."""
        yield from self._own()
        yield from self._reached()
        yield from self._shared()

    # What this beat has counted

    def _own(self) -> Iterator[Metric]:
        meter = self._beat.counts
        if not isinstance(meter, Meter):
            return
        yield self._family("dispatched", meter.dispatched.copy())
        refusals = {**meter.refusals, "broker_away": self._beat.broker.failed_tries}
        yield self._family("refused", _by_one(refusals))
        yield self._family("skipped", _by_one(meter.skips))
        yield self._family("claims", _by_one(meter.claims))
        yield self._family("claimed_entries", {(): meter.claimed_entries})
        yield self._family("fenced", {(): meter.fenced})
        yield self._family("wakeups", _by_one(meter.wakeups))
        yield self._histogram("lateness_seconds", {(): meter.all_lateness})
        yield self._histogram("pass_seconds", {(): meter.passes})
        if meter.last_pass is not None:
            yield self._family("last_pass_timestamp_seconds", {(): meter.last_pass})

    # What this beat sees

    def _reached(self) -> Iterator[Metric]:
        beat = self._beat
        if beat.leadership.has_lock:
            yield self._family("leader", {(): beat.leads})
        yield self._family("lead_changes", _by_one(beat.leadership.changes))
        yield self._family("redis_up", {(): not beat.outage.is_on})
        yield self._family("broker_up", {(): beat.accepts_runs})
        errors = {**dict.fromkeys(KINDS, 0), **beat.context.redis.errors}
        yield self._family("redis_errors", _by_one(errors))
        if beat.clock_offset is not None:
            yield self._family("clock_offset_seconds", {(): beat.clock_offset})
        facts = beat.heartbeat.versions
        yield self._family("info", {(facts["version"], facts["celery"], beat.schedule, beat.heartbeat.server): 1})

    # What Redis says, while this beat leads

    def _shared(self) -> Iterator[Metric]:
        if not self._beat.leads or self._beat.outage.is_on:
            self._measured.drop()
            self._of_entries.drop()
            return
        yield from super().collect()


def _by_one(values: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    return {(label,): value for label, value in values.items()}


def _label(text: str) -> str:
    return shown(text, MOST_LABEL_CHARACTERS)
