"""What is an incident: what the lists of a schedule say, measured by what its entries promise.

A look finds :class:`Sign`\\ s: facts that no open incident stands for, and facts about open ones. Each function here
decides about one of them, from nothing but what is passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from redisbeater.display import fingerprint
from redisbeater.model.incident import BROKEN, FAILED, GAP, LATE, NOT_SENT, OVERDUE, WAITING
from redisbeater.model.run import STATES, State

#: The longest time for which what is no incident yet is not looked at again: an edit counts at the second look.
LOOK_AGAIN = timedelta(seconds=8)

#: The letter of a run that has ended well, among the last ends of an entry.
GOOD = STATES[State.SUCCESS].letter


@dataclass(frozen=True, kw_only=True)
class Terms:
    """From when on something is an incident, where no entry has a say.

    Attributes:
        late: for how long an entry may be due.
        unsent: for how long the run of an entry may fail to be sent.
        gap: for how long no beat may claim; ``told``: from when on the log of the schedule has a line about it.
    """

    late: timedelta = timedelta(seconds=60)
    unsent: timedelta = timedelta(seconds=60)
    gap: timedelta = timedelta(minutes=5)
    told: timedelta = timedelta(seconds=30)

    def with_claims_each(self, seconds: float) -> Terms:
        """Return the terms of a beat that claims so seldom on an idle schedule: that alone is no gap."""
        least = 2 * timedelta(seconds=seconds)
        return replace(self, gap=max(self.gap, least), told=max(self.told, least))


@dataclass(frozen=True, kw_only=True)
class Promises:
    """What an entry promises, with the settings filled in.

    Attributes:
        max_failures: how many bad ends in a row are no incident.
        start_within: how long a run may wait for a worker; None: any time.
        finish_within: how long after a run was sent one must have ended well; None: nothing is promised.
        is_disabled: whether a person has disabled the entry.
        told: the receivers that are told of its incidents.
    """

    max_failures: int = 0
    start_within: timedelta | None = timedelta(minutes=5)
    finish_within: timedelta | None = None
    is_disabled: bool = False
    told: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BadEnd:
    """A run that ended badly.

    Attributes:
        run: its id.
        at: when it ended, aware UTC.
        error: its error; empty: none is known, as of one that was lost.
    """

    run: str
    at: datetime
    state: str
    error: str = ""
    worker: str = ""
    release: str = ""

    @property
    def fingerprint(self) -> str:
        """By what it is recognized: its error without what differs from time to time, or its state."""
        return fingerprint(self.error) or self.state

    def as_dict(self) -> dict[str, str]:
        """Return it as an incident keeps it, without what is not known."""
        facts = {"run": self.run, "at": self.at.isoformat(), "state": self.state, "error": self.error}
        return {name: text for name, text in {**facts, "worker": self.worker, "release": self.release}.items() if text}


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Something that may be an incident.

    Attributes:
        kind: which.
        entry: the entry; empty: the schedule.
        since: when it began, aware UTC.
        ends: of ``failed``: letters of the last ends of the entry, the newest last.
        runs: of ``failed``: those that ended badly, the newest first.
        why: what is known, for people; of ``failed`` the error.
        facts: what else an incident keeps of it.
        count: of ``late``: how many entries are.
    """

    kind: str
    entry: str
    since: datetime
    ends: str = ""
    runs: Sequence[BadEnd] = ()
    why: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class Opening:
    """An incident that is to be opened.

    Attributes:
        why: why, in words.
        count: how many bad ends opened it, or entries are late.
        most: of ``failed``: how many bad ends in a row would be none.
        within: how long something may be wrong, where an entry or a term says that.
        run: the run whose traceback is kept with it.
        first: what is known.
        at: when it had ended already; None: it has not.
        told: the receivers that are told of it.
    """

    kind: str
    entry: str
    since: datetime
    why: str
    fingerprint: str
    first: Mapping[str, Any]
    count: int = 0
    most: int | None = None
    within: timedelta | None = None
    run: str = ""
    at: datetime | None = None
    told: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NotYet:
    """What is no incident, and when to look again at the latest."""

    until: datetime


def bad_in_a_row(ends: str) -> int:
    """Return how many of the newest ends were bad, up to the last good one."""
    return len(ends) - len(ends.rstrip("".join(each.letter for each in STATES.values() if each.letter != GOOD)))


