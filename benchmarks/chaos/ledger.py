"""The ledger: which fire times an entry owed, and what became of each of them. Pure."""

from __future__ import annotations

from collections import defaultdict
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
from redisbeater.schedules import ScheduleCodec

__all__ = ("Account", "Fault", "Finding", "Message", "Problem", "Stretch", "audit", "due_at", "expected")

#: What the project of the benchmark leaves to the settings; its zone is UTC.
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


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A while in which an entry had one timetable.

    Its fire times from ``first`` up to ``owed_until``, which is not included, are owed. Later ones, up to ``ended_at``,
    may have been on their way when the entry was disabled, changed or deleted. None: there is no such end.
    """

    definition: str
    first: datetime
    owed_until: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Account:
    """What is known of one entry: its stretches, when its args were changed, and what Redis counted.

    The counts are of the moment when the last stretch was owed no further; ``run_count`` is None for an entry that was
    gone by then. ``is_live``: nothing was ever on its way when it was disabled, changed or deleted.
    """

    name: str
    stretches: tuple[Stretch, ...]
    edits: tuple[tuple[datetime, str], ...] = ()
    run_count: int | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    is_live: bool = True


class Fault(str, Enum):
    """What must not happen."""

    MISSING = "missing"
    TWO_IDS = "two ids"
    SHARED_ID = "shared id"
    EARLY = "early"
    UNEXPECTED = "unexpected"
    STALE = "stale arguments"
    IMBALANCE = "imbalance"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault that was found."""

    fault: Fault
    name: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What became of the fire times of one entry.

    ``runs`` of the ``owed`` ones were run, and ``skipped`` were not. ``overtaken`` runs were sent and never committed,
    so that the entry's policy had another fire time stand for them afterwards.
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
    """The fire times of a stored definition from its first one on, up to ``until``, which is not included.

    Arguments:
        until: None: all that there are.
    """
    terms = _terms(definition)
    return list(islice(_fire_times(terms, first, until), terms.max_runs))


def due_at(definition: str, fire_time: datetime) -> datetime:
    """When a fire time is due: with jitter some time after it."""
    return _terms(definition).due_at(fire_time)


def audit(account: Account, messages: Sequence[Message]) -> Finding:
    """Balance one entry: its messages against the fire times that it owed."""
    owed = _all(expected(each.definition, each.first, each.owed_until) for each in account.stretches)
    sent = {message.scheduled_for for message in messages}
    run_count = len(owed & sent) if account.run_count is None else account.run_count
    has_skips = _has_skips(account)
    problems = (
        *(_balance_of_counts(account, owed, sent) if has_skips else _balance(account, owed, sent)),
        *_identities(account.name, messages),
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


def _terms(definition: str) -> ResolvedPolicy:
    name = from_text(definition, "$")["name"]
    return ResolvedPolicy.of(Definition.from_text(name, definition, ScheduleCodec()), DEFAULTS)


def _fire_times(terms: ResolvedPolicy, first: datetime, until: datetime | None) -> Iterator[datetime]:
    fire_time: datetime | None = first
    while fire_time is not None and (until is None or fire_time < until):
        yield fire_time
        fire_time = terms.timetable.next(fire_time)


def _all(fire_times: Iterable[Iterable[datetime]]) -> set[datetime]:
    return set(chain.from_iterable(fire_times))


def _skips(account: Account) -> Mapping[str, int]:
    """What was skipped of the fire times that were owed: those beyond ``max_runs`` were not."""
    return {reason: count for reason, count in account.skipped.items() if reason != Reason.MAX_RUNS}


def _has_skips(account: Account) -> bool:
    terms = _terms(account.stretches[0].definition)
    return bool(_skips(account)) or terms.coalesce is not Coalesce.ALL or terms.grace is not None


def _balance(account: Account, owed: set[datetime], sent: set[datetime]) -> Iterator[Problem]:
    """Of an entry that skips nothing each fire time is sent, and Redis has counted them."""
    for fire_time in sorted(owed - sent):
        yield _problem(Fault.MISSING, account, fire_time.isoformat())
    least = len(sent if account.is_live else owed & sent)
    if account.run_count is not None and not least <= account.run_count <= len(sent):
        detail = f"run count {account.run_count}, but {least} to {len(sent)} distinct runs"
        yield _problem(Fault.IMBALANCE, account, detail)


def _balance_of_counts(account: Account, owed: set[datetime], sent: set[datetime]) -> Iterator[Problem]:
    """Of any other, what was run and what was skipped is told by their counts.

    One more may have been sent than was counted: when its commit failed, another fire time may stand for it afterwards.
    """
    if account.run_count is None:
        return
    counted = account.run_count + sum(_skips(account).values())
    most = len(owed if account.is_live else _allowed(account))
    terms = f"{len(owed)} to {most} owed, {account.run_count} run and {_skips(account)} skipped; {len(sent)} sent"
    if counted < len(owed) or len(sent) < account.run_count:
        yield _problem(Fault.MISSING, account, terms)
    elif counted > most:
        yield _problem(Fault.IMBALANCE, account, terms)


def _allowed(account: Account) -> set[datetime]:
    """The fire times that were owed, or may have been on their way."""
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


def _early(account: Account, messages: Sequence[Message]) -> Iterator[Problem]:
    terms = _terms(account.stretches[0].definition)
    for message in messages:
        due = terms.due_at(message.scheduled_for) if terms.jitter else message.scheduled_for
        if message.arrived_at is not None and message.arrived_at < due:
            yield _problem(Fault.EARLY, account, f"due at {due.isoformat()}, sent at {message.arrived_at.isoformat()}")


def _unexpected(account: Account, messages: Sequence[Message]) -> Iterator[Problem]:
    for fire_time in sorted({message.scheduled_for for message in messages} - _allowed(account)):
        yield _problem(Fault.UNEXPECTED, account, f"{fire_time.isoformat()} is no fire time of it")


def _stale(account: Account, messages: Sequence[Message]) -> Iterator[Problem]:
    """Messages whose fire time came after an edit was stored, with args that are older than it."""
    for message in messages:
        stored = [args for edited_at, args in account.edits if edited_at <= message.scheduled_for]
        later = [args for edited_at, args in account.edits if edited_at > message.scheduled_for]
        if stored and message.args not in (stored[-1], *later):
            detail = f"{message.scheduled_for.isoformat()} has {message.args}, not {stored[-1]}"
            yield _problem(Fault.STALE, account, detail)


def _problem(fault: Fault, account: Account, detail: str) -> Problem:
    return Problem(fault=fault, name=account.name, detail=detail)
