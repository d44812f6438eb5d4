"""Changes of many entries by name, a page at a time: one that cannot be changed does not hold up the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from celery import Celery

from redisbeater.context import Context
from redisbeater.editing.author import Author
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.deletion import delete_entries
from redisbeater.editing.edit_log import log_edit
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name, check_stored_name
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.store import SAVE_PAGE, pages

__all__ = ("Outcome", "delete_many", "enable_many")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one entry.

    Attributes:
        entry: the entry after the change; None if it was deleted, or could not be changed.
        is_static: whether it was deleted and comes back, because code declares it.
        error: why it could not be changed; None if it was.
    """

    name: str
    entry: RedisScheduleEntry | None = None
    is_static: bool = False
    error: Exception | None = None


def enable_many(app: Celery, names: Iterable[str], *, is_enabled: bool, author: Author) -> Iterator[Outcome]:
    """Enable or disable entries; yield what became of each when its page was written."""

    def change(page: Sequence[str]) -> Iterator[Outcome]:
        context = Context.of(app)
        fields = {"enabled": is_enabled, "disabled_until": None}
        result = write_page(context, [FieldChange(name=name, fields=fields, author=author) for name in page])
        for name in page:
            edit = result.written.get(name)
            if edit is None:
                yield Outcome(name=name, error=result.failures[name])
            else:
                stored = edit.to_stored_entry()
                log_edit(edit, stored.due_at(context.in_zone(stored.zone).defaults))
                yield Outcome(name=name, entry=RedisScheduleEntry.of(stored, app))

    return _by_page(names, change, check_name)


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
    """Change the entries of each page, in the order of the names; a name that none can have is an outcome as well."""
    for page in pages(list(dict.fromkeys(names)), SAVE_PAGE):
        refused = {name: error for name in page if (error := _refusal(name, check))}
        changed = {outcome.name: outcome for outcome in change([name for name in page if name not in refused])}
        for name in page:
            yield changed.get(name) or Outcome(name=name, error=refused[name])


def _refusal(name: str, check: Callable[[str], str]) -> InvalidEntry | None:
    try:
        check(name)
    except InvalidEntry as exc:
        return exc
    return None
