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


def day_text(day: date) -> str:
    """Return a date with its weekday, as ``Sunday 1 November 2026``."""
    return f"{DAYS[day.isoweekday() % 7].capitalize()} {date_text(day)}"


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


#: Up to this many times of the day are always named one by one.
_FEW = 3

#: Up to this many are named one by one if no interval describes them.
_SOME = 8

#: What a schedule does when the clocks change.
_FIXED = "fixed: once for each time of the day, also when the clocks change"
_BY_ELAPSED_TIME = "repeating: by elapsed time, also when the clocks change"
_BY_THE_CLOCK = "repeating: by the clock, so twice at a time that comes twice when the clocks change"


def kind_in_words(is_repeating: bool, hours: int) -> str:
    """Describe what a schedule does when the clocks change, by its class and its number of hours of the day."""
    if not is_repeating:
        return _FIXED
    return _BY_ELAPSED_TIME if hours == 24 else _BY_THE_CLOCK


def times_in_words(minutes: Sequence[int], hours: Sequence[int]) -> str:
    """Describe the times of the day in the shortest wording that is exact."""
    number = len(minutes) * len(hours)
    if len(hours) == 24:
        return _in_every_hour(minutes)
    if number > _FEW:
        by_interval = _by_hours(minutes, hours) or _by_minutes(minutes, hours)
        if by_interval:
            return by_interval
    if number <= _SOME:
        return f"at {join_words([clock_text(time(hour, minute)) for hour in hours for minute in minutes])}"
    return _in_some_hours(minutes, hours)


def dates_in_words(dates: Sequence[int]) -> str:
    """Describe days of the month by number."""
    return f"day {span_text(consecutive(dates))} of the month"


def days_in_words(
    weekdays: str, dates: str, months: Collection[int], *, is_listed: bool, even_dates: str | None = None
) -> str:
    """Describe the days, after a blank; return "" when every day matches and the sentence is clear without.

    Arguments:
        weekdays: the weekdays in words; "" when all match.
        dates: the days of the month in words; "" when all match.
        months: by number.
        is_listed: whether the times of the day are named one by one.
        even_dates: shorter words for the days of the month, if no weekday comes before them.
    """
    within = f" in {month_names(months)}" if len(months) < 12 else ""
    if weekdays:
        return f" on {weekdays}{within}" + (f", when it is {dates}" if dates else "")
    if dates:
        return f" on {even_dates or dates}{within}"
    return f"{' every day' if is_listed else ''}{within}"


def _in_every_hour(minutes: Sequence[int]) -> str:
    step = _whole_step(minutes)
    return every(step, "minute") if step and len(minutes) > 2 else f"{_past(minutes)} every hour"


def _by_hours(minutes: Sequence[int], hours: Sequence[int]) -> str | None:
    """Describe one minute of evenly spaced hours; None when the hours are not."""
    step = step_of(hours)
    if step is None or len(minutes) > 1:
        return None
    if hours[0] == 0 and hours[-1] + step == 24:
        return f"{every(step, 'hour')} at {minutes[0]:02} minutes past"
    return f"{every(step, 'hour')} {_from_to(time(hours[0], minutes[0]), time(hours[-1], minutes[0]))}"


def _by_minutes(minutes: Sequence[int], hours: Sequence[int]) -> str | None:
    """Describe an interval that divides the hour, in a few spans of hours; None when there is none."""
    step, spans = _whole_step(minutes), consecutive(hours)
    if step is None or len(spans) > _FEW or len(minutes) * len(hours) <= _FEW * len(spans):
        return None
    texts = [_from_to(time(span[0], minutes[0]), time(span[-1], minutes[-1])) for span in spans]
    return f"{every(step, 'minute')} {join_words(texts)}"


def _in_some_hours(minutes: Sequence[int], hours: Sequence[int]) -> str:
    within = f"the {'hour' if len(hours) == 1 else 'hours'} {span_text(consecutive(hours), _two_digits)}"
    step = _whole_step(minutes)
    return f"{every(step, 'minute')} during {within}" if step else f"{_past(minutes)} {within}"


def _whole_step(minutes: Sequence[int]) -> int | None:
    """Return the step of minutes that continue evenly into the next hour; else None."""
    step = step_of(minutes)
    return step if step and minutes[0] == 0 and minutes[-1] + step == 60 else None


def _past(minutes: Sequence[int]) -> str:
    step = step_of(minutes)
    if step and len(minutes) > _FEW:
        return f"{every(step, 'minute')} from :{minutes[0]:02} to :{minutes[-1]:02} of"
    return f"at {span_text(consecutive(minutes), _two_digits)} minutes past"


def _two_digits(value: int) -> str:
    return f"{value:02}"


def _from_to(first: time, last: time) -> str:
    return f"from {clock_text(first)} to {clock_text(last)}"


def even_dates_in_words(dates: Sequence[int]) -> str | None:
    """Describe days of the month by their step; None when they have none, or are few."""
    step = step_of(dates)
    if step in (None, 1) or len(dates) <= _SOME:
        return None
    return f"every {ordinal(step or 1)} day of the month from day {dates[0]} to {dates[-1]}"
