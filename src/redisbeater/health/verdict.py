"""``Health``: whether a schedule is healthy, and why not, as one answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar

from redisbeater.context import Context
from redisbeater.display import json_form, shown
from redisbeater.exceptions import StoreError
from redisbeater.health.status import LONGEST_PASS, Status, read_status
from redisbeater.model.beat_line import BeatLine
from redisbeater.model.incident import FAILED, NO_REPORTS
from redisbeater.store.failure import handshake_hint
from redisbeater.store.measures import Late
from redisbeater.times import duration_words

T = TypeVar("T")

#: A problem: the check that found it, and what is wrong.
Problem = tuple[str, str]

#: How many entries that failed a problem names.
MOST_FAILED = 5

#: How long a broker may be away.
LONGEST_BROKER_OUTAGE = timedelta(seconds=60)

#: How long it may be impossible to tell a receiver of incidents.
LONGEST_UNTOLD = timedelta(minutes=5)

#: How long the lock may be free beyond its timeout.
HANDOVER = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """What is expected of a healthy schedule.

    Attributes:
        max_late: how late the oldest entry may be.
        require: ``"leader"``: a beat must lead; ``"any"``: a beat must run.
        self_token: the token of one beat, or its host and process id, that alone must run; empty: the schedule.
        strict: whether incidents of entries are unhealthy, failing delays, and workers that do not report runs; where
            no beat looks for incidents, what is listed as broken, not sent or failed.
        max_failed: how many entries may fail.
        longest_pass: how old the line of a beat may be.
    """

    max_late: timedelta = timedelta(seconds=60)
    require: Literal["leader", "any"] = "leader"
    self_token: str = ""
    strict: bool = False
    max_failed: int = 0
    longest_pass: timedelta = LONGEST_PASS


@dataclass(frozen=True, kw_only=True)
class Health:
    """Whether a schedule is healthy, and why not.

    Attributes:
        problems: what is wrong; empty: it is healthy.
        failed: for each problem the check that found it: ``pass lead late redis broker notices incidents entries
            workers results delays``.
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
        """Return it as a JSON object."""
        found = {"problems": self.problems, "failed": self.failed, "status": self.status}
        return json_form({"healthy": self.is_healthy, **found})


def check_health(context: Context, terms: HealthLimits, timeout: float) -> Health:
    """Return whether the schedule is healthy; a Redis that does not answer in time, or refuses, is a problem."""
    late_after, failed_before = terms.max_late.total_seconds(), dict(context.redis.errors)
    question = Question(lambda: _asked(context, late_after, terms.strict))
    try:
        answer = question.answer(timeout)
    except StoreError as exc:
        return _unhealthy([("redis", f"Redis: {shown(str(exc))}")])
    if answer is None:
        has_failed = context.redis.errors != failed_before
        why = f": {shown(context.redis.newest_error)}" if has_failed else handshake_hint(question.thread)
        return _unhealthy([("redis", f"no answer from Redis within {timeout:g} s{why}")])
    status, late, failed = answer
    problems = list(_problems(status, late, terms))
    if terms.strict and not status.is_looked_at:
        problems += _listed(status, failed, terms)
    return replace(_unhealthy(problems), facts=tuple(_facts(status)), status=status)


def _asked(context: Context, late_after: float, is_strict: bool) -> tuple[Status, Late, list[str]]:
    """Return the status, what is late, and the names of entries that failed last."""
    status = read_status(context, counts_unread=is_strict)
    failed = context.redis.runs.newest_failed(MOST_FAILED) if status.failed else []
    return status, context.redis.failing.late(late_after), failed


