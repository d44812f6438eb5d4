"""Deleted entries that can be restored."""

from __future__ import annotations

from datetime import datetime

from redisbeater.instant import from_unix
from redisbeater.model.score import Score
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys
from redisbeater.store.snapshot import Snapshot

__all__ = ("DeletedEntries",)


class DeletedEntries:
    """The deleted entries of a schedule; each is kept for seven days, and only the newest 100 are."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def names(self) -> dict[str, datetime]:
        """Return the names of the entries that can be restored, the newest first, and when they were deleted."""
        key = self._keys.deleted_names
        members = unless_wrong_type(
            self._connection, lambda client: client.zrangebyscore(key, 0, "+inf", withscores=True)
        )
        return {name: from_unix(str(at)) for name, at in reversed(members or ()) if self._exists(name)}

    def load(self, name: str, now: datetime, zone: str) -> Snapshot | None:
        """Return what is kept of a deleted entry; None: nothing is."""
        fields = unless_wrong_type(self._connection, lambda client: client.hgetall(self._keys.deleted + name))
        if not fields or "definition" not in fields:
            return None
        score = fields.get("score")
        return Snapshot(
            name=name,
            now=now,
            definition=fields["definition"],
            meta=fields.get("meta", ""),
            score=Score.from_text(score) if score else None,
            origin=fields.get("origin", ""),
            skipped=fields.get("skipped", ""),
            recorded_run=fields.get("recorded_run", ""),
            zone=zone,
        )

    def _exists(self, name: str) -> bool:
        kind = self._connection.call(lambda client: client.type(self._keys.deleted + name))
        return kind in ("hash", b"hash")
