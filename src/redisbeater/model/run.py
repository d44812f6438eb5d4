"""A run: one execution of one fire time, from the moment it is sent, or waits for its turn, to its end."""

from __future__ import annotations

import builtins
import math
import traceback
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from redisbeater.display import json_fields, shown, text_of, without_secrets
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.policies import TextEnum
from redisbeater.times import FAR_FUTURE, from_iso, from_unix, to_unix

#: The header that tells a worker that a run is recorded, and which try of it this is, counted from 1.
ATTEMPT_HEADER = "redisbeater_attempt"

#: The headers that tell a task which fire times its run stands for.
PREVIOUS_HEADER, COALESCED_HEADER = "previous_fire_time", "coalesced"

#: Characters that are kept of an error, and of the ``repr`` of a result.
MOST_ERROR_CHARACTERS, MOST_RESULT_CHARACTERS = 500, 200

#: How long a run may wait for a worker until that is a problem.
WAITS_AFTER = timedelta(seconds=30)

#: Errors of one chain, frames and notes of each, and characters in all, that a traceback keeps.
MOST_CHAINED, MOST_FRAMES, MOST_NOTES, MOST_TRACEBACK = 4, 20, 5, 10_000


class State(TextEnum):
    """What is known of a run."""

    #: It waits for the end of the run before it, and is sent then.
    BUFFERED = "BUFFERED"
    #: The broker has it; no worker has reported its start.
    SENT = "SENT"
    #: A worker executes it, and renews its lease.
    STARTED = "STARTED"
    #: Its task has asked for another try, which has not begun.
    RETRY = "RETRY"
    #: It has ended well.
    SUCCESS = "SUCCESS"
    #: Its task has raised an error.
    FAILURE = "FAILURE"
    #: It was stopped, before its start or while it was executed.
    REVOKED = "REVOKED"
    #: Nobody has started it before its deadline.
    EXPIRED = "EXPIRED"
    #: Its lease is over, or nobody has started it for too long. It is final unless it is to be sent again.
    LOST = "LOST"


#: How a state is to be taken. Whatever shows states has one colour for each of these.
Tone = Literal["good", "bad", "warn", "busy", "quiet"]


class StateFacts(NamedTuple):
    """What is known of a state, from which all derives that does not treat it in a special way.

    Attributes:
        tone: how it is to be taken.
        follows: the states that it may follow. A run of which nothing is known may be reported in any but LOST.
        is_end: nothing more is expected. LOST is an end unless the run is to be sent again.
        is_failure: it is one more failure in a row, for ``disable_after_failures``.
        is_reported: an execution has ended so, and has a duration; with ``is_failure`` also a traceback.
        needs_redelivery: the run begins again only if the broker has given its message out again.
        letter: what stands for it among the last ends of an entry; empty: it says nothing about the entry.
        sentence: what :func:`sentence_of` returns, with ``{again}`` and ``{worker}`` in it; empty: the name says it.
    """

    tone: Tone
    follows: tuple[State, ...]
    is_end: bool = False
    is_failure: bool = False
    is_reported: bool = False
    needs_redelivery: bool = False
    letter: str = ""
    sentence: str = ""


#: The states of a run that has not ended, and those of one that a worker may report: it may be lost by mistake.
_OPEN = (State.BUFFERED, State.SENT, State.STARTED, State.RETRY)
_REPORTED = (State.SENT, State.STARTED, State.LOST)

#: A state that is an end is counted under its name in lower case, by a field of :class:`SentCounts`.
STATES: Mapping[State, StateFacts] = {
    State.BUFFERED: StateFacts("warn", (), sentence="waits for the run before it"),
    State.SENT: StateFacts("busy", (State.BUFFERED, State.LOST), sentence="no worker has reported its start"),
    State.STARTED: StateFacts(
        "busy", (State.BUFFERED, State.SENT, State.RETRY, State.FAILURE, State.REVOKED, State.EXPIRED, State.LOST)
    ),
    State.RETRY: StateFacts("warn", _REPORTED, sentence="to be tried again"),
    State.SUCCESS: StateFacts("good", _REPORTED, is_end=True, is_reported=True, letter="S"),
    State.FAILURE: StateFacts(
        "bad", _REPORTED, is_end=True, is_failure=True, is_reported=True, needs_redelivery=True, letter="F"
    ),
    State.REVOKED: StateFacts("quiet", (*_OPEN, State.LOST), is_end=True, needs_redelivery=True),
    State.EXPIRED: StateFacts(
        "bad",
        (State.SENT, State.RETRY),
        is_end=True,
        letter="X",
        sentence="no worker had started it{again} before its deadline",
    ),
    State.LOST: StateFacts("bad", _OPEN, is_end=True, is_failure=True, letter="L"),
}

