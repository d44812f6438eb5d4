"""``ScheduleMapping``: the ``schedule`` attribute that programs expect of a Celery scheduler."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from celery import Celery

from redisbeater.context import Context
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryNotFound

__all__ = ("ScheduleMapping",)


class ScheduleMapping(MutableMapping[str, RedisScheduleEntry]):
    """Entry name -> entry; each access reads from Redis or writes to it, nothing is cached."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def __getitem__(self, name: str) -> RedisScheduleEntry:
        return RedisScheduleEntry.from_key(RedisScheduleEntry.generate_key(self._app, name), app=self._app)

    def __setitem__(self, name: str, entry: RedisScheduleEntry) -> None:
        if name != entry.name:
            raise ValueError(f"an entry named {entry.name!r} cannot be stored as {name!r}")
        entry.save()

    def __delitem__(self, name: str) -> None:
        if not Context.of(self._app).redis.delete(name):
            raise EntryNotFound(name)

    def __iter__(self) -> Iterator[str]:
        return iter(Context.of(self._app).redis.contents.names())

    def __len__(self) -> int:
        return Context.of(self._app).redis.contents.count()
