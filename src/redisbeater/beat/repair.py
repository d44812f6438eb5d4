"""Repair what other programs and evictions have done to the keys of a schedule, and log it."""

from __future__ import annotations

import shlex
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence

from redisbeater.context import Context
from redisbeater.display import SHOWN_CHARACTERS, first_of, shown, text_of
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write_page
from redisbeater.entry import declared_entries
from redisbeater.entry_name import is_name
from redisbeater.exceptions import EntryNotFound, ImproperlyConfigured, RedisBeaterError
from redisbeater.log_lines import event, get_logger
from redisbeater.model.policies import EvictionCheck
from redisbeater.signals import entry_broken
from redisbeater.store import Claim, Unscheduled
from redisbeater.store.keys import Keys
from redisbeater.store.schedule import RedisSchedule

logger = get_logger(__name__)


def report_members(claim: Claim, keys: Keys) -> None:
    """Log what a claim has removed, and report what it has quarantined: entries whose names no entry can have."""
    names = [keys.name(member) for member in claim.removed]
    missing = [name for name in names if is_name(name)]
    others = [name for name in names if not is_name(name)]
    if len(missing) == 1:
        logger.warning("entry %r has no hash, removed it from the schedule", missing[0])
    elif missing:
        logger.warning("%d entries have no hash, removed them from the schedule: %s", len(missing), first_of(missing))
    if others:
        logger.warning("removed %d members from the schedule that no entry can have: %s", len(others), first_of(others))
    for number, (name, reason) in enumerate(claim.misnamed.items()):
        if number < LOGGED_ENTRIES:
            extra = event("entry_broken", name=name, reason=reason)
            logger.error("entry %r is broken, quarantined it: %s", name[:SHOWN_CHARACTERS], reason, extra=extra)
        entry_broken.send(name, name=name, reason=reason)
    if len(claim.misnamed) > LOGGED_ENTRIES:
        logger.error(
            "%d entries are broken, quarantined them; celery -A proj redisbeater broken lists all, the first are: %s",
            len(claim.misnamed),
            first_of(list(claim.misnamed)),
        )


def check_eviction(schedule: RedisSchedule, check: EvictionCheck) -> None:
    """Log or raise when the server may evict entries; a policy that evicts only keys with a time to live is fine.

    Raises:
        ImproperlyConfigured: the server may evict entries, and ``check`` is to raise.
    """
    policy = None if check is EvictionCheck.IGNORE else schedule.eviction_policy()
    if policy is None or not policy.startswith("allkeys"):
        return
    problem = f"Redis evicts any key when its memory is full (maxmemory-policy {policy}), the schedule too"
    if check is EvictionCheck.RAISE:
        raise ImproperlyConfigured(f"{problem}; set maxmemory-policy noeviction")
    report = logger.error if check is EvictionCheck.ERROR else logger.warning
    report("%s; set maxmemory-policy noeviction, or redisbeater_key_expiry_check = 'ignore'", problem)


