"""What the web page keeps for some time: which sessions were ended, and what undoes a change."""

from __future__ import annotations

from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys

__all__ = ("PageKeys",)


class PageKeys:
    """Texts of the web page under random ids, for all processes that serve it."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def end_session(self, session_id: str, seconds: int) -> None:
        """Remember that a session was ended, for as long as its cookie would be valid."""
        self._keep(self._keys.logout(session_id), "", seconds)

    def has_ended(self, session_id: str) -> bool:
        """Return whether a session was ended."""
        return self._read(self._keys.logout(session_id)) is not None

    def keep_undo(self, undo_id: str, text: str, seconds: int) -> None:
        """Store the JSON of what a change was, and what undoes it."""
        self._keep(self._keys.undo(undo_id), text, seconds)

    def undo(self, undo_id: str) -> str | None:
        """Return the JSON that was stored, or None: it was deleted, or its time is over."""
        return self._read(self._keys.undo(undo_id))

    def forget_undo(self, undo_id: str) -> None:
        """Delete it: the change is undone."""
        self._connection.call(lambda client: client.delete(self._keys.undo(undo_id)))

    def _keep(self, key: str, text: str, seconds: int) -> None:
        self._connection.call(lambda client: client.set(key, text, ex=seconds))

    def _read(self, key: str) -> str | None:
        found: str | None = unless_wrong_type(self._connection, lambda client: client.get(key))
        return found
