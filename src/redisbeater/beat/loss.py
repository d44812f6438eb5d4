"""Notice that the schedule is lost: Redis was emptied, restarted without its data, or has evicted entries."""

from __future__ import annotations

import time

from redisbeater.beat.leadership import ScheduleLog
from redisbeater.context import Context
from redisbeater.entry_name import is_name
from redisbeater.exceptions import StoreError, StoreUnavailable
from redisbeater.log_lines import event, get_logger
from redisbeater.model.beat_line import name_of
from redisbeater.model.incident import SCHEDULE_LOST
from redisbeater.sending.counts import Counts
from redisbeater.signals import incident_closed, incident_opened
from redisbeater.store import Claim
from redisbeater.store.incidents import Outcome, Seen

logger = get_logger(__name__)

#: Seconds between two looks.
PERIOD_SECONDS = 5.0


class Loss:
    """Remembers the identity of the schedule and how many entries it had, and opens an incident when both are gone.

    A beat that stands by looks as well: the one that leads may be the first to fail with Redis. What a process has not
    seen, it cannot miss: a loss while no beat was running, or an older copy of the same schedule.

    Arguments:
        context: the app whose schedule it is.
        log: gets a line when an incident opens or closes.
        token: names this beat.
        counts: counts what it opens.
    """

    #: It is one request, and never goes on in the next pass.
    is_behind = False

    def __init__(self, context: Context, log: ScheduleLog, token: str, counts: Counts) -> None:
        self._redis, self._counts = context.redis, counts
        self._log = log
        self._beat = name_of(token)
        self._before = Seen("", 0)
        self._look_at = float("-inf")
        self._has_refused = False

    def step(self, *, leads: bool = True) -> None:
        """Look if it is time. A beat that leads also closes the incident when there are as many entries again."""
        if time.monotonic() >= self._look_at:
            self.look(leads=leads)

    def look(self, *, leads: bool) -> None:
        """Compare the schedule with what it was at the last look; what Redis refuses is logged once.

        Raises:
            StoreUnavailable: Redis cannot be reached; what was remembered stays.
        """
        self._look_at = time.monotonic() + PERIOD_SECONDS
        try:
            self._compare(leads=leads)
            self._has_refused = False
        except StoreUnavailable:
            raise
        except StoreError as exc:
            self._refused(exc)

    def _compare(self, *, leads: bool) -> None:
        seen, before = self._redis.incidents.seen(), self._before
        if seen is None:
            return
        if before.identity and seen.identity != before.identity and seen.entries < before.entries:
            self._report(self._redis.incidents.open_other_identity(before, self._beat))
            seen = seen._replace(current=True)
        self._before = seen
        if leads and seen.current:
            self._report(self._redis.incidents.close_if_over())

    def claimed(self, claim: Claim) -> None:
        """Open an incident if entries of a claim have no hash, and the server evicts keys.

        Where it does not, somebody has deleted the hash.
        """
        members = [member for member in claim.removed if is_name(self._redis.keys.name(member))]
        if not members:
            return
        try:
            if (self._redis.eviction_policy() or "").startswith("allkeys"):
                before = self._before._replace(identity=claim.schedule_id)
                self._report(self._redis.incidents.open_evicted(before, members, self._beat))
        except StoreUnavailable:
            raise
        except StoreError as exc:
            self._refused(exc)

    def _report(self, outcome: Outcome) -> None:
        """Log what this beat has written; of several beats that have seen it, one has."""
        word, incident_id, entries, left = outcome
        of = {"incident_id": incident_id, "kind": SCHEDULE_LOST, "entry": ""}
        if word == "OPENED":
            logger.error(
                "the schedule is lost: %d entries were in Redis, %d are left; restore them from a backup, "
                "or: celery -A proj redisbeater incidents acknowledge %s",
                entries,
                left,
                incident_id,
                extra=event("incident_opened", **of),
            )
            self._counts.count_incident(SCHEDULE_LOST)
            self._log.add("incident_opened", id=incident_id, kind=SCHEDULE_LOST, entries=entries, left=left)
            incident_opened.send(self._redis.keys.prefix, **of)
        elif word == "CLOSED":
            logger.info(
                "incident %s is over: there are %d entries again",
                incident_id,
                left,
                extra=event("incident_closed", **of),
            )
            self._log.add("incident_closed", id=incident_id, kind=SCHEDULE_LOST, entries=left)
            incident_closed.send(self._redis.keys.prefix, **of)

    def _refused(self, error: StoreError) -> None:
        """Log once that Redis refuses what this needs; beat does its other work."""
        if not self._has_refused:
            self._has_refused = True
            logger.error("Redis refuses to record that the schedule is lost, trying again: %s", error)
