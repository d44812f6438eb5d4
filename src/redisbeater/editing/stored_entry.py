"""``StoredEntry``: an entry as Redis holds it, decoded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from redisbeater.context import Context
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.model.definition import Decoder, Definition
from redisbeater.model.meta import FINISHED, Failing, Meta, Score
from redisbeater.model.plan import meant_fire_time
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason, Skipped, read_skipped
from redisbeater.schedules.zones import in_zone, read_zone
from redisbeater.store import Snapshot
from redisbeater.store.snapshot import oversized, version_of


@dataclass(frozen=True, kw_only=True)
class StoredEntry:
    """An entry as it is stored at ``now``, the time of the Redis server."""

    definition: Definition
    meta: Meta
    score: Score
    skipped: Mapping[str, Skipped]
    now: datetime
    #: The zone of entries without their own; empty where none is stored: that of the application.
    zone: str = ""
    #: What is known of its run that cannot be sent; None: nothing failed.
    failing: Failing | None = None
    #: The definition as it is stored.
    text: str = ""

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, codec: Decoder, definition: Definition | None = None) -> StoredEntry:
        """Decode what was read from Redis; all but the definition, if that was decoded before.

        Raises:
            EntryNotFound: the snapshot holds no entry.
            InvalidEntry: the entry is broken.
        """
        return cls(
            definition=definition or stored_definition(snapshot, codec),
            meta=stored_meta(snapshot),
            score=snapshot.score or FINISHED,
            skipped=read_skipped(snapshot.skipped),
            now=snapshot.now,
            zone=snapshot.zone,
            failing=failing_of(snapshot),
            text=snapshot.definition,
        )

    @property
    def state(self) -> str:
        """The state of the entry: disabled, finished, failing or enabled."""
        if not self.definition.enabled:
            return "disabled"
        if self.score.dormant or self.score.fire_time is None:
            return "finished"
        if self.is_disabled_for_now:
            return "disabled"
        return "failing" if self.failing else "enabled"

    @property
    def declined_at(self) -> datetime | None:
        """The fire time that its task declined last, if none was sent since; else None."""
        declined, last = self.skipped.get(Reason.DECLINED.value), self.meta.last_run_at
        return None if declined is None or (last is not None and last >= declined.last) else declined.last

    @property
    def is_disabled_for_now(self) -> bool:
        """Whether it is disabled until a time that has not come."""
        until = self.definition.disabled_until
        if until is None:
            return False
        zone = read_zone(self.zone, "zone") if self.zone else timezone.utc
        return in_zone(until, self.definition.zone(zone)) > self.now

    @property
    def version(self) -> str:
        """The version of the definition: it changes with every edit, and with no run."""
        return version_of(self.text)

    def late(self, due_at: datetime | None) -> timedelta:
        """Return how long ago the entry was due and has not run; zero when it is not late, or never due."""
        return timedelta(0) if due_at is None else max(self.now - due_at, timedelta(0))

    def due_at(self, defaults: Defaults) -> datetime | None:
        """Return when the entry is next due, aware UTC; None when it does not run, or has no fire time left."""
        policy = ResolvedPolicy.of(self.definition, defaults)
        fire_time = self.fire_time(policy)
        return None if fire_time is None else policy.due_at(fire_time)

    def fire_time(self, policy: ResolvedPolicy) -> datetime | None:
        """Return the fire time that its score means, or the next one that is not left out, or None.

        A score after ``end_at`` or ``max_runs`` is none: beat looks then only to find that the entry has finished. That
        of a disabled entry is none either; RedBeat and other programs leave it in place.
        """
        score = self.score.fire_time
        if self.score.dormant or not self.definition.enabled:
            return None
        if score is None or policy.is_spent(self.meta.total_run_count):
            return None
        with suppress(InvalidEntry, OverflowError):  # beat meets it as well, and quarantines the entry
            fire_time = meant_fire_time(policy, score, self.meta)
            fire_time = policy.kept(fire_time) if policy.leaves_out else fire_time
            return None if fire_time is None or policy.timetable.is_past_end(fire_time) else fire_time
        return score


def load(context: Context, name: str) -> StoredEntry:
    """Read one entry from Redis.

    Raises:
        EntryNotFound: there is no entry of that name.
        InvalidEntry: the entry is broken.
    """
    return StoredEntry.from_snapshot(context.redis.load(name), context.codec)


def failing_of(snapshot: Snapshot) -> Failing | None:
    """Return the error and the tries of a failing entry, or None if it is not failing."""
    fire_time = snapshot.score.fire_time if snapshot.score else None
    if not snapshot.is_failing or fire_time is None:
        return None
    return Failing.from_texts(
        fire_time,
        error=snapshot.last_error,
        tries=snapshot.tries,
        since=snapshot.failing_since,
        retry_at=snapshot.retry_at,
    )


def stored_definition(snapshot: Snapshot, codec: Decoder, *, has_any_name: bool = False) -> Definition:
    """Decode the definition of a snapshot; ``has_any_name``: also that of an entry whose name is too long.

    Raises:
        EntryNotFound: the snapshot holds no entry.
        InvalidEntry: the definition cannot be read.
    """
    if not snapshot.exists:
        raise EntryNotFound(snapshot.name)
    if snapshot.oversized_bytes:
        raise InvalidEntry("$", oversized(snapshot.oversized_bytes))
    return Definition.from_text(snapshot.name, snapshot.definition, codec, has_any_name=has_any_name)


def stored_meta(snapshot: Snapshot) -> Meta:
    """Decode the meta of a snapshot.

    Raises:
        InvalidEntry: the meta cannot be read.
    """
    return Meta.from_text(snapshot.meta, snapshot.recorded_run)
