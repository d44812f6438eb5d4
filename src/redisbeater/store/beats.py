"""The beats of a schedule: one line for each, which it writes with its other requests and deletes when it ends."""

from __future__ import annotations

from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys

__all__ = ("Beats",)

#: How many lines are read: a schedule has a few beats, whatever another program writes.
MOST_BEATS = 100


class Beats:
    """The lines of the beats. The scripts of lock and claim write them."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def lines(self) -> dict[str, str]:
        """Return what is stored: token -> JSON."""
        found = unless_wrong_type(self._connection, lambda client: client.hscan(self._keys.beats, count=MOST_BEATS))
        return dict(list(found[1].items())[:MOST_BEATS]) if found else {}

    def remove(self, token: str) -> None:
        """Delete the line of a beat that ends."""
        unless_wrong_type(self._connection, lambda client: client.hdel(self._keys.beats, token))
