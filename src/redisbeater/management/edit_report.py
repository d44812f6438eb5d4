"""``EditReport``: what an edit changes, or would change; and drafts of entries that are not written."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from redisbeater.context import Context
from redisbeater.display import json_form, printable_json, quoted, shown
from redisbeater.editing.changes import EntryChange, FieldChange, SkipNext, Upsert
from redisbeater.editing.compare_and_set import preview, preview_edit, write_edit
from redisbeater.editing.edit import Author, Edit
from redisbeater.editing.stored_entry import StoredEntry, stored_definition
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.exceptions import InvalidEntry, RedisBeaterError, WrongType
from redisbeater.management.blanking import redacted_line
from redisbeater.management.long_read import long_read
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import EntryChanges, shown_value
from redisbeater.model.log_line import LogLine
from redisbeater.redaction import redacted_field
from redisbeater.schedules.kinds import describe_in_brief
from redisbeater.schedules.limited import flattened
from redisbeater.store import pages
from redisbeater.store.snapshot import version_of
from redisbeater.times import EPOCH, FAR_FUTURE

if TYPE_CHECKING:  # Python has it from 3.11 on; type checkers bring it along
    from typing_extensions import Unpack

#: Entries of which one step reads the logs, and lines of each log where they are more than one step.
PIECE, MOST_LINES = 250, 50

#: How long logs are read; where there is no time for all, the answer says so.
MOST_SECONDS = 2.0

#: Characters of a value before or after a change that are shown.
MOST_VALUE = 80


@dataclass(frozen=True, kw_only=True)
class EditReport:
    """What an edit changed, or would change.

    Attributes:
        entry: the entry after the edit.
        changed: each changed field -> its values before and after as JSON has them, None: it was or is not set; of a
            schedule its words, and ``none`` for a grace without an end. An argument or option by name has an item of
            its own, such as ``kwargs.pages``.
        next_before, next_after: when the entry was, and is, next due, aware UTC; None: it is not.
    """

    entry: RedisScheduleEntry
    changed: Mapping[str, tuple[Any, Any]]
    next_before: datetime | None
    next_after: datetime | None
    #: The entry before and after, as :func:`redisbeater.management.moved.moved_by` takes them.
    _pair: tuple[StoredEntry | None, StoredEntry | None] = field(default=(None, None), repr=False, compare=False)

    @classmethod
    def of(cls, edit: Edit, context: Context) -> EditReport:
        """Return the report on an edit of an entry."""
        context = context.in_zone(edit.snapshot.zone)
        after, patterns = edit.to_stored_entry(), context.config.redact
        entry = RedisScheduleEntry._of(after, context)
        before = None
        with suppress(RedisBeaterError):  # a new entry, or one that could not be read
            before = StoredEntry.from_snapshot(edit.snapshot, context.codec, edit.before)
        return cls(
            entry=entry,
            changed={
                field: (redacted_field(field, was, patterns), redacted_field(field, is_, patterns))
                for field, was, is_ in _changes(edit, before, after)
            },
            next_before=None if before is None else before.due_at(context.defaults),
            next_after=entry.due_at,
            _pair=(before, after),
        )

    @property
    def pair(self) -> tuple[StoredEntry | None, StoredEntry | None]:
        """The entry before and after, as it is stored, or None where it was not, or could not be read."""
        return self._pair

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return json_form(
            {"name": self.entry.name, "changed": self.changed, "next": (self.next_before, self.next_after)}
        )


def edit_entry(context: Context, change: EntryChange, *, dry_run: bool) -> EditReport:
    """Write a change, unless it is a dry run, and report what it does.

    Raises:
        EntryNotFound, EntryExists, InvalidEntry, EditConflict: it cannot be applied; nothing was written.
    """
    return EditReport.of((preview_edit if dry_run else write_edit)(context, change), context)


def edit_fields(
    context: Context,
    name: str,
    /,
    *,
    task_options: Mapping[str, Any] | None = None,
    if_version: str | None = None,
    dry_run: bool = False,
    note: str = "",
    by: str = "",
    **changes: Unpack[EntryChanges],
) -> EditReport:
    """Change an entry, and report the changed fields and the next run before and after: ``store.update()``."""
    change = replace(field_change(context, name, changes, task_options, note, by), if_version=if_version)
    return edit_entry(context, change, dry_run=dry_run)


def field_change(
    context: Context, name: str, fields: EntryChanges, options: Mapping[str, Any] | None, note: str, by: str
) -> FieldChange:
    """Return the change of some fields of an entry, and of options of its task one by one.

    Raises:
        WrongType: the options are no options by name.
    """
    if options is not None and not isinstance(options, Mapping):
        raise WrongType("$.task_options", f"expected options by their names, got {quoted(options)}")
    return FieldChange(
        name=check_name(name),
        fields={**fields},
        options=options or {},
        option_rules=context.task_options,
        author=Author.of(by, note),
    )


def leave_out_next(context: Context, name: str, *, note: str = "", by: str = "") -> tuple[Sequence[datetime], str]:
    """Leave out the next run of an entry; return the fire times that this adds, and the version then.

    Raises:
        EntryNotFound, InvalidEntry: there is no such entry, or no next run.
    """
    found = write_edit(context, SkipNext(name=check_name(name), count=1, author=Author.of(by, note)))
    before = found.before.skip if found.before else ()
    return [moment for moment in found.definition.skip if moment not in before], version_of(found.text)


def revertible(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """Yield the changes that can be reverted, of a log with the newest line first: no newer one has their fields."""
    newer: set[str] = set()
    for line in lines:
        if line.what in ("created", "restored", "deleted", "renamed"):
            return
        fields = _fields_of(line)
        known = newer.isdisjoint(fields) and fields.issubset(Definition._fields)
        if fields and known and isinstance(line.details.get("was"), dict):
            yield line
        newer |= fields


def _fields_of(line: LogLine) -> set[str]:
    switches = {"enabled", "disabled_until"} if line.what in ("enabled", "disabled") else ()
    return {*switches, *line.details.get("fields", ())}


def revert_change(
    context: Context, name: str, at: datetime, *, version: str = "", note: str = "", by: str = ""
) -> EditReport:
    """Give the fields of a change, by its time in the log, what they had before; without a version only report that.

    Raises:
        EntryNotFound, EditConflict, InvalidEntry: it cannot be reverted; nothing was written.
    """
    line = next((line for line in revertible(context.redis.log.of_entry(check_name(name))) if line.last == at), None)
    if line is None:
        raise InvalidEntry("$.at", "no change of that time can be reverted: something has changed its fields since")
    snapshot, fields = context.redis.load(name), _fields_of(line)
    stored = json_text.from_text(stored_definition(snapshot, context.codec).to_text(context.codec), "$")
    others = {field: value for field, value in flattened(stored).items() if field not in fields}
    former = Definition.from_text(name, json_text.to_text({**others, **line.details["was"]}), context.codec)
    change = FieldChange(
        name=name, fields={field: getattr(former, field) for field in fields}, author=Author.of(by, note),
        option_rules=context.task_options, if_version=version or None,
    )  # fmt: skip
    return edit_entry(context, change, dry_run=not version)


@dataclass(frozen=True, kw_only=True)
class ChangePage:
    """Changes of entries and of the schedule, the newest first.

    Attributes:
        changes: each with the name of its entry; an empty one stands for the schedule.
        before: what gets the next page, as ``before``; None: this is the last one. What happened at one moment is on
            one page, which may be longer for that.
        deleted: the names of entries that were deleted.
        unread: how many entries there was no time for, the last by their names.
    """

    changes: Sequence[tuple[str, LogLine]]
    before: datetime | None
    deleted: Collection[str]
    unread: int


@long_read
def read_changes(
    context: Context, name: str, by: str, *, since: datetime | None, before: datetime | None, limit: int
) -> ChangePage:
    """Return a page of changes by people with a text in their name, of entries with a text in theirs."""
    redis, name, by, end = context.redis, name.casefold(), by.casefold(), time.monotonic() + MOST_SECONDS
    stored, deleted = set(redis.contents.names()), set(redis.deleted.names())
    names = sorted(each for each in stored | deleted if name in each.casefold())
    least, most = since or EPOCH, before or FAR_FUTURE

    def is_wanted(change: tuple[str, LogLine]) -> bool:
        line = change[1]
        is_then = line.last is not None and least <= line.last < most
        return is_then and line.is_change and by in str(line.details.get("by", "")).casefold()

    found = [] if name else [change for line in redis.log.of_schedule() if is_wanted(change := ("", line))]
    found, is_more = _newest(found, limit)
    unread = len(names)
    for piece in pages(names, PIECE):
        logs = redis.log.of_entries(piece, -1 if len(names) <= PIECE else MOST_LINES)
        lines = ((each, line) for each, log in zip(piece, logs) for line in log)
        found, is_cut = _newest([*found, *filter(is_wanted, lines)], limit)
        is_more, unread = is_more or is_cut, unread - len(piece)
        if time.monotonic() > end:
            break
    return ChangePage(
        changes=[(each, redacted_line(context, line)) for each, line in found],
        before=found[-1][1].last if is_more else None,
        deleted=deleted - stored,
        unread=unread,
    )


def _newest(changes: list[tuple[str, LogLine]], limit: int) -> tuple[list[tuple[str, LogLine]], bool]:
    """Return the newest changes, with all of the last moment, and whether there are others."""
    changes.sort(key=lambda change: change[1].last or EPOCH, reverse=True)
    last = changes[limit - 1][1].last if len(changes) > limit else EPOCH
    kept = [change for change in changes if (change[1].last or EPOCH) >= (last or EPOCH)]
    return kept, len(kept) < len(changes)


#: Changes of one act follow each other at most so long after.
ONE_ACT = timedelta(seconds=60)


class Act(NamedTuple):
    """What a person did at once: neighbouring changes with the same person, verb, details and note.

    Attributes:
        line: that of the newest change.
        changes: each with the name of its entry, the newest first.
    """

    line: LogLine
    changes: Sequence[tuple[str, LogLine]]


def acts_of(changes: Iterable[tuple[str, LogLine]]) -> list[Act]:
    """Return changes, the newest first, by what was done at once; a change without a person is an act of its own."""
    acts: list[tuple[LogLine, list[tuple[str, LogLine]]]] = []
    for name, line in changes:
        last = acts[-1][1][-1][1] if acts else None
        if name and last is not None and acts[-1][1][-1][0] and _is_one_act(last, line):
            acts[-1][1].append((name, line))
        else:
            acts.append((line, [(name, line)]))
    return [Act(line, found) for line, found in acts]


def _is_one_act(newer: LogLine, older: LogLine) -> bool:
    if not newer.details.get("by") or newer.what != older.what or newer.count != older.count:
        return False
    is_near = bool(newer.last and older.last and newer.last - older.last <= ONE_ACT)
    of_entry = ("next", "was", "dropped_skips")
    alike = ({key: each for key, each in line.details.items() if key not in of_entry} for line in (newer, older))
    return is_near and next(alike) == next(alike)


def draft(context: Context, entry: RedisScheduleEntry, *, only_new: bool = True) -> RedisScheduleEntry:
    """Return an entry as it would be stored; write nothing.

    Raises:
        EntryExists: there is one of that name, and only a new one was to be created.
        InvalidEntry: it cannot be stored, or never fires.
    """
    definition = entry._definition()
    text = definition.to_text(context.codec)
    change = Upsert(definition=definition, text=text, initial_meta=entry._initial_meta(), only_new=only_new)
    return RedisScheduleEntry._of(preview(context, change), context)


def _changes(edit: Edit, before: StoredEntry | None, after: StoredEntry) -> Iterator[tuple[str, Any, Any]]:
    old, new = edit.values
    for name in edit.changed_fields:
        if name == "schedule":
            yield name, before and _words(before), _words(after)
        else:
            yield from json_text.changed_parts(name, shown_value(old, name), shown_value(new, name))


def _words(stored: StoredEntry) -> str:
    return describe_in_brief(stored.definition.plain_schedule, stored.definition.timezone)


def value_words(value: Any) -> str:
    """Return a value before or after a change in words; a dash for one that is not set."""
    if value is None:
        return "-"
    if isinstance(value, dict) and value.get("__type__") == "datetime":
        return _datetime_words(value)
    return shown(value if isinstance(value, str) else printable_json(value), MOST_VALUE)


def _datetime_words(parts: dict[str, Any]) -> str:
    numbers = [parts.get(part, 0) for part in ("year", "month", "day", "hour", "minute", "second")]
    year, month, day, hour, minute, second = numbers
    return shown(f"{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} {parts.get('timezone', '')}".rstrip())
