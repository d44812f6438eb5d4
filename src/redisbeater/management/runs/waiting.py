"""Waiting for the end of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from redisbeater.context import Context
from redisbeater.exceptions import StoreError
from redisbeater.management.runs.history import check_tracked, read_run, shown_run
from redisbeater.model.run import Run
from redisbeater.store import Notifier

__all__ = ("wait_for_end", "wait_for_event")

#: The longest time between two looks, as a message may be lost, and the shortest, as other runs end as well.
LONGEST_LOOK_SECONDS, SHORTEST_LOOK_SECONDS = 1.0, 0.05


def wait_for_end(
    context: Context, run_id: str, timeout: float | None, progress: Callable[[Run], None] | None = None
) -> Run:
    """Wait until a run has ended, for ``timeout`` seconds at most, and return it as it is then.

    It listens to the events of runs, and looks each second besides. ``progress`` is called after each look.

    Raises:
        RunNotFound: none of that id is kept.
    """
    check_tracked(context)
    deadline = None if timeout is None else time.monotonic() + timeout
    events = context.redis.runs.events()
    try:
        with suppress(StoreError):
            events.listen()
        while True:
            run = read_run(context, run_id)
            if progress is not None:
                progress(run)
            left = LONGEST_LOOK_SECONDS if deadline is None else deadline - time.monotonic()
            if run.is_final or left <= 0:
                return shown_run(context, run)
            wait_for_event(events, min(left, LONGEST_LOOK_SECONDS))
    finally:
        events.close()


def wait_for_event(events: Notifier, seconds: float) -> None:
    """Wait until a run has changed; for that many seconds at most, and never so short that others keep one busy."""
    until = time.monotonic() + seconds
    try:
        events.wait(seconds)
        time.sleep(min(SHORTEST_LOOK_SECONDS, seconds))
    except StoreError:
        time.sleep(max(until - time.monotonic(), 0))
