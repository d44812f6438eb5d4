"""What is committed for claimed entries, and what became of that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from redisbeater.instant import to_unix
from redisbeater.model.score import Score
from redisbeater.store.claim import ClaimedEntry
from redisbeater.store.snapshot import digest

__all__ = ("CommitResult", "Commitment", "as_json")


@dataclass(frozen=True, kw_only=True)
class Commitment:
    """What is committed for one claimed entry: its next score and what else is new; an empty text keeps what is stored.

    No next score: the entry has finished and is deleted.
    """

    entry: ClaimedEntry
    next: Score | None
    meta: str = ""
    definition: str = ""
    skipped: str = ""


@dataclass(frozen=True, kw_only=True)
class CommitResult:
    """What was not committed: names whose claim was no longer ours, and the texts that others changed meanwhile.

    ``changed`` has definition and meta by name, as they are stored now.
    """

    fenced: list[str]
    changed: dict[str, tuple[str, str]]


def as_json(commitments: Sequence[Commitment]) -> str:
    """What the commit takes: one text costs less than many small ones.

    It is not ASCII, because JSON's own escapes have none for bytes that are no unicode.
    """
    return json.dumps([_outcome(item) for item in commitments], ensure_ascii=False)


def _outcome(item: Commitment) -> list[str]:
    entry, score = item.entry, item.next
    return [
        entry.name,
        digest(entry.definition, entry.meta),
        item.meta,
        item.definition,
        score.to_text() if score else "",
        _fire_time_beside(score, entry) if score else "",
        item.skipped,
    ]


def _fire_time_beside(score: Score, entry: ClaimedEntry) -> str:
    """The fire time where the score is a later look, or does not say that it is now whatever the meta says."""
    if score.fire_time is None or score.dormant:
        return ""
    if entry.is_now and score.fire_time == entry.fire_time:
        return to_unix(score.fire_time) + "*"
    return to_unix(score.fire_time) if score.look_at else ""
