"""The receivers of Celery's signals: what each signal says of a run, in which process.

The process that executes a task sends ``task_prerun`` and ``task_postrun``; a prefork child that was terminated sends
the latter with the state None. The main process reports what its children cannot. A receiver never raises, and never
waits longer than ``redisbeater_run_write_timeout`` for Redis. For all other messages it only looks at the headers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from celery import Celery, current_task, signals
from celery.app.task import Context as Request
from celery.exceptions import Reject, TimeLimitExceeded, WorkerLostError
from celery.utils.time import maybe_make_aware

from redisbeater.log_lines import get_logger
from redisbeater.model.run import ATTEMPT_HEADER, State, error_text, result_text, traceback_text
from redisbeater.redaction import hidden, secrets_of
from redisbeater.runs.process import OnceTask, Process, flush_all
from redisbeater.runs.running import Running, add_headers, execution_of, is_tracked, is_tracked_request

logger = get_logger(__name__)


#: The tracked executions of this process, by the identity of their requests. While there is none, receivers return at
#: once.
_executing: set[int] = set()


def install(app: Celery | None = None) -> None:
    """Report the runs of the workers of this process, and of those that it forks.

    Calling it again does nothing. ``imports = ["redisbeater.runs"]`` has the same effect.

    Arguments:
        app: the Celery app. Celery's signals are those of all apps of a process, so it makes no difference which.
    """
    for signal, receiver in (
        (signals.task_prerun, on_prerun),
        (signals.task_postrun, on_postrun),
        (signals.task_internal_error, on_internal_error),
        (signals.task_received, on_received),
        (signals.task_unknown, on_unknown),
        (signals.task_failure, on_failure),
        (signals.task_revoked, on_revoked),
        (signals.task_retry, on_retry),
        (signals.worker_ready, on_ready),
        (signals.worker_process_shutdown, on_shutdown),
        (signals.worker_shutdown, on_stopped),
    ):
        signal.connect(receiver, weak=False, dispatch_uid=f"redisbeater.runs.{receiver.__name__}")


def _reporting(report: Callable[..., None]) -> Callable[..., None]:
    """Pass what this process reports for the task's app; log what ``report`` raises, so that no task fails by it."""

    @functools.wraps(report)
    def reported(task: Any, *args: Any, **kwargs: Any) -> None:
        try:
            process = Process.of(task.app)
            if process is not None:
                report(process, task, *args, **kwargs)
        except Exception:  # Celery runs it around the application's task, which must not fail by it
            logger.exception("a run could not be reported; this is a bug")

    return reported


# In the process that executes


def on_prerun(task: Any, **_: Any) -> None:
    """Receive that a task begins."""
    request = task.request_stack.top  # as task.request, in a third of its time
    if request is not None and is_tracked(request):
        _executing.add(id(request))
        _begin(task, request)


@_reporting
def _begin(process: Process, task: Any, request: Any) -> None:
    # Here, not in install(): beat and web processes publish much and execute nothing.
    signals.before_task_publish.connect(on_publish, weak=False, dispatch_uid="redisbeater.runs.on_publish")
    process.begin(task, request, is_exclusive=isinstance(task, OnceTask))


def on_publish(headers: Any = None, **_: Any) -> None:
    """Receive that a message leaves; with the id of the run that publishes it, it is for the next execution."""
    if not _executing:
        return
    if current_task and isinstance(headers, dict) and headers.get("id") == current_task.request.id:
        task = current_task._get_current_object()
        if is_tracked(task.request):
            _publish(task, headers)


@_reporting
def _publish(process: Process, task: Any, headers: dict[str, Any]) -> None:
    running = process.running.of(task.request)
    # A OnceTask that could not ask Redis publishes a copy: another execution may have the lease.
    is_next = running is not None and running.holds and not (running.execution.is_exclusive and not running.answer)
    add_headers(task.request, headers, is_next=is_next)
    if running is None:
        return
    running.is_published_again = True
    if running.holds:
        # Task.retry() is called where an error is handled: that error is why.
        error = sys.exc_info()[1]
        text = error_text(error, _secrets(task.request)) if error else ""
        process.release(running, _seconds_until(headers.get("eta"), task.app), text)


def on_postrun(task: Any, retval: Any = None, state: str | None = None, **_: Any) -> None:
    """Receive that a task has ended; ``state`` is None where it was interrupted."""
    if not _executing:
        return
    request = task.request
    if is_tracked(request):
        _executing.discard(id(request))
        _end(task, request, retval, state)


@_reporting
def _end(process: Process, task: Any, request: Any, retval: Any, state: str | None) -> None:
    running = process.running.remove(request)
    if running is None:
        return
    if state is None:
        process.drop(running.execution, "its task was interrupted")
    elif state == "SUCCESS":
        result = result_text(retval, _secrets(request)) if process.keeps_results else ""
        process.end(running, State.SUCCESS, result=result)
    elif state == "FAILURE":
        secrets = list(_secrets(request))
        where = traceback_text(retval, secrets) if process.keeps_tracebacks else ""
        process.end(running, State.FAILURE, error=error_text(retval, secrets), traceback=where)
    elif state == "REJECTED":
        _end_rejected(process, running, task, retval)
    elif running.is_published_again:
        pass  # RETRY, or IGNORED because the task was replaced: reported when that message was published
    elif state == "RETRY":
        retry_in = _seconds_until(retval.when, task.app)
        process.end(running, State.RETRY, retry_in=retry_in, error=error_text(retval.exc or "", _secrets(request)))
    else:
        _end_ignored(process, running, task)


def _secrets(request: Any) -> Iterable[str]:
    """Return the arguments of a task that are secrets: its errors and its result may quote them without their keys."""
    return secrets_of([request.args, request.kwargs, request.headers], hidden())


