"""A batch: claimed entries, each read and planned just before it is sent, and how far their dispatch has come."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from celery import Celery

from redisbeater.context import Context
from redisbeater.definition import Definition
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.meta import Meta
from redisbeater.policies import Plan, plan
from redisbeater.store import Claim, ClaimedEntry
from redisbeater.store.schedule import Commitment

__all__ = ("Batch", "Job", "task_id")

logger = logging.getLogger(__name__)


def task_id(schedule_id: str, name: str, fire_time: datetime) -> str:
    """The id of a run, the same whenever and by whomever that fire time is sent."""
    return str(uuid.uuid5(uuid.UUID(schedule_id), f"{name}@{fire_time.isoformat()}"))


@dataclass(frozen=True, kw_only=True)
class Job:
    """One claimed entry with what is to be done with it."""

    claimed: ClaimedEntry
    definition: Definition
    meta: Meta
    plan: Plan
    #: Whether another writer has set the last run while this one was sent: then the run is counted and no more.
    keeps_last_run: bool = False

    @classmethod
    def planned(cls, claimed: ClaimedEntry, now: datetime, context: Context) -> Job:
        """Read and plan a claimed entry.

        Raises:
            InvalidEntry: it is broken.
        """
        definition = Definition.from_text(claimed.name, claimed.definition, context.codec)
        meta = Meta.from_text(claimed.meta)
        try:
            planned = plan(definition, claimed.fire_time, now, context.zone)
        except InvalidEntry:
            raise
        except Exception as exc:  # a custom schedule is the application's code: only its own entry may suffer
            logger.exception("entry %r cannot be planned", claimed.name)
            raise InvalidEntry("$.schedule", f"{type(exc).__name__}: {exc}") from exc
        return cls(claimed=claimed, definition=definition, meta=meta, plan=planned)

    def runs(self, schedule_id: str, app: Celery) -> Iterator[RedisScheduleEntry]:
        """An entry for each run, with options of its own: Celery and instruments around it write into them."""
        definition = self.definition
        for fire_time in self.plan.runs:
            headers = {
                **(definition.options.get("headers") or {}),
                "periodic_task_name": definition.name,
                "scheduled_for": fire_time.isoformat(),
            }
            identity = {"task_id": task_id(schedule_id, definition.name, fire_time), "headers": headers}
            yield RedisScheduleEntry(
                definition.name,
                definition.task,
                definition.schedule,
                args=definition.args,
                kwargs=definition.kwargs,
                options={**definition.options, **identity},
                app=app,
                timezone=definition.timezone,
                last_run_at=fire_time,
                total_run_count=self.meta.total_run_count,
            )

    def commitment(self) -> Commitment:
        """What to commit when all its runs are on their way."""
        meta = self.meta
        for fire_time in self.plan.runs:
            meta = meta.after_run(fire_time)
        if self.keeps_last_run:
            meta = replace(meta, last_run_at=self.meta.last_run_at)
        return Commitment(entry=self.claimed, next=self.plan.next, meta=meta.to_text() if self.plan.runs else "")

    def over(self, meta: str) -> Job:
        """The same job over a meta that another writer changed meanwhile: what it wrote stays, no run is forgotten."""
        try:
            theirs = Meta.from_text(meta)
        except InvalidEntry:
            theirs = Meta()
        count = max(theirs.total_run_count, self.meta.total_run_count)
        keeps_last_run = theirs.last_run_at is not None and (
            self.keeps_last_run or theirs.last_run_at != self.meta.last_run_at
        )
        return replace(
            self,
            claimed=replace(self.claimed, meta=meta),
            meta=replace(theirs, total_run_count=count),
            keeps_last_run=keeps_last_run,
        )


class Batch:
    """The entries of one claim, and how far their dispatch has come.

    What was sent is committed and what is unsent released, whenever beat ends; an entry that was on its way when beat
    was killed is left to its lease, which sends it again with the same id.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.unsent = deque(claim.entries)
        self.sent: list[Job] = []

    def take(self) -> ClaimedEntry:
        """The next entry, oldest first; from now on it is on its way."""
        return self.unsent.popleft()

    @property
    def was_busy(self) -> bool:
        """Whether the claim found anything, so that there may be more."""
        return bool(self.claim.entries or self.claim.removed)
