"""One entry as it is stored at one instant."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redisbeater.display import without_secrets
from redisbeater.model.score import Score

__all__ = ("Snapshot", "digest", "oversized", "sha1", "version_of")


def sha1(text: str) -> str:
    """Return the SHA-1 by which our scripts compare texts; it equals Lua's ``redis.sha1hex``."""
    return hashlib.sha1(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def digest(definition: str, meta: str, recorded_run: str = "") -> str:
    """Return the digest by which a script notices that an entry was changed; empty when neither text is stored.

    ``prelude.lua`` has the same function.
    """
    return sha1(f"{definition}\n{meta}\n{recorded_run}") if definition or meta else ""


def version_of(definition: str) -> str:
    """Return the version of a stored definition: the first 8 hex digits of its SHA-1; empty when there is none."""
    return sha1(definition)[:8] if definition else ""


def oversized(size: int) -> str:
    """Return why an entry of this many bytes was not read."""
    return f"holds {size} bytes, more than redisbeater_max_entry_size; it was not read"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """An entry as it is stored, at the server's time ``now``; empty texts and no score when it is not."""

    name: str
    now: datetime
    definition: str
    meta: str
    score: Score | None
    origin: str = ""
    #: What went wrong when its run was to be sent last.
    last_error: str = ""
    #: Whether its run could not be sent; then how often that was tried, since when it fails and when beat tries again,
    #: in UNIX seconds. Another program may have written these texts. ``retry_at`` is empty during a try.
    is_failing: bool = False
    tries: str = ""
    failing_since: str = ""
    retry_at: str = ""
    skipped: str = ""
    #: The fire time as it was read, by which an edit notices that it was set since; empty when there was none.
    planned: str = ""
    #: How many of its runs have failed in a row, where runs are tracked; empty when the last one has not.
    failures: str = ""
    claim_id: str = ""
    is_broken: bool = False
    #: The last run that beat itself recorded, in UNIX seconds; empty when there was none.
    recorded_run: str = ""
    #: Its bytes where these are more than ``redisbeater_max_entry_size``, and it was not read; 0 where it was.
    oversized_bytes: int = 0
    #: The zone of entries without their own; empty where none is stored: that of the application.
    zone: str = ""

    @classmethod
    def from_reply(cls, name: str, now: datetime, fields: Mapping[str, Any], zone: str = "") -> Snapshot:
        """Read one entry of the load script's reply; ``fields`` is empty when the entry does not exist."""
        score = fields.get("score", "")
        return cls(
            name=name,
            now=now,
            definition=fields.get("definition", ""),
            meta=fields.get("meta", ""),
            score=Score.from_text(score) if score else None,
            origin=fields.get("origin", ""),
            last_error=without_secrets(fields.get("last_error", "")),
            is_failing=fields.get("is_failing", False),
            tries=fields.get("tries", ""),
            failing_since=fields.get("failing_since", ""),
            retry_at=fields.get("retry_at", ""),
            skipped=fields.get("skipped", ""),
            planned=score,
            failures=fields.get("failures", ""),
            claim_id=fields.get("claim", ""),
            is_broken=fields.get("is_broken", False),
            recorded_run=fields.get("recorded_run", ""),
            oversized_bytes=int(fields.get("oversized", 0)),
            zone=zone,
        )

    @property
    def exists(self) -> bool:
        """Whether there is an entry, readable or not."""
        return bool(self.definition or self.oversized_bytes)

    @property
    def seen(self) -> str:
        """The digest by which a script notices that the entry was changed since; of an oversized one its size."""
        if self.oversized_bytes:
            return f"oversized {self.oversized_bytes}"
        return digest(self.definition, self.meta, self.recorded_run)

    @property
    def is_claimed(self) -> bool:
        """Whether a beat has claimed it, and has not committed or released it."""
        return bool(self.claim_id)
