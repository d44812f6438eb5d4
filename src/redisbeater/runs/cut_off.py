"""Ending the tasks of a process that is cut off from Redis, where the setting asks for that."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time

from redisbeater.config.settings import Config
from redisbeater.host_clock import host_seconds
from redisbeater.log_lines import get_logger
from redisbeater.runs.running import Running, RunningTable

__all__ = ("Watchdog",)

logger = get_logger(__name__)

#: Seconds that a task may take to end before its process is killed. A lost run is requeued 10 seconds after its lease.
END_SECONDS = 5.0

#: How often it looks: a wait takes no account of the time in which the host was suspended.
LOOK_SECONDS = 1.0


class Watchdog:
    """Ends this process once a lease is over that it could not renew, as Celery's ``terminate`` would.

    It has a thread of its own, because the thread that renews leases may hang in the network just then.
    """

    def __init__(self, running: RunningTable, config: Config) -> None:
        self._running = running
        self._signal = signal.Signals[config.stop_signal or "SIGTERM"]
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_useless = False

    def look(self) -> None:
        """Check the leases: an execution is new, or was taken over. Log once if this process cannot end itself."""
        if self._thread is None and not self._is_useless:
            self._start()
        self._changed.set()

    def _start(self) -> None:
        self._is_useless = not _is_pool_process()
        if self._is_useless:
            logger.warning("redisbeater_stop_when_cut_off works in a prefork pool only; use stop_requested() in tasks")
            return
        thread = threading.Thread(target=self._watch, name="redisbeater-cut-off", daemon=True)
        thread.start()
        self._thread = thread

    def _watch(self) -> None:
        while True:
            self._changed.clear()
            lost = [running for running in self._running.holding() if running.is_cut_off]
            if lost:
                self._end_process(lost)
            seconds = self._running.first_cut_off() - host_seconds()
            self._changed.wait(None if math.isinf(seconds) else min(max(seconds, 0.0), LOOK_SECONDS))

    def _end_process(self, lost: list[Running]) -> None:
        for running in lost:
            logger.error(
                "run %s of %r could not renew its lease; its process ends, so that it does not run beside the next one",
                running.execution.run_id,
                running.execution.name,
            )
        os.kill(os.getpid(), self._signal)
        time.sleep(END_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)


def _is_pool_process() -> bool:
    """Return whether this is a child of a prefork pool: billiard renames its processes in the standard library, too."""
    return multiprocessing.current_process().name != "MainProcess"
