"""The signals about the jobs that a commit has recorded: what was sent, and what was skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redisbeater.dispatch.job import Job
from redisbeater.dispatch.resources import Resources
from redisbeater.entry import RedisScheduleEntry
from redisbeater.model.skip import Skip
from redisbeater.signals import run_dispatched, run_skipped
from redisbeater.store import Claim

__all__ = ("announce_recorded", "announce_run", "facts_of_skip")


def announce_recorded(jobs: Sequence[Job], claim: Claim, resources: Resources) -> None:
    """Fire the signals about jobs whose commit was recorded; without receivers, do nothing for any of them."""
    if run_dispatched.receivers:
        for job in jobs:
            _announce_runs(job, claim, resources)
    if run_skipped.receivers:
        for job in jobs:
            for skip in job.plan.skipped:
                run_skipped.send(job.claimed.name, **facts_of_skip(job.claimed.name, skip))


def facts_of_skip(name: str, skip: Skip) -> dict[str, Any]:
    """Return the arguments of the signal about skipped fire times of an entry."""
    return {"name": name, "reason": skip.reason.value, "count": skip.count, "first": skip.first, "last": skip.last}


def announce_run(run: RedisScheduleEntry, kind: str, claim: Claim) -> None:
    """Fire the signal about one run that was sent and recorded, of the kind ``schedule`` or ``resend``."""
    now, fire_time = claim.server_time(), run.last_run_at
    late = (now - (run.due_at or fire_time or now)).total_seconds()
    run_id = run.options["task_id"]
    run_dispatched.send(run.name, entry=run, run_id=run_id, fire_time=fire_time, kind=kind, late=late)


def _announce_runs(job: Job, claim: Claim, resources: Resources) -> None:
    for run in job.runs(claim.schedule_id, resources.app, entry_class=resources.entry_class, now=claim.now):
        announce_run(run, "schedule", claim)
