"""The log of edits, in the process that makes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from redisbeater.editing.edit import Edit
from redisbeater.log_lines import event, get_logger

__all__ = ("log_edit",)

logger = get_logger(__name__)


def log_edit(edit: Edit, due_at: Callable[[], datetime | None]) -> None:
    """Log an edit that was written: what it created, enabled, disabled or changed; nothing if that is nothing.

    Arguments:
        edit: the edit.
        due_at: returns when the entry is next due; None: it is not.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    name, due = edit.snapshot.name, due_at()
    following = due.isoformat() if due else "none"
    by = edit.author.by if edit.author else ""
    extra = event("entry_changed", name=name, change=edit.kind, fields=edit.changed_fields, by=by, renamed_from="")
    if not edit.snapshot.exists:
        logger.info("entry %r created, next run %s", name, following, extra=extra)
    elif fields := edit.changed_fields:
        if edit.switches == "disabled" and not edit.definition.enabled:
            logger.info("entry %r disabled", name, extra=extra)
        elif edit.switches == "disabled":
            until = edit.definition.disabled_until
            logger.info("entry %r disabled until %s, next run %s", name, until, following, extra=extra)
        elif edit.switches == "enabled":
            logger.info("entry %r enabled, next run %s", name, following, extra=extra)
        else:
            logger.info("entry %r changed: %s; next run %s", name, ", ".join(fields), following, extra=extra)
    if edit.dropped_skips:
        logger.info(
            "entry %r: its fire times have moved; %d that were left out are not any more", name, edit.dropped_skips
        )
