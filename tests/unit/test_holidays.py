"""Calendars made of the package ``holidays``: ten countries and three markets, day by day over ten years."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import holidays
import pytest

from redisbeater import InvalidEntry, cron
from redisbeater.management.calendar_sources import Source, of_country, of_file, of_market, read_weekend, read_years
from redisbeater.schedules.limited import limited
from redisbeater.schedules.timetable import next_fire_time

YEARS, DAY = (2026, 2035), timedelta(days=1)
ALL_DAYS = [date(2026, 1, 1) + number * DAY for number in range((date(2036, 1, 1) - date(2026, 1, 1)).days)]

#: With weekends on other days, working Saturdays, parts of a country, and dates that follow the moon.
COUNTRIES = {
    "AT": None, "DE": "BY", "US": None, "GB": "ENG", "FR": None,
    "JP": None, "IL": None, "AE": None, "CN": None, "HU": None,
}  # fmt: skip


def fire_dates(source: Source, calendar: str = "c") -> list[date]:
    """The dates on which a daily cron fires, from before the calendar to behind it."""
    when = limited(cron("30 9 * * *"), calendar=calendar).on_days_of({"c": source.calendar})
    zone, found = ZoneInfo("Asia/Jerusalem"), list[date]()
    at = next_fire_time(when, zone, datetime(2025, 1, 1, tzinfo=timezone.utc))
    while at is not None:
        found.append(at.astimezone(zone).date())
        at = next_fire_time(when, zone, at)
    return found


@pytest.mark.parametrize("country", COUNTRIES)
def test_an_entry_fires_on_the_working_days_of_a_country(country: str) -> None:
    part = COUNTRIES[country]
    source = of_country("c", country, part, YEARS, None)
    known = holidays.country_holidays(country, subdiv=part, years=range(2026, 2036))

    working = [day for day in ALL_DAYS if known.is_working_day(day)]
    assert fire_dates(source) == working
    assert fire_dates(source, "!c") == sorted(set(ALL_DAYS) - set(working))
    assert {day for day in known if day.year in range(2026, 2036)} == set(
        map(date.fromisoformat, source.calendar.names)
    )


@pytest.mark.parametrize(("market", "closed"), [
    ("XNYS", ["2026-04-03", "2026-11-26", "2027-06-18"]),
    ("XETR", ["2026-04-03", "2026-04-06", "2026-05-01", "2026-12-24", "2026-12-31"]),
    ("XLON", ["2026-04-06", "2026-08-31", "2026-12-28"]),
])  # fmt: skip
def test_an_entry_fires_on_the_trading_days_of_a_market(market: str, closed: list[str]) -> None:
    source = of_market("c", market, YEARS, None)
    known = holidays.financial_holidays(market, years=range(2026, 2036))

    found = fire_dates(source)
    assert found == [day for day in ALL_DAYS if known.is_working_day(day)]
    assert not set(map(date.fromisoformat, closed)) & set(found)


def test_dates_that_are_estimated_are_numbered() -> None:
    assert of_country("c", "AE", None, (2030, 2031), None).estimated > 5
    assert of_country("c", "AT", None, YEARS, None).estimated == 0


def test_another_weekend_takes_the_place_of_that_of_the_country() -> None:
    source = of_country("c", "AT", None, (2026, 2026), read_weekend("fri"))

    found = set(fire_dates(source))
    assert date(2026, 10, 24) in found  # a Saturday
    assert date(2026, 10, 23) not in found
    assert date(2026, 10, 26) not in found


@pytest.mark.parametrize("text", ["", "2026-", "26", "2026-2025", "1899", "2200", "2000-2100", "2026-2027-2028"])
def test_years_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(InvalidEntry, match=r"\$\.years: expected"):
        read_years(text)


def test_a_file_has_at_most_five_thousand_names() -> None:
    lines = [f"{date(1950, 1, 1) + number * DAY} day" for number in range(5_001)]

    with pytest.raises(InvalidEntry, match="expected at most 5,000 days with names, got 5,001"):
        of_file("c", lines, (1950, 1970), None, counting=True, source="file")
