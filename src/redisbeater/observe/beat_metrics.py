"""The metrics of a beat for Prometheus: its own numbers, and those of its schedule while it leads."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from redisbeater.model.incident import KINDS as INCIDENT_KINDS
from redisbeater.observe.metrics import ScheduleCollector, by_one
from redisbeater.parts import BeatParts
from redisbeater.sending.counts import Meter
from redisbeater.store.failure import KINDS


def create_registry(beat: BeatParts) -> CollectorRegistry:
    """Return a registry that reads the metrics of a beat whenever it is collected. It registers nothing elsewhere."""
    registry = CollectorRegistry()
    registry.register(BeatCollector(beat))
    return registry


class BeatCollector(ScheduleCollector):
    """Reads the metrics of a beat.

    Arguments:
        beat: the beat.
    """

    def __init__(self, beat: BeatParts) -> None:
        super().__init__(beat.context)
        self._beat = beat

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
        yield self.family("dispatched", meter.dispatched.copy())
        refusals = {**meter.refusals, "broker_away": self._beat.broker.failed_tries}
        yield self.family("refused", by_one(refusals))
        yield self.family("skipped", by_one(meter.skips))
        yield self.family("claims", by_one(meter.claims))
        yield self.family("claimed_entries", {(): meter.claimed_entries})
        yield self.family("fenced", {(): meter.fenced})
        yield self.family("delays_sent", {(): self._beat.dispatcher.delays.sent})
        yield self.family("wakeups", by_one(meter.wakeups))
        yield self.family("incidents_opened", by_one({**dict.fromkeys(INCIDENT_KINDS, 0), **meter.incidents}))
        yield self.family("messages", by_one(meter.messages))
        yield self.histogram("lateness_seconds", {(): meter.all_lateness})
        yield self.histogram("pass_seconds", {(): meter.passes})
        if meter.last_pass is not None:
            yield self.family("last_pass_timestamp_seconds", {(): meter.last_pass})

    # What this beat sees

    def _reached(self) -> Iterator[Metric]:
        beat = self._beat
        leads = beat.leadership.may_send
        if beat.leadership.has_lock:
            yield self.family("leader", {(): leads})
        yield self.family("lead_changes", by_one(beat.leadership.changes))
        yield self.family("redis_up", {(): not beat.outage.is_on})
        # A standby asks only whether the broker can be reached.
        is_refused = beat.broker.is_unavailable or (leads and beat.broker.acceptance.is_refusing)
        yield self.family("broker_up", {(): not is_refused})
        errors = {**dict.fromkeys(KINDS, 0), **beat.context.redis.errors}
        yield self.family("redis_errors", by_one(errors))
        if leads and beat.clock.offset is not None:
            yield self.family("clock_offset_seconds", {(): beat.clock.offset})
        facts = beat.heartbeat.versions
        yield self.family("info", {(facts["version"], facts["celery"], self.schedule, beat.heartbeat.server): 1})

    # What Redis says, while this beat leads

    def _shared(self) -> Iterator[Metric]:
        if not self._beat.leadership.may_send or self._beat.outage.is_on:
            self.measured.drop()
            self.of_entries.drop()
            return
        yield from super().collect()
        if (due := self._beat.due_runs.counted) is not None:
            yield self.family("runs_due", due)
