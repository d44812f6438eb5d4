"""What tasks wrote about their executions against what Redis says of their runs. Nothing here reads a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ("BEGAN", "ENDED", "Line", "Meeting", "Pause", "Record", "balance", "meetings")

#: What a task writes when it begins and ends; between them it says again and again that it is alive.
BEGAN, ENDED = "began", "ended"

#: How long a process that was paused may go on until it has ended itself: ``redisbeater.runs.process.END_SECONDS``.
INSTANT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line that a task wrote, at a time in UNIX seconds."""

    what: str
    at: float
    entry: str
    run: str
    execution: str
    pid: int
    worker: str


@dataclass(frozen=True, kw_only=True)
class Pause:
    """When the processes of a worker did not run, in UNIX seconds."""

    worker: str
    since: float
    until: float


@dataclass(frozen=True, kw_only=True)
class Record:
    """What Redis has of a run in the end."""

    id: str
    entry: str
    state: str
    attempt: int
    starts: int


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Two executions of one entry that were alive at once.

    Attributes:
        seconds: how long both wrote.
        is_excused: one of them had been paused for longer than a lease, and had an instant to end.
    """

    entry: str
    runs: tuple[str, str]
    seconds: float
    is_excused: bool


def meetings(lines: Sequence[Line], pauses: Iterable[Pause], lease: float) -> list[Meeting]:
    """Return which executions of one entry met, from lines in the order in which they were written."""
    resumed = [pause for pause in pauses if pause.until - pause.since >= lease]
    found: list[Meeting] = []
    for executions in _by_entry(lines).values():
        for number, first in enumerate(executions):
            for second in executions[number + 1 :]:
                found += _meeting(first, second, resumed)
    return found


def _by_entry(lines: Sequence[Line]) -> dict[str, list[list[tuple[int, Line]]]]:
    executions: dict[str, dict[str, list[tuple[int, Line]]]] = {}
    for position, line in enumerate(lines):
        executions.setdefault(line.entry, {}).setdefault(line.execution, []).append((position, line))
    return {entry: list(each.values()) for entry, each in executions.items()}


def _meeting(first: list[tuple[int, Line]], second: list[tuple[int, Line]], resumed: list[Pause]) -> list[Meeting]:
    """Return the meeting of two executions of which the first began first, if they met."""
    late = [line for position, line in first if position > second[0][0]]
    early = [line for position, line in second if position < first[-1][0]]
    if not late:
        return []
    return [
        Meeting(
            entry=late[0].entry,
            runs=(late[0].run, early[0].run),
            seconds=late[-1].at - early[0].at,
            is_excused=any(all(_was_resumed(line, resumed) for line in side) for side in (late, early)),
        )
    ]


def _was_resumed(line: Line, resumed: list[Pause]) -> bool:
    return any(p.worker == line.worker and p.until <= line.at <= p.until + INSTANT_SECONDS for p in resumed)


def balance(
    lines: Sequence[Line], records: Sequence[Record], counts: Mapping[str, Mapping[str, int]], sent: int
) -> list[str]:
    """Return what does not agree, in words.

    Arguments:
        lines: what tasks wrote.
        records: of all runs.
        counts: of each entry, by what is counted.
        sent: how many runs were wanted at least.
    """
    wrong = [f"{run.id} of {run.entry} is {run.state}" for run in records if run.state != "SUCCESS"]
    if len(records) < sent:
        wrong.append(f"{len(records)} runs are recorded, and {sent} were wanted")
    ended = {line.run: line.entry for line in lines if line.what == ENDED}
    began = Counter(line.run for line in lines if line.what == BEGAN)
    known = {run.id for run in records}
    wrong += [f"{run} was executed, and is not recorded" for run in sorted(set(began) - known)]
    wrong += [f"{run} is SUCCESS, and never ended" for run in sorted(known - set(ended))]
    # A start that its process could not report is missing in Redis; more than there were cannot be.
    wrong += [
        f"{run.id}: {run.starts} starts, {began[run.id]} written" for run in records if run.starts > began[run.id]
    ]
    runs_of, ended_of = Counter(run.entry for run in records), Counter(ended.values())
    for entry, found in counts.items():
        expected = {"sent": runs_of[entry], "success": ended_of[entry], "failure": 0, "revoked": 0, "expired": 0}
        differing = {what: found[what] for what, number in expected.items() if found[what] != number}
        if differing:
            wrong.append(f"{entry}: counted {differing}, expected {expected}")
    return wrong
