"""Blanked secrets that come back, in a form or a file: refused, or replaced by what they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redisbeater.exceptions import InvalidEntry
from redisbeater.redaction import BLANK, names_secret

__all__ = ("check_not_blanked", "restored")


def check_not_blanked(value: Any, path: str, patterns: Sequence[str]) -> None:
    """Refuse a value in which a secret is blanked, at any depth: stored, it would take the place of the secret.

    Raises:
        InvalidEntry: with the path of the first one.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            if item == BLANK and names_secret(str(key), tuple(patterns)):
                raise InvalidEntry(f"{path}.{key}", f"is blanked: {BLANK} stands for a secret; write the secret itself")
            check_not_blanked(item, f"{path}.{key}", patterns)
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            check_not_blanked(item, f"{path}[{place}]", patterns)


def restored(value: Any, stored: Any, patterns: Sequence[str]) -> Any:
    """Return a value with the stored values in place of those that were blanked at the same keys."""
    if isinstance(value, dict):
        known = stored if isinstance(stored, dict) else {}
        return {
            key: known[key]
            if item == BLANK and key in known and names_secret(str(key), tuple(patterns))
            else restored(item, known.get(key), patterns)
            for key, item in value.items()
        }
    if isinstance(value, list):
        items = stored if isinstance(stored, list) else []
        return [
            restored(item, items[place] if place < len(items) else None, patterns) for place, item in enumerate(value)
        ]
    return value
