"""What tasks wrote about their executions against what Redis says of their runs. Nothing here reads a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

__all__ = ("BEGAN", "ENDS", "Line", "Meeting", "Pause", "Record", "Results", "balance", "differences", "meetings")

#: What a task writes when it begins, and when it ends well or fails; between them it says again and again that it is
#: alive. A run that fails does so whenever it is executed.
BEGAN, ENDED, FAILED = "began", "ended", "failed"

#: What a task writes last.
ENDS = (ENDED, FAILED)

#: The letters of these in the last ends of an entry, and how many ends it keeps.
LETTERS, KEPT = {ENDED: "S", FAILED: "F"}, 30

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
    ended_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Results:
    """What Redis says in the end of the results of entries.

    Attributes:
        ends: the letters of the last ends of each entry.
        failed, unstable: the entries that are listed so.
        waiting: the ids of the runs that are listed as waiting for a worker.
        failures: the ids of the runs that are listed as failures.
        minutes: how many runs ended in each state, of all minutes.
    """

    ends: Mapping[str, str]
    failed: Set[str]
    unstable: Set[str]
    waiting: Set[str]
    failures: Set[str]
    minutes: Mapping[str, int]


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
    ended, failed = ({line.run: line.entry for line in lines if line.what == what} for what in ENDS)
    states = {run.id: "FAILURE" if run.id in failed else "SUCCESS" for run in records}
    wrong = [f"{run.id} of {run.entry} is {run.state}" for run in records if run.state != states[run.id]]
    if len(records) < sent:
        wrong.append(f"{len(records)} runs are recorded, and {sent} were wanted")
    began = Counter(line.run for line in lines if line.what == BEGAN)
    known = {run.id for run in records}
    wrong += [f"{run} was executed, and is not recorded" for run in sorted(set(began) - known)]
    wrong += [f"{run} is {states[run]}, and never ended" for run in sorted(known - {*ended, *failed})]
    # A start that its process could not report is missing in Redis; more than there were cannot be.
    wrong += [
        f"{run.id}: {run.starts} starts, {began[run.id]} written" for run in records if run.starts > began[run.id]
    ]
    runs_of, ended_of = Counter(run.entry for run in records), Counter(ended.values())
    for entry, found in counts.items():
        expected = {"sent": runs_of[entry], "success": ended_of[entry], "revoked": 0, "expired": 0}
        differing = {what: found[what] for what, number in expected.items() if found[what] != number}
        if found["failure"] not in _failures(lines, [run for run, its in failed.items() if its == entry]):
            differing["failure"] = found["failure"]
        if differing:
            wrong.append(f"{entry}: counted {differing}, expected {expected}")
    return wrong


def _failures(lines: Sequence[Line], runs: Iterable[str]) -> range:
    """Return how many failures of these runs may be counted: where a worker dies between its report and its answer to
    the broker, the run is executed again, and fails again."""
    runs = set(runs)
    return range(len(runs), sum(line.run in runs and line.what == FAILED for line in lines) + 1)


def differences(lines: Sequence[Line], records: Sequence[Record], found: Results) -> list[str]:
    """Return in words which results of entries do not follow from what tasks wrote, once all runs have ended.

    In which order two ends reached Redis is open. The letters of an entry are compared as a whole as long as it keeps
    all, and the last of them where both sides agree on the run that ended last.
    """
    last = {line.run: line for line in lines if line.what in ENDS}
    wrong = [f"{run} is listed as waiting" for run in sorted(found.waiting)]
    for entry, letters in found.ends.items():
        runs = [run for run in records if run.entry == entry and run.id in last]
        wrong += [f"{entry}: {words}" for words in _differences_of(lines, runs, last, letters)]
        said = _result(letters)
        listed = {name for name in ("failed", "unstable") if entry in getattr(found, name)}
        if listed != {said} - {""}:
            wrong.append(f"{entry}: listed as {sorted(listed)}, its ends are {letters}")
    wrong += [f"{entry}: listed, and unknown" for entry in {*found.failed, *found.unstable} - found.ends.keys()]
    failed = {run for run, line in last.items() if line.what == FAILED}
    wrong += [f"{run}: failed, or is listed so, and not both" for run in sorted(failed ^ found.failures)]
    others = {state: number for state, number in found.minutes.items() if state not in ("SUCCESS", "FAILURE")}
    succeeded, failures = found.minutes.get("SUCCESS", 0), found.minutes.get("FAILURE", 0)
    if others or succeeded != len(last) - len(failed) or failures not in _failures(lines, failed):
        wrong.append(f"minutes: {dict(found.minutes)}, {len(last) - len(failed)} ended well, {len(failed)} failed")
    return wrong


def _differences_of(
    lines: Sequence[Line], runs: Sequence[Record], last: Mapping[str, Line], letters: str
) -> Iterable[str]:
    """Yield what is wrong with the letters of an entry of which these runs have ended."""
    known = {run.id: LETTERS[last[run.id].what] for run in runs}
    failed = [run for run, letter in known.items() if letter == "F"]
    counted, failures = Counter(letters), _failures(lines, failed)
    if len(known) - len(failed) + failures[-1] <= KEPT:
        if counted["S"] != len(known) - len(failed) or counted["F"] not in failures or set(counted) - {"S", "F"}:
            yield f"its ends are {letters}, and {len(failed)} of {len(known)} failed"
    elif len(letters) != KEPT and len(known) >= KEPT:
        yield f"{len(letters)} ends are kept"
    newest = {
        max(runs, key=lambda run: last[run.id].at, default=None),
        max(runs, key=lambda run: run.ended_at, default=None),
    }
    ends = {known[run.id] for run in newest if run}
    if len(ends) == 1 and letters[-1:] not in ends:
        yield f"its ends are {letters}, and the last one was {ends.pop()}"


def _result(letters: str) -> str:
    if letters[-1:] not in ("", "S"):
        return "failed"
    return "unstable" if len(letters) - letters.count("S") >= 3 else ""
