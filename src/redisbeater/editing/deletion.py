"""The deletion of one entry: what it was, and whether it comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redisbeater.context import Context
from redisbeater.editing.announcing import announce
from redisbeater.editing.author import Author
from redisbeater.log_lines import event, get_logger
from redisbeater.store import KEEP_DELETED

__all__ = ("COMES_BACK", "Deletion", "delete_entries", "delete_entry")

logger = get_logger(__name__)

#: What happens to a static entry that is deleted, and what to do instead.
COMES_BACK = "it is static and comes back when a beat begins to lead: disable it, or remove it from the code"


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A deletion that happened; a static entry is stored again as long as the code declares it."""

    is_static: bool


def delete_entry(context: Context, name: str, author: Author) -> Deletion | None:
    """Delete an entry, and log it. Return None if there is none of that name.

    Of a static entry its counters and its next fire time are kept for a week: it loses no run when it comes back.

    Raises:
        InvalidEntry: no entry can have that name.
    """
    return delete_entries(context, [name], author).get(name)


def delete_entries(context: Context, names: Sequence[str], author: Author) -> dict[str, Deletion]:
    """Delete entries as :func:`delete_entry` does. Return those that there were."""
    outcomes = context.redis.delete_many(dict.fromkeys(names, ""), log=author.line("deleted"), kept=KEEP_DELETED)
    for name, outcome in outcomes.items():
        extra = event("entry_changed", name=name, change="deleted", fields=[], by=author.by, renamed_from="")
        if outcome == "STATIC":
            logger.info("entry %r deleted; " + COMES_BACK, name, extra=extra)
        else:
            logger.info("entry %r deleted", name, extra=extra)
    announce(outcomes, "deleted", by=author.by)
    return {name: Deletion(is_static=outcome == "STATIC") for name, outcome in outcomes.items()}
