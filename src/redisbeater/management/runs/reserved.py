"""Send runs from the calling process: trigger, and the reserved runs of others."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from celery.beat import Scheduler

from redisbeater.broker.broker import Broker
from redisbeater.clock import host_seconds
from redisbeater.code_errors import EndedByCode, named
from redisbeater.context import Context
from redisbeater.display import quoted, shown
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry, RunActive, SendFailed, StoreError, WrongType
from redisbeater.log_lines import get_logger
from redisbeater.management.registered import refused_arguments
from redisbeater.management.runs.history import check_tracked
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import checked_policies
from redisbeater.model.passed_values import checked_instant
from redisbeater.model.policies import Overlap, OverlapWord
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import Kind, Span
from redisbeater.redaction import redacted
from redisbeater.sending.run import cancel, counted_from, make_run, new_run, own_options
from redisbeater.sending.sender import Declined, Sender
from redisbeater.store import Reservation
from redisbeater.times import relative_words

logger = get_logger(__name__)


class RunSender:
    """Sends runs from this process, one after the other, on one connection that is opened when needed.

    It is safe between threads, and a process that was forked opens a connection of its own.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._lock = threading.Lock()
        self._process: _ProcessSender | None = None

    def send(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run and wait until the broker has accepted it. Return why it was not, or None."""
        with self._lock:
            if self._process is None or self._process.pid != os.getpid():
                self._process = _ProcessSender(self.context)
            return self._process.send(run)


class _ProcessSender(Scheduler):
    """Celery's path of a run, without a schedule: instruments that wrap ``apply_entry`` see what is sent."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.app, lazy=True)
        self.pid = os.getpid()
        self._broker = Broker(context.app, context.config.publish_timeout, self.Producer)
        self._sender = Sender(self)

    @property
    def producer(self) -> Any:
        """The producer of the connection; a connection that has idled is replaced."""
        return self._broker.producer

    def send(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run and wait until the broker has accepted it. Return why it was not, or None."""
        self._broker.renew_idle()
        try:
            with self._broker.publish_batch(one_by_one=True) as batch:
                error = self._sender.send(run)
                if error is None:
                    batch.flush()
        except Exception as exc:  # the broker cannot be reached, or refuses what was buffered
            error = exc
        if error is not None:
            self._broker.close()
        if isinstance(error, EndedByCode) and error.__cause__ is not None:
            raise error.__cause__  # this is not beat: the program may want to end
        return error


#: While a beat has claimed the entry: how many seconds to ask again, and how many between two requests.
CLAIMED_SECONDS, ASK_AGAIN_SECONDS = 2.0, 0.05


_DONE = {Kind.TRIGGER: "triggered", Kind.RESTART: "restarted", Kind.BACKFILL: "backfilled"}


@dataclass(frozen=True, kw_only=True)
class SendRequest:
    """Why a run is sent and by whom, and what it must not overlap.

    Attributes:
        author: who wants it, and why.
        overlap: what decides where another run of the entry is active.
        kind: ``trigger``, ``restart`` or ``backfill``.
        restart_of: the id of the run that it repeats.
        version: the version of the entry's definition whose arguments are sent; empty: they are others.
    """

    author: Author
    overlap: Overlap = Overlap.ALLOW
    kind: Kind = Kind.TRIGGER
    restart_of: str = ""
    version: str = ""


def send_run(caller: RunSender, run: RedisScheduleEntry, errand: SendRequest, now: datetime) -> bool:
    """Send a run and wait until the broker has it; with ``redisbeater_track_runs`` it is recorded first.

    Arguments:
        caller: sends the run.
        run: the run.
        errand: why it is sent, and by whom.
        now: the time of the Redis server.

    Returns:
        True: it was sent, now or before. False: it is buffered, and beat sends it when its turn comes.

    Raises:
        RunActive: another run of the entry is active, or is being sent.
        InvalidEntry: its task does not take its arguments.
        SendFailed: the broker did not take it.
        ImproperlyConfigured: an overlap was asked for, and runs are not recorded.
    """
    context = caller.context
    if refusal := refused_arguments(context.app, run.task, run.args, run.kwargs):
        raise InvalidEntry("$.args", f"the task does not take these arguments: {refusal}")
    if context.config.track_runs:
        reservation = _reserve(context, run, errand, now)
        for active in reservation.active if errand.overlap is Overlap.CANCEL_OTHER else ():
            cancel(context, active, by=errand.author.by, note=errand.author.note)
        if reservation.outcome in ("BUFFERED", "KNOWN"):
            return reservation.outcome == "KNOWN"
    elif errand.overlap is not Overlap.ALLOW:
        check_tracked(context)
    run_id = run.options["task_id"]
    error = caller.send(run)
    if error is not None:
        _withdraw(context, run_id, shown(error))
        why = error if isinstance(error, Declined) else f"the broker did not take its run: {shown(named(error))}"
        raise SendFailed(f"entry {run.name!r} was not {_DONE[errand.kind]}, {why}")
    if run.options["task_id"] != run_id:
        _withdraw(context, run_id, f"sent as {run.options['task_id']}")
    return True


def _reserve(context: Context, run: RedisScheduleEntry, errand: SendRequest, now: datetime) -> Reservation:
    author = errand.author
    new = new_run(
        run,
        now,
        kind=errand.kind,
        by=author.by,
        note=author.note,
        restart_of=errand.restart_of,
        version=errand.version,
        queue=context.task_options.routed_queue(run.task, run.args, run.kwargs, run.options),
        is_alone=errand.overlap is not Overlap.ALLOW,
    )
    deadline = host_seconds() + CLAIMED_SECONDS
    while True:
        reservation = context.redis.runs.reserve(new, errand.overlap.value)
        if reservation.outcome in ("RESERVED", "BUFFERED", "KNOWN"):
            return reservation
        if reservation.outcome == "BUSY":
            raise _busy(context, run.name, errand.overlap, reservation.active)
        if host_seconds() > deadline:
            raise RunActive(f"a beat is sending a run of {quoted(run.name)}; try again in a moment")
        time.sleep(ASK_AGAIN_SECONDS)


def _busy(context: Context, name: str, overlap: Overlap, active: tuple[str, ...]) -> RunActive:
    """Return the error that names the run in the way, and since when it is active."""
    found = context.redis.runs.many(active[:1])
    run = found.get(active[0]) if active else None
    began = (run.started_at or run.sent_at) if run else None
    since = f", {run.state} {relative_words(began, context.redis.clock()[0])}" if run and began else ""
    which = f"run {active[0]}" if active else "another run"
    way = "stop it, wait, or pass overlap='allow'" if overlap is Overlap.SKIP else "one is buffered already"
    return RunActive(f"{which} of {quoted(name)} is active{since} (overlap {overlap}); {way}", runs=active)


def _withdraw(context: Context, run_id: str, error: str) -> None:
    """Record that a run was not sent; if that fails, it is lost after ``redisbeater_run_queue_timeout``."""
    if not context.config.track_runs:
        return
    try:
        context.redis.runs.withdraw(run_id, error=error)
    except StoreError as exc:
        logger.warning("run %s was not sent, but its record does not say so: %s", run_id, exc)


#: What a task id may be that a caller chooses: it is a part of keys, of addresses and of shell commands.
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")

#: Characters that are kept of what such an id stands for.
MOST_WORDS = 300

#: For how many seconds more than the broker may take no other call sends a run: it has to read the entry and record it.
SENDING_SECONDS = 5.0


class Triggers:
    """Sends runs of entries from this process. Neither the next fire time nor the counters of an entry change."""

    def __init__(self, caller: RunSender) -> None:
        self._context = caller.context
        self._caller = caller

    def trigger(
        self,
        name: str,
        *,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        scheduled_for: datetime | None,
        overlap: OverlapWord | Overlap | None,
        task_id: str | None,
        author: Author,
    ) -> str:
        """Send a run of an entry, and return its task id; :meth:`redisbeater.ScheduleStore.trigger`."""
        _check_moment(scheduled_for)
        send = partial(self._send, name, args, kwargs, scheduled_for, read_overlap(overlap), author)
        if task_id is None:
            return send("")
        if not isinstance(task_id, str) or not _TASK_ID.fullmatch(task_id):
            expected = "up to 128 letters, digits and . _ : - that begin with a letter or a digit"
            raise InvalidEntry("$.task_id", f"expected {expected}, got {quoted(task_id)}")
        moment = scheduled_for and scheduled_for.isoformat()
        asked = {"name": name, "args": args, "kwargs": kwargs, "scheduled_for": moment, "overlap": overlap}
        token = uuid.uuid4().hex
        if not self._begin(task_id, asked, token):
            return task_id
        outcome = "UNSENT"
        try:
            send(task_id)
            outcome = "SENT"
        except (EntryNotFound, InvalidEntry, RunActive):
            outcome = "REFUSED"
            raise
        finally:
            self._end(task_id, outcome, token)
        return task_id

    def _begin(self, task_id: str, asked: dict[str, Any], token: str) -> bool:
        """Return whether to send the run with an id that the caller has chosen: no other call has, or is about to.

        Raises:
            InvalidEntry: the id stands for something else.
            RunActive: other calls are sending it, one after the other.
        """
        json_text.check_value(asked, "$")
        patterns, given = self._context.config.redact, {key: value for key, value in asked.items() if value is not None}
        texts = {key: json_text.to_text(redacted(value, patterns, in_texts=True)) for key, value in given.items()}
        words = shown(_asked_words(quoted(asked["name"]), texts), MOST_WORDS)
        digest = hashlib.sha256(json_text.canonical(asked).encode()).hexdigest()
        lease = 2 * self._context.config.publish_timeout + CLAIMED_SECONDS + SENDING_SECONDS
        deadline = host_seconds() + 2 * lease
        while True:
            word, known = self._context.redis.triggers.begin(task_id, digest, words, token=token, lease=lease)
            if word == "TAKEN":
                raise InvalidEntry("$.task_id", f"{task_id} is the id of a run of {quoted(known)}; pass another one")
            if word == "OTHER":
                is_same = known.partition(" with ")[0] == words.partition(" with ")[0]
                used = f"{task_id} was used for {known} within 24 hours"
                raise InvalidEntry("$.task_id", f"{used}{f', not for {words}' if is_same else ''}; pass another one")
            if word != "WAIT":
                return word == "SEND"
            if host_seconds() > deadline:
                raise RunActive(f"another call is sending run {task_id}; try again in a moment", runs=(task_id,))
            time.sleep(ASK_AGAIN_SECONDS)

    def _end(self, task_id: str, outcome: str, token: str) -> None:
        try:
            self._context.redis.triggers.end(task_id, outcome, token=token)
        except StoreError as exc:
            logger.warning("run %s: a call with the same id may send it again, Redis has failed: %s", task_id, exc)

    def _send(
        self,
        name: str,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        scheduled_for: datetime | None,
        chosen: Overlap | None,
        author: Author,
        task_id: str,
    ) -> str:
        stored = load(self._context, name)
        definition = self._definition(stored, args, kwargs)
        run = triggered_run(self._context, stored, definition, scheduled_for or stored.now, task_id=task_id)
        policy = ResolvedPolicy.of(definition, self._context.defaults).overlap if chosen is None else chosen
        version = stored.version if definition is stored.definition else ""
        request = SendRequest(author=author, overlap=policy, kind=Kind.TRIGGER, version=version)
        is_sent = send_run(self._caller, run, request, stored.now)
        task_id = run.options["task_id"]
        header = scheduled_for and run.options["headers"]["scheduled_for"]
        self._log(name, author, run=task_id, scheduled_for=header, buffered=None if is_sent else True)
        return task_id

    def _definition(
        self, stored: StoredEntry, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
    ) -> Definition:
        """Return the definition with other arguments, as it would be if an entry with them were stored."""
        if args is None and kwargs is None:
            return stored.definition
        given = {"args": args, "kwargs": kwargs}
        definition = stored.definition.changed(**{name: value for name, value in given.items() if value is not None})
        codec = self._context.codec
        return Definition.from_text(definition.name, definition.to_text(codec), codec)

    def _log(self, name: str, author: Author, **details: Any) -> None:
        """Add the line to the entry's log; the run has been sent, so a failure must not look like one of the run."""
        logger.info("entry %r triggered, id %s", name, details["run"])
        try:
            self._context.redis.log.add_to_entry(name, author.line("triggered", **details))
        except StoreError as exc:
            logger.warning("entry %r was triggered, but its log does not say so: %s", name, exc)


def _asked_words(name: str, texts: Mapping[str, str]) -> str:
    """Return the trigger that a caller asks for, for people: ``'report'``, or ``'report' with args [1]``."""
    more = ", ".join(f"{key} {text}" for key, text in texts.items() if key != "name")
    return f"{name} with {more}" if more else name


def triggered_run(
    context: Context,
    stored: StoredEntry,
    definition: Definition,
    fire_time: datetime,
    span: Span | None = None,
    *,
    task_id: str = "",
) -> RedisScheduleEntry:
    """Return a run of an entry out of turn, with that fire time; a naive one is in the entry's zone.

    Its deadline counts from now: the fire time may be long ago. Without a ``span`` it follows the entry's last run.
    """
    moment = checked_instant(fire_time, definition.zone(context.in_zone(stored.zone).zone), "$.scheduled_for")
    last = stored.meta.last_run_at
    run = make_run(
        definition,
        moment,
        schedule_id="",
        run_count=stored.meta.total_run_count,
        app=context.app,
        attempt=int(context.config.track_runs),
        now=stored.now,
        span=span or Span(last if last is not None and last < moment else None),
    )._bind(context)
    if definition.deadline is not None:
        run.options["expires"] = counted_from(stored.now, own_options(definition, stored.now, stored.now)["expires"])
    # A random id: the run at that fire time has the other one, and workers discard what they know as revoked.
    run.options["task_id"] = task_id or str(uuid.uuid4())
    return run


def read_overlap(given: OverlapWord | Overlap | None) -> Overlap | None:
    """Return the overlap that a caller asks for, or None for the entry's own.

    Raises:
        InvalidEntry: it is none.
    """
    if given is None:
        return None
    overlap = checked_policies({"overlap": given})["overlap"]
    return overlap if isinstance(overlap, Overlap) else None


def _check_moment(moment: Any) -> None:
    if moment is not None and not isinstance(moment, datetime):
        raise WrongType("$.scheduled_for", f"expected a datetime, got {type(moment).__name__}")
