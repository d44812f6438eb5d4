"""One entry as it is stored at one instant, and a change of it to be written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from redisbeater.display import without_secrets
from redisbeater.model.meta import Score
from redisbeater.times import to_unix


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
    #: Letters of the last ends of its runs, the newest last, and when that was, where runs are tracked.
    ends: str = ""
    claim_id: str = ""
    #: Why it is broken, and why a declaration of its name could not be stored, as JSON; None: neither is reported.
    report: str | None = None
    declaration: str | None = None
    #: The last run that beat itself recorded, in UNIX seconds; empty when there was none.
    recorded_run: str = ""
    #: Its bytes where these are more than ``redisbeater_max_entry_size``, and it was not read; 0 where it was.
    oversized_bytes: int = 0
    #: The zone of entries without their own; empty where none is stored: that of the application.
    zone: str = ""
    #: The ids of the rules by which it was planned, in the order of its zones; empty: those that all others were.
    rules: str = ""
    #: The calendars by which it was planned, each with its version: ``at=3 xnys=7``; empty: it is not known.
    calendars: str = ""
    #: Whether it was not read: no such entry is expected, and ``now`` is about a second old at most.
    is_expected: bool = False

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
            ends=fields.get("ends", ""),
            claim_id=fields.get("claim", ""),
            report=fields.get("report"),
            declaration=fields.get("declaration"),
            recorded_run=fields.get("recorded_run", ""),
            oversized_bytes=int(fields.get("oversized", 0)),
            zone=zone,
            rules=fields.get("rules", ""),
            calendars=fields.get("calendars", ""),
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
    def is_broken(self) -> bool:
        """Whether it is listed as broken."""
        return self.report is not None

    @property
    def is_claimed(self) -> bool:
        """Whether a beat has claimed it, and has not committed or released it."""
        return bool(self.claim_id)


class Change(NamedTuple):
    """A change of one entry, and the state that it was based on. An empty text keeps what is stored.

    A tuple, because a bulk makes tens of thousands of them.
    """

    name: str
    definition: str
    score: str = ""
    meta: str = ""
    #: Makes it a static entry.
    origin: str = ""
    #: The digest of what was read; empty when there was nothing, and so are the next two.
    seen: str = ""
    planned: str = ""
    claim: str = ""
    #: Stored whenever ``meta`` is: the last run in it, where the score follows that; empty where it does not.
    recorded_run: str = ""
    #: A line for the entry's log.
    log: str = ""
    #: The skipped fire times, where a backup restores them.
    skipped: str = ""
    #: ``enabled`` or ``disabled``, where a person changes that: what is buffered is revoked, or failures are forgotten.
    switches: str = ""
    #: The zones on whose rules the score depends, and the ids of those by which it was planned, each with blanks.
    zones: str = ""
    rules: str = ""
    #: The calendars by which its score was planned, each with its version: ``at=3 xnys=7``.
    calendars: str = ""
    #: Of an entry that was not read: the server's time and the zone by which it is planned.
    as_of: str = ""
    zone: str = ""

    @classmethod
    def of(cls, snapshot: Snapshot, definition: str, *, score: Score | None = None) -> Change:
        """Return the change of an entry that was read. Without a score, the entry keeps the one that it has."""
        return cls(
            name=snapshot.name,
            definition=definition,
            score=score.to_text() if score else "",
            seen=snapshot.seen,
            planned=snapshot.planned,
            claim=snapshot.claim_id,
            as_of=to_unix(snapshot.now) if snapshot.is_expected else "",
            zone=snapshot.zone if snapshot.is_expected else "",
        )

    def to_fields(self) -> dict[str, str]:
        """Return it as the script takes it, without what is empty."""
        return {field: text for field, text in self._asdict().items() if text}


def changes_as_json(changes: Sequence[Change]) -> str:
    """Return the argument of the save script: one text costs less than many small ones.

    Characters are not escaped: JSON has no escape for a byte that is not UTF-8.
    """
    return json.dumps([change.to_fields() for change in changes], ensure_ascii=False)
