"""The runs of one worker process: begun, ended, stopped and cut off."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from celery import Celery, Task, current_task
from celery.app.task import Context as Request
from celery.exceptions import Ignore

from redisbeater.clock import host_seconds
from redisbeater.config.settings import Config
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.log_lines import get_logger
from redisbeater.model.node import Node
from redisbeater.model.run import FINAL, Run, State
from redisbeater.runs.outbox import Outbox
from redisbeater.runs.running import Running, RunningTable, execution_of, is_tracked, odd_headers
from redisbeater.signals import run_finished, run_started
from redisbeater.store import Execution, RunStore, holder_prefix, new_holder

logger = get_logger(__name__)


def announce_start(running: Running) -> None:
    """Fire the signal that an execution has begun; none if another one has the run, or its task refuses to begin."""
    is_refused = running.execution.is_exclusive and running.answer == "STOP"
    if run_started.receivers and running.holds and not is_refused:
        run = _run_of(running.execution, State.STARTED)
        run_started.send(run.name, run=run, state=run.state.value, duration=None)


def announce_end(execution: Execution, state: State, *, seconds: float | None = None, **details: Any) -> None:
    """Fire the signal that a run has ended, unless it is to be tried again.

    Not to be called for a run that another execution has.

    Arguments:
        execution: its execution.
        state: how it ended.
        seconds: how long it took; None: unknown.
        details: what else was recorded: ``error``, ``result``, ``note``.
    """
    if run_finished.receivers and state in FINAL:
        run = _run_of(execution, state, **details)
        run_finished.send(run.name, run=run, state=state.value, duration=seconds)


def _run_of(execution: Execution, state: State, *, error: str = "", result: str = "", note: str = "", **_: Any) -> Run:
    """Return a run as this process knows it."""
    return Run(
        id=execution.run_id,
        name=execution.name,
        state=state,
        task=execution.task,
        fire_time=execution.fire_time,
        attempt=execution.attempt,
        acks_late=execution.acks_late,
        worker=execution.worker,
        pid=execution.pid,
        error=error,
        result=result,
        note=note,
    )


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


#: Seconds that a process that ends waits for its last reports, in units of ``redisbeater_run_write_timeout``.
FLUSH_TIMEOUTS = 2

#: Seconds between two reports of a worker.
NODE_SECONDS = 15.0


def node_of(worker: Any, since: datetime, release: str, now: datetime) -> Node:
    """Return the report of a worker, which is Celery's consumer, with the release of its code."""
    pool = getattr(worker, "pool", None)
    slots = getattr(pool, "num_processes", None) or getattr(pool, "limit", None)
    return Node(
        name=str(worker.hostname),
        since=since,
        seen_at=now,
        pool=type(pool).__module__.rpartition(".")[2] if pool is not None else "",
        slots=slots if isinstance(slots, int) else 0,
        queues=tuple(map(str, worker.app.amqp.queues.consume_from)),
        release=release,
    )


#: By app and process: what a child inherits by a fork has its parent's locks, thread and connection.
_PROCESSES: WeakKeyDictionary[Celery, dict[int, Process | None]] = WeakKeyDictionary()


class Process:
    """What one process reports. Creating it does no I/O and starts no thread.

    Attributes:
        running: the executions that are going on here.
        received: in the main process of a worker its messages of tracked runs, by task id, while it keeps them.
        keeps_results: whether the results of tasks are recorded.
        keeps_tracebacks: whether it is recorded where the error of a task was raised.
        executes: whether this process executes tasks itself; the main process of a prefork worker does not.
        outbox: its reports on their way to Redis.
    """

    def __init__(self, config: Config) -> None:
        self.running = RunningTable()
        self.received: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.executes = False
        self.keeps_results, self.keeps_tracebacks = config.run_results, config.run_tracebacks
        self._config = config
        self._host = socket.gethostname()
        self._store = RunStore.of_worker(config)
        self.outbox = Outbox(config.run_write_timeout, self.do_duties, self._duty_at)
        self._node: Callable[[datetime], Node] | None = None
        self._node_at = math.inf
        self._watchdog = Watchdog(self.running, config) if config.stop_when_cut_off else None

    @classmethod
    def of(cls, app: Celery) -> Process | None:
        """Return the process that reports for an app, or None if its settings cannot be used, which is logged once."""
        by_pid = _PROCESSES.setdefault(app, {})
        pid = os.getpid()
        if pid not in by_pid:
            # setdefault: one of several threads wins.
            by_pid.setdefault(pid, cls._of_settings(app))
        return by_pid[pid]

    @classmethod
    def _of_settings(cls, app: Celery) -> Process | None:
        try:
            return cls(Config.from_app(app))
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

    def do_duties(self) -> None:
        """Renew the leases that are due, and report the worker if it is time: between two reports of the outbox."""
        if self.running.renew_at() <= host_seconds():
            self.renew()
        if self._node_at <= host_seconds():
            self._report_node()

    def _duty_at(self) -> float:
        return min(self.running.renew_at(), self._node_at)

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

    # The main process: the worker as a whole

    def begin_node(self, worker: Any) -> None:
        """Report a worker that is ready, and again each 15 seconds, where runs are tracked."""
        if self._config.track_runs:
            self._node = partial(node_of, worker, datetime.now(timezone.utc), self._store.release)
            self._node_at = math.inf
            self.outbox.put(self._report_node)

    def end_node(self) -> None:
        """Report that a worker ends."""
        if self._node is not None:
            name, self._node, self._node_at = self._node(datetime.now(timezone.utc)).name, None, math.inf
            self.outbox.put(lambda: self._store.forget_node(name))

    def _report_node(self) -> None:
        make = self._node
        if make is None:  # it ends
            return
        self._node_at = host_seconds() + NODE_SECONDS
        self._store.report_node(make(datetime.now(timezone.utc)).name, lambda now: make(now).to_text())

    # The main process, which knows only in which process an execution was

    def request_of(self, task_id: str) -> Any:
        """Return the ``celery.app.task.Context`` of a tracked run that this worker has received, or None."""
        received = self.received.get(task_id)
        return None if received is None else Request(received.request_dict)

    def seen_from_outside(self, task: Any, request: Any) -> Execution | None:
        """Return an execution by the process that executed it, or None if that process is unknown."""
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

    #: By this other parts know the class.
    executes_once = True

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


def stop_requested() -> bool:
    """Return whether the task that is executed here should end.

    It should where somebody asked to stop its run, where another execution has taken the run over, and where its lease
    is over because Redis could not be reached: then the run may be given to another worker. The answer is that of the
    last renewal, at most a quarter of ``redisbeater_run_timeout`` old, and costs no call: a loop may ask each time. It
    is False in tasks that beat has not sent, and outside of tasks; a task that is called as a function is part of the
    task that calls it.

    In a prefork pool ``stop`` and ``cancel_other`` send ``redisbeater_stop_signal`` at once, which ends the task before
    it asks: set it to None for tasks that end by themselves.
    """
    task = current_task.app.current_worker_task if current_task else None
    if task is None or not is_tracked(task.request):
        return False
    process = Process.of(task.app)
    running = process.running.of(task.request) if process is not None else None
    return running is not None and (running.is_to_stop or running.is_cut_off)
