"""The schedule in Redis: each transition of an entry is one script.

.. code-block:: text

    save ──> scheduled ──claim──> claimed ──commit──> scheduled, or dormant when it has finished
                 ^                   │ ├──release, undo───> scheduled again, same fire time
                 └────── lease over ─┘ └──quarantine──> dormant, listed as broken

A claim is a lease: when nobody commits, the entry comes up again with the same fire time.
"""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, repeat
from typing import Any

from redisbeater.config.settings import Config
from redisbeater.exceptions import FormatTooNew, LockNotOwnedError, SchedulePaused, StoreError, ZoneChanging
from redisbeater.host_clock import host_seconds
from redisbeater.instant import from_unix
from redisbeater.model.run import Run
from redisbeater.store import data_format
from redisbeater.store.beats import Beats
from redisbeater.store.broken import BrokenEntries, reports_as_json
from redisbeater.store.change import Change, changes_as_json
from redisbeater.store.claim import TRUSTED_SHARE, Claim, ClaimedEntry
from redisbeater.store.commitment import Commitment, CommitResult, as_json, pages_by_runs
from redisbeater.store.connection.connection import Connection, Undo
from redisbeater.store.contents import Contents, pages
from redisbeater.store.deleted import DeletedEntries
from redisbeater.store.failing import FailingEntries
from redisbeater.store.identity import Identity
from redisbeater.store.keys import SEVERAL, Keys
from redisbeater.store.lock import Lock
from redisbeater.store.log import KEEP_DELETED_SECONDS, Log
from redisbeater.store.measures import Measures
from redisbeater.store.notifier import Notifier
from redisbeater.store.own_keys import OwnKeys
from redisbeater.store.pause import PauseKey
from redisbeater.store.refused import refused_alone, will_pass
from redisbeater.store.runs import RunStore
from redisbeater.store.snapshot import Snapshot

__all__ = ("KEEP_DELETED", "SAVE_PAGE", "RedisSchedule")

#: How many claims without a reply are kept; more occur only in an outage that outlasts their leases.
MOST_LOST_CLAIMS = 100

#: How many entries one script reads.
LOAD_PAGE = 250

#: Bytes of texts after which one script reads no further entry: packing more keeps the server busy for so long that its
#: other clients notice.
ENOUGH_BYTES = 4_000_000

#: How many deleted entries can be restored: who deletes thousands one by one must not fill Redis.
KEEP_DELETED = 100

#: How many entries one script writes: it keeps the server busy for one or two milliseconds.
SAVE_PAGE = 250


