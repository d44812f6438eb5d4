"""The health of a schedule: whether a beat leads and nothing is late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Literal, TypeVar

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.exceptions import StoreError
from redisbeater.management.beats import LONGEST_PASS
from redisbeater.management.runs.record import NO_REPORTS
from redisbeater.management.status import Status, read_status
from redisbeater.model.beat_line import BeatLine
from redisbeater.store import Late
from redisbeater.times import duration_words

__all__ = ("HANDOVER", "LONGEST_BROKER_OUTAGE", "Health", "Terms", "answer_within", "check_health")

T = TypeVar("T")

#: A problem: the check that found it, and what is wrong.
Problem = tuple[str, str]

#: How long a broker may be away.
LONGEST_BROKER_OUTAGE = timedelta(seconds=60)

#: How long the lock may be free beyond its timeout.
HANDOVER = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is expected of a healthy schedule.

    Attributes:
        max_late: how late the oldest entry may be.
        require: ``"leader"``: a beat must lead; ``"any"``: a beat must run.
        self_token: the token of one beat, or its host and process id, that alone must run; empty: the schedule.
        strict: whether broken and failing entries are unhealthy, and workers that do not report runs.
        longest_pass: how old the line of a beat may be.
    """

    max_late: timedelta = timedelta(seconds=60)
    require: Literal["leader", "any"] = "leader"
    self_token: str = ""
    strict: bool = False
    longest_pass: timedelta = LONGEST_PASS


@dataclass(frozen=True, kw_only=True)
class Health:
    """Whether a schedule is healthy, and why not.

    Attributes:
        problems: what is wrong; empty: it is healthy.
        failed: for each problem the check that found it: ``pass lead late redis broker entries workers``.
        facts: what is said of a healthy schedule.
        status: what was read; None: Redis did not answer.
    """

    problems: tuple[str, ...]
    failed: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    status: Status | None = field(default=None, repr=False)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        return f"unhealthy: {'; '.join(self.problems)}" if self.problems else f"ok: {', '.join(self.facts)}"

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        status = self.status.as_dict() if self.status else None
        found = {"problems": list(self.problems), "failed": list(self.failed)}
        return {"healthy": self.is_healthy, **found, "status": status}


def check_health(context: Context, terms: Terms, timeout: float) -> Health:
    """Return whether the schedule is healthy; a Redis that does not answer in time, or refuses, is a problem."""
    late_after = terms.max_late.total_seconds()
    try:
        answer = answer_within(timeout, lambda: (read_status(context), context.redis.failing.late(late_after)))
    except StoreError as exc:
        return _unhealthy([("redis", f"Redis: {shown(str(exc))}")])
    if answer is None:
        return _unhealthy([("redis", f"no answer from Redis within {timeout:g} s")])
    status, late = answer
    problems = list(_problems(status, late, terms))
    return replace(_unhealthy(problems), facts=tuple(_facts(status)), status=status)


def answer_within(seconds: float, question: Callable[[], T]) -> T | None:
    """Return the answer to a question to Redis; None if none comes in time: the question is left behind in a thread.

    Raises:
        StoreError: Redis cannot be reached, or refuses.
    """
    answers: SimpleQueue[T | StoreError] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(question())
        except StoreError as exc:
            answers.put(exc)

    Thread(target=ask, name="question", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        return None
    if isinstance(answer, StoreError):
        raise answer
    return answer


def _unhealthy(problems: list[Problem]) -> Health:
    return Health(problems=tuple(text for _, text in problems), failed=tuple(check for check, _ in problems))


def _problems(status: Status, late: Late, terms: Terms) -> Iterator[Problem]:
    if status.refusal:
        yield "redis", f"Redis refuses changes: {status.refusal}"
    yield from _problems_of_beats(status, terms)
    if late.entries and status.pause is None:
        entries = "1 entry" if late.entries == 1 else f"{late.entries:,} entries"
        limit = duration_words(terms.max_late)
        yield "late", f"{entries} late, oldest {duration_words(late.oldest)} (limit {limit})"
    for beat in status.leaders:
        away = beat.broker_away + (status.now - beat.last_pass) if beat.broker_away else timedelta(0)
        if away > LONGEST_BROKER_OUTAGE:
            yield "broker", f"{beat.name} has no broker for {duration_words(away)}"
    if terms.strict and status.broken:
        yield "entries", f"{status.broken:,} broken"
    if terms.strict and status.failing:
        yield "entries", f"{status.failing:,} failing"
    if terms.strict and not status.workers_report:
        yield "workers", NO_REPORTS


def _problems_of_beats(status: Status, terms: Terms) -> Iterator[Problem]:
    if terms.self_token:
        own = [beat for beat in status.beats if terms.self_token in (beat.token, beat.name)]
        if not own:
            yield "pass", f"no beat {shown(terms.self_token)} has been seen within a minute"
        yield from _hanging(status, own, terms.longest_pass)
    elif terms.require == "any":
        if not any(_age(status, beat) <= terms.longest_pass for beat in status.beats):
            yield "pass", "no beat runs"
    else:
        if problem := _missing_leader(status):
            yield "lead", problem
        yield from _hanging(status, status.leaders, terms.longest_pass)


def _missing_leader(status: Status) -> str:
    if status.is_led:
        return status.lock_warning
    ages = [_age(status, beat) for beat in status.beats if beat.leads]
    if ages and min(ages) < (status.lock_timeout or timedelta(0)) + HANDOVER:
        return ""  # another beat takes over
    return f"no leader for {duration_words(min(ages))}" if ages else "no leader"


def _hanging(status: Status, beats: list[BeatLine], longest_pass: timedelta) -> Iterator[Problem]:
    for beat in beats:
        if (age := _age(status, beat)) > longest_pass:
            yield "pass", f"{beat.name} made no pass for {duration_words(age)}"


def _age(status: Status, beat: BeatLine) -> timedelta:
    return max(status.now - beat.last_pass, timedelta(0))


def _facts(status: Status) -> Iterator[str]:
    if status.is_led:
        yield f"leader {status.leader_name}"
    for beat in status.leaders[:1]:
        yield f"last pass {_age(status, beat).total_seconds():.1f} s ago"
    if status.pause is not None:
        yield f"paused{f' by {status.pause.by}' if status.pause.by else ''}"
    elif status.due:
        yield f"{status.due:,} due, oldest late {duration_words(status.oldest)}"
    else:
        yield "nothing late"
