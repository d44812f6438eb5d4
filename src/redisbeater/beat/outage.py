"""What a beat waits for: a broker or Redis that is away, a fault of a pass, a pause, an edit."""

from __future__ import annotations

import time
import traceback
from collections import OrderedDict
from collections.abc import Iterable

from redisbeater.beat.leadership import ScheduleLog
from redisbeater.clock import Backoff
from redisbeater.context import Context
from redisbeater.display import first_of
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry_name import is_unreserved
from redisbeater.exceptions import InvalidEntry, SchedulePaused, StoreError, StoreUnavailable
from redisbeater.log_lines import event, get_logger
from redisbeater.store import Snapshot
from redisbeater.store.failure import is_refusal
from redisbeater.store.keys import SEVERAL

logger = get_logger(__name__)


#: Delay after the first failed pass, and the longest one.
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 30.0

#: An error that is known is logged once in this time.
REPEAT_SECONDS = 60.0

#: How many errors are known; what was logged longest ago is forgotten first.
MAX_ERRORS = 100


class Fault:
    """The failed passes of one beat: how long to wait after each, and which errors were logged already."""

    def __init__(self) -> None:
        self._backoff = Backoff(first=FIRST_BACKOFF_SECONDS, limit=LONGEST_BACKOFF_SECONDS)
        self._logged_at: OrderedDict[str, float] = OrderedDict()
        self._retry_at = 0.0

    @property
    def retry_in(self) -> float:
        """Seconds until the next pass may begin; not positive if it may begin now."""
        return self._retry_at - time.monotonic()

    def failed(self, error: Exception) -> None:
        """Record a failed pass and set when to retry. Log a new error with its traceback, a known one once a minute."""
        delay = self._backoff.failed()
        self._retry_at = time.monotonic() + delay
        place = _place_of(error)
        if place not in self._logged_at:
            logger.error("beat failed, retrying in %.1f s; this is a bug", delay, exc_info=error)
        elif time.monotonic() < self._logged_at[place] + REPEAT_SECONDS:
            return
        else:
            logger.error("beat still fails, retrying in %.1f s: %s", delay, place)
        self._logged_at[place] = time.monotonic()
        self._logged_at.move_to_end(place)
        if len(self._logged_at) > MAX_ERRORS:
            self._logged_at.popitem(last=False)

    def ended(self) -> None:
        """Record a pass that succeeded."""
        self._backoff.succeeded()


