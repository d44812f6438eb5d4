"""The runs in Redis: each transition of a run is one script.

.. code-block:: text

    commit, reserve ──> SENT ──start──> STARTED ──finish──> SUCCESS, FAILURE, REVOKED
           │             ^ │             │  │ ^
           v             │ │             │  v └─start── RETRY
        BUFFERED ──take──┘ └──lose──> LOST <┘
                         ^              │
                         └─────take─────┘  (requeued, with the next attempt)

An execution holds its run by a lease that its worker renews. Each script is fenced by the holder, by the attempt or by the
lease that was read, or does nothing when it is executed again; so a call whose reply was lost may be repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from redisbeater.config.settings import Config
from redisbeater.model.run import NewRun, Run, RunCounts, State
from redisbeater.store.connection.connection import Connection
from redisbeater.store.keys import Keys

__all__ = ("Execution", "Renewal", "Reservation", "RunStore", "holder_prefix", "new_holder")


def new_holder(host: str, pid: int) -> str:
    """Return a token for one execution of a run in one process."""
    return f"{holder_prefix(host, pid)}{uuid.uuid4().hex[:16]}"


def holder_prefix(host: str, pid: int) -> str:
    """Return what the tokens of all executions in one process begin with; it fences where the token is not known."""
    return f"{host}:{pid}:"


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution of a run, as its worker reports it.

    Attributes:
        run_id: the id of the task.
        name, task: the names of the entry and of the task.
        attempt: what the message's header ``redisbeater_attempt`` has.
        holder: :func:`new_holder`; :func:`holder_prefix` where only the process is known; empty: none has begun.
        fire_time: the fire time, aware UTC, for a run of which nothing is stored.
        worker, pid: the name of the worker and its process.
        acks_late: whether the broker gives the message out again when the worker dies.
        is_redelivered: the broker has given the message out before.
        is_exclusive: the task refuses to run beside another execution (``OnceTask``).
    """

    run_id: str
    name: str
    task: str = ""
    attempt: int = 1
    holder: str = ""
    fire_time: datetime | None = None
    worker: str = ""
    pid: int = 0
    acks_late: bool = False
    is_redelivered: bool = False
    is_exclusive: bool = False


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """What became of leases that were to be renewed: ids of runs that are to stop, and of those that others hold now."""

    to_stop: frozenset[str]
    not_ours: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """What became of a run that a program wants to send.

    ``outcome``: ``RESERVED``, send it; ``BUFFERED``, beat sends it when its turn comes; ``CLAIMED``, a beat has claimed
    the entry, ask again; ``BUSY``, ``active`` has the ids of the runs in its way. With ``cancel_other`` these are to be
    stopped also where it is ``BUFFERED``.
    """

    outcome: str
    active: tuple[str, ...] = ()


