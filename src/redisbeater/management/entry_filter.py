"""``Filter``: selects entries by their names and fields."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redisbeater.display import quoted
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.model.definition import Definition

__all__ = ("EVERY", "Filter")

#: What the fields of a filter may be.
_KINDS = (
    ("prefix", str, "a text"),
    ("task", str, "a text"),
    ("enabled", bool, "a bool"),
    ("queue", str, "a text"),
    ("labels", Mapping, "texts by name"),
)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Selects entries; None selects all. A broken entry has no task, and is neither enabled nor disabled."""

    prefix: str | None = None
    task: str | None = None
    enabled: bool | None = None
    queue: str | None = None
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name, kind, word in _KINDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise ValueError(f"{name}: expected {word}, or None for all, got {quoted(value)}")

    def part_of(self, names: Sequence[str]) -> tuple[int, int]:
        """Return where the selected names begin and end in a sorted sequence."""
        prefix = self.prefix or ""
        return bisect_left(names, prefix), bisect_right(names, prefix, key=lambda name: name[: len(prefix)])

    def lets_name_through(self, name: str) -> bool:
        """Return whether an entry is selected by its name."""
        return name.startswith(self.prefix or "")

    def lets_through(self, stored: StoredEntry) -> bool:
        """Return whether an entry is selected by its fields; its name is checked by the other methods."""
        return self.lets_definition_through(stored.definition, is_paused=stored.is_paused)

    def lets_definition_through(self, definition: Definition, *, is_paused: bool = False) -> bool:
        """Tell whether a definition is one of an entry that is wanted; ``is_paused``: it is disabled until a time."""
        if self.labels and not self.labels.items() <= definition.labels.items():
            return False
        is_in_queue = self.queue is None or definition.options.get("queue") == self.queue
        is_enabled = definition.enabled and not is_paused
        return is_in_queue and self.task in (None, definition.task) and self.enabled in (None, is_enabled)

    @property
    def is_by_name(self) -> bool:
        """Whether the name alone decides."""
        return self.task is None and self.enabled is None and self.queue is None and not self.labels

    def terms(self, text: str = "", *, is_disabled: bool = False) -> dict[str, Any] | None:
        """Return how Redis tells most entries that are not selected, as ``find_entries.lua`` takes it; None: it cannot.

        Arguments:
            text: only entries with this text in their name, task or description, in any case.
            is_disabled: only those that are disabled, also until a time.
        """
        fields = {name: value for name, value in self._wanted_fields() if value is not None}
        parts = [[json.dumps(part, ensure_ascii=False)] for part in _strings_of(fields)]
        if is_disabled or self.enabled is False:
            fields["enabled"] = False
            parts.append(["false", "disabled_until"])
        if not (fields or text):
            return None
        folded = text.casefold()
        asked = {"text": folded if folded.isascii() else ""} if text else {}
        return {"fields": fields, "parts": [[*part, "\\"] for part in parts], **asked}

    def _wanted_fields(self) -> Iterator[tuple[str, Any]]:
        yield "task", self.task
        yield "options", None if self.queue is None else {"queue": self.queue}
        yield "labels", dict(self.labels) if self.labels else None


def _strings_of(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in the values of fields, and the names in those that have names."""
    for value in fields.values():
        yield from [value] if isinstance(value, str) else [*value, *value.values()]


#: Lets everything through.
EVERY = Filter()
