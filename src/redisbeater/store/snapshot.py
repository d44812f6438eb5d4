"""One entry as it is stored at one instant."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from redisbeater.model.score import Score

__all__ = ("Snapshot", "digest", "sha1")


def sha1(text: str) -> str:
    """What our scripts compare texts by, the same as Lua's ``redis.sha1hex``."""
    return hashlib.sha1(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def digest(definition: str, meta: str) -> str:
    """What tells whether an entry was changed since it was read; empty when there was nothing."""
    return sha1(f"{definition}\n{meta}") if definition or meta else ""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """An entry as it is stored, at the server's time ``now``; empty texts and no score when it is not."""

    name: str
    now: datetime
    definition: str
    meta: str
    score: Score | None
    origin: str = ""
    last_error: str = ""
    skipped: str = ""
    #: The fire time as it was read, by which an edit tells whether it was set since; empty: there was none.
    planned: str = ""
    claim_id: str = ""
    is_broken: bool = False

    @property
    def is_claimed(self) -> bool:
        """Whether a beat has claimed it, and not settled what became of it."""
        return bool(self.claim_id)
