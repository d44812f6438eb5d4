"""An entry in flight: between its claim and its commit, where other programs may change it."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery

from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.store import Claim


@dataclass(frozen=True, kw_only=True)
class Flight:
    """One claimed and planned entry; the test decides when its runs count as sent."""

    context: Context
    claim: Claim
    job: Job

    def confirm(self) -> None:
        """Count the runs as sent: commit them as beat does, on top of what other programs changed meanwhile."""
        jobs = [self.job]
        while jobs:
            result = self.context.redis.commit(self.claim, [job.commitment() for job in jobs])
            changed = [job for job in jobs if job.claimed.name in result.changed]
            jobs = [job.rebased_on(*result.changed[job.claimed.name]) for job in changed]


def mark_in_flight(app: Celery) -> Flight:
    """Claim and plan the one entry that is due, and return it in flight; the app has no lock."""
    context = Context.of(app)
    claim = context.redis.claim(token="", limit=100)
    [claimed] = claim.entries
    return Flight(context=context, claim=claim, job=Job.planned(claimed, claim.now, context))
