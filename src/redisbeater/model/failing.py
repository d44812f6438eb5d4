"""``Failing``: what is known of an entry whose run cannot be sent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from redisbeater.times import from_unix

__all__ = ("Failing",)


@dataclass(frozen=True, kw_only=True)
class Failing:
    """A run that could not be sent, of an entry that is tried again.

    Attributes:
        error: what went wrong at the last try.
        tries: how often it was tried.
        since: when it failed first, aware UTC; None if another program has overwritten that.
        fire_time: the fire time that the entry owes, aware UTC. It is late since then.
        retry_at: when beat tries again, aware UTC; None while it does.
    """

    error: str
    tries: int
    since: datetime | None
    fire_time: datetime
    retry_at: datetime | None

    @classmethod
    def from_texts(cls, fire_time: datetime, *, error: str, tries: str, since: str, retry_at: str) -> Failing:
        """Read the fields of a failing entry, which another program may have overwritten."""
        return cls(
            error=error,
            tries=int(tries) if tries.isascii() and tries.isdigit() and len(tries) <= 10 else 1,
            since=_instant(since),
            fire_time=fire_time,
            retry_at=_instant(retry_at),
        )


def _instant(seconds: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        return from_unix(seconds)
    return None
