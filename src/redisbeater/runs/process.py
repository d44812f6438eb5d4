"""What one process of a worker reports of the runs of one app."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from celery import Celery
from celery.app.task import Context as Request

from redisbeater.config.settings import Config
from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.host_clock import host_seconds
from redisbeater.log_lines import get_logger
from redisbeater.model.run import State
from redisbeater.runs.announcing import announce_end, announce_start
from redisbeater.runs.cut_off import Watchdog
from redisbeater.runs.message import execution_of, odd_headers
from redisbeater.runs.outbox import Outbox
from redisbeater.runs.running import Running, RunningTable
from redisbeater.store import Execution, RunStore, holder_prefix, new_holder

__all__ = ("Process", "flush_all")

logger = get_logger(__name__)

#: Seconds that a process that ends waits for its last reports, in units of ``redisbeater_run_write_timeout``.
FLUSH_TIMEOUTS = 2

#: By app and process: what a child inherits by a fork has its parent's locks, thread and connection.
_PROCESSES: WeakKeyDictionary[Celery, dict[int, Process | None]] = WeakKeyDictionary()


class Process:
    """What one process reports. Creating it does no I/O and starts no thread.

    Attributes:
        running: the executions that are going on here.
        received: in the main process of a worker its messages of tracked runs, by task id, while it keeps them.
        keeps_results: whether the results of tasks are recorded.
        executes: whether this process executes tasks itself; the main process of a prefork worker does not.
        outbox: its reports on their way to Redis.
    """

    def __init__(self, config: Config) -> None:
        self.running = RunningTable()
        self.received: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.executes = False
        self.keeps_results = config.run_results
        self._config = config
        self._host = socket.gethostname()
        self._store = RunStore.of_worker(config)
        self.outbox = Outbox(config.run_write_timeout, self.renew, self.running.renew_at)
        self._watchdog = Watchdog(self.running, config) if config.stop_when_cut_off else None

    @classmethod
    def of(cls, app: Celery) -> Process | None:
        """Return what this process reports for an app; None: its settings cannot be used, which is logged once."""
        by_pid = _PROCESSES.setdefault(app, {})
        pid = os.getpid()
        if pid not in by_pid:
            # setdefault: one of several threads wins.
            by_pid.setdefault(pid, cls._of_settings(app))
        return by_pid[pid]

    @classmethod
    def _of_settings(cls, app: Celery) -> Process | None:
        try:
            return cls(Context.of(app).config)
        except ImproperlyConfigured as exc:
            logger.error("runs are not reported, correct the settings and restart the worker: %s", exc)
            return None

    # The process that executes

    def begin(self, task: Any, request: Any, *, is_exclusive: bool) -> Running:
        """Report that a task begins, and renew the lease of its run from now on."""
        self.executes = True
        if odd := odd_headers(request):
            logger.warning(
                "the message of run %s has headers that beat did not write, and that are ignored: %s",
                request.id,
                ", ".join(odd),
            )
        execution = execution_of(task, request, new_holder(self._host, os.getpid()), is_exclusive=is_exclusive)
        running = Running(execution=execution, lease=self._config.run_timeout)
        self.running.add(request, running)
        if self._watchdog is not None:
            self._watchdog.look()
        self.outbox.put(lambda: self._start(running))
        announce_start(running)
        return running

    def _start(self, running: Running) -> None:
        asked_at = host_seconds()
        running.started(*self._store.start(running.execution), asked_at)
        if running.answer in ("RUNNING", "DUPLICATE"):
            _log_second_start(running)
        elif running.execution.is_redelivered:
            self._lose_leases(self.running.others(running))

    def _start_again(self, running: Running) -> None:
        """Report once more the start of an execution, which is not in Redis."""
        asked_at = host_seconds()
        answer, rest = self._store.start(running.execution)
        if answer in ("STARTED", "STOP"):
            running.started(answer, rest, asked_at)
        else:
            self._lose_leases([running])

    def _lose_leases(self, superseded: list[Running]) -> None:
        """Record that other executions have taken over the runs of these."""
        for running in superseded:
            running.taken_over()
        if superseded and self._watchdog is not None:
            self._watchdog.look()

    def release(self, running: Running, retry_in: float | None, error: str) -> None:
        """Give up the lease of an execution whose task is about to publish the message of the next execution.

        This comes before that message leaves, because another worker may start it before this execution has ended. An
        execution that never had the lease, by what Redis has answered meanwhile, has nothing to report.
        """

        def write() -> None:
            if running.answer not in ("RUNNING", "DUPLICATE"):
                self._finish(running.execution, State.RETRY, retry_in=retry_in, error=error)

        running.is_released = True
        self.outbox.put(write)

    def end(self, running: Running, state: State, **details: Any) -> None:
        """Report how an execution has ended; ``details`` as ``RunStore.finish()`` takes them."""
        if running.is_released:
            # No other execution follows after all: take the lease again with the same token.
            self.outbox.put(lambda: self._start(running))
        self._put_end(running.execution, state, seconds=time.monotonic() - running.began, **details)

    def renew(self) -> None:
        """Renew the leases that are due; the outbox does so between two reports."""
        due, asked_at = self.running.to_renew(), host_seconds()
        if self.outbox.is_busy:  # a start that waits to be written comes first
            due = [running for running in due if running.answer]
        if not due:  # the executions that were due have ended
            return
        renewal = self._store.renew({each.execution.run_id: each.execution.holder for each in due})
        for running in due:
            if running.execution.run_id in renewal.absent:
                self._start_again(running)
            else:
                running.renewed_by(renewal, asked_at)
        if renewal.not_ours and self._watchdog is not None:
            self._watchdog.look()

    def drop(self, execution: Execution, error: str) -> None:
        """Report that an execution died: its lease ends soon."""

        def write() -> None:
            self._store.drop(execution, error=error)

        self.outbox.put(write)

    # The main process, which knows only in which process an execution was

    def request_of(self, task_id: str) -> Any:
        """Return the ``celery.app.task.Context`` of a tracked run that this worker has received; None: it has not."""
        received = self.received.get(task_id)
        return None if received is None else Request(received.request_dict)

    def seen_from_outside(self, task: Any, request: Any) -> Execution | None:
        """Return an execution by the process that executed it, as known here; None: that process is unknown."""
        received = self.received.get(request.id)
        pid = os.getpid() if self.executes else getattr(received, "worker_pid", None)
        if not isinstance(pid, int):
            return None
        return replace(execution_of(task, request, holder_prefix(self._host, pid)), pid=pid)

    def end_from_outside(self, execution: Execution, state: State, **details: Any) -> None:
        """Report the end of an execution that another process began, or that never began."""
        self._put_end(execution, state, **details)

    def flush(self) -> None:
        """Wait for the last reports of a process that ends, and log how many cannot be written."""
        left = self.outbox.flush(self._config.run_write_timeout * FLUSH_TIMEOUTS)
        if left:
            logger.error(
                "%d reports of runs could not be written before this process ended; their runs are shown as lost", left
            )

    def _put_end(self, execution: Execution, state: State, **details: Any) -> None:
        answers: list[str] = []
        self.outbox.put(lambda: answers.append(self._finish(execution, state, **details)))
        if "LATE" not in answers:
            announce_end(execution, state, **details)

    def _finish(self, execution: Execution, state: State, **details: Any) -> str:
        answer = self._store.finish(execution, state, **details)
        if answer == "LATE":
            logger.warning(
                "run %s of %r has ended as %s, but another execution has it now, or has ended it",
                execution.run_id,
                execution.name,
                state.value,
            )
        return answer


def _log_second_start(running: Running) -> None:
    execution = running.execution
    why = "another execution is going on" if running.answer == "RUNNING" else "it has ended before"
    if execution.is_exclusive:
        logger.info("run %s of %r is not executed a second time: %s", execution.run_id, execution.name, why)
    else:
        logger.warning(
            "run %s of %r is executed a second time, unlike tasks of the class OnceTask: %s",
            execution.run_id,
            execution.name,
            why,
        )


def flush_all() -> None:
    """Wait for the last reports of this process."""
    for by_pid in list(_PROCESSES.values()):
        process = by_pid.get(os.getpid())
        if process is not None:
            process.flush()
