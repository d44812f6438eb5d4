"""The ledger: which fire times an entry owed, and what became of each of them. Does no I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from itertools import chain, islice

from redisbeater.model.definition import Definition
from redisbeater.model.json_text import from_text
from redisbeater.model.policies import Coalesce
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason
from redisbeater.schedules.kinds import ScheduleCodec

__all__ = ("Account", "Fault", "Finding", "Message", "Problem", "Stretch", "audit", "due_at", "expected")

#: The policies of entries that set none; the project's zone is UTC.
DEFAULTS = Defaults(zone=timezone.utc)


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message as it arrived at the broker; ``arrived_at`` is None when only its order is known."""

    name: str
    id: str
    scheduled_for: datetime
    arrived_at: datetime | None
    sender: int
    args: str
    #: Which attempt of a tracked run it is: one that was lost may be sent again.
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A period in which an entry had one timetable.

    Its fire times from ``first`` up to, but not including, ``owed_until`` are owed. Later ones, up to ``ended_at``, may
    have been in flight when the entry was disabled, changed or deleted. None: the period has no such end.
    """

    definition: str
    first: datetime
    owed_until: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Account:
    """All facts about one entry: its stretches, the edits of its args, and the counts in Redis.

    The counts were read when the last stretch ended; ``run_count`` is None if the entry no longer existed then.
    ``is_live``: no run can have been in flight when the entry was disabled, changed or deleted.
    """

    name: str
    stretches: tuple[Stretch, ...]
    edits: tuple[tuple[datetime, str], ...] = ()
    run_count: int | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    is_live: bool = True


class Fault(str, Enum):
    """The ways in which a run can be wrong."""

    MISSING = "missing"
    TWO_IDS = "two ids"
    REPEAT = "repeat"
    SHARED_ID = "shared id"
    EARLY = "early"
    UNEXPECTED = "unexpected"
    STALE = "stale arguments"
    IMBALANCE = "imbalance"
    RECORD_ALONE = "record without its run"
    FALLEN_BACK = "success that is none"
    UNLISTED = "record in no history"
    FOREVER = "no time to live"
    OVERDUE = "lease that nobody judged"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault that was found in the messages or the counts of an entry."""

    fault: Fault
    name: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result for the fire times of one entry.

    Of the ``owed`` ones, ``runs`` were run and ``skipped`` were not. ``overtaken`` runs were sent but never committed;
    the entry's policy ran a later fire time instead of them.
    """

    name: str
    owed: int
    runs: int
    distinct: int
    repeats: int
    overtaken: int
    skipped: Mapping[str, int]
    problems: tuple[Problem, ...]


def expected(definition: str, first: datetime, until: datetime | None) -> list[datetime]:
    """Return the fire times of a stored definition, beginning with ``first``.

    Arguments:
        definition: the definition, as it is stored.
        first: the first fire time.
        until: the end, which is not included; None: no end.
    """
    policy = _policy(definition)
    return list(islice(_fire_times(policy, first, until), policy.max_runs))


def due_at(definition: str, fire_time: datetime) -> datetime:
    """Return when a fire time is due: with jitter, later than the fire time itself."""
    return _policy(definition).due_at(fire_time)


def audit(account: Account, messages: Sequence[Message], *, is_once: bool = False) -> Finding:
    """Compare the messages of an entry with the fire times that it owed.

    Arguments:
        account: the entry.
        messages: its messages.
        is_once: whether a second message for one fire time is a problem.
    """
    owed = _all(expected(each.definition, each.first, each.owed_until) for each in account.stretches)
    sent = {message.scheduled_for for message in messages}
    run_count = len(owed & sent) if account.run_count is None else account.run_count
    has_skips = _has_skips(account)
    problems = (
        *(_balance_of_counts(account, owed, sent) if has_skips else _balance(account, owed, sent)),
        *_identities(account.name, messages),
        *(_repeats(account, messages) if is_once else ()),
        *_early(account, messages),
        *_unexpected(account, messages),
        *_stale(account, messages),
    )
    return Finding(
        name=account.name,
        owed=len(owed),
        runs=run_count if has_skips else len(owed & sent),
        distinct=len(sent),
        repeats=len(messages) - len(sent),
        overtaken=max(len(sent) - run_count, 0) if has_skips else 0,
        skipped=_skips(account),
        problems=problems,
    )


def _policy(definition: str) -> ResolvedPolicy:
    name = from_text(definition, "$")["name"]
    return ResolvedPolicy.of(Definition.from_text(name, definition, ScheduleCodec()), DEFAULTS)


def _fire_times(policy: ResolvedPolicy, first: datetime, until: datetime | None) -> Iterator[datetime]:
    fire_time: datetime | None = first
    while fire_time is not None and (until is None or fire_time < until):
        yield fire_time
        fire_time = policy.timetable.afresh().next(fire_time)  # the steps of one search are limited


def _all(fire_times: Iterable[Iterable[datetime]]) -> set[datetime]:
    return set(chain.from_iterable(fire_times))


def _skips(account: Account) -> Mapping[str, int]:
    """Return the counts of skipped fire times that were owed; those beyond ``max_runs`` were not."""
    return {reason: count for reason, count in account.skipped.items() if reason != Reason.MAX_RUNS}


def _has_skips(account: Account) -> bool:
    policy = _policy(account.stretches[0].definition)
    return bool(_skips(account)) or policy.coalesce is not Coalesce.ALL or policy.grace is not None


def _balance(account: Account, owed: set[datetime], sent: set[datetime]) -> Iterator[Problem]:
    """Check an entry that skips nothing: each fire time was sent, and Redis counted them."""
    for fire_time in sorted(owed - sent):
        yield _problem(Fault.MISSING, account, fire_time.isoformat())
    least = len(sent if account.is_live else owed & sent)
    if account.run_count is not None and not least <= account.run_count <= len(sent):
        detail = f"run count {account.run_count}, but {least} to {len(sent)} distinct runs"
        yield _problem(Fault.IMBALANCE, account, detail)


def _balance_of_counts(account: Account, owed: set[datetime], sent: set[datetime]) -> Iterator[Problem]:
    """Check any other entry, by its counts of runs and of skipped fire times.

    One more run may have been sent than counted: if its commit failed, a later fire time may have replaced it.
    """
    if account.run_count is None:
        return
    counted = account.run_count + sum(_skips(account).values())
    most = len(owed if account.is_live else _allowed(account))
    detail = f"{len(owed)} to {most} owed, {account.run_count} run and {_skips(account)} skipped; {len(sent)} sent"
    if counted < len(owed) or len(sent) < account.run_count:
        yield _problem(Fault.MISSING, account, detail)
    elif counted > most:
        yield _problem(Fault.IMBALANCE, account, detail)


def _allowed(account: Account) -> set[datetime]:
    """Return the fire times that were owed or may have been in flight."""
    return _all(expected(each.definition, each.first, each.ended_at) for each in account.stretches)


def _identities(name: str, messages: Sequence[Message]) -> Iterator[Problem]:
    ids, fire_times = defaultdict(set), defaultdict(set)
    for message in messages:
        ids[message.scheduled_for].add(message.id)
        fire_times[message.id].add(message.scheduled_for)
    for fire_time, several in ids.items():
        if len(several) > 1:
            detail = f"{fire_time.isoformat()}: {', '.join(sorted(several))}"
            yield Problem(fault=Fault.TWO_IDS, name=name, detail=detail)
    for id_, times in fire_times.items():
        if len(times) > 1:
            detail = f"{id_}: {', '.join(time.isoformat() for time in sorted(times))}"
            yield Problem(fault=Fault.SHARED_ID, name=name, detail=detail)


def _repeats(account: Account, messages: Sequence[Message]) -> Iterator[Problem]:
    for (fire_time, _), count in Counter((message.scheduled_for, message.attempt) for message in messages).items():
        if count > 1:
            yield _problem(Fault.REPEAT, account, f"{fire_time.isoformat()}: {count} messages")


def _early(account: Account, messages: Sequence[Message]) -> Iterator[Problem]:
    policy = _policy(account.stretches[0].definition)
    for message in messages:
        due = policy.due_at(message.scheduled_for) if policy.jitter else message.scheduled_for
        if message.arrived_at is not None and message.arrived_at < due:
            yield _problem(Fault.EARLY, account, f"due at {due.isoformat()}, sent at {message.arrived_at.isoformat()}")


def _unexpected(account: Account, messages: Sequence[Message]) -> Iterator[Problem]:
    for fire_time in sorted({message.scheduled_for for message in messages} - _allowed(account)):
        yield _problem(Fault.UNEXPECTED, account, f"{fire_time.isoformat()} is not a fire time of the entry")


def _stale(account: Account, messages: Sequence[Message]) -> Iterator[Problem]:
    """Find messages with older args than an edit that was stored before their fire time."""
    for message in messages:
        stored = [args for edited_at, args in account.edits if edited_at <= message.scheduled_for]
        later = [args for edited_at, args in account.edits if edited_at > message.scheduled_for]
        if stored and message.args not in (stored[-1], *later):
            detail = f"{message.scheduled_for.isoformat()} has {message.args}, not {stored[-1]}"
            yield _problem(Fault.STALE, account, detail)


def _problem(fault: Fault, account: Account, detail: str) -> Problem:
    return Problem(fault=fault, name=account.name, detail=detail)
