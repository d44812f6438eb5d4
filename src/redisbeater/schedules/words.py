"""Numbers, days, times and zones as an English sentence has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, time, timezone, tzinfo
from itertools import pairwise

from redisbeater.schedules.crontab.field import DAYS, MONTHS
from redisbeater.schedules.datetime_codec import zone_name

__all__ = (
    "clock", "dated", "every", "listed", "months", "ordinal", "runs", "spanned", "step_of", "unbracketed",
    "weekdays", "zone_text",
)  # fmt: skip

_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth")


def every(number: int, unit: str) -> str:
    """``every hour``, ``every 2 hours``."""
    return f"every {unit}" if number == 1 else f"every {number} {unit}s"


def listed(texts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def spanned(groups: Iterable[Sequence[int]], name: Callable[[int], str] = str) -> str:
    """Numbers by name, three or more in a row as ``first to last``."""
    texts: list[str] = []
    for run in groups:
        texts += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else [name(value) for value in run]
    return listed(texts)


def runs(values: Iterable[int]) -> list[list[int]]:
    """Numbers in order, those that follow one another together."""
    found: list[list[int]] = []
    for value in sorted(values):
        if found and value == found[-1][-1] + 1:
            found[-1].append(value)
        else:
            found.append([value])
    return found


def step_of(values: Sequence[int]) -> int | None:
    """The one distance between ascending numbers; None when they have several, or none."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def weekdays(days: Collection[int]) -> str:
    """Days by ISO number, Monday is 1: ``Monday to Friday``, ``Friday to Monday``."""
    return spanned(_around(runs(days), 1, 7), lambda day: DAYS[day % 7].capitalize())


def months(numbers: Collection[int]) -> str:
    """``January and July``, ``November to February``."""
    return spanned(_around(runs(numbers), 1, 12), _month)


def _month(number: int) -> str:
    return MONTHS[number - 1].capitalize()


def _around(found: list[list[int]], low: int, high: int) -> list[list[int]]:
    """The last run and the first as one, where they meet around the end and are three or more."""
    first, last = found[0], found[-1]
    if first is last or first[0] != low or last[-1] != high or len(first) + len(last) < 3:
        return found
    return [*found[1:-1], last + first]


def dated(day: date) -> str:
    """``5 January 2026``."""
    return f"{day.day} {_month(day.month)} {day.year}"


def clock(moment: time) -> str:
    """``09:00``; with seconds only when there are some."""
    return moment.isoformat("auto" if moment.second or moment.microsecond else "minutes")


def ordinal(position: int) -> str:
    """``first``, ``21st``, and from the end ``last``, ``second last``."""
    if position < 0:
        return "last" if position == -1 else f"{ordinal(-position)} last"
    if position < len(_ORDINALS):
        return _ORDINALS[position]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"{position}{'th' if position % 100 in (11, 12, 13) else ending}"


def zone_text(zone: str | tzinfo | None) -> str | None:
    """The zone's name, else its offset as in ``UTC+02:00``."""
    if zone is None or isinstance(zone, str):
        return zone
    offset = zone.utcoffset(None)
    return zone_name(zone) or str(zone if offset is None else timezone(offset))


def unbracketed(text: str) -> str:
    """A repr on one line, without the angle brackets around it."""
    line = " ".join(text.split())
    return line[1:-1] if line.startswith("<") and line.endswith(">") else line
