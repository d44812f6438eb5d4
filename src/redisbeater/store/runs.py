"""The runs in Redis: each transition of a run is one script.

.. code-block:: text

    commit, reserve ──> SENT ──start──> STARTED ──finish──> SUCCESS, FAILURE, REVOKED
           │             ^ │             │  │ ^
           v             │ │             │  v └─start── RETRY
        BUFFERED ──take──┘ └──lose──> LOST <┘
                         ^              │
                         └─────take─────┘  (requeued, with the next attempt)

An execution holds its run by a lease that its worker renews. Each script is fenced by the holder, by the attempt or by
the lease that was read, or does nothing when it is executed again: a call whose reply was lost may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redisbeater.config.settings import Config
from redisbeater.exceptions import InvalidEntry, LockNotOwnedError
from redisbeater.model.log_line import line_text
from redisbeater.model.run import NewRun, Payload, Run, State
from redisbeater.store.connection.connection import Connection
from redisbeater.store.execution import Execution, Renewal
from redisbeater.store.keys import Keys
from redisbeater.store.run_records import RunRecords
from redisbeater.times import to_unix

__all__ = ("Reservation", "RunStore")

#: How long the lease of an execution that died lasts: the broker may give its message out again until then.
DROP_SECONDS = 10

#: How many leases one script renews: it keeps the server busy for a millisecond or two.
RENEW_PAGE = 250


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """What became of a run that a program wants to send.

    ``outcome``: ``RESERVED``, send it; ``BUFFERED``, beat sends it when its turn comes; ``CLAIMED``, a beat has claimed
    the entry, ask again; ``BUSY``, ``active`` has the ids of the runs in its way. With ``cancel_other`` these are to be
    stopped also where it is ``BUFFERED``.
    """

    outcome: str
    active: tuple[str, ...] = ()


class RunStore(RunRecords):
    """The runs of one schedule, only with ``redisbeater_track_runs``. Creating it does no I/O.

    All its methods raise :class:`~redisbeater.exceptions.StoreUnavailable` when Redis cannot be reached and
    :class:`~redisbeater.exceptions.StoreError` when it refuses.
    """

    @classmethod
    def of_worker(cls, config: Config) -> RunStore:
        """Return the runs for one executing process: a connection of its own, one try of ``run_write_timeout``."""
        seconds = config.run_write_timeout
        options = {**config.redis_options, "socket_timeout": seconds, "socket_connect_timeout": seconds}
        connection = Connection(replace(config, redis_options=options, retry_period=0.0))
        return cls(connection, Keys(config.key_prefix, config.lock_name), config)

    # What workers report

    def start(self, execution: Execution) -> tuple[str, float]:
        """Record that an execution begins, and give it the lease.

        Returns:
            ``STARTED``; ``STOP``: the same, and somebody asked to stop it; ``DUPLICATE``: the run has ended, or this
            is an older attempt; ``RUNNING``: another execution has a live lease, or, where the task refuses and its
            entry has one run at a time, another run. Of the last two nothing was recorded.
            Then the seconds until the lease in question ends; 0 for a duplicate.
        """
        message = [execution.name, str(execution.attempt), str(execution.step)]
        flags = ["1" if flag else "0" for flag in (execution.is_redelivered, execution.is_exclusive)]
        fire_time = to_unix(execution.fire_time) if execution.fire_time else ""
        args = [self._keys.prefix, *message, execution.holder, self._lease, *flags]
        word, seconds = self._run("start", [execution.run_id], [*args, _json(execution.to_fields()), fire_time])
        return word, float(seconds)

    def renew(self, holders: Mapping[str, str]) -> Renewal:
        """Renew the leases of executions. ``holders``: run id -> holder."""
        words: dict[str, str] = {}
        ids = list(holders)
        for begin in range(0, len(ids), RENEW_PAGE):
            page = ids[begin : begin + RENEW_PAGE]
            terms = [self._keys.prefix, self._lease, *(holders[run_id] for run_id in page)]
            words.update(zip(page, self._run("renew", page, terms)))
        stop, late, absent = (
            frozenset(run_id for run_id, word in words.items() if word == which) for which in ("STOP", "LATE", "ABSENT")
        )
        return Renewal(to_stop=stop, not_ours=late, absent=absent)

    def finish(
        self,
        execution: Execution,
        state: State,
        *,
        retry_in: float | None = None,
        error: str = "",
        result: str = "",
        note: str = "",
        seconds: float | None = None,
    ) -> str:
        """Record the end of an execution.

        Arguments:
            execution: with its holder; without one, no execution has begun: revoked or expired before its start.
            state: SUCCESS, FAILURE, REVOKED, EXPIRED, or RETRY.
            retry_in: seconds until the next try may start; None: none. No time: the clock of a worker may be wrong.
            error: :func:`~redisbeater.model.run.error_text`.
            result: :func:`~redisbeater.model.run.result_text`.
            note: what a person should know about this end.
            seconds: how long it took; None: since its start was recorded.

        Returns:
            ``FINISHED``, also when it was recorded before, or when the next try of a RETRY has begun; ``LATE``: another
            execution has the run, and the end was only noted.
        """
        fields = _pairs(error=error, result=result, note=note)
        terms = [*self._terms, execution.holder, str(execution.attempt), state.value, self._wait]
        times = ["" if each is None else f"{max(each, 0.0):.6f}" for each in (retry_in, seconds)]
        texts = [_json(fields), _json(execution.to_first_fields())]
        word: str = self._run("finish", [execution.run_id], [*terms, *times, *texts, str(execution.step)])
        return word

    def drop(self, execution: Execution, *, error: str = "") -> str:
        """Let the lease of an execution that died end in 10 seconds, also if its start could not be recorded.

        Arguments:
            execution: its ``acks_late`` says whether the broker gives its message out again now.
            error: why it died.

        Returns:
            ``DROPPED``; ``LATE``: it does not hold the run any more.
        """
        terms = [self._keys.prefix, execution.holder, str(DROP_SECONDS), error, str(execution.attempt)]
        word: str = self._run("drop", [execution.run_id], [*terms, _json(execution.to_fields())])
        return word

    # What beat does

    def overdue(self, limit: int = 100, *, seconds: float = 0.0) -> list[Run]:
        """Return active runs whose lease ended at least ``seconds`` ago, the oldest first, with their payloads."""
        terms = [self._keys.prefix, str(limit), *self._bounds, f"{seconds:g}"]
        return self._read(self._connection.run("runs/overdue", [self._keys.active], terms))

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
        what = state.value.lower() if requeue_in is None else "requeued"
        line = line_text(what, run=run.id, worker=run.worker, note=note)
        return self._lose(run.id, run.seen_lease, state, requeue_in, note, line)

    def _lose(self, run_id: str, seen: str, state: State, requeue_in: float | None, note: str, line: str) -> str:
        keys = [self._keys.run(run_id), self._keys.active, self._keys.new_answer()]
        delay = "" if requeue_in is None else f"{requeue_in:.6f}"
        terms = [*self._terms, seen, state.value, delay, note, str(self._config.log_limit), line]
        word: str = self._connection.run("runs/lose", keys, terms)
        return word

    def take(self, *, token: str, limit: int = 100) -> list[Run]:
        """Take runs that beat is to send now, for a lease, the oldest first, with their payloads.

        A buffered one, and a lost one that was sent alone, is left for 5 seconds while another run of its entry is
        active; none is taken while the schedule is paused. Pass those that were sent to ``RedisSchedule.commit()``.

        Arguments:
            token: what the lock must hold; empty: there is no lock.
            limit: number of runs.

        Raises:
            LockNotOwnedError: the lock is not ours; nothing was taken.
        """
        keys = [self._keys.resend, self._keys.lock, self._keys.pause]
        terms = [self._keys.prefix, token, str(self._config.lease_timeout), str(limit), *self._bounds]
        word, reply = self._connection.run("runs/take", keys, terms)
        if word == "FENCED":
            raise LockNotOwnedError("another beat holds the lock, or it has run out")
        return self._read(reply)

    # What programs do

    def stop(self, run_id: str, *, by: str = "", note: str = "") -> Run | None:
        """Ask to stop a run, and return it as it is then; None: there is none.

        One that waits for beat (BUFFERED, or LOST and to be sent again) is REVOKED at once. A final one is left alone.
        """
        line = line_text("stopped", run=run_id, by=by, note=note)
        terms = [*self._terms, _json(_pairs(by=by, note=note)), str(self._config.log_limit), line]
        self._connection.run("runs/stop", [self._keys.run(run_id), self._keys.new_answer()], terms)
        return self.run(run_id)

    def reserve(self, run: NewRun, overlap: str = "allow") -> Reservation:
        """Record a run that the caller is about to send, where the policy lets it.

        Arguments:
            run: the run.
            overlap: ``allow``, ``skip``, ``buffer_one`` or ``cancel_other``.
        """
        keys = [self._keys.entry(run.name), self._keys.schedule, self._keys.new_answer()]
        terms = [self._keys.prefix, self._wait, overlap, _json(run.to_row())]
        word, active = self._connection.run("runs/reserve", keys, terms)
        return Reservation(outcome=word, active=tuple(map(self._keys.run_id, active)))

    def withdraw(self, run_id: str, *, error: str) -> str:
        """Record that a run that was reserved or taken is not sent: it is LOST, and counts as no failure of its entry.

        Returns:
            ``LOST``, or ``ALIVE``: a worker has started it.
        """
        return self._lose(run_id, "", State.LOST, None, error, "")

    # What other scripts need to know of runs

    @property
    def claim_terms(self) -> list[str]:
        """The last argument of a claim; none where runs are not tracked."""
        return ["1"] if self._config.track_runs else []

    def commit_terms(self, resent: Sequence[Run]) -> list[str]:
        """Return the last argument of a commit."""
        sent: list[dict[str, Any]] = [
            {"id": run.id, "attempt": run.attempt, "countdown": _countdown(run)} for run in resent
        ]
        for row, run in zip(sent, resent):
            if run.expires:
                row["expires"] = to_unix(run.expires)
        return [_json({"prefix": self._keys.prefix, "wait": self._config.run_queue_timeout, "resent": sent})]

    @property
    def edit_terms(self) -> list[str]:
        """The last argument of an edit; none where runs are not tracked."""
        prefix, limit, retention = self._terms
        terms = {"prefix": prefix, "limit": int(limit), "retention": int(retention)}
        return [_json(terms)] if self._config.track_runs else []

    @property
    def _terms(self) -> list[str]:
        """The prefix, how many runs of an entry are kept, and for how many milliseconds."""
        config = self._config
        return [self._keys.prefix, str(config.run_history_limit), str(round(config.run_retention * 1000))]

    @property
    def _lease(self) -> str:
        return str(self._config.run_timeout)

    @property
    def _wait(self) -> str:
        return str(self._config.run_queue_timeout)

    def _run(self, script: str, run_ids: Sequence[str], args: Sequence[str]) -> Any:
        return self._connection.run(f"runs/{script}", [self._keys.run(run_id) for run_id in run_ids], args)

    def _read(self, reply: str) -> list[Run]:
        """Read the runs of a reply; a list without members comes as an object."""
        rows = json.loads(reply)["runs"] or []
        return list(self._runs((row["key"], row) for row in rows))


def _countdown(run: Run) -> float:
    """Return how many seconds a worker waits before it starts a run that is sent from its record."""
    try:
        seconds = Payload.from_text(run.payload).options.get("countdown")
    except InvalidEntry:
        return 0.0
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0


def _pairs(**texts: str) -> list[str]:
    return [text for pair in texts.items() if pair[1] for text in pair]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
