"""A batch: claimed entries, read and planned, and how far their dispatch has come."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from celery import Celery

from redisbeater.context import Context
from redisbeater.definition import Definition
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.meta import Meta
from redisbeater.policies import Plan, plan
from redisbeater.store import Claim, ClaimedEntry
from redisbeater.store.schedule import Confirmation

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

    def sent(self) -> Confirmation:
        """What to commit when all its runs are on their way."""
        meta = self.meta
        for fire_time in self.plan.runs:
            meta = meta.after_run(fire_time)
        return Confirmation(entry=self.claimed, next=self.plan.next, meta=meta.to_text() if self.plan.runs else "")


class Batch:
    """The jobs of one claim.

    What is confirmed is committed, what is unsent released, whenever beat ends; a job that was on its way when beat
    was killed is left to its lease, which sends it again with the same id.
    """

    def __init__(self, claim: Claim, context: Context) -> None:
        self.claim = claim
        self.unsent: deque[Job] = deque()
        self.confirmed: list[Confirmation] = []
        #: Claimed entries that could not be read or planned, with the reason.
        self.broken: list[tuple[ClaimedEntry, str]] = []
        for claimed in claim.entries:
            self._add(claimed, context)

    def _add(self, claimed: ClaimedEntry, context: Context) -> None:
        try:
            definition = Definition.from_text(claimed.name, claimed.definition, context.codec)
            meta = Meta.from_text(claimed.meta)
            planned = plan(definition, claimed.fire_time, self.claim.now, context.zone)
        except InvalidEntry as exc:
            self.broken.append((claimed, str(exc)))
        except Exception as exc:  # a custom schedule is the application's code: only its own entry may suffer
            logger.exception("entry %r cannot be planned", claimed.name)
            self.broken.append((claimed, f"$.schedule: {type(exc).__name__}: {exc}"))
        else:
            self.unsent.append(Job(claimed=claimed, definition=definition, meta=meta, plan=planned))

    def take(self) -> Job:
        """The next job, oldest first; from now on it is on its way."""
        return self.unsent.popleft()

    def confirm(self, job: Job) -> None:
        """All runs of the job were accepted by the broker."""
        self.confirmed.append(job.sent())

    def unsent_entries(self) -> list[ClaimedEntry]:
        """What was not sent and can be given back."""
        return [job.claimed for job in self.unsent]

    @property
    def was_busy(self) -> bool:
        """Whether the claim found anything, so that there may be more."""
        return bool(self.claim.entries or self.claim.removed)
