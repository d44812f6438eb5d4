"""``ZoneChange``: plans fire times again when entries inherit another zone, or when the rules of a zone are others."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from redisbeater.beat.replanning import LOOK_SECONDS, PAGE_ENTRIES, SLICE_SECONDS, ListedPage, Replanning
from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.edit import Edit
from redisbeater.editing.rescheduling import Before, Replan
from redisbeater.entry_name import is_unreserved
from redisbeater.exceptions import InvalidEntry
from redisbeater.log_lines import get_logger
from redisbeater.schedules.zones import SAME_RULES, ZoneRules, read_zone, rules_of, zone_name
from redisbeater.store import Claim, ClaimedEntry, this_program
from redisbeater.store.contents import Place
from redisbeater.store.keys import SEVERAL
from redisbeater.store.records import AGAIN, LISTED
from redisbeater.times import duration_words

logger = get_logger(__name__)

#: How long one step goes on while nothing is sent until the last one is done.
STEP_SECONDS = 0.2

#: When a leader asks again whether it may change the zone to that of its application, and compares rules of zones.
RETRY_SECONDS = 3600.0

#: When a standby compares its rules with those of the leader.
STANDBY_SECONDS = 60.0

#: How many entries of each change get lines of their own in the log; one line at its end has the number of all.
LOGGED_ENTRIES = 20


@dataclass(kw_only=True)
class StoredRules:
    """The rules of zones as they are stored: those of most entries, and by zone and mark those of others."""

    rules: dict[str, ZoneRules] = field(default_factory=dict)
    marked: dict[tuple[str, str], ZoneRules] = field(default_factory=dict)
    is_listed: bool = False
    is_again: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> StoredRules:
        """Read the fields of the key; what another program has put there is left out."""
        found = cls(is_listed=LISTED in fields, is_again=AGAIN in fields)
        for name, text in fields.items():
            zone, _, mark = name.partition(" ")
            if (rules := ZoneRules.from_text(text)) is None or _zone_of(zone) is None:
                continue
            if mark:
                found.marked[zone, mark] = rules
            else:
                found.rules[zone] = rules
        return found

    def others(self, own: Mapping[str, ZoneRules]) -> list[str]:
        """Return the zones of which some entries were planned by other rules than these."""
        pairs = [*self.rules.items(), *((zone, rules) for (zone, _), rules in self.marked.items())]
        return sorted({zone for zone, rules in pairs if zone in self.rules and not own[zone].agrees_with(rules)})


class ZoneChange:
    """The zone by which entries without their own are planned, and the rules of all zones by which entries are planned.

    The zone is the application's, unless it has just been changed. It is recorded first, with the zone before it, so
    that all programs plan by it from then on; then the pending fire times are planned again, one page of entries after
    the other, and no beat claims any entry until that is done.

    The rules are those of this host. Those by which entries were planned are stored, and replaced last. Until then an
    entry of a zone whose rules are others is not sent before it was planned again; all others are.

    Where no beat has looked at all entries yet, the rules of their zones are recorded. That moves none of them, and
    waits until no run is due.

    A leader that finds a change unfinished starts over: planning an entry twice is the same as planning it once.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wanted = zone_name(context.zone) or ""
        self._zone = self._wanted
        self._beat = this_program()
        self._before = Before(zone=self._wanted, codec=context.codec)
        self._stored = StoredRules()
        #: The entries that are planned again; None: there is no change.
        self._change: Replanning | None = None
        #: On which zones all entries depend.
        self._zones: set[str] = set()
        #: Whether this pass had runs, and until when a look that moves no entry waits for a pass that has none.
        self._is_busy, self._waits_until = False, 0.0
        self._holds_all = False
        self._retry_at = self._compare_at = float("inf")
        self._look_at = 0.0
        self._replanned = 0
        #: Of the entries of each zone whose rules have changed, by how much their next runs were moved.
        self._moves: dict[str, list[timedelta]] = {}
        self._edited: dict[str, None] = {}
        #: Whether this beat has led before, and whether another program has put something else where rules are stored.
        self._has_compared = self._is_foreign = False
        #: The zones in which a standby has other rules than the beat that leads.
        self.other_rules: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether entries may be claimed, and it is not time to ask for another zone."""
        if time.monotonic() >= self._retry_at:
            return False
        change = self._change
        return change is None or not (self._holds_all or (bool(self._before.rules) and change.is_unsure))

    @property
    def is_behind(self) -> bool:
        """Whether there are entries to be planned again now."""
        return self._change is not None and self._change.is_behind

    def begin(self) -> None:
        """Record the zone of the application, if that is allowed; after a change :meth:`step` plans entries again."""
        self._change, self._retry_at, self._holds_all = None, float("inf"), False
        word, self._zone, before = self._context.redis.adopt_zone(self._wanted)
        if self._zone != self._wanted:
            self._report_conflict(before)
        if word in ("CHANGED", "UNFINISHED"):
            self._holds_all = self._check_zone(before)
        self._compare(before if self._holds_all else self._zone)

    def step(self) -> None:
        """Plan entries again for a moment, if that is to be done; compare the rules if it is time."""
        if self._change is None:
            if time.monotonic() >= self._retry_at:
                self.begin()
            elif time.monotonic() >= self._compare_at:
                self._compare(self._zone)
            elif self._edited:
                self._look_at_edited()
        change = self._change
        if change is None or not (change.is_behind or self._holds_all):
            return
        if not change.is_listed:  # not in begin(): static entries are restored only after that
            change.list_claimed(lists_names=bool(self._before.rules))
            self._replanned = 0
        if self._waits():
            return
        change.step(STEP_SECONDS if self._holds_all else SLICE_SECONDS)
        if change.has_planned_all:
            self._finish(change)

    def note(self, messages: Iterable[str]) -> None:
        """Record what other programs have changed; it may have been planned by other rules."""
        for name in messages:
            if name != SEVERAL and not is_unreserved(name):
                continue
            if self._change is not None and name != SEVERAL:
                self._change.add(name)
            else:
                self._edited[name if len(self._edited) < PAGE_ENTRIES else SEVERAL] = None

    def without_held(self, claim: Claim) -> Claim:
        """Release the entries of a claim that are still to be planned by the rules of now; return it without them."""
        self._is_busy = bool(claim.entries)
        if self._change is None or not self._change.names or not self._before.rules:
            return claim
        return self._change.without_held(claim, self._may_move)

    def compare_as_standby(self) -> None:
        """Compare the rules of this host with those by which the leader plans, once a minute; log if they differ."""
        if time.monotonic() < self._look_at and self._change is None:
            return
        self._change, self._look_at = None, time.monotonic() + STANDBY_SECONDS
        stored = StoredRules.of(self._context.redis.zone_rules.read() or {})
        own = self._own(stored.rules)
        others = tuple(zone for zone in own if not own[zone].agrees_with(stored.rules[zone]))
        if others and others != self.other_rules:
            self._report_rules(others, stored.rules[others[0]].beat)
        self.other_rules = others

    def _check_zone(self, before: str) -> bool:
        """Return whether entries were planned by another zone; what is none moves no fire time."""
        if _zone_of(before) is None:
            key = self._context.redis.keys.zone
            logger.error(
                "%s held %r, which is no time zone, and holds %s now; no fire time is moved", key, before, self._zone
            )
            self._context.redis.finish_zone_change()
            return False
        logger.warning(
            "time zone changed from %s to %s; planning entries without their own again, sending none until then",
            before,
            self._zone,
        )
        return True

    # Compare

    def _compare(self, before: str) -> None:
        """Compare the rules of this host with the stored ones; begin a change if some are others."""
        redis = self._context.redis.zone_rules
        self._compare_at, self.other_rules = time.monotonic() + RETRY_SECONDS, ()
        self._edited, self._look_at = {}, 0.0
        fields = redis.read()
        stored = self._stored = StoredRules.of(fields or {})
        own = self._own((*stored.rules, self._zone))
        self._check_data(own)
        moved = stored.others(own)
        taken = [zone for zone in moved if stored.rules[zone].beat != self._beat]
        if taken and self._has_compared:
            self._report_rules(taken, stored.rules[taken[0]].beat)
        self._has_compared, self._is_foreign = True, fields is None
        if moved or stored.marked or stored.is_again:
            redis.begin({f"{zone} {own[zone].id}": own[zone].text for zone in moved})
        if moved or self._holds_all or not (stored.is_listed or self._is_foreign):
            self._prepare(before, moved, own, [], is_partial=False)
        elif not self._is_foreign and (stored.marked or self._texts(own) != self._texts(stored.rules)):
            self._adopt(own)

    def _look_at_edited(self) -> None:
        """Plan entries again that other programs have just planned by other rules."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        edited, self._edited = self._edited, {}
        redis = self._context.redis.zone_rules
        stored = self._stored = StoredRules.of(redis.read() or {})
        own = self._own(stored.rules)
        if not (moved := stored.others(own)):
            return
        is_partial = not (SEVERAL in edited and stored.is_again)
        redis.begin({})
        names = [name for name in edited if is_partial and name != SEVERAL]
        if names or not is_partial:
            self._prepare(self._zone, moved, own, names, is_partial=is_partial)

    def _own(self, zones: Iterable[str]) -> dict[str, ZoneRules]:
        """Return the rules of zones by the data of this host."""
        year = datetime.now(timezone.utc).year
        found = {name: _zone_of(name) for name in zones if name not in ("", "UTC")}
        return {name: replace(rules_of(zone, year), beat=self._beat) for name, zone in found.items() if zone}

    def _check_data(self, own: Mapping[str, ZoneRules]) -> None:
        """Log which zones have other rules on the disk by now: a process reads each zone once."""
        year, changed = datetime.now(timezone.utc).year, []
        with suppress(KeyError, OSError, ValueError):  # a package that is being replaced
            changed = [zone for zone in own if rules_of.__wrapped__(ZoneInfo.no_cache(zone), year) != own[zone]]
        if changed:
            logger.warning("the zone data of this host has other rules of %s now: restart beat", ", ".join(changed))

    def _adopt(self, own: Mapping[str, ZoneRules]) -> bool:
        """Record that all entries are planned by the rules of this host; return whether that is so."""
        stored = self._stored
        dropped = {*stored.marked, *((zone, rules.id) for zone, rules in own.items())}
        names = [" ".join(pair) for pair in dropped]
        return self._context.redis.zone_rules.finish(self._texts(own), names, new=own.keys() - stored.rules.keys())

    @staticmethod
    def _texts(rules: Mapping[str, ZoneRules]) -> dict[str, str]:
        return {zone: each.text for zone, each in rules.items()}

    # Plan again

    def _prepare(
        self, before: str, moved: list[str], own: Mapping[str, ZoneRules], names: list[str], *, is_partial: bool
    ) -> None:
        stored = self._stored
        self._before = Before(
            zone=before,
            codec=self._context.codec,
            rules={zone: stored.rules[zone] for zone in moved},
            marked=stored.marked,
            now={zone: rules.id for zone, rules in own.items()},
            inherits_other=self._holds_all,
        )
        self._change = Replanning(
            self._context,
            list_page=self._list_page,
            change=self._replan,
            log=self._log,
            claimed=self._before.claimed,
            names=names,
            is_partial=is_partial,
            waits_for_commit=not self._holds_all,
        )
        self._waits_until = time.monotonic() + LOOK_SECONDS
        self._zones, self._replanned = set(), 0
        self._moves = {zone: [] for zone in moved}

    def _list_page(self, place: Place | None) -> ListedPage:
        changed = set(self._before.rules)
        if self._holds_all or self._zone in changed:
            changed.add("")
        page = self._context.redis.contents.zoned(place, changed, self._context.config.max_entry_size)
        self._zones |= page.zones
        return page.following, page.scores

    def _waits(self) -> bool:
        """Tell whether a look that moves no entry is left to a pass without runs; one a second has it in any case."""
        is_busy, self._is_busy = self._is_busy, False
        if is_busy and not (self._holds_all or self._before.rules) and time.monotonic() < self._waits_until:
            return True
        self._waits_until = time.monotonic() + LOOK_SECONDS
        return False

    def _replan(self, name: str) -> Replan:
        return Replan(name=name, before=self._before, decoder=self._context.reader.codec, beat=self._beat)

    def _may_move(self, entry: ClaimedEntry) -> bool:
        context = self._context.in_zone(self._zone)
        try:
            definition, _ = context.reader.read(entry.name, entry.definition)
        except InvalidEntry:  # it is quarantined
            return False
        return bool(self._before.moved(definition, context.zone))

    def _finish(self, change: Replanning) -> None:
        """Record that all is planned by the zone and the rules of now, unless others have planned by theirs."""
        self._change = None
        if self._holds_all:
            self._context.redis.finish_zone_change()
            logger.info(
                "time zone is %s now; planned %d of %d entries again", self._zone, self._replanned, change.entries
            )
        self._holds_all = False
        for zone, moves in self._moves.items():
            if moved := [each for each in moves if each]:
                words = f"the next run of {len(moved):,} moved by {duration_words(max(moved))}"
                logger.warning("rules of %s changed: %d entries planned again, %s", zone, len(moves), words)
            elif not change.is_partial:
                logger.warning("rules of %s changed: %d entries planned again, none moved", zone, len(moves))
        if change.is_partial or self._is_foreign:  # other programs may have planned more; a full walk finds that
            return
        if not self._adopt(self._own({*self._stored.rules, *self._zones, *self._before.zones, self._zone})):
            self._compare(self._zone)

    def _log(self, written: Mapping[str, Edit]) -> None:
        for name, edit in written.items():
            before, after = (score and score.fire_time for score in (edit.snapshot.score, edit.score))
            for zone in self._before.moved(edit.definition, self._context.in_zone(self._zone).zone):
                moved = abs(after - before) if edit.score and after and before else timedelta(0)
                self._moves[zone].append(moved)
            if edit.score is None:
                continue
            self._replanned += 1
            if self._replanned <= LOGGED_ENTRIES:
                what = "rules of its zone" if edit.is_replanned else "time zone"
                logger.info(
                    "entry %r: planned at %s by the new %s, was %s",
                    name,
                    after and after.isoformat(),
                    what,
                    before and before.isoformat(),
                )

    def _report_rules(self, zones: Iterable[str], other: str) -> None:
        logger.error(
            "zone-rules-differ: this beat, %s, has other rules of %s than %s; whichever leads plans by its own; %s",
            self._beat,
            ", ".join(zones),
            shown(other) or "the beat that led",
            SAME_RULES,
        )

    def _report_conflict(self, before: str) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if not before:  # another program's key is in the way, which is logged with the command that deletes it
            logger.error(
                "time zone %s of this application is not used: the schedule stays in %s", self._wanted, self._zone
            )
            return
        logger.error(
            "time zone %s of this application is not used: the schedule was changed from %s to %s within an hour; "
            "use one timezone in all of them, or redis-cli DEL %s and restart beat",
            self._wanted,
            before,
            self._zone,
            self._context.redis.keys.zone_before,
        )


def _zone_of(name: str) -> tzinfo | None:
    """Return the zone of a name that another program may have written; None if there is none."""
    try:
        return read_zone(name, "timezone")
    except InvalidEntry:
        return None
