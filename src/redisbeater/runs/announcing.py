"""The signals about the runs that this process executes."""

from __future__ import annotations

from typing import Any

from redisbeater.model.run import FINAL, Run, State
from redisbeater.runs.running import Running
from redisbeater.signals import run_finished, run_started
from redisbeater.store import Execution

__all__ = ("announce_end", "announce_start")


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
    """Return what this process knows of a run."""
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
