"""Many changes in pages: bulk upserts, from a template where entries share fields, and verbs by name."""

from __future__ import annotations

import marshal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from types import TracebackType
from typing import Any, NamedTuple

from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.display import MOST_CHARACTERS, MOST_QUOTED, quoted, shown
from redisbeater.editing.changes import DisableUntil, EntryChange, Switch, Until, Upsert
from redisbeater.editing.compare_and_set import WriteResult, delete_entries, preview, warn_of_rules, write_page
from redisbeater.editing.edit import Author, announce, log_edit
from redisbeater.editing.rescheduling import score_of_new
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name, check_new_name, check_stored_name
from redisbeater.exceptions import EntryNotFound, InvalidEntry, RedisBeaterError, WrongType
from redisbeater.log_lines import get_logger
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import given_policies
from redisbeater.model.meta import FINISHED, NEW, Meta, Score
from redisbeater.model.passed_values import checked_args, checked_kwargs, checked_names
from redisbeater.model.resolved_policy import Defaults
from redisbeater.schedules.cron_steps import refuse_steps_above_range, steps_of
from redisbeater.schedules.kind import FIRST_FORMAT
from redisbeater.schedules.kinds import kind_of
from redisbeater.schedules.zones import PlannedBy, in_zone, zone_name
from redisbeater.store import SAVE_PAGE, Change, pages, this_program

logger = get_logger(__name__)


#: How many templates are kept at most: a bulk whose entries share nothing must not hold them all in memory.
MOST_TEMPLATES = 10_000


class RenderedEntry(NamedTuple):
    """One entry of a template, with its stored text."""

    template: EntryTemplate
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    text: str

    def definition(self) -> Definition:
        """Return the definition of this entry."""
        return self.template.definition._replace(name=self.name, args=self.args, kwargs=self.kwargs)


class EntryTemplate:
    """Renders entries that differ from a definition only in name, args and kwargs."""

    def __init__(self, definition: Definition, context: Context) -> None:
        self.definition = definition
        self._data = definition.to_data(context.codec)
        if definition.options:  # a copy that was checked: the caller may change the options later
            self.definition = definition._replace(options=deepcopy(definition.options))
            self._data = self.definition.to_data(context.codec)
        self._is_memoryless = kind_of(definition.schedule).is_memoryless
        self._first = FINISHED
        self._planned_at: datetime | None = None

    def render(self, entry: RedisScheduleEntry) -> RenderedEntry:
        """Render an entry whose template key is that of this template.

        Raises:
            InvalidEntry: its name or its arguments cannot be stored.
        """
        name, args, kwargs = check_new_name(entry.name), checked_args(entry.args), checked_kwargs(entry.kwargs)
        return RenderedEntry(
            self, name, args, kwargs, json_text.to_text({**self._data, "name": name, "args": args, "kwargs": kwargs})
        )

    def first_score(self, now: datetime, defaults: Defaults) -> Score:
        """Return the score of a new entry of this template.

        Raises:
            InvalidEntry: the entry never fires.
        """
        # The next fire time of a crontab is the same for every entry until it has passed.
        is_still_next = self._is_memoryless and (self._first.fire_time or now) > now
        if self._planned_at != now and not is_still_next:
            self._first = score_of_new(self.definition, NEW, now, defaults)
            self._planned_at = now
        return self._first


