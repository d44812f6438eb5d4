"""The report of a run: its faults, the findings of the ledger, and the times."""

from __future__ import annotations

import os
import platform
import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from chaos.beats import Ending
from chaos.faults import Kill
from chaos.health import Down, blackouts, is_clear
from chaos.ledger import Account, Finding, Message, Problem, audit, due_at

__all__ = ("Late", "Record", "Report", "create_report")

#: The number of problems that are printed; JSON has all of them.
SHOWN = 30


@dataclass(frozen=True, kw_only=True)
class Record:
    """All facts that a run recorded."""

    command: str
    servers: str
    seconds: float
    caught_up_in: float | None
    faults: Mapping[str, int]
    changes: Mapping[str, int]
    kills: Sequence[Kill]
    downs: Sequence[Down]
    beats: Sequence[str]
    starts: int
    unresponsive: int
    endings: Sequence[Ending]
    accounts: Sequence[Account]
    messages: Sequence[Message]
    #: Whether each fire time may have one message only.
    is_once: bool
    #: What the records of runs have shown, and what is wrong with them; empty where runs are not tracked.
    records: Mapping[str, int]
    record_problems: Sequence[Problem]


@dataclass(frozen=True, kw_only=True)
class Late:
    """One run: when it was due and when it arrived, in UNIX seconds, and the pid of its sender."""

    name: str
    due: float
    arrived: float
    sender: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """The figures of a run."""

    command: str
    machine: str
    seconds: float
    caught_up_in: float | None
    faults: Mapping[str, int]
    changes: Mapping[str, int]
    starts: int
    unresponsive: int
    endings: Mapping[str, int]
    messages: int
    owed: int
    runs: int
    skipped: Mapping[str, int]
    distinct: int
    repeats: int
    overtaken: int
    records: Mapping[str, int]
    problems: Mapping[str, int]
    share_of_health: float
    late_median: float
    late_99_percent: float
    late_longest: float
    late_longest_in_all: float
    gaps: int
    gap_median: float
    gap_longest: float
    details: Sequence[Problem]
    latest: Sequence[Late]

    @property
    def is_clean(self) -> bool:
        """Whether no run is missing, early, ambiguous or unexpected, and every beat ended on SIGTERM."""
        return not self.details and self.caught_up_in is not None and not self.unresponsive

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "is_clean": self.is_clean}

    def to_text(self) -> str:
        """Return the report as a table for people."""
        rows = {
            "machine": self.machine,
            "run": f"{self.seconds:.0f} s; {_caught_up(self.caught_up_in)}",
            "faults": _counts(self.faults),
            "changes": _counts(self.changes),
            "beats": f"{self.starts} starts, {self.unresponsive} ignored SIGTERM; "
            f"ended by themselves: {_counts(self.endings)}",
            "fire times": f"{self.owed} expected = {self.runs} run + {sum(self.skipped.values())} skipped "
            f"({_counts(self.skipped)})",
            "messages": f"{self.messages}: {self.distinct} distinct runs, {self.repeats} repeats or attempts by id, "
            f"{self.overtaken} sent, not committed, and skipped later",
            "records": _counts(self.records),
            "problems": _counts(self.problems),
            "health": f"{self.share_of_health:.0%} of the time at least one beat and both servers could work",
            "late": f"while a beat could work {self.late_median:.2f} s median, {self.late_99_percent:.2f} s of 99 %, "
            f"{self.late_longest:.2f} s at most; {self.late_longest_in_all:.2f} s at most at any time",
            "gap": f"{self.gap_median:.2f} s median, {self.gap_longest:.2f} s at most from the kill of a leader to the "
            f"next run, after {self.gaps} kills that left a healthy beat",
        }
        if not self.gaps:
            del rows["gap"]
        if not self.records:
            del rows["records"]
        width = max(map(len, rows))
        shown = [f"{each.fault.value}: {each.name}: {each.detail}" for each in self.details[:SHOWN]]
        return "\n".join([*(f"{name:<{width}}  {text}" for name, text in rows.items()), *shown])


