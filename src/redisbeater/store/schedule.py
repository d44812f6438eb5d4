"""The schedule in Redis: each transition of an entry is one script.

.. code-block:: text

    save ──> scheduled ──claim──> claimed ──commit──> scheduled, or dormant when it has finished
                 ^                   │ ├──release, undo───> scheduled again, same fire time
                 └────── lease over ─┘ └──quarantine──> dormant, listed as broken

A claim is a lease: when nobody commits, the entry becomes due again with the same fire time.
"""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, repeat

from redisbeater.clock import host_seconds
from redisbeater.config.settings import Config
from redisbeater.exceptions import FormatTooNew, LockNotOwnedError, SchedulePaused, StoreError, ZoneChanging
from redisbeater.model.run import Run
from redisbeater.store import data_format
from redisbeater.store.beats import Beats
from redisbeater.store.broken import BrokenEntries, reports_as_json
from redisbeater.store.claim import TRUSTED_SHARE, Claim, ClaimedEntry
from redisbeater.store.commitment import Commitment, CommitResult, as_json, pages_by_runs
from redisbeater.store.connection.connection import Connection, Undo
from redisbeater.store.contents import Contents, pages
from redisbeater.store.deleted import DeletedEntries
from redisbeater.store.entries import SAVE_PAGE, Entries
from redisbeater.store.failing import FailingEntries
from redisbeater.store.identity import Identity
from redisbeater.store.keys import Keys
from redisbeater.store.lock import Lock
from redisbeater.store.log import KEEP_DELETED_SECONDS, Log
from redisbeater.store.measures import Measures
from redisbeater.store.notifier import Notifier
from redisbeater.store.own_keys import OwnKeys
from redisbeater.store.page_keys import PageKeys
from redisbeater.store.pause import PauseKey
from redisbeater.store.refused import NothingRecorded, lacks_right, refused_alone, will_pass
from redisbeater.store.runs import RunStore
from redisbeater.times import from_unix

__all__ = ("RedisSchedule",)

#: How many claims without a reply are kept; more occur only in an outage that outlasts their leases.
MOST_LOST_CLAIMS = 100


class RedisSchedule(Entries, OwnKeys):
    """One schedule, below one prefix: what beat does with entries that are due. Building it does no I/O.

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
        #: The ids of claims whose replies were lost: the next claim releases what they took.
        self.lost_claims: deque[str] = deque(maxlen=MOST_LOST_CLAIMS)
        self.contents = Contents(self._connection, self.keys)
        self.broken = BrokenEntries(self._connection, self.keys)
        self.log = Log(self._connection, self.keys, config.log_limit)
        self.beats = Beats(self._connection, self.keys)
        self.measures = Measures(self._connection, self.keys)
        self.pause = PauseKey(self._connection, self.keys, config.lease_timeout)
        self.page = PageKeys(self._connection, self.keys)
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
            self.lost_claims.append(claim_id)
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
        while self.lost_claims:
            undo = self._undo_of(self.lost_claims[0])
            self._connection.run(undo.script, undo.keys, undo.args)
            self.lost_claims.popleft()

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

        def write(items: Sequence[Commitment]) -> None:
            try:
                self._commit(claim, items, result, next(is_retry), runs)
            except StoreError as exc:
                if len(items) != 1 or will_pass(exc):
                    raise
                self._commit_essentials(claim, items[0], result, exc)

        result.refused.update((item.entry.name, error) for item, error in refused_alone(write, page))

    def _commit_essentials(self, claim: Claim, item: Commitment, result: CommitResult, error: StoreError) -> None:
        try:
            self._commit(claim, [item.essentials()], result, "1")
        except StoreError as exc:
            if item.next is not None and lacks_right(exc):
                raise NothingRecorded(exc) from exc
            raise
        result.reduced[item.entry.name] = error

    def _commit(
        self,
        claim: Claim,
        commitments: Sequence[Commitment],
        result: CommitResult,
        is_retry: str,
        runs: Sequence[str] = (),
    ) -> None:
        """Commit entries with one script, and add to the result what was not written."""
        keys = [*self._listing_keys, self.keys.receipt(claim.id), *(item.entry.key for item in commitments)]
        args = [claim.id, as_json(commitments), *self._log_terms, str(KEEP_DELETED_SECONDS * 1000)]
        retry_args = [*args, "1", *runs]
        terms = [*args, is_retry, *runs]
        refused = self._connection.run("commit", keys, terms, retry_args=retry_args, with_runs=bool(runs))
        result.add(commitments, json.loads(refused))

    def release(self, claim: Claim, entries: Sequence[ClaimedEntry], *, delay: float = 0.0, reason: str = "") -> None:
        """Release claimed entries: they become due again after ``delay`` seconds with the same fire time.

        With a ``reason`` they are failing until they are committed, edited or deleted.
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

    # Its lock and its channel

    def lock(self) -> Lock:
        """Return a lock for one beat."""
        return Lock(self._connection, self.keys, self._config.lock_timeout)

    def notifier(self) -> Notifier:
        """Return a listener for changes, for one beat."""
        return Notifier(self._connection, self.keys.changes)

    def watcher(self) -> Notifier:
        """Return a listener for changes of entries and, where runs are tracked, of runs, on one connection."""
        events = [self.keys.events] if self._config.track_runs else []  # without them a user may lack that right
        return Notifier(self._connection, self.keys.changes, *events)
