"""Look at what is wrong with a schedule, and write from when to when: each incident begins once, and ends once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from redisbeater.beat.gap import Gap
from redisbeater.beat.leadership import ScheduleLog
from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.stored_entry import stored_meta
from redisbeater.exceptions import InvalidEntry, StoreError, StoreUnavailable
from redisbeater.log_lines import event, get_logger
from redisbeater.model.definition import Definition
from redisbeater.model.incident import BROKEN, FAILED, LATE, OVERDUE, WAITING
from redisbeater.model.incident_rules import LOOK_AGAIN, Opening, Promises, Sign, Terms, decide, healed
from redisbeater.model.policies import OnFinish
from redisbeater.model.resolved_policy import ResolvedPolicy, policy_value
from redisbeater.model.run import read_count
from redisbeater.sending.counts import Counts
from redisbeater.signals import incident_closed, incident_opened
from redisbeater.store import Snapshot, pages
from redisbeater.store.incidents import CHANGED, Ended, Ongoing, Outcome, Place

logger = get_logger(__name__)

#: Seconds between two looks, and how long one goes on in a pass: the entries that are due wait for it.
PERIOD_SECONDS, STEP_SECONDS = 5.0, 0.02

#: Runs that have ended badly are looked at once more for so long: workers report some of them late.
OVERLAP = timedelta(seconds=60)

#: Seconds between two walks that forget what has ended a while ago.
CLEAR_SECONDS = 60.0

#: How many things that are no incident yet are remembered.
MOST_SETTLED = 20_000

#: How many incidents of one look get lines of their own in the log.
LOGGED = 3

#: The kinds that follow from records of runs.
OF_RUNS = (FAILED, WAITING, OVERDUE)


class IncidentWatch:
    """Compares what the scripts list as wrong with the incidents that are open, and opens and closes them.

    A look that takes long goes on in the next pass. Each fact is checked again where it is written, so that several
    beats write each incident once, and the one that has written it says so.

    Arguments:
        context: the app whose schedule it is.
        log: gets a line when an incident of the schedule begins or ends.
        token: names this beat.
        counts: counts what it opens.
        broker_away: for how many seconds the broker has been unavailable.
        is_away: whether Redis did not answer until now.
        max_interval: seconds between two claims on an idle schedule.
        terms: from when on something is an incident.
    """

    def __init__(
        self,
        context: Context,
        log: ScheduleLog,
        token: str,
        counts: Counts,
        *,
        broker_away: Callable[[], float],
        is_away: Callable[[], bool],
        max_interval: float = 0.0,
        terms: Terms | None = None,
    ) -> None:
        self._context, self._log, self._counts, self._broker_away = context, log, counts, broker_away
        self._incidents = context.redis.incidents
        self._terms = (terms or Terms()).with_claims_each(max_interval)
        self.gap = Gap(context, log, token, is_away=is_away, opens=self._open_now, terms=self._terms)
        self._look_at = self._clear_at = float("-inf")
        #: The look that goes on in the next pass; each of its parts says whether more is to be written now.
        self._look: Iterator[bool] | None = None
        self._looked_at: datetime | None = None
        #: Runs that ended badly and are told of, until no look sees them any more.
        self._told = dict[str, datetime]()
        #: What is no incident yet: what it was, and when to look at it again.
        self._settled = dict[tuple[str, str], tuple[object, datetime]]()
        self._tracks_runs = context.config.track_runs
        self._knows_workers = False
        self._logged = 0
        self._has_refused = False
        #: Whether a look goes on in the next pass, and has found something to write.
        self.is_behind = False

    def passed(self, before: datetime | None, now: datetime) -> None:
        """Record that a beat claimed before, and this one now: what happened since then is looked at."""
        self._looked_at = self._looked_at or before or now
        if before is not None:
            self._guarded(lambda: self.gap.observe(before, now))

    def step(self) -> None:
        """Look if it is time, or go on with a look.

        Raises:
            StoreUnavailable: Redis cannot be reached.
        """
        if self._look is None and time.monotonic() < self._look_at:
            return
        self._guarded(self._go_on)

    def _guarded(self, act: Callable[[], None]) -> None:
        """Do a part of a look; what Redis refuses is logged once, and the pass goes on."""
        try:
            act()
        except StoreError as exc:
            self._end()
            if isinstance(exc, StoreUnavailable):
                raise
            if not self._has_refused:
                self._has_refused = True
                logger.error("Redis refuses to record incidents, trying again: %s", exc)

    def _go_on(self) -> None:
        """Do parts of a look until its time in this pass is over."""
        deadline = time.monotonic() + STEP_SECONDS
        self._look = self._look or self._parts_of_look()
        for has_more in self._look:
            self.is_behind = has_more
            if time.monotonic() >= deadline:
                return
        self._end()
        self._has_refused = False

    def _end(self) -> None:
        """End a look; the next one follows after a while."""
        self._look, self.is_behind = None, False
        self._look_at = time.monotonic() + PERIOD_SECONDS

    def _parts_of_look(self) -> Iterator[bool]:
        """Do a look in small parts; yield after each whether more is to be written now."""
        since = None if self._looked_at is None else self._looked_at - OVERLAP
        self._told = {run: at for run, at in self._told.items() if since is None or at >= since}
        self._logged = 0
        ended, began = list[Ended](), None
        place: Place | None = Place()
        while place is not None:
            found = self._incidents.look(place, since, self._terms)
            place, began = found.next, began or found.now
            ended += found.ended
            yield from self._open_new(found.signs, found.now)
            yield from self._close_over(found.ongoing, found.now)
            yield False
        yield from self._tell_of(ended)
        self._looked_at = began
        if time.monotonic() >= self._clear_at:
            yield from self._clear()
        if self._logged > LOGGED:
            others = self._logged - LOGGED
            logger.warning("%d more incidents began or ended; celery -A proj redisbeater incidents lists them", others)

    def _clear(self) -> Iterator[bool]:
        self._clear_at, cursor = time.monotonic() + CLEAR_SECONDS, self._incidents.clear("0")
        while cursor != "0":
            yield False
            cursor = self._incidents.clear(cursor)

    # Open

    def _open_new(self, found: Iterable[Sign], now: datetime) -> Iterator[bool]:
        """Open the incidents that signs are."""
        signs = [sign for sign in self._wanted(found) if self._is_unsettled(sign.kind, sign.entry, _fact(sign), now)]
        for page in pages(signs, CHANGED):
            promises = self._promises({sign.entry for sign in page if sign.entry and sign.kind != BROKEN})
            openings = list[Opening]()
            for sign in page:
                promised = promises.get(sign.entry, self._of_schedule)
                decision = decide(sign, promised, self._terms, now)
                if isinstance(decision, Opening):
                    openings.append(replace(decision, told=promised.told))
                    self._settle(sign.kind, sign.entry, _fact(sign), now + _AGAIN)
                else:
                    self._settle(sign.kind, sign.entry, _fact(sign), decision.until)
                    if sign.kind == OVERDUE and promises[sign.entry].finish_within is None:
                        self._incidents.forget_promises([sign.entry])
            self._open(openings)
            yield True

    def _wanted(self, signs: Iterable[Sign]) -> Iterator[Sign]:
        """Yield the signs that count; while no worker has ever reported, all runs that wait are one of the schedule."""
        for sign in signs:
            if sign.kind == LATE and self._broker_away():
                yield replace(sign, why=", the broker is unavailable")
            elif sign.kind == WAITING and self._tracks_runs and not self._has_reports():
                yield replace(sign, entry="")
            elif sign.kind not in OF_RUNS or self._tracks_runs:
                yield sign

    def _has_reports(self) -> bool:
        self._knows_workers = self._knows_workers or self._context.redis.runs.has_reported()
        return self._knows_workers

    def _open(self, openings: Sequence[Opening]) -> None:
        for opening, outcome in zip(openings, self._incidents.open(openings)):
            if outcome.word in ("OPENED", "RECORDED"):
                self._counts.count_incident(opening.kind)
                self._report_opened(opening, outcome)
            if outcome.word == "RECORDED":
                self._report_closed(opening.kind, opening.entry, outcome)

    def _open_now(self, opening: Opening) -> None:
        self._open([replace(opening, told=self._of_schedule.told)])

    # Close

    def _close_over(self, ongoing: Sequence[Ongoing], now: datetime) -> Iterator[bool]:
        """Close the incidents that are over, or whose entries a person has disabled."""
        over = [each for each in ongoing if each.is_over]
        dormant = [each for each in ongoing if not each.is_over and self._is_unsettled(*_name_of(each), "", now)]
        promises = self._promises({each.entry for each in dormant})
        for each in dormant:
            if promises[each.entry].is_disabled:
                over.append(each)
            else:
                self._settle(*_name_of(each), "", now + LOOK_AGAIN)
        for page in pages(over, CHANGED):
            for each, outcome in zip(page, self._incidents.close(page)):
                if outcome.word == "CLOSED":
                    self._report_closed(each.kind, each.entry, outcome)
            yield True

    # What began and ended between two looks, and what still goes on

    def _tell_of(self, ended: Sequence[Ended]) -> Iterator[bool]:
        """Record the newest bad ends of entries whose incidents are open, and what has ended well since the last look.

        What is listed as failed is an incident, or will be one at the next look.
        """
        by_entry = dict[str, list[Ended]]()
        for each in ended:
            if each.run.run not in self._told and (each.is_open or not each.is_listed):
                by_entry.setdefault(each.entry, []).append(each)
        for page in pages(list(by_entry.items()), CHANGED):
            newest = {name: max(found, key=_end_of).run for name, found in page if found[-1].is_open}
            over = {name: sorted(found, key=_end_of, reverse=True) for name, found in page if not found[-1].is_open}
            outcomes = self._incidents.touch(newest)
            written = {name for name, outcome in zip(newest, outcomes) if outcome.word != "MISSING"}
            self._record(over)
            self._told.update((each.run.run, each.run.at) for name, each in _all(page) if name in written | over.keys())
            yield True

    def _record(self, over: Mapping[str, Sequence[Ended]]) -> None:
        """Record incidents that began and ended since the last look."""
        promises = self._promises(over)
        signs = (
            Sign(
                kind=FAILED,
                entry=name,
                since=found[-1].run.at,
                ends=found[0].ends,
                runs=tuple(each.run for each in found),
            )
            for name, found in over.items()
        )
        found = ((healed(sign, promises[sign.entry]), promises[sign.entry].told) for sign in signs)
        self._open([replace(opening, told=told) for opening, told in found if opening is not None])

    # What entries promise

    def _promises(self, names: Iterable[str]) -> dict[str, Promises]:
        """Return the promises of entries by name; of those that are gone, or cannot be read, those of the settings."""
        redis = self._context.redis
        snapshots = [
            each if each.exists else redis.deleted.load(each.name, each.now, each.zone) or each
            for each in redis.load_many(sorted(names))
        ]
        return {each.name: self._promises_of(each) for each in snapshots}

    def _promises_of(self, snapshot: Snapshot) -> Promises:
        context = self._context.in_zone(snapshot.zone)
        try:
            definition, policy = context.reader.read(snapshot.name, snapshot.definition)
        except InvalidEntry:
            return self._of_schedule
        within = (policy_value(definition, context.defaults, name) for name in ("start_within", "finish_within"))
        start_within, finish_within = (None if each is None else timedelta(seconds=each) for each in within)
        return Promises(
            max_failures=policy_value(definition, context.defaults, "max_failures"),
            start_within=start_within,
            finish_within=finish_within,
            is_disabled=not definition.enabled and not _was_disabled_by_beat(snapshot, definition, policy),
            told=self._context.config.told(definition.notify),
        )

    @property
    def _of_schedule(self) -> Promises:
        """What the settings promise."""
        defaults = self._context.defaults
        start_within = None if defaults.start_within is None else timedelta(seconds=defaults.start_within)
        told = self._context.config.told()
        return Promises(max_failures=defaults.max_failures, start_within=start_within, told=told)

    # What is no incident yet

    def _is_unsettled(self, kind: str, entry: str, fact: object, now: datetime) -> bool:
        known = self._settled.get((kind, entry))
        return known is None or known[0] != fact or known[1] <= now

    def _settle(self, kind: str, entry: str, fact: object, until: datetime) -> None:
        """Remember that there is nothing to do about a fact until a time."""
        if len(self._settled) >= MOST_SETTLED:
            self._settled.clear()
        self._settled[kind, entry] = fact, until

    # What is said

    def _report_opened(self, opening: Opening, outcome: Outcome) -> None:
        of = {"incident_id": outcome.id, "kind": opening.kind, "entry": opening.entry}
        self._logged += 1
        if self._logged <= LOGGED:
            logger.warning(
                "incident %s: %s%s: %s",
                outcome.id,
                opening.kind,
                f" {quoted(opening.entry)}" if opening.entry else "",
                opening.why or opening.kind,
                extra=event("incident_opened", **of),
            )
        if not opening.entry:
            self._log.add("incident_opened", id=outcome.id, kind=opening.kind, why=opening.why)
        incident_opened.send(self._context.redis.keys.prefix, **of)

    def _report_closed(self, kind: str, entry: str, outcome: Outcome) -> None:
        of = {"incident_id": outcome.id, "kind": kind, "entry": entry}
        self._logged += 1
        if self._logged <= LOGGED:
            name = f" {quoted(entry)}" if entry else ""
            logger.info("incident %s is over: %s%s", outcome.id, kind, name, extra=event("incident_closed", **of))
        if not entry:
            self._log.add("incident_closed", id=outcome.id, kind=kind)
        incident_closed.send(self._context.redis.keys.prefix, **of)


#: What could not be written is tried again so soon.
_AGAIN = timedelta(seconds=4)


def _fact(sign: Sign) -> object:
    """Return the facts by which a sign is known to be the same as before."""
    return sign.since, sign.ends


def _name_of(ongoing: Ongoing) -> tuple[str, str]:
    """Return under which name it is remembered that an incident goes on although its entry is not to run."""
    return f"open {ongoing.kind}", ongoing.entry


def _end_of(ended: Ended) -> datetime:
    return ended.run.at


def _all(page: Iterable[tuple[str, Sequence[Ended]]]) -> Iterator[tuple[str, Ended]]:
    return ((name, each) for name, found in page for each in found)


def _was_disabled_by_beat(snapshot: Snapshot, definition: Definition, policy: ResolvedPolicy) -> bool:
    """Return whether beat has disabled an entry itself: it failed too often, or has finished."""
    most = definition.disable_after_failures
    if most is not None and read_count(snapshot.failures) >= most:
        return True
    if definition.on_finish is not OnFinish.DISABLE:
        return False
    try:
        meta = stored_meta(snapshot)
        return policy.is_spent(meta.total_run_count) or policy.timetable.next(meta.last_run_at or snapshot.now) is None
    except (InvalidEntry, OverflowError):
        return False
