"""Send the message of a run with ``apply_async``, with prepared texts of its arguments.

Celery builds these texts for logs and events token by token, a tenth of what a message costs, unless it gets them as
options. It gets them only where it would build the same: not for tasks with their own ``apply_async``, which may add
arguments, and not where other code of an application or an instrument stands between a run and its message, for example
to hide arguments. Such code may be put there at any time, so this is checked for each run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import copy_context
from types import ModuleType
from typing import Any

import celery.app.amqp
import celery.app.base
import celery.app.task
import celery.app.trace
import celery.beat
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler
from celery.utils.saferepr import saferepr

from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import passed_through
from redisbeater.log_lines import Mute

#: Number of texts kept, and characters in the longest one: Celery puts a given text into its message twice.
MAX_TEXTS, MAX_TEXT_CHARACTERS = 10_000, 64

#: Nesting depth of Celery's own texts, in versions without ``task_repr_maxlevels``.
DEFAULT_LEVELS = 3

_FLAT = frozenset({str, int, bool, float, type(None)})


class Representations:
    """Prepared texts of arguments, for the runs of one scheduler.

    Arguments:
        is_enabled: False leaves all texts to Celery.
    """

    def __init__(self, app: Celery, scheduler: Scheduler, *, is_enabled: bool = True) -> None:
        self._app = app
        self._scheduler = scheduler
        self._is_enabled = is_enabled and app.conf.task_protocol == 2  # protocol 1 has no such texts
        self._levels = getattr(app.conf, "task_repr_maxlevels", DEFAULT_LEVELS)
        self._texts: dict[str, str] = {}

    def add_to(self, run: RedisScheduleEntry) -> None:
        """Add the texts to the options of a run, unless Celery might build others."""
        if not self._is_enabled:
            return
        try:
            if not self._builds_messages_as_celery() or self._has_own_apply_async(run.task):
                return
            amqp = self._app.amqp
            texts = {
                "argsrepr": self._short_repr(run.args or (), amqp.argsrepr_maxsize),
                "kwargsrepr": self._short_repr(run.kwargs, amqp.kwargsrepr_maxsize),
            }
        except Exception:  # a wrong setting, for example; Celery meets it as well and reports it
            return
        run.options = {**{name: text for name, text in texts.items() if text}, **run.options}

    def _builds_messages_as_celery(self) -> bool:
        """Return whether everything between a run and its message is Celery's own."""
        return (
            is_from(celery.app.base, self._app.send_task)
            and is_from(celery.app.amqp, self._app.amqp.create_task_message)
            and is_from(celery.beat, Scheduler.apply_async)
            and is_from(celery.beat, self._scheduler.send_task)
            and celery.app.amqp.saferepr is saferepr
        )

    def _has_own_apply_async(self, name: str | None) -> bool:
        """Return whether the task's ``apply_async`` is not Celery's; it may change the arguments."""
        task = self._app.tasks.get(name)
        return task is not None and not is_from(celery.app.task, task.apply_async)

    def _short_repr(self, value: Any, max_characters: int | None) -> str | None:
        """Return the text of a value, or None if it is longer than a given text may be."""
        shown = repr(value)
        if len(shown) > (MAX_TEXT_CHARACTERS if max_characters is None else min(MAX_TEXT_CHARACTERS, max_characters)):
            return None
        if self._levels and _has_same_repr(value, shown):
            return shown
        return self._cached(shown, value, max_characters)

    def _cached(self, key: str, value: Any, max_characters: int | None) -> str:
        if len(self._texts) > MAX_TEXTS:
            self._texts.clear()
        if key not in self._texts:
            self._texts[key] = saferepr(value, max_characters, maxlevels=self._levels)
        return self._texts[key]


def is_from(module: ModuleType, function: Any) -> bool:
    """Return whether a function is defined in a module; a wrapper is not, whatever its name."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == module.__file__


def _has_same_repr(value: Any, shown: str) -> bool:
    """Return whether Celery's text of a value equals Python's: the value is flat and nothing in it is escaped."""
    if "\\" in shown or '"' in shown:
        return False
    return _FLAT.issuperset(map(type, value.values() if type(value) is dict else value))


#: Celery's line for each try that fails, with two tracebacks. Beat logs a line of its own when the error has changed.
_MESSAGE_ERRORS = Mute(logging.getLogger("celery.beat"), "Message Error")


class Sender:
    """Sends runs through the hooks of a scheduler: its ``apply_entry``, which calls its ``apply_async``.

    Instruments and subclasses may replace both at any time. Each run has a copy of the context variables: what an
    instrument sets and does not reset ends with the run.
    """

    #: Whether runs get prepared texts of their arguments; see :mod:`redisbeater.sending.sender`.
    prepares_representations = True

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Any = scheduler
        self._representations = Representations(scheduler.app, scheduler, is_enabled=self.prepares_representations)
        self._run: RedisScheduleEntry | None = None
        self._error: Exception | None = None
        #: Whether the call of ``apply_async`` for that run has begun.
        self._has_begun = False

    def send(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run. Return why it was not sent, or None."""
        return copy_context().run(self._send, run)

    def prepare(self, entry: ScheduleEntry) -> None:
        """Add the texts of its arguments to the run that is being sent; leave any other entry as it is."""
        if self._run is not None and entry is self._run:
            self._representations.add_to(self._run)

    def _send(self, run: RedisScheduleEntry) -> Exception | None:
        scheduler, self._run, self._error, self._has_begun = self._scheduler, run, None, False
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
            self._run = None
            if own is None:
                del scheduler.apply_async
            else:
                scheduler.apply_async = own
        error = _logged_error() if self._error is None else self._error
        return self._unlogged_error() if error is None else error

    def _recording(self, apply_async: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``apply_async`` with a record of each error that leaves it."""

        def recording(*args: Any, **options: Any) -> Any:
            try:
                self._has_begun = True
                return apply_async(*args, **options)
            except Exception as exc:
                self._error = None if _was_executed(exc) else exc
                raise

        return recording

    def _unlogged_error(self) -> Exception | None:
        """Return an error that Celery met before it sent anything and did not log, as its logger is off."""
        if self._has_begun or not is_from(celery.beat, self._scheduler.apply_entry):
            return None
        return RuntimeError("an error before it was sent, which the logger celery.beat is set not to show")


def _logged_error() -> Exception | None:
    """Return the error that Celery has just logged, unless the task itself raised it.

    It may have been raised before the call of ``apply_async`` had begun, by the handler of a signal.
    """
    error = _MESSAGE_ERRORS.pop_error()
    return error if isinstance(error, Exception) and not _was_executed(error) else None


def _was_executed(error: Exception) -> bool:
    """Return whether an error came from the task itself: with ``task_always_eager`` beat executes it.

    That run was sent, and the task failed. Without ``task_eager_propagates`` Celery would not even raise its error.
    """
    return passed_through(error, celery.app.trace)
