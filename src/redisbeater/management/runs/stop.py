"""Stop runs: one that waits for beat ends at once, one that is executed is asked through Celery's remote control."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from celery import Celery

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.edit import Author
from redisbeater.exceptions import RunNotFound, StoreError
from redisbeater.log_lines import get_logger
from redisbeater.management.blanking import shown_run
from redisbeater.management.runs.history import check_tracked
from redisbeater.management.runs.words import outcome_words
from redisbeater.model.run import Run, State
from redisbeater.sending.run import revoke

__all__ = ("Stopped", "stop_run")

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
        """Return what JSON has of it."""
        return {"outcome": self.outcome, "sentence": self.sentence, "run": self.run.as_dict()}


def stop_run(app: Celery, run_id: str, author: Author) -> Stopped:
    """Stop a run; :meth:`redisbeater.ScheduleStore.stop`.

    Raises:
        RunNotFound: none of that id is kept.
    """
    context = Context.of(app)
    check_tracked(context)
    before = context.redis.runs.run(run_id)
    if before is None:
        raise RunNotFound(run_id)
    if before.is_final:
        return _stopped(context, "CANNOT", before, "it had ended before")
    run = context.redis.runs.stop(run_id, by=author.by, note=author.note) or before
    if run.is_final:
        waited = before.state is State.BUFFERED or before.resend_at is not None
        why = "it had not been sent, and never will be" if waited else "it has ended"
        return _stopped(context, "REVOKED" if run.state is State.REVOKED else "CANNOT", run, why)
    logger.info("run %s of entry %r is asked to stop by %s", run_id, run.name, author.by)
    deadline = time.monotonic() + WAIT_SECONDS
    refusal = _revoke(app, run, context.config.stop_signal)
    return _after(context, run, refusal, deadline)


def _revoke(app: Celery, run: Run, stop_signal: str | None) -> str:
    """Tell the workers. Return why the one that executes it cannot end it; empty: nothing is known against it."""
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
                return f"the pool of {shown(worker, 100)} cannot end a task ({shown(answer['error'], 100)})"
    return f"{run.worker} does not answer" if is_known and not replies else ""


def _after(context: Context, run: Run, refusal: str, deadline: float) -> Stopped:
    """Wait for the end of a run that was asked to stop, and say what is known then."""
    while time.monotonic() < deadline:
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
    asked = "stop_requested() is true in it with the next report of its worker"
    if refusal:
        cannot = refusal.startswith(("the pool", "redisbeater_stop_signal"))
        return _stopped(context, "CANNOT" if cannot else "ASKED", run, f"{refusal}; {asked}")
    if run.state is State.STARTED:
        return _stopped(context, "ASKED", run, f"it has not ended within {WAIT_SECONDS:g} s; {asked}")
    return _stopped(
        context,
        "ASKED",
        run,
        "workers that run now discard it; one that starts later runs it with stop_requested() true",
    )


def _stopped(context: Context, outcome: Literal["REVOKED", "ASKED", "CANNOT"], run: Run, why: str) -> Stopped:
    now, _ = context.redis.clock()
    sentence = f"{outcome}: {why} ({outcome_words(run, now)})"
    return Stopped(outcome=outcome, sentence=sentence, run=shown_run(context, run))
