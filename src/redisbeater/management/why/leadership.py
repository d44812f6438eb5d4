"""Who led a schedule when, as far as its log knows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from redisbeater.management.why.answer import Evidence
from redisbeater.management.why.facts import Facts, evidence_of
from redisbeater.model.log_line import LogLine

__all__ = ("evidence_of_leaders", "lead_ended", "since_nobody_leads", "without_leader")

#: The words of the schedule's log after which nobody leads, until another beat does.
_ENDS = ("lock_lost", "stopped_leading")

_WORDS = ("leading", "standing_by", *_ENDS)


def since_nobody_leads(facts: Facts) -> str:
    """Return since when nobody leads, as far as the log of the schedule knows; else an empty text."""
    ended = lead_ended(facts.schedule_lines)
    return f" since {facts.time(ended)}" if ended else ""


def lead_ended(lines: Iterable[LogLine]) -> datetime | None:
    """Return when the last beat ceased to lead; None: the lines of the schedule's log, the newest first, do not say."""
    line = next((line for line in lines if line.what in _WORDS), None)
    return line.last if line is not None and line.what in _ENDS else None


def evidence_of_leaders(facts: Facts) -> tuple[Evidence, ...]:
    """Return the newest lines about who led as evidence."""
    lines = [line for line in facts.schedule_lines if line.what in _WORDS]
    return evidence_of(facts, lines[:3]) or (Evidence(text="the log of the schedule does not say since when"),)


def without_leader(facts: Facts, fire_time: datetime) -> str:
    """Return the sentence that nobody led at a fire time, from when to when; empty: the log does not prove it."""
    following = None
    for line in facts.schedule_lines:
        if line.what not in ("leading", *_ENDS) or line.last is None:
            continue
        if line.last <= fire_time:
            if line.what not in _ENDS or following is None:
                return ""
            return f"Nobody led from {facts.time(line.last)} to {facts.time(following)}: nothing ran meanwhile."
        following = line.last if line.what == "leading" else None
    return ""
