"""``RedisSchedule``: one schedule in Redis; entries claimed and committed by beat, read and written by name.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple

import redis

from redisbeater.clock import host_seconds
from redisbeater.config.settings import Config
from redisbeater.config.urls import Topology
from redisbeater.display import quoted
from redisbeater.entry_name import check_name, is_unreserved
from redisbeater.exceptions import (
    CalendarsChanged,
    FormatTooNew,
    InvalidEntry,
    LockNotOwnedError,
    SchedulePaused,
    StoreError,
    ZoneChanging,
)
from redisbeater.model.run import Run
from redisbeater.store import keys as data_format
from redisbeater.store.calendars import CalendarKeys
from redisbeater.store.claim import (
    TRUSTED_SHARE,
    Claim,
    ClaimedEntry,
    Commitment,
    CommitResult,
    Messages,
    more_as_json,
    pages_by_runs,
    rows_of,
)
from redisbeater.store.connection import Connection, UndoScript, unless_wrong_type
from redisbeater.store.contents import KEEP_DELETED, PAGE, SAVE_PAGE, Contents, pages
from redisbeater.store.delays import DelayStore
from redisbeater.store.failure import NothingRecorded, lacks_right, refused_alone, will_pass
from redisbeater.store.incidents import IncidentKeys
from redisbeater.store.keys import SEVERAL, Keys
from redisbeater.store.lock import Lock
from redisbeater.store.measures import FailingEntries, Measures
from redisbeater.store.notices import NoticeKeys
from redisbeater.store.notifier import Notifier
from redisbeater.store.quarantine import BrokenEntries, DeletedEntries, report_text, reports_as_json
from redisbeater.store.records import KEEP_DELETED_SECONDS, Beats, Log, PageKeys, PauseKey, TriggerKeys, ZoneRulesKey
from redisbeater.store.runs import RunStore
from redisbeater.store.server import ServerFacts, name_of_server, read_refusal, read_server
from redisbeater.store.snapshot import Change, Snapshot, changes_as_json
from redisbeater.times import from_unix, instant_of


class Identity:
    """The identity as the last claim found it, or a stand-in where its key holds nothing that can be one.

    The key is left as it is, because another program may miss what it holds. The stand-in is the identity that this
    process knew before, so that the ids of runs stay the same; for a process that knew none it follows from the key.
    Once the key is free, the stand-in is stored there.
    """

    def __init__(self, key: str) -> None:
        self._fallback = str(uuid.uuid5(uuid.NAMESPACE_OID, key))
        self._known = ""
        self._is_stand_in = False

    @property
    def new(self) -> str:
        """The identity to store where there is none."""
        return self._known if self._is_stand_in else str(uuid.uuid4())

    def read(self, stored: str) -> str:
        """Return the identity for a claim; ``stored`` is empty if the key holds another type or no text."""
        self._is_stand_in = not stored
        self._known = stored or self._known or self._fallback
        return self._known


class Proof(NamedTuple):
    """A key that the broker's connection has just stored, and the number of its database.

    A script of the schedule that finds it there knows that the broker is the same server.
    """

    key: str
    database: int


class CommitCall(NamedTuple):
    """What is the same for all entries of a commit.

    Attributes:
        claim_id: the claim.
        proof: the proof of the broker; None: nothing is put into it.
        is_retry: whether the commit may have been executed before.
        runs: the argument about runs; empty: they are not tracked.
        pushed: the messages of runs that are resent.
    """

    claim_id: str
    proof: Proof | None = None
    is_retry: bool = False
    runs: str = ""
    pushed: Sequence[tuple[str, ...]] = ()


class Absence(NamedTuple):
    """That an entry was not there: by the server's time, by the clock of this host, and in which zone entries were."""

    now: datetime
    read_at: float
    zone: str


class SchedulePage(NamedTuple):
    """A page of the entries of a schedule in the order in which they are to run.

    Attributes:
        snapshots: the first entries.
        unread: the names of the others.
        end: how many members come before the next page; None: there are no more.
        total: how many members the schedule has.
        reports: how many reports on broken entries and declarations there are.
    """

    snapshots: Sequence[Snapshot]
    unread: Sequence[str]
    end: int | None
    total: int
    reports: int


