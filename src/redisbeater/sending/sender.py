"""Send one run through the hooks of Celery's scheduler, which log its errors and do not raise them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple

import celery.app.trace
import celery.beat
from celery import Task
from celery.beat import Scheduler, SchedulingError
from celery.result import EagerResult
from celery.signals import after_task_publish, before_task_publish, task_prerun

from redisbeater.clock import MAX_THINGS
from redisbeater.code_errors import EndedByCode
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import passed_through
from redisbeater.log_lines import Mute, get_logger
from redisbeater.model.run import ATTEMPT_HEADER

logger = get_logger(__name__)

#: Celery's line for each try that fails, with two tracebacks. Beat logs a line of its own when the error has changed.
_MESSAGE_ERRORS = Mute(logging.getLogger("celery.beat"), "Message Error")


class Declined(Exception):
    """The ``apply_async`` of a task has published no message for a run, and raised no error."""

    def __init__(self) -> None:
        super().__init__("its apply_async published nothing")


class _Message(NamedTuple):
    """A message that left while a run was sent, or a task that was executed instead: with ``task_always_eager``."""

    id: str
    task: str


#: What leaves in this context; None: no run is being sent in it.
_leaving: ContextVar[list[_Message] | None] = ContextVar("redisbeater_leaving", default=None)


def _let_one_report(sender: Any = "", headers: Any = None, **_: Any) -> None:
    """Let workers report only the first of several messages of a task for one run."""
    leaving = _leaving.get()
    if leaving and headers and any(each.task == sender for each in leaving):
        headers.pop(ATTEMPT_HEADER, None)


def _note_message(sender: Any = "", headers: Any = None, body: Any = None, **_: Any) -> None:
    if (leaving := _leaving.get()) is not None:
        facts = body if isinstance(body, dict) else headers  # a dict: a message of task protocol 1
        leaving.append(_Message(str((facts or {}).get("id")), str(sender)))


def _note_execution(task_id: Any = "", task: Any = None, **_: Any) -> None:
    if (leaving := _leaving.get()) is not None:
        leaving.append(_Message(str(task_id), str(getattr(task, "name", ""))))


def _listen() -> None:
    """Let Celery tell what leaves; further calls add nothing."""
    before_task_publish.connect(_let_one_report, weak=False, dispatch_uid=__name__)
    after_task_publish.connect(_note_message, weak=False, dispatch_uid=__name__)
    task_prerun.connect(_note_execution, weak=False, dispatch_uid=__name__)


def _is_listening() -> bool:
    """Return whether Celery still tells what leaves: an application may remove all receivers of a signal."""
    return any(receiver is _note_message for _, receiver in after_task_publish.receivers)


#: The hooks of a scheduler that send a run.
_HOOKS = ("apply_entry", "apply_async", "send_task")


class Sender:
    """Sends runs through the hooks of a scheduler: its ``apply_entry``, which calls its ``apply_async``.

    Instruments and subclasses may replace both at any time. Each run has a copy of the context variables: what an
    instrument sets and does not reset ends with the run.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Any = scheduler
        self._error: Exception | None = None
        #: Whether the call of ``apply_async`` for that run has begun, and what it has returned.
        self._has_begun, self._result = False, None
        #: What the tasks of entries did otherwise with their last run, by name: it is logged when it changes.
        self._remarks: OrderedDict[str, str] = OrderedDict()

    def send(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run. Return why it was not sent, or None.

        Where its task gives the message an id of its own, the run has that id from then on.
        """
        return copy_context().run(self._send, run)

    def _send(self, run: RedisScheduleEntry) -> Exception | None:
        scheduler, self._error, self._has_begun, self._result = self._scheduler, None, False, None
        leaving: list[_Message] | None = None
        if self._may_send_otherwise(run.task):
            _listen()
            _leaving.set(leaving := [])  # in a context of its own
        own = vars(scheduler).get("apply_async")
        # On the object, for this run: apply_entry logs the errors of whatever it finds there, and does not raise them.
        scheduler.apply_async = self._recording(scheduler.apply_async)
        try:
            producer = scheduler.producer
            with _MESSAGE_ERRORS:
                scheduler.apply_entry(run, producer=producer)
        except BaseException as exc:  # the producer cannot connect, or an instrument around apply_entry failed
            return EndedByCode.of(exc)
        finally:
            if own is None:
                del scheduler.apply_async
            else:
                scheduler.apply_async = own
        error = self._error_before_it_began() if self._error is None else self._error
        return error if error is not None or leaving is None else self._what_left(run, leaving)

    def _may_send_otherwise(self, task: str) -> bool:
        """Return whether code of the application decides what is sent for a run: it need not be one message."""
        found = self._scheduler.app.tasks.get(task)
        if found is not None and getattr(type(found), "apply_async", None) is not Task.apply_async:
            return True
        scheduler, replaced = type(self._scheduler), vars(self._scheduler)
        return any(hook in replaced or getattr(scheduler, hook) is not getattr(Scheduler, hook) for hook in _HOOKS)

    def _what_left(self, run: RedisScheduleEntry, leaving: list[_Message]) -> Declined | None:
        """Give a run the id of its message. Return why there is none, or None."""
        run_id = run.options.get("task_id")
        if len(leaving) == 1 and leaving[0].id == run_id and run.name not in self._remarks:
            return None  # as nearly all of them
        own = [each.id for each in leaving if each.id == run_id or each.task == run.task]
        found = _id_of_run(leaving, own, self._result)
        if found is None and not _is_listening():
            _listen()
            return None
        self._remark(run.name, _remark(run_id, found, own))
        if found is None:
            return Declined()
        run.options["task_id"] = found
        return None

    def _remark(self, name: str, remark: str) -> None:
        if remark == self._remarks.pop(name, ""):
            line = ""
        elif remark:
            line = f"entry %r: {remark}"
        else:
            line = "entry %r: its apply_async publishes one message again, with the id of the run"
        if line:
            logger.log(logging.WARNING if remark in _FAULTS else logging.INFO, line, name)
        if remark:
            self._remarks[name] = remark
            if len(self._remarks) > MAX_THINGS:
                self._remarks.popitem(last=False)

    def _recording(self, apply_async: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``apply_async`` with a record of each error that leaves it."""

        def recording(*args: Any, **options: Any) -> Any:
            try:
                self._has_begun = True
                self._result = apply_async(*args, **options)
                return self._result
            except BaseException as exc:  # the broker, or the task's own apply_async; raised again
                error = EndedByCode.of(exc)
                self._error = None if _was_executed(error) else _without_wrapper(error)
                if error is exc:
                    raise
                raise error from exc

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


#: What is logged of a task whose run is not one message with the id of the run.
_DECLINES = "its apply_async published nothing, so the run is declined"
_OWN_ID = "its apply_async gives the message an id of its own; that is the id of the run"
_SEVERAL = "its apply_async published several messages for one run; only the first one counts"
_FAULTS = (_OWN_ID, _SEVERAL)


def _id_of_run(leaving: list[_Message], own: list[str], result: Any) -> str | None:
    """Return the id of the message that is the run: the first of its task, or with its id; None if there is none.

    Else a result that says that something was sent stands for a message of another task.
    """
    if own:
        return own[0]
    ids = [each.id for each in leaving]
    if not ids or result is None or isinstance(result, EagerResult):
        return None
    known = getattr(result, "id", None)
    return str(known) if known in ids else ids[-1]


def _remark(run_id: Any, found: str | None, own: list[str]) -> str:
    if found is None:
        return _DECLINES
    if len(own) > 1:
        return _SEVERAL
    return "" if found == run_id else _OWN_ID


def _without_wrapper(error: Exception) -> Exception:
    """Return the error that Celery has wrapped, whose class it does not tell."""
    wrapped = error.__cause__ or error.__context__
    return wrapped if type(error) is SchedulingError and isinstance(wrapped, Exception) else error


def _is_of_celery(apply_entry: Any) -> bool:
    """Return whether it is Celery's own; a wrapper is not, whatever its name."""
    code = getattr(apply_entry, "__code__", None)
    return code is not None and code.co_filename == celery.beat.__file__


def _was_executed(error: Exception) -> bool:
    """Return whether an error came from the task itself: with ``task_always_eager`` beat executes it.

    That run was sent, and the task failed. Without ``task_eager_propagates`` Celery would not even raise its error.
    """
    return passed_through(error, celery.app.trace)
