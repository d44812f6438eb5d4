"""Stop runs, through Celery's remote control where one is executed, and restart those that have ended."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from celery import Celery

from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.display import json_fields, quoted, shown
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import load
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry, RunActive, StoreError
from redisbeater.log_lines import get_logger
from redisbeater.management.blanking import shown_run
from redisbeater.management.runs.history import outcome_words, read_run
from redisbeater.management.runs.reserved import RunSender, SendRequest, send_run, triggered_run
from redisbeater.model.policies import Overlap
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import Kind, Payload, Run, State
from redisbeater.sending.run import renewed_expiry, revoke, run_again

logger = get_logger(__name__)


#: How long to wait for the end of a run that was asked to stop, the answer of its worker included.
WAIT_SECONDS = 2.0

#: How long a worker has to answer.
REPLY_SECONDS = 1.5

#: Seconds between two looks at a run.
LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """What became of a run that was to stop.

    Attributes:
        outcome: ``REVOKED``: it was ended, or will never begin; ``ASKED``: it was asked to stop, and has not ended yet
            or ended by itself; ``CANNOT``: it goes on unless its task asks ``stop_requested()``, or had ended before.
        sentence: the same for people, with the reason.
        run: the run as it is then.
    """

    outcome: Literal["REVOKED", "ASKED", "CANNOT"]
    sentence: str
    run: Run

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return json_fields(self)


def stop_run(context: Context, run_id: str, author: Author) -> Stopped:
    """Stop a run; :meth:`redisbeater.results.Runs.stop`.

    Raises:
        RunNotFound: none of that id is kept.
    """
    before = read_run(context, run_id)
    if before.is_final:
        return _stopped(context, "CANNOT", before, "it had ended before")
    run = context.redis.runs.stop(before.id, by=author.by, note=author.note) or before
    if run.is_final:
        waited = before.state is State.BUFFERED or before.resend_at is not None
        why = "it had not been sent, and never will be" if waited else "it has ended"
        return _stopped(context, "REVOKED" if run.state is State.REVOKED else "CANNOT", run, why)
    logger.info("run %s of entry %r is asked to stop by %s", run.id, run.name, author.by)
    deadline = host_seconds() + WAIT_SECONDS
    refusal = _revoke(context.app, run, context.config.stop_signal)
    return _after(context, run, refusal, deadline)


def _revoke(app: Celery, run: Run, stop_signal: str | None) -> str:
    """Tell the workers, and return why the run's worker cannot end it, or an empty text."""
    is_known = run.state is State.STARTED and bool(run.worker)
    options: dict[str, Any] = {"reply": True, "timeout": REPLY_SECONDS} if is_known else {}
    try:
        replies: Any = revoke(app, run, stop_signal, **options)
    except Exception as exc:  # the broker may be away, or its transport may not carry such messages
        return f"its worker could not be reached through the broker ({shown(exc, 200)})"
    if stop_signal is None and is_known:
        return "redisbeater_stop_signal = None: only its task is asked"
    for reply in (replies or ()) if is_known else ():
        for worker, answer in reply.items():
            if isinstance(answer, dict) and "error" in answer:
                is_usual = "NotImplementedError" in str(answer["error"])
                reason = "" if is_usual else f" ({shown(answer['error'], 100)})"
                return f"the pool of {shown(worker, 100)} cannot kill a task{reason}"
    return f"{run.worker} does not answer" if is_known and not replies else ""


