"""The expectations of ``test_stateful_edits.py`` about each entry, and the clock that it moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis

from redisbeater.dispatch.job import Job
from redisbeater.model.definition import Definition
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.results import Score
from redisbeater.store import Claim, ClaimedEntry, connection
from redisbeater.store.snapshot import sha1
from redisbeater.times import EPOCH

LEASE = timedelta(seconds=100)


class ServerClock:
    """The time that the scripts take for the server's; it stands still until a test moves it."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self.client, self.key = client, key
        self.set(datetime(2026, 1, 1, tzinfo=timezone.utc))

    def set(self, now: datetime) -> None:
        self.now = now
        self.client.set(self.key, int(now.timestamp()))

    def go_on(self, seconds: int) -> None:
        self.set(self.now + timedelta(seconds=seconds))


@contextmanager
def scripts_by_the_clock_at(client: redis.Redis, key: str) -> Iterator[None]:
    """Let the scripts read the time from a key of the server instead of the server's own clock."""

    load_script = connection.load_script

    def load(name: str, **terms: Any) -> connection.Script:
        text = load_script(name, **terms).text.replace("redis.call('TIME')", f"{{redis.call('GET', '{key}'), '0'}}")
        assert "TIME'" not in text, f"{name}.lua asks for the time in another way"
        return connection.Script(text=text, sha=sha1(text), absent=terms["absent"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "load_script", load)
        try:
            yield
        finally:
            client.delete(key)


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The fields last written of a definition; ``team`` is a field that only its writer knows."""

    number: int = 0
    every: int = 60
    enabled: bool = True
    coalesce: str = "latest"
    jitter: int = 0
    max_runs: int | None = None
    on_finish: str = "keep"
    team: int | None = None

    @classmethod
    def of(cls, definition: Definition, defaults: Defaults) -> Fields:
        """Return the fields of a stored definition."""
        policy = ResolvedPolicy.of(definition, defaults)
        return cls(
            number=definition.args[0],
            every=round(definition.schedule.run_every.total_seconds()),
            enabled=definition.enabled,
            coalesce=policy.coalesce,
            jitter=round(policy.jitter.total_seconds()),
            max_runs=definition.max_runs,
            on_finish=definition.on_finish,
            team=definition.extra.get("team"),
        )

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments of an entry with these fields."""
        known = {name: value for name, value in asdict(self).items() if name not in ("number", "every", "team")}
        return {"schedule": self.every, "args": [self.number], **known}


@dataclass(kw_only=True)
class Known:
    """One entry from its creation to its deletion."""

    fields: Fields
    #: Its next fire time, as a program has set it or as follows from the last one; None: it is dormant.
    due: datetime | None
    #: When beat looks at it, where that is not its fire time: at the end of a lease, for the next try, for its jitter.
    look_at: datetime | None = None
    claim: str = ""
    count: int = 0
    skipped: int = 0
    last_run: datetime | None = None
    owner: int | None = None
    is_readable: bool = True
    is_listed: bool = False
    #: Fire times that were sent and must not be sent again.
    sent: set[datetime] = field(default_factory=set)
    #: Those of them that are not committed yet.
    uncommitted: set[datetime] = field(default_factory=set)

    @property
    def is_spent(self) -> bool:
        return self.fields.max_runs is not None and self.count >= self.fields.max_runs

    def is_due(self, now: datetime) -> bool:
        return self.due is not None and (self.look_at or self.due) <= now

    def set_to(self, due: datetime | None) -> None:
        """Record that a program other than beat has set its score, perhaps to a fire time that it has had."""
        self.due, self.look_at = due, None
        self.sent.clear()

    def edited(self, was: Fields, score: Score, now: datetime) -> None:
        """Record that an edit has changed its definition, and left it with this score."""
        was_readable, self.is_readable, self.is_listed = self.is_readable, True, False
        is_replanned = not was_readable or was.every != self.fields.every
        if not is_replanned and self._goes_on(was):
            return
        before, self.due, self.look_at = self.due, None if score.dormant else score.fire_time, None
        if not self.fields.enabled:
            assert self.due is None
        elif self.due is None:
            assert before is None or self.is_spent
        else:
            assert self.due > now or (not is_replanned and (self.due == before or self.is_spent))

    def _goes_on(self, was: Fields) -> bool:
        """Whether an edit that changes no schedule leaves its score alone."""
        if self.due is None or not self.fields.enabled:
            return self.due is None and not self.fields.enabled
        is_rechecked_for_jitter = was.jitter != self.fields.jitter and not self.claim and self.due != EPOCH
        return was.enabled and not self.is_spent and not is_rechecked_for_jitter

    def is_counted_from_now(self, score: Score, now: datetime) -> None:
        """Record that the application has reported an execution now, which left it with this score."""
        due = None if score.dormant else score.fire_time
        if self.is_spent:
            assert due in (None, now)
        else:
            assert due == (self.due and now + self.every)
        self.due, self.look_at = due, None

    def claimed(self, claim: Claim, fire_time: datetime) -> None:
        """Record that a beat has claimed it; runs that another beat sent and did not commit may be sent again."""
        assert fire_time == (claim.now if self.due == EPOCH else self.due)
        self.sent -= self.uncommitted
        self.uncommitted.clear()
        self.claim, self.due, self.look_at = claim.id, fire_time, claim.now + LEASE

    def is_sent(self, fire_time: datetime) -> None:
        """Record that the beat that has claimed it sent a run in time."""
        assert fire_time not in self.sent
        self.sent.add(fire_time)
        self.uncommitted.add(fire_time)

    def released(self, retry_at: datetime) -> None:
        """Record that the beat that has claimed it released it."""
        self.claim = ""
        self.look_at = self.look_at and retry_at

    def quarantined(self) -> None:
        """Record that the beat that has claimed it cannot read it."""
        self.claim, self.is_listed, self.due, self.look_at = "", True, None, None

    def committed(self, job: Job, seen: Known) -> None:
        """Record that the beat that has claimed it sent the runs of a job, and committed them."""
        plan, was_moved = job.plan, self.look_at is None
        self.claim, self.look_at, self.is_listed = "", None, False
        self.count += len(plan.runs)
        self.uncommitted.clear()
        self.skipped += sum(skip.count for skip in plan.skipped)
        if plan.runs and self.last_run == seen.last_run:
            self.last_run = plan.runs[-1]
        if was_moved:
            return
        if not self.is_readable:
            assert plan.handled is None or plan.next.fire_time in (None, plan.handled + seen.every)
            self.due, self.look_at = plan.next.fire_time, plan.next.look_at
        elif plan.handled is None:
            assert plan.next.fire_time in (seen.due, self.last_run and self.last_run + self.every)
            self.due, self.look_at = plan.next.fire_time, plan.next.look_at
        else:
            self.due = plan.handled + self.every
        if (self.is_readable and not self.fields.enabled) or self.is_finished_by(job):
            self.due = None

    def is_finished_by(self, job: Job) -> bool:
        """Whether a job was its last one."""
        return self.is_readable and job.plan.handled is not None and self.is_spent

    @property
    def every(self) -> timedelta:
        return timedelta(seconds=self.fields.every)


@dataclass(kw_only=True)
class Flight:
    """A claim of one beat, and how far it has come."""

    claim: Claim
    #: What was known of each entry when it was claimed.
    seen: dict[str, Known]
    unsent: list[ClaimedEntry]
    done: list[Job] = field(default_factory=list)

    def holds(self, known: Known | None) -> bool:
        return known is not None and known.claim == self.claim.id

    def is_in_time(self, now: datetime) -> bool:
        """Whether its lease goes on; a beat that was paused after its last look sends all the same."""
        return now < self.claim.now + LEASE
