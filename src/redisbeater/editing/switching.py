"""``Switch``: enables or disables an entry, with little work for each of thousands."""

from __future__ import annotations

from dataclasses import dataclass

from redisbeater.editing.author import Author
from redisbeater.editing.edit import Edit
from redisbeater.editing.rescheduling import score_after_edit
from redisbeater.editing.stored_entry import stored_definition, stored_meta
from redisbeater.model import json_text
from redisbeater.model.resolved_policy import Defaults
from redisbeater.schedules import ScheduleCodec
from redisbeater.store import Snapshot

__all__ = ("Switch",)


@dataclass(frozen=True, kw_only=True)
class Switch:
    """Enable or disable an entry, from now on and without an end.

    A :class:`FieldChange` of the two fields stores the same; this one does not write the whole definition again.
    """

    name: str
    is_enabled: bool
    author: Author | None = None

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, or would never run.
        """
        before = stored_definition(snapshot, codec, has_any_name=not self.is_enabled)
        meta = stored_meta(snapshot)
        after = before._replace(enabled=self.is_enabled, disabled_until=None)
        changed = [name for name in ("disabled_until", "enabled") if getattr(before, name) != getattr(after, name)]
        return Edit(
            snapshot=snapshot,
            definition=after,
            text=self._text(snapshot.definition) if changed else snapshot.definition,
            meta=meta,
            score=score_after_edit(before, after, meta, snapshot, defaults, codec),
            author=self.author,
            known_changes=changed,
        )

    def _text(self, before: str) -> str:
        data = json_text.from_text(before, "$")
        data["enabled"] = self.is_enabled
        data.pop("disabled_until", None)
        return json_text.to_text(data)