#: How long a zone is kept: two applications with different zones must not replan the schedule with each failover.
ZONE_KEPT_MILLISECONDS = 3_600_000

#: For how many seconds the server's time is computed from what it was, and how fast this host's clock may gain: what is
#: computed must not lie ahead of the server.
EXPECTED_SECONDS, CLOCK_DRIFT = 60.0, 0.001

#: How many entries one script reads.
LOAD_PAGE = 250

#: Bytes of texts after which one script reads no further entry: packing more keeps the server busy for so long that its
#: other clients notice.
ENOUGH_BYTES = 4_000_000

NO_MESSAGES: Mapping[str, Messages] = {}

#: How many claims without a reply are kept; more occur only in an outage that outlasts their leases.
MOST_LOST_CLAIMS = 100


class RedisSchedule:
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
        #: When the entry that was read last was not there; None: it was.
        self._absence: Absence | None = None
        #: The ids of claims whose replies were lost: the next claim releases what they took.
        self.lost_claims: deque[str] = deque(maxlen=MOST_LOST_CLAIMS)
        self.contents = Contents(self._connection, self.keys)
        self.broken = BrokenEntries(self._connection, self.keys)
        self.log = Log(self._connection, self.keys, config.log_limit)
        self.beats = Beats(self._connection, self.keys)
        self.measures = Measures(self._connection, self.keys, track_runs=config.track_runs)
        self.zone_rules = ZoneRulesKey(self._connection, self.keys)
        self.calendars = CalendarKeys(self._connection, self.keys)
        self.pause = PauseKey(self._connection, self.keys, config.lease_timeout)
        self.page = PageKeys(self._connection, self.keys)
        self.triggers = TriggerKeys(self._connection, self.keys)
        self.failing = FailingEntries(self._connection, self.keys)
        self.deleted = DeletedEntries(self._connection, self.keys, self._log_terms)
        terms = config.incident_days, config.log_limit, config.told()
        self.incidents = IncidentKeys(self._connection, self.keys, *terms)
        self.notices = NoticeKeys(self._connection, self.keys)
        self.runs = RunStore(self._connection, self.keys, config)
        self.delays = DelayStore(self._connection, self.keys, config)

    # What beat does with due entries

    def claim(
        self,
        *,
        token: str,
        limit: int,
        oldest_only: bool = False,
        line: str = "",
        passes: bool = False,
        calendars: str = "",
    ) -> Claim:
        """Take up to ``limit`` due entries for a lease, as :class:`Claim` orders them; no two beats get the same entry.

        Arguments:
            token: what the lock must hold; empty: there is no lock.
            limit: number of entries.
            oldest_only: where more are due, none of the newest is among them.
            line: what this beat writes about itself; empty: nothing.
            passes: whether it is stored that a beat claims now.
            calendars: the number of the newest change of a calendar by which this beat plans; empty: there is none.

        Raises:
            LockNotOwnedError: the lock is not ours; nothing was taken.
            FormatTooNew: the data was written by a newer beat; nothing was taken.
            ZoneChanging: fire times are still those of the zone before; nothing was taken.
            CalendarsChanged: there is a newer change of a calendar; nothing was taken.
            SchedulePaused: the schedule is paused; nothing was taken.
        """
        self._undo_lost_claims()
        claim_id = uuid.uuid4().hex
        asked_at = host_seconds()
        lease = self._config.lease_timeout
        newest = 0 if oldest_only else limit // 4
        terms = [token, claim_id, str(lease), str(limit), str(newest), self.keys.prefix, self._identity.new]
        terms += [str(data_format.FORMAT), *self._bounds, line, "1" if passes else "", calendars]
        terms += self.runs.claim_terms
        try:
            outcome, text, *rows = self._connection.run(
                "claim",
                self.keys.of_claim(claim_id),
                terms,
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
        if outcome == "RECALENDARED":
            raise CalendarsChanged("a calendar has changed, and entries that name it are planned again")
        if outcome == "PAUSED":
            passed = (before, from_unix(rows[0])) if len(rows) > 1 and (before := instant_of(rows[1])) else None
            raise SchedulePaused(None if int(text) < 0 else int(text) / 1000, passed)
        reply = json.loads(text)
        removed, misnamed = self._settled(reply["missing"])
        next_look, next_resend, next_delay = map(reply.get, ("next_look", "next_resend", "next_delay"))
        return Claim(
            id=claim_id,
            schedule_id=self._identity.read(reply["schedule_id"]),
            now=from_unix(reply["now"]),
            asked_at=asked_at,
            trusted_until=asked_at + lease * TRUSTED_SHARE,
            next_look=from_unix(next_look) if next_look else None,
            entries=tuple(ClaimedEntry.from_rows(rows, self.keys.name)),
            removed=removed,
            misnamed=misnamed,
            zone=reply["zone"],
            next_resend=from_unix(next_resend) if next_resend else None,
            next_delay=from_unix(next_delay) if next_delay else None,
            passed=instant_of(reply.get("passed")),
        )

    def _undo_lost_claims(self) -> None:
        """Release the entries of claims whose replies were lost."""
        while self.lost_claims:
            undo = self._undo_of(self.lost_claims[0])
            self._connection.run(undo.script, undo.keys, undo.args)
            self.lost_claims.popleft()

    def _undo_of(self, claim_id: str) -> UndoScript:
        return UndoScript(script="undo_claim", keys=[self.keys.schedule, self.keys.receipt(claim_id)], args=[claim_id])

    def _settled(self, members: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Remove members that stand for no entry, and quarantine those that stand for one whose name none can have.

        Return the first, and of the others names and reasons. A member that has a hash by now stays.
        """
        removed, misnamed, since = list[str](), dict[str, str](), datetime.now(timezone.utc)
        with suppress(StoreError):  # the entries that were claimed with them must not wait for that
            for page in pages(members, SAVE_PAGE):
                keys = [key for member in page for key in self.keys.of_member(member)]
                reasons = [self._misnaming(member) for member in page]
                reports = [reason and report_text(reason, since) for reason in reasons]
                args = [text for pair in zip(page, reports) for text in pair]
                outcomes = self._connection.run("remove_members", [self.keys.schedule, self.keys.broken, *keys], args)
                for member, reason, outcome in zip(page, reasons, outcomes):
                    if outcome == "REMOVED":
                        removed.append(member)
                    elif outcome == "QUARANTINED":
                        misnamed[self.keys.name(member)] = reason
        return tuple(removed), misnamed

    def _misnaming(self, member: str) -> str:
        """Return why no entry can have the name of a member, as a key or as it is, or an empty text if one can."""
        try:
            for name in (self.keys.name(member), member):
                check_name(name)
        except InvalidEntry as exc:
            return str(exc)
        return ""

    def commit(
        self,
        claim: Claim,
        commitments: Sequence[Commitment],
        resent: Sequence[Run] = (),
        *,
        messages: Mapping[str, Messages] = NO_MESSAGES,
        proof: Proof | None = None,
        is_retry: bool = False,
    ) -> CommitResult:
        """Record the outcome of claimed entries. The result names those of which something was not written.

        Arguments:
            claim: the claim.
            commitments: the outcomes.
            resent: runs that ``RunStore.take()`` returned and that were sent.
            messages: by id, those that are put into the broker only now. There must be no commitments then.
            proof: what shows that the broker is the same server, for commitments with messages.
            is_retry: whether a commit of this claim may have been executed, with its reply lost.

        Raises:
            StoreError: Redis refuses all of them, or everything at this moment.
        """
        result = CommitResult(fenced=[], changed={})
        pushed = tuple(command for _, commands in messages.values() for command in commands)
        call = CommitCall(claim.id, proof, is_retry, pushed=pushed)
        if not self._config.track_runs:
            if commitments:
                self._commit_page(call, commitments, result)
        else:
            for page in pages_by_runs(commitments):
                if page or resent:
                    self._commit_page(call._replace(runs=self.runs.commit_terms(resent, messages)), page, result)
                resent = ()
        if len(result.refused) == len(commitments) > 0:
            raise next(iter(result.refused.values()))
        return result

    def _commit_page(self, call: CommitCall, page: Sequence[Commitment], result: CommitResult) -> None:
        """Commit one page; of an entry whose commit Redis refuses, only its essentials."""
        is_retry = chain([call.is_retry], repeat(True))

        def write(items: Sequence[Commitment]) -> None:
            this_call = call._replace(is_retry=next(is_retry))
            try:
                self._commit(this_call, items, result)
            except StoreError as exc:
                if len(items) != 1 or will_pass(exc):
                    raise
                self._commit_essentials(this_call, items[0], result, exc)

        result.refused.update((item.entry.name, error) for item, error in refused_alone(write, page))

    def _commit_essentials(self, call: CommitCall, item: Commitment, result: CommitResult, error: StoreError) -> None:
        try:
            self._commit(call._replace(is_retry=True, runs=""), [item.essentials()], result)
        except StoreError as exc:
            if item.next is not None and lacks_right(exc):
                raise NothingRecorded(exc) from exc
            raise
        result.reduced[item.entry.name] = error

    def _commit(self, call: CommitCall, commitments: Sequence[Commitment], result: CommitResult) -> dict[str, Any]:
        """Commit entries with one script, add to the result what was not written, and return the reply."""
        keys = [*self._listing_keys, self.keys.receipt(call.claim_id), *(item.entry.key for item in commitments)]
        head = [call.claim_id, more_as_json(commitments), *self._log_terms, str(KEEP_DELETED_SECONDS * 1000)]
        here = self._connection.database if call.proof else 0  # a cluster has none
        proof = call.proof or Proof("", 0)
        tail = [call.runs, proof.key, str(proof.database), str(here)]
        tail += chain(rows_of(commitments), *call.pushed)
        args, retry_args = ([*head, word, *tail] for word in ("1" if call.is_retry else "", "1"))
        text = self._connection.run("commit", keys, args, retry_args=retry_args, with_runs=bool(call.runs))
        reply: dict[str, Any] = json.loads(text)
        result.add(commitments, reply, partial(self._connection.refusal, "commit", with_runs=bool(call.runs)))
        return reply

    def why_apart(self, key: str, database: int) -> str:
        """Return the reason why a commit cannot put messages into the broker, or an empty text if it can."""
        if self._config.url.topology is Topology.CLUSTER:
            return "the schedule is in a Redis Cluster"
        reply = self._commit(CommitCall("", Proof(key, database)), (), CommitResult(fenced=[], changed={}))
        error = reply.get("unproved")
        if error and lacks_right(StoreError(error)):
            return f"the user of the schedule lacks rights to the broker: +select +exists ~redisbeater.proof.*: {error}"
        return "" if error is None else error or "the broker is another server"

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

    # Entries, by name

    def load(self, name: str) -> Snapshot:
        """Read an entry and the clock."""
        return self.load_many([name])[0]

    def expected(self, name: str) -> Snapshot | None:
        """Return an entry that is not stored, if the one that was read last was not, or None if it is to be read.

        Whoever saves many new entries then need not read each before. :meth:`save` refuses a change of an entry that is
        stored all the same, and one that was planned by another zone, or by a time that has not come or has passed.
        """
        found = self._absence
        if found is None or (elapsed := host_seconds() - found.read_at) > EXPECTED_SECONDS:
            return None
        now = found.now + timedelta(seconds=elapsed * (1 - CLOCK_DRIFT))
        return Snapshot(name=name, now=now, definition="", meta="", score=None, zone=found.zone, is_expected=True)

    def load_many(self, names: Sequence[str]) -> list[Snapshot]:
        """Read entries and the clock, page by page."""
        snapshots: list[Snapshot] = []
        while len(snapshots) < len(names):
            snapshots += self._load(names[len(snapshots) : len(snapshots) + LOAD_PAGE])
        return snapshots

    def _load(self, names: Sequence[str]) -> list[Snapshot]:
        """Read entries until their texts are enough for one reply, but at least one."""
        found = self._snapshots(self._read(names), names)
        is_absent = len(found) == 1 and not (found[0].exists or found[0].meta)
        self._absence = Absence(found[0].now, host_seconds(), found[0].zone) if is_absent else None
        return found

    def load_page(self, start: int, number: int) -> SchedulePage:
        """Read a page of the schedule: the failing entries, then the next to run, dormant ones last.

        The failing ones come twice. An entry that beat moves in the meantime may come twice, or not at all.

        Arguments:
            start: how many members come before the page.
            number: how many of its entries are read; fewer where their texts are enough for one reply.
        """
        reply = self._read((), start, PAGE, number)
        names = reply["names"] or []
        snapshots = self._snapshots(reply, names)
        return SchedulePage(
            snapshots=[each for each in snapshots if is_unreserved(each.name)],
            unread=list(filter(is_unreserved, names[len(snapshots) :])),
            end=reply.get("end"),
            total=int(reply["total"]),
            reports=int(reply["reports"]),
        )

    def _snapshots(self, reply: Mapping[str, Any], names: Sequence[str]) -> list[Snapshot]:
        now, entries = from_unix(reply["now"]), reply["entries"] or []
        return [Snapshot.from_reply(name, now, fields or {}, reply["zone"]) for name, fields in zip(names, entries)]

    def clock(self) -> tuple[datetime, str]:
        """Return the server's time, and the zone of entries without their own, which may be empty."""
        reply = self._read(())
        return from_unix(reply["now"]), reply["zone"]

    def rank(self, name: str) -> int | None:
        """Return how many entries come before this one; None when it is not in the schedule."""
        return self._connection.call(lambda client: client.zrank(self.keys.schedule, self.keys.entry(name)))

    def _read(self, names: Sequence[str], *page: int) -> dict[str, Any]:
        ours = [self.keys.schedule, self.keys.broken, self.keys.zone, self.keys.failing]
        terms = [self.keys.prefix, *self._bounds, *map(str, page or (0, 0, 0))]
        reply: dict[str, Any] = json.loads(self._connection.run("load", [*ours, *map(self.keys.entry, names)], terms))
        self.calendars.see(reply.get("calendars", ""))
        return reply

    def save(self, changes: Sequence[Change], *, planned_by: str = "") -> dict[str, str]:
        """Create or change entries that were read, in one step: at most ``SAVE_PAGE`` of them.

        Arguments:
            changes: what to write.
            planned_by: the text of a :class:`~redisbeater.schedules.zones.PlannedBy`; empty: it is known.

        Returns:
            The names of those that were not written, and why: ``CONFLICT``, it was changed since it was read,
            ``FOREIGN``, the key holds something that is no entry, or ``NOT_OURS``, it is not of this schedule. With an
            empty name the zones of which other rules than those of this program count.
        """
        if not changes:
            return {}
        names = [change.name for change in changes]
        terms = [self.keys.changes, _message(names), changes_as_json(changes), self._bounds[0], *self._log_terms]
        terms += [planned_by, *self.runs.edit_terms]
        keys = self._keys_of_edit(names, self.keys.zone, self.keys.zone_rules)
        unwritten = self._connection.run("save", keys, terms, with_runs=self._config.track_runs)
        return {names[position - 1] if position else "": word for position, word in unwritten}

    def not_ours(self, name: str) -> InvalidEntry:
        """Return why no entry of this schedule can have a name that a script answers with ``NOT_OURS``."""
        owners = f"another schedule, or to a program that has not added it to {self.keys.schedule}"
        return InvalidEntry("$.name", f"{quoted(name)} belongs to {owners}; choose another name")

    def delete(self, name: str, *, origin: str = "", log: str = "") -> str:
        """Delete an entry; with an ``origin``, only if it still has that one, and without keeping anything of it.

        It can be restored for seven days, while it is one of the newest 10,000. Its log gets the line ``log``, and is
        kept as long. Return ``DELETED``, ``STATIC`` if it was a static one, or an empty text if it was not deleted.
        """
        return self._delete([name], {name: origin}, log, 0 if origin else KEEP_DELETED).get(name, "")

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

    # The keys that belong to no entry

    @property
    def errors(self) -> dict[str, int]:
        """How many tries to ask Redis have failed, by kind: ``timeout``, ``connection``, ``refused``, ``readonly``."""
        return self._connection.errors

    @property
    def newest_error(self) -> str:
        """What the newest of these tries said; empty if none has failed."""
        return self._connection.newest_error

    def foreign_types(self) -> dict[str, str]:
        """Return the keys of the schedule itself that hold another type than beat writes: key -> that type."""
        expected = self.keys.bookkeeping()
        try:
            found = self._connection.run("inspect_keys", list(expected))
        except StoreError as exc:
            if not lacks_right(exc):
                raise
            # Beat works without its right to keys that an older version did not need.
            expected = {key: kind for key, kind in expected.items() if key not in self.keys.newer}
            found = self._connection.run("inspect_keys", list(expected))
        return {key: kind for key, kind in zip(expected, found) if kind not in ("none", expected[key])}

    def adopt_format(self) -> None:
        """Record the version that this beat writes; never lower the one that is stored.

        Raises:
            FormatTooNew: the data was written by a newer beat; nothing was written.
        """
        outcome, found = self._connection.run("adopt_format", [self.keys.format], [str(data_format.FORMAT)])
        if outcome == "OUTDATED":
            raise FormatTooNew(data_format.refusal(self.keys.format, found))

    def refusal_of_format(self, version: int) -> str:
        """Return why entries that need a version cannot be saved, or an empty text; record a version if none was."""
        found = self._connection.run("require_format", [self.keys.format], [str(version)])
        return data_format.too_old(self.keys.format, found) if found else ""

    def adopt_zone(self, wanted: str) -> tuple[str, str, str]:
        """Record the application's zone as that of entries without their own, unless it was changed within an hour.

        Returns:
            One of the words that ``adopt_zone.lua`` explains, the zone of those entries, and the zone before.
        """
        word, zone, before = self._connection.run("adopt_zone", [self.keys.zone, self.keys.zone_before], [wanted])
        return word, zone, before

    def finish_zone_change(self) -> None:
        """Record that all fire times are those of the new zone: claims continue, and another change has to wait."""
        self._connection.call(lambda client: client.pexpire(self.keys.zone_before, ZONE_KEPT_MILLISECONDS))

    def eviction_policy(self) -> str | None:
        """Return the server's ``maxmemory-policy``; None when it has no memory limit, or forbids the question."""
        return self._connection.call(_eviction_policy)

    def server(self) -> str:
        """Return program and version of the server, such as ``valkey 9.1.0``, or an empty text if it hides them."""
        return self._connection.call(_server)

    def server_facts(self) -> ServerFacts:
        """Return the facts that the server of the schedule tells about itself."""
        return self._connection.call(partial(read_server, key=self.keys.schedule))

    def refusal(self) -> str:
        """Return why the server refuses changes and what to do, or an empty text."""
        return self._connection.call(partial(read_refusal, key=self.keys.schedule))

    def restore_identity(self, identity: str) -> None:
        """Give the schedule the identity of a backup, so that the ids of its runs are those from before."""
        self.incidents.allow_identity(identity)
        self._connection.call(lambda client: client.set(self.keys.id, identity))

    def leader(self) -> str:
        """Return the token of the beat that holds the lock, or an empty text if none does."""
        return unless_wrong_type(self._connection, lambda client: client.get(self.keys.lock)) or ""

    def identity(self) -> str:
        """Return the identity of the schedule, or an empty text if it has none."""
        return unless_wrong_type(self._connection, lambda client: client.get(self.keys.id)) or ""


def _server(client: Any) -> str:
    try:
        about = client.info("server")
    except redis.ResponseError:
        return ""
    return name_of_server(about)


def _eviction_policy(client: Any) -> str | None:
    try:
        settings = {**client.config_get("maxmemory"), **client.config_get("maxmemory-policy")}
        limit, policy = settings["maxmemory"], settings["maxmemory-policy"]
    except (redis.ResponseError, KeyError):  # CONFIG is often forbidden; INFO is less so
        try:
            memory = client.info("memory")
        except redis.ResponseError:
            return None
        limit, policy = memory.get("maxmemory", 0), memory.get("maxmemory_policy")
    return policy if int(limit) else None


def _message(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else SEVERAL
