"""A change of one entry, as its editor wants it stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from redisbeater.model.score import Score
from redisbeater.store.snapshot import Snapshot

__all__ = ("Change", "changes_as_json")


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
    claim_id: str = ""
    #: Stored whenever ``meta`` is: the last run in it, where the score follows that; empty where it does not.
    recorded_run: str = ""
    #: A line for the entry's log.
    log: str = ""
    #: The skipped fire times, where a backup restores them.
    skipped: str = ""
    #: ``enabled`` or ``disabled``, where a person changes that: what is buffered is revoked, or failures are forgotten.
    switches: str = ""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        definition: str,
        *,
        score: Score | None = None,
        meta: str = "",
        recorded_run: str = "",
        origin: str = "",
        log: str = "",
        skipped: str = "",
        switches: str = "",
    ) -> Change:
        """Return the change of an entry that was read. Without a score, the entry keeps the one that it has."""
        return cls(
            name=snapshot.name,
            definition=definition,
            score=score.to_text() if score else "",
            meta=meta,
            recorded_run=recorded_run,
            origin=origin,
            seen=snapshot.seen,
            planned=snapshot.planned,
            claim_id=snapshot.claim_id,
            log=log,
            skipped=skipped,
            switches=switches,
        )


def changes_as_json(changes: Sequence[Change]) -> str:
    """Return the argument of the save script: one text costs less than many small ones.

    Characters are not escaped: JSON has no escape for a byte that is not UTF-8.
    """
    return json.dumps([_fields(change) for change in changes], ensure_ascii=False)


def _fields(change: Change) -> dict[str, str]:
    fields = {
        "name": change.name,
        "definition": change.definition,
        "score": change.score,
        "meta": change.meta,
        "recorded_run": change.recorded_run,
        "origin": change.origin,
        "seen": change.seen,
        "planned": change.planned,
        "claim": change.claim_id,
        "log": change.log,
        "skipped": change.skipped,
        "switches": change.switches,
    }
    return {field: text for field, text in fields.items() if text}
