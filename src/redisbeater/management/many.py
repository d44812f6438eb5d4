"""Changes of many entries by name, a page at a time: one that cannot be changed does not hold up the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial

from celery import Celery

from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.display import quoted
from redisbeater.editing.changes import Switch
from redisbeater.editing.compare_and_set import delete_entries, write_page
from redisbeater.editing.edit import Author, Edit, log_edit
from redisbeater.editing.stored_entry import StoredEntry, stored_definition
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name, check_stored_name
from redisbeater.exceptions import EntryNotFound, InvalidEntry, WrongType
from redisbeater.store import SAVE_PAGE, pages

__all__ = ("Outcome", "delete_many", "enable_many")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one entry.

    Attributes:
        is_static: whether it was deleted and comes back, because code declares it.
        is_changed: whether it was enabled, disabled or deleted by this, and not before.
        was_until: until when it was disabled before; None: not until a time.
        error: why it could not be changed; None if it was.
    """

    name: str
    is_static: bool = False
    is_changed: bool = True
    was_until: datetime | None = None
    error: Exception | None = None
    _app: Celery | None = field(default=None, repr=False)
    _stored: StoredEntry | None = field(default=None, repr=False)

    @cached_property
    def entry(self) -> RedisScheduleEntry | None:
        """The entry after the change; None if it was deleted, or could not be changed."""
        return None if self._stored is None else RedisScheduleEntry.of(self._stored, self._app)


def enable_many(app: Celery, names: Iterable[str], *, is_enabled: bool, author: Author) -> Iterator[Outcome]:
    """Enable or disable entries; yield what became of each when its page was written."""

    def change(page: Sequence[str]) -> Iterator[Outcome]:
        context = Context.of(app)
        result = write_page(context, [Switch(name=name, is_enabled=is_enabled, author=author) for name in page])
        for name in page:
            edit = result.written.get(name)
            if edit is None:
                yield Outcome(name=name, error=result.failures[name])
            else:
                stored = edit.to_stored_entry()
                log_edit(edit, partial(stored.due_at, context.in_zone(stored.zone).defaults))
                is_changed, until = _before(edit, stored, context)
                yield Outcome(name=name, is_changed=is_changed, was_until=until, _app=app, _stored=stored)

    return _by_page(names, change, check_name if is_enabled else check_stored_name)


def _before(edit: Edit, after: StoredEntry, context: Context) -> tuple[bool, datetime | None]:
    """Return whether an entry was enabled before and is not now, or the reverse; and until when it was disabled."""
    if "disabled_until" not in edit.changed_fields:
        return bool(edit.changed_fields), None
    definition = stored_definition(edit.snapshot, context.codec, has_any_name=True)
    was_paused = definition.enabled and replace(after, definition=definition).is_paused
    return (
        was_paused or definition.enabled != after.definition.enabled,
        definition.disabled_until if was_paused else None,
    )


def delete_many(app: Celery, names: Iterable[str], *, author: Author) -> Iterator[Outcome]:
    """Delete entries; yield what became of each when its page was deleted."""

    def delete(page: Sequence[str]) -> Iterator[Outcome]:
        deleted = delete_entries(Context.of(app), page, author)
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
    if isinstance(names, str):
        raise WrongType("names", f"expected a list of names, got {quoted(names)}; for one entry pass [{quoted(names)}]")
    names = list(names)
    for name in names:
        if not isinstance(name, str):
            raise WrongType("names", f"expected names, which are texts; one of them is {quoted(name)}")
    for page in pages(list(dict.fromkeys(names)), SAVE_PAGE):
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
