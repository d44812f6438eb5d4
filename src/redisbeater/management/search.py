"""Search and list a schedule: entries by state, text and label, in some order, page by page."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from itertools import chain, filterfalse, islice
from typing import Any

from redisbeater.context import Context
from redisbeater.display import did_you_mean, quoted, text_of
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry, WrongType
from redisbeater.management.blanking import redacted_line
from redisbeater.management.entry_view import EntryView, ViewPage, with_results
from redisbeater.management.runs.results import Result
from redisbeater.model.definition import Decoder, Definition
from redisbeater.model.log_line import LogLine
from redisbeater.model.passed_values import check_number
from redisbeater.store import Snapshot, pages
from redisbeater.store.contents import FOUND_PAGE, PAGE
from redisbeater.times import FAR_FUTURE

#: How many entries are read in one step.
PIECE = 250

#: An entry that is due for less than this is not late, as for the health of the schedule.
LATE = timedelta(seconds=60)

#: One that is due for less than this is about to be sent; then people read that it is due.
DUE = timedelta(seconds=1)

#: The states that a listing can be limited to.
STATES = ("enabled", "disabled", "finished", "broken", "failing", "late")


def checked_states(
    states: str | Collection[str] | None, known: Sequence[str] = STATES, what: str = "state"
) -> frozenset[str]:
    """Return states, or results, as a set, empty for all; one alone may be a text. ``known``: those that there are.

    Raises:
        ValueError: one of them is none.
    """
    given = (states,) if isinstance(states, str) else tuple(states or ())
    found = tuple("failing" if state in ("not sent", "not-sent") else state for state in given)
    for state in found:
        if state not in known:
            words = ", ".join(typed_states(known))
            raise ValueError(f"{what}: expected {words}, got {quoted(state)}{_nearest(state, known)}")
    return frozenset(found)


def typed_states(known: Sequence[str] = STATES) -> list[str]:
    """Return states as people type them: ``not-sent`` for ``failing``, which is taken as well."""
    return ["not-sent" if state == "failing" else state for state in known]


def check_sort(sort: str) -> None:
    """Refuse what is no order of a listing.

    Raises:
        ValueError: there is no order of that name.
    """
    if sort not in SORTS:
        raise ValueError(f"sort: expected {', '.join(SORTS)}, got {quoted(sort)}{_nearest(sort, SORTS)}")


def _nearest(word: Any, known: Iterable[str]) -> str:
    return did_you_mean(word, known) if isinstance(word, str) else ""


def _by_next(entry: EntryView) -> Any:
    return entry.next or FAR_FUTURE, entry.next is None, entry.name


def _by_last(entry: EntryView) -> Any:
    last = entry.last_run_at
    return last is None, FAR_FUTURE - (last or FAR_FUTURE), entry.name


#: The results in the order of a listing, what somebody should look at first.
_RANKS: Mapping[Result, int] = {result: rank for rank, result in enumerate(Result)}

#: The states in which nothing is sent although somebody wants that.
_UNSENT = ("broken", "failing")

#: The keys of the orders; the last part of each is the name.
_KEYS: Mapping[str, Callable[[EntryView], Any]] = {
    "next": _by_next,
    "name": lambda entry: (entry.name,),
    "last": _by_last,
    "late": lambda entry: (-entry.late, *_by_next(entry)),
    "result": lambda entry: (entry.state not in _UNSENT, -entry.ends.failed_in_a_row, *_by_next(entry)),
}

#: The orders of a listing.
SORTS = tuple(_KEYS)


#: What the fields of a filter may be.
_KINDS = (
    ("prefix", str, "a text"),
    ("task", str, "a text"),
    ("enabled", bool, "a bool"),
    ("queue", str, "a text"),
    ("labels", Mapping, "texts by name"),
)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Selects entries; None selects all. A broken entry has no task, and is neither enabled nor disabled."""

    prefix: str | None = None
    task: str | None = None
    enabled: bool | None = None
    queue: str | None = None
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name, kind, word in _KINDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise WrongType(name, f"expected {word}, or None for all, got {quoted(value)}")

    def part_of(self, names: Sequence[str]) -> tuple[int, int]:
        """Return where the selected names begin and end in a sorted sequence."""
        prefix = self.prefix or ""
        return bisect_left(names, prefix), bisect_right(names, prefix, key=lambda name: name[: len(prefix)])

    def lets_name_through(self, name: str) -> bool:
        """Return whether an entry is selected by its name."""
        return name.startswith(self.prefix or "")

    def lets_through(self, stored: StoredEntry) -> bool:
        """Return whether an entry is selected by its fields; its name is checked by the other methods."""
        return self.lets_definition_through(stored.definition, is_disabled_for_now=stored.is_disabled_for_now)

    def lets_definition_through(self, definition: Definition, *, is_disabled_for_now: bool = False) -> bool:
        """Tell whether an entry with this definition is wanted; ``is_disabled_for_now``: until a time."""
        if self.labels and not self.labels.items() <= definition.labels.items():
            return False
        is_in_queue = self.queue is None or definition.options.get("queue") == self.queue
        is_enabled = definition.enabled and not is_disabled_for_now
        return is_in_queue and self.task in (None, definition.task) and self.enabled in (None, is_enabled)

    @property
    def is_by_name(self) -> bool:
        """Whether the name alone decides."""
        return self.task is None and self.enabled is None and self.queue is None and not self.labels

    def terms(self, text: str, *, is_disabled: bool) -> dict[str, Any] | None:
        """Return the terms by which ``find_entries.lua`` leaves out most other entries, or None if it cannot.

        Arguments:
            text: only entries with this text in their name, task, description or a label, in any case.
            is_disabled: only those that are disabled, also until a time.
        """
        fields = {name: value for name, value in self._wanted_fields() if value is not None}
        parts = [[json.dumps(part, ensure_ascii=False)] for part in _strings_of(fields)]
        if is_disabled or self.enabled is False:
            fields["enabled"] = False
            parts.append(["false", "disabled_until"])
        if not (fields or text):
            return None
        folded = text.casefold()
        asked = {"text": folded if folded.isascii() else ""} if text else {}
        return {"fields": fields, "parts": [[*part, "\\"] for part in parts], **asked}

    def _wanted_fields(self) -> Iterator[tuple[str, Any]]:
        yield "task", self.task
        yield "options", None if self.queue is None else {"queue": self.queue}
        yield "labels", dict(self.labels) if self.labels else None


