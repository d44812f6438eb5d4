"""The result of an entry: what its last runs say of it, beside the state that its schedule is in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median, quantiles
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from redisbeater.context import Context
from redisbeater.display import fingerprint, json_fields, shown, without_secrets
from redisbeater.management.blanking import shown_runs
from redisbeater.model.options import option_instant
from redisbeater.model.policies import TextEnum
from redisbeater.model.run import FAILED, STATES, WAITS_AFTER, Run, RunBrief, State, read_count
from redisbeater.times import duration_words, from_unix, span_words


class Result(TextEnum):
    """What the last runs of an entry say of it. Where several hold, the first one here is shown."""

    #: The run that ended last has failed, was lost, or expired.
    FAILED = "failed"
    #: A run was sent half a minute ago or more, and no worker has started it.
    WAITING = "waiting"
    #: The run that ended last has ended well; at least 3 of the last 30 have not.
    UNSTABLE = "unstable"
    #: A worker executes a run.
    RUNNING = "running"
    #: The last run was sent, or started, more than a minute after it was due.
    LATE = "late"
    #: The run that ended last has ended well.
    OK = "ok"
    #: No run of it has ended.
    NEVER = "never"


class ResultFacts(NamedTuple):
    """How a result is to be taken; whether somebody should look at it."""

    tone: Literal["good", "bad", "warn", "busy", "quiet"]
    is_problem: bool = False


RESULTS: Mapping[Result, ResultFacts] = {
    Result.FAILED: ResultFacts("bad", is_problem=True),
    Result.WAITING: ResultFacts("warn", is_problem=True),
    Result.UNSTABLE: ResultFacts("warn", is_problem=True),
    Result.RUNNING: ResultFacts("busy"),
    Result.LATE: ResultFacts("warn"),
    Result.OK: ResultFacts("good"),
    Result.NEVER: ResultFacts("quiet"),
}

#: How many of the newest runs of an entry tell its result.
NEWEST = 30

#: How long after it was due a run is late.
LATE_AFTER = timedelta(seconds=60)


@dataclass(frozen=True)
class Ends:
    """The last ends of an entry's runs, as the scripts keep them.

    Attributes:
        letters: one for each, the newest last, 30 at most: S for SUCCESS, others for failures, as ``STATES`` has them.
            Runs that somebody stopped, and backfills, are left out.
        at: when the last one was, aware UTC; None: none has ended.
        counted: how many failures in a row its counter has, which may be more than there are letters.
    """

    letters: str = ""
    at: datetime | None = None
    counted: int = 0

    @classmethod
    def from_text(cls, stored: str, failures: str = "") -> Ends:
        """Read two fields of an entry; what another program wrote there counts as none."""
        found = re.fullmatch(r"([A-Z]{1,30}) (\d{1,11}(?:\.\d{1,6})?)", stored)
        return cls(found[1], from_unix(float(found[2])), read_count(failures)) if found else cls()

    @property
    def failed(self) -> int:
        """How many of them were no SUCCESS."""
        return len(self.letters) - self.letters.count("S")

    @property
    def failed_in_a_row(self) -> int:
        """How many of the newest were no SUCCESS, up to the last one that was; 30 or more where all of them are."""
        number = len(self.letters) - self.letters.rfind("S") - 1
        return number if number < NEWEST else max(number, self.counted)

    @property
    def times(self) -> str:
        """How often it has failed in a row, in words: ``30+`` where nobody has counted further."""
        number = self.failed_in_a_row
        return f"{number}+" if number == NEWEST >= self.counted else f"{number:,}"

    @property
    def last(self) -> str:
        """What is known of the last one where it has left no error: ``LOST``."""
        facts = next(((state, each) for state, each in STATES.items() if each.letter == self.letters[-1:]), None)
        return (facts[1].sentence.format(again="", worker="") or facts[0].value) if facts else ""

    @property
    def result(self) -> Result:
        """What they say, by themselves; the prelude of the scripts of runs has the same rule."""
        if not self.letters:
            return Result.NEVER
        if self.failed_in_a_row:
            return Result.FAILED
        return Result.UNSTABLE if self.failed >= 3 else Result.OK

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"ends": self.letters, "ended_at": self.at and self.at.isoformat()}


#: How many runs tell how long one usually takes.
FEWEST_FOR_USUAL = 3


@dataclass(frozen=True, kw_only=True)
class EntryResult:
    """What became of the last runs of an entry.

    Attributes:
        result: the first of :class:`Result` that holds.
        ends: the last ends of its runs.
        since: when the first of the failures in a row ended, aware UTC; None: the last run has not failed, or it is
            not known.
        error: the error of the newest run that failed; empty: none, or it is not known any more.
        waiting: how many of its newest runs wait for a worker, once one does for half a minute.
        waiting_since: since when the oldest of them waits, aware UTC; None: none does.
        queue: the queue that they wait in; empty: the default one.
        running: how long the run takes so far that is executed now; None: none is.
        usual, longest: median and 95th percentile of how long its newest runs took; None: too few are known.
        late: how long after its fire time the newest run was sent, or started; None: not known.
        unended: what became of the newest run where none has ended that counts; empty: nothing was sent.
    """

    result: Result
    ends: Ends
    since: datetime | None = None
    error: str = ""
    waiting: int = 0
    waiting_since: datetime | None = None
    queue: str = ""
    running: timedelta | None = None
    usual: timedelta | None = None
    longest: timedelta | None = None
    late: timedelta | None = None
    unended: str = ""

    @property
    def words(self) -> str:
        """The result for a column of a table: ``failed 11x: ValueError: no feed``."""
        if self.result is Result.FAILED:
            times = f" {self.ends.times}x" if self.ends.failed_in_a_row > 1 else ""
            return f"failed{times}: {self.reason}"
        if self.result is Result.UNSTABLE:
            return f"unstable {self.ends.failed} of {len(self.ends.letters)}"
        if self.result is Result.LATE and self.late is not None:
            return f"ok, {duration_words(self.late)} late"
        if self.result in (Result.WAITING, Result.RUNNING):
            return self.activity
        return (self.unended or "never ran") if self.result is Result.NEVER else str(self.result)

    @property
    def usual_words(self) -> str:
        """How long its runs take, ``usually takes 3.2 s, 95 % in 9.0 s``; empty where too few are known."""
        longest = f", 95 % in {span_words(self.longest)}" if self.longest else ""
        return f"usually takes {span_words(self.usual)}{longest}" if self.usual else ""

    @property
    def reason(self) -> str:
        """Why the last run failed: its error, or what is known of a run that has left none."""
        return self.error or self.ends.last

    @property
    def waiting_words(self) -> str:
        """How many of its runs wait for a worker, in words: ``30+`` where all that were looked at do."""
        return f"{self.waiting}+" if self.waiting == NEWEST else str(self.waiting)

    @property
    def activity(self) -> str:
        """What its runs do now, beside the result of the last ones, or an empty text."""
        if self.waiting:
            where = f" in queue {shown(self.queue)}" if self.queue else ""
            return f"waiting{where}, {self.waiting_words} {'run' if self.waiting == 1 else 'runs'}"
        if self.running is None:
            return ""
        if self.usual is None:
            return f"running for {span_words(self.running)}"
        running, usual = span_words(self.running), span_words(self.usual)
        unit = f" {usual.rpartition(' ')[2]}"
        return f"running {running.removesuffix(unit)} of {usual}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object: times as ISO 8601, durations in seconds."""
        spans = {name: getattr(self, name) for name in ("running", "usual", "longest", "late")}
        return {
            "result": self.result.value,
            **self.ends.as_dict(),
            "failed_in_a_row": self.ends.failed_in_a_row,
            "since": self.since and self.since.isoformat(),
            "error": self.error,
            "waiting": self.waiting,
            "waiting_since": self.waiting_since and self.waiting_since.isoformat(),
            "queue": self.queue,
            **{name: None if span is None else span.total_seconds() for name, span in spans.items()},
        }


