"""Send one run through the hooks of Celery's scheduler, which log its errors and do not raise them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import celery.app.trace
import celery.beat
from celery.beat import Scheduler

from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import passed_through
from redisbeater.log_lines import Mute

#: Celery's line for each try that fails, with two tracebacks. Beat logs a line of its own when the error has changed.
_MESSAGE_ERRORS = Mute(logging.getLogger("celery.beat"), "Message Error")


class Sender:
    """Sends runs through the hooks of a scheduler: its ``apply_entry``, which calls its ``apply_async``.

    Instruments and subclasses may replace both at any time. Each run has a copy of the context variables: what an
    instrument sets and does not reset ends with the run.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Any = scheduler
        self._error: Exception | None = None
        #: Whether the call of ``apply_async`` for that run has begun.
        self._has_begun = False

    def send(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run. Return why it was not sent, or None."""
        return copy_context().run(self._send, run)

    def _send(self, run: RedisScheduleEntry) -> Exception | None:
        scheduler, self._error, self._has_begun = self._scheduler, None, False
        own = vars(scheduler).get("apply_async")
        # On the object, for this run: apply_entry logs the errors of whatever it finds there, and does not raise them.
        scheduler.apply_async = self._recording(scheduler.apply_async)
        try:
            producer = scheduler.producer
            with _MESSAGE_ERRORS:
                scheduler.apply_entry(run, producer=producer)
        except Exception as exc:  # the producer cannot connect, or an instrument around apply_entry failed
            return exc
        finally:
            if own is None:
                del scheduler.apply_async
            else:
                scheduler.apply_async = own
        return self._error_before_it_began() if self._error is None else self._error

    def _recording(self, apply_async: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``apply_async`` with a record of each error that leaves it."""

        def recording(*args: Any, **options: Any) -> Any:
            try:
                self._has_begun = True
                return apply_async(*args, **options)
            except Exception as exc:  # the broker, or the task's own apply_async; raised again
                self._error = None if _was_executed(exc) else exc
                raise

        return recording

    def _error_before_it_began(self) -> Exception | None:
        """Return the error that Celery met before the call of ``apply_async``, in the handler of a signal, if any.

        Celery has just logged it, unless its logger is off. One that the task itself raised is none.
        """
        error = _MESSAGE_ERRORS.pop_error()
        if isinstance(error, Exception) and not _was_executed(error):
            return error
        if self._has_begun or not _is_of_celery(self._scheduler.apply_entry):
            return None
        return RuntimeError("an error before it was sent, which the logger celery.beat is set not to show")


def _is_of_celery(apply_entry: Any) -> bool:
    """Return whether it is Celery's own; a wrapper is not, whatever its name."""
    code = getattr(apply_entry, "__code__", None)
    return code is not None and code.co_filename == celery.beat.__file__


def _was_executed(error: Exception) -> bool:
    """Return whether an error came from the task itself: with ``task_always_eager`` beat executes it.

    That run was sent, and the task failed. Without ``task_eager_propagates`` Celery would not even raise its error.
    """
    return passed_through(error, celery.app.trace)
