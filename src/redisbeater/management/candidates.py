"""The names of the entries that a search has to read: Redis itself rules out most of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

from redisbeater.context import Context
from redisbeater.management.entry_filter import Filter
from redisbeater.store.contents import FOUND_PAGE, PAGE

__all__ = ("Progress", "candidates", "parts_of_names", "scanned_names")

#: Shows the progress of a walk over that many items on a terminal.
Progress = Callable[[Iterable[Any], str, int], Iterable[Any]]

#: The states of whose entries Redis has lists.
_INDEXED = frozenset(("finished", "failing", "late"))


def candidates(
    context: Context, wanted: Filter, states: Collection[str], text: str, progress: Progress | None = None
) -> Sequence[str] | None:
    """Return the names of the entries that may be wanted, the next to run first; None: Redis cannot tell.

    Redis looks through names and definitions. Entries in a state that Redis has a list of may be missing if ``states``
    names it.
    """
    others = frozenset(states) - _INDEXED
    if states and not others:
        return None
    terms, prefix = wanted.terms(text, is_disabled=others == {"disabled"}), wanted.prefix or ""
    if terms is None:
        return scanned_names(context, prefix, progress) if prefix else None
    contents = context.redis.contents
    return _in_order(context, contents.found_names(terms, prefix), FOUND_PAGE, progress)


def parts_of_names(
    context: Context, states: frozenset[str], sort: str, progress: Progress | None, known: Sequence[str] | None
) -> Iterator[Iterable[str]]:
    """Yield the names in parts, each in the order in which its entries are to be read.

    ``known`` is what :func:`candidates` has returned.
    """
    total = context.redis.contents.count() if known is None else len(known)
    others = states - _INDEXED
    parts: list[Iterable[str]] = []
    if not others or (known is not None and others == {"disabled"}):
        parts += [chain.from_iterable(pages) for pages in _indexed(context, states)]
    if others or not states:
        if sort != "name":  # a failing one is due since the fire time that it owes, and its score is its next try
            failing = chain.from_iterable(context.redis.failing.names())
            parts.append(failing if known is None else filter(frozenset(known).__contains__, failing))
        parts.append(_all_names(context, sort, progress) if known is None else known)
    if sort == "name":
        parts = [sorted(set(chain.from_iterable(parts)))]
    for part in parts:
        yield part if progress is None else progress(part, "reading entries", total)


def scanned_names(context: Context, prefix: str, progress: Progress | None) -> list[str]:
    """Return all names that begin with a text, which Redis selects: the next to run first, dormant ones at the end."""
    return _in_order(context, context.redis.contents.scored_names(prefix), PAGE, progress)


def _in_order(
    context: Context, pages: Iterable[list[tuple[str, float]]], size: int, progress: Progress | None
) -> list[str]:
    if progress is not None:
        pages = progress(pages, "searching names", -(-context.redis.contents.count() // size))
    scores = dict(chain.from_iterable(pages))
    return sorted(scores, key=lambda name: (scores[name] < 0, max(scores[name], 0), name))


def _all_names(context: Context, sort: str, progress: Progress | None) -> Iterable[str]:
    """Return names in the order of their scores, a page at a time; for another order all of them."""
    if sort == "name":
        return scanned_names(context, "", progress)
    return chain.from_iterable(context.redis.contents.names_by_score())


def _indexed(context: Context, states: frozenset[str]) -> Iterator[Iterable[list[str]]]:
    """Yield pages of names with all entries in states that Redis finds; a claimed one's score is its lease's end."""
    redis = context.redis
    if states & {"failing", "late"}:
        yield redis.failing.names()
    if "late" in states:
        now, _ = redis.clock()
        yield redis.contents.claimed_names(now, now + 2 * timedelta(seconds=context.config.lease_timeout))
        yield redis.contents.names_until(now)
    if "finished" in states:
        yield redis.contents.dormant_names()