def _place_of(error: Exception) -> str:
    """Return the type of an error and where it was raised. Its text may differ each time."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


#: Delay after the first failure.
FIRST_RETRY_SECONDS = 0.2

#: A refusal is over when beat was refused nothing for this long: a standby writes only its heartbeat, every 5 seconds.
REFUSAL_SECONDS = 7.0


class Outage:
    """The current outage of Redis, if there is one.

    Arguments:
        retry_period: seconds after which beat gives up; -1: never.
        longest_delay: seconds between two tries at most.
        log: reports the begin and the end of an outage.
    """

    def __init__(self, retry_period: float, longest_delay: float, log: ScheduleLog) -> None:
        self._log = log
        self._reason = ""
        self._retry_period = retry_period
        self._backoff = Backoff(first=FIRST_RETRY_SECONDS, limit=longest_delay)
        self._since: float | None = None
        self._failed_at = 0.0
        self._is_refusal = False

    @property
    def is_on(self) -> bool:
        """Whether the last try failed."""
        return self._since is not None

    def failed(self, error: StoreError) -> float:
        """Record a failure, and log it if the outage begins with it. Return the seconds until the next try.

        Raises:
            StoreError: the outage has lasted longer than the retry period.
        """
        now = self._failed_at = time.monotonic()
        self._is_refusal = is_refusal(error)
        if self._since is None:
            self._since, self._reason = now, str(error)
            extra = event("redis_away", seconds=0.0, error=error)
            may_pass = isinstance(error, StoreUnavailable)
            line = "Redis unavailable, retrying: %s" if may_pass else "Redis refused a command, retrying: %s"
            logger.error(line, error, extra=extra)
            self._log.redis_left(self._reason)
        if 0 <= self._retry_period <= now - self._since:
            raise error
        return self._backoff.failed()

    def succeeded(self, *, has_written: bool) -> None:
        """Record that Redis answers, and log the end of the outage if there was one.

        ``has_written``: the pass was a leader's, which writes. Any other shows only that Redis can be read.
        """
        if self._since is not None and (has_written or not self._is_refusal or self._is_quiet):
            seconds = time.monotonic() - self._since
            extra = event("redis_back", seconds=seconds, error=self._reason)
            logger.info("Redis available again after %.1f s", seconds, extra=extra)
            self._backoff.succeeded()
            self._since = None
            self._log.redis_returned(seconds, self._reason)

    @property
    def _is_quiet(self) -> bool:
        return time.monotonic() - self._failed_at >= REFUSAL_SECONDS


#: Edits are logged once in this time, those that came together.
PERIOD_SECONDS = 1.0

#: How many entries get a line of their own, for which they are read.
LOGGED_ENTRIES = 3

#: How many names are remembered until the next lines.
MOST_NAMES = 1000


class Edits:
    """Collects the messages of the changes channel, and logs at most once a second what they are about.

    Beat's own changes are among them. A program that writes raw keys without a message is not noticed.
    """

    #: A step logs all that it may; the next one has time.
    is_behind = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names: dict[str, None] = {}
        self._log_at = float("-inf")

    def record(self, messages: Iterable[str]) -> None:
        """Record messages of the channel."""
        for message in messages:
            if len(self._names) < MOST_NAMES and (message == SEVERAL or is_unreserved(message)):
                self._names[message] = None

    def step(self) -> None:
        """Log what was recorded, if there is something and the last lines are old enough.

        The first few entries are read, which takes a round trip; without edits there is none.
        """
        if not self._names or time.monotonic() < self._log_at:
            return
        self._log_at = time.monotonic() + PERIOD_SECONDS
        names = [name for name in self._names if name != SEVERAL]
        is_more = SEVERAL in self._names
        self._names = {}
        for snapshot in self._context.redis.load_many(names[:LOGGED_ENTRIES]):
            self._log(snapshot)
        if others := names[LOGGED_ENTRIES:]:
            logger.info("%d more entries created, changed or deleted: %s", len(others), first_of(others))
        if is_more:
            logger.info("several entries created, changed or deleted together")

    def _log(self, snapshot: Snapshot) -> None:
        if not snapshot.exists:
            logger.info("entry %r is deleted", snapshot.name)
            return
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.codec)
            due_at = stored.due_at(self._context.in_zone(stored.zone).defaults)
        except (InvalidEntry, OverflowError):  # its quarantine says why
            logger.info("entry %r created or changed, it cannot be read", snapshot.name)
            return
        if not stored.definition.enabled:
            logger.info("entry %r created or changed, it is disabled", snapshot.name)
        else:
            logger.info(
                "entry %r created or changed, next run %s", snapshot.name, due_at.isoformat() if due_at else "none"
            )


#: Beat claims this long after the end of a pause, because Redis counts in milliseconds.
MARGIN_SECONDS = 0.005


class Pausing:
    """Whether the schedule was paused at the last claim; its begin and its end are logged.

    Arguments:
        log: reports both.
    """

    def __init__(self, log: ScheduleLog) -> None:
        self._log = log
        #: Whether the last claim found a pause.
        self.is_on = False

    def began(self, pause: SchedulePaused, longest: float) -> float:
        """Record that a claim found a pause. Return the seconds until the next claim, ``longest`` at most."""
        if not self.is_on:
            logger.warning(
                "the schedule is paused, sending nothing; celery -A proj redisbeater resume ends that",
                extra=event("schedule_paused"),
            )
            self._log.paused()
        self.is_on = True
        return longest if pause.seconds_left is None else min(pause.seconds_left + MARGIN_SECONDS, longest)

    def ended(self) -> None:
        """Record that a claim found no pause any more."""
        logger.info("the schedule is not paused any more", extra=event("schedule_resumed"))
        self._log.resumed()
        self.is_on = False
