"""The changes of an entry, as values: each computes an :class:`Edit` from what is stored, without I/O or a clock.

A change can be applied again and again: when another program changed the entry in between, the same change is applied
to what is stored by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, Protocol

from redisbeater.display import quoted, shown
from redisbeater.editing.edit import Author, Edit
from redisbeater.editing.rescheduling import score_after_edit, score_of_executed, score_of_new
from redisbeater.editing.stored_entry import StoredEntry, stored_definition, stored_meta
from redisbeater.exceptions import EditConflict, EntryExists, InvalidEntry, WrongType
from redisbeater.model import json_text
from redisbeater.model.definition import Definition, has_same_form
from redisbeater.model.fields import MOST_SKIPPED
from redisbeater.model.meta import NEW, Meta, Score
from redisbeater.model.options import OptionRules, check_expiry
from redisbeater.model.passed_values import checked_instant
from redisbeater.model.plan import Plan, plan
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason
from redisbeater.schedules.cron_steps import refuse_steps_above_range, steps_of
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.zones import in_zone
from redisbeater.store import Snapshot
from redisbeater.store.snapshot import version_of


class EntryChange(Protocol):
    """A change of one entry, as a value."""

    @property
    def name(self) -> str:
        """The name of the entry."""

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored."""


@dataclass(frozen=True, kw_only=True)
class Upsert:
    """Create an entry, or give a stored one this definition.

    The next fire time moves only when the schedule or its zone changed; the counters of an entry that exists stay.

    Attributes:
        text: the stored form of the definition.
        initial_meta: the meta that the entry gets if it is new.
        origin: for a static entry, its application and the digest of its declaration.
        only_new: refuse to change an entry that exists.
        has_run_elsewhere: whether another scheduler runs it as it is, so that it is not asked what its author means.
        author: who makes the change, for the entry's log; None: the log says nothing about it.
        logs_creation: whether the log of a new entry says that it was created.
    """

    definition: Definition
    text: str
    initial_meta: Meta
    origin: str = ""
    only_new: bool = False
    has_run_elsewhere: bool = False
    author: Author | None = None
    logs_creation: bool = True

    @property
    def name(self) -> str:
        """The name of the entry."""
        return self.definition.name

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            InvalidEntry: the entry never fires, its runs have expired, or its new schedule has a step above its range.
            EntryExists: the entry is stored, and only a new one was to be created.
        """
        if not snapshot.exists:
            self._check_schedule(None, codec)
            return self._created(snapshot, defaults)
        if self.only_new:
            raise EntryExists(snapshot.name)
        return self._merged(snapshot, defaults, codec)

    def _created(self, snapshot: Snapshot, defaults: Defaults) -> Edit:
        check_expiry(self.definition.options, snapshot.now)
        return Edit(
            snapshot=snapshot,
            definition=self.definition,
            text=self.text,
            meta=self.initial_meta,
            score=score_of_new(self.definition, self.initial_meta, snapshot.now, defaults),
            writes_meta=bool(snapshot.meta) or self.initial_meta != NEW,  # an entry that never ran needs no meta
            origin=self.origin,
            author=self.author if self.logs_creation else None,
        )

    def _merged(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Replace the definition; keep the counters, and stored fields that this version does not know."""
        before = self.definition if snapshot.definition == self.text else _readable_definition(snapshot, codec)
        self._check_schedule(before, codec)
        after, text = self.definition, self.text
        if before is not None and before.extra:
            after = after._replace(extra={**before.extra, **after.extra})
            text = after.to_text(codec)
        dropped = _skips_to_drop(before, after, codec)
        if dropped:
            after = after._replace(skip=())
            text = after.to_text(codec)
        stored_meta = _readable_meta(snapshot)
        meta = stored_meta or self.initial_meta
        return Edit(
            snapshot=snapshot,
            definition=after,
            text=text,
            meta=meta,
            score=score_after_edit(before, after, meta, snapshot, defaults, codec),
            writes_meta=stored_meta is None,
            origin=self.origin,
            author=self.author,
            dropped_skips=dropped,
        )

    def _check_schedule(self, before: Definition | None, codec: ScheduleCodec) -> None:
        if not self.has_run_elsewhere:
            _check_schedule(before, self.definition, codec)


