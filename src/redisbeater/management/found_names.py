"""What a search finds, as names: of a large schedule only the entries of one page are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redisbeater.context import Context
from redisbeater.management.entry_filter import EVERY, Filter
from redisbeater.management.search import FoundEntry, Reader, each_found, order

__all__ = ("FoundNames", "found_names")

#: How many entries are kept as they were found, so that those of a first page need not be read again.
MOST_KEPT = 200


@dataclass(frozen=True, kw_only=True)
class FoundNames:
    """The names that were found, in their order, and some of the entries.

    ``declared``: how many of all that were found are only declared.
    """

    names: Sequence[str]
    kept: Mapping[str, FoundEntry]
    declared: int

    def entries(self, context: Context, begin: int, end: int) -> list[FoundEntry]:
        """Return a part of the entries; those that are not kept are read again, as they are now."""
        part = self.names[begin:end]
        missing = [name for name in part if name not in self.kept]
        reread = {entry.name: entry for entry in Reader(context, EVERY).read(missing, None)}
        entries = {**self.kept, **reread}
        return [entries[name] for name in part if name in entries]


def found_names(
    context: Context,
    wanted: Filter,
    limit: int | None,
    *,
    states: Collection[str],
    sort: str,
    text: str,
    names: Sequence[str] | None,
) -> FoundNames:
    """Return the names of what :func:`~redisbeater.management.search.search` finds; its arguments are the same."""
    keys: list[tuple[Any, ...]] = []
    kept: dict[str, FoundEntry] = {}
    declared = 0
    for entry in each_found(context, wanted, limit, states=states, sort=sort, text=text, names=names):
        keys.append(order(sort)(entry))
        if entry.snapshot is None or len(kept) < MOST_KEPT:  # what is only declared cannot be read again
            kept[entry.name] = entry
        declared += entry.snapshot is None
    in_order = [key[-1] for key in sorted(keys)[:limit]]
    return FoundNames(names=in_order, kept=kept, declared=declared)