#: The states after which nothing more is expected; ``LOST`` is one unless the run is to be sent again.
FINAL = frozenset(state for state, facts in STATES.items() if facts.is_end)

#: The ends that people look for as failures. Not each counts for ``disable_after_failures``; ``is_failure`` says that.
FAILED = frozenset(state for state in FINAL if STATES[state].tone == "bad")

#: Those that nothing may follow: an execution that begins later is one too many.
CLOSED = FINAL.difference(*(facts.follows for facts in STATES.values()))


#: Those that another end may follow: nobody has reported them, and a worker may do so later.
REVISABLE = frozenset(state for state in FINAL if any(state in STATES[end].follows for end in FINAL))


class Kind(TextEnum):
    """Why there is a run."""

    #: Its fire time has come.
    SCHEDULE = "schedule"
    #: A person or a program triggered it.
    TRIGGER = "trigger"
    #: It repeats a run that has ended.
    RESTART = "restart"
    #: It makes up for a fire time in the past.
    BACKFILL = "backfill"


class Span(NamedTuple):
    """The fire times that a run stands for.

    Attributes:
        previous: the fire time of the run of its entry that was sent before it, aware UTC; None: there is none.
        coalesced: how many fire times it stands for.
        due_at: when it was due, if its jitter put that off; None: at its fire time.
    """

    previous: datetime | None = None
    coalesced: int = 1

    @classmethod
    def from_headers(cls, headers: Mapping[str, Any]) -> Span:
        """Read the headers of a run."""
        return cls(from_iso(headers.get(PREVIOUS_HEADER)), headers.get(COALESCED_HEADER, 1))

    def to_headers(self) -> dict[str, Any]:
        """Return its headers: what is not known, or no more than one fire time, has none."""
        headers: dict[str, Any] = {} if self.previous is None else {PREVIOUS_HEADER: self.previous.isoformat()}
        return headers if self.coalesced <= 1 else {**headers, COALESCED_HEADER: self.coalesced}


