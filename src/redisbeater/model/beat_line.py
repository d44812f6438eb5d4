"""The line of a beat: what it does, and when it was seen last."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from redisbeater.display import json_fields, shown
from redisbeater.model import json_text
from redisbeater.schedules.zones import SAME_RULES
from redisbeater.times import duration_words, from_iso, from_unix


@dataclass(frozen=True, kw_only=True)
class BeatLine:
    """What one beat has written about itself, at most 5 seconds ago while it runs.

    Attributes:
        token: what the lock holds while it leads.
        role: ``leader``, ``standby``, ``active`` where there is no lock, or ``paused``: it leads a paused schedule.
        since: when it got that role; a pause does not change it.
        last_pass: when it wrote the line, by the clock of the Redis server.
        host, pid: where it runs.
        application: the application that it belongs to; empty where an older beat does not say.
        redisbeater, celery, python: versions.
        sent, refused, skipped: runs that it has sent, entries that could not be sent and fire times that were skipped,
            since it leads.
        skipped_by: those fire times by reason; empty where an older beat does not say.
        late_ms: how late the oldest entry of its last claim was.
        late_p50_ms, late_p99_ms: half of its runs, and all but one in a hundred, were sent no later than this since it
            leads; None: it does not say.
        server: what the server of the schedule is, such as ``valkey 9.1.0``; empty: it does not say.
        clock_offset_ms: how far the clock of its host is ahead of the server's; None: it does not know.
        broker, redis: what it is connected to.
        delivery: how its runs leave, in one step with their commit or before it, and why; empty: an older beat.
        sent_apart: runs that left before their commit, while the others leave in one step with it, since it leads.
        messages: why Celery makes each message, or which of them differed from what was learned; empty: neither is so.
        broker_away: how long the broker has been unavailable when the line was written; zero: it is available.
        is_embedded: whether it is part of a worker.
        other_rules: the zones of which it has other rules than the beat that leads.
    """

    token: str
    role: str
    since: datetime
    last_pass: datetime
    host: str = ""
    pid: int = 0
    application: str = ""
    redisbeater: str = ""
    celery: str = ""
    python: str = ""
    sent: int = 0
    refused: int = 0
    skipped: int = 0
    skipped_by: Mapping[str, int] = field(default_factory=dict)
    late_ms: int = 0
    late_p50_ms: float | None = None
    late_p99_ms: float | None = None
    server: str = ""
    clock_offset_ms: float | None = None
    broker: str = ""
    broker_away: timedelta = timedelta(0)
    delivery: str = ""
    sent_apart: int = 0
    messages: str = ""
    redis: str = ""
    is_embedded: bool = False
    other_rules: tuple[str, ...] = ()

    @classmethod
    def from_text(cls, token: str, text: str) -> BeatLine | None:
        """Read a stored line, or return None if it is incomplete or of another program."""
        try:
            stored: dict[str, Any] = json_text.from_text(text, "line")
            return cls(
                token=token,
                role=shown(stored["role"]),
                since=from_unix(stored["since"]),
                last_pass=from_unix(stored["last_pass"]),
                broker_away=timedelta(seconds=stored["broker_away"]),
                redisbeater=shown(stored["version"]),
                is_embedded=bool(stored["embedded"]),
                pid=int(stored["pid"]),
                application=shown(stored.get("application", "")),
                sent=int(stored["sent"]),
                refused=int(stored["refused"]),
                skipped=int(stored["skipped"]),
                skipped_by={shown(why): int(count) for why, count in dict(stored.get("skipped_by", {})).items()},
                late_ms=int(stored["late_ms"]),
                late_p50_ms=_number(stored.get("late_p50_ms")),
                late_p99_ms=_number(stored.get("late_p99_ms")),
                server=shown(stored.get("server", "")),
                clock_offset_ms=_number(stored.get("clock_offset_ms")),
                host=shown(stored["host"]),
                celery=shown(stored["celery"]),
                python=shown(stored["python"]),
                broker=shown(stored["broker"]),
                delivery=shown(stored.get("delivery", "")),
                sent_apart=int(stored.get("sent_apart", 0)),
                messages=shown(stored.get("messages", "")),
                redis=shown(stored["redis"]),
                other_rules=tuple(map(shown, stored.get("other_rules", ()))),
            )
        except (ValueError, TypeError, KeyError, OverflowError):
            return None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object: times as ISO 8601, durations in seconds."""
        return json_fields(self)

    @property
    def name(self) -> str:
        """Host and process, as people know it."""
        return name_of(self.token)

    def broker_away_at(self, now: datetime) -> timedelta:
        """Return how long the broker has been unavailable, as far as this line knows; zero: it is available."""
        return self.broker_away + max(now - self.last_pass, timedelta(0)) if self.broker_away else timedelta(0)

    def broker_words(self, now: datetime) -> str:
        """Return the broker, and whether it can be reached."""
        away = self.broker_away_at(now)
        return f"{self.broker}, {f'unavailable for {duration_words(away)}' if away else 'reachable'}"

    @property
    def delivery_words(self) -> str:
        """How its runs leave, and how many have left otherwise."""
        apart = f"; {self.sent_apart:,} left before their commit: at least once" if self.sent_apart else ""
        return f"{self.delivery}{apart}"

    def rules_words(self, leader: str) -> str:
        """Which zones have other rules on its host than on that of the leader, and what to do; empty if none has."""
        if not self.other_rules:
            return ""
        zones = ", ".join(self.other_rules)
        return f"{self.name} has other rules of {zones} than {leader or 'the beat that leads'}; {SAME_RULES}"

    @property
    def leads(self) -> bool:
        """Whether it may send runs, or may do so once the schedule is not paused."""
        return self.role in ("leader", "active", "paused")


def _number(value: Any) -> float | None:
    number = None if value is None else float(value)
    if number is not None and not math.isfinite(number):
        raise ValueError
    return number


def name_of(token: str) -> str:
    """Return host and process id of a token; the whole text where another program wrote it."""
    head, colon, _ = token.rpartition(":")
    return shown(head if colon and ":" in head else token)


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A pause of the whole schedule: no beat claims anything.

    Attributes:
        since: when it began, by the clock of the Redis server; None: another program wrote it and does not say.
        by, note: who paused the schedule, and why.
        until: when it ends by itself; None: when somebody resumes it.
        still_claimed: how many entries beats were still sending when the call that paused the schedule returned.
    """

    since: datetime | None
    until: datetime | None = None
    by: str = ""
    note: str = ""
    still_claimed: int = 0

    @classmethod
    def from_text(cls, text: str, until: datetime | None) -> Pause:
        """Read a stored pause; one that another program wrote, in whatever form, is a pause all the same."""
        try:
            stored = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            stored = {"note": text}
        return cls(
            since=from_iso(stored.get("since")),
            by=shown(stored.get("by", "")),
            note=shown(stored.get("note", "")),
            until=until,
        )

    @property
    def text(self) -> str:
        """The JSON to store; the end is the time to live of its key."""
        since = self.since.isoformat() if self.since else ""
        return json.dumps({"since": since, "by": self.by, "note": self.note})

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return json_fields(self, "still_claimed")
