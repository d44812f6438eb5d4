"""``PlannedUpsert``: an upsert that was planned from what was stored, and is refused if that has changed since."""

from __future__ import annotations

from dataclasses import dataclass

from redisbeater.display import quoted
from redisbeater.editing.changes import Upsert
from redisbeater.editing.edit import Edit
from redisbeater.exceptions import EditConflict
from redisbeater.model.resolved_policy import Defaults
from redisbeater.model.score import Score
from redisbeater.schedules import ScheduleCodec
from redisbeater.store import Snapshot

__all__ = ("PlannedUpsert",)


@dataclass(frozen=True, kw_only=True)
class PlannedUpsert(Upsert):
    """Write a definition if the stored one is still that from which it was planned.

    Attributes:
        base: the stored definition that was read; empty: there was none.
        score: of a backup, the score to restore with ``initial_meta`` and ``skipped``; None: the edit decides.
    """

    base: str
    score: Score | None = None
    skipped: str = ""

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EditConflict: another program has changed, created or deleted the entry since.
            InvalidEntry: the entry never fires, or its runs have expired.
        """
        if snapshot.definition != self.base:
            raise EditConflict(f"{quoted(self.name)} was changed since the plan was made; it was not written")
        if self.score is None:
            return super().apply(snapshot, defaults, codec)
        return Edit(
            snapshot=snapshot,
            definition=self.definition,
            text=self.text,
            meta=self.initial_meta,
            score=self.score,
            writes_meta=True,
            origin=self.origin,
            author=self.author,
            skipped=self.skipped,
        )
