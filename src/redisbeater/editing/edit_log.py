"""The log of edits, in the process that makes them."""

from __future__ import annotations

import logging
from datetime import datetime

from redisbeater.editing.edit import Edit
from redisbeater.log_lines import get_logger

__all__ = ("log_edit",)

logger = get_logger(__name__)


def log_edit(edit: Edit, due_at: datetime | None) -> None:
    """Log an edit that was written: what it created, enabled, disabled or changed; nothing if that is nothing.

    Arguments:
        edit: the edit.
        due_at: when the entry is next due; None: it is not.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    name, following = edit.snapshot.name, due_at.isoformat() if due_at else "none"
    if not edit.snapshot.exists:
        logger.info("entry %r created, next run %s", name, following)
    elif fields := edit.changed_fields:
        if edit.switches == "disabled" and not edit.definition.enabled:
            logger.info("entry %r disabled", name)
        elif edit.switches == "disabled":
            logger.info("entry %r disabled until %s, next run %s", name, edit.definition.disabled_until, following)
        elif edit.switches == "enabled":
            logger.info("entry %r enabled, next run %s", name, following)
        else:
            logger.info("entry %r changed: %s; next run %s", name, ", ".join(fields), following)
    if edit.dropped_skips:
        logger.info(
            "entry %r: its fire times have moved; %d that were left out are not any more", name, edit.dropped_skips
        )
