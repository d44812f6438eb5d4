"""An incident: a period in which the schedule does not do what it promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from redisbeater.display import json_fields, shown
from redisbeater.model.run import read_count
from redisbeater.times import from_unix


@dataclass(frozen=True, kw_only=True)
class IncidentKind:
    """What a kind of incidents is.

    Attributes:
        tone: its colour, as that of a state of runs: ``bad`` or ``warn``.
        sentence: what it says; ``{count}``, ``{left}`` and ``{why}`` are those of the incident.
        advice: what to do.
        ends_when_acknowledged: whether it is over once somebody has acknowledged it; others are only quiet then.
    """

    tone: str
    sentence: str
    advice: str
    ends_when_acknowledged: bool = False


#: The incident that entries are gone which nobody deleted.
SCHEDULE_LOST = "schedule_lost"

#: Kind -> what it is.
KINDS: Mapping[str, IncidentKind] = {
    SCHEDULE_LOST: IncidentKind(
        tone="bad",
        sentence="schedule lost: {count}, {left} left ({why})",
        advice="restore the entries from a backup, or: celery redisbeater incidents acknowledge {id}",
        ends_when_acknowledged=True,
    ),
}

#: What an incident of a kind that this version does not know says of itself.
_UNKNOWN = IncidentKind(tone="warn", sentence="{kind}", advice="see the documentation of the beat that wrote it")


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A period in which an entry, or the schedule, did not do what it promises.

    Attributes:
        id: its id, 8 hex digits.
        kind: what is wrong, such as ``schedule_lost``.
        entry: the entry; empty: the schedule.
        opened: when it began; ``last``: when it was seen last; ``closed``: when it ended, None while it is open.
        why: why it was opened, in words.
        count: how many entries there were before the schedule was lost.
        times: how often it was opened.
        first: what was known when it was opened: ``entries``, ``left``, ``names`` of some that are gone, ``beat``.
        acknowledged: who acknowledged it, when and why: ``by``, ``note``, ``at``; empty: nobody has.
    """

    id: str
    kind: str
    entry: str
    opened: datetime
    last: datetime
    closed: datetime | None
    why: str
    count: int
    times: int
    first: Mapping[str, Any] = field(default_factory=dict)
    acknowledged: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.closed is None

    @property
    def is_news(self) -> bool:
        """Whether it is open, and nobody has acknowledged it."""
        return self.is_open and not self.acknowledged

    @property
    def sentence(self) -> str:
        """What it is, in a line, without when."""
        found = KINDS.get(self.kind, _UNKNOWN)
        count = f"{self.count:,} {'entry' if self.count == 1 else 'entries'} before"
        left = f"{read_count(self.first.get('left')):,}"
        return found.sentence.format(kind=shown(self.kind), count=count, left=left, why=shown(self.why))

    @property
    def told(self) -> str:
        """What it is, since when, in UTC, and what to do."""
        advice = KINDS.get(self.kind, _UNKNOWN).advice
        return f"{self.sentence}, {self.opened:%Y-%m-%d %H:%M:%S} UTC; {advice.format(id=self.id)}"

    @property
    def tone(self) -> str:
        """Its colour."""
        return KINDS.get(self.kind, _UNKNOWN).tone

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**json_fields(self), "sentence": self.sentence}

    @classmethod
    def from_fields(cls, incident_id: str, fields: Mapping[str, str]) -> Incident | None:
        """Return an incident of its stored fields; None where another program wrote them, or there are none."""
        opened = _moment(fields.get("opened"))
        if opened is None or not fields.get("kind"):
            return None
        return cls(
            id=incident_id,
            kind=fields["kind"],
            entry=fields.get("entry", ""),
            opened=opened,
            last=_moment(fields.get("last")) or opened,
            closed=_moment(fields.get("closed")),
            why=fields.get("why", ""),
            count=read_count(fields.get("count")),
            times=max(read_count(fields.get("times")), 1),
            first=_object(fields.get("first")),
            acknowledged=_object(fields.get("ack")),
        )


def _moment(text: str | None) -> datetime | None:
    try:
        return from_unix(text) if text else None
    except (ValueError, OverflowError, ArithmeticError):  # written by another program
        return None


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):  # written by another program
        return {}
    return found if isinstance(found, dict) else {}
