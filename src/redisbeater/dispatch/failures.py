"""The entries whose runs could not be sent: when each is tried again, and what is logged about it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

from redisbeater.clock import MAX_THINGS, Backoff
from redisbeater.display import fingerprint, shown, text_of
from redisbeater.exceptions import causes
from redisbeater.log_lines import event, get_logger
from redisbeater.signals import entry_failing, entry_fixed, run_refused
from redisbeater.store.claim import CommitResult

logger = get_logger(__name__)


#: Delay after the first failed try of an entry, and the longest one.
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 30.0

#: The longest delay while the broker refuses every run: it may accept all of them at any time.
LONGEST_REFUSED_SECONDS = 5.0


class Failures:
    """The failures of one beat, by entry. An error is logged unless it is that of the entry's last try."""

    def __init__(self) -> None:
        self._backoff = Backoff(first=FIRST_BACKOFF_SECONDS, limit=LONGEST_BACKOFF_SECONDS)
        self._logged: OrderedDict[str, str] = OrderedDict()

    def failed(
        self, name: str, error: Exception, *, reason: str, is_everywhere: bool, now: datetime | None = None
    ) -> float:
        """Record and log a failed try. Return the seconds until the next one.

        Arguments:
            name: the entry.
            error: why its run could not be sent.
            reason: the same in words.
            is_everywhere: whether the broker refuses every run, which is logged once for all entries.
            now: the server's time, from which the reported next try counts; default: that of this host.
        """
        delay = self.delay_after(name, reason)
        if is_everywhere:
            delay = min(delay, LONGEST_REFUSED_SECONDS)
        facts = {
            "name": name,
            "error": error,
            "tries": self._backoff.failures(name),
            "next_try": (now or datetime.now(timezone.utc)) + timedelta(seconds=delay),
        }
        self._log(name, error, reason, delay, extra=event("run_refused", **facts), is_everywhere=is_everywhere)
        run_refused.send(name, **facts)
        return delay

    def _log(
        self, name: str, error: Exception, reason: str, delay: float, *, extra: dict[str, Any], is_everywhere: bool
    ) -> None:
        text = shown(reason)
        if is_everywhere or self._logged.get(name) == (summary := summary_of(error)):
            logger.debug("entry %r still cannot be sent, retrying in %.1f s: %s", name, delay, text, extra=extra)
        else:
            self._remember(name, summary)
            line = "entry %r cannot be sent, retrying in %.1f s: %s"
            logger.error(line, name, delay, text, exc_info=error, extra=extra)

    def delay_after(self, name: str, reason: str) -> float:
        """Record a failed try that is logged elsewhere. Return the seconds until the next one."""
        delay = self._backoff.failed(name)
        if self._backoff.failures(name) == 1:
            entry_failing.send(name, name=name, reason=shown(reason))
        return delay

    def succeeded(self, name: str) -> None:
        """Record that a run of an entry was sent."""
        if self._backoff.succeeded(name):
            if self._logged.pop(name, None) is not None:
                extra = event("entry_fixed", name=name, reason="sent")
                logger.info("entry %r is sent again", name, extra=extra)
            entry_fixed.send(name, name=name, reason="sent")

    @property
    def failing(self) -> Collection[str]:
        """The names of the entries whose last try failed, as a view that follows what is recorded."""
        return self._backoff.failing

    def _remember(self, name: str, summary: str) -> None:
        self._logged[name] = summary
        self._logged.move_to_end(name)
        if len(self._logged) > MAX_THINGS:
            self._logged.popitem(last=False)


def summary_of(error: Exception) -> str:
    """Return a fingerprint of the error, without addresses and ids."""
    *_, first = causes(error)
    return fingerprint(f"{type(first).__name__}: {text_of(error)}")


#: An error that is known is logged once in this time: it comes with every run.
REPEAT_SECONDS = 60.0

#: How many errors are known; what was logged longest ago is forgotten first.
MAX_ERRORS = 100

REDUCED = "entry %r: its run counts, but Redis refused its log or its record, as of %d entries: %s"
REFUSED = "entry %r: Redis refused its commit, as of %d entries; it becomes due again when its lease ends: %s"


class RefusedCommits:
    """Logs the refused commits of one beat: the first entry, and how many there were since the last line."""

    def __init__(self) -> None:
        self._logged_at: OrderedDict[str, float] = OrderedDict()
        self._since: dict[str, int] = {}

    def log(self, result: CommitResult) -> None:
        """Log what was refused in part, and what in full."""
        for line, errors in ((REDUCED, result.reduced), (REFUSED, result.refused)):
            for name, error in islice(errors.items(), 1):
                count = self._since.pop(line, 0) + len(errors)
                if self._is_due(f"{line} {summary_of(error)}"):
                    logger.error(line, name, count, error)
                else:
                    self._since[line] = count

    def _is_due(self, what: str) -> bool:
        now = time.monotonic()
        if now < self._logged_at.get(what, float("-inf")) + REPEAT_SECONDS:
            return False
        self._logged_at[what] = now
        self._logged_at.move_to_end(what)
        if len(self._logged_at) > MAX_ERRORS:
            self._logged_at.popitem(last=False)
        return True