def create_report(record: Record) -> Report:
    """Check a record against the ledger and return its figures."""
    findings = _findings(record)
    dark = blackouts(record.downs, record.beats)
    lates = _lates(record)
    in_health = sorted((late for late in lates if is_clear(dark, late.due, late.arrived)), key=_seconds, reverse=True)
    gaps = _gaps(record, dark)
    details = [*(problem for finding in findings for problem in finding.problems), *record.record_problems]
    return Report(
        command=record.command,
        machine=f"{os.cpu_count()} cores, Python {platform.python_version()}, {record.servers}",
        seconds=record.seconds,
        caught_up_in=record.caught_up_in,
        faults=dict(record.faults),
        changes=dict(record.changes),
        starts=record.starts,
        unresponsive=record.unresponsive,
        endings=dict(Counter(ending.reason for ending in record.endings)),
        messages=len(record.messages),
        owed=sum(finding.owed for finding in findings),
        runs=sum(finding.runs for finding in findings),
        skipped=dict(sum((Counter(finding.skipped) for finding in findings), Counter())),
        distinct=sum(finding.distinct for finding in findings),
        repeats=sum(finding.repeats for finding in findings),
        overtaken=sum(finding.overtaken for finding in findings),
        records=dict(record.records),
        problems=dict(Counter(problem.fault.value for problem in details)),
        share_of_health=_share_of_health(record, dark),
        late_median=statistics.median(map(_seconds, in_health)) if in_health else 0.0,
        late_99_percent=_seconds(in_health[len(in_health) // 100]) if in_health else 0.0,
        late_longest=max(map(_seconds, in_health), default=0.0),
        late_longest_in_all=max(map(_seconds, lates), default=0.0),
        gaps=len(gaps),
        gap_median=statistics.median(gaps or [0.0]),
        gap_longest=max(gaps, default=0.0),
        details=details,
        latest=in_health[:SHOWN],
    )


def _findings(record: Record) -> list[Finding]:
    messages = _by_name(record.messages)
    known = [audit(account, messages.pop(account.name, []), is_once=record.is_once) for account in record.accounts]
    strangers = [Account(name=name, stretches=()) for name in messages]
    return [*known, *(audit(stranger, messages[stranger.name]) for stranger in strangers)]


def _by_name(messages: Iterable[Message]) -> dict[str, list[Message]]:
    by_name: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        by_name[message.name].append(message)
    return by_name


def _lates(record: Record) -> list[Late]:
    """Return each run with its first message."""
    definitions = {account.name: account.stretches[0].definition for account in record.accounts}
    firsts: dict[tuple[str, datetime], Message] = {}
    for message in record.messages:
        if message.arrived_at is not None and message.name in definitions:
            firsts.setdefault((message.name, message.scheduled_for), message)
    return [_late(message, definitions[name]) for (name, _), message in firsts.items()]


def _late(message: Message, definition: str) -> Late:
    assert message.arrived_at is not None
    due = due_at(definition, message.scheduled_for).timestamp()
    return Late(name=message.name, due=due, arrived=message.arrived_at.timestamp(), sender=message.sender)


def _seconds(late: Late) -> float:
    return late.arrived - late.due


def _share_of_health(record: Record, dark: Sequence[tuple[float, float]]) -> float:
    """Return the share of the time between the first and the last message in which a beat could work."""
    arrivals = [message.arrived_at.timestamp() for message in record.messages if message.arrived_at]
    if not arrivals:
        return 0.0
    begin, end = min(arrivals), max(arrivals)
    lost = sum(max(min(until, end) - max(since, begin), 0.0) for since, until in dark)
    return 1 - lost / (end - begin) if end > begin else 1.0


def _gaps(record: Record, dark: Sequence[tuple[float, float]]) -> list[float]:
    """Return the seconds from each kill of a leader to the next run by another beat, if one could work all the time."""
    arrivals = sorted((each.arrived_at.timestamp(), each.sender) for each in record.messages if each.arrived_at)
    gaps = []
    for kill in record.kills:
        later = islice(arrivals, bisect_right(arrivals, (kill.at, 0)), None)
        following = next((at for at, sender in later if sender != kill.pid), None)
        if kill.was_leader and following is not None and is_clear(dark, kill.at, following):
            gaps.append(following - kill.at)
    return gaps


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _caught_up(seconds: float | None) -> str:
    return "beats never caught up" if seconds is None else f"beats caught up {seconds:.1f} s after the last fault"
