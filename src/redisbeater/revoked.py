"""A message that never leaves is revoked: its result, its chord and its signal are as if a worker had revoked it."""

from __future__ import annotations

from celery import Celery, signals
from celery.app.task import Context as Request

from redisbeater.broker.message import Message
from redisbeater.log_lines import get_logger

logger = get_logger(__name__)


def mark_revoked(app: Celery, message: Message) -> None:
    """Store that the task of a message is revoked, and send Celery's ``task_revoked``; log what goes wrong.

    The signal is sent where the application of this process has the task. Its receivers get a request with the headers
    of the message, and with the arguments where the application accepts its content type.
    """
    task = app.tasks.get(str(message.headers.get("task")))
    request = Request(message.request(app.conf.accept_content))
    is_stored = not request.ignore_result or bool(getattr(task, "store_errors_even_if_ignored", False))
    try:
        backend = app.backend if task is None else task.backend
        backend.mark_as_revoked(request.id, reason="revoked", request=request, store_result=is_stored)
    except Exception as exc:  # each backend has errors of its own
        logger.warning("task %s is cancelled, but its result could not be stored: %s", request.id, exc)
    if task is not None:
        signals.task_revoked.send(sender=task, request=request, terminated=False, signum=None, expired=False)
