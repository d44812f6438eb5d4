"""The names of entries: what can be one, and what may become one."""

from __future__ import annotations

import re
from typing import Any

from redisbeater.display import quoted, unsafe_character
from redisbeater.exceptions import InvalidEntry, WrongType

#: Redis would accept longer names, but people and logs could not read them.
MAX_NAME_BYTES = 512

#: What the keys of a schedule itself are called, behind its prefix and a colon; ``store/keys.py`` explains them.
OWN_KEYS = (
    *("schedule", "statics", "lock", "id", "format", "zone", "claim", "answer", "broken", "log", "failing"),
    *("applications", "deleted", "beats", "pause", "run", "payload", "runs", "active", "resend", "totals"),
    *("waiting", "failed", "unstable", "failures", "traceback", "minutes", "hours", "workers", "zone-rules"),
    *("incidents", "current", "incident", "open", "promises", "passed", "releases", "notices", "told", "seen"),
    *("delays", "trigger", "logout", "undo", "calendars", "calendar"),
)

#: A name like this would be a key of a schedule whose prefix is longer.
_OF_ANOTHER = re.compile(rf".*?::({'|'.join(OWN_KEYS)})(?::|$)", re.DOTALL)

#: The name of a key of a schedule itself; the last words are of messages and reports.
_OWN = re.compile(rf":({'|'.join((*OWN_KEYS, 'static', 'several', 'absent'))})(?::|$)")

#: What can be done about an entry whose name is longer, or begins with a colon: another program stored it.
WHAT_REMAINS = "; an entry of that name does not run, but can be disabled, deleted and renamed"


def is_unreserved(name: Any) -> bool:
    """Tell whether a program may have stored an entry of this name: its key is none of redisbeater's own."""
    return isinstance(name, str) and bool(name) and not (name.startswith(":") and _OWN.match(name))


def is_name(name: str) -> bool:
    """Tell whether an entry can have this name: other members and keys are not ours to read."""
    return (
        is_unreserved(name)
        and not name.startswith(":")
        and len(name.encode("utf-8", "surrogateescape")) <= MAX_NAME_BYTES
    )


def check_unreserved(name: Any) -> str:
    """Return a name whose key is none of redisbeater's own.

    Raises:
        InvalidEntry: it is empty, not text, or that of a key of redisbeater, such as ``:lock``.
    """
    if is_unreserved(name):
        return name
    if not isinstance(name, str):
        kind = "" if name is None else f"{type(name).__name__} "
        raise WrongType("$.name", f"expected a str, got {kind}{quoted(name)}")
    if not name:
        raise InvalidEntry("$.name", "expected a text that is not empty, got ''")
    raise InvalidEntry("$.name", _reserved(name))


def _reserved(name: str) -> str:
    return f"{quoted(name, 60)} starts with ':', which is reserved for redisbeater's own keys"


def check_name(name: Any, advice: str = WHAT_REMAINS) -> str:
    """Return the name of an entry, if it can be one; ``advice`` is added to an error about its colon or its length.

    Raises:
        InvalidEntry: as for :func:`check_unreserved`, or it begins with a colon, is too long or not valid unicode.
    """
    if check_unreserved(name).startswith(":"):
        raise InvalidEntry("$.name", f"{_reserved(name)}{advice}")
    size = _size(name, "strict")
    if size > MAX_NAME_BYTES:
        raise InvalidEntry("$.name", f"expected at most {MAX_NAME_BYTES} bytes, got {size}: {name[:40]!r}...{advice}")
    return name


def check_stored_name(name: Any) -> str:
    """Return a name under which another program may have stored an entry: to disable, delete or rename that.

    Raises:
        InvalidEntry: as for :func:`check_unreserved`, or it is not valid unicode.
    """
    _size(check_unreserved(name), "surrogateescape")
    return name


def check_new_name(name: Any) -> str:
    """Return a name that an entry may be given.

    Another program may store others, which are read and run all the same.

    Raises:
        InvalidEntry: as for :func:`check_name`, or it is blank, holds a character that forges log lines or drives
            terminals, or would be a key of a schedule with a longer prefix.
    """
    refuse_confusing(check_name(name, ""))
    return name


def refuse_confusing(name: str) -> None:
    """Refuse a name that an entry can have, but not be given: people and other schedules would misread it.

    Raises:
        InvalidEntry: as for :func:`check_new_name`.
    """
    refuse_unsafe("$.name", name)
    if found := _OF_ANOTHER.match(name):
        raise InvalidEntry("$.name", f"{quoted(name)} would be a key of a schedule itself: {found[1]!r} behind '::'")


def refuse_unsafe(path: str, text: str) -> None:
    """Refuse a text that people cannot read in logs: a blank one, or one with control characters or marks of direction.

    Raises:
        InvalidEntry: naming the first such character.
    """
    if not text.strip():
        raise InvalidEntry(path, f"expected a text that is not blank, got {text!r}")
    unsafe = unsafe_character(text)
    if unsafe is not None:
        raise InvalidEntry(path, f"holds {unsafe}, a control character or a mark of direction; leave it out")


def _size(name: str, errors: str) -> int:
    try:
        return len(name.encode("utf-8", errors))
    except UnicodeEncodeError as exc:
        raise InvalidEntry("$.name", f"{quoted(name)} is not valid unicode") from exc
