"""``RunStore``: the records of runs, as beat, workers and programs write and read them.

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
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from redisbeater.config.settings import Config
from redisbeater.display import shown
from redisbeater.exceptions import InvalidEntry, LockNotOwnedError, StoreError, StoreUnavailable
from redisbeater.log_lines import Seldom, get_logger
from redisbeater.model.log_line import line_text
from redisbeater.model.run import (
    COUNTED,
    FAILED,
    WAITS_AFTER,
    NewRun,
    Payload,
    Run,
    RunBrief,
    RunCounts,
    State,
    packed_traceback,
    process_of,
    read_count,
    stored_time,
    unpacked_traceback,
)
from redisbeater.store.claim import FIRST_ROW, Messages, lengths_of
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.contents import escaped
from redisbeater.store.keys import Keys
from redisbeater.store.notifier import Notifier
from redisbeater.times import from_unix, to_unix

logger = get_logger(__name__)


def new_holder(host: str, pid: int) -> str:
    """Return a token for one execution of a run in one process."""
    return f"{holder_prefix(host, pid)}{secrets.token_hex(4)}"


def holder_prefix(host: str, pid: int) -> str:
    """Return the prefix of the tokens of all executions in a process; it fences where the token is unknown."""
    return f"{host}:{pid}:"


#: How many releases are kept.
MOST_RELEASES = 50

#: Where else the release of the code stands, in the environment.
RELEASE_VARIABLES = ("SENTRY_RELEASE", "HEROKU_RELEASE_VERSION", "GIT_COMMIT")


def release_of(config: Config) -> str:
    """Return the release of the code of this process, by ``redisbeater_release`` or its environment, or nothing."""
    found = (config.release, *map(os.environ.get, RELEASE_VARIABLES))
    return shown(next(filter(None, found), ""))


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution of a run, as its worker reports it.

    Attributes:
        run_id: the id of the task.
        name, task: the names of the entry and of the task.
        attempt: what the message's header ``redisbeater_attempt`` has.
        step: how often the run was published by itself before, for another try or as a replacement: the execution that
            published it is over, though its end may be recorded later. A copy that is published because another
            execution holds the lease keeps the step of its message.
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
    step: int = 0
    holder: str = ""
    fire_time: datetime | None = None
    worker: str = ""
    pid: int = 0
    acks_late: bool = False
    is_redelivered: bool = False
    is_exclusive: bool = False

    def to_fields(self) -> list[str]:
        """Return names and values that are stored with the run; what the holder says of the worker is left out."""
        stored = {"task": shown(self.task, None)}  # a message may bring a name that no encoding has
        if not self.holder or (self.worker, self.pid) != process_of(self.holder):
            stored.update(worker=shown(self.worker, None), pid=str(self.pid))
        if self.acks_late:
            stored["acks_late"] = "1"
        return [text for pair in stored.items() for text in pair]

    def to_first_fields(self) -> list[str]:
        """Return names and values for a run of which nothing is stored."""
        times = ["fire_time", stored_time(self.fire_time)] if self.fire_time else []
        return ["name", self.name, *self.to_fields(), *times]


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """The outcome of renewing leases, as ids of runs.

    Attributes:
        to_stop: somebody asked to stop them.
        not_ours: others have them.
        absent: no start of them is stored: Redis has lost or refused it, or somebody has deleted the record.
    """

    to_stop: frozenset[str] = frozenset()
    not_ours: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()


#: Bytes of payloads after which one script reads no further run; ``store/schedule.py`` has the reason.
ENOUGH_BYTES = 4_000_000

#: How many runs one script reads.
PAGE = 250

#: Bytes that are read of a traceback: what packs worst takes fewer, and another program may have stored anything.
MOST_PACKED = 65_536

#: How many runs one script reads in brief: a page of 50 entries, with 30 runs each.
MOST_BRIEFS = 1_500

#: How many entries, and runs, one script counts: a few milliseconds of the server.
TALLY_PAGE, ENOUGH_RUNS = 100, 2_000


@dataclass(kw_only=True)
class Tally:
    """How many runs were sent from a moment on, what became of them, and how many fire times were skipped.

    Attributes:
        runs: how many records were read.
        states: state -> number of runs; other programs may have written any.
        late: how many of them were sent late.
        is_at_least: whether there were more than is kept.
    """

    runs: int = 0
    states: Counter[str] = field(default_factory=Counter)
    late: int = 0
    skipped: int = 0
    is_at_least: bool = False

    def add(self, reply: Mapping[str, Any]) -> None:
        """Add what one script has counted."""
        self.runs += int(reply["runs"])
        self.states.update({state: int(number) for state, number in dict(reply["states"]).items()})
        self.late += int(reply["late"])
        self.skipped += int(reply["skipped"])
        self.is_at_least = self.is_at_least or reply["is_at_least"]


#: How long the lease of an execution that died lasts: the broker may give its message out again until then.
DROP_SECONDS = 10

#: Of how many runs the entries are named.
MOST_NAMED = 10_000

#: How long runs are searched by the begin of their ids, and how many keys one step looks at.
SEARCH_SECONDS, SEARCH_PAGE = 1.0, 5_000

#: How many runs of an entry are looked through for those that repeat one.
MOST_RESTARTS = 1_000

#: How many leases one script renews: it keeps the server busy for a millisecond or two.
RENEW_PAGE = 250


@dataclass(frozen=True, kw_only=True)
class FoundRuns:
    """Ids of runs that were searched by their begin, and whether all were found: there may be more, or no time."""

    ids: tuple[str, ...] = ()
    is_all: bool = True


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """The outcome of reserving a run that a program wants to send.

    ``outcome``: ``RESERVED``, send it; ``BUFFERED``, beat sends it when its turn comes; ``KNOWN``, a call with the same
    id has sent it; ``CLAIMED``, a beat has claimed the entry, ask again; ``BUSY``, ``active`` has the ids of the runs
    in its way. With ``cancel_other`` these are to be stopped also where it is ``BUFFERED``.
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
        self._seldom = Seldom()
        #: The release of the code of this process; empty: it has none.
        self.release = release_of(config)
        self._has_told_release = False

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
        fields = execution.to_fields()
        if self.release:
            fields += ["release", self.release]
            self._tell_release(execution.worker or process_of(execution.holder)[0])
        word, seconds = self._run("start", [execution.run_id], [*args, _json(fields), fire_time])
        return word, float(seconds)

    def _tell_release(self, worker: str) -> None:
        """Store once when the release of this process was reported first, and say so in the log of the schedule."""
        if self._has_told_release or not self.release:
            return
        self._has_told_release, key = True, self._keys.releases
        now = self._connection.call(lambda client: client.time())
        told = {self.release: f"{now[0]}.{now[1]:06d}"}
        try:
            if not unless_wrong_type(self._connection, lambda client: client.zadd(key, told, nx=True)):
                return
            self._connection.call(lambda client: client.zremrangebyrank(key, 0, -1 - MOST_RELEASES))
            from redisbeater.store.records import Log  # most workers have no use for it

            Log(self._connection, self._keys, 0).add("release", release=self.release, worker=worker)
        except StoreUnavailable:
            raise
        except StoreError as exc:
            logger.warning("the release of this worker is not listed: %s", exc)

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
        traceback: str = "",
        seconds: float | None = None,
    ) -> str:
        """Record the end of an execution.

        Arguments:
            execution: with its holder; without one, no execution has begun: revoked or expired before its start.
            state: an end other than LOST, or RETRY.
            retry_in: seconds until the next try may start; None: none. No time: the clock of a worker may be wrong.
            error: :func:`~redisbeater.model.run.error_text`.
            result: :func:`~redisbeater.model.run.result_text`.
            note: what a person should know about this end.
            traceback: :func:`~redisbeater.model.run.traceback_text`; kept for the newest 3 failures of an entry.
            seconds: how long it took; None: since its start was recorded.

        Returns:
            ``FINISHED``, also when it was recorded before, or when the next try of a RETRY has begun; ``LATE``: another
            execution has the run, and the end was only noted.
        """
        fields = _pairs(error=error, result=result, note=note)
        terms = [*self._terms, execution.holder, str(execution.attempt), state.value, self._wait]
        times = ["" if each is None else f"{max(each, 0.0):.6f}" for each in (retry_in, seconds)]
        texts = [_json(fields), _json(execution.to_first_fields())]
        packed = packed_traceback(traceback)
        word: str = self._run("finish", [execution.run_id], [*terms, *times, *texts, str(execution.step), packed])
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

    def report_node(self, name: str, make_text: Callable[[datetime], str]) -> None:
        """Store what a worker reports of itself, which is made of the time of the server."""
        seconds, microseconds = self._connection.call(lambda client: client.time())
        text = make_text(from_unix(f"{seconds}.{microseconds:06}"))
        unless_wrong_type(self._connection, lambda client: client.hset(self._keys.workers, name, text))
        self._tell_release(name)

    def forget_node(self, name: str) -> None:
        """Delete what a worker has reported of itself: it ends, or is gone."""
        unless_wrong_type(self._connection, lambda client: client.hdel(self._keys.workers, name))

    def nodes(self) -> dict[str, str]:
        """Return the reports of workers on themselves: name -> JSON."""
        return unless_wrong_type(self._connection, lambda client: client.hgetall(self._keys.workers)) or {}

    # What beat does

    def overdue(self, limit: int = 100, *, seconds: float = 0.0, passed: int = 0) -> list[Run]:
        """Return active runs whose lease ended at least ``seconds`` ago, the oldest first, with their payloads.

        ``passed``: so many of the oldest are passed over.
        """
        terms = [self._keys.prefix, str(limit), *self._bounds, f"{seconds:g}", str(passed)]
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
        word: str = self._change("lose", keys, terms)
        return word

    def take(self, *, token: str, limit: int = 100, taken: str = "1") -> list[Run]:
        """Take runs that beat is to send now, for a lease, the oldest first, with their payloads.

        A buffered one, and a lost one that was sent alone, is left for 5 seconds while another run of its entry is
        active; none is taken while the schedule is paused. Pass those that were sent to ``RedisSchedule.commit()``.

        Arguments:
            token: what the lock must hold; empty: there is no lock.
            limit: number of runs.
            taken: by what they are taken, an id that no other call has: their messages are put into the broker with
                the commit while it stands.

        Raises:
            LockNotOwnedError: the lock is not ours; nothing was taken.
        """
        keys = [self._keys.resend, self._keys.lock, self._keys.pause]
        terms = [self._keys.prefix, token, str(self._config.lease_timeout), str(limit), *self._bounds, taken]
        word, reply = self._change("take", keys, terms)
        if word == "FENCED":
            raise LockNotOwnedError("another beat holds the lock, or it has run out")
        return self._read(reply)

    # What programs do

    def stop(self, run_id: str, *, by: str = "", note: str = "") -> Run | None:
        """Ask to stop a run, and return it as it is then, or None if there is none.

        One that waits for beat (BUFFERED, or LOST and to be sent again) is REVOKED at once. A final one is left alone.
        """
        line = line_text("stopped", run=run_id, by=by, note=note)
        terms = [*self._terms, _json(_pairs(by=by, note=note)), str(self._config.log_limit), line]
        self._change("stop", [self._keys.run(run_id), self._keys.new_answer()], terms)
        return self.run(run_id)

    def reserve(self, run: NewRun, overlap: str = "allow") -> Reservation:
        """Record a run that the caller is about to send, where the policy lets it.

        Arguments:
            run: the run.
            overlap: ``allow``, ``skip``, ``buffer_one`` or ``cancel_other``.
        """
        keys = [self._keys.entry(run.name), self._keys.schedule, self._keys.new_answer()]
        terms = [self._keys.prefix, self._wait, overlap, _json(run.to_row())]
        word, active = self._change("reserve", keys, terms)
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

    def commit_terms(self, resent: Sequence[Run], messages: Mapping[str, Messages]) -> str:
        """Return the argument of a commit about runs; ``messages`` are those of runs that were resent, by run id."""
        sent: list[dict[str, Any]] = [
            {"id": run.id, "attempt": run.attempt, "countdown": _countdown(run)} for run in resent
        ]
        place = FIRST_ROW
        for row, run in zip(sent, resent):
            if run.id in messages:
                row["taken"], commands = messages[run.id]
                row.update(push=place, lengths=lengths_of(commands))
                place += sum(map(len, commands))
            if run.expires:
                row["expires"] = to_unix(run.expires)
        return _json({"prefix": self._keys.prefix, "wait": self._config.run_queue_timeout, "resent": sent})

    @property
    def edit_terms(self) -> list[str]:
        """The last argument of an edit; none where runs are not tracked."""
        if not self._config.track_runs:
            return []
        prefix, limit, retention = self._terms
        return [_json({"prefix": prefix, "limit": int(limit), "retention": int(retention)})]

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
        return self._change(script, [self._keys.run(run_id) for run_id in run_ids], args)

    def _change(self, script: str, keys: Sequence[str], args: Sequence[str]) -> Any:
        """Run a script that changes runs, and return its answer; what was refused of the rest is logged."""
        reply = self._connection.run(f"runs/{script}", keys, args)
        if not isinstance(reply, list) or reply[:1] != ["REDUCED"]:
            return reply
        _, problem, answer = reply
        error = self._connection.refusal(f"runs/{script}", problem)
        if self._seldom.is_due(script, error):
            logger.warning("the state of a run is stored, but Redis refused a part of its records: %s", error)
        return answer

    def _read(self, reply: str) -> list[Run]:
        """Read the runs of a reply; a list without members comes as an object."""
        rows = json.loads(reply)["runs"] or []
        return list(self._runs((row["key"], row) for row in rows))

    # Records, read

    def run(self, run_id: str) -> Run | None:
        """Return a run with its payload, if it is stored."""
        return next(self._load([self._keys.run(run_id)], with_payload=True), None)

    def traceback(self, run_id: str) -> str:
        """Return where the error of a run was raised; empty where that is not kept."""
        key = self._keys.traceback_of(run_id)
        stored = unless_wrong_type(self._connection, lambda client: client.getrange(key, 0, MOST_PACKED - 1))
        return unpacked_traceback(stored or "")

    def number_kept(self, name: str) -> int:
        """Return how many runs of an entry are kept."""
        key = self._keys.runs_of(name)
        return unless_wrong_type(self._connection, lambda client: client.zcard(key)) or 0

    def find(self, start: str, limit: int = 20) -> FoundRuns:
        """Return ids of runs that begin with a text, in no order: at most so many, as a second of searching finds.

        The newest failures, and runs that are active, are found in any case.
        """
        key, until = self._keys.run(start), time.monotonic() + SEARCH_SECONDS
        listed = [*self._members(self._keys.failures, "+inf", "-inf", 0, SEARCH_PAGE)]
        listed += self._members(self._keys.active, "+inf", "-inf", 0, SEARCH_PAGE)

        def search(client: Any) -> FoundRuns:
            found = dict.fromkeys(each for each in listed if each.startswith(key))
            cursor, is_over = _scan(client, 0, key, found), False
            while cursor and not is_over:
                cursor = _scan(client, cursor, key, found)
                is_over = len(found) > limit or time.monotonic() > until
            ids = tuple(map(self._keys.run_id, found))[:limit]
            return FoundRuns(ids=ids, is_all=not cursor and len(found) <= limit)

        return self._connection.call(search)

    def failures(self, limit: int, before: datetime | None = None, since: datetime | None = None) -> list[Run]:
        """Return the newest runs of the schedule that failed, the newest end first, without their payloads.

        Arguments:
            limit: how many; 1,000 are listed, some of which may not be kept any more.
            before: only runs that ended before that, aware UTC.
            since: only runs that ended then or later, aware UTC.
        """
        highest, lowest = _range(before, None)
        keys = self._members(self._keys.failures, highest, to_unix(since) if since else lowest, 0, limit)
        return [run for run in self._load(keys) if run.state in FAILED]

    def first_failure(self) -> datetime | None:
        """Return when the oldest run ended that is listed as a failure, or None if there is none."""
        found = unless_wrong_type(
            self._connection, lambda client: client.zrange(self._keys.failures, 0, 0, withscores=True)
        )
        return from_unix(found[0][1]) if found else None

    def restarts_of(self, run: Run) -> list[str]:
        """Return the ids of the runs that repeat a run, the newest first, of the newest thousand of its entry."""
        began = run.finished_at or run.sent_at
        keys = self._members(
            self._keys.runs_of(run.name), "+inf", to_unix(began) if began else "-inf", 0, MOST_RESTARTS
        )
        return [each.id for each in self._load(keys) if each.restart_of == run.id]

    def beside(self, run: Run) -> tuple[str, str]:
        """Return the ids of the runs of an entry before and after one, or an empty text where none is kept."""
        key, member = self._keys.runs_of(run.name), self._keys.run(run.id)

        def read(client: Any) -> list[str]:
            rank = client.zrank(key, member)
            return [] if rank is None else client.zrange(key, max(rank - 1, 0), rank + 1)

        near = unless_wrong_type(self._connection, read) or []
        at = near.index(member) if member in near else 0
        kept = {self._keys.run(each.id): each.id for each in self._load(near)}
        before, after = near[:at][-1:], near[at + 1 :][:1]
        return kept.get("".join(before), ""), kept.get("".join(after), "")

    def newest_failed(self, limit: int) -> list[str]:
        """Return the names of the entries of which the last run failed, those that did so last first."""
        members = list(filter(self._keys.is_entry, self._members(self._keys.failed, "+inf", "-inf", 0, limit)))
        known = unless_wrong_type(
            self._connection,
            lambda client: [each for each in members if client.zscore(self._keys.schedule, each) is not None],
        )
        return list(map(self._keys.name, known or ()))

    def failed_since(self, names: Sequence[str]) -> dict[str, datetime]:
        """Return since when each run of these entries fails, aware UTC, for those of which the last run failed."""

        def read(client: Any) -> list[float | None]:
            pipeline = client.pipeline(transaction=False)
            for name in names:
                pipeline.zscore(self._keys.failed, self._keys.entry(name))
            return pipeline.execute()

        scores = unless_wrong_type(self._connection, read) if names else ()
        return {name: from_unix(score) for name, score in zip(names, scores or ()) if score is not None}

    def have_succeeded(self, names: Sequence[str]) -> set[str]:
        """Return those of some entries of which a run has ever succeeded."""

        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for name in names:
                pipeline.hget(self._keys.entry(name), f"n.{State.SUCCESS.lower()}")
            return pipeline.execute(raise_on_error=False)

        counts = self._connection.call(read) if names else ()
        return {name for name, count in zip(names, counts) if isinstance(count, str) and read_count(count)}

    def began_to_fail(self, start: datetime, end: datetime, limit: int) -> list[str]:
        """Return the names of entries of which the last run failed, that began to fail between two moments."""
        first, last = to_unix(start), to_unix(end)
        members = unless_wrong_type(
            self._connection,
            lambda client: client.zrangebyscore(self._keys.failed, first, last, start=0, num=limit),
        )
        return [self._keys.name(member) for member in members or () if self._keys.is_entry(member)]

    def names_of(self, result: str) -> set[str]:
        """Return the names of the entries that failed or are unstable, or have runs that wait, or are executed.

        Arguments:
            result: ``failed``, ``unstable``, ``waiting`` or ``running``. Of 10,000 runs at most the entries are named.
        """
        if result in ("failed", "unstable"):
            key = self._keys.failed if result == "failed" else self._keys.unstable
            members = unless_wrong_type(self._connection, lambda client: client.zrange(key, 0, -1)) or ()
            return {self._keys.name(member) for member in members if self._keys.is_entry(member)}
        is_waiting = result == "waiting"
        key, state = (self._keys.waiting, State.SENT) if is_waiting else (self._keys.active, State.STARTED)
        now = self._connection.call(lambda client: client.time())[0]
        soon = now - WAITS_AFTER.total_seconds() if is_waiting else "+inf"
        members = unless_wrong_type(
            self._connection, lambda client: client.zrangebyscore(key, "-inf", soon, start=0, num=MOST_NAMED)
        )
        return {run.name for run in self._load(members or ()) if run.state is state}

    def minutes(self) -> dict[datetime, Counter[State]]:
        """Return how many runs ended in which state, by the begin of five minutes in the last six hours, aware UTC."""
        return self._ends(self._keys.minutes, 300)

    def hours(self) -> dict[datetime, Counter[State]]:
        """Return how many runs ended in which state, by the begin of an hour in the last seven days, aware UTC."""
        return self._ends(self._keys.hours, 3600)

    def _ends(self, key: str, seconds: int) -> dict[datetime, Counter[State]]:
        stored = unless_wrong_type(self._connection, lambda client: client.hgetall(key)) or {}
        found: dict[datetime, Counter[State]] = {}
        for what, text in stored.items():
            slot, _, state = what.partition(" ")
            if slot.isdecimal() and len(slot) < 9 and state in set(State):
                found.setdefault(from_unix(int(slot) * seconds), Counter())[State(state)] += read_count(text)
        return found

    def many(self, run_ids: Sequence[str], *, with_payload: bool = False) -> dict[str, Run]:
        """Return the runs that exist, by id."""
        keys = [self._keys.run(run_id) for run_id in run_ids]
        return {run.id: run for run in self._load(keys, with_payload=with_payload)}

    def history(
        self,
        name: str,
        limit: int = 20,
        *,
        states: Collection[State] = (),
        before: datetime | None = None,
        at: datetime | None = None,
    ) -> list[Run]:
        """Return runs of an entry, the newest first, without their payloads.

        Arguments:
            name: the name of the entry.
            limit: how many.
            states: only runs in these; empty: in any.
            before: only runs that were sent, or began to wait, before that, aware UTC.
            at: only runs that were sent, or began to wait, at that moment, aware UTC.
        """
        runs: list[Run] = []
        for run in self._newest(name, *_range(before, at)):
            if len(runs) >= limit:
                break
            if not states or run.state in states:
                runs.append(run)
        return runs

    def newest(
        self, names: Sequence[str], limit: int, before: datetime | None = None, at: datetime | None = None
    ) -> list[Run]:
        """Return the newest runs of several entries together, the newest first, without their payloads.

        Arguments:
            names: the names of the entries.
            limit: how many runs.
            before: only runs that were sent, or began to wait, before that, aware UTC.
            at: only runs that were sent, or began to wait, at that moment, aware UTC.
        """
        members = sorted(self._scored(names, limit, *_range(before, at)), key=lambda row: -float(row[1]))
        return list(self._load([key for key, _ in members[:limit]]))

    def newest_of_each(self, names: Sequence[str], limit: int) -> Iterator[Run]:
        """Yield the newest runs of each of several entries, at most ``limit`` of each, without their payloads."""
        return self._load([key for key, _ in self._scored(names, limit)])

    def briefs(self, names: Sequence[str], limit: int) -> dict[str, list[RunBrief]]:
        """Return the newest runs of each of several entries in brief, the newest first, at most ``limit`` of each."""
        found: dict[str, list[RunBrief]] = {}
        step = max(MOST_BRIEFS // limit, 1)
        for start in range(0, len(names), step):
            page = names[start : start + step]
            keys = [self._keys.runs_of(name) for name in page]
            reply = json.loads(self._connection.run("runs/briefs", keys, [str(limit)]))
            for name, rows in zip(page, reply):
                runs = (RunBrief.from_row(self._keys.run_id(key), tuple(row)) for key, *row in rows)
                found[name] = [run for run in runs if run is not None]
        return found

    def tally(self, since: datetime, late: timedelta, most: int) -> Tally:
        """Count the runs of all entries that were sent from a moment on, and what was skipped since.

        Arguments:
            since: the moment, aware UTC.
            late: how long after it was due a run of the schedule counts as sent late.
            most: how many runs to count at most; the rest is left out.
        """
        found, cursor, keys = Tally(), "", self._keys
        terms = [to_unix(since), str(ENOUGH_RUNS), str(self._config.run_history_limit), str(late.total_seconds())]
        while cursor != "0":
            args = [cursor or "0", str(TALLY_PAGE), keys.prefix, *terms]
            reply = json.loads(self._connection.run("runs/tally", [keys.schedule], args))
            found.add(reply)
            cursor = str(reply["cursor"])
            if found.runs >= most:
                found.is_at_least = found.is_at_least or cursor != "0"
                break
        return found

    def _scored(
        self, names: Sequence[str], limit: int, highest: str = "+inf", lowest: str = "-inf"
    ) -> list[tuple[str, float]]:
        """Return the newest members of the histories of several entries, and when they were sent, in one round trip."""

        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for name in names:
                key = self._keys.runs_of(name)
                pipeline.zrevrangebyscore(key, highest, lowest, start=0, num=limit, withscores=True)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            return replies

        return [row for reply in self._connection.call(read) if isinstance(reply, list) for row in reply]

    def _newest(self, name: str, highest: str, lowest: str) -> Iterator[Run]:
        """Yield the runs of an entry, page by page; a run that ends in the meantime may come twice, or not at all."""
        start = 0
        while keys := self._members(self._keys.runs_of(name), highest, lowest, start):
            yield from self._load(keys)
            start += len(keys)

    def _members(self, key: str, highest: str, lowest: str, start: int, most: int = PAGE) -> list[str]:
        members = unless_wrong_type(
            self._connection,
            lambda client: client.zrevrangebyscore(key, highest, lowest, start=start, num=most),
        )
        return members or []

    def active(self, name: str, limit: int = 100) -> list[Run]:
        """Return runs of an entry that are sent and not final, and those that beat is to send, without their payloads.

        Arguments:
            name: the name of the entry.
            limit: how many are read.
        """
        key = self._keys.active_of(name)
        page = unless_wrong_type(self._connection, lambda client: client.srandmember(key, limit))
        return [run for run in self._load(page or []) if run.lease_end or run.resend_at]

    def active_ids(self, limit: int) -> list[str]:
        """Return ids of active runs of the whole schedule, those whose lease ends first."""
        page = unless_wrong_type(self._connection, lambda client: client.zrange(self._keys.active, 0, limit - 1))
        return [self._keys.run_id(key) for key in page or []]

    def counts(self, name: str) -> RunCounts:
        """Return the counts of an entry's runs by outcome."""
        key, fields = self._keys.entry(name), [*(f"n.{word}" for word in COUNTED), "failures", "buffered"]

        def read(client: Any) -> list[str | None]:
            is_entry = client.zscore(self._keys.schedule, key) is not None
            return client.hmget(key, fields) if is_entry else [None] * len(fields)

        stored = unless_wrong_type(self._connection, read) or [None] * len(fields)
        *numbers, buffered = stored
        counts = dict(zip((*COUNTED, "failures"), map(read_count, numbers), strict=True))
        return RunCounts(**counts, buffered=self._keys.run_id(buffered or ""))

    def has_reported(self) -> bool:
        """Return whether any worker has ever reported the start of a run of this schedule."""
        return self.totals().get("STARTED", 0) > 0

    def totals(self) -> dict[str, int]:
        """Return the counts for metrics.

        ``SENT`` and ``STARTED`` are those of the whole schedule; ``<state> <task>`` are final states; ``<=60 <task>``
        are runs that took so many seconds at most and more than the next smaller bound, ``<=+Inf <task>`` longer ones,
        and ``ms <task>`` their milliseconds in all.
        """
        stored = unless_wrong_type(self._connection, lambda client: client.hgetall(self._keys.totals))
        return {field: read_count(text) for field, text in (stored or {}).items()}

    def events(self) -> Notifier:
        """Return a listener for changes of runs."""
        return Notifier(self._connection, self._keys.events)

    def _load(self, keys: Sequence[str], *, with_payload: bool = False) -> Iterator[Run]:
        terms = [self._keys.prefix, "1" if with_payload else "0", *self._bounds]
        while page := keys[:PAGE]:
            rows = json.loads(self._connection.run("runs/load", page, terms))["runs"]
            yield from self._runs(dict(zip(page, rows)).items())
            keys = keys[max(len(rows), 1) :]  # with payloads, one reply may not have room for the page

    def _runs(self, rows: Iterable[tuple[str, Mapping[str, Any] | None]]) -> Iterator[Run]:
        for key, fields in rows:
            run = Run.from_fields(self._keys.run_id(key), fields) if fields else None
            if run is not None:
                yield run

    @property
    def _bounds(self) -> list[str]:
        """The bytes of one payload, and of all that one script reads."""
        return [str(2 * self._config.max_entry_size), str(ENOUGH_BYTES)]


def _scan(client: Any, cursor: int, start: str, found: dict[str, None]) -> int:
    """Add the keys of one page that begin with a text, and return where the next page begins; 0: there is none.

    Of a cluster only the node is asked that has the schedule.
    """
    where = {"target_nodes": client.get_node_from_key(start)} if hasattr(client, "get_node_from_key") else {}
    following, keys = client.scan(cursor, match=f"{escaped(start)}*", count=SEARCH_PAGE, **where)
    found.update(dict.fromkeys(keys))
    return int(*following.values()) if where else following


def _range(before: datetime | None, at: datetime | None) -> tuple[str, str]:
    """Return the highest and the lowest score of runs before a moment, or of those of one moment."""
    if at is not None:
        return to_unix(at), to_unix(at)
    return (f"({to_unix(before)}" if before else "+inf"), "-inf"


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
