"""The resources that the dispatches of one beat share, from claim to claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from celery import Celery

from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.dispatch.failures import Failures
from redisbeater.dispatch.pace import Pace
from redisbeater.dispatch.refused_commits import RefusedCommits
from redisbeater.dispatch.slow_tasks import SlowTasks
from redisbeater.entry import RedisScheduleEntry
from redisbeater.sending.counts import Counts

__all__ = ("Resources",)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Connections, callbacks and records that outlive a claim."""

    app: Celery
    #: The class of the runs.
    entry_class: type[RedisScheduleEntry]
    context: Context
    broker: Broker
    #: Sends one run by Celery's own path; returns the error, or None.
    send: Callable[[RedisScheduleEntry], Exception | None]
    #: Renews the lock when it is time, and returns whether this beat still holds it.
    renew_lock: Callable[[], bool]
    #: The entries that could not be sent, while the broker could be reached.
    failures: Failures
    slow_tasks: SlowTasks
    counts: Counts
    pace: Pace
    refused_commits: RefusedCommits = field(default_factory=RefusedCommits)
    #: The ids of runs that are to be asked to stop, in favour of others that are buffered until their end.
    cancelled: list[str] = field(default_factory=list)
