"""What a claim brings: due entries, taken for a lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ("Claim", "ClaimedEntry")


@dataclass(frozen=True, kw_only=True)
class ClaimedEntry:
    """One due entry, as it is stored; nothing of it has been read yet, it may be broken."""

    key: str
    name: str
    definition: str
    meta: str
    fire_time: datetime
    #: Whether its score was 0, which means now, whatever the meta says.
    is_now: bool = False
    skipped: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A batch of due entries, oldest first.

    ``now`` is the server's time. ``asked_at`` is when the request was sent, and ``trusted_until`` when to stop
    sending, long before the lease ends, both on our monotonic clock. ``next_look`` is the next score, None when
    nothing is planned.
    """

    id: str
    schedule_id: str
    now: datetime
    asked_at: float
    trusted_until: float
    next_look: datetime | None
    entries: tuple[ClaimedEntry, ...]
    removed: tuple[str, ...]

    @property
    def idle_seconds(self) -> float | None:
        """Seconds from the request until the next entry is due; None when nothing is planned."""
        return None if self.next_look is None else max((self.next_look - self.now).total_seconds(), 0.0)
