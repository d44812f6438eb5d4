"""Members of the schedule that stood for no entry, and were removed with a claim: logged together."""

from __future__ import annotations

from collections.abc import Sequence

from redisbeater.entry_name import is_name
from redisbeater.log_lines import get_logger
from redisbeater.store import Claim
from redisbeater.store.keys import Keys

__all__ = ("first_of", "report_removed")

logger = get_logger(__name__)

#: How many names a line of the log shows, and how many characters of each.
SHOWN_NAMES, SHOWN_CHARACTERS = 3, 60


def report_removed(claim: Claim, keys: Keys) -> None:
    """Log what a claim has removed: entries without a hash, and members that can be no entry's name."""
    names = [keys.name(member) for member in claim.removed]
    missing = [name for name in names if is_name(name)]
    others = [name for name in names if not is_name(name)]
    if len(missing) == 1:
        logger.warning("entry %r has no hash, removed it from the schedule", missing[0])
    elif missing:
        logger.warning("%d entries have no hash, removed them from the schedule: %s", len(missing), first_of(missing))
    if others:
        logger.warning("removed %d members from the schedule that no entry can have: %s", len(others), first_of(others))


def first_of(names: Sequence[str]) -> str:
    """Return the first few names as text, each cut."""
    shown = [repr(name[:SHOWN_CHARACTERS]) + "..." * (len(name) > SHOWN_CHARACTERS) for name in names[:SHOWN_NAMES]]
    return ", ".join([*shown, *(["..."] if len(names) > SHOWN_NAMES else [])])