@dataclass(frozen=True, kw_only=True)
class FieldChange:
    """Change some fields of an entry's definition; the others stay as they are stored.

    Without any field, an entry that is missing from the schedule gets a score again. An ``origin`` makes it a static
    entry of an application.

    Attributes:
        options: options of the task to change one by one; None removes one. The others stay as they are.
        option_rules: what checks changed options.
        if_version: change only this version of the entry; None: any.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    author: Author | None = None
    option_rules: OptionRules | None = None
    origin: str = ""
    if_version: str | None = None

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            EditConflict: it has another version.
            InvalidEntry: the stored entry is broken, a field cannot be stored, or the entry would never fire.
        """
        before = stored_definition(snapshot, codec)
        if self.if_version not in (None, version_of(snapshot.definition)):
            raise _conflict(snapshot, str(self.if_version))
        fields, meta = self.fields_for(before), stored_meta(snapshot)
        after = before.changed(self.option_rules, **fields)
        if "schedule" in fields:
            _check_schedule(before, after, codec)
        if "options" in fields:
            after = after.with_instants(defaults.zone)
            check_expiry(after.options, snapshot.now)
        dropped = _skips_to_drop(before, after, codec)
        if dropped:
            after = after._replace(skip=())
        return Edit(
            snapshot=snapshot,
            definition=after,
            text=after.to_text(codec),
            meta=meta,
            score=score_after_edit(before, after, meta, snapshot, defaults, codec),
            author=self.author,
            origin=self.origin,
            dropped_skips=dropped,
            before=before,
        )

    def fields_for(self, before: Definition) -> Mapping[str, Any]:
        """Return the fields that are changed, with the options that are changed one by one."""
        options = self.fields.get("options", before.options)
        if not self.options or not isinstance(options, Mapping):
            return self.fields
        merged = {**options, **self.options}
        return {**self.fields, "options": {name: value for name, value in merged.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class Reschedule:
    """Let an entry count from a run at ``last_run_at``, now by default; its run count stays.

    A naive time is in the entry's zone.
    """

    name: str
    last_run_at: datetime | None = None
    author: Author | None = None

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, or the time is none.
        """
        definition = stored_definition(snapshot, codec)
        ran_at = _instant(self.last_run_at, "$.last_run_at", definition, snapshot, defaults)
        meta = stored_meta(snapshot)._replace(last_run_at=ran_at)
        score = score_of_new(definition, meta, snapshot.now, defaults)
        return replace(_edit_of_meta(snapshot, definition, meta, score), author=self.author)


@dataclass(frozen=True, kw_only=True)
class ReportExecution:
    """Record that the task of an entry was executed at ``executed_at``, now by default; an interval counts from there.

    A time after now counts as now; one before the last run changes nothing. A naive time is in the entry's
    zone.
    """

    name: str
    executed_at: datetime | None = None
    author: Author | None = None

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, or the time is none.
        """
        definition, meta = stored_definition(snapshot, codec), stored_meta(snapshot)
        ran_at = min(_instant(self.executed_at, "$.at", definition, snapshot, defaults), snapshot.now)
        if meta.last_run_at is not None and ran_at <= meta.last_run_at:
            return Edit(snapshot=snapshot, definition=definition, text=snapshot.definition, meta=meta)
        meta = meta._replace(last_run_at=ran_at)
        score = score_of_executed(definition, meta, snapshot, defaults)
        return replace(_edit_of_meta(snapshot, definition, meta, score), author=self.author)


def _check_schedule(before: Definition | None, after: Definition, codec: ScheduleCodec) -> None:
    """Refuse a new schedule that means something else than it says; a stored one goes on.

    Raises:
        InvalidEntry: a field has a step above its range.
    """
    is_odd = any(step.is_above_range for step in steps_of(after.schedule))
    if is_odd and (before is None or not has_same_form(before.schedule, after.schedule, codec)):
        refuse_steps_above_range(after.schedule)


def _skips_to_drop(before: Definition | None, after: Definition, codec: ScheduleCodec) -> int:
    """Return how many fire times in ``skip`` an edit makes meaningless by moving the fire times."""
    if before is None or not after.skip or after.skip != before.skip or after.has_same_fire_times_as(before, codec):
        return 0
    return len(after.skip)


def _conflict(snapshot: Snapshot, expected: str) -> EditConflict:
    found = version_of(snapshot.definition)
    text = f"{quoted(snapshot.name)} has version {found}, not {shown(expected)}: read it again, then change that"
    return EditConflict(text, expected=expected, found=found)


def _readable_definition(snapshot: Snapshot, codec: ScheduleCodec) -> Definition | None:
    try:
        return stored_definition(snapshot, codec)
    except InvalidEntry:
        return None


def _readable_meta(snapshot: Snapshot) -> Meta | None:
    try:
        return stored_meta(snapshot)
    except InvalidEntry:
        return None


def _edit_of_meta(snapshot: Snapshot, definition: Definition, meta: Meta, score: Score | None) -> Edit:
    """Return the edit that stores a new meta with its score, and leaves the definition as it is."""
    return Edit(
        snapshot=snapshot,
        definition=definition,
        text=snapshot.definition,
        meta=meta,
        score=score,
        writes_meta=True,
    )


def _instant(
    moment: datetime | None, path: str, definition: Definition, snapshot: Snapshot, defaults: Defaults
) -> datetime:
    return snapshot.now if moment is None else checked_instant(moment, definition.zone(defaults.zone), path)


@dataclass(frozen=True, kw_only=True)
class PlannedUpsert(Upsert):
    """Write a definition if the stored one is still that from which it was planned.

    Attributes:
        base: the stored definition that was read; empty: there was none.
        score: of a backup, the score to restore with ``initial_meta`` and ``skipped``; None: the edit decides.
    """

    base: str
    score: Score | None = None
    skipped: str = ""

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EditConflict: another program has changed, created or deleted the entry since.
            InvalidEntry: the entry never fires, or its runs have expired.
        """
        if snapshot.definition != self.base:
            raise EditConflict(f"{quoted(self.name)} was changed since the plan was made; it was not written")
        if self.score is None:
            return super().apply(snapshot, defaults, codec)
        return Edit(
            snapshot=snapshot,
            definition=self.definition,
            text=self.text,
            meta=self.initial_meta,
            score=self.score,
            writes_meta=True,
            origin=self.origin,
            author=self.author,
            skipped=self.skipped,
        )


#: Until when an entry is disabled: a time, how long from now on, or what a text means in the zone of the entry.
Until = datetime | timedelta | Callable[[tzinfo], datetime]

#: Why a change of many leaves an entry as it was.
FOR_LONGER = "disabled for longer"


@dataclass(frozen=True, kw_only=True)
class DisableUntil:
    """Disable an entry until a time, or for a time from now on; it is enabled then without any further change.

    A naive time is in the entry's zone.

    Attributes:
        keeps_longer: leave an entry as it is that is disabled for good or for longer.
    """

    name: str
    until: Until
    author: Author
    keeps_longer: bool = False

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, the time has passed, or the entry has no fire time from then on.
        """
        until = self._instant(snapshot, defaults, codec)
        if until <= snapshot.now:
            raise InvalidEntry("$.disabled_until", f"expected a time to come, got {until.isoformat()}")
        if self.keeps_longer:
            before = stored_definition(snapshot, codec)
            end = before.disabled_until and in_zone(before.disabled_until, before.zone(defaults.zone))
            if not before.enabled or (end and end > until):
                meta, text = stored_meta(snapshot), snapshot.definition
                return Edit(snapshot=snapshot, definition=before, text=text, meta=meta, before=before, left=FOR_LONGER)
        fields = {"enabled": True, "disabled_until": until}
        return FieldChange(name=self.name, fields=fields, author=self.author).apply(snapshot, defaults, codec)

    def _instant(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> datetime:
        try:
            if isinstance(self.until, timedelta):
                return snapshot.now + self.until
        except OverflowError:
            raise InvalidEntry("$.disabled_until", f"{quoted(self.until)} is out of range") from None
        zone = stored_definition(snapshot, codec).zone(defaults.zone)
        until = self.until(zone) if callable(self.until) else self.until
        if not isinstance(until, datetime):
            raise WrongType("$.disabled_until", f"expected a datetime or a timedelta, got {quoted(until)}")
        return checked_instant(until, zone, "$.disabled_until")


@dataclass(frozen=True, kw_only=True)
class SkipNext:
    """Leave out the fire times of the next ``count`` runs of an entry; or none of those to come.

    If the entry is claimed, its run may be on its way, and does not count as the next one.
    """

    name: str
    count: int
    author: Author
    undo: bool = False

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, has no fire time to leave out, or has left out too many.
        """
        stored = StoredEntry.from_snapshot(snapshot, codec)
        policy = ResolvedPolicy.of(stored.definition, defaults).afresh()
        owed = stored.now if stored.score.fire_time is None else min(stored.score.fire_time, stored.now)
        kept = [moment for moment in stored.definition.skip if moment >= owed]
        if self.undo and not kept:
            raise InvalidEntry("$.skip", "no fire time to come is left out")
        skip = [] if self.undo else [*kept, *self._next(stored, policy, snapshot.is_claimed)]
        if len(skip) > MOST_SKIPPED:
            problem = f"would have {len(skip)} fire times or more; at most {MOST_SKIPPED} can be left out"
            raise InvalidEntry("$.skip", f"{problem}; disable the entry until a time instead")
        change = FieldChange(name=self.name, fields={"skip": skip}, author=self.author)
        return change.apply(snapshot, defaults, codec)

    def _next(self, stored: StoredEntry, policy: ResolvedPolicy, is_claimed: bool) -> list[datetime]:
        runs = list(islice(_runs(stored, policy, is_claimed), self.count))
        if not runs:
            raise InvalidEntry("$.skip", "the entry has no next fire time: it is disabled, or has finished")
        return [fire_time for run in runs for fire_time in run]


def _runs(stored: StoredEntry, policy: ResolvedPolicy, is_claimed: bool) -> Iterator[list[datetime]]:
    """Yield the fire times of each run to come; one run may stand for several fire times that have passed."""
    following = stored.fire_time(policy)
    if following is not None and following <= stored.now:
        planned = plan(policy, following, stored.now, run_count=stored.meta.total_run_count)
        if not is_claimed or following != stored.score.fire_time:
            yield from _represented(planned, policy)
        following = planned.next.fire_time
    yield from ([fire_time] for fire_time in policy.kept_from(following))


def _represented(planned: Plan, policy: ResolvedPolicy) -> Iterator[list[datetime]]:
    """Yield the fire times of each run of a plan, including those that ``coalesce`` skips in favour of that run."""
    coalesced = [skip for skip in planned.skipped if skip.reason is Reason.COALESCED]
    if not planned.runs or not coalesced:
        yield from ([run] for run in planned.runs)
        return
    first, last = min(planned.runs[0], coalesced[0].first), max(planned.runs[-1], coalesced[-1].last)
    represented = policy.timetable.newest_of(MOST_SKIPPED + 1, first, last)
    yield [fire_time for fire_time in represented if fire_time not in policy.skip]


@dataclass(frozen=True, kw_only=True)
class Switch:
    """Enable or disable an entry, from now on and without an end.

    A :class:`FieldChange` of the two fields stores the same; this one does not write the whole definition again.
    """

    name: str
    is_enabled: bool
    author: Author | None = None

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, or would never run.
        """
        before = stored_definition(snapshot, codec, has_any_name=not self.is_enabled)
        meta = stored_meta(snapshot)
        after = before._replace(enabled=self.is_enabled, disabled_until=None)
        changed = [name for name in ("disabled_until", "enabled") if getattr(before, name) != getattr(after, name)]
        return Edit(
            snapshot=snapshot,
            definition=after,
            text=self._switched_text(snapshot.definition) if changed else snapshot.definition,
            meta=meta,
            score=score_after_edit(before, after, meta, snapshot, defaults, codec),
            author=self.author,
            known_changes=changed,
            before=before,
        )

    def _switched_text(self, before: str) -> str:
        data = json_text.from_text(before, "$")
        data["enabled"] = self.is_enabled
        data.pop("disabled_until", None)
        return json_text.to_text(data)
