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
    is False in tasks that beat has not sent, and outside of tasks.
    """
    if not current_task or not is_tracked(current_task.request):
        return False
    process = Process.of(current_task.app)
    running = process.running.of(current_task.request) if process is not None else None
    return running is not None and (running.is_to_stop or running.is_cut_off)
