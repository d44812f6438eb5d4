"""The schedule in Redis: each transition of an entry is one script.

.. code-block:: text

    save ──> scheduled ──claim──> claimed ──commit──> scheduled, or dormant when it has finished
                 ^                   │ ├──release, recall──> scheduled again, same fire time
                 └────── lease over ─┘ └──quarantine──> dormant, listed as broken

A claim is a lease: when nobody commits, the entry comes up again with the same fire time.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from typing import Any

import redis

from redisbeater.config import Config
from redisbeater.exceptions import LockNotOwnedError, StoreError
from redisbeater.instant import from_unix
from redisbeater.score import Score
from redisbeater.store.claim import Claim, ClaimedEntry
from redisbeater.store.commitment import Commitment, CommitResult, as_json
from redisbeater.store.connection import Connection, Undo
from redisbeater.store.keys import DECLARATION, Keys
from redisbeater.store.lock import Lock
from redisbeater.store.notifier import Notifier
from redisbeater.store.snapshot import Snapshot, digest, sha1

__all__ = ("RedisSchedule",)

#: The part of a lease in which runs are sent; the rest is for their commit, which must not come after its end.
TRUSTED_SHARE = 0.5

#: How many claims without a reply are remembered; more come only in an outage that outlasts their leases.
MOST_LOST_CLAIMS = 100

#: How many names one round trip asks for.
PAGE = 1000

#: How many entries one script reads.
LOAD_PAGE = 200


class RedisSchedule:
    """One schedule, below one prefix. Building it does no I/O.

    All its methods raise :class:`~redisbeater.exceptions.StoreUnavailable` when Redis cannot be reached and
    :class:`~redisbeater.exceptions.StoreError` when it refuses.
    """

    def __init__(self, config: Config) -> None:
        self.keys = Keys(config.key_prefix, config.lock_name)
        self._config = config
        self._connection = Connection(config)
        self._lost_claims: deque[str] = deque(maxlen=MOST_LOST_CLAIMS)

    # What beat does with due entries

    def claim(self, *, token: str, limit: int) -> Claim:
        """Take up to ``limit`` due entries, oldest first, for a lease; an entry is never taken by two.

        Arguments:
            token: what the lock must hold; empty: no lock is asked for.

        Raises:
            LockNotOwnedError: the lock is not ours; nothing was taken.
        """
        self._recall_lost()
        claim_id = uuid.uuid4().hex
        asked_at = time.monotonic()
        lease = self._config.lease_timeout
        try:
            reply = self._connection.run(
                "claim",
                [self.keys.schedule, self.keys.lock, self.keys.id, self.keys.receipt(claim_id)],
                [token, claim_id, str(lease), str(limit), self.keys.prefix, str(uuid.uuid4())],
                undo=self._recall_of(claim_id),
            )
        except StoreError:
            self._lost_claims.append(claim_id)
            raise
        if reply[0] == "FENCED":
            raise LockNotOwnedError("another beat holds the lock, or it has run out")
        _, now, schedule_id, next_look, missing, entries = reply
        return Claim(
            id=claim_id,
            schedule_id=schedule_id,
            now=from_unix(now),
            asked_at=asked_at,
            trusted_until=asked_at + lease * TRUSTED_SHARE,
            next_look=from_unix(next_look) if next_look else None,
            entries=tuple(self._claimed(*entry) for entry in json.loads(entries)),
            removed=tuple(self._discarded(missing)),
        )

    def _recall_lost(self) -> None:
        """Give back what claims may have taken whose replies never came."""
        while self._lost_claims:
            recall = self._recall_of(self._lost_claims[0])
            self._connection.run(recall.script, recall.keys, recall.args)
            self._lost_claims.popleft()

    def _recall_of(self, claim_id: str) -> Undo:
        return Undo(script="recall", keys=[self.keys.schedule, self.keys.receipt(claim_id)], args=[claim_id])

    def _discarded(self, members: Sequence[str]) -> Iterator[str]:
        """Remove members that have no hash; those that may have one after all stay."""
        with suppress(StoreError):  # the entries that were claimed with them must not wait for that
            for member in members:
                keys = [self.keys.entry(member), *([member] if member.startswith(self.keys.prefix) else [])]
                if self._connection.run("discard", [self.keys.schedule, *keys], [member]) == "DISCARDED":
                    yield member

    def _claimed(self, key: str, definition: str, meta: str, fire_time: str, anchor: str, skipped: str) -> ClaimedEntry:
        return ClaimedEntry(
            key=key,
            name=self.keys.name(key),
            definition=definition,
            meta=meta,
            fire_time=from_unix(fire_time),
            anchor=anchor,
            skipped=skipped,
        )

    def commit(self, claim: Claim, commitments: Sequence[Commitment]) -> CommitResult:
        """Record what became of claimed entries; where the result names one, nothing was written of it."""
        result = CommitResult(fenced=[], changed={})
        if not commitments:
            return result
        ours = [self.keys.schedule, self.keys.broken, self.keys.statics, self.keys.receipt(claim.id)]
        keys = [*ours, *(item.entry.key for item in commitments)]
        refused = self._connection.run("commit", keys, [claim.id, as_json(commitments)])
        for position, texts in json.loads(refused).items():
            name = commitments[int(position)].entry.name
            if texts:
                result.changed[name] = (texts[0], texts[1])
            else:
                result.fenced.append(name)
        return result

    def release(self, claim: Claim, entries: Sequence[ClaimedEntry], *, delay: float = 0.0, reason: str = "") -> None:
        """Give claimed entries back unsent, to come up again after ``delay`` seconds with the same fire time."""
        if entries:
            self._connection.run(
                "release",
                [self.keys.schedule, *(entry.key for entry in entries)],
                [claim.id, f"{delay:.6f}", reason],
            )

    def quarantine(self, claim: Claim, entry: ClaimedEntry, reason: str) -> bool:
        """Set a claimed entry aside; False: it was edited meanwhile, or is no longer ours, and gets another try."""
        outcome = self._connection.run(
            "quarantine",
            [self.keys.schedule, self.keys.broken, entry.key],
            [claim.id, entry.name, sha1(entry.definition), _report(reason, claim.now)],
        )
        return outcome == "QUARANTINED"

    # What anybody does with one entry

    def load(self, name: str) -> Snapshot:
        """Read an entry and the clock."""
        return self.load_many([name])[0]

    def load_many(self, names: Sequence[str]) -> list[Snapshot]:
        """Read entries and the clock, page by page."""
        return [snapshot for page in _pages(names, LOAD_PAGE) for snapshot in self._load(page)]

    def _load(self, names: Sequence[str]) -> list[Snapshot]:
        keys = [self.keys.schedule, *(self.keys.entry(name) for name in names)]
        now, *entries = self._connection.run("load", keys)
        return [_snapshot(name, from_unix(now), *fields) for name, fields in zip(names, entries)]

    def save(
        self,
        snapshot: Snapshot,
        *,
        definition: str,
        score: Score | None,
        meta: str = "",
        anchor: str = "",
        origin: str = "",
    ) -> bool:
        """Create or change the entry that was read; False: it was changed since, nothing was written.

        Arguments:
            score: the new one; None keeps the stored one, and with it the next fire time.
            meta: the new one; empty keeps the stored one.
            anchor: the last run that the score counts from; empty keeps the stored one.
            origin: set for a static entry.
        """
        outcome = self._connection.run(
            "save",
            [self.keys.schedule, self.keys.broken, self.keys.statics, self.keys.entry(snapshot.name)],
            [
                snapshot.name,
                digest(snapshot.definition, snapshot.meta),
                snapshot.planned,
                snapshot.claim_id,
                definition,
                meta,
                score.to_text() if score else "",
                anchor,
                origin,
                self.keys.changes,
            ],
        )
        return outcome == "SAVED"

    def delete(self, name: str, *, origin: str = "") -> bool:
        """Remove an entry, with ``origin`` only while it still has that one; False: nothing was removed."""
        outcome = self._connection.run(
            "delete",
            [self.keys.schedule, self.keys.broken, self.keys.statics, self.keys.entry(name)],
            [name, origin, self.keys.changes],
        )
        return outcome == "DELETED"

    def rank(self, name: str) -> int | None:
        """How many entries come before this one; None when it is not in the schedule."""
        return self._connection.call(lambda client: client.zrank(self.keys.schedule, self.keys.entry(name)))

    # What is in it

    def names(self) -> list[str]:
        """Names of all entries, in no order; asked for in pages, so that the server is never busy with it for long."""
        members = self._connection.call(lambda client: list(client.zscan_iter(self.keys.schedule, count=PAGE)))
        return list(dict.fromkeys(self.keys.name(member) for member, _ in members))

    def count(self) -> int:
        """How many entries there are."""
        return int(self._connection.call(lambda client: client.zcard(self.keys.schedule)))

    def strays(self, cursor: str) -> tuple[str, list[str]]:
        """One page of the entries that stand in no schedule: where the next page begins, ``"0"`` at the end, and names.

        Entries that stand in another schedule, whose prefix is longer than ours, are not ours.
        """
        pattern = "".join(f"\\{char}" if char in "*?[]\\" else char for char in self.keys.prefix) + "*"
        terms = [cursor, pattern, self.keys.prefix, str(PAGE)]
        cursor, keys = self._connection.run("sweep", [self.keys.schedule], terms)
        return cursor, [self.keys.name(key) for key in keys if not self._is_anothers(key)]

    def _is_anothers(self, key: str) -> bool:
        schedules = self.keys.longer_schedules(key)
        return any(self._score_in(schedule, key) is not None for schedule in schedules)

    def _score_in(self, schedule: str, key: str) -> float | None:
        return self._connection.call(lambda client: client.zscore(schedule, key))

    def eviction_policy(self) -> str | None:
        """How the server drops keys when its memory is full, as ``maxmemory-policy`` has it.

        None: it has no limit, or does not tell.
        """
        return self._connection.call(_eviction_policy)

    def statics(self) -> set[str]:
        """Names of the static entries, of all applications."""
        return set(self._connection.call(lambda client: client.smembers(self.keys.statics)))

    def origins(self, names: Sequence[str]) -> Mapping[str, str | None]:
        """The origin of each entry that exists: empty for a dynamic one; None for one that does not."""
        origins: dict[str, str | None] = {}
        for page in _pages(names, PAGE):
            origins.update(zip(page, self._connection.call(partial(self._origins_of, names=page))))
        return origins

    def _origins_of(self, client: Any, names: Sequence[str]) -> list[str | None]:
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hexists(self.keys.entry(name), "definition")
                pipe.hget(self.keys.entry(name), "origin")
            replies = [_text(reply) for reply in pipe.execute(raise_on_error=False)]
        return [origin if exists else None for exists, origin in zip(replies[::2], replies[1::2])]

    def report_broken(self, name: str, reason: str) -> None:
        """List an entry as broken."""
        self._report_broken(name, _report(reason, datetime.now(timezone.utc)))

    def report_declaration(self, name: str, reason: str, *, application: str) -> None:
        """List what an application's code declares as broken, whether or not an entry of that name is stored."""
        report = _report(reason, datetime.now(timezone.utc), application=application)
        self._report_broken(self.keys.declaration(name), report)

    def _report_broken(self, listed: str, report: str) -> None:
        self._connection.call(lambda client: client.hset(self.keys.broken, listed, report))

    def forget_declaration(self, name: str) -> None:
        """List a declaration as broken no longer."""
        self._connection.call(lambda client: client.hdel(self.keys.broken, self.keys.declaration(name)))

    def broken(self) -> dict[str, dict[str, str]]:
        """Broken entries: name -> ``reason``, ``since`` (ISO 8601, UTC) and, of a declaration, ``application``."""
        reports = self._connection.call(lambda client: client.hgetall(self.keys.broken))
        return {name.removeprefix(DECLARATION): _read_report(report) for name, report in sorted(reports.items())}

    # Its lock and its channel

    def lock(self) -> Lock:
        """A lock for one beat."""
        return Lock(self._connection, self.keys, self._config.lock_timeout)

    def notifier(self) -> Notifier:
        """A listener for changes, for one beat."""
        return Notifier(self._connection, self.keys.changes)


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


def _text(reply: Any) -> str:
    # A key of another type is somebody's, and answers with an error; any other error is one.
    if isinstance(reply, Exception) and "WRONGTYPE" not in str(reply):
        raise reply
    return str(reply or "")


def _pages(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))


def _snapshot(
    name: str,
    now: datetime,
    definition: str,
    meta: str,
    score: str,
    origin: str,
    last_error: str,
    skipped: str,
    claim_id: str,
) -> Snapshot:
    return Snapshot(
        name=name,
        now=now,
        definition=definition,
        meta=meta,
        score=Score.from_text(score) if score else None,
        origin=origin,
        last_error=last_error,
        skipped=skipped,
        planned=score,
        claim_id=claim_id,
    )


def _report(reason: str, since: datetime, **more: str) -> str:
    return json.dumps({"reason": reason, "since": since.isoformat(), **more})


def _read_report(text: str) -> dict[str, str]:
    try:
        return {"reason": "", "since": "", **json.loads(text)}
    except (ValueError, TypeError, RecursionError):  # another program's
        return {"reason": text, "since": ""}
