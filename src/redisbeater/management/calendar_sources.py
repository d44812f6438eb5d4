"""Of what a calendar is made: the holidays of a country or a market, or a file with dates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

from redisbeater.display import quoted, shown
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry
from redisbeater.schedules.calendar import MOST_DAYS, Calendar, Days

#: How many days of a calendar have names, and how long one may be.
MOST_NAMES, MOST_NAME = 5_000, 64

#: Years that a calendar covers unless somebody says which.
USUAL_YEARS = 10

#: Saturday and Sunday, as Python numbers weekdays.
SATURDAY_AND_SUNDAY = frozenset((5, 6))

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_DAY = timedelta(days=1)


class Source(NamedTuple):
    """A calendar that was made, and how many of its dates are estimated."""

    calendar: Calendar
    estimated: int = 0


def read_years(text: str) -> tuple[int, int]:
    """Return the first and the last year of a text such as ``2026-2035`` or ``2026``.

    Raises:
        InvalidEntry: it is none.
    """
    match = re.fullmatch(r"(\d{4})(?:-(\d{4}))?", text, re.ASCII)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1900 <= first <= last <= 2199:
        raise InvalidEntry("$.years", f"expected years from 1900 to 2199, such as 2026-2035, got {quoted(text)}")
    if last - first > 99:
        raise InvalidEntry("$.years", f"expected a hundred years at most, got {quoted(text)}")
    return first, last


def read_weekend(text: str) -> frozenset[int]:
    """Return the weekdays of a text such as ``sat,sun``, as Python numbers them; ``none``: no day.

    Raises:
        InvalidEntry: one is none.
    """
    words = [] if text.strip() == "none" else [word.strip().lower()[:3] for word in text.split(",")]
    if wrong := [word for word in words if word not in _WEEKDAYS]:
        raise InvalidEntry("$.weekend", f"expected weekdays such as sat,sun, or none, got {quoted(wrong[0])}")
    return frozenset(map(_WEEKDAYS.index, words))


def of_country(
    name: str, country: str, subdivision: str | None, years: tuple[int, int], weekend: frozenset[int] | None
) -> Source:
    """Return the working days of a country, or of a part of it.

    Raises:
        InvalidEntry: the package ``holidays`` does not know it.
        ImproperlyConfigured: that package is not installed.
    """
    holidays = _package()
    supported = holidays.list_supported_countries(include_aliases=True)
    if country not in supported:
        raise InvalidEntry(
            "$.country", f"expected a code that the package holidays knows, such as AT, got {quoted(country)}"
        )
    if subdivision is not None and subdivision not in {*supported[country], *_aliases(holidays, country)}:
        known = ", ".join(supported[country]) or "it has none"
        raise InvalidEntry("$.subdivision", f"{country} has no {quoted(subdivision)}: {shown(known, 400)}")
    make = holidays.country_holidays
    source = f"country {country}{f' {subdivision}' if subdivision else ''}"
    return _made(name, source, years, weekend, lambda **more: make(country, subdiv=subdivision, **more))


def of_market(name: str, market: str, years: tuple[int, int], weekend: frozenset[int] | None) -> Source:
    """Return the trading days of a market.

    Raises:
        InvalidEntry: the package ``holidays`` does not know it.
        ImproperlyConfigured: that package is not installed.
    """
    holidays = _package()
    known = holidays.list_supported_financial(include_aliases=True)
    if market not in known:
        raise InvalidEntry(
            "$.market", f"expected a code such as XNYS: {', '.join(sorted(known))}; got {quoted(market)}"
        )
    make = holidays.financial_holidays
    return _made(name, f"market {market}", years, weekend, lambda **more: make(market, **more))


def of_file(
    name: str,
    lines: Iterable[str],
    years: tuple[int, int],
    weekend: frozenset[int] | None,
    *,
    counting: bool,
    source: str,
) -> Source:
    """Return the calendar of a file: a date a line, behind it its name; blank lines and those with ``#`` mean nothing.

    With ``counting`` these days count, and no others; else all count but these and those of the weekend.

    Raises:
        InvalidEntry: a line has no date, or one outside of the years.
    """
    named: dict[date, str] = {}
    for number, line in enumerate(lines, 1):
        text, _, words = line.strip().partition(" ")
        if not text or text.startswith("#"):
            continue
        try:
            day = date.fromisoformat(text.rstrip(",;"))
        except ValueError:
            problem = f"line {number}: expected a date such as 2026-10-26 and its name, got {quoted(line.strip())}"
            raise InvalidEntry("$.file", problem) from None
        if not years[0] <= day.year <= years[1]:
            covered = f"{years[0]}-{years[1]}"
            raise InvalidEntry("$.file", f"line {number}: {day} is not within {covered}; say --years, or leave it out")
        named[day] = words.strip()
    off = weekend if weekend is not None else frozenset() if counting else SATURDAY_AND_SUNDAY
    days = _days(years, lambda day: (day in named) == counting and day.weekday() not in off)
    return Source(Calendar(name=name, days=days, names=_names(named), source=source))


def _package() -> Any:
    try:
        import holidays
    except ImportError as exc:
        problem = "countries and markets need the package holidays: pip install 'redisbeater[calendars]'; or use --file"
        raise ImproperlyConfigured(problem) from exc
    return holidays


def _aliases(holidays: Any, country: str) -> Iterable[str]:
    return getattr(holidays.country_holidays(country), "subdivisions_aliases", {})


def _made(
    name: str,
    source: str,
    years: tuple[int, int],
    weekend: frozenset[int] | None,
    make: Callable[..., Any],
) -> Source:
    found = make()
    languages = getattr(found, "supported_languages", ())
    # Their default follows the locale of the process.
    language = next((each for each in ("en_US", "en_GB") if each in languages), found.default_language)
    found = make(language=language, years=range(years[0], years[1] + 1))
    if weekend is None:
        days = _days(years, found.is_working_day)
    else:
        days = _days(years, lambda day: day in found.weekend_workdays or not (day in found or day.weekday() in weekend))
    named = {day: text for day, text in found.items() if years[0] <= day.year <= years[1]}
    estimated = sum("estimated" in text for text in named.values())
    return Source(Calendar(name=name, days=days, names=_names(named), source=source), estimated)


def _days(years: tuple[int, int], counts: Callable[[date], bool]) -> Days:
    first, last = date(years[0], 1, 1), date(years[1], 12, 31)
    length = (last - first) // _DAY + 1
    assert length <= MOST_DAYS, "a hundred years"
    return Days(first, length, sum(1 << place for place in range(length) if counts(first + place * _DAY)))


def _names(named: Mapping[date, str]) -> dict[str, str]:
    if len(named) > MOST_NAMES:
        raise InvalidEntry("$.file", f"expected at most {MOST_NAMES:,} days with names, got {len(named):,}")
    return {day.isoformat(): text[:MOST_NAME] for day, text in sorted(named.items()) if text}
