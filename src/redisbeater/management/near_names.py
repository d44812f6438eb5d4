"""The names that somebody may have meant who names an entry that there is not."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence

from redisbeater.context import Context
from redisbeater.entry_name import is_unreserved

#: The names of so many entries are compared with one; reading more takes long.
MOST_COMPARED = 1000

#: Characters of a name whose variants are looked up: a longer one has too many.
MOST_VARIED = 60

#: What separates the words of names.
_SEPARATORS = "-_. :/"

_SIGNS = string.ascii_letters + string.digits + _SEPARATORS


def near_names(context: Context, name: str) -> Sequence[str]:
    """Return names of entries among which the one may be that was meant by a name that no entry has.

    Of up to 1,000 entries these are all. Of more no names are read, however many there are: only the variants of the
    name are looked up, which are some thousand.
    """
    contents = context.redis.contents
    if contents.count() <= MOST_COMPARED:
        found = contents.names()
    else:
        varied = list(filter(is_unreserved, dict.fromkeys(variants(name))))
        found = [known for page in contents.scores_of(varied) for known, _ in page]
    return [known for known in found if known != name]  # a member without an entry


def is_deleted(context: Context, name: str) -> bool:
    """Tell whether an entry of that name was deleted, and can be restored."""
    return context.redis.deleted.has(name)


def variants(name: str) -> Iterator[str]:
    """Yield what a name is with one mistake less, and some of these twice; nothing of one of over 60 characters.

    A mistake is a character that is wrong, missing or too much, two that are swapped, or the sign between all words.
    """
    if len(name) > MOST_VARIED:
        return
    for place in range(len(name) + 1):
        head, tail = name[:place], name[place:]
        yield head + tail[1:]
        yield head + tail[1:2] + tail[:1] + tail[2:]
        for sign in {*_SIGNS, *name}:
            yield head + sign + tail
            yield head + sign + tail[1:]
    yield from (re.sub(f"[{_SEPARATORS}]", sign, name) for sign in _SEPARATORS)