class RunStore:
    """The runs of one schedule, only with ``redisbeater_track_runs``. Creating it does no I/O.

    All its methods raise :class:`~redisbeater.exceptions.StoreUnavailable` when Redis cannot be reached and
    :class:`~redisbeater.exceptions.StoreError` when it refuses.
    """

    def __init__(self, connection: Connection, keys: Keys, config: Config) -> None:
        self._connection = connection
        self._keys = keys
        self._config = config

    @classmethod
    def of_worker(cls, config: Config) -> RunStore:
        """Return the runs for one executing process: a connection of its own, one try of ``run_write_timeout``."""
        raise NotImplementedError

    # What workers report

    def start(self, execution: Execution) -> tuple[str, float]:
        """Record that an execution begins, and give it the lease.

        Returns:
            ``STARTED``; ``STOP``: the same, and somebody asked to stop it; ``DUPLICATE``: the run has ended, or this is
            an older attempt; ``RUNNING``: another execution has a live lease. Of the last two nothing was recorded. Then
            the seconds until the lease in question ends; 0 for a duplicate.
        """
        raise NotImplementedError

    def renew(self, holders: Mapping[str, str]) -> Renewal:
        """Renew the leases of executions, all in one script. ``holders``: run id -> holder."""
        raise NotImplementedError

    def finish(
        self,
        execution: Execution,
        state: State,
        *,
        retry_at: datetime | None = None,
        error: str = "",
        result: str = "",
        note: str = "",
        seconds: float | None = None,
    ) -> str:
        """Record the end of an execution.

        Arguments:
            execution: with its holder; without one, no execution has begun: revoked or expired before its start.
            state: SUCCESS, FAILURE, REVOKED, EXPIRED, or RETRY.
            retry_at: when the next try may start, aware UTC; None: at once.
            error, result: :func:`~redisbeater.model.run.error_text`, :func:`~redisbeater.model.run.result_text`.
            note: what a person should know about this end.
            seconds: how long it took, for the metrics; None: not known.

        Returns:
            ``FINISHED``, also when it was recorded before; ``LATE``: another execution has the run, and the end was
            only noted.
        """
        raise NotImplementedError

    def drop(self, execution: Execution, *, error: str = "") -> str:
        """Let the lease of an execution that died end in 10 seconds.

        Returns:
            ``DROPPED``; ``LATE``: it does not hold the run any more.
        """
        raise NotImplementedError

    # What beat does

    def overdue(self, limit: int = 100) -> list[Run]:
        """Return active runs whose lease is over, the oldest first, with their payloads."""
        raise NotImplementedError

    def lose(self, run: Run, state: State = State.LOST, *, requeue_in: float | None = None, note: str = "") -> str:
        """Record that an overdue run is lost, if its lease is still as it was read.

        Arguments:
            run: as :meth:`overdue` returned it.
            state: LOST, or EXPIRED: nobody has started it before its deadline.
            requeue_in: seconds until beat sends it again, with the next attempt; None: it is final.
            note: why, for its record and for the log of its entry.

        Returns:
            ``LOST``, also when it was recorded before; ``ALIVE``: its lease has been renewed, or it has ended.
        """
        raise NotImplementedError

    def take(self, *, token: str, limit: int = 100) -> list[Run]:
        """Take runs that beat is to send now, for a lease, the oldest first, with their payloads.

        A buffered one is left for 5 seconds while another run of its entry is active; none is taken while the schedule is
        paused. Pass those that were sent to :meth:`RedisSchedule.commit <redisbeater.store.RedisSchedule.commit>`.

        Arguments:
            token: what the lock must hold; empty: there is no lock.
            limit: number of runs.

        Raises:
            LockNotOwnedError: the lock is not ours; nothing was taken.
        """
        raise NotImplementedError

    # What programs do

    def stop(self, run_id: str, *, by: str = "", note: str = "") -> Run | None:
        """Ask to stop a run, and return it as it is then; None: there is none.

        One that waits for beat (BUFFERED, or LOST and to be sent again) is REVOKED at once. A final one is left alone.
        """
        raise NotImplementedError

    def reserve(self, run: NewRun, overlap: str = "allow") -> Reservation:
        """Record a run that the caller is about to send, where the policy lets it: ``allow``, ``skip``, ``buffer_one`` or
        ``cancel_other``."""
        raise NotImplementedError

    def withdraw(self, run_id: str, *, error: str) -> str:
        """Record that a run that was reserved was not sent: it is LOST, and counts as no failure of its entry.

        Returns:
            ``LOST``, or ``ALIVE``: a worker has started it.
        """
        raise NotImplementedError

    # What is stored

    def run(self, run_id: str) -> Run | None:
        """Return a run; None: there is none, or not any more."""
        raise NotImplementedError

    def many(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return the runs that exist, by id, without their payloads."""
        raise NotImplementedError

    def history(
        self, name: str, limit: int = 20, *, states: Collection[State] = (), before: datetime | None = None
    ) -> list[Run]:
        """Return runs of an entry, the newest first, without their payloads.

        Arguments:
            name: the name of the entry.
            limit: how many.
            states: only runs in these; empty: in any.
            before: only runs that were sent before, aware UTC.
        """
        raise NotImplementedError

    def active(self, name: str, limit: int = 100) -> list[Run]:
        """Return runs of an entry that are sent and not final, and those that beat is to send, without their payloads."""
        raise NotImplementedError

    def counts(self, name: str) -> RunCounts:
        """Return how many runs of an entry came to what."""
        raise NotImplementedError

    def has_reported(self) -> bool:
        """Return whether any worker has ever reported the start of a run of this schedule."""
        raise NotImplementedError

    def totals(self) -> dict[str, int]:
        """Return the counts for metrics: ``<state> <task>``, and ``<= <seconds> <task>`` for durations."""
        raise NotImplementedError
