"""Celery's log line about each run, completed with the task id, the fire time and how late it is."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from datetime import timedelta

from redisbeater.clock import host_seconds
from redisbeater.entry import RedisScheduleEntry
from redisbeater.store import Claim

__all__ = ("complete_lines", "complete_next_line")

#: What Celery logs before it sends a run.
CELERYS_LINE = "Scheduler: Sending due task %s (%s)"

_sent: ContextVar[tuple[RedisScheduleEntry, Claim] | None] = ContextVar("redisbeater_run", default=None)


def complete_next_line(run: RedisScheduleEntry | None, claim: Claim | None = None) -> None:
    """Complete the next line that Celery logs with this run of a claim; without both, leave that line as it is."""
    _sent.set(None if run is None or claim is None else (run, claim))


def complete_lines(logger: logging.Logger) -> logging.Logger:
    """Let each line of Celery's logger about a run be completed, and return the logger; further calls add nothing."""
    logger.addFilter(_COMPLETING)
    return logger


class _Completing(logging.Filter):
    """Lets every line through. A filter costs less than a second line, and nothing where the line is not logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Complete the line about a run; nothing that is added needs escapes."""
        sent = _sent.get()
        if sent is not None and record.msg == CELERYS_LINE and isinstance(record.args, tuple):
            run, claim = sent
            _sent.set(None)
            record.msg = f"{CELERYS_LINE}, id %s, fire time %s, %.3f s late"
            # Not from its headers: an instrument may have removed them, and an error here would refuse the run.
            run_id, late = run.options.get("task_id"), _lateness(run, claim)
            fire_time = run.last_run_at.isoformat() if run.last_run_at else None
            record.args = (*record.args, run_id, fire_time, late)
            facts = {"name": run.name, "task": run.task, "run_id": run_id, "fire_time": fire_time}
            kind = "schedule" if run.due_at else "resend"
            record.redisbeater = {"event": "run_dispatched", **facts, "kind": kind, "late": late}
        return True


_COMPLETING = _Completing()


def _lateness(run: RedisScheduleEntry, claim: Claim) -> float:
    """Return the seconds since the run was due, by the clock of the server."""
    due_at = run.due_at or run.last_run_at
    since_claim = host_seconds() - claim.asked_at
    return 0.0 if due_at is None else max((claim.now - due_at + timedelta(seconds=since_claim)).total_seconds(), 0.0)
