"""The entries of a schedule as any program reads and edits them: each read, and each edit, is one script.

Names go in and snapshots come out. What beat alone does with entries that are due is in ``schedule.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from redisbeater.config.settings import Config
from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.store.change import Change, changes_as_json
from redisbeater.store.connection.connection import Connection
from redisbeater.store.contents import pages
from redisbeater.store.keys import SEVERAL, Keys
from redisbeater.store.log import KEEP_DELETED_SECONDS
from redisbeater.store.runs import RunStore
from redisbeater.store.snapshot import Snapshot
from redisbeater.times import from_unix

__all__ = ("KEEP_DELETED", "SAVE_PAGE", "Entries")

#: How many entries one script reads.
LOAD_PAGE = 250

#: Bytes of texts after which one script reads no further entry: packing more keeps the server busy for so long that its
#: other clients notice.
ENOUGH_BYTES = 4_000_000

#: How many deleted entries can be restored: who deletes entries all day must not fill Redis.
KEEP_DELETED = 10_000

#: How many entries one script writes: it keeps the server busy for one or two milliseconds.
SAVE_PAGE = 250


class Entries:
    """The entries of one schedule: read, saved, deleted and renamed by name."""

    keys: Keys
    runs: RunStore
    _connection: Connection
    _config: Config

    def load(self, name: str) -> Snapshot:
        """Read an entry and the clock."""
        return self.load_many([name])[0]

    def load_many(self, names: Sequence[str]) -> list[Snapshot]:
        """Read entries and the clock, page by page."""
        snapshots: list[Snapshot] = []
        while len(snapshots) < len(names):
            snapshots += self._load(names[len(snapshots) : len(snapshots) + LOAD_PAGE])
        return snapshots

    def _load(self, names: Sequence[str]) -> list[Snapshot]:
        """Read entries until their texts are enough for one reply, but at least one."""
        now, zone, entries = self._read(names)
        return [Snapshot.from_reply(name, now, fields or {}, zone) for name, fields in zip(names, entries)]

    def clock(self) -> tuple[datetime, str]:
        """Return the time of the server's clock, and the zone of entries without their own; empty: none is stored."""
        now, zone, _ = self._read(())
        return now, zone

    def rank(self, name: str) -> int | None:
        """Return how many entries come before this one; None when it is not in the schedule."""
        return self._connection.call(lambda client: client.zrank(self.keys.schedule, self.keys.entry(name)))

    def _read(self, names: Sequence[str]) -> tuple[datetime, str, list[Any]]:
        keys = [self.keys.schedule, self.keys.broken, self.keys.zone, *(self.keys.entry(name) for name in names)]
        reply = json.loads(self._connection.run("load", keys, [self.keys.prefix, *self._bounds]))
        return from_unix(reply["now"]), reply["zone"], reply["entries"] or []

    def save(self, changes: Sequence[Change], *, planned_by: str = "") -> dict[str, str]:
        """Create or change entries that were read, in one step: at most ``SAVE_PAGE`` of them.

        Arguments:
            changes: what to write.
            planned_by: the zone by which their scores were planned, to be stored if none is.

        Returns:
            The names of those that were not written, and why: ``CONFLICT``, it was changed since it was read,
            ``FOREIGN``, the key holds something that is no entry, or ``NOT_OURS``, it is not of this schedule.
        """
        if not changes:
            return {}
        names = [change.name for change in changes]
        terms = [self.keys.changes, _message(names), changes_as_json(changes), self._bounds[0], *self._log_terms]
        terms += [planned_by, *self.runs.edit_terms]
        keys = self._keys_of_edit(names, self.keys.zone)
        unwritten = self._connection.run("save", keys, terms, with_runs=self._config.track_runs)
        return {names[position - 1]: word for position, word in unwritten}

    def not_ours(self, name: str) -> InvalidEntry:
        """Return why no entry of this schedule can have a name that a script answers with ``NOT_OURS``."""
        owners = f"another schedule, or to a program that has not added it to {self.keys.schedule}"
        return InvalidEntry("$.name", f"{quoted(name)} belongs to {owners}; choose another name")

    def delete(self, name: str, *, origin: str = "", log: str = "") -> str:
        """Delete an entry; with an ``origin``, only if it still has that one, and without keeping anything of it.

        It can be restored for seven days, while it is one of the newest 10,000. Its log gets the line ``log``, and is
        kept as long. Return ``DELETED``, ``STATIC`` if it was a static one, or an empty text if it was not deleted.
        """
        return self._delete([name], {name: origin}, log, KEEP_DELETED).get(name, "")

    def delete_many(self, origins: Mapping[str, str], *, log: str = "", kept: int = 0) -> dict[str, str]:
        """Delete entries by name, page by page, each as :meth:`delete`. Return those that were deleted.

        Of all dynamic entries that were deleted, the newest ``kept`` can be restored.
        """
        deleted: dict[str, str] = {}
        for page in pages(list(origins), SAVE_PAGE):
            deleted.update(self._delete(page, origins, log, kept))
        return deleted

    def _delete(self, names: Sequence[str], origins: Mapping[str, str], log: str, newest: int) -> dict[str, str]:
        kept = [self.keys.deleted, str(KEEP_DELETED_SECONDS * 1000), str(newest)]
        pairs = (text for name in names for text in (name, origins[name]))
        runs = self.runs.edit_terms or [""]
        args = [self.keys.changes, _message(names), *kept, *self._log_terms, log, *runs, *pairs]
        keys = self._keys_of_edit(names, self.keys.deleted_names)
        outcomes = self._connection.run("delete", keys, args, with_runs=self._config.track_runs)
        return {name: outcome for name, outcome in zip(names, outcomes) if outcome in ("DELETED", "STATIC")}

    def rename(self, snapshot: Snapshot, new: str, *, definition: str, score: str, log: str) -> str:
        """Give an entry that was read another name; return a word that ``rename.lua`` explains.

        Arguments:
            snapshot: the entry as it was read.
            new: the name that it gets.
            definition: its definition with that name.
            score: its new score; empty: it keeps the one that it has.
            log: a line for its log.
        """
        keys, name = self.keys, snapshot.name
        ours = [keys.schedule, keys.broken, keys.failing, self.keys.new_answer(), keys.entry(name), keys.entry(new)]
        terms = [keys.changes, SEVERAL, name, new, definition, snapshot.seen, score, self._bounds[0]]
        terms += [*self._log_terms, log, *self.runs.edit_terms]
        outcome: str = self._connection.run("rename", ours, terms, with_runs=self._config.track_runs)
        return outcome

    def _keys_of_edit(self, names: Sequence[str], *more: str) -> list[str]:
        return [*self._listing_keys, self.keys.new_answer(), *more, *(self.keys.entry(name) for name in names)]

    @property
    def _log_terms(self) -> list[str]:
        """The key of an entry's log without its name, and how many lines it keeps."""
        return [self.keys.log_of(""), str(self._config.log_limit)]

    @property
    def _listing_keys(self) -> list[str]:
        """The keys that list entries: the whole schedule, and the broken, the static and the failing ones."""
        return [self.keys.schedule, self.keys.broken, self.keys.statics, self.keys.failing]

    @property
    def _bounds(self) -> list[str]:
        """The bytes of the texts of one entry, and of all that one script reads."""
        return [str(self._config.max_entry_size), str(ENOUGH_BYTES)]


def _message(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else SEVERAL
