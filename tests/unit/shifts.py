"""Dates on which the clock of a zone shifts, and crontabs to try there; for the properties of the crontab engine."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from hypothesis import strategies as st
from moments import cron, sequence, utc

from redisbeater.schedules.crontab import next_fire_time

#: A zone, and a date on which or at whose end it shifts, if it does.
SHIFTS = {
    "new-york-gap": ("America/New_York", "2026-03-08"),
    "new-york-repeated": ("America/New_York", "2026-11-01"),
    "berlin-gap": ("Europe/Berlin", "2026-03-29"),
    "berlin-repeated": ("Europe/Berlin", "2026-10-25"),
    "london-gap": ("Europe/London", "2026-03-29"),
    "london-repeated": ("Europe/London", "2026-10-25"),
    "dublin-gap": ("Europe/Dublin", "2026-03-29"),
    "dublin-repeated": ("Europe/Dublin", "2026-10-25"),
    "santiago-gap-at-midnight": ("America/Santiago", "2026-09-06"),
    "santiago-repeated-until-midnight": ("America/Santiago", "2026-04-04"),
    "lord-howe-gap-of-half-an-hour": ("Australia/Lord_Howe", "2026-10-04"),
    "lord-howe-repeated-half-hour": ("Australia/Lord_Howe", "2026-04-05"),
    "casablanca-gap": ("Africa/Casablanca", "2026-03-22"),
    "casablanca-repeated": ("Africa/Casablanca", "2026-02-15"),
    "apia-no-date": ("Pacific/Apia", "2011-12-30"),
    "sao-paulo-gap-at-midnight": ("America/Sao_Paulo", "2018-11-04"),
    "sao-paulo-repeated-until-midnight": ("America/Sao_Paulo", "2018-02-17"),
    "troll-gap-of-two-hours": ("Antarctica/Troll", "2026-03-29"),
    "troll-two-hours-repeated": ("Antarctica/Troll", "2026-10-25"),
    "chatham-gap": ("Pacific/Chatham", "2026-09-27"),
    "chatham-repeated": ("Pacific/Chatham", "2026-04-05"),
    "tehran-gap-at-midnight": ("Asia/Tehran", "2022-03-22"),
    "tehran-repeated-until-midnight": ("Asia/Tehran", "2022-09-21"),
    "gaza-gap": ("Asia/Gaza", "2026-03-28"),
    "gaza-gap-at-midnight": ("Asia/Gaza", "2014-03-28"),
    "kathmandu-none": ("Asia/Kathmandu", "2026-03-28"),
    # The one more: until 2011 its clock was shifted one minute after midnight.
    "st-johns-gap-at-one-past-midnight": ("America/St_Johns", "2010-03-14"),
    "st-johns-midnight-repeated": ("America/St_Johns", "2010-11-06"),
    "st-johns-two-hours-across-midnight": ("America/St_Johns", "1988-10-29"),
    # And the other ways to shift at midnight.
    "nuuk-gap-until-midnight": ("America/Nuuk", "2026-03-28"),
    "nuuk-repeated-until-midnight": ("America/Nuuk", "2026-10-24"),
    "havana-midnight-repeated": ("America/Havana", "2026-11-01"),
    "cairo-gap-at-midnight": ("Africa/Cairo", "2026-04-24"),
    "cairo-repeated-until-midnight": ("Africa/Cairo", "2026-10-29"),
    "beirut-gap-at-midnight": ("Asia/Beirut", "2026-03-29"),
    "amman-midnight-repeated": ("Asia/Amman", "2021-10-29"),
    "asuncion-gap-at-midnight": ("America/Asuncion", "2023-10-01"),
    "vostok-seven-hours-repeated": ("Antarctica/Vostok", "1994-01-31"),
}
shifts = pytest.mark.parametrize(("zone", "day"), SHIFTS.values(), ids=list(SHIFTS))

#: The times around which shifts happen, and others.
_hours = st.one_of(st.sampled_from([0, 1, 2, 3, 22, 23]), st.integers(0, 23))
_minutes = st.one_of(st.sampled_from([0, 1, 30, 59]), st.integers(0, 59))


def _list_of(values: st.SearchStrategy[int], longest: int) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=longest, unique=True).map(lambda drawn: ",".join(map(str, drawn)))


#: Minute and hour of at most twelve slots a date, so that all slots of a few dates can be checked.
_fixed = st.tuples(_list_of(_minutes, 2), _list_of(_hours, 6)).map(" ".join)
_repeating = st.one_of(
    st.sampled_from(["0 *", "*/20 *", "59 *", "30 */3", "0 0-23"]),
    st.tuples(st.sampled_from(["*/15", "5-50/45"]), _list_of(_hours, 2)).map(" ".join),
)
_every_day = st.just("*")
#: One date matches, and the one before or after it does not.
_some_days = st.sampled_from(["*/2", "2-31/2", "1-28", "6", "7", "29", "30"])


def _crontabs(times: st.SearchStrategy[str], days: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(times, days).map(lambda drawn: f"{drawn[0]} {drawn[1]} * *")


fixed = _crontabs(_fixed, _every_day)
repeating = _crontabs(_repeating, _every_day)
around_shifts = _crontabs(st.one_of(_fixed, _repeating), st.one_of(_every_day, _some_days))


def span(day: str) -> tuple[datetime, datetime]:
    """Return two instants, four days apart, with the shift of a date between them, a day or more from both."""
    middle = utc(f"{day} 12:00")
    return middle - timedelta(days=2), middle + timedelta(days=2)


def fire_times_around(expression: str, zone: ZoneInfo, day: str) -> list[datetime]:
    """Return the fire times between two instants, found one after the other."""
    start, end = span(day)
    return sequence(partial(next_fire_time, cron(expression), zone), start, end)


def dates_around(zone: ZoneInfo, day: str, hours: int) -> list[date]:
    """Return the local dates that exist, from some hours before noon UTC of a date until as many after it."""
    middle = utc(f"{day} 12:00")
    return sorted({(middle + timedelta(hours=hour)).astimezone(zone).date() for hour in range(-hours, hours + 1)})
