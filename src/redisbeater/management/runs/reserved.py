"""Sends a run from the calling process, once the overlap of its entry allows it, and records it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from redisbeater.context import Context
from redisbeater.display import quoted, shown
from redisbeater.editing.edit import Author
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, RunActive, SendFailed, StoreError
from redisbeater.log_lines import get_logger
from redisbeater.management.registered import refused_arguments
from redisbeater.management.runs.caller import Caller
from redisbeater.management.runs.history import check_tracked
from redisbeater.model.policies import Overlap
from redisbeater.model.run import Kind
from redisbeater.sending.run import cancel, new_run
from redisbeater.store import Reservation
from redisbeater.times import relative_words

__all__ = ("Errand", "send_run")

logger = get_logger(__name__)

#: While a beat has claimed the entry: how many seconds to ask again, and how many between two requests.
CLAIMED_SECONDS, ASK_AGAIN_SECONDS = 2.0, 0.05


_DONE = {Kind.TRIGGER: "triggered", Kind.RESTART: "restarted", Kind.BACKFILL: "backfilled"}


@dataclass(frozen=True, kw_only=True)
class Errand:
    """Why a run is sent, by whom, and what it must not meet.

    Attributes:
        author: who wants it, and why.
        overlap: what decides where another run of the entry is active.
        kind: ``trigger``, ``restart`` or ``backfill``.
        restart_of: the id of the run that it repeats.
    """

    author: Author
    overlap: Overlap = Overlap.ALLOW
    kind: Kind = Kind.TRIGGER
    restart_of: str = ""


def send_run(caller: Caller, run: RedisScheduleEntry, errand: Errand, now: datetime) -> bool:
    """Send a run and wait until the broker has it; with ``redisbeater_track_runs`` it is recorded first.

    Arguments:
        caller: sends the run.
        run: the run.
        errand: why it is sent, and by whom.
        now: the time of the Redis server.

    Returns:
        True: it was sent. False: it is buffered, and beat sends it when its turn comes.

    Raises:
        RunActive: another run of the entry is active, or is being sent.
        InvalidEntry: its task does not take its arguments.
        SendFailed: the broker did not take it.
        ImproperlyConfigured: an overlap was asked for, and runs are not recorded.
    """
    context = Context.of(caller.app)
    if refusal := refused_arguments(caller.app, str(run.task), run.args or (), run.kwargs or {}):
        raise InvalidEntry("$.args", f"the task does not take these arguments: {refusal}")
    if context.config.track_runs:
        reservation = _reserve(context, run, errand, now)
        for active in reservation.active if errand.overlap is Overlap.CANCEL_OTHER else ():
            cancel(caller.app, active, by=errand.author.by, note=errand.author.note)
        if reservation.outcome == "BUFFERED":
            return False
    elif errand.overlap is not Overlap.ALLOW:
        check_tracked(context)
    error = caller.send(run)
    if error is not None:
        _withdraw(context, run, error)
        done = _DONE[errand.kind]
        raise SendFailed(f"entry {run.name!r} was not {done}, the broker did not take its run: {shown(error)}")
    return True


def _reserve(context: Context, run: RedisScheduleEntry, errand: Errand, now: datetime) -> Reservation:
    author = errand.author
    new = new_run(
        run,
        now,
        kind=errand.kind,
        by=author.by,
        note=author.note,
        restart_of=errand.restart_of,
        is_alone=errand.overlap is not Overlap.ALLOW,
    )
    deadline = time.monotonic() + CLAIMED_SECONDS
    while True:
        reservation = context.redis.runs.reserve(new, errand.overlap.value)
        if reservation.outcome in ("RESERVED", "BUFFERED"):
            return reservation
        if reservation.outcome == "BUSY":
            raise _busy(context, str(run.name), errand.overlap, reservation.active)
        if time.monotonic() > deadline:
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


def _withdraw(context: Context, run: RedisScheduleEntry, error: Exception) -> None:
    """Record that a run was not sent; if that fails, it is lost after ``redisbeater_run_queue_timeout``."""
    if not context.config.track_runs:
        return
    try:
        context.redis.runs.withdraw(run.options["task_id"], error=shown(error))
    except StoreError as exc:
        logger.warning("run %s was not sent, but its record does not say so: %s", run.options["task_id"], exc)