class EntryTemplates:
    """The templates of the entries that were rendered so far, by their keys."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._templates: dict[bytes, EntryTemplate] = {}

    def render(self, entry: RedisScheduleEntry) -> RenderedEntry:
        """Render an entry with the template that has its key, or with a new one.

        Raises:
            InvalidEntry: a field cannot be stored.
        """
        key = _template_key(entry)
        template = None if key is None else self._templates.get(key)
        if template is None:
            template = EntryTemplate(entry._definition(), self._context)
            if key is not None:
                self._keep(key, template)
        return template.render(entry)

    def _keep(self, key: bytes, template: EntryTemplate) -> None:
        if len(self._templates) >= MOST_TEMPLATES:
            self._templates.clear()
        self._templates[key] = template


def checked_entry(given: object) -> RedisScheduleEntry:
    """Return an argument that must be an entry.

    Raises:
        InvalidEntry: it is none, such as a name.
    """
    if isinstance(given, RedisScheduleEntry):
        return given
    advice = "RedisScheduleEntry(name, task, schedule) makes one"
    raise WrongType("entry", f"expected a RedisScheduleEntry, got {quoted(given)}; {advice}")


def _template_key(entry: RedisScheduleEntry) -> bytes | None:
    """Return a key that two entries share when they differ only in name and arguments; 1 and true are different.

    None: the entry holds other than plain values, and gets a template of its own.
    """
    schedule, kind = entry.schedule, kind_of(entry.schedule)
    if not kind.is_plain or getattr(schedule, "nowfun", None) is not None:
        return None
    timing, policies = kind.plain_values(schedule), given_policies(vars(entry))
    shared: Any = (entry.task, timing, entry.options, entry.enabled, policies)
    try:
        return marshal.dumps(shared, 0)
    except ValueError:
        return None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one entry.

    Attributes:
        is_static: whether it was deleted and comes back, because code declares it.
        is_changed: whether it was enabled, disabled or deleted by this, and not before.
        left: why it was left as it was: ``disabled for longer``; empty: it was not.
        was_enabled: whether it was enabled before.
        was_until: until when it was disabled before; None: not until a time.
        error: why it could not be changed; None if it was.
    """

    name: str
    is_static: bool = False
    is_changed: bool = True
    left: str = ""
    was_enabled: bool = False
    was_until: datetime | None = None
    error: Exception | None = None
    _context: Context | None = field(default=None, repr=False)
    _stored: StoredEntry | None = field(default=None, repr=False)

    @cached_property
    def entry(self) -> RedisScheduleEntry | None:
        """The entry after the change; None if it was deleted, or could not be changed."""
        context, stored = self._context, self._stored
        return None if context is None or stored is None else RedisScheduleEntry._of(stored, context)


def enable_many(context: Context, names: Iterable[str], *, author: Author) -> Iterator[Outcome]:
    """Enable entries; yield what became of each when its page was written."""
    return _switch_many(context, names, lambda name: Switch(name=name, is_enabled=True, author=author), check_name)


def disable_many(
    context: Context, names: Iterable[str], *, author: Author, until: Until | None = None, keeps_longer: bool = True
) -> Iterator[Outcome]:
    """Disable entries; yield what became of each when its page was written.

    With ``until`` those that are disabled for good or for longer are left as they are, unless ``keeps_longer`` is
    false: that is for who means this one entry.
    """

    def change(name: str) -> EntryChange:
        if until is None:
            return Switch(name=name, is_enabled=False, author=author)
        return DisableUntil(name=name, until=until, author=author, keeps_longer=keeps_longer)

    return _switch_many(context, names, change, check_stored_name if until is None else check_name)


def _switch_many(
    context: Context, names: Iterable[str], change: Callable[[str], EntryChange], check: Callable[[str], str]
) -> Iterator[Outcome]:
    def switch(page: Sequence[str]) -> Iterator[Outcome]:
        result = write_page(context, map(change, page), only_differing=True)
        edits = {**result.written, **result.unchanged}
        for name in page:
            if name not in edits:
                yield Outcome(name=name, error=result.failures[name])
                continue
            edit, stored = edits[name], edits[name].to_stored_entry()
            defaults = context.in_zone(stored.zone).defaults
            log_edit(edit, partial(stored.due_at, defaults))
            old = replace(stored, definition=edit.before or stored.definition)
            before, after = (_state(each, defaults) for each in (old, stored))
            yield Outcome(
                name=name, is_changed=before != after, left=edit.left, was_enabled=before[0], was_until=before[1],
                _context=context, _stored=stored,
            )  # fmt: skip

    return _by_page(names, switch, check)


def _state(stored: StoredEntry, defaults: Defaults) -> tuple[bool, datetime | None]:
    """Return whether an entry is enabled now, and until when it is disabled, aware UTC, if that has an end."""
    definition = stored.definition
    until = definition.disabled_until if definition.enabled and stored.is_disabled_for_now else None
    return definition.enabled and not until, until and in_zone(until, definition.zone(defaults.zone))


def delete_many(context: Context, names: Iterable[str], *, author: Author) -> Iterator[Outcome]:
    """Delete entries; yield what became of each when its page was deleted."""

    def delete(page: Sequence[str]) -> Iterator[Outcome]:
        deleted = delete_entries(context, page, author)
        for name in page:
            if name in deleted:
                yield Outcome(name=name, is_static=deleted[name].is_static)
            else:
                yield Outcome(name=name, error=EntryNotFound(name))

    return _by_page(names, delete, check_stored_name)


