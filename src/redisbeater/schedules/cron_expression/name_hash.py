"""``H``: a number that the name of an entry decides, so that many entries spread without jitter, as in Jenkins.

The number of a range is its first plus ``hash % size``, where ``hash`` is the first six bytes, as a big-endian number,
of the SHA-256 of ``<name>@<field>`` in UTF-8; the fields are ``second``, ``minute``, ``hour``, ``day_of_month``,
``month_of_year`` and ``day_of_week``. With a step, the first number is ``hash % step`` after that of the range.

The prefix of the schedule has no part in it. Of days of the month, ``H`` takes 1 to 28, which every month has.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.crontab.field import LIMITS
from redisbeater.schedules.crontab.text import PATH

__all__ = ("is_hashed", "read_hashed", "resolved")

_HASHED = re.compile(r"H(\((?P<low>\d{1,2})-(?P<high>\d{1,2})\))?(/(?P<step>\d{1,2}))?", re.ASCII | re.IGNORECASE)

#: The last day that every month has.
_SHORTEST_MONTH = 28


class Hashed(NamedTuple):
    """A part with ``H``: a number from ``low`` to ``high`` or, with a step, every step-th of them."""

    low: int
    high: int
    step: int | None


def is_hashed(part: str) -> bool:
    """Tell whether a part of a field begins as one with ``H`` does."""
    return part[:1] in ("H", "h")


def read_hashed(name: str, part: str) -> Hashed:
    """Read a part with ``H``.

    Raises:
        InvalidEntry: it cannot be read, or is out of range; the path names the field.
    """
    path, match = f"{PATH}.{name}", _HASHED.fullmatch(part)
    if match is None:
        raise InvalidEntry(path, f"cannot read {quoted(part, 60)}; expected H, a range or a step: H, H(0-29) or H/15")
    lowest, highest = LIMITS[name]
    if match["low"] is None:
        low, high = lowest, min(highest, _SHORTEST_MONTH) if name == "day_of_month" else highest
    else:
        low, high = int(match["low"]), int(match["high"])
    if not lowest <= low <= high <= highest:
        raise InvalidEntry(path, f"the range of {quoted(part)} is not valid; expected one within {lowest}-{highest}")
    step = None if match["step"] is None else int(match["step"])
    if step is not None and not 1 <= step <= high - low + 1:
        raise InvalidEntry(path, f"the step of {quoted(part)} is not valid; expected 1 to {high - low + 1}")
    return Hashed(low, high, step)


def resolved(name: str, hashed: Hashed, entry_name: str) -> str:
    """Return what a part with ``H`` stands for in an entry: a number or, with a step, a range with that step."""
    digest = hashlib.sha256(f"{entry_name}@{name}".encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:6], "big")
    if hashed.step is None:
        return str(hashed.low + number % (hashed.high - hashed.low + 1))
    return f"{hashed.low + number % hashed.step}-{hashed.high}/{hashed.step}"
