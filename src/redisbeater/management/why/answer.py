"""``Answer``: why an entry did or did not run, with what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ("Answer", "Evidence")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One fact behind an answer; ``at`` is when it happened, aware UTC, or None."""

    text: str
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Why an entry did or did not run.

    Attributes:
        verdict: a word for programs: ``waits``, ``being_sent``, ``late``, ``no_leader``, ``paused``, ``failing``,
            ``broker_away``, ``no_pass``, ``redis_refuses``, ``disabled``, ``broken``, ``not_started``, ``ended``,
            ``spent``, ``finished``, ``ran``, ``missed``, ``coalesced``, ``left_out``, ``skip``,
            ``disabled_until``, ``max_runs``, ``out_of_bounds``, ``created_later``, ``deleted``, ``gone``,
            ``no_fire_time`` or ``unknown``; where runs are recorded also
            ``queued``, ``buffered``, ``running``, ``failed``, ``lost``, ``revoked``, ``expired`` and ``overlap``.
        sentence: the answer for people, with times in the zone of the entry.
        evidence: what it follows from, and what else is known of that time.
        advice: what can be done about it; often empty.
    """

    verdict: str
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; times are ISO 8601, UTC."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "evidence": [{"at": fact.at.isoformat() if fact.at else None, "text": fact.text} for fact in self.evidence],
            "advice": self.advice,
        }