#: The span of a run that stands for its own fire time, after none.
ONE = Span()


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What is needed to send a run: task, arguments and options as they were sent, as JSON values."""

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]

    def to_text(self) -> str:
        """Return it as it is stored.

        Raises:
            InvalidEntry: a value is none that JSON has.
        """
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        json_text.check_value(stored, "$", max_depth=json_text.MAX_DEPTH + 2)
        return json_text.to_text(stored)

    @classmethod
    def from_text(cls, text: str) -> Payload:
        """Read a stored payload.

        Raises:
            InvalidEntry: another program wrote it, or there is none.
        """
        stored = json_text.from_text(text, "payload")
        kinds = {"task": str, "args": list, "kwargs": dict, "options": dict}
        if not isinstance(stored, dict) or not all(isinstance(stored.get(name), kinds[name]) for name in kinds):
            raise InvalidEntry("payload", "expected an object with task, args, kwargs and options")
        return cls(**{name: stored[name] for name in kinds})


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """A run that was sent, or is to wait, as it is recorded.

    Attributes:
        id: the id of its Celery task.
        state: SENT or BUFFERED.
        payload: what is needed to send it again; ``Payload.to_text()``.
        eta: when a worker may start it, aware UTC; None: at once.
        expires: when no worker may start it any more, aware UTC; None: it does not expire.
        restart_of: the id of the run that it repeats.
        version: the version of its entry's definition, if its arguments are the ones there.
        queue: where it is routed to, if that is neither what its options say nor the default queue.
        is_alone: no other run of its entry was active, as any ``overlap`` but ``allow`` demands. Its lease, once it has
            ended, is not renewed while another is active.
        span: the fire times that it stands for.
        due_at: when it was due, if its jitter put that off; None: at its fire time.
    """

    id: str
    name: str
    task: str
    fire_time: datetime
    payload: str
    state: State = State.SENT
    kind: Kind = Kind.SCHEDULE
    attempt: int = 1
    eta: datetime | None = None
    expires: datetime | None = None
    by: str = ""
    note: str = ""
    restart_of: str = ""
    version: str = ""
    queue: str = ""
    is_alone: bool = False
    span: Span = ONE
    due_at: datetime | None = None

    def to_row(self) -> dict[str, Any]:
        """Return it as the scripts take it, without defaults."""
        stored = {"task": self.task, "fire_time": stored_time(self.fire_time)}
        if self.expires:
            stored["expires"] = to_unix(self.expires)
        if self.due_at not in (None, self.fire_time):
            stored["due_at"] = to_unix(self.due_at)
        if self.kind is not Kind.SCHEDULE:
            stored["kind"] = self.kind.value
        if self.is_alone:
            stored["alone"] = "1"
        if self.span.previous:
            stored["previous_fire_time"] = stored_time(self.span.previous)
        if self.span.coalesced > 1:
            stored["coalesced"] = str(self.span.coalesced)
        texts = ("by", "note", "restart_of", "version", "queue")
        stored.update((name, getattr(self, name)) for name in texts if getattr(self, name))
        row: dict[str, Any] = {"id": self.id, "fields": [text for pair in stored.items() for text in pair]}
        row["payload"] = self.payload
        if self.state is not State.SENT:
            row["state"] = self.state.value
        if self.attempt != 1:
            row["attempt"] = self.attempt
        if self.eta:
            row["eta"] = to_unix(self.eta)
        if self.expires:
            row["expires"] = stored["expires"]
        return row


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as it is stored. Times are aware UTC of the server's clock; None or empty: not known, or not yet.

    Attributes:
        id: the id of its Celery task.
        name: the name of its entry.
        attempt: 1, and one more each time that it is sent again after it was lost.
        starts: how many executions of it have begun.
        holder: token of the execution that holds its lease, or held it last.
        seen_at: when its worker renewed the lease last.
        expires: when no worker may start it any more.
        error: class and text of the error that ended it.
        result: the ``repr`` of its result, with ``redisbeater_run_results``.
        restart_of: the id of the run that it repeats.
        version: the version of its entry's definition whose arguments it was sent with; empty: they were others.
        queue: where it was routed to, if that is neither what its options say nor the default queue.
        release: that of the code of the worker that has started it last; empty: it has none.
        previous_fire_time: the fire time of the run of its entry that was sent before it.
        coalesced: how many fire times it stands for.
        is_alone: whether no other run of its entry may be active beside it.
        is_to_stop: somebody asked to stop it.
        payload: what is needed to send it again; empty once it has succeeded, or where it was not read.
        lease_end: when its lease ends, or until when it may wait for its start; None: it is not active.
        resend_at: when beat is to send it; None: it is not to be sent.
    """

    id: str
    name: str
    state: State
    task: str = ""
    fire_time: datetime | None = None
    kind: Kind = Kind.SCHEDULE
    attempt: int = 1
    starts: int = 0
    holder: str = ""
    acks_late: bool = False
    sent_at: datetime | None = None
    started_at: datetime | None = None
    seen_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str = ""
    pid: int = 0
    error: str = ""
    result: str = ""
    note: str = ""
    by: str = ""
    restart_of: str = ""
    version: str = ""
    queue: str = ""
    release: str = ""
    expires: datetime | None = None
    previous_fire_time: datetime | None = None
    coalesced: int = 1
    due_at: datetime | None = None
    is_alone: bool = False
    is_to_stop: bool = False
    payload: str = ""
    lease_end: datetime | None = None
    resend_at: datetime | None = None
    #: The score in the set of active runs as it was read, by which a script notices that the lease was renewed since.
    seen_lease: str = ""

    @classmethod
    def from_fields(cls, run_id: str, stored: Mapping[str, Any]) -> Run | None:
        """Read the fields of a stored run, whatever other programs wrote, or return None if it is no run."""
        state = State.__members__.get(str(stored.get("state")))
        name = stored.get("name")
        if state is None or not isinstance(name, str) or not name:
            return None
        values: dict[str, Any] = {field: _instant(stored.get(field)) for field in _TIMES}
        values.update((field, str(stored.get(field) or "")) for field in _TEXTS)
        values["seen_at"] = values["seen_at"] or values["started_at"]
        worker, pid = process_of(values["holder"])
        values["worker"] = values["worker"] if "worker" in stored else worker
        return cls(
            id=run_id,
            name=name,
            state=state,
            kind=next((kind for kind in Kind if kind == stored.get("kind")), Kind.SCHEDULE),
            attempt=max(read_count(stored.get("attempt")), 1),
            starts=read_count(stored.get("starts", "1" if values["started_at"] else "0")),
            pid=read_count(stored.get("pid", pid)),
            acks_late=stored.get("acks_late") == "1",
            is_to_stop=stored.get("stop") == "1",
            is_alone=stored.get("alone") == "1",
            coalesced=max(read_count(stored.get("coalesced")), 1),
            seen_lease=str(stored.get("lease_end") or ""),
            **values,
        )

    @property
    def is_final(self) -> bool:
        """Whether it has ended; a lost run that is to be sent again has not."""
        return self.state in FINAL and self.resend_at is None

    @property
    def span(self) -> Span:
        """The fire times that it stands for."""
        return Span(self.previous_fire_time, self.coalesced)

    @property
    def took(self) -> float | None:
        """Seconds from its start to its end, or to the last renewal of its lease, or None before it starts."""
        end = self.finished_at or self.seen_at
        if self.started_at is None or end is None:
            return None
        return max((end - self.started_at).total_seconds(), 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, without holder and payload, which may hold secrets; times as ISO 8601."""
        return json_fields(self, "holder", "payload", "seen_lease")


Count = TypeVar("Count")

_NONE_YET: Any = 0


@dataclass(frozen=True, kw_only=True)
class SentCounts(Generic[Count]):
    """How many runs were sent, and how many have ended in each state that is an end."""

    sent: Count = _NONE_YET
    success: Count = _NONE_YET
    failure: Count = _NONE_YET
    lost: Count = _NONE_YET
    revoked: Count = _NONE_YET
    expired: Count = _NONE_YET


#: The ends, by the names of their counts, in the order in which people read them.
ENDS = tuple(field.name for field in fields(SentCounts))[1:]

#: What is counted of the runs of an entry, since it was created.
COUNTED = ("sent", *ENDS, "skipped")


@dataclass(frozen=True, kw_only=True)
class RunCounts(SentCounts[int]):
    """The counts of an entry's runs by outcome, since it was created.

    Attributes:
        lost (int): how often one was lost, also where it was sent again, or reported later.
        skipped: fire times that were not run, for whatever reason.
        failures: how many runs in a row have failed, up to the last one.
        buffered: the id of the run that waits for the end of the one before it; empty: none does.
    """

    skipped: int = 0
    failures: int = 0
    buffered: str = ""


def sentence_of(run: Run) -> str:
    """Return the meaning of a run's state in words, or an empty text where its name says it."""
    again, worker = " again" if run.started_at else "", run.worker or "its worker"
    return STATES[run.state].sentence.format(again=again, worker=worker)


def error_text(error: BaseException | str, secrets: Iterable[str] = ()) -> str:
    """Return class and text of an error, as a run keeps them: ``ValueError: no feed``. Secrets are blanked."""
    return shown(_error_text(error, secrets), MOST_ERROR_CHARACTERS)


def _error_text(error: BaseException | str, secrets: Iterable[str]) -> str:
    if isinstance(error, str):
        return without_secrets(error, secrets)
    kind = text_of(type(error), lambda each: each.__name__)  # a metaclass may refuse it
    return f"{kind}: {text_of(error, secrets=secrets)}".removesuffix(": ")


def traceback_text(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return where an error was raised, and the errors before it, as Python prints them; without locals and secrets.

    Of each error the innermost frames are kept, and its text as far as a run keeps it; of what is too long, the last
    lines. Of an error that cannot be read, nothing.
    """
    try:
        parts = ["\n".join(_traceback_lines(each, secrets)) for each in reversed(_chain(error))]
    except Exception:  # anybody's class, and the loader of anybody's module
        return ""
    text = "\n\n".join(parts)
    return text if len(text) <= MOST_TRACEBACK else f"...\n{text[-MOST_TRACEBACK:].partition(chr(10))[2]}"


def packed_traceback(text: str) -> str:
    """Return a traceback as it is stored; empty for none."""
    return b85encode(zlib.compress(text.encode(errors="replace"))).decode() if text else ""


def unpacked_traceback(stored: str) -> str:
    """Return a traceback as people read it; empty where another program wrote what is stored."""
    try:
        return zlib.decompressobj().decompress(b85decode(stored), 4 * MOST_TRACEBACK).decode(errors="replace")
    except (ValueError, zlib.error):
        return ""


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error, those that it groups, and those before it."""
    chain: list[BaseException] = []
    rest: list[BaseException | None] = [error]
    while rest and len(chain) < MOST_CHAINED:
        each = rest.pop(0)
        if each is not None and not any(each is one for one in chain):
            chain.append(each)
            group: Any = each if isinstance(each, getattr(builtins, "BaseExceptionGroup", ())) else None  # Python 3.11
            before = each.__context__ if each.__cause__ is None and not each.__suppress_context__ else each.__cause__
            rest += [*(group.exceptions[:MOST_CHAINED] if group is not None else ()), before]
    return chain


def _traceback_lines(error: BaseException, secrets: Iterable[str]) -> Iterator[str]:
    """Yield the lines about one error, each escaped. A secret that a frame does not end is none of the next frame."""
    notes = getattr(error, "__notes__", ())[:MOST_NOTES]
    frames = traceback.format_tb(error.__traceback__, -MOST_FRAMES)
    said = [_error_text(error, secrets), *(without_secrets(text_of(note), secrets) for note in notes)]
    yield "Traceback (most recent call last):"
    for text in (
        *(without_secrets(frame, secrets) for frame in frames),
        *(each[:MOST_ERROR_CHARACTERS] for each in said),
    ):
        yield from map(shown, text.rstrip("\n").split("\n"))


def result_text(result: object, secrets: Iterable[str] = ()) -> str:
    """Return the ``repr`` of a result, as a run keeps it. Secrets are blanked."""
    return shown(without_secrets(text_of(result, repr), secrets), MOST_RESULT_CHARACTERS)


def process_of(holder: str) -> tuple[str, int]:
    """Return the worker of a holder, as Celery names it by default, and the process; empty and 0 if unknown."""
    host, _, rest = holder.rpartition(":")[0].rpartition(":")
    return (f"celery@{host}", read_count(rest)) if host else ("", 0)


def stored_time(time: datetime) -> str:
    """Return a fire time as a run keeps it: Redis keeps whole numbers in a third of the bytes."""
    return to_unix(time).removesuffix(".000000")


_TIMES = (
    "fire_time", "sent_at", "started_at", "seen_at", "finished_at", "expires", "previous_fire_time",
    "due_at", "lease_end", "resend_at",
)  # fmt: skip
_TEXTS = (
    "task",
    "holder",
    "worker",
    "error",
    "result",
    "note",
    "by",
    "restart_of",
    "version",
    "queue",
    "release",
    "payload",
)


def _instant(text: object) -> datetime | None:
    seconds = _seconds(str(text))
    return None if seconds is None else from_unix(seconds)


def read_count(stored: object) -> int:
    """Return a number that is stored, or 0 where another program wrote something else."""
    digits = str(stored)
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 16 else 0


#: Runs in brief that are kept: of those that an open list reads again, 29 of 30 have not changed.
KEPT_BRIEFS = 2_048


class RunBrief(NamedTuple):
    """A run in brief.

    Attributes:
        id: the id of its Celery task.
        state: what became of it.
        moment: its fire time, or else when it was sent, aware UTC; None: not known.
        took: seconds from its start to its end, or to the last renewal of its lease; None: it has not started.
        sent_at: when it was sent, aware UTC; None: not known.
        finished_at: when it ended, aware UTC; None: it has not, or nobody has reported it.
        started_at: when it began, aware UTC; None: it has not, or nobody has reported it.
        fire_time: its fire time, aware UTC; None: not known.
        queue: where it was routed to, if that is neither what its options say nor the default queue.
        error: the error that ended it, of the newest run that failed; else empty.
    """

    id: str
    state: State
    moment: datetime | None
    took: float | None
    sent_at: datetime | None = None
    finished_at: datetime | None = None
    started_at: datetime | None = None
    fire_time: datetime | None = None
    queue: str = ""
    error: str = ""

    @classmethod
    @lru_cache(KEPT_BRIEFS)
    def from_row(cls, run_id: str, row: tuple[str, ...]) -> RunBrief | None:
        """Read state and times of a stored run, whatever other programs wrote, or return None if it is no run."""
        state = State.__members__.get(row[0])
        if state is None:
            return None
        fire_time, sent_at, started_at, seen_at, finished_at = map(_seconds, row[1:6])
        end = seen_at if finished_at is None else finished_at
        took = None if started_at is None or end is None else max(end - started_at, 0.0)
        fire, sent, started, finished = (
            None if time is None else from_unix(time) for time in (fire_time, sent_at, started_at, finished_at)
        )
        return cls(run_id, state, fire or sent, took, sent, finished, started, fire, *row[6:])

    @property
    def is_final(self) -> bool:
        """Whether it has ended, or is lost."""
        return self.state in FINAL


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text) if text else -1.0
    except ValueError:
        return None
    return min(seconds, FAR_FUTURE.timestamp()) if math.isfinite(seconds) and seconds >= 0 else None
