"""``OnceTask``: a task that refuses to run beside another execution of the same run, or after it."""

from __future__ import annotations

from typing import Any

from celery import Task
from celery.exceptions import Ignore

from redisbeater.log_lines import get_logger
from redisbeater.runs.message import is_tracked
from redisbeater.runs.process import Process
from redisbeater.runs.running import Running

__all__ = ("OnceTask",)

logger = get_logger(__name__)

#: Seconds to wait beyond the lease of another execution.
SLACK_SECONDS = 1.0


class OnceTask(Task):
    """A class of tasks whose runs are executed once: ``task_cls="redisbeater.runs:OnceTask"``, or ``base=OnceTask``.

    Signals cannot keep a task from running; this class can. A run that has ended, or that somebody asked to stop, is
    ignored. A run that another execution has, or may have because Redis cannot be asked, is sent again, to be started
    when that lease is over; so is one that the broker gives out late, where its entry has one run at a time and another
    has begun meanwhile. Tasks that beat has not sent run as without it.

    A subclass with a ``before_start`` of its own calls this one first.
    """

    abstract = True

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        """Let the task run, or raise ``Ignore``."""
        request = self.request
        process = Process.of(self.app) if is_tracked(request) else None
        running = process.running.of(request) if process is not None else None
        if running is None or running.answer == "STARTED":
            return
        if running.answer in ("DUPLICATE", "STOP"):
            raise Ignore(f"run {task_id} {'is to stop' if running.is_to_stop else 'has ended before'}")
        self._send_again(running)
        raise Ignore(f"run {task_id} has to wait for another execution, or Redis cannot be asked; it was sent again")

    def _send_again(self, running: Running) -> None:
        """Send the run again, for when the lease in its way is over; ``Retry`` would publish nothing from here."""
        request = self.request
        countdown = (running.rest if running.answer else running.lease) + SLACK_SECONDS
        self.signature_from_request(request, countdown=countdown, retries=request.retries).apply_async()
