"""The table of a listing, as people see it: local times, ages, schedules in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import accumulate
from unicodedata import combining, east_asian_width

from redisbeater.display import shown
from redisbeater.management.entry_view import COLUMNS, Column, EntryView
from redisbeater.management.runs.results import RESULTS
from redisbeater.management.search import DUE, LATE
from redisbeater.schedules.english import zone_text
from redisbeater.times import age_words, clock_words, date_words, duration_words

#: The columns of a terminal; that of results is there where runs are recorded.
TERMINAL_COLUMNS = tuple(column for column in COLUMNS if column.shown_in != "page")

#: Characters in a column of a table at most, but for the last: one long name must not pad every row. JSON has all.
MOST_CELL = 80

#: The columns that are cut where a terminal is too narrow, the first one first, and the characters that stay of each.
_CUT_FIRST = {"SCHEDULE": 24, "RESULT": 28, "TASK": 16, "NAME": 16}

#: States that the head counts, with those that need attention last.
_COUNTED = ("disabled", "finished", "broken", "not sent")


@dataclass(frozen=True, kw_only=True)
class View:
    """How times are shown.

    Attributes:
        now: the time of the Redis server, or what takes its place.
        zone: the zone of the app.
        is_utc: whether all times are in UTC; else an entry's are in its own zone.
        width: characters of a line; None: as many as it takes.
        is_paused: whether the whole schedule is paused: what is due is held then, and not late.
    """

    now: datetime
    zone: tzinfo
    is_utc: bool = False
    width: int | None = None
    is_paused: bool = False

    def local(self, moment: datetime, zone: tzinfo) -> datetime:
        """Return an instant as local time of an entry's zone."""
        return moment.astimezone(self.zone if self.is_utc else zone)

    def now_in(self, zone: tzinfo) -> datetime:
        """Return the current time in an entry's zone."""
        return self.local(self.now, zone)


def head(found: Sequence[EntryView], view: View, total: int, *, is_led: bool) -> str:
    """Return the line above the table: the time and its zone, and how many entries there are.

    Arguments:
        found: the rows of the table.
        view: how times are shown.
        total: number of entries of the schedule.
        is_led: whether a beat leads; if none does, no entry runs.
    """
    local = view.now.astimezone(view.zone)
    clock = f"now {date_words(local).rpartition(' ')[0]} {local:%H:%M:%S} {zone_text(view.zone)}"
    states = Counter(entry.state_words for entry in found)
    number = f"{len(found):,} of {total:,} entries" if len(found) < total else _entries(max(total, len(found)))
    late = 0 if view.is_paused else sum(1 for entry in found if _lateness(entry, view) >= LATE)
    states["broken"] += sum(1 for entry in found if entry.declaration)  # as the status counts
    counts = [f"{states[state]:,} {state}" for state in _COUNTED if states[state]]
    results = Counter(entry.result.result for entry in found if entry.result)
    counts += [
        f"{results[result]:,} {result}" for result, facts in RESULTS.items() if facts.is_problem and results[result]
    ]
    notes = [*counts, *([f"{late:,} late"] if late else []), *([] if is_led else ["no beat leads"])]
    notes += ["the schedule is paused"] if view.is_paused else []
    return f"{clock}   {', '.join([number, *notes])}"


def table(found: Sequence[EntryView], view: View) -> list[str]:
    """Return the rows as aligned lines under a header."""
    has_results = any(entry.result is not None for entry in found)
    columns = [column for column in TERMINAL_COLUMNS if has_results or column.name != "result"]
    rows = [[_cell(column, entry, view) for column in columns] for entry in found]
    return aligned([[column.heading.upper() for column in columns], *rows], view.width)


def aligned(lines: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return lines of cells as aligned columns, cut to a width; the first line has the names of the columns."""
    cells = [[*(shown(cell, MOST_CELL) for cell in line[:-1]), shown(line[-1])] for line in lines]
    widths = [max(map(columns_of, column)) for column in zip(*cells)]
    if width is not None:
        widths = _narrowed(lines[0], widths, width)
    texts = ("  ".join(_fitted(cell, size) for cell, size in zip(line, widths)).rstrip() for line in cells)
    return [text if width is None else _cut(text, width) for text in texts]


def aligned_heads(heads: Sequence[Sequence[str]], texts: Iterable[str]) -> list[str]:
    """Return lines of aligned columns, each with a text behind it that is not cut as cells are."""
    lines = aligned([(*head, ".") for head in heads])
    return [f"{line[:-1]}{shown(text)}" for line, text in zip(lines, texts)]


def _entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _cell(column: Column, entry: EntryView, view: View) -> str:
    return (column.text(entry) if column.text else _OWN[column.name](entry, view)) or "-"


def _last(entry: EntryView, view: View) -> str:
    if entry.last_run_at is None:
        return ""
    return age_words(view.local(entry.last_run_at, entry.zone), view.now_in(entry.zone))


def _next(entry: EntryView, view: View) -> str:
    if entry.next is None:
        return ""
    local = view.local(entry.next, entry.zone)
    zone = "" if view.is_utc or entry.zone == view.zone else f" {local:%Z}"
    return f"{clock_words(local, view.now_in(entry.zone))}{zone}"


def _distance(entry: EntryView, view: View) -> str:
    if entry.next is None:
        return ""
    late = _lateness(entry, view)
    distance = duration_words(entry.next - view.now if entry.next > view.now else late)
    word = "" if late < DUE else " held" if view.is_paused else " late" if late >= LATE else " due"
    return f"{distance}{word}"


#: The cells that depend on the time and on how times are shown.
_OWN: Mapping[str, Callable[[EntryView, View], str]] = {"next": _next, "in": _distance, "last": _last}


def _lateness(entry: EntryView, view: View) -> timedelta:
    return timedelta() if entry.next is None else max(view.now - entry.next, timedelta())


def _narrowed(names: Sequence[str], widths: list[int], width: int) -> list[int]:
    """Return widths of columns that fit, as far as the columns that may be cut allow."""
    widths = list(widths)
    over = sum(widths) + 2 * (len(widths) - 1) - width
    for name, least in _CUT_FIRST.items():
        if over > 0 and name in names:
            place = names.index(name)
            cut = max(min(over, widths[place] - least), 0)
            widths[place] -= cut
            over -= cut
    return widths


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def beginning_of(text: str, columns: int) -> str:
    """Return as much of a text as fits into so many columns of a terminal."""
    if text.isascii():
        return text[: max(columns, 0)]
    widths = accumulate(map(columns_of, text))
    return "".join(char for char, width in zip(text, widths) if width <= columns)


def _fitted(text: str, size: int) -> str:
    text = _cut(text, size)
    return text + " " * (size - columns_of(text))


def _cut(text: str, size: int) -> str:
    return text if columns_of(text) <= size else f"{beginning_of(text, size - 3)}..."