def _end_rejected(process: Process, running: Running, task: Any, reject: Reject) -> None:
    """Report a task that raised ``Reject``: the broker gives its message out again, or drops it."""
    is_requeued = reject.requeue and task.acks_late
    error = error_text(reject.reason or reject, _secrets(task.request))
    process.end(running, State.RETRY if is_requeued else State.FAILURE, error=error, note="rejected")


def _end_ignored(process: Process, running: Running, task: Any) -> None:
    """Report a task that raised ``Ignore``."""
    if isinstance(task, OnceTask) and running.answer == "STOP":
        process.end(running, State.REVOKED)
    elif running.holds:
        process.end(running, State.SUCCESS, note="ignored")


def on_internal_error(sender: Any, request: Any = None, exception: Any = None, **_: Any) -> None:
    """Receive that Celery itself failed around a task, after ``task_postrun``."""
    if isinstance(request, dict) and is_tracked(context := Request(request)):
        _end_from_outside(sender, context, State.FAILURE, error=error_text(exception, _secrets(context)))


def on_ready(sender: Any, **_: Any) -> None:
    """Receive that the worker of this process is ready."""
    _begin_node(sender)


@_reporting
def _begin_node(process: Process, worker: Any) -> None:
    process.begin_node(worker)


def on_stopped(sender: Any, **_: Any) -> None:
    """Receive that the worker of this process has stopped."""
    _end_node(sender)
    flush_all()


@_reporting
def _end_node(process: Process, worker: Any) -> None:
    process.end_node()


def on_shutdown(**_: Any) -> None:
    """Receive that this process ends."""
    flush_all()


# In the main process of a worker, which executes the tasks itself in all pools but prefork


def on_received(sender: Any, request: Any, **_: Any) -> None:
    """Receive a message: what becomes of it may be known by the main process alone."""
    if is_tracked_request(request):
        _receive(sender, request)


@_reporting
def _receive(process: Process, consumer: Any, request: Any) -> None:
    process.received[request.id] = request


def on_failure(sender: Any, task_id: str, exception: Any = None, **_: Any) -> None:
    """Receive that a child died, or was killed at its hard time limit; ``on_postrun`` receives what tasks raise."""
    if isinstance(exception, (WorkerLostError, TimeLimitExceeded)):
        _fail(sender, task_id, exception)


@_reporting
def _fail(process: Process, task: Any, task_id: str, error: BaseException) -> None:
    request = process.request_of(task_id)
    if request is None:
        return
    if isinstance(error, TimeLimitExceeded):
        _end_from_outside(task, request, State.FAILURE, error=error_text(error))
        process.received.pop(task_id, None)  # Celery sends this signal twice
    else:
        # Celery has acknowledged the message: it sends no such signal if the broker gives the message out again.
        _drop(task, request, error_text(error), is_gone=True)


def on_revoked(sender: Any, request: Any, terminated: bool = False, expired: bool = False, **_: Any) -> None:
    """Receive that a task was terminated, or was not started because it was revoked or has expired."""
    if is_tracked(request):
        if terminated:
            _end_from_outside(sender, request, State.REVOKED)
        else:
            _end_unstarted(sender, request, State.EXPIRED if expired else State.REVOKED)


def on_unknown(sender: Any, message: Any, name: str, id: str, **_: Any) -> None:
    """Receive that this worker has no such task: it has discarded the message, and nobody else gets it."""
    headers = message.headers or {}
    if ATTEMPT_HEADER in headers:
        request = Request({"id": id, "headers": dict(headers), "hostname": sender.hostname})
        error = f"NotRegistered: {name!r}; {sender.hostname} does not import it, and discards its messages"
        task = SimpleNamespace(name=name, app=sender.app, acks_late=False)
        _end_unstarted(task, request, State.FAILURE, error=error_text(error))


def on_retry(sender: Any, request: Any, reason: Any = None, **_: Any) -> None:
    """Receive that a task is to be tried again.

    Without a ``reason``, Celery has cancelled it, in a cold shutdown or because it lost its broker; then nobody retries
    it unless the broker gives the message out again. With a reason, the process that executes it reports that itself,
    unless that process has died.
    """
    if not is_tracked(request):
        return
    if reason is None:
        _drop(sender, request, "cancelled by Celery")
    elif isinstance(reason.exc, WorkerLostError):
        retry_in = _seconds_until(reason.when, sender.app)
        _end_from_outside(sender, request, State.RETRY, error=error_text(reason.exc), retry_in=retry_in)


@_reporting
def _end_from_outside(process: Process, task: Any, request: Any, state: State, **details: Any) -> None:
    execution = process.seen_from_outside(task, request)
    if execution is not None:
        process.end_from_outside(execution, state, **details)


@_reporting
def _end_unstarted(process: Process, task: Any, request: Any, state: State, **details: Any) -> None:
    process.end_from_outside(execution_of(task, request), state, **details)


@_reporting
def _drop(process: Process, task: Any, request: Any, error: str, *, is_gone: bool = False) -> None:
    """Report an execution that died. ``is_gone``: the broker does not give its message out again, whatever the task."""
    execution = process.seen_from_outside(task, request)
    if execution is not None:
        process.drop(replace(execution, acks_late=execution.acks_late and not is_gone), error)


def _seconds_until(when: Any, app: Celery) -> float | None:
    """Return the seconds until a retry may start, from what Celery has: seconds, a datetime, its text, or None.

    Times are those of this host's clock, which may be wrong, so they are compared with that clock alone.
    """
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    if isinstance(when, datetime):
        when = (maybe_make_aware(when, app.timezone) - datetime.now(timezone.utc)).total_seconds()
    return float(when) if isinstance(when, (int, float)) else None
