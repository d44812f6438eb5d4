"""Which of several items Redis refuses: one of them must not keep the others from being written."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from typing import TypeVar

from redisbeater.exceptions import StoreError, StoreUnavailable, causes

__all__ = ("NothingRecorded", "lacks_right", "refused_alone", "takes_no_changes", "will_pass")

Item = TypeVar("Item")

#: Refusals of whatever is written: no memory, or a disk that is full. redis-py has classes for some, and takes the
#: word out of the text.
_FULL = re.compile(r"\b(OOM|OutOfMemoryError|MISCONF)\b")

#: Refusals of a server that takes changes elsewhere, or with more replicas.
_READ_ONLY = re.compile(r"\b(READONLY|ReadOnlyError|NOREPLICAS)\b")

#: Refusals of a command within a script, for a right that is missing, by several versions of Redis.
_NO_COMMAND = re.compile(r"can't run this command|ACL failure in script|NOPERM|NoPermissionError")

#: Refusals of whatever is asked: the user, or the right to run scripts. Within a script only one command is refused.
_NO_RIGHTS = re.compile(r"^(?!.*user_script).*\b(NOAUTH|WRONGPASS|NOPERM|Auth\w+Error|NoPermissionError)\b", re.DOTALL)


class NothingRecorded(StoreError):
    """A right is missing that the commit of every entry needs."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(f"no run can be recorded, so none is sent until that is fixed: {error}")


def lacks_right(error: StoreError) -> bool:
    """Return whether Redis refuses a command because the user has no right to it."""
    return bool(_NO_COMMAND.search(str(error)))


def takes_no_changes(error: StoreError) -> bool:
    """Return whether Redis refuses every change: as a replica, without its replicas, or with a full memory or disk."""
    return bool(_FULL.search(str(error)) or _READ_ONLY.search(str(error)))


def will_pass(error: StoreError) -> bool:
    """Return whether Redis refuses everything at this moment, until somebody mends that; not one entry alone."""
    text = str(error)
    is_general = isinstance(error, (StoreUnavailable, NothingRecorded))
    has_no_connection = any(isinstance(cause, ssl.SSLError) for cause in causes(error))
    return is_general or has_no_connection or bool(_FULL.search(text) or _NO_RIGHTS.search(text))


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
