"""The process of beat: tune it, let it end with one line and by SIGHUP and SIGQUIT, too, and not outlive its worker."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType, TracebackType

import celery.apps.beat
from celery import Celery

from redisbeater.exceptions import RedisBeaterError, passed_through
from redisbeater.log_lines import get_logger

__all__ = ("ParentProcess", "end_with_other_signals", "log_last_error_once", "tune_process")

logger = get_logger(__name__)

#: The settings that Celery reads for each message, where its version has them.
_READ_FOR_EACH_MESSAGE = (
    "task_always_eager",
    "task_default_queue",
    "task_send_sent_event",
    "task_repr_maxlevels",
    "broker_pool_acquire_timeout",
)

#: The garbage collector runs after this many new objects, at least: those of a claim live until its commit.
OBJECTS_BEFORE_COLLECTION = 20_000


def tune_process(app: Celery) -> None:
    """Prepare this process for bursts.

    Exempt all objects that exist now from garbage collection: scanning them took 30 to 70 ms every few thousand runs,
    and runs waited for it. Collect less often than Python's default of 700 new objects: with that, the objects of a
    claim were scanned several times, which took 5 % of the time of a burst (``benchmarks/compare.py --only burst``).

    Set what Celery reads for each message to what it is: Celery searches its layers of settings by several names, which
    took 6 % of the instructions of a run (``benchmarks/instructions.py``). A later change of ``app.conf`` counts.
    """
    app.conf.update({name: app.conf[name] for name in _READ_FOR_EACH_MESSAGE if name in app.conf})
    gc.collect()
    gc.freeze()
    youngest, *older = gc.get_threshold()
    if youngest:  # 0: the application has switched collection off
        gc.set_threshold(max(youngest, OBJECTS_BEFORE_COLLECTION), *older)


def end_with_other_signals() -> None:
    """Let SIGHUP and SIGQUIT end this process as SIGTERM does, unless the application handles or ignores them."""
    for name in ("SIGHUP", "SIGQUIT"):  # Windows has neither
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGTERM)  # its handler may be a deferred one


def log_last_error_once() -> None:
    """Let Python not print the error of redisbeater that ends ``celery beat``, which Celery has just logged.

    What Python prints on standard error becomes lines of the log as well, one for each piece of a line: hundreds, most
    of them ``^``. A hook of the application, or of an instrument, stays.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_unless_logged


def _print_unless_logged(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    is_logged = isinstance(error, RedisBeaterError) and passed_through(error, celery.apps.beat)
    if not is_logged:
        sys.__excepthook__(kind, error, traceback)


class ParentProcess:
    """The process that started this one. If it is killed, this one lives on with another parent."""

    def __init__(self) -> None:
        self.pid = os.getppid()

    def exit_if_ended(self) -> None:
        """Exit if the worker was killed: the next worker starts another beat, perhaps with newer code."""
        if self.has_ended:
            logger.warning("the worker of this beat has ended (pid %d), closing", self.pid)
            raise SystemExit

    @property
    def has_ended(self) -> bool:
        """Whether that process has ended."""
        return os.getppid() != self.pid
