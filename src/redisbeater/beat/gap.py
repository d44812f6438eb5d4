"""Notice that no beat has claimed for a while: the log of the schedule says so, and after minutes it is an incident."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from redisbeater.beat.leadership import ScheduleLog
from redisbeater.context import Context
from redisbeater.health.status import beats_of
from redisbeater.model.beat_line import name_of
from redisbeater.model.incident import GAP
from redisbeater.model.incident_rules import Opening, Promises, Sign, Terms, decide
from redisbeater.times import duration_words

#: Why there was a gap.
NO_BEAT, NO_REDIS = "no beat was running", "Redis was away, or refused what beat writes"

#: Seconds between two claims that say so.
PERIOD_SECONDS = 5.0

#: How many lines of the schedule's log tell whether another beat has led.
LINES = 200


class Gap:
    """Compares each claim with the one before it, whichever beat made that.

    Arguments:
        context: the app whose schedule it is.
        log: gets a line about a gap.
        token: names this beat.
        is_away: whether Redis did not answer until now.
        opens: opens an incident.
    """

    def __init__(
        self,
        context: Context,
        log: ScheduleLog,
        token: str,
        *,
        is_away: Callable[[], bool],
        opens: Callable[[Opening], None],
        terms: Terms,
    ) -> None:
        self._redis = context.redis
        self._log, self._token = log, token
        self._is_away, self._opens, self._terms = is_away, opens, terms
        self._due_at = 0.0

    def is_due(self) -> bool:
        """Return whether the next claim is to store that this beat claims, whatever its other requests say of it."""
        now = time.monotonic()
        if now < self._due_at:
            return False
        self._due_at = now + PERIOD_SECONDS
        return True

    def observe(self, before: datetime, now: datetime) -> None:
        """Record that a beat claimed ``before``, and this one ``now``."""
        if now - before <= self._terms.told or self._was_led(before, now):
            return
        why = NO_REDIS if self._is_away() else NO_BEAT
        self._log.add("gap", seconds=(now - before).total_seconds(), why=why)
        sign = Sign(kind=GAP, entry="", since=before, why=why, facts={"length": duration_words(now - before)})
        found = decide(sign, Promises(), self._terms, now)
        if isinstance(found, Opening):
            self._opens(found)

    def _was_led(self, start: datetime, end: datetime) -> bool:
        """Return whether another beat has led meanwhile, of a version that does not say when it claims."""
        others = (beat for beat in beats_of(self._redis.beats.lines()) if beat.token != self._token)
        if any(beat.leads and beat.last_pass - start > self._terms.told for beat in others):
            return True
        own, lines = name_of(self._token), self._redis.log.of_schedule(LINES)
        return any(
            line.what == "leading" and line.overlaps(start, end) and line.details.get("beat") != own for line in lines
        )
