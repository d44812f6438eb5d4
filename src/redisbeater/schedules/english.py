"""English words for numbers, days, times and zones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, time, timezone, tzinfo
from itertools import pairwise

from redisbeater.schedules.crontab_text import DAYS, MONTHS
from redisbeater.schedules.zones import zone_name

_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth")


def every(number: int, unit: str) -> str:
    """Return ``every hour`` for 1, ``every 2 hours`` for 2."""
    return f"every {unit}" if number == 1 else f"every {number} {unit}s"


def join_words(texts: Sequence[str]) -> str:
    """Join texts as ``a``, ``a and b``, ``a, b and c``."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def span_text(groups: Iterable[Sequence[int]], name: Callable[[int], str] = str) -> str:
    """Return the names of numbers; three or more consecutive ones read ``first to last``."""
    texts: list[str] = []
    for group in groups:
        texts += [f"{name(group[0])} to {name(group[-1])}"] if len(group) > 2 else [name(value) for value in group]
    return join_words(texts)


def consecutive(values: Iterable[int]) -> list[list[int]]:
    """Return the numbers in order, in groups of consecutive ones."""
    found: list[list[int]] = []
    for value in sorted(values):
        if found and value == found[-1][-1] + 1:
            found[-1].append(value)
        else:
            found.append([value])
    return found


def step_of(values: Sequence[int]) -> int | None:
    """Return the distance between evenly spaced ascending numbers; None when there is no such distance."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def weekday_names(days: Collection[int]) -> str:
    """Return days by ISO number (Monday is 1) as ``Monday to Friday`` or ``Friday to Monday``."""
    return span_text(_joined_at_end(consecutive(days), 7), lambda day: DAYS[day % 7].capitalize())


def month_names(numbers: Collection[int]) -> str:
    """Return months as ``January and July`` or ``November to February``."""
    return span_text(_joined_at_end(consecutive(numbers), 12), _month)


def _month(number: int) -> str:
    return MONTHS[number - 1].capitalize()


def _joined_at_end(groups: list[list[int]], highest: int) -> list[list[int]]:
    """Join the last group and the first if 1 follows the highest number there, and they have three numbers or more."""
    first, last = groups[0], groups[-1]
    if first is last or first[0] != 1 or last[-1] != highest or len(first) + len(last) < 3:
        return groups
    return [*groups[1:-1], last + first]


def date_text(day: date) -> str:
    """Return a date as ``5 January 2026``."""
    return f"{day.day} {_month(day.month)} {day.year}"


def clock_text(moment: time) -> str:
    """Return a time as ``09:00``; with seconds only when they are not zero."""
    return moment.isoformat("auto" if moment.second or moment.microsecond else "minutes")


def ordinal(position: int) -> str:
    """Return a position as ``first`` or ``21st``; a negative one as ``last`` or ``second last``."""
    if position < 0:
        return "last" if position == -1 else f"{ordinal(-position)} last"
    if position < len(_ORDINALS):
        return _ORDINALS[position]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"{position}{'th' if position % 100 in (11, 12, 13) else ending}"


def zone_text(zone: str | tzinfo | None) -> str | None:
    """Return the name of a zone, else its offset as in ``UTC+02:00``."""
    if zone is None or isinstance(zone, str):
        return zone
    offset = zone.utcoffset(None)
    return zone_name(zone) or str(zone if offset is None else timezone(offset))


def unbracketed(text: str) -> str:
    """Return a repr on one line, without the angle brackets around it."""
    line = " ".join(text.split())
    return line[1:-1] if line.startswith("<") and line.endswith(">") else line
