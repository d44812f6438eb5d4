"""The author of a change: who made it, and why."""

from __future__ import annotations

import getpass
import socket
from functools import cache
from typing import Any, NamedTuple

from redisbeater.display import MOST_CHARACTERS, MOST_QUOTED, unsafe_character
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.log_line import line_text

__all__ = ("Author",)


class Author(NamedTuple):
    """Who made a change, ``user@host`` for example, and a note why. Both are only for people."""

    by: str
    note: str = ""

    @classmethod
    def of(cls, by: str = "", note: str = "") -> Author:
        """Return the author of a change; without ``by`` it is the user of this process.

        Raises:
            InvalidEntry: one of them is no text, too long, or has control characters.
        """
        _check("by", by, MOST_QUOTED)
        _check("note", note, MOST_CHARACTERS)
        return cls(by or _this_user(), note)

    def line(self, what: str, **details: Any) -> str:
        """Return the text of a line of a log about what this author did."""
        return line_text(what, by=self.by, note=self.note, **details)


def _check(name: str, text: str, most: int) -> None:
    if not isinstance(text, str):
        raise InvalidEntry(f"$.{name}", f"expected a text, got {type(text).__name__}")
    if len(text) > most:
        raise InvalidEntry(f"$.{name}", f"has {len(text)} characters; expected at most {most}")
    if char := unsafe_character(text):
        raise InvalidEntry(f"$.{name}", f"has the control character {char}; leave it out")


@cache
def _this_user() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user id may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
