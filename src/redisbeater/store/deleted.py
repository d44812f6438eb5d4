"""Deleted entries that can be restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from redisbeater.model.score import Score
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.contents import pages
from redisbeater.store.keys import Keys
from redisbeater.store.snapshot import Snapshot
from redisbeater.times import from_unix

__all__ = ("DeletedEntries",)

#: How many entries one script puts back, or looks for: it keeps the server busy for one or two milliseconds.
PAGE = 250


class DeletedEntries:
    """The deleted entries of a schedule; each is kept for seven days, and only the newest 10,000 are."""

    def __init__(self, connection: Connection, keys: Keys, log_terms: Sequence[str]) -> None:
        self._connection = connection
        self._keys = keys
        #: The key of an entry's log without its name, and how many lines it keeps.
        self._log_terms = log_terms

    def names(self) -> dict[str, datetime]:
        """Return the names of the entries that can be restored, the newest first, and when they were deleted."""
        key = self._keys.deleted_names
        members = unless_wrong_type(
            self._connection, lambda client: client.zrangebyscore(key, 0, "+inf", withscores=True)
        )
        newest = list(reversed(members or ()))
        return {name: from_unix(str(at)) for page in pages(newest, PAGE) for name, at in self._existing(page)}

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

    def restore(self, name: str, score: str, *, log: str) -> str:
        """Put a deleted entry back with a score; return a word that ``undelete.lua`` explains. Its log gets a line."""
        keys, answer = self._keys, self._keys.new_answer()
        ours = [keys.schedule, keys.statics, keys.deleted_names, answer, keys.deleted + name, keys.entry(name)]
        terms = [keys.changes, name, score, *self._log_terms, log]
        outcome: str = self._connection.run("undelete", ours, terms)
        return outcome

    def restore_statics(self, names: Sequence[str], *, application: str, origin: str) -> set[str]:
        """Put static entries of an application back; return the names of those. They get a new origin."""
        return {name for page in pages(names, PAGE) for name in self._restore_statics(page, [application, origin])}

    def _restore_statics(self, names: Sequence[str], terms: Sequence[str]) -> Iterator[str]:
        keys = [self._keys.schedule, self._keys.statics, *(self._keys.entry(name) for name in names)]
        outcomes = self._connection.run("restore", keys, [self._keys.deleted, *terms, *names])
        return (name for name, outcome in zip(names, outcomes) if outcome == "RESTORED")

    def _existing(self, page: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """Return those of the members of which something is kept: others are older than a week."""
        kinds = self._connection.run("inspect_keys", [self._keys.deleted + name for name, _ in page])
        return [member for member, kind in zip(page, kinds) if kind == "hash"]
