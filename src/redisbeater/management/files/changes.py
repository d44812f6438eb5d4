"""``Changes``: what applying a file does to each entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from redisbeater.editing.changes import PlannedUpsert
from redisbeater.editing.edit import Author, Edit
from redisbeater.editing.stored_entry import StoredEntry

__all__ = ("Applied", "Changes", "FieldDifference", "Override", "PlannedChange")


class FieldDifference(NamedTuple):
    """A field, or a part of one such as ``kwargs.pages``, and its values as they are stored."""

    path: str
    before: Any
    after: Any


class Override(NamedTuple):
    """A field that an operator set otherwise than the file; it stays until the file's own field changes."""

    field: str
    what: str
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedChange:
    """What becomes of one entry.

    Attributes:
        kind: ``create``, ``change``, ``delete`` or ``keep``.
        before, after: the entry as it is and as it will be; None where there is none that can be read.
        fields: what changes.
        overrides: what operators set and stays so.
        change: what is written; None: nothing. One that is kept may be written as well: what the file says of it has
            changed, and it is like that already.
        edit: what writing it does to the entry as that was read.
        origin: of one that is deleted, the origin that it must still have.
    """

    kind: str
    name: str
    before: StoredEntry | None = None
    after: StoredEntry | None = None
    fields: tuple[FieldDifference, ...] = ()
    overrides: tuple[Override, ...] = ()
    change: PlannedUpsert | None = None
    edit: Edit | None = None
    origin: str = ""

    def still_holds(self, now: datetime, zone: str) -> bool:
        """Tell whether the edit can be written as it was planned: its next run has not passed, nor the zone changed."""
        if self.edit is None or self.change is None or self.edit.snapshot.zone != zone:
            return False
        score = self.edit.score
        if score is None or score.dormant or self.change.score is not None:
            return True
        return score.fire_time is not None and score.fire_time > now


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What applying a file changes, as :meth:`redisbeater.ScheduleStore.plan` returns it.

    Attributes:
        entries: the planned change of each entry.
        now: the time of the Redis server at which it was planned.
        zone: the zone of entries without their own.
        schedule_id: the identity of the schedule to restore; empty: it stays.
        restores: whether it is a backup that is restored.
    """

    owner: str
    author: Author
    now: datetime
    zone: tzinfo
    entries: tuple[PlannedChange, ...]
    schedule_id: str = ""
    restores: bool = False

    def of_kind(self, kind: str) -> list[PlannedChange]:
        """Return the entries that are created, changed, deleted or kept."""
        return [each for each in self.entries if each.kind == kind]

    @property
    def differ(self) -> bool:
        """Whether applying it would create, change or delete an entry."""
        return any(each.kind != "keep" for each in self.entries)

    @property
    def due_at_once(self) -> int:
        """The number of entries that will be due as soon as they are restored."""
        afters = (each.after for each in self.entries if each.change is not None)
        scores = (after.score for after in afters if after is not None and self.restores)
        return sum(1 for score in scores if not score.dormant and score.fire_time and score.fire_time <= self.now)


@dataclass(kw_only=True)
class Applied:
    """What was done so far of :class:`Changes`.

    Attributes:
        created, changed, deleted: the names.
        conflicts: entries that were left out, and why.
    """

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    conflicts: dict[str, str] = field(default_factory=dict)
