"""The contents of a schedule: its entries and their origins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from redisbeater.store.connection.connection import Connection
from redisbeater.store.keys import Keys

__all__ = ("Contents", "pages")

T = TypeVar("T")

#: How many names one round trip asks for.
PAGE = 1000

#: How many keys one page of the search for unscheduled entries reads: less than a millisecond of the server a tick.
SEARCH_PAGE = 250


class Contents:
    """The contents of a schedule, read in pages so that the server is never busy for long."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def names(self) -> list[str]:
        """Return the names of all entries, in no order."""
        members = self._connection.call(lambda client: list(client.zscan_iter(self._keys.schedule, count=PAGE)))
        return list(dict.fromkeys(self._keys.name(member) for member, _ in members))

    def count(self) -> int:
        """Return the number of entries."""
        return int(self._connection.call(lambda client: client.zcard(self._keys.schedule)))

    def unscheduled(self, cursor: str) -> tuple[str, list[str]]:
        """Return one page of the entries that are missing from the schedule.

        Entries of another schedule, whose prefix is longer than ours, are left out.

        Arguments:
            cursor: where the page begins; ``"0"`` is the first one.

        Returns:
            The cursor of the next page, ``"0"`` after the last one, and the names of the entries.
        """
        pattern = "".join(f"\\{char}" if char in "*?[]\\" else char for char in self._keys.prefix) + "*"
        terms = [cursor, pattern, self._keys.prefix, str(SEARCH_PAGE)]
        cursor, keys = self._connection.run("find_unscheduled", [self._keys.schedule], terms)
        return cursor, [self._keys.name(key) for key in keys if not self._is_anothers(key)]

    def _is_anothers(self, key: str) -> bool:
        schedules = self._keys.longer_schedules(key)
        return any(self._score_in(schedule, key) is not None for schedule in schedules)

    def _score_in(self, schedule: str, key: str) -> float | None:
        return self._connection.call(lambda client: client.zscore(schedule, key))

    def statics(self) -> set[str]:
        """Return the names of the static entries of all applications."""
        return set(self._connection.call(lambda client: client.smembers(self._keys.statics)))

    def origins(self, names: Sequence[str]) -> Mapping[str, str | None]:
        """Return the origin of each entry: empty for a dynamic one, None for one that does not exist.

        Where the key holds another type, it is the name of that type, which is no application's origin.
        """
        return {name: origin for page in pages(names, PAGE) for name, origin in zip(page, self._origins(page))}

    def _origins(self, names: Sequence[str]) -> Iterator[str | None]:
        origins = json.loads(self._connection.run("origins", [self._keys.entry(name) for name in names]))
        return (None if origin is False else origin for origin in origins)


def pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Split names, or other items, into pages of ``size``."""
    return (items[start : start + size] for start in range(0, len(items), size))