def _after(context: Context, run: Run, refusal: str, deadline: float) -> Stopped:
    """Wait for the end of a run that was asked to stop, and say what is known then."""
    while host_seconds() < deadline:
        try:
            run = context.redis.runs.run(run.id) or run
        except StoreError:
            break
        if run.state is State.REVOKED:
            return _stopped(context, "REVOKED", run, "it was ended" if run.started_at else "it had not started")
        if run.is_final:
            return _stopped(context, "ASKED", run, "it ended by itself")
        if refusal.startswith("the pool"):
            break
        time.sleep(LOOK_SECONDS)
    asked = "it ends if it asks stop_requested(), which is true with the next report of its worker"
    if refusal:
        cannot = refusal.startswith(("the pool", "redisbeater_stop_signal"))
        return _stopped(context, "CANNOT" if cannot else "ASKED", run, f"{refusal}; {asked}")
    if run.state is State.STARTED:
        return _stopped(context, "ASKED", run, f"it has not ended within {WAIT_SECONDS:g} s; {asked}")
    return _stopped(
        context,
        "ASKED",
        run,
        "no worker has started it. The workers that run now will discard it. A worker that is started later will run "
        "it, with stop_requested() true",
    )


def _stopped(context: Context, outcome: Literal["REVOKED", "ASKED", "CANNOT"], run: Run, why: str) -> Stopped:
    now, _ = context.redis.clock()
    sentence = f"{outcome}: {why} ({outcome_words(run, now)})"
    return Stopped(outcome=outcome, sentence=sentence, run=shown_run(context, run))


def restart_run(caller: RunSender, run_id: str, overlap: Overlap | None, author: Author) -> str:
    """Send a run that has ended again, and return the id of the new one; :meth:`redisbeater.results.Runs.restart`.

    Raises:
        RunNotFound: none of that id is kept.
        RunActive: it has not ended, or the overlap of its entry refuses another run.
        InvalidEntry: it has succeeded, and its entry was changed since.
        SendFailed: the broker did not take it.
    """
    context = caller.context
    ended = read_run(context, run_id)
    run_id = ended.id
    if not ended.is_final:
        raise RunActive(f"run {run_id} of {quoted(ended.name)} is {ended.state}: stop it, or wait", runs=(run_id,))
    now, _ = context.redis.clock()
    run = _repeated(context, ended, now)
    new_id: str = run.options["task_id"]
    policy = _overlap(context, ended.name) if overlap is None else overlap
    errand = SendRequest(author=author, overlap=policy, kind=Kind.RESTART, restart_of=run_id, version=ended.version)
    is_sent = send_run(caller, run, errand, now)
    logger.info("entry %r: run %s restarted as %s", ended.name, run_id, new_id)
    try:
        line = author.line("restarted", run=run_id, **{"as": new_id}, buffered=None if is_sent else True)
        context.redis.log.add_to_entry(ended.name, line)
    except StoreError as exc:
        logger.warning("run %s was restarted, but the log of its entry does not say so: %s", run_id, exc)
    return new_id


def _repeated(context: Context, ended: Run, now: datetime) -> RedisScheduleEntry:
    """Return a run with what the one that has ended was sent with, which its entry still has after a SUCCESS.

    Raises:
        InvalidEntry: neither has it.
    """
    fire_time = ended.fire_time or now
    if ended.payload:
        payload, new_id = Payload.from_text(ended.payload), str(uuid.uuid4())
        run = run_again(ended.name, payload, fire_time, app=context.app, task_id=new_id, span=ended.span)._bind(context)
        run.options.update(renewed_expiry(run.options.get("expires"), ended, now))
        return run
    with suppress(EntryNotFound, InvalidEntry):
        stored = load(context, ended.name)
        if ended.version == stored.version:
            return triggered_run(context, stored, stored.definition, fire_time, ended.span)
    problem = f"ended with {ended.state}, and what it was sent with is not kept; trigger {quoted(ended.name)} instead"
    raise InvalidEntry("$.run", f"{ended.id} {problem}")


def _overlap(context: Context, name: str) -> Overlap:
    """Return the overlap of an entry; ``allow`` where it is gone or broken."""
    try:
        return ResolvedPolicy.of(load(context, name).definition, context.defaults).overlap
    except (EntryNotFound, InvalidEntry):
        return Overlap.ALLOW
