"""Search a schedule: the entries in some states, in some order, reading no more of them than necessary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from redisbeater.context import Context
from redisbeater.display import did_you_mean, quoted, text_of
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.management.candidates import Progress, candidates, parts_of_names, scanned_names
from redisbeater.management.entry_filter import Filter
from redisbeater.model.definition import Decoder
from redisbeater.store import Snapshot
from redisbeater.times import FAR_FUTURE

__all__ = (
    "LATE",
    "PIECE",
    "SORTS",
    "STATES",
    "FoundEntry",
    "Progress",
    "Reader",
    "check_sort",
    "checked_states",
    "each_found",
    "listed_names",
    "order",
    "search",
    "selected_names",
)

#: How many entries are read in one step.
PIECE = 250

#: An entry that is due for less than this is not late: beat is about to send it.
LATE = timedelta(seconds=1)

#: The states that a listing can be limited to.
STATES = ("enabled", "disabled", "finished", "broken", "failing", "late")


@dataclass(frozen=True, kw_only=True)
class FoundEntry:
    """An entry that was found, or a declaration that could not be stored.

    Attributes:
        state: one of ``STATES`` except ``late``; or ``missing``: the schedule names the entry, but it does not exist.
        snapshot: the entry as it was read; None: it is only declared.
        stored: the entry; None: it cannot be read.
        error: why it cannot be read, or was not stored.
        next: when it is next due.
        application: whose code declares it, if it is only declared.
    """

    name: str
    state: str
    snapshot: Snapshot | None = None
    stored: StoredEntry | None = None
    error: str = ""
    next: datetime | None = None
    application: str = ""

    @property
    def late(self) -> timedelta:
        """How long it has been due."""
        return self.stored.late(self.next) if self.stored else timedelta(0)

    @property
    def is_dormant(self) -> bool:
        """Whether its score says that it does not run."""
        score = self.snapshot.score if self.snapshot else None
        return score is not None and score.dormant

    @property
    def last_run_at(self) -> datetime | None:
        """When it ran last."""
        return self.stored.meta.last_run_at if self.stored else None


def checked_states(states: str | Collection[str] | None, known: Sequence[str] = STATES) -> frozenset[str]:
    """Return states as a set, empty for all; one alone may be a text. ``known``: those that there are.

    Raises:
        ValueError: one of them is no state.
    """
    found = (states,) if isinstance(states, str) else tuple(states or ())
    for state in found:
        if state not in known:
            raise ValueError(f"state: expected {', '.join(known)}, got {quoted(state)}{_nearest(state, known)}")
    return frozenset(found)


def check_sort(sort: str) -> None:
    """Refuse what is no order of a listing.

    Raises:
        ValueError: there is no order of that name.
    """
    if sort not in SORTS:
        raise ValueError(f"sort: expected {', '.join(SORTS)}, got {quoted(sort)}{_nearest(sort, SORTS)}")


def _nearest(word: Any, known: Iterable[str]) -> str:
    return did_you_mean(word, known) if isinstance(word, str) else ""


def search(
    context: Context,
    wanted: Filter,
    limit: int | None = None,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    text: str = "",
    progress: Progress | None = None,
    decoder: Decoder | None = None,
) -> list[FoundEntry]:
    """Return the wanted entries in an order, with the declarations that could not be stored.

    Arguments:
        context: the app whose schedule it is.
        wanted: selects entries.
        limit: how many, the first ones in the order. No more than necessary is read, except in the order of the last
            runs and for states that Redis has no list of.
        states: only entries in one of these; ``late`` is one. Empty: all.
        sort: one of ``SORTS``: by next run, with those that will not run at the end; by name; the newest last run
            first; the latest first.
        text: only entries with this text in their name, task or description, in any case.
        progress: wraps the names that are read.
        decoder: what reads schedules; by default one that shares them, which nobody must change then.
    """
    terms: dict[str, Any] = {"states": states, "sort": sort, "text": text, "progress": progress, "decoder": decoder}
    return sorted(each_found(context, wanted, limit, **terms), key=order(sort))[:limit]


def each_found(
    context: Context,
    wanted: Filter,
    limit: int | None = None,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    text: str = "",
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    decoder: Decoder | None = None,
) -> Iterator[FoundEntry]:
    """Yield what :func:`search` returns, and some entries beyond the limit, in no order; the arguments are the same.

    ``names`` is what :func:`~redisbeater.management.candidates.candidates` has returned for them.
    """
    reader = Reader(context, wanted, states, text, decoder)
    most = None if sort == "last" else limit
    if names is None:
        names = candidates(context, wanted, states, text, progress)
    is_in_order = names is not None  # those that do not run come last, by their names
    for part in parts_of_names(context, frozenset(states), sort, progress, names):
        number = 0
        for entry in reader.read(part, most):
            yield entry
            number += sort == "name" or entry.next is not None or (is_in_order and entry.is_dormant)
            if number == most:
                break
    yield from reader.unstored()


def order(sort: str) -> Callable[[FoundEntry], Any]:
    """Return the key of an order; its last part is the name."""
    return _KEYS[sort]


def listed_names(
    context: Context,
    wanted: Filter,
    limit: int | None = None,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    progress: Progress | None = None,
) -> list[str]:
    """Return the names of what :func:`search` returns, in the same order; by name alone no entry is read."""
    if sort != "name" or states or not wanted.is_by_name:
        return [found.name for found in search(context, wanted, limit, states=states, sort=sort, progress=progress)]
    names = scanned_names(context, wanted.prefix or "", progress)
    unstored = Reader(context, wanted).unstored(seen=names)
    return sorted({*names, *(found.name for found in unstored)})[:limit]


def selected_names(context: Context, wanted: Filter, progress: Progress) -> list[str]:
    """Return the names of the entries that a filter selects, the next to run first; read no entry needlessly."""
    if not wanted.is_by_name:
        return [found.name for found in search(context, wanted, progress=progress) if _is_stored(found)]
    names = scanned_names(context, wanted.prefix or "", progress)
    stored = context.redis.contents.origins(names)
    return [name for name in names if stored[name] is not None]


def _is_stored(found: FoundEntry) -> bool:
    return found.snapshot is not None and found.snapshot.exists


def _by_next(entry: FoundEntry) -> Any:
    return entry.next or FAR_FUTURE, entry.next is None, entry.name


def _by_last(entry: FoundEntry) -> Any:
    last = entry.last_run_at
    return last is None, FAR_FUTURE - (last or FAR_FUTURE), entry.name


_KEYS: Mapping[str, Callable[[FoundEntry], Any]] = {
    "next": _by_next,
    "name": lambda entry: (entry.name,),
    "last": _by_last,
    "late": lambda entry: (-entry.late, *_by_next(entry)),
}

#: The orders of a listing.
SORTS = tuple(_KEYS)


class Reader:
    """Reads entries, a piece at a time, and drops those that are not wanted."""

    def __init__(
        self,
        context: Context,
        wanted: Filter,
        states: Collection[str] = (),
        text: str = "",
        decoder: Decoder | None = None,
    ) -> None:
        self._context = context
        self._decoder = decoder or context.reader.codec
        self._text = text.casefold()
        self._wanted = wanted
        self._states = states
        self._seen: set[str] = set()

    def read(self, names: Iterable[str], limit: int | None) -> Iterator[FoundEntry]:
        """Yield each wanted entry, once, in the order of the names; ``limit`` is how many will be asked for.

        Where all of the first entries are wanted, no more than those are read.
        """
        new = filter(self._is_new, names)
        size = PIECE if limit is None else min(limit, PIECE)
        while piece := list(islice(new, size)):
            for snapshot in self._context.redis.load_many(piece):
                if found := self.found(snapshot):
                    yield found
            size = min(2 * size, PIECE)

    def _is_new(self, name: str) -> bool:
        if name in self._seen or not self._wanted.lets_name_through(name):
            return False
        self._seen.add(name)
        return True

    def found(self, snapshot: Snapshot) -> FoundEntry | None:
        """Return what was read as an entry; None: it is not wanted."""
        found = self._found(snapshot)
        if found is None or not self._states or found.state in self._states:
            return found
        return found if "late" in self._states and found.late >= LATE else None

    def _found(self, snapshot: Snapshot) -> FoundEntry | None:
        name, is_by_name = snapshot.name, self._wanted.is_by_name
        if not snapshot.exists:
            is_wanted = is_by_name and self._has_text(name)
            return FoundEntry(name=name, state="missing", snapshot=snapshot) if is_wanted else None
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._decoder)
            if not self._is_wanted(name, stored):
                return None
            due_at = stored.due_at(self._context.in_zone(stored.zone).defaults)
        except Exception as exc:  # a custom schedule is the application's code, and must not hide the others
            if not is_by_name or not self._has_text(name):
                return None
            return FoundEntry(name=name, state="broken", snapshot=snapshot, error=text_of(exc))
        state = "broken" if snapshot.is_broken else stored.state
        return FoundEntry(name=name, state=state, snapshot=snapshot, stored=stored, next=due_at)

    def unstored(self, seen: Iterable[str] | None = None) -> Iterator[FoundEntry]:
        """Yield each declaration that could not be stored, unless an entry of that name was read."""
        if not self._wanted.is_by_name or (self._states and "broken" not in self._states):
            return
        known = self._seen if seen is None else set(seen)
        for name, report in self._context.redis.broken.declarations().items():
            if name not in known and self._wanted.lets_name_through(name) and self._has_text(name):
                application = report.get("application", "")
                yield FoundEntry(name=name, state="broken", error=report["reason"], application=application)

    def _is_wanted(self, name: str, stored: StoredEntry) -> bool:
        definition = stored.definition
        return self._wanted.lets_through(stored) and self._has_text(name, definition.task, definition.description)

    def _has_text(self, *texts: str) -> bool:
        return not self._text or any(self._text in text.casefold() for text in texts)
