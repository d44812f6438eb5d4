"""The process of beat: tuned for it, ended by its signals, and not left over by its worker."""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType

from redisbeater.log_lines import get_logger

__all__ = ("ParentProcess", "end_with_other_signals", "tune_process")

logger = get_logger(__name__)


def tune_process() -> None:
    """Exempt all objects that exist now from garbage collection.

    Scanning them took 30 to 70 ms every few thousand runs, and runs waited for it
    (``benchmarks/compare.py --only burst``).
    """
    gc.collect()
    gc.freeze()


def end_with_other_signals() -> None:
    """Let SIGHUP and SIGQUIT end this process as SIGTERM does, unless the application handles or ignores them."""
    for name in ("SIGHUP", "SIGQUIT"):  # Windows has neither
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGTERM)  # its handler may be a deferred one


class ParentProcess:
    """The process that started this one. If it is killed, this one lives on with another parent."""

    def __init__(self) -> None:
        self.pid = os.getppid()

    def end_with_it(self) -> None:
        """End beat if its worker was killed: the next worker starts another beat, perhaps with newer code."""
        if self.has_ended:
            logger.warning("the worker of this beat has ended (pid %d), closing", self.pid)
            raise SystemExit

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return os.getppid() != self.pid
