"""The verdict on a beat and its schedule: what ``/live`` and ``/health`` answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from redisbeater.management.health import HANDOVER, LONGEST_BROKER_OUTAGE, Health, Terms, check_health
from redisbeater.observe.beat import Beat
from redisbeater.time_words import duration_words

__all__ = ("Verdict", "Verdicts")

#: Seconds that Redis has for its answer.
REDIS_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether all is well, and if not, why.

    Attributes:
        problems: the checks that failed, each with what is wrong; empty: all is well.
        checks: the checks that were made.
        facts: what a healthy beat tells about itself.
    """

    problems: Mapping[str, str]
    checks: tuple[str, ...]
    facts: str

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        return f"unhealthy: {'; '.join(self.problems.values())}" if self.problems else f"ok: {self.facts}"

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it: each check with ``ok``, or with what is wrong."""
        return {
            "healthy": self.is_good,
            "answer": self.sentence,
            "checks": {check: self.problems.get(check, "ok") for check in self.checks},
        }


class Verdicts:
    """The verdicts on one beat."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat
        #: Since when nobody leads, on the monotonic clock; None: somebody does, or nobody asked.
        self._unled_since: float | None = None

    def live(self) -> Verdict:
        """Return whether beat makes passes. Asks neither Redis nor the broker: a restart would not bring them back."""
        age, limit = self._beat.pass_age, self._beat.pass_limit
        problem = f"no pass for {duration_words(timedelta(seconds=age))} (limit {limit:g} s)"
        problems = {"pass": problem} if age > limit else {}
        return Verdict(problems=problems, checks=("pass",), facts=f"last pass {age:.1f} s ago")

    def health(self, *, strict: bool = False) -> Verdict:
        """Return whether this beat and its schedule are healthy; waits for Redis, two seconds at most.

        Arguments:
            strict: whether broken and failing entries, and workers that report nothing, are unhealthy.
        """
        live = self.live()
        problems = {**live.problems, **self._problems_of_broker()}
        terms = Terms(strict=strict, longest_pass=timedelta(seconds=self._beat.pass_limit))
        found = check_health(self._beat.context, terms, REDIS_SECONDS)
        for check, problem in zip(found.failed, found.problems):
            if check != "lead" or self._is_unled_for(self._grace):
                problems.setdefault(check, problem)
        if "lead" not in found.failed:
            self._unled_since = None
        checks = ("pass", "lead", "late", "redis", "broker", *(("entries", "workers") if strict else ()))
        return Verdict(problems=problems, checks=checks, facts=_facts(self._beat, found, live))

    def _problems_of_broker(self) -> dict[str, str]:
        away = timedelta(seconds=self._beat.broker.away_seconds)
        return {"broker": f"no broker for {duration_words(away)}"} if away > LONGEST_BROKER_OUTAGE else {}

    @property
    def _grace(self) -> float:
        """Seconds for which nobody may lead: a lock has to expire, and another beat to take it."""
        return self._beat.context.config.lock_timeout + HANDOVER.total_seconds()

    def _is_unled_for(self, seconds: float) -> bool:
        """Return whether nobody has led for this long, since this was first asked."""
        if self._unled_since is None:
            self._unled_since = time.monotonic()
        return time.monotonic() - self._unled_since > seconds


def _facts(beat: Beat, found: Health, live: Verdict) -> str:
    role = [] if beat.heartbeat.role == "leader" else [beat.heartbeat.role]
    facts = [fact for fact in found.facts if not fact.startswith("last pass")]
    return ", ".join([*role, live.facts, *facts])
