from __future__ import annotations

from datetime import date, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from moments import NEW_YORK, utc

from redisbeater.schedules.zones import shift_on, shifts_between, steady_offset

UTC = timezone.utc


@pytest.mark.parametrize(
    ("zone", "year", "expected"),
    [
        pytest.param("America/New_York", 2026, ["03-08 02:00 -> 03-08 03:00", "11-01 02:00 -> 11-01 01:00"], id="hour"),
        pytest.param(
            "Australia/Lord_Howe", 2026, ["04-05 02:00 -> 04-05 01:30", "10-04 02:00 -> 10-04 02:30"], id="half-an-hour"
        ),
        pytest.param("America/Nuuk", 2026, ["03-28 23:00 -> 03-29 00:00", "10-25 00:00 -> 10-24 23:00"], id="midnight"),
        pytest.param(
            "Africa/Casablanca", 2026, ["02-15 03:00 -> 02-15 02:00", "03-22 02:00 -> 03-22 03:00"], id="month"
        ),
        pytest.param("Pacific/Kwajalein", 1993, ["08-21 00:00 -> 08-22 00:00"], id="a-whole-date"),
        pytest.param("Asia/Kathmandu", 2026, [], id="none"),
    ],
)
def test_the_shifts_of_a_year(zone: str, year: int, expected: list[str]) -> None:
    found = shifts_between(utc(f"{year}-01-01"), utc(f"{year + 1}-01-01"), ZoneInfo(zone))

    assert [f"{shift.from_local:%m-%d %H:%M} -> {shift.to_local:%m-%d %H:%M}" for shift in found] == expected


def test_a_shift_is_found_to_the_second() -> None:
    # Until then Liberia was 44 minutes and 30 seconds behind.
    (shift,) = shifts_between(utc("1972-01-01 12:00:00.7"), utc("1972-02-01"), ZoneInfo("Africa/Monrovia"))

    assert shift.at == utc("1972-01-07 00:44:30")
    assert (shift.before, shift.after) == (-timedelta(minutes=44, seconds=30), timedelta())


@pytest.mark.parametrize(
    ("after", "until", "number"),
    [
        pytest.param("2026-03-08 06:59:59.999999", "2026-03-08 07:00", 1, id="the-last-instant-is-included"),
        pytest.param("2026-03-08 07:00", "2026-03-09", 0, id="the-first-is-not"),
        pytest.param("2026-03-09", "2026-03-08", 0, id="nothing-between-them"),
    ],
)
def test_shifts_are_later_than_one_instant_and_up_to_another(after: str, until: str, number: int) -> None:
    assert len(list(shifts_between(utc(after), utc(until), NEW_YORK))) == number


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        pytest.param("America/New_York", "2026-03-07", -5, id="before-a-gap"),
        pytest.param("America/New_York", "2026-03-08", None, id="with-a-gap"),
        pytest.param("America/New_York", "2026-03-09", -4, id="after-a-gap"),
        pytest.param("America/New_York", "2026-11-01", None, id="with-a-repeated-hour"),
        pytest.param("America/St_Johns", "2010-11-06", None, id="brought-back"),
        pytest.param("America/St_Johns", "2010-11-07", None, id="interrupted"),
        pytest.param("America/Nuuk", "2026-03-29", None, id="after-a-gap-until-midnight"),
        pytest.param("Pacific/Apia", "2011-12-30", None, id="that-does-not-exist"),
        pytest.param("UTC", "2026-11-01", 0, id="in-utc"),
    ],
)
def test_the_offset_of_a_future_date(zone: str, day: str, hours: int | None) -> None:
    expected = None if hours is None else timedelta(hours=hours)

    assert steady_offset(date.fromisoformat(day), ZoneInfo(zone), utc("2000-01-01")) == expected


@pytest.mark.parametrize(
    ("since", "hours"),
    [
        pytest.param("2026-11-01 05:59:59.999999", None, id="first-pass"),
        pytest.param("2026-11-01 06:00", None, id="second-pass"),
        pytest.param("2026-11-01 07:00:01", -5, id="after-the-repeated-hour"),
        pytest.param("2026-03-08 06:59:59.999999", None, id="before-the-gap"),
        pytest.param("2026-03-08 07:00:01", -4, id="after-the-gap"),
    ],
)
def test_the_offset_of_the_rest_of_a_date(since: str, hours: int | None) -> None:
    expected = None if hours is None else timedelta(hours=hours)

    assert steady_offset(utc(since).date(), NEW_YORK, utc(since)) == expected


@pytest.mark.parametrize("day", ["2010-11-06", "2010-11-07"])
def test_two_dates_may_share_a_shift(day: str) -> None:
    assert shift_on(date.fromisoformat(day), ZoneInfo("America/St_Johns")).at == utc("2010-11-07 02:31")


def test_a_fixed_offset_never_shifts() -> None:
    assert not list(shifts_between(utc("2000-01-01"), utc("2030-01-01"), UTC))


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        pytest.param(UTC, 0, id="utc"),
        pytest.param(timezone(timedelta(hours=5.5)), 5.5, id="an-offset"),
        pytest.param(ZoneInfo("UTC"), 0, id="utc-by-its-name"),
        pytest.param(ZoneInfo("Etc/GMT+5"), -5, id="an-offset-by-its-name"),
    ],
)
def test_a_zone_without_shifts_has_its_offset_on_each_date(zone: tzinfo, hours: float) -> None:
    assert steady_offset(date(2026, 11, 1), zone, utc("2026-11-01")) == timedelta(hours=hours)
