"""What a task may ask: whether it is to stop."""

from __future__ import annotations

from celery import current_task

from redisbeater.runs.message import is_tracked
from redisbeater.runs.process import Process

__all__ = ("stop_requested",)


def stop_requested() -> bool:
    """Return whether the task that is executed here should end.

    It should where somebody asked to stop its run, where another execution has taken the run over, and where its lease
    is over because Redis could not be reached: then the run may be given to another worker. The answer is that of the
    last renewal, at most a quarter of ``redisbeater_run_timeout`` old, and costs no call: a loop may ask each time. It
    is False in tasks that beat has not sent, and outside of tasks; a task that is called as a function is part of the
    task that calls it.
    """
    task = current_task.app.current_worker_task if current_task else None
    if task is None or not is_tracked(task.request):
        return False
    process = Process.of(task.app)
    running = process.running.of(task.request) if process is not None else None
    return running is not None and (running.is_to_stop or running.is_cut_off)
