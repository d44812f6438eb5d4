"""The number of fire times of a crontab between two instants, and the local times of each."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, at, cron, utc
from shifts import around_shifts, fire_times_around, shifts, span
from support.examples import examples

from redisbeater.schedules.crontab import count, next_fire_time, nominal_times

UTC = timezone.utc
MICROSECOND = timedelta(microseconds=1)


# -- how many


@shifts
@examples(8, default=6)
@given(expression=around_shifts, data=st.data())
def test_counting_by_days_equals_counting_one_by_one(zone: str, day: str, expression: str, data: st.DataObject) -> None:
    info = ZoneInfo(zone)
    found = fire_times_around(expression, info, day)
    start, end = span(day)
    bounds = st.integers(1, int((end - start).total_seconds()) - 1).map(
        lambda seconds: start + timedelta(seconds=seconds)
    )
    if found:
        bounds |= st.sampled_from(found)
    first, last = sorted([data.draw(bounds), data.draw(bounds)])

    assert count(cron(expression), info, first, last) == sum(1 for fire_time in found if first <= fire_time <= last)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("* * * * *", 365 * 24 * 60, id="every-minute-of-real-time"),
        pytest.param("0 * * * *", 365 * 24, id="hourly"),
        pytest.param("0 9 * * *", 365, id="daily"),
        pytest.param("30 2 * * *", 365, id="daily-in-the-gap"),
        pytest.param("30 1 * * *", 365, id="daily-in-the-repeated-hour"),
        pytest.param("*/15 2 * * *", 364 * 4 + 1, id="four-times-a-day-once-in-the-gap"),
        pytest.param("*/15 1 * * *", 366 * 4, id="four-times-a-day-eight-in-the-repeated-hour"),
        pytest.param("0,30 2,3 * * *", 364 * 4 + 2, id="fixed-around-the-gap"),
        pytest.param("0 9 * * mon-fri", 261, id="working-days"),
        pytest.param("0 0 31 * *", 7, id="months-of-31-days"),
        pytest.param("0 0 29 2 *", 0, id="no-leap-day"),
    ],
)
def test_the_fire_times_of_a_year_in_new_york(expression: str, expected: int) -> None:
    assert count(cron(expression), NEW_YORK, at("2026-01-01"), at("2027-01-01") - MICROSECOND) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("0 12 * * *", 364, id="daily"),
        # What Samoa skipped in December is not owed; an hour was put forward in September and put back in April.
        pytest.param("* * * * *", 364 * 24 * 60, id="every-minute-of-real-time"),
        pytest.param("0 12 30 12 *", 0, id="only-on-the-date-that-is-missing"),
    ],
)
def test_the_fire_times_of_the_year_without_a_30th_of_december_in_samoa(expression: str, expected: int) -> None:
    samoa = ZoneInfo("Pacific/Apia")

    assert count(cron(expression), samoa, at("2011-01-01", samoa), at("2012-01-01", samoa) - MICROSECOND) == expected


def test_thirty_years_of_minutes_are_not_stepped_through() -> None:
    days = (utc("2026-06-10") - utc("1996-06-10")).days

    assert count(cron("* * * * *"), NEW_YORK, utc("1996-06-10"), utc("2026-06-10")) == days * 24 * 60 + 1


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        pytest.param("2026-01-01 09:00", "2026-01-02 09:00", 2, id="both-ends-included"),
        pytest.param("2026-01-01 09:00:00.000001", "2026-01-02 08:59:59.999999", 0, id="just-inside"),
        pytest.param("2026-01-01 08:59:59.999999", "2026-01-02 09:00:00.000001", 2, id="just-outside"),
        pytest.param("2026-01-01 09:00", "2026-01-01 09:00", 1, id="one-instant"),
        pytest.param("2026-01-02", "2026-01-01", 0, id="the-last-before-the-first"),
    ],
)
def test_both_bounds_are_included(first: str, last: str, expected: int) -> None:
    assert count(cron("0 9 * * *"), UTC, utc(first), utc(last)) == expected


# -- what a fire time stands for


@pytest.mark.parametrize(
    ("expression", "fire_time", "expected"),
    [
        pytest.param("30 2 * * *", "2026-03-08 07:00", ["02:30"], id="moved-out-of-the-gap"),
        pytest.param("0,30 2 * * *", "2026-03-08 07:00", ["02:00", "02:30"], id="two-moved-to-one-run"),
        pytest.param("0 2,3 * * *", "2026-03-08 07:00", ["02:00", "03:00"], id="moved-and-what-the-clock-shows"),
        pytest.param("30 2,3 * * *", "2026-03-08 07:30", ["03:30"], id="after-the-gap"),
        pytest.param("*/15 2 * * *", "2026-03-08 07:00", ["02:00", "02:15", "02:30", "02:45"], id="a-day-not-lost"),
        pytest.param("0 * * * *", "2026-03-08 07:00", ["03:00"], id="repeating-owes-nothing"),
        pytest.param("30 1 * * *", "2026-11-01 05:30", ["01:30"], id="first-pass"),
        pytest.param("30 1 * * *", "2026-11-01 06:30", [], id="second-pass-of-a-fixed-one-is-no-fire-time"),
        pytest.param("*/30 1 * * *", "2026-11-01 06:30", ["01:30"], id="second-pass-of-a-repeating-one"),
        pytest.param("0 9 * * *", "2026-06-10 13:00", ["09:00"], id="any-day"),
        pytest.param("0 9 * * *", "2026-06-10 13:00:00.000001", [], id="a-microsecond-later-is-no-fire-time"),
        pytest.param("0 9 * * mon", "2026-06-10 13:00", [], id="another-day-is-no-fire-time"),
    ],
)
def test_the_local_times_of_a_fire_time_in_new_york(expression: str, fire_time: str, expected: list[str]) -> None:
    times = nominal_times(cron(expression), NEW_YORK, utc(fire_time))

    assert [f"{local:%H:%M}" for local in times] == expected
    assert {local.date() for local in times} <= {utc(fire_time).date()}


@pytest.mark.parametrize(
    ("expression", "zone", "fire_time", "expected"),
    [
        pytest.param(
            "0 0,23 * * *",
            "America/Nuuk",
            "2026-03-29 01:00",
            [datetime(2026, 3, 28, 23), datetime(2026, 3, 29)],
            id="the-end-of-one-date-and-the-next",
        ),
        pytest.param(
            "*/30 23 * * *",
            "America/Nuuk",
            "2026-03-29 01:00",
            [datetime(2026, 3, 28, 23), datetime(2026, 3, 28, 23, 30)],
            id="a-day-not-lost-at-the-midnight-after-it",
        ),
        pytest.param(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03 15:30",
            [datetime(2026, 10, 4, 2, 15)],
            id="a-gap-of-half-an-hour",
        ),
        pytest.param(
            "0 0,12 * * *",
            "Pacific/Apia",
            "2011-12-30 10:00",
            [datetime(2011, 12, 31)],
            id="nothing-of-a-date-that-does-not-exist",
        ),
        pytest.param("0 12 * * *", "Pacific/Apia", "2011-12-30 10:00", [], id="its-noon-is-not-moved"),
    ],
)
def test_the_local_times_of_a_fire_time_elsewhere(
    expression: str, zone: str, fire_time: str, expected: list[datetime]
) -> None:
    assert nominal_times(cron(expression), ZoneInfo(zone), utc(fire_time)) == tuple(expected)


@shifts
@examples(6, default=3)
@given(expression=around_shifts, data=st.data())
def test_an_instant_that_is_not_a_fire_time_has_no_local_times(
    zone: str, day: str, expression: str, data: st.DataObject
) -> None:
    info, (start, end) = ZoneInfo(zone), span(day)
    minutes = int((end - start) / timedelta(minutes=1))
    instant = start + data.draw(st.integers(1, minutes)) * timedelta(minutes=1)

    is_fire_time = next_fire_time(cron(expression), info, instant - MICROSECOND) == instant
    assert bool(nominal_times(cron(expression), info, instant)) == is_fire_time
