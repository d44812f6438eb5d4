"""The reports of one process on their way to Redis: written in order, by one thread, on one connection."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from redisbeater.clock import host_seconds
from redisbeater.exceptions import StoreError, StoreUnavailable
from redisbeater.log_lines import get_logger
from redisbeater.store.failure import will_pass

logger = get_logger(__name__)

#: How many reports are kept while Redis is away; the oldest is dropped for the next one.
MOST_WAITING = 1_000

#: Seconds for which no task waits for Redis after it did not answer.
AWAY_SECONDS = 5.0

#: Seconds between two tries while Redis is away.
RETRY_SECONDS = 1.0

#: Seconds between two lines on what Redis refuses.
REPEAT_SECONDS = 60.0


@dataclass(eq=False)
class Report:
    """Something to write: a call of the store, which handles the answer too."""

    write: Callable[[], None]
    is_over: threading.Event = field(default_factory=lambda: threading.Event())


class Outbox:
    """Writes reports, and does a duty between them.

    Tasks put reports in and wait until these are written, but never longer than ``wait_seconds``, however long Redis,
    the network or a name server takes: only the thread of the outbox talks to Redis. The first report starts that
    thread. What could not be written stays, in order, until Redis is back.

    Arguments:
        wait_seconds: how long a task waits for its report to be written.
        duty: called between reports when it is due.
        duty_at: returns when the duty is due, by the clock of this host; infinite: not.
    """

    def __init__(self, wait_seconds: float, duty: Callable[[], None], duty_at: Callable[[], float]) -> None:
        self._wait_seconds = wait_seconds
        self._duty = duty
        self._duty_at = duty_at
        self._changed = threading.Condition()
        self._waiting: deque[Report] = deque()
        self._thread: threading.Thread | None = None
        #: How many reports were written, and dropped since the last line about that.
        self._written = self._dropped = 0
        #: Until when no task waits for Redis, when the thread tries again, and since when Redis is away.
        self._away_until = self._retry_at = 0.0
        self._away_since: float | None = None
        #: When the duty may be done again after a refusal, and until when no further refusal is logged.
        self._duty_from = self._silent_until = 0.0

    def put(self, write: Callable[[], None]) -> None:
        """Write a report, and wait for that unless Redis is away."""
        report = Report(write)
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(report)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="redisbeater-runs", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify_all()
        written = self._written
        if host_seconds() < self._away_until or report.is_over.wait(self._wait_seconds):
            return
        if written == self._written:  # else the thread is only busy with the reports before
            self._away_until = host_seconds() + AWAY_SECONDS

    @property
    def is_busy(self) -> bool:
        """Whether reports wait to be written."""
        return bool(self._waiting)

    def flush(self, seconds: float) -> int:
        """Wait until all reports are written, so many seconds at most, and return how many are not."""
        deadline = host_seconds() + seconds
        with self._changed:
            self._retry_at = 0.0
            self._changed.notify_all()
            while self._waiting and (left := deadline - host_seconds()) > 0:
                self._changed.wait(left)
            return len(self._waiting)

    def _run(self) -> None:
        while True:
            self._wait_for_work()
            try:
                self._work()
            except StoreError as exc:
                self._is_away(exc)

    def _wait_for_work(self) -> None:
        with self._changed:
            while (seconds := self._seconds_until_work()) > 0:
                self._changed.wait(None if math.isinf(seconds) else seconds)

    def _seconds_until_work(self) -> float:
        due = 0.0 if self._waiting else max(self._duty_at(), self._duty_from)
        return max(due, self._retry_at) - host_seconds()

    def _work(self) -> None:
        while self._waiting:
            report = self._waiting[0]
            self._write(report.write)
            report.is_over.set()
            with self._changed:
                # If the outbox was full meanwhile, put() has dropped this report.
                if self._waiting and self._waiting[0] is report:
                    self._waiting.popleft()
                self._changed.notify_all()
            self._do_duty()  # between reports, too: they may come without a pause
        self._do_duty()

    def _do_duty(self) -> None:
        if max(self._duty_at(), self._duty_from) <= host_seconds():
            is_done = self._write(self._duty)
            self._duty_from = 0.0 if is_done else host_seconds() + RETRY_SECONDS

    def _write(self, write: Callable[[], None]) -> bool:
        """Write, and return whether Redis accepted it. What Redis refuses is dropped: it would refuse it again.

        Raises:
            StoreError: Redis is away, or refuses everything at this moment.
        """
        try:
            write()
            self._is_back()
            return True
        except StoreError as exc:
            if will_pass(exc):
                raise
            if self._may_log():
                logger.error("Redis refused a report of a run, which is dropped: %s", exc)
        except Exception:  # it would end the thread that writes all others
            if self._may_log():
                logger.exception("a report of a run failed and is dropped; this is a bug")
        return False

    def _may_log(self) -> bool:
        """Return whether no refusal was logged in the last REPEAT_SECONDS."""
        if host_seconds() < self._silent_until:
            return False
        self._silent_until = host_seconds() + REPEAT_SECONDS
        return True

    def _is_away(self, error: StoreError) -> None:
        now = host_seconds()
        self._away_until, self._retry_at = now + AWAY_SECONDS, now + RETRY_SECONDS
        if self._away_since is None:
            self._away_since = now
            if isinstance(error, StoreUnavailable):
                logger.warning("Redis unavailable, reports of runs are kept until it is back: %s", error)
            else:
                logger.error("Redis refuses all reports of runs, which are kept until that is corrected: %s", error)
        for report in list(self._waiting):
            report.is_over.set()

    def _is_back(self) -> None:
        self._written += 1
        self._away_until = 0.0
        if self._away_since is not None:
            seconds, self._away_since = host_seconds() - self._away_since, None
            logger.info("Redis available again after %.1f s, runs are reported again", seconds)
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            logger.error("%d reports of runs were dropped, the oldest ones; those runs are shown as lost", dropped)
