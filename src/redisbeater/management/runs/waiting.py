"""Waiting for the end of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from redisbeater.context import Context
from redisbeater.exceptions import StoreError, StoreUnavailable
from redisbeater.log_lines import get_logger
from redisbeater.management.blanking import shown_run
from redisbeater.management.runs.history import check_tracked, read_run
from redisbeater.model.run import Run
from redisbeater.store import Notifier

__all__ = ("deadline_of", "wait_for_end", "wait_for_event", "wait_on")

logger = get_logger(__name__)

#: The longest time between two looks, as a message may be lost, and the shortest, as other runs end as well.
LONGEST_LOOK_SECONDS, SHORTEST_LOOK_SECONDS = 1.0, 0.05


def deadline_of(timeout: float | timedelta | None) -> float:
    """Return when a time-out, in seconds or as a timedelta, is over, by the monotonic clock; None: never."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    return math.inf if seconds is None else time.monotonic() + seconds


def wait_for_end(
    context: Context, run_id: str, timeout: float | timedelta | None, progress: Callable[[Run], None] | None = None
) -> Run:
    """Wait until a run has ended, for ``timeout`` at most, and return it as it is then.

    It listens to the events of runs, and also reads the run each second. ``progress`` is called after each time. Once
    it has found the run, it outlasts an outage of Redis, such as a failover.

    Raises:
        RunNotFound: none of that id is kept.
        StoreUnavailable: Redis cannot be reached at the first look, or when the time is over.
    """
    check_tracked(context)
    deadline = deadline_of(timeout)
    events = context.redis.runs.events()
    try:
        with suppress(StoreError):
            events.listen()
        run = read_run(context, run_id)
        while True:
            if progress is not None:
                progress(shown_run(context, run))
            left = deadline - time.monotonic()
            if run.is_final or left <= 0:
                return shown_run(context, run)
            wait_for_event(events, min(left, LONGEST_LOOK_SECONDS))
            run = _read_again(context, run_id, deadline)
    finally:
        events.close()


def _read_again(context: Context, run_id: str, deadline: float) -> Run:
    """Read a run; while Redis cannot be reached, try again until the deadline."""
    is_first = True
    while True:
        try:
            return read_run(context, run_id)
        except StoreUnavailable as exc:
            wait_on(exc, run_id, deadline, is_first=is_first)
            is_first = False
            time.sleep(LONGEST_LOOK_SECONDS)


def wait_on(outage: StoreUnavailable, run_id: str, deadline: float, *, is_first: bool) -> None:
    """Log that a wait for a run goes on in an outage of Redis, such as a failover, the first time.

    Raises:
        StoreUnavailable: the deadline is over, and nobody knows whether the run has ended.
    """
    if time.monotonic() >= deadline:
        raise outage
    if is_first:
        logger.warning("still waiting for the end of run %s: %s", run_id, outage)


def wait_for_event(events: Notifier, seconds: float) -> None:
    """Wait until a run has changed, ``seconds`` at most; a busy schedule cannot make the waits arbitrarily short."""
    until = time.monotonic() + seconds
    try:
        events.wait(seconds)
        time.sleep(min(SHORTEST_LOOK_SECONDS, seconds))
    except StoreError:
        time.sleep(max(until - time.monotonic(), 0))