class RedisSchedule(OwnKeys):
    """One schedule, below one prefix. Building it does no I/O.

    All its methods raise :class:`~redisbeater.exceptions.StoreUnavailable` when Redis cannot be reached and
    :class:`~redisbeater.exceptions.StoreError` when it refuses.
    """

    def __init__(self, config: Config) -> None:
        self.keys = Keys(config.key_prefix, config.lock_name)
        #: How ``redis-cli`` reaches this Redis, for hints.
        self.command_line = config.url.command_line(config.redis_options)
        #: Where this Redis is, without a password.
        self.address = config.url.address
        self._config = config
        self._connection = Connection(config)
        self._identity = Identity(self.keys.id)
        self._lost_claims: deque[str] = deque(maxlen=MOST_LOST_CLAIMS)
        self.contents = Contents(self._connection, self.keys)
        self.broken = BrokenEntries(self._connection, self.keys)
        self.log = Log(self._connection, self.keys, config.log_limit)
        self.beats = Beats(self._connection, self.keys)
        self.measures = Measures(self._connection, self.keys)
        self.pause = PauseKey(self._connection, self.keys, config.lease_timeout)
        self.failing = FailingEntries(self._connection, self.keys)
        self.deleted = DeletedEntries(self._connection, self.keys, self._log_terms)
        self.runs = RunStore(self._connection, self.keys, config)

    # What beat does with due entries

    def claim(self, *, token: str, limit: int, oldest_only: bool = False, line: str = "") -> Claim:
        """Take up to ``limit`` due entries for a lease, as :class:`Claim` orders them; no two beats get the same entry.

        Arguments:
            token: what the lock must hold; empty: there is no lock.
            limit: number of entries.
            oldest_only: where more are due, none of the newest is among them.
            line: what this beat writes about itself; empty: nothing.

        Raises:
            LockNotOwnedError: the lock is not ours; nothing was taken.
            FormatTooNew: the data was written by a newer beat; nothing was taken.
            ZoneChanging: fire times are still those of the zone before; nothing was taken.
            SchedulePaused: the schedule is paused; nothing was taken.
        """
        self._undo_lost_claims()
        claim_id = uuid.uuid4().hex
        asked_at = host_seconds()
        lease = self._config.lease_timeout
        newest = 0 if oldest_only else limit // 4
        terms = [token, claim_id, str(lease), str(limit), str(newest), self.keys.prefix]
        try:
            outcome, text = self._connection.run(
                "claim",
                self.keys.of_claim(claim_id),
                [*terms, self._identity.new, str(data_format.FORMAT), *self._bounds, line, *self.runs.claim_terms],
                undo=self._undo_of(claim_id),
                with_runs=self._config.track_runs,
            )
        except StoreError:
            self._lost_claims.append(claim_id)
            raise
        if outcome == "FENCED":
            raise LockNotOwnedError("another beat holds the lock, or it has run out")
        if outcome == "OUTDATED":
            raise FormatTooNew(data_format.refusal(self.keys.format, text))
        if outcome == "REPLANNING":
            raise ZoneChanging("the time zone of the schedule has changed, and its fire times are planned again")
        if outcome == "PAUSED":
            raise SchedulePaused(None if int(text) < 0 else int(text) / 1000)
        reply = json.loads(text)
        next_look, next_resend = reply.get("next_look"), reply.get("next_resend")
        return Claim(
            id=claim_id,
            schedule_id=self._identity.read(reply["schedule_id"]),
            now=from_unix(reply["now"]),
            asked_at=asked_at,
            trusted_until=asked_at + lease * TRUSTED_SHARE,
            next_look=from_unix(next_look) if next_look else None,
            entries=tuple(ClaimedEntry.from_reply(self.keys.name(entry["key"]), entry) for entry in reply["entries"]),
            removed=tuple(self._removed(reply["missing"])),
            zone=reply["zone"],
            next_resend=from_unix(next_resend) if next_resend else None,
        )

    def _undo_lost_claims(self) -> None:
        """Release the entries of claims whose replies were lost."""
        while self._lost_claims:
            undo = self._undo_of(self._lost_claims[0])
            self._connection.run(undo.script, undo.keys, undo.args)
            self._lost_claims.popleft()

    def _undo_of(self, claim_id: str) -> Undo:
        return Undo(script="undo_claim", keys=[self.keys.schedule, self.keys.receipt(claim_id)], args=[claim_id])

    def _removed(self, members: Sequence[str]) -> Iterator[str]:
        """Remove members that stand for no entry, and return them; a member that has a hash by now stays."""
        with suppress(StoreError):  # the entries that were claimed with them must not wait for that
            for page in pages(members, SAVE_PAGE):
                keys = [key for member in page for key in self.keys.of_member(member)]
                outcomes = self._connection.run("remove_members", [self.keys.schedule, *keys], page)
                yield from (member for member, outcome in zip(page, outcomes) if outcome == "REMOVED")

    def commit(self, claim: Claim, commitments: Sequence[Commitment], resent: Sequence[Run] = ()) -> CommitResult:
        """Record the outcome of claimed entries. The result names those of which something was not written.

        Arguments:
            claim: the claim.
            commitments: the outcomes.
            resent: runs that ``RunStore.take()`` returned and that were sent.

        Raises:
            StoreError: Redis refuses all of them, or everything at this moment.
        """
        result = CommitResult(fenced=[], changed={})
        if not self._config.track_runs:
            if commitments:
                self._commit_page(claim, commitments, result, ())
        else:
            for page in pages_by_runs(commitments):
                if page or resent:
                    self._commit_page(claim, page, result, self.runs.commit_terms(resent))
                resent = ()
        if len(result.refused) == len(commitments) > 0:
            raise next(iter(result.refused.values()))
        return result

    def _commit_page(self, claim: Claim, page: Sequence[Commitment], result: CommitResult, runs: Sequence[str]) -> None:
        """Commit one page; of an entry whose commit Redis refuses, what it needs to go on."""
        is_retry = chain([""], repeat("1"))
        refused = refused_alone(lambda items: self._commit(claim, items, result, next(is_retry), runs), page)
        for item, error in refused:
            try:
                self._commit(claim, [item.essentials()], result, "1")
                result.reduced[item.entry.name] = error
            except StoreError as exc:
                if will_pass(exc):
                    raise
                result.refused[item.entry.name] = exc

    def _commit(
        self,
        claim: Claim,
        commitments: Sequence[Commitment],
        result: CommitResult,
        is_retry: str,
        runs: Sequence[str] = (),
    ) -> None:
        """Commit entries with one script, and add to the result what was not written."""
        keys = [*self._own_keys, self.keys.receipt(claim.id), *(item.entry.key for item in commitments)]
        args = [claim.id, as_json(commitments), *self._log_terms, str(KEEP_DELETED_SECONDS * 1000)]
        refused = self._connection.run(
            "commit",
            keys,
            [*args, is_retry, *runs],
            retry_args=[*args, "1", *runs],
            with_runs=bool(runs),
        )
        for place, stored in json.loads(refused).items():
            name = commitments[int(place)].entry.name
            if "fenced" in stored:
                result.fenced.append(name)
            else:
                fields = ("definition", "meta", "recorded_run")
                definition, meta, recorded_run = (stored.get(field, "") for field in fields)
                result.changed[name] = definition, meta, recorded_run

    def release(self, claim: Claim, entries: Sequence[ClaimedEntry], *, delay: float = 0.0, reason: str = "") -> None:
        """Release claimed entries: they come up again after ``delay`` seconds with the same fire time.

        With a reason they are failing until they are committed, edited or deleted.
        """
        if entries:
            self._connection.run(
                "release",
                [self.keys.schedule, self.keys.failing, *(entry.key for entry in entries)],
                [claim.id, f"{delay:.6f}", reason],
            )

    def quarantine(self, claim: Claim, broken: Sequence[tuple[ClaimedEntry, str]]) -> set[str]:
        """Quarantine claimed entries, each with a reason, page by page.

        Returns:
            The names of those that were quarantined; the others were edited since, or are not ours any more.
        """
        names: set[str] = set()
        for page in pages(broken, SAVE_PAGE):
            for item, _ in refused_alone(lambda items: names.update(self._quarantine(claim, items)), page):
                names.update(self._quarantine(claim, [item], is_logged=False))
        return names

    def _quarantine(
        self, claim: Claim, broken: Sequence[tuple[ClaimedEntry, str]], *, is_logged: bool = True
    ) -> Iterator[str]:
        ours, entries = [self.keys.schedule, self.keys.broken, self.keys.failing], [entry for entry, _ in broken]
        outcomes = self._connection.run(
            "quarantine",
            [*ours, self.keys.new_answer(), *(entry.key for entry in entries)],
            [claim.id, reports_as_json(broken, claim.now, is_logged=is_logged), *self._log_terms],
        )
        return (entry.name for entry, outcome in zip(entries, outcomes) if outcome == "QUARANTINED")

    # What any program does with entries

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
            The names of those that were not written, and why: ``CONFLICT``, it was changed since it was read, or
            ``FOREIGN``, the key holds something that is no entry.
        """
        if not changes:
            return {}
        names = [change.name for change in changes]
        terms = [self.keys.changes, _message(names), changes_as_json(changes), self._bounds[0], *self._log_terms]
        terms += [planned_by, *self.runs.edit_terms]
        keys = self._keys_of_edit(names, self.keys.zone)
        unwritten = self._connection.run("save", keys, terms, with_runs=self._config.track_runs)
        return {names[position - 1]: word for position, word in unwritten}

    def delete(self, name: str, *, origin: str = "", log: str = "") -> str:
        """Delete an entry; with an ``origin``, only if it still has that one, and without keeping anything of it.

        It can be restored for seven days, while it is one of the newest 100. Its log gets the line ``log``, and is
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
        return [*self._own_keys, self.keys.new_answer(), *more, *(self.keys.entry(name) for name in names)]

    def rank(self, name: str) -> int | None:
        """Return how many entries come before this one; None when it is not in the schedule."""
        return self._connection.call(lambda client: client.zrank(self.keys.schedule, self.keys.entry(name)))

    @property
    def _log_terms(self) -> list[str]:
        """The key of an entry's log without its name, and how many lines it keeps."""
        return [self.keys.log_of(""), str(self._config.log_limit)]

    @property
    def _own_keys(self) -> list[str]:
        """The keys that every change of an entry may concern."""
        return [self.keys.schedule, self.keys.broken, self.keys.statics, self.keys.failing]

    @property
    def _bounds(self) -> list[str]:
        """The bytes of the texts of one entry, and of all that one script reads."""
        return [str(self._config.max_entry_size), str(ENOUGH_BYTES)]

    # Its lock and its channel

    def lock(self) -> Lock:
        """Return a lock for one beat."""
        return Lock(self._connection, self.keys, self._config.lock_timeout)

    def notifier(self) -> Notifier:
        """Return a listener for changes, for one beat."""
        return Notifier(self._connection, self.keys.changes)

    def watcher(self) -> Notifier:
        """Return a listener for changes of entries and of runs, on one connection, for whoever watches both."""
        return Notifier(self._connection, self.keys.changes, self.keys.events)


def _message(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else SEVERAL
