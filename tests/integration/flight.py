"""An entry between claim and commit: the moment at which others may change it."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery

from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.store import Claim


@dataclass(frozen=True, kw_only=True)
class Flight:
    """One claimed and planned entry whose runs are as good as sent; the test says when they are committed."""

    context: Context
    claim: Claim
    job: Job

    def land(self) -> None:
        """Commit as beat does: what others changed meanwhile is taken in."""
        jobs = [self.job]
        while jobs:
            result = self.context.redis.commit(self.claim, [job.commitment() for job in jobs])
            jobs = [job.rebased_on(*result.changed[job.claimed.name]) for job in jobs if job.claimed.name in result.changed]


def take_off(app: Celery) -> Flight:
    """Claim and plan the one entry that is due; the app has no lock."""
    context = Context.of(app)
    claim = context.redis.claim(token="", limit=100)
    [claimed] = claim.entries
    return Flight(context=context, claim=claim, job=Job.planned(claimed, claim.now, context))