def result_of(
    ends: Ends,
    runs: Sequence[RunBrief | Run],
    now: datetime,
    *,
    options: Mapping[str, Any] = MappingProxyType({}),
    last: datetime | None = None,
    due: datetime | None = None,
    since: datetime | None = None,
    secrets: Iterable[str] = (),
) -> EntryResult:
    """Return the result of an entry.

    Arguments:
        ends: its last ends.
        runs: its newest runs, the newest first; :data:`NEWEST` of them count.
        now: the time of the Redis server.
        options: those of its runs, of which it takes ``queue``, unless it was routed elsewhere, and
            ``countdown``.
        last: the last fire time of which a run was sent.
        due: when that run was due, which a jitter may have put off.
        since: since when its runs fail, where the caller knows it; else it is taken from the runs.
        secrets: those among its arguments; errors may quote them.
    """
    runs = runs[:NEWEST]
    sent = [(run.sent_at, run.queue) for run in runs if run.state is State.SENT and run.sent_at]
    waiting = [(option_instant(options.get("countdown"), at) or at, routed) for at, routed in sent]
    waiting_since = min((at for at, _ in waiting), default=now)
    if now - waiting_since < WAITS_AFTER:
        waiting = []
    executed = [run.started_at for run in runs if run.state is State.STARTED and run.started_at]
    late = _lateness(runs, last, due)
    result = ends.result
    if waiting and result is not Result.FAILED:
        result = Result.WAITING
    elif executed and result not in (Result.FAILED, Result.UNSTABLE):
        result = Result.RUNNING
    elif result is Result.OK and late is not None and late > LATE_AFTER:
        result = Result.LATE
    usual, longest = _durations(runs)
    return EntryResult(
        result=result,
        ends=ends,
        since=since or (_failing_since(runs, ends.failed_in_a_row) if result is Result.FAILED else None),
        error=shown(without_secrets(next((run.error for run in runs if run.state in FAILED), ""), secrets)),
        waiting=sum(at <= now for at, _ in waiting),
        waiting_since=waiting_since if waiting else None,
        queue=next((routed for _, routed in waiting if routed), str(options.get("queue") or "")),
        running=max(now - executed[0], timedelta(0)) if executed else None,
        usual=usual,
        longest=longest,
        late=late,
        unended=_UNENDED.get(runs[0].state, "waits for a worker") if runs and not ends.letters else "",
    )


