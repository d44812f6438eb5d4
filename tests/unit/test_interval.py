from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import celery
import pytest
from celery import Celery
from celery.schedules import crontab, schedule
from hypothesis import given
from hypothesis import strategies as st
from moments import local, utc
from support.examples import examples

from redisbeater import clocked
from redisbeater.schedules.interval import every
from redisbeater.schedules.timetable import Timetable, next_fire_time

UTC = timezone.utc

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def following(interval: schedule, after: str, zone: str = "America/New_York", fold: int = 0) -> str:
    """Return the fire time after a local time, as local time with its offset."""
    info = ZoneInfo(zone)
    instant = utc(after).replace(tzinfo=info, fold=fold).astimezone(UTC)
    return local(next_fire_time(interval, info, instant), info)


# -- counted from the last fire time


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param("2026-10-31 12:00", "2026-11-01 11:00 -0500", id="repeated-hour"),
        pytest.param("2026-03-07 12:00", "2026-03-08 13:00 -0400", id="gap"),
        pytest.param("2026-06-10 12:00", "2026-06-11 12:00 -0400", id="day-without-a-shift"),
    ],
)
def test_24_hours_are_elapsed_time_across_a_shift(after: str, expected: str) -> None:
    assert following(schedule(DAY), after) == expected


@pytest.mark.parametrize(
    "run_every", [timedelta(seconds=0.1), 0.1, timedelta(microseconds=100_000)], ids=["seconds", "float", "timedelta"]
)
def test_an_interval_is_exact_to_the_microsecond(run_every: Any) -> None:
    fire_time = utc("2026-01-01 00:00:00.000007")
    for _ in range(1000):
        fire_time = next_fire_time(schedule(run_every), UTC, fire_time)

    assert fire_time == utc("2026-01-01 00:01:40.000007")


def test_the_shortest_interval_is_one_microsecond() -> None:
    assert next_fire_time(schedule(1e-6), UTC, utc("2026-01-01")) == utc("2026-01-01 00:00:00.000001")


@pytest.mark.parametrize("run_every", [90, 90.0, timedelta(seconds=90)], ids=["int", "float", "timedelta"])
def test_an_interval_may_be_set_in_seconds(run_every: Any) -> None:
    interval = schedule(1)
    interval.run_every = run_every

    assert every(interval) == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("schedule_", "expected"),
    [
        pytest.param(schedule(60), True, id="interval"),
        pytest.param(schedule(60, relative=True), False, id="relative"),
        pytest.param(schedule(1, relative=True), False, id="relative-second"),
        pytest.param(schedule(0.25, relative=True), True, id="relative-below-a-second"),
        pytest.param(crontab(), False, id="crontab"),
        pytest.param(clocked(datetime(2026, 1, 1)), False, id="clocked"),
    ],
)
def test_which_schedules_count_from_their_last_fire_time(schedule_: Any, expected: bool) -> None:
    assert (Timetable(schedule=schedule_, zone=UTC).period is not None) is expected


# -- missed ones, by arithmetic


@pytest.mark.parametrize(
    ("run_every", "first", "last", "newest", "number"),
    [
        pytest.param(60, "2026-06-10 11:58:30", "2026-06-10 12:00", "2026-06-10 11:59:30", 2, id="some"),
        pytest.param(60, "2026-06-10 11:59:30", "2026-06-10 12:00", "2026-06-10 11:59:30", 1, id="itself-only"),
        pytest.param(60, "2026-06-10 11:58", "2026-06-10 12:00", "2026-06-10 12:00", 3, id="the-last-is-included"),
        pytest.param(60, "2026-06-10 12:00", "2026-06-10 12:00", "2026-06-10 12:00", 1, id="one-instant"),
        pytest.param(0.1, "2026-06-10", "2026-06-11", "2026-06-11", 864_001, id="a-tenth-of-a-second-for-a-day"),
        pytest.param(1, "1996-06-10 00:00:00.5", "2026-06-10", "2026-06-09 23:59:59.5", 946_684_800, id="thirty-years"),
    ],
)
def test_fire_times_of_an_interval_between_two_instants(
    run_every: float, first: str, last: str, newest: str, number: int
) -> None:
    table = Timetable(schedule=schedule(run_every), zone=UTC)

    assert table.newest(utc(first), utc(last)) == utc(newest)
    assert table.count(utc(first), utc(last)).number == number


