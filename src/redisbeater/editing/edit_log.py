"""The log of edits, in the process that makes them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

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
    elif fields := _changed(edit):
        if fields == ["enabled"] and not edit.definition.enabled:
            logger.info("entry %r disabled", name)
        elif fields == ["enabled"]:
            logger.info("entry %r enabled, next run %s", name, following)
        else:
            logger.info("entry %r changed: %s; next run %s", name, ", ".join(fields), following)


def _changed(edit: Edit) -> list[str]:
    """Return the fields of the definition that differ from what was stored."""
    if edit.text == edit.snapshot.definition:
        return []
    before, after = _fields(edit.snapshot.definition), _fields(edit.text)
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _fields(text: str) -> Mapping[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):  # what another program wrote
        return {}
    return fields if isinstance(fields, dict) else {}