class ForeignKeys:
    """Reports keys that hold another type than beat writes, once for each type found.

    Beat leaves such a key as it is, and works without it if it can.
    """

    def __init__(self, redis: RedisSchedule) -> None:
        self._redis = redis
        self._reported: dict[str, str] = {}
        keys = redis.keys
        self._effects = {
            keys.schedule: "no entry runs",
            keys.id: "task ids come from a stand-in",
            keys.broken: "broken entries are logged but not listed",
            keys.zone: "entries without a zone of their own follow the timezone of each program's application",
            keys.zone_before: "the zone of the schedule cannot be changed, nor a change of it be finished",
            keys.zone_rules: "nothing is planned again when the rules of a zone change",
            keys.calendars: "there are no calendars, and entries that name one are broken",
            keys.failing: "failing entries are not listed, and not counted as late",
            keys.log: "what happens to the schedule is not recorded",
            keys.beats: "status and health do not see the beats",
            keys.pause: "the schedule is not paused",
            keys.statics: "static entries that the code no longer declares stay",
            keys.active: "runs are not seen as active: overlap has no effect, and none is found lost",
            keys.resend: "runs that were lost or buffered are not sent",
            keys.waiting: "runs that wait for a worker are not listed",
            keys.failed: "entries of which the last run failed are not listed",
            keys.unstable: "entries of which runs fail again and again are not listed",
            keys.failures: "the newest failures are not listed",
            keys.minutes: "the ends of the last six hours are not counted",
            keys.hours: "the ends of the last seven days are not counted",
            keys.workers: "workers are seen only while they execute runs",
            keys.totals: "runs are not counted by task",
            keys.incidents: "incidents are not listed",
            keys.current: "it is not recorded when the schedule is lost",
            keys.delays: "delays are not sent",
            keys.delay_messages: "delays are not sent",
            keys.failing_delays: "delays are not sent",
            keys.open_incidents: "open incidents are not listed, nor told of",
            keys.promises: "no finish_within is watched",
            keys.notices: "nobody is told of incidents",
            keys.told: "nobody is told of incidents",
            keys.passed: "it is not noticed when no beat has run for a while",
            keys.releases: "releases are not listed",
            keys.seen: "the web page shows the incidents of a day as new",
        }

    def check(self) -> None:
        """Log which keys hold another type than beat writes, unless that was logged before."""
        found = self._redis.foreign_types()
        for key, kind in found.items():
            if self._reported.get(key) != kind:
                logger.error(
                    "%s holds a %s, which beat did not write, so %s; if nobody needs it: %s DEL %s",
                    key,
                    kind,
                    self._effects[key],
                    self._redis.command_line,
                    shlex.quote(key),
                )
        self._reported = found

    def check_identity(self, identity: str) -> None:
        """Log the identity of the schedule if another program wrote it; task ids are computed from it all the same."""
        try:
            uuid.UUID(identity)
        except ValueError:
            key = self._redis.keys.id
            logger.warning("%s holds %r, which beat did not write; task ids are computed from it", key, identity)


#: How long after the start of one walk the next one starts: an entry is missing for little more than that.
PERIOD_SECONDS = 60.0

#: How long one step goes on: the entries that are due wait for it.
STEP_SECONDS = 0.05

#: The most entries that are restored in one page, and the most bytes of their definitions.
PAGE_ENTRIES, PAGE_BYTES = 50, 1_000_000

#: How many entries of each walk get lines of their own in the log; one line at its end has the number of the others.
LOGGED_ENTRIES = 3


