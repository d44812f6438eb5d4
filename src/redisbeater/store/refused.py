"""Which of several items Redis refuses: one of them must not keep the others from being written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from redisbeater.exceptions import StoreError, StoreUnavailable

__all__ = ("refused_alone", "will_pass")

Item = TypeVar("Item")

#: Refusals of whatever is written: no memory, or a disk that is full. redis-py has classes for some, and takes the
#: word out of the text.
_FULL = re.compile(r"\b(OOM|OutOfMemoryError|MISCONF)\b")

#: Refusals of whatever is asked: the user, or the right to run scripts. Within a script only one command is refused.
_NO_RIGHTS = re.compile(r"^(?!.*user_script).*\b(NOAUTH|WRONGPASS|NOPERM|Auth\w+Error|NoPermissionError)\b", re.DOTALL)


def will_pass(error: StoreError) -> bool:
    """Return whether Redis refuses everything at this moment, until somebody mends that; not one entry alone."""
    text = str(error)
    return isinstance(error, StoreUnavailable) or bool(_FULL.search(text) or _NO_RIGHTS.search(text))


def refused_alone(write: Callable[[Sequence[Item]], None], items: Sequence[Item]) -> list[tuple[Item, StoreError]]:
    """Write items together; where Redis refuses them, write each half alone, down to the items that it refuses.

    Return these, each with the error. Writing an item twice must do no harm: a script that fails has written a part.

    Raises:
        StoreError: Redis refuses everything at this moment.
    """
    try:
        write(items)
    except StoreError as exc:
        if will_pass(exc) or not items:
            raise
        if len(items) == 1:
            return [(items[0], exc)]
        middle = len(items) // 2
        return refused_alone(write, items[:middle]) + refused_alone(write, items[middle:])
    return []