class Question(Generic[T]):
    """A question to Redis, asked in a thread: without an answer in time it is left behind there."""

    def __init__(self, question: Callable[[], T]) -> None:
        self._question = question
        self._answers: list[T | StoreError] = []
        self._has_answered = threading.Event()
        self.thread = threading.Thread(target=self._ask, name="question", daemon=True)
        self.thread.start()

    def answer(self, seconds: float) -> T | None:
        """Return the answer; None if none comes in time.

        Raises:
            StoreError: Redis cannot be reached, or refuses.
        """
        self._has_answered.wait(seconds)
        answer = self._answers[0] if self._answers else None
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def _ask(self) -> None:
        try:
            self._answers.append(self._question())
        except StoreError as exc:
            self._answers.append(exc)
        finally:
            self._has_answered.set()


def _unhealthy(problems: list[Problem]) -> Health:
    return Health(problems=tuple(text for _, text in problems), failed=tuple(check for check, _ in problems))


def _problems(status: Status, late: Late, terms: HealthLimits) -> Iterator[Problem]:
    if status.refusal:
        yield "redis", f"Redis refuses changes: {status.refusal}"
    yield from _problems_of_beats(status, terms)
    if late.entries and status.pause is None:
        entries = "1 entry" if late.entries == 1 else f"{late.entries:,} entries"
        limit = duration_words(terms.max_late)
        yield "late", f"{entries} late, oldest {duration_words(late.oldest)} (limit {limit})"
    if status.oldest_delay > terms.max_late and status.delays:
        oldest, limit = duration_words(status.oldest_delay), duration_words(terms.max_late)
        yield "delays", f"delays late: {status.delays.late:,}, oldest {oldest} (limit {limit})"
    for kind, number in status.news.items():
        yield from _of_incidents(status, kind, number, terms)
    for receiver in status.receivers:
        if receiver.since is not None and (untold := status.now - receiver.since) > LONGEST_UNTOLD:
            length = duration_words(untold)
            yield "notices", f"{receiver.name} could not be told of incidents for {length}: {shown(receiver.problem)}"
    for beat in status.leaders:
        away = beat.broker_away_at(status.now)
        if away > LONGEST_BROKER_OUTAGE:
            yield "broker", f"{beat.name} has no broker for {duration_words(away)}"
    if terms.strict and status.delays and status.delays.failing:
        yield "delays", f"delays not sent: {status.delays.failing:,}"
    if terms.strict and not status.workers_report:
        yield "workers", NO_REPORTS


def _of_incidents(status: Status, kind: str, number: int, terms: HealthLimits) -> Iterator[Problem]:
    """Yield the problem that the open incidents of a kind are; those of entries that failed are one together."""
    found = [incident for incident in status.incidents if incident.kind == kind]
    is_wanted = found and (terms.strict or not found[0].is_strict) and found[0].check != "late"
    if not is_wanted or (kind == FAILED and number <= terms.max_failed):
        return
    if not found[0].entry:
        yield found[0].check, found[0].told
    else:
        names = _names([incident.entry for incident in reversed(found)], number)
        yield found[0].check, f"{number:,} {kind.replace('_', ' ')}{names}"


def _listed(status: Status, failed: list[str], terms: HealthLimits) -> Iterator[Problem]:
    """Yield what is listed as wrong, where no beat looks for incidents."""
    if status.broken:
        yield "entries", f"{status.broken:,} broken"
    if status.failing:
        yield "entries", f"{status.failing:,} not sent"
    if status.failed > terms.max_failed:
        yield "results", f"{status.failed:,} failed{_names(failed, status.failed)}"


def _names(names: Sequence[str], number: int) -> str:
    more = [f"and {number - len(names):,} more"] if 0 < len(names) < number else []
    return f": {' '.join([', '.join(map(shown, names)), *more])}" if names else ""


def _problems_of_beats(status: Status, terms: HealthLimits) -> Iterator[Problem]:
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
        if beat.delivery:
            yield f"runs {beat.delivery_words}"
    if status.pause is not None:
        yield f"paused{f' by {status.pause.by}' if status.pause.by else ''}"
    elif status.due:
        yield f"{status.due:,} due, oldest late {duration_words(status.oldest)}"
    else:
        yield "nothing late"
