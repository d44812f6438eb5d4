"""Plan what a file changes: entries created, changed and deleted, and the state of those in a backup."""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.changes import PlannedUpsert
from redisbeater.editing.compare_and_set import applied
from redisbeater.editing.edit import Author, Edit
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.blanking import check_not_blanked
from redisbeater.management.files.definitions import FIELDS, definition_of
from redisbeater.management.files.export import Export, FileEntry, check_owner
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import NULLABLE, shown_value
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import (
    FINISHED,
    NEW,
    Meta,
    Score,
    application_of,
    changed_since,
    file_origin,
    file_owner,
    is_static,
)
from redisbeater.model.options import OptionRules
from redisbeater.schedules.kinds import comparable
from redisbeater.schedules.limited import flattened
from redisbeater.store import Snapshot, pages


def state_of(snapshot: Snapshot, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an entry that was read, with the fields of its definition that no file has."""
    texts = {
        "recorded_run": snapshot.recorded_run,
        "score": snapshot.score.to_text() if snapshot.score else "",
        "skipped": snapshot.skipped,
        "origin": snapshot.origin,
    }
    meta = json_text.from_text(snapshot.meta, "meta") if snapshot.meta else {}
    state = {"meta": meta, **texts, "extra": dict(extra)}
    return {name: value for name, value in state.items() if value}


def restored_meta(state: Mapping[str, Any]) -> Meta:
    """Return the meta of a backup.

    Raises:
        InvalidEntry: it cannot be read.
    """
    if not state.get("meta"):
        return NEW
    return Meta.from_text(json.dumps(state["meta"]), str(state.get("recorded_run", "")))


def restored_score(state: Mapping[str, Any]) -> Score:
    """Return the score of a backup; one in the past is a fire time that beat treats as missed.

    Raises:
        InvalidEntry: it cannot be read.
    """
    text = state.get("score")
    try:
        return Score.from_text(str(text)) if text else FINISHED
    except (ValueError, OverflowError) as exc:
        raise InvalidEntry("state.score", f"expected UNIX seconds, got {quoted(text)}") from exc


class FieldDifference(NamedTuple):
    """A field, or a part of one such as ``kwargs.pages``, and its values as they are stored."""

    path: str
    before: Any
    after: Any


class Override(NamedTuple):
    """A field that an operator set otherwise than the file; it stays until the file's own field changes."""

    field: str
    what: str
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedChange:
    """What becomes of one entry.

    Attributes:
        kind: ``create``, ``change``, ``delete`` or ``keep``.
        before, after: the entry as it is and as it will be; None where there is none that can be read.
        fields: what changes.
        overrides: what operators set and stays so.
        change: what is written; None: nothing. One that is kept may be written as well: what the file says of it has
            changed, and it is like that already.
        edit: what writing it does to the entry as that was read.
        origin: of one that is deleted, the origin that it must still have.
    """

    kind: str
    name: str
    before: StoredEntry | None = None
    after: StoredEntry | None = None
    fields: tuple[FieldDifference, ...] = ()
    overrides: tuple[Override, ...] = ()
    change: PlannedUpsert | None = None
    edit: Edit | None = None
    origin: str = ""

    def still_holds(self, now: datetime, zone: str) -> bool:
        """Tell whether the edit can be written as it was planned: its next run has not passed, nor the zone changed."""
        if self.edit is None or self.change is None or self.edit.snapshot.zone != zone:
            return False
        score = self.edit.score
        if score is None or score.dormant or self.change.score is not None:
            return True
        return score.fire_time is not None and score.fire_time > now


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What applying a file changes, as :meth:`redisbeater.results.Files.plan` returns it.

    Attributes:
        entries: the planned change of each entry.
        now: the time of the Redis server at which it was planned.
        zone: the zone of entries without their own.
        schedule_id: the identity of the schedule to restore; empty: it stays.
        restores: whether it is a backup that is restored.
    """

    owner: str
    author: Author
    now: datetime
    zone: tzinfo
    entries: tuple[PlannedChange, ...]
    schedule_id: str = ""
    restores: bool = False

    def of_kind(self, kind: str) -> list[PlannedChange]:
        """Return the entries that are created, changed, deleted or kept."""
        return [each for each in self.entries if each.kind == kind]

    @property
    def differ(self) -> bool:
        """Whether applying it would create, change or delete an entry."""
        return any(each.kind != "keep" for each in self.entries)

    @property
    def due_at_once(self) -> int:
        """The number of entries that will be due as soon as they are restored."""
        afters = (each.after for each in self.entries if each.change is not None)
        scores = (after.score for after in afters if after is not None and self.restores)
        return sum(1 for score in scores if not score.dormant and score.fire_time and score.fire_time <= self.now)


@dataclass(kw_only=True)
class Applied:
    """What was done so far of :class:`Changes`.

    Attributes:
        created, changed, deleted: the names.
        conflicts: entries that were left out, and why.
    """

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    conflicts: dict[str, str] = field(default_factory=dict)


#: For at most this many entries that keep what operators set, the log is read to name who set it.
MOST_ASKED = 100

#: How many entries are read in one step.
PIECE = 250


@dataclass(frozen=True, kw_only=True)
class ApplyOptions:
    """How a file is applied.

    Attributes:
        owner: whose the entries are; empty only for a backup.
        adopts: take over entries of others.
        deletes: delete the entries of the owner that the file has not.
        restores: restore a backup: run counts, fire times and identity as well.
        author: who applies it.
        rules: what checks options.
    """

    owner: str
    author: Author
    rules: OptionRules
    adopts: bool = False
    deletes: bool = True
    restores: bool = False


def plan_changes(
    context: Context, export: Export, terms: ApplyOptions, progress: Callable[[int], None] | None
) -> Changes:
    """Return the changes that applying a file makes; call ``progress`` with the number of planned entries.

    Raises:
        InvalidEntry: an entry cannot be stored, or belongs to someone else; the message names file, entry and field.
    """
    if terms.owner or not terms.restores:
        check_owner(terms.owner)
    elif export.entries and all(entry.state is None for entry in export.entries.values()):
        fix = "pass --owner NAME without --state, or a file that export --state wrote"
        place = next(iter(export.entries.values())).place
        raise InvalidEntry(f"{place}: state", f"is missing, and the file names no owner; {fix}")
    now, zone = context.redis.clock()
    context = context.in_zone(zone)
    planner = _Planner(context, terms)
    planned: list[PlannedChange | None] = []
    for page in pages(list(export.entries.values()), PIECE):
        declared = [definition_of(entry, context.codec, terms.rules, context.zone) for entry in page]
        planned += map(planner.plan, page, declared, context.redis.load_many([entry.name for entry in page]))
        if progress is not None:
            progress(len(planned))
    planner.check_statics()
    gone = planner.deletions(export.entries) if terms.deletes and terms.owner else ()
    return Changes(
        owner=terms.owner,
        author=terms.author,
        now=now,
        zone=context.zone,
        entries=(*filter(None, planned), *gone),
        schedule_id=export.schedule_id if terms.restores else "",
        restores=terms.restores,
    )


class _Planner:
    """Plans the entries of one file."""

    def __init__(self, context: Context, terms: ApplyOptions) -> None:
        self._context = context
        self._terms = terms
        self._asked = 0
        self._statics: list[InvalidEntry] = []

    def plan(self, entry: FileEntry, declared: Definition, snapshot: Snapshot) -> PlannedChange | None:
        """Return the planned change of an entry of the file, or None if :meth:`check_statics` refuses it."""
        data = declared.to_data(self._context.codec)
        origin = self._origin(entry, data)
        is_ours = snapshot.exists and self._is_ours(entry, snapshot, origin)
        if snapshot.exists and not is_ours and is_static(snapshot.origin) and not self._terms.restores:
            self._statics.append(InvalidEntry(f"{entry.place}: $.name", _static(snapshot.origin)))
            return None
        try:
            check_not_blanked(entry.fields, "$", self._context.config.redact)
            before = _stored(snapshot, self._context)
            definition, kept = declared, set[str]()
            if is_ours and before is not None and not self._terms.restores:
                definition, kept = self._merged(declared, data, snapshot)
            change = self._change(entry, definition, snapshot, origin)
            overrides = self._overrides(snapshot.name, kept) if kept else ()
            fields = _differences(snapshot, change.text) if snapshot.exists else ()
            if snapshot.exists and not is_ours:
                fields = (FieldDifference("owner", owner_words(snapshot.origin), owner_words(origin)), *fields)
            is_same = snapshot.exists and not fields and not self._restores_more(change, snapshot)
            if is_same and snapshot.origin == origin:
                return PlannedChange(kind="keep", name=entry.name, before=before, after=before, overrides=overrides)
            edit = applied(change, snapshot, self._context, self._context.reader.codec)
        except InvalidEntry as exc:
            raise InvalidEntry(f"{entry.place}: {exc.path}", exc.problem) from exc
        kind = "create" if not snapshot.exists else "keep" if is_same else "change"
        return PlannedChange(
            kind=kind,
            name=entry.name,
            before=before,
            after=edit.to_stored_entry(),
            fields=fields,
            overrides=overrides,
            change=change,
            edit=edit,
        )

    def check_statics(self) -> None:
        """Refuse a file that would take over static entries: beat stores what the code declares by those names.

        Raises:
            InvalidEntry: about the first of them; ``others`` has those about more.
        """
        if self._statics:
            first, *others = self._statics
            first.others = tuple(others)
            raise first

    def deletions(self, declared: Mapping[str, Any]) -> Iterator[PlannedChange]:
        """Yield the deletions of the owner's entries that the file does not have."""
        contents = self._context.redis.contents
        names = [name for name in contents.names() if name not in declared]
        origins = contents.origins(names)
        gone = sorted(name for name in names if file_owner(origins[name]) == self._terms.owner)
        for snapshot in self._context.redis.load_many(gone):
            if snapshot.exists:
                before = _stored(snapshot, self._context)
                yield PlannedChange(kind="delete", name=snapshot.name, before=before, origin=snapshot.origin)

    def _origin(self, entry: FileEntry, declared: Mapping[str, Any]) -> str:
        if self._terms.restores and (entry.state is not None or not self._terms.owner):
            return str((entry.state or {}).get("origin") or "")
        return file_origin(self._terms.owner, declared)

    def _is_ours(self, entry: FileEntry, snapshot: Snapshot, origin: str) -> bool:
        """Tell whether the stored entry belongs to the owner of the file; one that is adopted does not yet.

        Raises:
            InvalidEntry: it belongs to someone else.
        """
        ours, theirs = origin.rpartition(" ")[0], snapshot.origin.rpartition(" ")[0]
        if ours == theirs:
            return True
        if self._terms.adopts or (is_static(snapshot.origin) and not self._terms.restores):
            return False
        owner = owner_words(snapshot.origin)
        who = "a dynamic entry" if owner is None else f"an entry of owner {owner!r}"
        problem = f"{who} has that name; pass --adopt to take it over"
        raise InvalidEntry(f"{entry.place}: $.name", problem)

    def _merged(self, declared: Definition, file: Mapping[str, Any], snapshot: Snapshot) -> tuple[Definition, set[str]]:
        """Return the stored definition with the fields that the file has changed, and those that differ from the file.

        Raises:
            InvalidEntry: the two together cannot be stored.
        """
        if snapshot.definition == json_text.to_text(file):
            return declared, set()
        stored = json_text.from_text(snapshot.definition, "$")
        changed = changed_since(snapshot.origin, file)
        kept = {name for name in FIELDS if name not in changed and _differ(stored, file, name)}
        merged = {name: value for name, value in stored.items() if name not in changed}
        merged.update({name: file[name] for name in changed if name in file})
        text = json_text.to_text(merged) if changed else snapshot.definition
        return Definition.from_text(snapshot.name, text, self._context.reader.codec), kept

    def _change(self, entry: FileEntry, definition: Definition, snapshot: Snapshot, origin: str) -> PlannedUpsert:
        state = entry.state if self._terms.restores else None
        extra = state.get("extra") if state else None
        if isinstance(extra, dict):
            definition = definition._replace(extra=extra)
        change = PlannedUpsert(
            definition=definition,
            text=definition.to_text(self._context.codec),
            initial_meta=NEW if state is None else restored_meta(state),
            origin=origin,
            author=self._terms.author,
            base=snapshot.definition,
        )
        return (
            change
            if state is None
            else replace(change, score=restored_score(state), skipped=str(state.get("skipped", "")))
        )

    def _restores_more(self, change: PlannedUpsert, snapshot: Snapshot) -> bool:
        """Tell whether a backup has another run count or fire time than what is stored."""
        if change.score is None:
            return False
        try:
            meta = Meta.from_text(snapshot.meta, snapshot.recorded_run)
        except InvalidEntry:
            return True
        return (snapshot.score, meta) != (change.score, change.initial_meta)

    def _overrides(self, name: str, kept: Iterable[str]) -> tuple[Override, ...]:
        """Return the fields that operators set otherwise than the file, with who it was as far as the log knows."""
        self._asked += 1
        lines = self._context.redis.log.of_entry(name) if self._asked <= MOST_ASKED else []
        return tuple(_override(field, lines) for field in sorted(kept))


def owner_words(origin: str) -> str | None:
    """Return the owner of an entry of this origin, a file or the code of an application, or None if it has none."""
    return f"static of {application_of(origin)}" if is_static(origin) else file_owner(origin) or None


def _static(origin: str) -> str:
    fix = "leave it out of the file, or remove its declaration there, so that beat deletes the entry, and apply again"
    return f"is a static entry of application {quoted(application_of(origin))}; {fix}"


def _override(field: str, lines: Iterable[LogLine]) -> Override:
    for line in lines:
        is_switch = field == "enabled" and line.what in ("enabled", "disabled")
        if is_switch or field in (line.details.get("fields") or ()):
            what = line.what if is_switch else f"{field} changed"
            return Override(field=field, what=what, by=str(line.details.get("by", "")), at=line.last)
    return Override(field=field, what=f"{field} differs from the file")


def _stored(snapshot: Snapshot, context: Context) -> StoredEntry | None:
    """Return the stored entry, or None if there is none that can be read."""
    try:
        return StoredEntry.from_snapshot(snapshot, context.reader.codec) if snapshot.exists else None
    except InvalidEntry:
        return None


def _differences(snapshot: Snapshot, text: str) -> tuple[FieldDifference, ...]:
    """Return the fields in which a new definition differs from the stored one; of kwargs and options their parts."""
    if snapshot.definition == text:
        return ()
    try:
        old = json_text.from_text(snapshot.definition, "$")
    except InvalidEntry:
        old = None
    new = json_text.from_text(text, "$")
    if not isinstance(old, dict):
        return (FieldDifference("definition", quoted(snapshot.definition, 40), "can be read"),)
    old, new = flattened(old), flattened(new)
    found: list[FieldDifference] = []
    for name in (name for name in ("schedule", *FIELDS, *new) if name != "name"):
        if _differ(old, new, name) and name not in (each.path.partition(".")[0] for each in found):
            parts = json_text.changed_parts(name, shown_value(old, name), shown_value(new, name))
            found += (FieldDifference(*part) for part in parts)
    return tuple(found)


def _differ(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    """Tell whether a field has another value; 1 and true are different, and most fields are in neither."""
    if name not in old and name not in new:
        return False
    if name in NULLABLE and (name in old) != (name in new):
        return True
    if marshal.dumps(old.get(name), 0) == marshal.dumps(new.get(name), 0):  # most are the same, types included
        return False
    return _comparable_text(old, name) != _comparable_text(new, name)


def _comparable_text(data: Mapping[str, Any], name: str) -> str:
    """Return a text that is equal for equal values; a field that is missing is like null, and like an empty one."""
    value = data.get(name)
    if name == "enabled":
        value = True if value is None else value
    if name == "schedule":
        value = comparable(value)
    return json_text.canonical(value if value or value is False or value == 0 else None)
