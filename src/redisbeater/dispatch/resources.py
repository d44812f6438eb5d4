"""What a dispatcher keeps from claim to claim; which tasks are slow to send.

Entries of such tasks are sent last, so that a task that waits for a database does not delay the others that are due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from celery import Celery

from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.dispatch.failures import Failures, RefusedCommits
from redisbeater.dispatch.pace import Pace
from redisbeater.entry import RedisScheduleEntry
from redisbeater.log_lines import get_logger
from redisbeater.sending.counts import Counts
from redisbeater.sending.template import Templates

logger = get_logger(__name__)


#: Sending one run takes this long or longer: the task is slow. A hundred times what a broker nearby takes.
SLOW_SECONDS = 0.1

#: A slow task is fast again after this many fast runs in a row: its speed may depend on the entry.
FAST_RUNS_IN_A_ROW = 10


class SlowTasks(dict[str, int]):
    """The names of slow tasks, each with the number of fast runs that it still needs to be fast again."""

    def __init__(self) -> None:
        super().__init__()
        #: How many times a task became slow. When it grows, entries that wait must be sorted again.
        self.found = 0

    def record(self, task: str, seconds: float) -> None:
        """Record how long sending one run of ``task`` took."""
        if seconds >= SLOW_SECONDS:
            if task not in self:
                self.found += 1
                logger.info(
                    "task %r took %.1f s to send; sending its entries after the others from now on", task, seconds
                )
            self[task] = FAST_RUNS_IN_A_ROW
        elif task in self:
            self[task] -= 1
            if not self[task]:
                del self[task]


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
    #: What makes the messages of plain runs; None: all go Celery's way.
    templates: Templates | None = None
    refused_commits: RefusedCommits = field(default_factory=RefusedCommits)
    #: The ids of runs that are to be asked to stop, in favour of others that are buffered until their end.
    cancelled: list[str] = field(default_factory=list)