def _by_page(
    names: Iterable[str],
    change: Callable[[Sequence[str]], Iterator[Outcome]],
    check: Callable[[str], str],
) -> Iterator[Outcome]:
    """Change the entries of each page, in the order of the names; a name that none can have is an outcome as well.

    Raises:
        InvalidEntry: the names are one text, whose letters nobody means, or hold something else; nothing is changed.
    """
    for page in pages(list(dict.fromkeys(checked_names(names))), SAVE_PAGE):
        refused = {name: error for name in page if (error := _refusal(name, check))}
        changed: dict[str, Outcome] = {}
        try:
            with deferred_signals():
                changed.update({each.name: each for each in change([name for name in page if name not in refused])})
        except KeyboardInterrupt:  # what was written is reported first
            yield from changed.values()
            raise
        for name in page:
            yield changed.get(name) or Outcome(name=name, error=refused[name])


def _refusal(name: str, check: Callable[[str], str]) -> InvalidEntry | None:
    try:
        check(name)
    except InvalidEntry as exc:
        return exc
    return None


#: Characters of definitions in one page: a longer page would keep the server busy for more than a few milliseconds.
MOST_PAGE_CHARACTERS = 500_000

#: Characters of a problem whose entry is named behind it.
MOST_PROBLEM = MOST_CHARACTERS - MOST_QUOTED - 100


