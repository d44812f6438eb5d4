"""Whether the broker accepts runs at all. One that answers but refuses them all is as good as unavailable."""

from __future__ import annotations

import re
import time

from celery.exceptions import QueueNotFound
from kombu.exceptions import SerializationError

from redisbeater.display import text_of
from redisbeater.exceptions import causes
from redisbeater.log_lines import get_logger

__all__ = ("Acceptance", "concerns_all", "never_left")

logger = get_logger(__name__)

#: When this many different entries were refused and no run was accepted in between, the entries are not at fault.
ENOUGH_REFUSED = 3

#: A broker that accepts some runs and refuses most is logged at most once in this time.
REPEAT_SECONDS = 60.0

#: Answers of a Redis that refuses whatever is written, and that of a queue whose key holds no list. redis-py has
#: classes for some of them, and takes the word out of the text.
_CONCERNS_ALL = re.compile(
    r"\b(OOM|READONLY|MISCONF|NOREPLICAS|MASTERDOWN|LOADING|WRONGTYPE"
    r"|OutOfMemoryError|ReadOnlyError|MasterDownError|BusyLoadingError)\b"
)


def concerns_all(error: BaseException) -> bool:
    """Return whether an error says that the broker accepts nothing, whichever run it is."""
    return any(_CONCERNS_ALL.search(f"{type(cause).__name__}: {text_of(cause)}") for cause in causes(error))


def never_left(error: BaseException) -> bool:
    """Return whether a run failed before the broker was asked: no such queue is declared, or nothing serializes it."""
    return any(isinstance(cause, (QueueNotFound, SerializationError)) for cause in causes(error))


class Acceptance:
    """Judges by what becomes of runs whether a broker that can be reached accepts any."""

    def __init__(self) -> None:
        self._refused: set[str] = set()
        self._refusing_since: float | None = None
        self._is_logged = False
        self._logged_at = float("-inf")

    @property
    def is_refusing(self) -> bool:
        """Whether the broker seems to refuse every run."""
        return self._refusing_since is not None

    def refused(self, name: str, error: Exception) -> None:
        """Record that the broker refused a run of an entry; log it when it seems to refuse every run."""
        if self._refusing_since is not None:
            return
        self._refused.add(name)
        if len(self._refused) < ENOUGH_REFUSED and not concerns_all(error):
            return
        self._refusing_since = time.monotonic()
        self._is_logged = self._refusing_since >= self._logged_at + REPEAT_SECONDS
        if self._is_logged:
            self._logged_at = self._refusing_since
            logger.error("broker refuses every run, retrying: %s", error)

    def accepted(self) -> None:
        """Record that the broker accepted a run; log it if it seemed to refuse them all."""
        self._refused.clear()
        if self._refusing_since is not None:
            seconds, self._refusing_since = time.monotonic() - self._refusing_since, None
            if self._is_logged:
                logger.info("broker accepts runs again after %.1f s", seconds)
