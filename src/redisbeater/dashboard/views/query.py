"""What a page is asked for, all of it in its address: a bookmark or the back button shows the same again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from redisbeater.management.search import SORTS, STATES

__all__ = ("FILTERS", "EntryQuery", "whole")

#: The names in the address, and in forms that choose all entries that match.
FILTERS = ("q", "prefix", "state", "task", "queue", "label")

#: The highest number of a page: a number in an address may be any.
MOST_PAGES = 1_000_000

#: Up to this page of the entries in the order of their next runs or of their lateness, few of them are read.
MOST_SHORT_PAGES = 20


@dataclass(frozen=True, kw_only=True)
class EntryQuery:
    """Which entries a page shows, in which order."""

    q: str = ""
    prefix: str = ""
    state: str = ""
    task: str = ""
    queue: str = ""
    label: str = ""
    sort: str = "next"
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> EntryQuery:
        """Read it from an address or a form; what is no such value is left out."""
        texts = {name: given.get(name, "").strip() for name in FILTERS}
        sort, page = given.get("sort", ""), whole(given.get("page", ""), 1, MOST_PAGES)
        if texts["state"] not in (*STATES, "deleted"):
            texts["state"] = ""
        return cls(**texts, sort=sort if sort in SORTS else "next", page=page)

    @property
    def is_filtered(self) -> bool:
        """Whether anything but the order is chosen."""
        return any(getattr(self, name) for name in FILTERS)

    @property
    def is_heavy(self) -> bool:
        """Whether it takes many entries to answer, of a large schedule."""
        is_in_order = self.sort in ("next", "late") and self.page <= MOST_SHORT_PAGES
        return self.state != "deleted" and (self.is_filtered or not is_in_order)

    @property
    def filters(self) -> dict[str, Any]:
        """What ``store.rows()`` takes."""
        return {**self.selection, "sort": self.sort}

    @property
    def selection(self) -> dict[str, Any]:
        """What ``store.rows()`` and ``store.simulate()`` take to select entries."""
        key, _, value = self.label.partition("=")
        return {
            "text": self.q,
            "prefix": self.prefix or None,
            "states": [self.state] if self.state in STATES else [],
            "task": self.task or None,
            "queue": self.queue or None,
            "labels": {key: value} if self.label else None,
        }

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filters that are set, for forms."""
        return [(name, getattr(self, name)) for name in FILTERS if getattr(self, name)]

    def link(self, **changes: Any) -> str:
        """Return the query of the same page with something changed; another choice begins on its first page."""
        changed = replace(self, **{"page": 1, **changes})
        default = EntryQuery()
        pairs = [(field.name, getattr(changed, field.name)) for field in fields(changed)]
        given = [(name, value) for name, value in pairs if value != getattr(default, name)]
        return f"?{urlencode(given)}" if given else "?"


def whole(text: str, least: int, most: int, default: int | None = None) -> int:
    """Return the number of a text within bounds; the default, or the least, for what is none."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    return (least if default is None else default) if number is None else min(max(number, least), most)
