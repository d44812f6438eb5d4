"""The records of runs that Redis has in the end: each has its run, and none is kept for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from chaos.ledger import Account, Fault, Message, Problem
from redisbeater.store.keys import Keys
from redisbeater.times import from_unix

__all__ = ("RunRecord", "Stored", "audit_records", "figures", "read_stored")

#: How long ago the lease of a run may have ended that beat has not judged: it looks each 2.5 seconds.
OVERDUE_SECONDS = 30.0

#: Keys that are read at once.
PAGE = 1_000


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The record of a run."""

    id: str
    name: str
    state: str
    fire_time: datetime | None


@dataclass(frozen=True, kw_only=True)
class Stored:
    """All that Redis has of runs, read at one time.

    Attributes:
        records: of all runs.
        forever: the keys without a time to live, of those that must have one: records, payloads and histories of runs
            that beat has not to look at any more, answers, claims, logs of deleted entries.
        overdue: ids of the runs that beat should have looked at, with the seconds since then.
        histories: ids of the runs in the history of each entry that exists.
        sent: how many runs of each entry that exists are counted as sent.
    """

    records: Sequence[RunRecord] = ()
    forever: Sequence[str] = ()
    overdue: Mapping[str, float] = field(default_factory=dict)
    histories: Mapping[str, Collection[str]] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)


def audit_records(
    stored: Stored, messages: Iterable[Message], accounts: Iterable[Account], succeeded: Collection[str]
) -> list[Problem]:
    """Return what is wrong.

    Arguments:
        stored: what Redis has.
        messages: all that arrived at the broker.
        accounts: of all entries.
        succeeded: the ids of the runs whose success was reported.
    """
    runs = {message.id: message for message in messages}
    of_records = (_of_record(record, runs.get(record.id), stored, succeeded) for record in stored.records)
    return [
        *chain.from_iterable(of_records),
        *(_problem(Fault.FOREVER, "", f"{key} has no time to live") for key in stored.forever),
        *(_problem(Fault.OVERDUE, "", f"run {id_}: for {late:.0f} s") for id_, late in stored.overdue.items()),
        *chain.from_iterable(_of_counts(account, stored) for account in accounts),
    ]


def figures(stored: Stored, fates: Mapping[str, int]) -> dict[str, int]:
    """Return how many records there are in each state, and what became of the messages."""
    states = Counter(record.state for record in stored.records)
    return {"records": len(stored.records), **dict(sorted(states.items())), **dict(sorted(fates.items()))}


def _of_record(
    record: RunRecord, message: Message | None, stored: Stored, succeeded: Collection[str]
) -> Iterator[Problem]:
    if message is None:
        yield _problem(Fault.RECORD_ALONE, record.name, f"run {record.id} is {record.state}, and was not sent")
    elif (record.name, record.fire_time) != (message.name, message.scheduled_for):
        detail = f"run {record.id} of {message.scheduled_for} is recorded as one of {record.name}, {record.fire_time}"
        yield _problem(Fault.RECORD_ALONE, message.name, detail)
    if record.id in succeeded and record.state != "SUCCESS":
        yield _problem(Fault.FALLEN_BACK, record.name, f"run {record.id} was a success, and is {record.state}")
    if record.id not in stored.histories.get(record.name, (record.id,)):
        yield _problem(Fault.UNLISTED, record.name, f"run {record.id} is {record.state}")


def _of_counts(account: Account, stored: Stored) -> Iterator[Problem]:
    sent = stored.sent.get(account.name)
    if account.run_count is not None and sent is not None and sent != account.run_count:
        detail = f"run count {account.run_count}, but {sent} are recorded as sent"
        yield _problem(Fault.IMBALANCE, account.name, detail)


def _problem(fault: Fault, name: str, detail: str) -> Problem:
    return Problem(fault=fault, name=name, detail=detail)


# Read


def read_stored(client: Any, prefix: str, now: datetime) -> Stored:
    """Read what Redis has of the runs of a schedule now, aware UTC, once no beat and no worker writes any more."""
    keys = Keys(prefix, None)
    leases = dict(client.zrange(keys.active, 0, -1, withscores=True))
    waiting = {*leases, *client.zrange(keys.resend, 0, -1)}
    entries = {keys.name(key) for key in client.zrange(keys.schedule, 0, -1)}
    found = list(client.scan_iter(match=f"{prefix}:*", count=PAGE))
    hashes = _of_each(client, "hgetall", [key for key in found if key.startswith(keys.run(""))])
    busy = {hashes[key].get("name") for key in waiting if key in hashes}
    lives = _of_each(client, "pttl", [key for key in found if _may_not_stay(key, keys, entries)])
    listed = {name: client.zrange(keys.runs_of(name), 0, -1) for name in entries}
    return Stored(
        records=[_record(keys.run_id(key), fields) for key, fields in hashes.items()],
        forever=sorted(key for key, left in lives.items() if left == -1 and not _is_needed(key, keys, waiting, busy)),
        overdue={key: late for key, late in _lateness(leases, keys, now).items() if late > OVERDUE_SECONDS},
        histories={name: {keys.run_id(key) for key in members} for name, members in listed.items()},
        sent={name: int(client.hget(keys.entry(name), "n.sent") or 0) for name in entries},
    )


def _lateness(leases: Mapping[str, float], keys: Keys, now: datetime) -> dict[str, float]:
    """Return the seconds since the end of each lease, by the id of its run."""
    return {keys.run_id(key): now.timestamp() - end for key, end in leases.items()}


def _of_each(client: Any, command: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return the answer of a command for each key."""
    answers: dict[str, Any] = {}
    for start in range(0, len(keys), PAGE):
        page = keys[start : start + PAGE]
        pipeline = client.pipeline(transaction=False)
        for key in page:
            getattr(pipeline, command)(key)
        answers.update(zip(page, pipeline.execute(), strict=True))
    return answers


def _may_not_stay(key: str, keys: Keys, entries: Collection[str]) -> bool:
    """Return whether a key is one of those that must not stay for ever."""
    log = keys.log_of("")
    if key.startswith(log):
        return key.removeprefix(log) not in entries
    kinds = (keys.run(""), keys.payload_of(""), keys.runs_of(""), keys.answer(""), keys.receipt(""), keys.deleted)
    return key.startswith(kinds)


def _is_needed(key: str, keys: Keys, waiting: Collection[str], busy: Collection[str | None]) -> bool:
    """Return whether a key belongs to a run that is executed, or that somebody is to start, or to an entry with one."""
    if key.startswith(keys.payload_of("")):
        return keys.run(key.removeprefix(keys.payload_of(""))) in waiting
    return key in waiting or key.removeprefix(keys.runs_of("")) in busy


def _record(run_id: str, fields: Mapping[str, str]) -> RunRecord:
    return RunRecord(
        id=run_id,
        name=fields.get("name", ""),
        state=fields.get("state", ""),
        fire_time=from_unix(fields["fire_time"]) if "fire_time" in fields else None,
    )