#: What an entry is called none of whose runs has ended in a way that counts, by the state of its newest run: those that
#: somebody stopped do not count, and backfills do not either.
_UNENDED = {
    State.BUFFERED: "waits for the run before it",
    State.REVOKED: "stopped",
    State.SUCCESS: "ran outside of its schedule",
    **dict.fromkeys(FAILED, "failed outside of its schedule"),
}


def _lateness(runs: Sequence[RunBrief | Run], last: datetime | None, due: datetime | None) -> timedelta | None:
    """Return how long after it was due the run of the last fire time was sent, or started, or None if unknown.

    Others are not late: a run that makes up for a fire time, or was triggered with one, is sent long after it.
    """
    if last is None or due is None:
        return None
    of_last = (run for run in runs if run.fire_time and abs(run.fire_time - last) < timedelta(milliseconds=1))
    begun = [moment for run in of_last if (moment := run.started_at or run.sent_at)]
    return max(min(begun) - due, timedelta(0)) if begun else None


def _failing_since(runs: Sequence[RunBrief | Run], number: int) -> datetime | None:
    """Return when the first of so many newest failures in a row ended; None where it is not among these runs."""
    failed = [run.finished_at for run in runs if run.state in FAILED]
    return failed[number - 1] if number <= len(failed) else None


def _durations(runs: Sequence[RunBrief | Run]) -> tuple[timedelta | None, timedelta | None]:
    """Return the median and the 95th percentile of how long runs took that have ended well."""
    known = [run.took for run in runs if run.state is State.SUCCESS and run.took is not None]
    if len(known) < FEWEST_FOR_USUAL:
        return None, None
    return timedelta(seconds=median(known)), timedelta(seconds=quantiles(known, n=20, method="inclusive")[-1])


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Runs of one entry that failed by the same error, addresses, ids and times in its text aside.

    Attributes:
        name: the entry.
        error: the error of the newest of them; empty: none is known, as of a run that was lost.
        state: the state of the newest of them.
        runs: their ids, the newest first.
        first, last: when the oldest and the newest of them ended, aware UTC; None: not known.
    """

    name: str
    error: str
    state: State
    runs: tuple[str, ...]
    first: datetime | None
    last: datetime | None

    @property
    def key(self) -> str:
        """What its runs have in common."""
        return failure_key(self.error, self.state)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"name": self.name, "count": len(self.runs), **json_fields(self)}


@dataclass(frozen=True, kw_only=True)
class Failures:
    """The newest failures of the schedule in groups, that of the newest one first; iterating over it yields them.

    Attributes:
        groups: each a :class:`FailureGroup`, of runs that are still kept.
        begin: when the oldest failure ended of which the schedule knows, aware UTC; None: it knows of none.
    """

    groups: tuple[FailureGroup, ...] = ()
    begin: datetime | None = None

    def __iter__(self) -> Iterator[FailureGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)


def failure_key(error: str, state: State) -> str:
    """Return the text by which failures of an entry are grouped: their error, or the state of a run without one."""
    return fingerprint(error) or state.value


#: How many failures the scripts list.
MOST_FAILURES = 1_000


def read_failures(context: Context, since: datetime | None = None, before: datetime | None = None) -> Failures:
    """Return the newest failures of the schedule; :meth:`redisbeater.results.Runs.failures`."""
    groups: dict[tuple[str, str], list[Run]] = {}
    runs = context.redis.runs
    for run in shown_runs(context, runs.failures(MOST_FAILURES, before, since)):
        groups.setdefault((run.name, failure_key(run.error, run.state)), []).append(run)
    found_groups = tuple(
        FailureGroup(
            name=name,
            error=same[0].error,
            state=same[0].state,
            runs=tuple(run.id for run in same),
            first=same[-1].finished_at,
            last=same[0].finished_at,
        )
        for (name, _), same in groups.items()
    )
    return Failures(groups=found_groups, begin=runs.first_failure())
