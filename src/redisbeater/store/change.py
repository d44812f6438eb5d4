"""What is stored of entries by those who edit them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from redisbeater.model.score import Score
from redisbeater.store.snapshot import Snapshot, digest

__all__ = ("Change", "changes_as_json")


class Change(NamedTuple):
    """What is to be stored of one entry, and what that was made on; an empty text keeps what is stored.

    A tuple, because tens of thousands are made in a bulk and each goes to the script as it is.
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

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        definition: str,
        *,
        score: Score | None = None,
        meta: str = "",
        origin: str = "",
    ) -> Change:
        """The change of an entry that was read; no score: it keeps the one that it has."""
        return cls(
            name=snapshot.name,
            definition=definition,
            score=score.to_text() if score else "",
            meta=meta,
            origin=origin,
            seen=digest(snapshot.definition, snapshot.meta),
            planned=snapshot.planned,
            claim_id=snapshot.claim_id,
        )


def changes_as_json(changes: Sequence[Change]) -> str:
    """What the save takes: one text costs less than many small ones.

    It is not ASCII, because JSON's own escapes have none for bytes that are no unicode.
    """
    return json.dumps(changes, ensure_ascii=False)