def decide(sign: Sign, promises: Promises, terms: Terms, now: datetime) -> Opening | NotYet:
    """Return the incident that is to be opened, or when to look at the sign again."""
    if promises.is_disabled and sign.kind != BROKEN:
        return NotYet(until=now + LOOK_AGAIN)
    return _RULES[sign.kind](sign, promises, terms, now)


def _failed(sign: Sign, promises: Promises, _: Terms, now: datetime) -> Opening | NotYet:
    number = bad_in_a_row(sign.ends)
    if number <= promises.max_failures:
        return NotYet(until=now + LOOK_AGAIN)
    return _failure(sign, number, promises.max_failures)


def _failure(sign: Sign, number: int, most: int) -> Opening:
    """Return the incident of bad ends; what opened it is the oldest of those in a row that are known."""
    of_row = sign.runs[:number]
    first, newest = (of_row[-1], of_row[0]) if of_row else (None, None)
    error = newest.error or newest.state if newest else "its runs end badly"
    return Opening(
        kind=FAILED,
        entry=sign.entry,
        since=sign.since,
        why=error,
        fingerprint=newest.fingerprint if newest else "",
        first=first.as_dict() if first else {},
        count=number,
        most=most,
        run=first.run if first else "",
    )


def healed(sign: Sign, promises: Promises) -> Opening | None:
    """Return the incident of runs that ended badly since the last look, where a run has ended well after them.

    Of an entry that deleted itself no ends are known. None: not enough in a row, or a person has disabled it.
    """
    number = len(sign.runs) if not sign.ends else _longest_row(sign.ends, len(sign.runs))
    if number <= promises.max_failures or promises.is_disabled:
        return None
    found = _failure(sign, number, promises.max_failures)
    return Opening(**{**vars(found), "most": None, "at": sign.runs[0].at, "since": sign.runs[-1].at})


def _longest_row(ends: str, newest: int) -> int:
    """Return how many bad ends in a row there were, of the rows that hold one of so many newest bad ends."""
    longest, left = 0, newest
    for row in reversed(ends.split(GOOD)):
        if left > 0 and row:
            longest, left = max(longest, len(row)), left - len(row)
    return longest


def _waiting(sign: Sign, promises: Promises, _: Terms, now: datetime) -> Opening | NotYet:
    within = promises.start_within
    if within is None:
        return NotYet(until=now + LOOK_AGAIN)
    if now - sign.since <= within:
        return NotYet(until=min(sign.since + within, now + LOOK_AGAIN))
    return _simple(sign, within=within)


def _not_sent(sign: Sign, _: Promises, terms: Terms, now: datetime) -> Opening | NotYet:
    if now - sign.since < terms.unsent:
        return NotYet(until=sign.since + terms.unsent)
    return _simple(sign)


def _overdue(sign: Sign, promises: Promises, _: Terms, now: datetime) -> Opening | NotYet:
    if promises.finish_within is None or sign.since > now:
        return NotYet(until=now + LOOK_AGAIN)
    return _simple(sign)


def _broken(sign: Sign, _: Promises, __: Terms, ___: datetime) -> Opening | NotYet:
    return _simple(sign)


def _late(sign: Sign, _: Promises, terms: Terms, now: datetime) -> Opening | NotYet:
    if now - sign.since < terms.late:
        return NotYet(until=sign.since + terms.late)
    return _simple(sign, within=terms.late)


def _gap(sign: Sign, _: Promises, terms: Terms, now: datetime) -> Opening | NotYet:
    if now - sign.since <= terms.gap:
        return NotYet(until=now)
    found = _simple(sign)
    return Opening(**{**vars(found), "at": now})


def _simple(sign: Sign, *, within: timedelta | None = None) -> Opening:
    """Return the incident of a sign as it is."""
    return Opening(
        kind=sign.kind,
        entry=sign.entry,
        since=sign.since,
        why=sign.why,
        fingerprint=fingerprint(sign.why) if sign.kind not in (LATE, WAITING) else sign.kind,
        first=sign.facts,
        count=sign.count,
        within=within,
    )


_RULES = {
    FAILED: _failed,
    WAITING: _waiting,
    OVERDUE: _overdue,
    NOT_SENT: _not_sent,
    BROKEN: _broken,
    LATE: _late,
    GAP: _gap,
}
