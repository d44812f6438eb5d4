"""Redaction: values whose keys name a secret are blanked where they are shown, never where they are sent or kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

__all__ = ("BLANK", "names_secret", "redacted", "redacted_field", "redacted_text")

#: What is shown instead of a secret.
BLANK = "***"

#: A key in a text that is no JSON, and a value, or as much of one as there is.
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*')
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"?|\[[^\]]*\]?|\{[^}]*\}?|[^,}\]\s]*')


def redacted(value: Any, patterns: Sequence[str]) -> Any:
    """Return a value in which what a matching key holds is blanked, at any depth.

    Arguments:
        value: objects and lists within one another; it is not changed.
        patterns: parts of keys, in any case; ``*`` and ``?`` stand for any characters, a blank or a dash for ``_``.
    """
    if isinstance(value, dict):
        return {
            key: BLANK if names_secret(str(key), tuple(patterns)) else redacted(item, patterns)
            for key, item in value.items()
        }
    return [redacted(item, patterns) for item in value] if isinstance(value, (list, tuple)) else value


def redacted_field(field: str, value: Any, patterns: Sequence[str]) -> Any:
    """Return the value of a field, or of a part of one such as ``kwargs.password``, without the secrets in it."""
    is_secret = "." in field and value is not None and names_secret(field.partition(".")[2], tuple(patterns))
    return BLANK if is_secret else redacted(value, patterns)


def redacted_text(text: str, patterns: Sequence[str]) -> str:
    """Return a text that should be JSON, and is not, with the values of matching keys blanked."""
    pieces, place = [], 0
    while key := _KEY.search(text, place):
        pieces.append(text[place : key.end()])
        place = key.end()
        if names_secret(key[1], tuple(patterns)) and (value := _VALUE.match(text, place)):
            pieces.append(f'"{BLANK}"')
            place = value.end()
    return "".join([*pieces, text[place:]])


@lru_cache(maxsize=1024)
def names_secret(key: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a key matches one of the patterns."""
    plain = key.lower().replace("-", "_").replace(" ", "_")
    return any(fnmatchcase(plain, f"*{pattern.lower().replace('-', '_')}*") for pattern in patterns)
