"""``Preview``: what an entry would do that is not stored yet: its schedule in words, its next runs, what lint says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.upcoming import UpcomingRun, first_runs
from redisbeater.entry import RedisScheduleEntry
from redisbeater.management.lint_rules import Finding, of_arguments, of_definition
from redisbeater.management.lint_runs import of_policies
from redisbeater.management.registered import is_registered
from redisbeater.schedules import describe
from redisbeater.schedules.budget import StepsExhausted

__all__ = ("Preview", "preview_entry")


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What an entry would do, if it were created now.

    Attributes:
        schedule: its schedule in words.
        runs: its next runs.
        findings: what ``lint`` says of its definition.
        problem: why the runs are not known; empty: they are.
    """

    schedule: str
    runs: Sequence[UpcomingRun]
    findings: Sequence[Finding]
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {
            "schedule": self.schedule,
            "runs": [run.as_dict() for run in self.runs],
            "findings": [vars(finding) for finding in self.findings],
            "problem": self.problem,
        }


def preview_entry(context: Context, entry: RedisScheduleEntry, n: int) -> Preview:
    """Return what an entry would do; find its ``n`` next runs with the engine steps of one plan, some 30 ms.

    Raises:
        InvalidEntry: it could not be stored.
    """
    definition = entry.definition()
    now, stored_zone = context.redis.clock()
    zoned = context.in_zone(stored_zone)
    lock_timeout = None if context.config.lock_key is None else float(context.config.lock_timeout)
    runs: list[UpcomingRun] = []
    problem = ""
    try:
        runs += first_runs(definition, zoned.defaults, now, n)
    except (StepsExhausted, OverflowError) as exc:
        problem = shown(exc) or "finding its next run takes too long"
    return Preview(
        schedule=describe(definition.schedule, definition.zone(zoned.zone)),
        runs=runs,
        findings=[
            *_findings(definition, now, zoned, lock_timeout),
            *(of_arguments(definition, entry.app) if is_registered(entry.app, definition.task) else ()),
        ],
        problem=problem,
    )


def _findings(definition: Any, now: datetime, context: Context, lock_timeout: float | None) -> Iterator[Finding]:
    with suppress(StepsExhausted, OverflowError):
        yield from of_definition(definition, now, context.defaults, lock_timeout)
    yield from of_policies(definition, context.defaults)
