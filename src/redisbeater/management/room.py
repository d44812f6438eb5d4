"""``Room``: a part of the API with methods of its own, such as ``store.runs``."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from redisbeater.context import Context
from redisbeater.management.runs.reserved import RunSender
from redisbeater.model.passed_values import checked_instant


class Owner(Protocol):
    """What a room asks of the store that made it."""

    @property
    def _context(self) -> Context: ...

    @property
    def _caller(self) -> RunSender: ...


class Room:
    """A part of a store whose methods take an id of their own, or a file. It asks the store for all that it needs."""

    def __init__(self, store: Owner) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._store!r}>"

    @property
    def _context(self) -> Context:
        return self._store._context

    @property
    def _caller(self) -> RunSender:
        return self._store._caller


def instant_of(context: Context, name: str, given: datetime | None) -> datetime | None:
    """Return the instant of a passed time, None for None; a naive one is in the app's zone."""
    return None if given is None else checked_instant(given, context.zone, name)