def test_an_interval_has_no_fire_time_before_it_starts() -> None:
    table = Timetable(schedule=schedule(60), zone=UTC)

    assert table.count(utc("2026-06-10 12:00"), utc("2026-06-10 11:59:59.999999")).number == 0


# -- relative

RELATIVE = [
    pytest.param(DAY, "2026-01-01 09:41:07", "2026-01-02 00:00 -0500", id="days-at-midnight"),
    pytest.param(2 * DAY, "2026-01-01 09:41:07", "2026-01-03 00:00 -0500", id="two-days-on"),
    pytest.param(1.5 * DAY, "2026-01-01 09:41:07", "2026-01-02 00:00 -0500", id="a-day-and-a-half-before-noon"),
    pytest.param(1.5 * DAY, "2026-01-01 12:00", "2026-01-03 00:00 -0500", id="a-day-and-a-half-after-noon"),
    pytest.param(2 * HOUR, "2026-01-01 09:41:07", "2026-01-01 11:00 -0500", id="hours-on-the-hour"),
    pytest.param(1.5 * HOUR, "2026-01-01 09:41:07", "2026-01-01 11:00 -0500", id="an-hour-and-a-half-on-the-hour"),
    pytest.param(HOUR / 12, "2026-01-01 09:41:07", "2026-01-01 09:46 -0500", id="minutes-on-the-minute"),
    pytest.param(DAY, "2026-03-08 00:00", "2026-03-09 00:00 -0400", id="the-day-of-a-gap-is-one-day"),
    pytest.param(DAY, "2026-11-01 00:00", "2026-11-02 00:00 -0500", id="the-day-of-a-repeated-hour-is-one-day"),
    pytest.param(HOUR, "2026-03-08 01:30", "2026-03-08 03:00 -0400", id="an-hour-into-a-gap"),
    pytest.param(2 * HOUR, "2026-03-08 01:30", "2026-03-08 04:00 -0400", id="two-elapsed-hours-across-a-gap"),
    pytest.param(HOUR, "2026-11-01 01:00", "2026-11-01 01:00 -0500", id="the-repeated-hour-has-its-own"),
    pytest.param(2 * HOUR, "2026-11-01 00:30", "2026-11-01 01:00 -0500", id="two-elapsed-hours-into-the-repeated-hour"),
]


@pytest.mark.parametrize(("run_every", "after", "expected"), RELATIVE)
def test_a_relative_interval_is_aligned_to_the_local_clock(run_every: timedelta, after: str, expected: str) -> None:
    assert following(schedule(run_every, relative=True), after) == expected


@pytest.mark.parametrize(
    ("run_every", "zone", "after", "fold", "expected"),
    [
        pytest.param(
            DAY, "America/Santiago", "2026-09-05 00:00", 0, "2026-09-06 01:00 -0300", id="midnight-in-a-gap-is-later"
        ),
        pytest.param(
            DAY, "America/Havana", "2026-10-31 00:00", 0, "2026-11-01 00:00 -0400", id="midnight-repeated-the-first"
        ),
        pytest.param(
            DAY, "America/Havana", "2026-11-01 00:00", 0, "2026-11-02 00:00 -0500", id="one-midnight-of-two-is-enough"
        ),
        pytest.param(
            DAY, "America/St_Johns", "2010-11-06 23:30", 1, "2010-11-07 00:00 -0330", id="the-midnight-still-to-come"
        ),
        pytest.param(
            DAY, "Pacific/Apia", "2011-12-29 00:00", 0, "2011-12-31 00:00 +1400", id="over-a-date-that-does-not-exist"
        ),
        pytest.param(
            HOUR, "Australia/Lord_Howe", "2026-10-04 01:15", 0, "2026-10-04 02:30 +1100", id="hour-in-a-half-hour-gap"
        ),
        pytest.param(
            HOUR, "Australia/Lord_Howe", "2026-04-05 01:15", 0, "2026-04-05 02:00 +1030", id="half-an-hour-put-back"
        ),
    ],
)
def test_a_relative_interval_around_other_shifts(
    run_every: timedelta, zone: str, after: str, fold: int, expected: str
) -> None:
    assert following(schedule(run_every, relative=True), after, zone, fold) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(5, "2026-01-01 09:41:12", id="whole-seconds"),
        pytest.param(1.5, "2026-01-01 09:41:08", id="a-second-and-a-half"),
        pytest.param(0.5, "2026-01-01 09:41:07.75", id="below-a-second-aligned-to-nothing"),
    ],
)
def test_a_short_relative_interval_is_aligned_to_seconds(seconds: float, expected: str) -> None:
    assert next_fire_time(schedule(seconds, relative=True), UTC, utc("2026-01-01 09:41:07.25")) == utc(expected)


