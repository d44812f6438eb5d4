"""``Moved``: which runs a change moves, and what it makes of the busiest minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from redisbeater.context import Context
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.edit_report import edit_fields
from redisbeater.management.entry_words import EntryWords
from redisbeater.management.long_read import long_read
from redisbeater.management.simulation import MOST_FIRE_TIMES, Peak, course_of_stored, read_stored
from redisbeater.times import EPOCH

#: An entry before and after a change; None: there is none, or it does not run.
Pair = tuple[StoredEntry | None, StoredEntry | None]


class Moved(NamedTuple):
    """What a change does to the runs between two instants.

    Attributes:
        start, end: the instants; the end is not part of it.
        moved: how many runs come at another second.
        vanish: how many do not come any more.
        more: how many come besides.
        before, after: the runs of all entries in each minute that has some, by its first UNIX second.
    """

    start: datetime
    end: datetime
    moved: int
    vanish: int
    more: int
    before: Mapping[int, int]
    after: Mapping[int, int]

    @property
    def peaks(self) -> tuple[Peak | None, Peak | None]:
        """The busiest minute before and after, or None where there is no run."""
        return _peak(self.before), _peak(self.after)

    @property
    def words(self) -> str:
        """The same in words: ``24 runs move, 0 vanish; busiest minute 53 -> 31``."""
        before, after = (peak.runs if peak else 0 for peak in self.peaks)
        counts = in_words(moved=self.moved, vanish=self.vanish, more=self.more)
        return f"{counts}; busiest minute {before:,} -> {after:,}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, without the minutes."""
        before, after = self.peaks
        numbers = {name: getattr(self, name) for name in ("moved", "vanish", "more")}
        return {**numbers, "busiest_minute": [before and [*before], after and [*after]]}


def in_words(*, moved: int, vanish: int, more: int) -> str:
    """Say how many runs a change moves: ``24 runs move, 0 vanish``."""
    move = "1 run moves" if moved == 1 else f"{moved:,} runs move"
    return f"{move}, {vanish:,} vanish" + (f", {more:,} come besides" if more else "")


@long_read
def moved_by(
    context: Context, pairs: Sequence[Pair], minutes: Mapping[int, int], start: datetime, end: datetime
) -> Moved:
    """Return the runs that a change moves: only the changed entries are simulated.

    Arguments:
        context: the app whose schedule it is.
        pairs: the changed entries.
        minutes: the runs of all entries in each minute, as they are now.
        start: from which instant on.
        end: up to which one.
    """
    old = Counter(second for before, _ in pairs for second in _seconds(context, before, start, end))
    new = Counter(second for _, after in pairs for second in _seconds(context, after, start, end))
    same, number_old, number_new = sum((old & new).values()), sum(old.values()), sum(new.values())
    after = Counter(minutes)
    for seconds, sign in ((old, -1), (new, 1)):
        for second, runs in seconds.items():
            after[second - second % 60] += sign * runs
    return Moved(
        start=start,
        end=end,
        moved=min(number_old, number_new) - same,
        vanish=max(number_old - number_new, 0),
        more=max(number_new - number_old, 0),
        before=minutes,
        after={minute: runs for minute, runs in after.items() if runs > 0},
    )


def moved_by_words(
    context: Context,
    changes: Mapping[str, Mapping[str, str]],
    per_second: Mapping[int, int],
    start: datetime,
    end: datetime,
) -> Moved:
    """Return the runs that changes move, which are as people write them: by name of an entry, a text for each field.

    Raises:
        EntryNotFound, InvalidEntry: a change cannot be applied.
    """
    pairs = []
    for name, texts in changes.items():
        fields: Any = EntryWords(context, texts, name).fields()
        pairs.append(edit_fields(context, name, dry_run=True, **fields).pair)
    minutes: Counter[int] = Counter()
    for second, runs in per_second.items():
        minutes[second - second % 60] += runs
    return moved_by(context, pairs, minutes, start, end)


@long_read
def moved_by_leaving(
    context: Context,
    names: Sequence[str],
    until: datetime | None,
    minutes: Mapping[int, int],
    start: datetime,
    end: datetime,
) -> Moved:
    """Return the runs that fall away if some entries do not run any more, or not until a time."""
    pairs: list[Pair] = []
    for stored in read_stored(context, names):
        later = replace(stored, definition=stored.definition._replace(disabled_until=until)) if until else None
        pairs.append((stored, later))
    return moved_by(context, pairs, minutes, start, end)


def _seconds(context: Context, stored: StoredEntry | None, start: datetime, end: datetime) -> Iterable[int]:
    course = None if stored is None else course_of_stored(context, stored)
    try:
        return () if course is None else list(course.seconds(start, end, MOST_FIRE_TIMES))
    except InvalidEntry:
        return ()


def _peak(minutes: Mapping[int, int]) -> Peak | None:
    if not minutes:
        return None
    minute, runs = min(minutes.items(), key=lambda item: (-item[1], item[0]))
    return Peak(EPOCH + timedelta(seconds=minute), runs) if runs else None