class Repair:
    """Walks through all entries, a page with each step, and restores those that are missing from the schedule.

    Our own scripts never leave an entry out; a program that writes the hash and not the member does, and so does a
    server that evicts the schedule. A restored entry counts from its last run, and may be overdue.

    Arguments:
        foreign_keys: checks at the start of each walk what other programs have overwritten.
    """

    #: A walk takes the time between the claims: what is missing is found within a minute.
    is_behind = False

    def __init__(self, context: Context, foreign_keys: ForeignKeys | None = None) -> None:
        self._context = context
        self._foreign_keys = foreign_keys or ForeignKeys(context.redis)
        self._cursor, self._list_cursor = "0", "0"
        self._lists = deque(context.redis.keys.corrected)
        self._found: deque[Unscheduled] = deque()
        self._started_at = float("-inf")
        self._restored: list[str] = []
        self._broken: list[str] = []
        #: Stores the static entries of the app; called at the start of a walk if some are lost.
        self.store_statics: Callable[[], None] | None = None
        #: How many entries were restored.
        self.repaired = 0

    @property
    def is_done(self) -> bool:
        """Whether the walk has reached its end."""
        return self._cursor == "0" and not self._found

    def begin(self) -> None:
        """Start over with the next step."""
        self._cursor, self._started_at = "0", float("-inf")
        self._found.clear()

    def step(self) -> None:
        """Repair what one page of keys holds, or as much of it as the time allows, if it is time."""
        if self.is_done:
            if time.monotonic() < self._started_at + PERIOD_SECONDS:
                return
            self._started_at = time.monotonic()
            self._foreign_keys.check()
            if self.store_statics is not None:
                self._store_lost(self.store_statics)
            self._correct_lists()
        deadline = time.monotonic() + STEP_SECONDS
        if not self._found:
            self._cursor, unscheduled = self._context.redis.contents.unscheduled(self._cursor)
            self._found.extend(unscheduled)
        while self._found and time.monotonic() < deadline:
            self._restore(self._next_page())
        if self.is_done:
            self._log_others()

    def _store_lost(self, store_statics: Callable[[], None]) -> None:
        """Store the static entries if some that the app declares are gone though nobody deleted them; log which.

        A server that evicts keys leaves that, or another program. What
        :func:`~redisbeater.editing.compare_and_set.delete_entry` deletes is no static entry any more, and comes back
        when a beat begins to lead.
        """
        redis, declared = self._context.redis, declared_entries(self._context.app)
        names = sorted(redis.contents.statics() & set(map(str, declared)))
        gone = {name for name, origin in redis.contents.origins(names).items() if origin is None}
        # What could not be stored is listed as broken. Ask for that only where one is gone: this is done each minute.
        lost = sorted(gone - redis.broken.declarations().keys()) if gone else []
        if lost:
            logger.warning(
                "%d static entries are gone and nobody deleted them, storing them again: %s", len(lost), first_of(lost)
            )
            store_statics()

    def _correct_lists(self) -> None:
        """Correct what is listed as wrong, as far as the time of a step allows; the next walk goes on with it."""
        deadline = time.monotonic() + STEP_SECONDS
        for _ in range(len(self._lists)):
            while True:
                self._list_cursor = self._context.redis.contents.correct(self._lists[0], self._list_cursor)
                if self._list_cursor == "0":
                    break
                if time.monotonic() >= deadline:
                    return
            self._lists.rotate()

    def _next_page(self) -> list[Unscheduled]:
        page: list[Unscheduled] = []
        size = 0
        while self._found and len(page) < PAGE_ENTRIES and size < PAGE_BYTES:
            page.append(self._found.popleft())
            size += page[-1].size
        return page

    def _restore(self, page: Sequence[Unscheduled]) -> None:
        """Restore entries. One that cannot be restored is listed as broken, whatever its schedule raised."""
        result = write_page(self._context, [FieldChange(name=entry.name) for entry in page])
        for name in result.written:
            self.repaired += 1
            self._restored.append(name)
            if len(self._restored) <= LOGGED_ENTRIES:
                logger.warning("entry %r was missing from the schedule; restored (%d so far)", name, self.repaired)
        failures = {name: exc for name, exc in result.failures.items() if not isinstance(exc, EntryNotFound)}
        listed = {entry.name for entry in page if entry.is_listed}
        self._report({name: _reason(exc) for name, exc in failures.items() if name not in listed})

    def _report(self, reasons: dict[str, str]) -> None:
        for name, reason in reasons.items():
            self._broken.append(name)
            if len(self._broken) <= LOGGED_ENTRIES:
                logger.error("entry %r is missing from the schedule and cannot be restored: %s", name, reason)
        self._context.redis.broken.report_all(reasons)
        for name, reason in reasons.items():
            entry_broken.send(name, name=name, reason=shown(reason))

    def _log_others(self) -> None:
        """Log at the end of a walk how many entries it found that got no lines of their own."""
        restored, broken = self._restored[LOGGED_ENTRIES:], self._broken[LOGGED_ENTRIES:]
        self._restored, self._broken = [], []
        if restored:
            logger.warning(
                "%d more entries were missing from the schedule; restored: %s", len(restored), first_of(restored)
            )
        if broken:
            logger.error("%d more entries are missing and cannot be restored: %s", len(broken), first_of(broken))


def _reason(failure: Exception) -> str:
    return str(failure) if isinstance(failure, RedisBeaterError) else f"$: {type(failure).__name__}: {text_of(failure)}"