class Bulk:
    """Many changes, sent to Redis a page at a time; from :meth:`redisbeater.ScheduleStore.bulk`, for one thread.

    Each method does what the method of :class:`redisbeater.ScheduleStore` by that name does. A page is sent when it is
    full, at the latest at the end of the block. A block that ends with an error does not send its last page; the pages
    before it stay written.

    The log of each entry that is changed or deleted gets a line; that of a new one only with a ``note`` or ``by``.

    Attributes:
        created: how many entries were created so far, by the pages that were sent.
        changed: how many existed and are different now.
        unchanged: how many existed and were like that already; they were not written.
        deleted: how many were deleted.
    """

    def __init__(self, context: Context, *, note: str, by: str) -> None:
        self.created = self.changed = self.unchanged = self.deleted = 0
        self._context = context
        self._author = Author.of(by, note)
        #: A line that says only that it was created takes half as much memory and time as the entry itself.
        self._logs_creation = bool(note or by)
        self._templates = EntryTemplates(context)
        self._upserts: dict[str, tuple[RenderedEntry, Meta]] = {}
        self._deletions: set[str] = set()
        self._characters = 0
        self._clock: tuple[datetime, float] | None = None
        #: The zone of entries without their own, as of then; empty: none is stored.
        self._zone = ""
        self._is_open = False
        #: Whether the next page probably holds new entries, as the last one did: those are written without reading.
        self._expects_new = True

    def __enter__(self) -> Bulk:
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_open = False
        if error is None:
            self.flush()
        if self.created or self.changed or self.deleted:
            logger.info(
                "bulk: %d entries created, %d changed, %d deleted, %d unchanged",
                self.created,
                self.changed,
                self.deleted,
                self.unchanged,
            )

    def save(self, entry: RedisScheduleEntry) -> None:
        """Create an entry, or make the stored one of that name like it; the object itself does not change.

        Raises:
            InvalidEntry: a field cannot be stored, or it never fires; nothing of this entry is written, and the block
                may go on with others. A conflict with the stored entry is reported by :meth:`flush`.
            StoreUnavailable, EditConflict: as for :meth:`flush`.
        """
        rendered, meta = self._templates.render(checked_entry(entry)), entry._initial_meta()
        definition = rendered.template.definition
        if not definition.never_ends or any(step.is_above_range for step in steps_of(definition.schedule)):
            self._check_schedule(rendered, meta)
        self._make_room_for(rendered.name)
        self._upserts[rendered.name] = rendered, meta
        self._characters += len(rendered.text)
        self._flush_if_full()

    def delete(self, name: str) -> None:
        """Delete an entry; one that does not exist is no error, and is not counted.

        Raises:
            InvalidEntry: no entry can have that name.
            StoreUnavailable, EditConflict: as for :meth:`flush`.
        """
        self._make_room_for(check_stored_name(name))
        self._deletions.add(name)
        self._flush_if_full()

    def flush(self) -> None:
        """Send the changes that wait; beat is notified once.

        Raises:
            StoreUnavailable: Redis cannot be reached; the changes are kept, and are sent with the next page.
            InvalidEntry, EditConflict: an entry could not be written, the message names it; all others of the page
                were.
        """
        names = dict.fromkeys(self._deletions, "")
        deleted = self._context.redis.delete_many(names, log=self._author.line("deleted"))
        self.deleted += len(deleted)
        self._deletions.clear()
        announce(deleted, "deleted", by=self._author.by)
        size, created = len(self._upserts), self.created
        if self._expects_new:
            self._create()
        changes = [self._upsert(*each) for each in self._upserts.values()]
        result = write_page(self._context, changes, only_differing=True)
        self._upserts.clear()
        self._characters = 0
        self._count(result)
        self._expects_new = 2 * (self.created - created) >= size
        _raise_first(result.failures)

    def _create(self) -> None:
        """Create the entries that are new, without reading them first; the others stay in the page."""
        now, context = self._now(), self._context
        new = [
            rendered
            for rendered, meta in self._upserts.values()
            if meta is NEW and _is_always_sendable(rendered.template.definition)
        ]
        defaults = context.in_zone(self._zone).defaults
        is_first = not self._zone and any(each.template.definition.follows_app_zone for each in new)
        planned_by = PlannedBy(now.year, this_program(), (zone_name(context.zone) or "") if is_first else "")
        is_logged = self._logs_creation
        lines = [self._author.line("created", state=state) if is_logged else "" for state in ("disabled", None)]
        changes = [
            Change(
                each.name,
                each.text,
                each.template.first_score(now, defaults).to_text(),
                log=lines[each.template.definition.enabled],
            )
            for each in new
        ]
        for at, each in enumerate(new):
            if names := each.template.definition.zones(defaults.zone):
                zones, rules = planned_by.marks(names)
                changes[at] = changes[at]._replace(zones=zones, rules=rules)
        refused = context.redis.save(changes, planned_by=planned_by.text)
        warn_of_rules(refused.pop("", ""), [change.name for change in changes])
        for change in changes:
            if change.name not in refused:
                del self._upserts[change.name]
                self.created += 1
        announce([change.name for change in changes if change.name not in refused], "created", by=self._author.by)

    def _count(self, result: WriteResult) -> None:
        created = sum(1 for edit in result.written.values() if not edit.snapshot.definition)
        self.created += created
        self.changed += len(result.written) - created
        self.unchanged += len(result.unchanged)

    def _check_schedule(self, rendered: RenderedEntry, meta: Meta) -> None:
        """Refuse a schedule that never fires, or has a step above its range, unless it is stored.

        One that has finished may be saved again.
        """
        try:
            now, definition = self._now(), rendered.definition()
            refuse_steps_above_range(definition.schedule)
            score_of_new(definition, meta, now, self._context.in_zone(self._zone).defaults)
        except InvalidEntry:
            preview(self._context, self._upsert(rendered, meta))

    def _upsert(self, rendered: RenderedEntry, meta: Meta) -> Upsert:
        return Upsert(
            definition=rendered.definition(),
            text=rendered.text,
            initial_meta=meta,
            author=self._author,
            logs_creation=self._logs_creation,
        )

    def _now(self) -> datetime:
        """Return the time of the Redis server; it is asked once, and our own clock goes on from there."""
        if self._clock is None:
            now, self._zone = self._context.redis.clock()
            self._clock = now, time.monotonic()
        now, asked_at = self._clock
        return now + timedelta(seconds=time.monotonic() - asked_at)

    def _make_room_for(self, name: str) -> None:
        """Send the page first if it holds this entry: its changes need no order, as it holds each entry only once."""
        if not self._is_open:
            raise RuntimeError("nothing would be sent; write: with store.bulk() as bulk: bulk.save(entry)")
        if name in self._upserts or name in self._deletions:
            self.flush()

    def _flush_if_full(self) -> None:
        if len(self._upserts) + len(self._deletions) >= SAVE_PAGE or self._characters >= MOST_PAGE_CHARACTERS:
            self.flush()


def _is_always_sendable(definition: Definition) -> bool:
    """Tell whether a new entry needs no look at the time or at beats: it has fire times, and nothing that expires."""
    expires = isinstance(definition.options.get("expires"), datetime)
    return definition.never_ends and not expires and kind_of(definition.schedule).format == FIRST_FORMAT


def _raise_first(failures: Mapping[str, Exception]) -> None:
    for name, failure in failures.items():
        if isinstance(failure, InvalidEntry):
            problem = f"{shown(failure.problem, MOST_PROBLEM)}; the entry is {quoted(name)}"
            raise InvalidEntry(failure.path, problem) from failure
        if isinstance(failure, RedisBeaterError):
            raise failure
        problem = f"{shown(f'{type(failure).__name__}: {failure}', MOST_PROBLEM)}; the entry is {quoted(name)}"
        raise InvalidEntry("$.schedule", problem) from failure
