"""Write changes to Redis by compare and set: read the entries, apply the changes, write those that nobody else changed.

An entry that another program changed in between is not written but read again, and the change is applied to what is
stored by then. So no change of another program is overwritten unseen, and a write that is repeated because its reply
was lost finds that it has been done.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from redisbeater.clock import Backoff
from redisbeater.context import Context
from redisbeater.display import quoted, text_of
from redisbeater.editing.changes import EntryChange, Upsert
from redisbeater.editing.edit import Author, Edit, announce, announce_edits, check_tracking, log_edit
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import EditConflict, InvalidEntry, RedisBeaterError, StoreError
from redisbeater.log_lines import event, get_logger
from redisbeater.model.meta import file_owner
from redisbeater.model.policies import OnFinish
from redisbeater.model.reader import tracked_fields
from redisbeater.schedules.calendar import versions_text
from redisbeater.schedules.kind import FIRST_FORMAT
from redisbeater.schedules.kinds import ScheduleCodec, kind_of
from redisbeater.schedules.window import FIELDS
from redisbeater.schedules.zones import SAME_RULES, PlannedBy, zone_name
from redisbeater.store import KEEP_DELETED, Snapshot, this_program

logger = get_logger(__name__)


_COMES_BACK = "beat would store a static entry again when it starts"

#: Give up after this many conflicts in a row: another program keeps writing the entry.
ATTEMPTS = 20


@dataclass(kw_only=True)
class WriteResult:
    """The outcome of a page of changes, each by the name of its entry.

    Attributes:
        pending: changes that are still to be written.
        written: the edits that were written.
        unchanged: the edits of entries that are stored like that already, and were not written.
        failures: why a change could not be written.
    """

    pending: dict[str, EntryChange]
    written: dict[str, Edit] = field(default_factory=dict)
    unchanged: dict[str, Edit] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)

    def fail(self, name: str, failure: Exception) -> None:
        """Record that the change of an entry is given up."""
        self.failures[name] = failure
        del self.pending[name]


def write(context: Context, change: EntryChange) -> StoredEntry:
    """Write one change, and return the entry as it is stored then.

    Raises:
        EntryNotFound, EntryExists, InvalidEntry: the change cannot be applied; nothing was written.
        EditConflict: other programs kept changing the entry; nothing was written.
        StoreUnavailable, StoreError: Redis failed; the change may have been written, writing it again is harmless.
    """
    return write_edit(context, change).to_stored_entry()


def write_edit(context: Context, change: EntryChange) -> Edit:
    """Write one change, and return what it did to the entry; raise what :func:`write` raises."""
    result = write_page(context, [change], edits=_expected(context, change))
    for failure in result.failures.values():
        raise failure
    edit = result.written[change.name]
    log_edit(edit, lambda: edit.to_stored_entry().due_at(context.in_zone(edit.snapshot.zone).defaults))
    return edit


def _expected(context: Context, change: EntryChange) -> list[Edit]:
    """Return the edit that creates an entry, if it is to be expected that there is none of that name; else nothing."""
    snapshot = context.redis.expected(change.name) if isinstance(change, Upsert) else None
    if snapshot is None:
        return []
    try:
        return [applied(change, snapshot, context)]
    except (RedisBeaterError, OverflowError):  # what is stored decides
        return []


def preview(context: Context, change: EntryChange) -> StoredEntry:
    """Return the entry as :func:`write` would store it; write nothing.

    Raises:
        EntryNotFound, EntryExists, InvalidEntry: the change cannot be applied.
    """
    return preview_edit(context, change).to_stored_entry()


def preview_edit(context: Context, change: EntryChange) -> Edit:
    """Return the edit that :func:`write_edit` would write; raise what :func:`preview` raises."""
    return applied(change, context.redis.load(change.name), context)


def applied(change: EntryChange, snapshot: Snapshot, context: Context, codec: ScheduleCodec | None = None) -> Edit:
    """Return the edit that a change makes of a snapshot, if beat can read the result; write nothing.

    ``codec`` reads the stored schedule. For many entries it may share equal schedules, which nobody must change then.

    Raises:
        EntryNotFound, EntryExists, InvalidEntry: the change cannot be applied.
    """
    try:
        defaults = context.in_zone(snapshot.zone).defaults
        edit = change.apply(snapshot, defaults, codec or context.codec)
        if (names := edit.definition.calendars) and not edit.calendars:
            edit = replace(edit, calendars=versions_text(names, defaults.calendars))
    except OverflowError as exc:
        raise InvalidEntry("$.schedule", f"its next fire time is out of range: {text_of(exc)}") from exc
    most = context.config.max_entry_size
    if edit.size > most:
        problem = f"takes {edit.size} bytes, more than redisbeater_max_entry_size = {most}: pass less, or a reference"
        raise InvalidEntry("$", problem)
    if edit.definition.on_finish is OnFinish.DELETE and (edit.origin or snapshot.origin):
        origin = edit.origin or snapshot.origin
        who = "apply would create an entry of a file again" if file_owner(origin) else _COMES_BACK
        raise InvalidEntry("$.on_finish", f"{who}; use 'keep' or 'disable'")
    if not context.config.track_runs and (fields := tracked_fields(edit.definition)):
        check_tracking(edit, fields)
    return edit


def write_page(
    context: Context, changes: Iterable[EntryChange], *, only_differing: bool = False, edits: Sequence[Edit] = ()
) -> WriteResult:
    """Write the changes of at most ``SAVE_PAGE`` different entries; one that fails does not hold up the others.

    With ``only_differing``, an entry that is stored like that already is not written, and beat is not notified of it.
    ``edits`` are what some of the changes make of entries that were read before, or of those that are to be expected;
    they are tried first, without reading these entries again.

    Raises:
        StoreUnavailable, StoreError: Redis failed; some of the changes may have been written, writing them again is
            harmless.
    """
    result = WriteResult(pending={change.name: change for change in changes})
    backoff = Backoff(first=0.002, limit=0.1)
    _write(context, edits, result)
    for attempt in range(ATTEMPTS):
        if not result.pending:
            return result
        if attempt:
            time.sleep(backoff.failed())
        edits = _apply_pending(context, result)
        _write(context, _differing(edits, result) if only_differing else edits, result)
    for name in list(result.pending):
        result.fail(name, _conflict(name))
    return result


def _apply_pending(context: Context, result: WriteResult) -> list[Edit]:
    edits = []
    codec = context.reader.codec if len(result.pending) > 1 else None
    for snapshot in context.redis.load_many(list(result.pending)):
        try:
            edits.append(applied(result.pending[snapshot.name], snapshot, context, codec))
        except (RedisBeaterError, OverflowError) as exc:  # only its own entry may suffer
            result.fail(snapshot.name, exc)
    return edits


def _differing(edits: Iterable[Edit], result: WriteResult) -> list[Edit]:
    """Return the edits that change what is stored; record the others as unchanged."""
    differing = []
    for edit in edits:
        if edit.changes_nothing:
            result.unchanged[edit.snapshot.name] = edit
            del result.pending[edit.snapshot.name]
        else:
            differing.append(edit)
    return differing


def _write(context: Context, edits: Sequence[Edit], result: WriteResult) -> None:
    """Write edits; those of entries that another program changed in between stay pending."""
    edits = _readable(context, edits, result)
    if not edits:
        return
    records_zone = any(edit.definition.follows_app_zone for edit in edits if not edit.snapshot.zone)
    zone, is_beat = (zone_name(context.zone) if records_zone else ""), any(edit.is_replanned for edit in edits)
    planned_by = PlannedBy(edits[0].snapshot.now.year, this_program(), zone or "", is_beat=is_beat)
    changes = [edit.change_by(planned_by, context.in_zone(edit.snapshot.zone).zone) for edit in edits]
    refused = context.redis.save(changes, planned_by=planned_by.text)
    warn_of_rules(refused.pop("", ""), [change.name for change in changes])
    for edit in edits:
        name = edit.snapshot.name
        if name not in refused:
            result.written[name] = edit
            del result.pending[name]
        elif refused[name] == "NOT_OURS":
            result.fail(name, context.redis.not_ours(name))
        elif refused[name] == "FOREIGN":
            result.fail(name, StoreError(f"WRONGTYPE: the key of {quoted(name)} holds something other than an entry"))
    announce_edits(edit for edit in edits if edit.snapshot.name not in refused)


def _readable(context: Context, edits: Sequence[Edit], result: WriteResult) -> Sequence[Edit]:
    """Return the edits whose new schedules the beats of this schedule can read; the others fail."""
    new = {edit.snapshot.name: edit for edit in edits if _needed_format(edit) > FIRST_FORMAT}
    problem = context.redis.refusal_of_format(max(map(_needed_format, new.values()))) if new else ""
    if not problem:
        return edits
    for name, edit in new.items():
        is_set = (field for field in FIELDS if getattr(edit.definition, field) is not None)
        result.fail(name, InvalidEntry(f"$.{next(is_set, 'schedule')}", problem))
    return [edit for edit in edits if edit.snapshot.name not in new]


def _needed_format(edit: Edit) -> int:
    """Return the version of the stored data that a new kind of schedule needs; the first if it is no new one."""
    needed, before = kind_of(edit.definition.schedule).format, edit.before
    return needed if before is None or kind_of(before.schedule).format < needed else FIRST_FORMAT


def warn_of_rules(zones: str, names: Sequence[str]) -> None:
    """Log that the rules of some zones on this host are not those of the beat that leads, if there are any."""
    if zones:
        entries = f"entry {names[0]!r}" if len(names) == 1 else f"{len(names)} entries"
        logger.warning(
            "%s: this host has other rules of %s than the beat that leads, which plans again by its own; %s",
            entries,
            zones,
            SAME_RULES,
        )


def _conflict(name: str) -> EditConflict:
    return EditConflict(
        f"other programs changed {quoted(name)} {ATTEMPTS} times while this change was applied; it was not written"
    )


#: What happens to a static entry that is deleted, and what to do instead.
COMES_BACK = "it is static, and the next beat that leads stores it again: disable it, or remove it from the code"


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A deletion that happened; a static entry is stored again as long as the code declares it."""

    is_static: bool


def delete_entry(context: Context, name: str, author: Author) -> Deletion | None:
    """Delete an entry, and log it. Return None if there is none of that name.

    Of a static entry its counters and its next fire time are kept for a week: it loses no run when it comes back.

    Raises:
        InvalidEntry: no entry can have that name.
    """
    return delete_entries(context, [name], author).get(name)


def delete_entries(context: Context, names: Sequence[str], author: Author) -> dict[str, Deletion]:
    """Delete entries as :func:`delete_entry` does. Return those that there were."""
    outcomes = context.redis.delete_many(dict.fromkeys(names, ""), log=author.line("deleted"), kept=KEEP_DELETED)
    for name, outcome in outcomes.items():
        extra = event("entry_changed", name=name, change="deleted", fields=[], by=author.by, renamed_from="")
        if outcome == "STATIC":
            logger.info("entry %r deleted; " + COMES_BACK, name, extra=extra)
        else:
            logger.info("entry %r deleted", name, extra=extra)
    announce(outcomes, "deleted", by=author.by)
    return {name: Deletion(is_static=outcome == "STATIC") for name, outcome in outcomes.items()}
