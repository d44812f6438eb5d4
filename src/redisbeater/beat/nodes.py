"""Forget workers that do not report any more: the beat that leads does so, and says it in the log of the schedule."""

from __future__ import annotations

import time
from datetime import timedelta

from redisbeater.beat.leadership import ScheduleLog
from redisbeater.context import Context
from redisbeater.log_lines import get_logger
from redisbeater.model.node import Node

logger = get_logger(__name__)

#: Seconds between two looks.
PERIOD_SECONDS = 15.0

#: A worker that has not reported for longer is gone: it reports four times in this time.
GONE_AFTER = timedelta(seconds=60)


class Nodes:
    """Watches the reports of workers, where runs are tracked.

    Arguments:
        context: the app whose schedule it is.
        log: gets a line for each worker that is gone.
    """

    #: It is one request, and never goes on in the next pass.
    is_behind = False

    def __init__(self, context: Context, log: ScheduleLog) -> None:
        self._redis, self._log = context.redis, log
        self._look_at = time.monotonic() + PERIOD_SECONDS if context.config.track_runs else float("inf")

    def step(self) -> None:
        """Look if it is time."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + PERIOD_SECONDS
        reports = self._redis.runs.nodes()
        if not reports:
            return
        now, _ = self._redis.clock()
        for name, text in reports.items():
            node = Node.from_text(name, text)
            if node is None or now - node.seen_at > GONE_AFTER:
                self._forget(name, node)

    def _forget(self, name: str, node: Node | None) -> None:
        self._redis.runs.forget_node(name)
        if node is not None:
            self._log.add("worker_gone", worker=name, seen=node.seen_at.isoformat(timespec="seconds"))
            logger.warning("worker %s has not reported since %s, and is taken to be gone", name, node.seen_at)