def _strings_of(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in the values of fields, and the names in those that have names."""
    for value in fields.values():
        yield from [value] if isinstance(value, str) else [*value, *value.values()]


#: Lets everything through.
EVERY = Filter()


#: Shows the progress of a walk over that many items on a terminal.
Progress = Callable[[Iterable[Any], str, int], Iterable[Any]]

#: The states of whose entries Redis has lists.
_INDEXED = frozenset(("finished", "failing", "late"))

#: The results of whose entries, or runs, Redis has lists.
LISTED_RESULTS = frozenset(("failed", "unstable", "waiting", "running"))

#: What an entry is whose runs were sent, and of which none has ever succeeded: no result, but asked for as one.
NEVER_SUCCEEDED = "never-succeeded"

#: The results that a listing may be asked for.
RESULTS_ASKED = (*map(str, Result), NEVER_SUCCEEDED)

#: Those that only runs and counts tell.
_TOLD_BY_RUNS = frozenset(("late", NEVER_SUCCEEDED))

#: How many entries of a search are kept as they were found, so that those of a first page need not be read again.
MOST_KEPT = 200

#: How many entries that Redis has found are read to count those that are wanted; of more the number is about right.
MOST_COUNTED = 500


class Search:
    """Finds entries, and the declarations that could not be stored. Each search is for one walk.

    Arguments:
        context: the app whose schedule it is.
        wanted: selects entries.
        states: only entries in one of these; ``late`` is one. Empty: all.
        sort: one of ``SORTS``: by next run, with those that will not run at the end; by name; the newest last run
            first; the latest first; by result: first what is not sent, then what failed, waits for a worker, and so on.
        results: only entries with one of these results, by the ends of their runs: ``failed``, ``unstable``, ``ok``,
            ``never``; or with a run that waits for a worker, or is executed: ``waiting``, ``running``; or ``late``, for
            which the newest runs of all entries that are ``ok`` are read; or ``never-succeeded``, for which the counts
            of entries are read that were sent and of whose last ends none was a success. Empty: all.
        text: only entries with this text in their name, task, description or a label, in any case.
        progress: wraps the names that are read.
        decoder: what reads schedules; by default one that shares them, which nobody must change then.
    """

    def __init__(
        self,
        context: Context,
        wanted: Filter = EVERY,
        *,
        states: Collection[str] = (),
        sort: str = "next",
        results: Collection[str] = (),
        text: str = "",
        progress: Progress | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        self._context = context
        self._wanted = wanted
        self._states = frozenset(states)
        self._results = frozenset(results)
        self._sort = sort
        self._text = text.casefold()
        self._progress = progress
        self._decoder = decoder or context.reader.codec
        self._seen: set[str] = set()
        #: How many entries the schedule has, and how many reports on broken ones; None: nobody has asked yet.
        self._total: int | None = None
        self._reports: int | None = None

    def entries(self, limit: int | None = None) -> list[EntryView]:
        """Return the entries in their order; ``limit``: how many, the first ones.

        No more than necessary is read, except in the order of the last runs and for states that Redis has no list of.
        """
        return sorted(self.each(limit), key=self._key)[:limit]

    def _key(self, entry: EntryView) -> tuple[Any, ...]:
        """Return the key that an entry is sorted by; its last part is the name."""
        key: tuple[Any, ...] = _KEYS[self._sort](entry)
        if self._sort != "result":
            return key
        rank = _RANKS[entry.ends.result]
        return key[0], min(rank, _RANKS[Result.WAITING]) if entry.name in self._waiting else rank, *key[1:]

    @cached_property
    def _waiting(self) -> set[str]:
        """The names of the entries of which runs wait for a worker."""
        return self._context.redis.runs.names_of("waiting") if self._context.config.track_runs else set()

    def each(self, limit: int | None) -> Iterator[EntryView]:
        """Yield what :meth:`entries` returns, and some entries beyond the limit, in no order."""
        is_whole = self._sort in ("last", "result") or not self._results <= LISTED_RESULTS
        most = None if is_whole else limit
        is_in_order = self.candidates is not None  # those that do not run come last, by their names
        for part in self._parts(most):
            number = 0
            found = filter(None, map(self.found, part))
            for entry in self._told_by_runs(found) if self._results & _TOLD_BY_RUNS else found:
                yield entry
                number += self._sort == "name" or entry.next is not None or (is_in_order and entry.is_dormant)
                if number == most:
                    break
        yield from self.unstored(self._seen)

    def _told_by_runs(self, found: Iterator[EntryView]) -> Iterator[EntryView]:
        """Yield those of the entries that have a wanted result, also one that only their runs or counts tell."""
        is_late, is_never = "late" in self._results, NEVER_SUCCEEDED in self._results
        while piece := list(islice(found, PIECE)):
            late = {
                read.name
                for read in (with_results(self._context, piece) if is_late else ())
                if read.result and read.result.result is Result.LATE
            }
            may = [entry.name for entry in piece if self._may_never_have_succeeded(entry)] if is_never else []
            never = set(may) - self._context.redis.runs.have_succeeded(may)
            for entry in piece:
                if self._has_result(entry) or entry.name in late or entry.name in never:
                    yield entry

    def _may_never_have_succeeded(self, entry: EntryView) -> bool:
        return entry.exists and "S" not in entry.ends.letters and (bool(entry.ends.letters) or entry.runs > 0)

    def shown(self, limit: int | None = None) -> list[EntryView]:
        """Return :meth:`entries`, each checked that it can be shown."""
        found = self.entries(limit)
        checked = (entry.checked() for entry in found)
        return list(checked if self._progress is None else self._progress(checked, "describing entries", len(found)))

    def names(self, limit: int | None = None) -> list[str]:
        """Return the names of :meth:`entries`, in the same order; by name alone no entry is read."""
        if self._sort != "name" or self._states or self._results or not self._wanted.is_by_name:
            return [entry.name for entry in self.entries(limit)]
        names = self._scanned_names()
        return sorted({*names, *(entry.name for entry in self.unstored(names))})[:limit]

    def stored_names(self) -> list[str]:
        """Return the names of the entries that are stored, the next to run first; read no entry needlessly."""
        if not self._wanted.is_by_name:
            return [entry.name for entry in self.entries() if entry.exists]
        names = self._scanned_names()
        origins = self._context.redis.contents.origins(names)
        return [name for name in names if origins[name] is not None]

    def page(self, number: int, size: int) -> ViewPage:
        """Return a page of what is found; the last one for a number that is too high.

        Where Redis counts the entries, only those of the pages up to it are read: all, those with a prefix, enabled
        ones, failing ones, late ones, and more than ``MOST_COUNTED`` that it finds by their definitions.
        """
        count = self._counter
        limit = None if count is None or self._sort == "last" else number * size + 1
        keys: list[tuple[Any, ...]] = []
        kept: dict[str, EntryView] = {}
        declared = 0
        for entry in self.each(limit):
            keys.append(self._key(entry))
            if entry.snapshot is None or len(kept) < MOST_KEPT:  # what is only declared cannot be read again
                kept[entry.name] = entry
            declared += entry.snapshot is None
        names = [key[-1] for key in sorted(keys)[:limit]]
        total = len(names)
        is_cut = count is not None and total == limit
        if count is not None and is_cut:
            total = max(count() + declared, total)
        is_exact = self._wanted.is_by_name and not self._text and self._states.isdisjoint({"disabled", "enabled"})
        pages = max(-(-total // size), 1)
        number = min(number, pages)
        part = names[(number - 1) * size : number * size]
        again = Search(self._context).read(filterfalse(kept.__contains__, part))
        kept = {**kept, **{entry.name: entry for entry in again}}
        shown = [kept[name].checked() for name in part if name in kept]
        return ViewPage(entries=shown, total=total, number=number, pages=pages, is_about=is_cut and not is_exact)

    def one(self, name: str, *, has_secrets: bool = False) -> EntryView:
        """Return one entry with its last change, or a declaration that could not be stored.

        With ``has_secrets`` the values that ``redisbeater_redact`` blanks are in it.

        Raises:
            EntryNotFound: there is none of that name.
        """
        for found in self.named([name]):
            changed = _last_change(self._context, name) if found.exists else None
            return replace(found, changed=changed, has_secrets=has_secrets)
        raise EntryNotFound(name)

    def named(self, names: Sequence[str]) -> list[EntryView]:
        """Return entries, or declarations that could not be stored; what is neither is left out."""
        found = {entry.name: entry.checked() for entry in self.read(names) if entry.exists}
        if len(found) < len(set(names)):
            found = {**{entry.name: entry for entry in self.unstored(found)}, **found}
        return [found[name] for name in names if name in found]

    @cached_property
    def candidates(self) -> Sequence[str] | None:
        """The names of the entries that may be wanted, the next to run first, or None if Redis cannot tell.

        Redis looks through names and definitions. Entries in a state that Redis has a list of may be missing if that
        state is asked for.
        """
        others = self._states - _INDEXED
        if self._results and self._results <= LISTED_RESULTS and not self._states:
            listed = list(filter(self._wanted.lets_name_through, self._listed))
            return self._in_order(self._context.redis.contents.scores_of(listed), PAGE)
        if self._states and not others:
            return None
        terms = self._wanted.terms(self._text, is_disabled=others == {"disabled"})
        if terms is None:
            return self._scanned_names() if self._wanted.prefix else None
        return self._in_order(self._context.redis.contents.found_names(terms, self._wanted.prefix or ""), FOUND_PAGE)

    @cached_property
    def _listed(self) -> dict[str, set[str]]:
        """The names of the entries that Redis lists under the wanted results, with these results."""
        found: dict[str, set[str]] = {}
        for result in self._results & LISTED_RESULTS:
            for name in self._context.redis.runs.names_of(result):
                found.setdefault(name, set()).add(result)
        return found

    @property
    def _counter(self) -> Callable[[], int] | None:
        """What counts the wanted entries, or None if Redis cannot."""
        contents, failing, names = self._context.redis.contents, self._context.redis.failing, self.candidates
        if names is not None:
            is_by_name = not self._states and not self._text and self._wanted.is_by_name
            return names.__len__ if is_by_name or (len(names) > MOST_COUNTED and self._states <= {"disabled"}) else None
        if self._wanted != EVERY or self._text or self._results:
            return None
        counters: Mapping[frozenset[str], Callable[[], int]] = {
            frozenset(): lambda: contents.count() if self._total is None else self._total,
            frozenset({"enabled"}): lambda: max(contents.count_waiting() - failing.count(), 0),
            frozenset({"failing"}): failing.count,
            frozenset({"late"}): lambda: failing.late(LATE.total_seconds()).entries,
        }
        return counters.get(self._states)

    def _parts(self, limit: int | None) -> Iterator[Iterable[Snapshot]]:
        """Yield the entries in parts, each in the order in which they are to be looked at."""
        known, others, redis = self.candidates, self._states - _INDEXED, self._context.redis
        parts: list[Iterable[str]] = []
        is_walk = known is None and self._sort != "name" and bool(others or not self._states)
        if not others or (known is not None and others == {"disabled"}):
            parts += [chain.from_iterable(pages) for pages in self._indexed()]
        if (others or not self._states) and not is_walk:
            if self._sort != "name":  # a failing one is due since the fire time that it owes; its score is its next try
                parts.append(filter(frozenset(known or ()).__contains__, chain.from_iterable(redis.failing.names())))
            parts.append(self._scanned_names() if known is None else known)
        if self._sort == "name":
            parts = [sorted(set(chain.from_iterable(parts)))]
        total = 0 if self._progress is None else redis.contents.count() if known is None else len(known)
        for part in [self._walk(limit)] if is_walk else [self._loaded(part, limit) for part in parts]:
            yield part if self._progress is None else self._progress(part, "reading entries", total)

    def _indexed(self) -> Iterator[Iterable[list[str]]]:
        """Yield pages of names of entries in states that Redis finds; a claimed one's score is the end of its lease."""
        redis, states = self._context.redis, self._states
        if states & {"failing", "late"}:
            yield redis.failing.names()
        if "late" in states:
            now, _ = redis.clock()
            yield redis.contents.claimed_names(now, now + 2 * timedelta(seconds=self._context.config.lease_timeout))
            yield redis.contents.names_until(now)
        if "finished" in states:
            yield redis.contents.dormant_names()

    def _scanned_names(self) -> list[str]:
        """Return the names with the prefix, which Redis selects: the next to run first, dormant ones at the end."""
        return self._in_order(self._context.redis.contents.scored_names(self._wanted.prefix or ""), PAGE)

    def _in_order(self, pages: Iterable[list[tuple[str, float]]], size: int) -> list[str]:
        if self._progress is not None:
            pages = self._progress(pages, "searching names", -(-self._context.redis.contents.count() // size))
        scores = dict(chain.from_iterable(pages))
        return sorted(scores, key=lambda name: (scores[name] < 0, max(scores[name], 0), name))

    def read(self, names: Iterable[str]) -> Iterator[EntryView]:
        """Yield each wanted entry, once, in the order of the names."""
        return filter(None, map(self.found, self._loaded(names, None)))

    def _loaded(self, names: Iterable[str], limit: int | None) -> Iterator[Snapshot]:
        """Yield each entry once, in the order of the names; ``limit`` is how many will be asked for.

        Where all of the first entries are wanted, no more than those are read.
        """
        new = filter(self._is_new, names)
        size = PIECE if limit is None else min(limit, PIECE)
        while piece := list(islice(new, size)):
            yield from self._context.redis.load_many(piece)
            size = min(2 * size, PIECE)

    def _walk(self, limit: int | None) -> Iterator[Snapshot]:
        """Yield all entries once, the next to run first, as :meth:`_loaded` does."""
        start: int | None = 0
        while start is not None:
            page = self._context.redis.load_page(start, PIECE if limit is None else min(limit, PIECE))
            self._total, self._reports, start = page.total, page.reports, page.end
            yield from (snapshot for snapshot in page.snapshots if self._is_new(snapshot.name))
            yield from self._loaded(page.unread, limit)

    def _is_new(self, name: str) -> bool:
        if name in self._seen or not self._wanted.lets_name_through(name):
            return False
        self._seen.add(name)
        return True

    def found(self, snapshot: Snapshot) -> EntryView | None:
        """Return the entry of a snapshot, or None if it is not wanted."""
        found = self._found(snapshot)
        may_be_late = "late" in self._results and found and found.ends.result is Result.OK
        may_never = NEVER_SUCCEEDED in self._results and found and self._may_never_have_succeeded(found)
        if found and self._results and not (may_be_late or may_never or self._has_result(found)):
            return None
        if found is None or not self._states or found.state in self._states:
            return found
        return found if "late" in self._states and found.late >= LATE else None

    def _has_result(self, entry: EntryView) -> bool:
        """Tell whether an entry has a wanted result; one that is gone has none, wherever it is still listed."""
        return entry.exists and (entry.name in self._listed or entry.ends.result in self._results)

    def _found(self, snapshot: Snapshot) -> EntryView | None:
        name, error = snapshot.name, ""
        if snapshot.exists:
            try:
                stored = StoredEntry.from_snapshot(snapshot, self._decoder)
                if not self._is_wanted(name, stored):
                    return None
                due_at = stored.due_at(self._context.in_zone(stored.zone).defaults)
                return EntryView(context=self._context, name=name, snapshot=snapshot, stored=stored, next=due_at)
            except (InvalidEntry, OverflowError) as exc:
                error = text_of(exc)
        is_wanted = self._wanted.is_by_name and self._has_text(name)
        return EntryView(context=self._context, name=name, snapshot=snapshot, error=error) if is_wanted else None

    def unstored(self, seen: Collection[str]) -> Iterator[EntryView]:
        """Yield each declaration that could not be stored, unless an entry of that name was read."""
        is_asked = not self._results and (not self._states or "broken" in self._states)
        if not self._wanted.is_by_name or not is_asked or self._reports == 0:
            return
        for name, report in self._context.redis.broken.declarations().items():
            if name not in seen and self._wanted.lets_name_through(name) and self._has_text(name):
                application = report.get("application", "")
                yield EntryView(context=self._context, name=name, error=report["reason"], application=application)

    def _is_wanted(self, name: str, stored: StoredEntry) -> bool:
        definition = stored.definition
        return self._wanted.lets_through(stored) and self._has_text(
            name, definition.task, definition.description, *map("=".join, definition.labels.items())
        )

    def _has_text(self, *texts: str) -> bool:
        return not self._text or any(self._text in text.casefold() for text in texts)


def _last_change(context: Context, name: str) -> LogLine | None:
    lines = context.redis.log.of_entry(name)
    found = next((line for line in lines if line.last and "by" in line.details and line.what != "triggered"), None)
    return found and redacted_line(context, found)


#: How many entries are read for one page at most, however few of them a filter lets through.
MOST_READ = 2_000

#: Digits of a cursor that is a number.
MOST_DIGITS = 10

#: How long the names are remembered from one page of a walk to the next: asking Redis for 100,000 takes long.
MEMORY_SECONDS = 60.0


#: No names are remembered.
_NOTHING: tuple[Sequence[str], float] = ((), float("-inf"))


@dataclass(frozen=True, kw_only=True)
class EntryPage:
    """A page of entries, which one iterates over.

    Attributes:
        entries: the entries, in the order of their names.
        broken: entries that cannot be read: name -> why. They are not in ``entries``.
        cursor: pass it to :meth:`redisbeater.ScheduleStore.list` for the next page; None: this is the last one.
    """

    entries: Sequence[RedisScheduleEntry]
    broken: Mapping[str, str] = field(default_factory=dict)
    cursor: str | None = None

    def __iter__(self) -> Iterator[RedisScheduleEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class Listing:
    """Lists the entries of an app in the order of their names, which never changes, or in another one.

    The first page of a walk reads the names, and they are remembered for a minute for the pages that follow. Another
    process, or a page after that minute, reads them again and goes on after the same name.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._remembered = _NOTHING

    def page(
        self, wanted: Filter, *, limit: int, cursor: str | None, states: Collection[str] = (), sort: str = "name"
    ) -> EntryPage:
        """Return the entries after a cursor, at most ``limit``; fewer at the end, or when the filter selects few.

        Raises:
            ValueError: limit or cursor is not valid.
        """
        check_number("limit", limit)
        after = None if cursor is None else _position(cursor, sort)
        if sort != "name":
            return self._page_of_search(wanted, limit, int(after or 0), states, sort)
        names = self._names(is_first=after is None)
        begin, end = wanted.part_of(names)
        if after is not None:
            begin = max(begin, bisect_right(names, after))
        most = limit if wanted.is_by_name and not states else max(limit, MOST_READ)
        found, context = _Page(self.context), self.context
        search = Search(context, wanted, states=states, decoder=context.codec)
        position = begin + found.read(search, names[begin : min(end, begin + most)], limit)
        if position < end:
            return found.page(cursor=f"{sort}:{names[position - 1]}")
        self._remembered = _NOTHING
        return found.page(cursor=None)

    def _page_of_search(self, wanted: Filter, limit: int, begin: int, states: Collection[str], sort: str) -> EntryPage:
        """Return a page of another order, whose cursor has the number of entries before it."""
        context, end = self.context, begin + limit
        entries = Search(context, wanted, states=states, sort=sort, decoder=context.codec).entries(end + 1)
        found = _Page(context)
        for entry in entries[begin:end]:
            found.add(entry)
        return found.page(cursor=f"{sort}:{end}" if len(entries) > end else None)

    def _names(self, *, is_first: bool) -> Sequence[str]:
        names, until = self._remembered
        if is_first or time.monotonic() > until:
            names = sorted(self.context.redis.contents.names())
        self._remembered = names, time.monotonic() + MEMORY_SECONDS
        return names


class _Page:
    """The entries found so far for a page."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._entries: list[RedisScheduleEntry] = []
        self._broken: dict[str, str] = {}

    def read(self, search: Search, names: Sequence[str], limit: int) -> int:
        """Read entries until the page is full; return how many were read."""
        read_count = 0
        for piece in pages(names, PIECE):
            for snapshot in self._context.redis.load_many(piece):
                if len(self._entries) + len(self._broken) >= limit:
                    return read_count
                if found := search.found(snapshot):
                    self.add(found)
                read_count += 1
        return read_count

    def add(self, found: EntryView) -> None:
        """Add what was found, unless it is gone by now, or only declared."""
        if found.stored is None:
            if found.exists:
                self._broken[found.name] = found.error
            return
        try:
            self._entries.append(RedisScheduleEntry._of(found.stored, self._context))
        except (InvalidEntry, OverflowError) as exc:
            self._broken[found.name] = text_of(exc)

    def page(self, cursor: str | None) -> EntryPage:
        """Return the page of what was found."""
        return EntryPage(entries=tuple(self._entries), broken=self._broken, cursor=cursor)


def _position(cursor: object, sort: str) -> str:
    """Return the position in the cursor of a page of this order: the last name, or the number of entries before.

    Raises:
        ValueError: no page of this order had that cursor.
    """
    order, _, position = cursor.partition(":") if isinstance(cursor, str) else ("", "", "")
    is_number = position.isascii() and position.isdigit() and len(position) < MOST_DIGITS
    if order == sort and position and (is_number or sort == "name"):
        return position
    raise ValueError(
        f"cursor: expected the cursor of a page in the order {sort!r}, or None for the first one, got {quoted(cursor)}"
    )
