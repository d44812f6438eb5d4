"""``ScheduleMapping``: the ``schedule`` attribute that programs expect of a Celery scheduler."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from celery import Celery

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.author import Author
from redisbeater.editing.deletion import delete_entry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import is_unreserved
from redisbeater.exceptions import EntryNotFound

__all__ = ("ScheduleMapping",)


class ScheduleMapping(MutableMapping[str, RedisScheduleEntry]):
    """Entry name -> entry; each access reads from Redis or writes to it, nothing is cached."""

    def __init__(self, app: Celery, entry_class: type[RedisScheduleEntry] = RedisScheduleEntry) -> None:
        self._app = app
        self._entry_class = entry_class

    def __getitem__(self, name: str) -> RedisScheduleEntry:
        if not is_unreserved(name):
            raise EntryNotFound(name)
        return self._entry_class.from_key(RedisScheduleEntry.generate_key(self._app, name), app=self._app)

    def __setitem__(self, name: str, entry: RedisScheduleEntry) -> None:
        if name != entry.name:
            raise ValueError(f"an entry named {quoted(entry.name)} cannot be stored as {quoted(name)}")
        entry.save()

    def __delitem__(self, name: str) -> None:
        if delete_entry(Context.of(self._app), name, Author.of()) is None:
            raise EntryNotFound(name)

    def __contains__(self, name: object) -> bool:
        return is_unreserved(name) and bool(Context.of(self._app).redis.load(str(name)).definition)

    def __iter__(self) -> Iterator[str]:
        return iter(Context.of(self._app).redis.contents.names())

    def __len__(self) -> int:
        return Context.of(self._app).redis.contents.count()
