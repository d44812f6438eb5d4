"""The version of what beat writes to Redis."""

from __future__ import annotations

__all__ = ("FORMAT", "refusal")

#: Raise this with each change that an older beat would misread, and write into ``docs/operating.rst`` how to roll the
#: data back. A beat that finds a higher number at ``P:format`` refuses to lead.
FORMAT = 1


def refusal(key: str, found: str) -> str:
    """Return why this beat must not lead, and what to do; ``found`` is what the key of the format holds."""
    needed = f"format {found}" if found.isdigit() else "it"
    return (
        f"{key} holds {found!r} and this beat writes format {FORMAT}; start a redisbeater that writes {needed}, or roll"
        " the data back (documentation: Run beat in production, Upgrading and rolling back)"
    )