#: A zone, and a date around which its clock shifts, if it does.
DAYS = {
    "utc": ("UTC", "2026-06-10"),
    "kathmandu": ("Asia/Kathmandu", "2026-06-10"),
    "new-york-gap": ("America/New_York", "2026-03-08"),
    "new-york-repeated": ("America/New_York", "2026-11-01"),
    "dublin-repeated": ("Europe/Dublin", "2026-10-25"),
    "santiago-gap": ("America/Santiago", "2026-09-06"),
    "santiago-repeated": ("America/Santiago", "2026-04-04"),
    "havana-repeated": ("America/Havana", "2026-11-01"),
    "st-johns-gap": ("America/St_Johns", "2010-03-14"),
    "st-johns-repeated": ("America/St_Johns", "2010-11-06"),
    "lord-howe-gap": ("Australia/Lord_Howe", "2026-10-04"),
    "lord-howe-repeated": ("Australia/Lord_Howe", "2026-04-05"),
    "chatham-repeated": ("Pacific/Chatham", "2026-04-05"),
    "troll-gap": ("Antarctica/Troll", "2026-03-29"),
    "troll-repeated": ("Antarctica/Troll", "2026-10-25"),
    "nuuk-gap": ("America/Nuuk", "2026-03-28"),
    "apia-no-date": ("Pacific/Apia", "2011-12-30"),
}

seconds_around = st.one_of(st.integers(-96, 96).map(lambda halves: halves * 1800), st.integers(-172_800, 172_800))
whole_periods = st.one_of(
    st.sampled_from([1, 60, 90, 300, 3600, 5400, 7200, 86_400, 172_800]),
    st.integers(1, 86_399),
    st.integers(86_400, 400_000),
).map(lambda seconds: timedelta(seconds=seconds))
periods = st.one_of(whole_periods, st.timedeltas(timedelta(microseconds=1), timedelta(days=3)))


def around(day: str, seconds: int, microseconds: int) -> datetime:
    return utc(f"{day} 12:00") + timedelta(seconds=seconds, microseconds=microseconds)


@pytest.mark.parametrize(("zone", "day"), DAYS.values(), ids=list(DAYS))
@examples(50)
@given(period=periods, seconds=seconds_around, microseconds=st.sampled_from([0, 1, 500_000]), relative=st.booleans())
def test_the_next_fire_time_is_always_later(
    zone: str, day: str, period: timedelta, seconds: int, microseconds: int, relative: bool
) -> None:
    after = around(day, seconds, microseconds)

    assert next_fire_time(schedule(period, relative=relative), ZoneInfo(zone), after) > after


#: Until 5.7 Celery takes every day for 24 hours, and adds hours to the clock: there it is right in UTC only.
ORACLE_DAYS = DAYS if celery.VERSION >= (5, 7) else {"utc": DAYS["utc"]}


@pytest.fixture(scope="module")
def celery_app() -> Celery:
    return Celery("oracle", set_as_current=False, broker="memory://")


@pytest.mark.parametrize(("zone", "day"), ORACLE_DAYS.values(), ids=list(ORACLE_DAYS))
@examples(100)
@given(period=whole_periods, seconds=seconds_around, microseconds=st.sampled_from([0, 1, 500_000]))
def test_a_relative_interval_fires_when_celery_would(
    celery_app: Celery, zone: str, day: str, period: timedelta, seconds: int, microseconds: int
) -> None:
    info, after = ZoneInfo(zone), around(day, seconds, microseconds)
    asked = schedule(period, relative=True, app=celery_app, nowfun=lambda: after.astimezone(info))

    assert next_fire_time(asked, info, after) == after + asked.remaining_estimate(after.astimezone(info))
