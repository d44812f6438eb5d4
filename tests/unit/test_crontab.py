from __future__ import annotations

from datetime import timedelta, timezone
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab
from moments import at, cron, local, sequence, utc

from redisbeater.schedules.crontab import is_repeating, next_fire_time

UTC = timezone.utc


def fire_times(expression: str, zone: str, start: str, end: str) -> list[str]:
    """Return the fire times between two naive local times (text), as local time with offset."""
    info = ZoneInfo(zone)
    following = partial(next_fire_time, cron(expression), info)
    instants = sequence(following, at(start, info) - timedelta(microseconds=1), at(end, info))
    return [local(instant, info) for instant in instants]


# -- what RedBeat does wrong, with an app in New York on the day of the repeated hour


def test_daily_noon_is_at_noon_on_the_day_of_a_shift() -> None:
    assert fire_times("0 12 * * *", "America/New_York", "2026-10-31 00:00", "2026-11-03 00:00") == [
        "2026-10-31 12:00 -0400",
        "2026-11-01 12:00 -0500",
        "2026-11-02 12:00 -0500",
    ]


@pytest.mark.parametrize("date", ["2026-03-08", "2026-11-01"], ids=["gap", "repeated-hour"])
@pytest.mark.parametrize("minutes", [5, 10])
def test_every_few_minutes_is_never_silent_across_a_shift(date: str, minutes: int) -> None:
    following = partial(next_fire_time, cron(f"*/{minutes} * * * *"), ZoneInfo("America/New_York"))
    start = at(f"{date} 00:00")

    instants = sequence(following, start, start + timedelta(hours=6))

    assert instants == [start + k * timedelta(minutes=minutes) for k in range(1, 6 * 60 // minutes)]


# -- gaps and repeated times


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("30 2 * * *", ["03:00 -0400"], id="fixed-once-when-the-gap-ends"),
        pytest.param("0,30 2 * * *", ["03:00 -0400"], id="fixed-two-slots-in-the-gap-are-one-run"),
        pytest.param("0 2,3 * * *", ["03:00 -0400"], id="fixed-slot-in-the-gap-and-at-its-end-are-one-run"),
        pytest.param("30 1,2,3 * * *", ["01:30 -0500", "03:00 -0400", "03:30 -0400"], id="fixed-around-the-gap"),
        pytest.param("0 0,5 * * *", ["00:00 -0500", "05:00 -0400"], id="fixed-outside-the-gap"),
        pytest.param("*/15 2 * * *", ["03:00 -0400"], id="repeating-all-slots-vanish-one-run"),
        pytest.param("30 */2 * * *", ["00:30 -0500", "04:30 -0400"], id="repeating-slot-in-the-gap-is-not-owed"),
        pytest.param("0 */2 * * *", ["00:00 -0500", "04:00 -0400"], id="every-other-hour-skips-the-gap"),
        pytest.param(
            "0 * * * *",
            ["00:00 -0500", "01:00 -0500", "03:00 -0400", "04:00 -0400", "05:00 -0400"],
            id="hourly-is-one-real-hour",
        ),
    ],
)
def test_a_time_in_a_gap_in_new_york_fires_when_the_gap_ends(expression: str, expected: list[str]) -> None:
    found = fire_times(expression, "America/New_York", "2026-03-08 00:00", "2026-03-08 06:00")

    assert found == [f"2026-03-08 {time}" for time in expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("30 1 * * *", ["01:30 -0400"], id="fixed-first-pass-only"),
        pytest.param("0,30 1 * * *", ["01:00 -0400", "01:30 -0400"], id="fixed-two-slots-first-pass-only"),
        pytest.param(
            "0 1-5 * * *",
            ["01:00 -0400", "02:00 -0500", "03:00 -0500", "04:00 -0500", "05:00 -0500"],
            id="fixed-range-of-hours-first-pass-only",
        ),
        pytest.param(
            "0 * * * *",
            [f"0{hour}:00 {offset}" for hour, offset in ((0, "-0400"), (1, "-0400"), (1, "-0500"), (2, "-0500"))]
            + [f"0{hour}:00 -0500" for hour in (3, 4, 5)],
            id="hourly-both-passes",
        ),
        pytest.param(
            "0 0-23 * * *",
            [f"0{hour}:00 {offset}" for hour, offset in ((0, "-0400"), (1, "-0400"), (1, "-0500"), (2, "-0500"))]
            + [f"0{hour}:00 -0500" for hour in (3, 4, 5)],
            id="all-hours-both-passes",
        ),
        pytest.param(
            "*/15 1 * * *",
            [f"01:{minute:02} {offset}" for offset in ("-0400", "-0500") for minute in (0, 15, 30, 45)],
            id="steps-in-the-repeated-hour-both-passes",
        ),
    ],
)
def test_fire_times_in_the_repeated_hour_of_new_york(expression: str, expected: list[str]) -> None:
    found = fire_times(expression, "America/New_York", "2026-11-01 00:00", "2026-11-01 06:00")

    assert found == [f"2026-11-01 {time}" for time in expected]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "end", "expected"),
    [
        pytest.param(
            "0 0 * * *",
            "America/Santiago",
            "2026-09-05 00:00",
            "2026-09-07 12:00",
            ["2026-09-05 00:00 -0400", "2026-09-06 01:00 -0300", "2026-09-07 00:00 -0300"],
            id="gap-at-midnight",
        ),
        pytest.param(
            "30 23 * * *",
            "America/Santiago",
            "2026-04-04 00:00",
            "2026-04-05 12:00",
            ["2026-04-04 23:30 -0300"],
            id="repeated-hour-before-midnight-fixed",
        ),
        pytest.param(
            "30 * * * *",
            "America/Santiago",
            "2026-04-04 22:00",
            "2026-04-05 01:00",
            ["2026-04-04 22:30 -0300", "2026-04-04 23:30 -0300", "2026-04-04 23:30 -0400", "2026-04-05 00:30 -0400"],
            id="repeated-hour-before-midnight-repeating",
        ),
        pytest.param(
            "0 0 * * *",
            "America/Havana",
            "2026-10-31 12:00",
            "2026-11-02 12:00",
            ["2026-11-01 00:00 -0400", "2026-11-02 00:00 -0500"],
            id="midnight-repeated-fixed",
        ),
        pytest.param(
            "0 * * * *",
            "America/Havana",
            "2026-10-31 23:00",
            "2026-11-01 02:00",
            ["2026-10-31 23:00 -0400", "2026-11-01 00:00 -0400", "2026-11-01 00:00 -0500", "2026-11-01 01:00 -0500"],
            id="midnight-repeated-repeating",
        ),
        pytest.param(
            "30 23 * * *",
            "America/Nuuk",
            "2026-03-27 00:00",
            "2026-03-30 00:00",
            ["2026-03-27 23:30 -0200", "2026-03-29 00:00 -0100", "2026-03-29 23:30 -0100"],
            id="gap-until-midnight-fixed-loses-no-day",
        ),
        pytest.param(
            "*/15 23 28 * *",
            "America/Nuuk",
            "2026-03-01 00:00",
            "2026-04-01 00:00",
            ["2026-03-29 00:00 -0100"],
            id="gap-until-midnight-repeating-loses-no-day",
        ),
        pytest.param(
            "30 0,23 * * *",
            "America/Nuuk",
            "2026-03-28 12:00",
            "2026-03-29 12:00",
            ["2026-03-29 00:00 -0100", "2026-03-29 00:30 -0100"],
            id="gap-until-midnight-goes-on-the-next-day",
        ),
        pytest.param(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-04 00:00",
            "2026-10-05 12:00",
            ["2026-10-04 02:30 +1100", "2026-10-05 02:15 +1100"],
            id="half-hour-gap-fixed",
        ),
        pytest.param(
            "*/15 * * * *",
            "Australia/Lord_Howe",
            "2026-10-04 01:30",
            "2026-10-04 03:00",
            [
                "2026-10-04 01:30 +1030",
                "2026-10-04 01:45 +1030",
                "2026-10-04 02:30 +1100",
                "2026-10-04 02:45 +1100",
            ],
            id="half-hour-gap-repeating",
        ),
        pytest.param(
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-05 00:00",
            "2026-04-06 00:00",
            ["2026-04-05 01:45 +1100"],
            id="half-hour-repeated-fixed",
        ),
        pytest.param(
            "*/15 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-05 00:00",
            "2026-04-06 00:00",
            [
                "2026-04-05 01:00 +1100",
                "2026-04-05 01:15 +1100",
                "2026-04-05 01:30 +1100",
                "2026-04-05 01:45 +1100",
                "2026-04-05 01:30 +1030",
                "2026-04-05 01:45 +1030",
            ],
            id="half-hour-repeated-repeating",
        ),
        pytest.param(
            "30 1,2 * * *",
            "Antarctica/Troll",
            "2026-03-29 00:00",
            "2026-03-30 00:00",
            ["2026-03-29 03:00 +0200"],
            id="two-hour-gap-fixed",
        ),
        pytest.param(
            "0 * * * *",
            "Antarctica/Troll",
            "2026-03-29 00:00",
            "2026-03-29 05:00",
            ["2026-03-29 00:00 +0000", "2026-03-29 03:00 +0200", "2026-03-29 04:00 +0200"],
            id="two-hour-gap-repeating",
        ),
        pytest.param(
            "30 1,2 * * *",
            "Antarctica/Troll",
            "2026-10-25 00:00",
            "2026-10-26 00:00",
            ["2026-10-25 01:30 +0200", "2026-10-25 02:30 +0200"],
            id="two-hours-repeated-fixed",
        ),
        pytest.param(
            "30 * * * *",
            "Antarctica/Troll",
            "2026-10-25 00:00",
            "2026-10-25 04:00",
            [
                "2026-10-25 00:30 +0200",
                "2026-10-25 01:30 +0200",
                "2026-10-25 02:30 +0200",
                "2026-10-25 01:30 +0000",
                "2026-10-25 02:30 +0000",
                "2026-10-25 03:30 +0000",
            ],
            id="two-hours-repeated-repeating",
        ),
        pytest.param(
            "30 1 * * *",
            "Europe/Dublin",
            "2026-03-29 00:00",
            "2026-03-30 00:00",
            ["2026-03-29 02:00 +0100"],
            id="negative-dst-gap",
        ),
        pytest.param(
            "30 1 * * *",
            "Europe/Dublin",
            "2026-10-25 00:00",
            "2026-10-26 00:00",
            ["2026-10-25 01:30 +0100"],
            id="negative-dst-repeated-fixed",
        ),
        pytest.param(
            "30 */1 * * *",
            "Europe/Dublin",
            "2026-10-25 01:00",
            "2026-10-25 02:00",
            ["2026-10-25 01:30 +0100", "2026-10-25 01:30 +0000"],
            id="negative-dst-repeated-repeating",
        ),
        pytest.param(
            "30 2 * * *",
            "Africa/Casablanca",
            "2026-02-15 00:00",
            "2026-02-16 00:00",
            ["2026-02-15 02:30 +0100"],
            id="ramadan-begins-fixed",
        ),
        pytest.param(
            "*/30 2 * * *",
            "Africa/Casablanca",
            "2026-02-15 00:00",
            "2026-02-16 00:00",
            [
                "2026-02-15 02:00 +0100",
                "2026-02-15 02:30 +0100",
                "2026-02-15 02:00 +0000",
                "2026-02-15 02:30 +0000",
            ],
            id="ramadan-begins-repeating",
        ),
        pytest.param(
            "30 2 * * *",
            "Africa/Casablanca",
            "2026-03-22 00:00",
            "2026-03-23 00:00",
            ["2026-03-22 03:00 +0100"],
            id="ramadan-ends",
        ),
        pytest.param(
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29 00:00",
            "2012-01-01 00:00",
            ["2011-12-29 12:00 -1000", "2011-12-31 12:00 +1400"],
            id="date-that-does-not-exist-fixed",
        ),
        pytest.param(
            "0 */12 * * *",
            "Pacific/Apia",
            "2011-12-29 00:00",
            "2012-01-01 00:00",
            ["2011-12-29 00:00 -1000", "2011-12-29 12:00 -1000", "2011-12-31 00:00 +1400", "2011-12-31 12:00 +1400"],
            id="date-that-does-not-exist-repeating",
        ),
        pytest.param(
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-01-01 00:00",
            "2013-01-01 00:00",
            ["2012-12-30 12:00 +1400"],
            id="only-on-a-date-that-does-not-exist-waits-a-year",
        ),
        pytest.param(
            "0 0 * * *",
            "Asia/Kathmandu",
            "2026-05-01 00:00",
            "2026-05-03 00:00",
            ["2026-05-01 00:00 +0545", "2026-05-02 00:00 +0545"],
            id="offset-of-odd-minutes",
        ),
    ],
)
def test_fire_times_around_shifts_of_other_zones(
    expression: str, zone: str, start: str, end: str, expected: list[str]
) -> None:
    assert fire_times(expression, zone, start, end) == expected


@pytest.mark.parametrize(
    ("zone", "date", "expected"),
    [
        pytest.param("Africa/Cairo", "2026-04-24", "01:00 +0300", id="cairo"),
        pytest.param("Asia/Beirut", "2026-03-29", "01:00 +0300", id="beirut"),
        pytest.param("Asia/Gaza", "2014-03-28", "01:00 +0300", id="gaza"),
        pytest.param("Asia/Amman", "2021-03-26", "01:00 +0300", id="amman"),
        pytest.param("America/Havana", "2026-03-08", "01:00 -0400", id="havana"),
        pytest.param("America/Asuncion", "2023-10-01", "01:00 -0300", id="asuncion"),
        pytest.param("America/St_Johns", "2010-03-14", "00:00 -0330", id="st-johns-one-minute-later"),
    ],
)
@pytest.mark.parametrize("expression", ["0 0 * * *", "*/30 0 * * *"], ids=["fixed", "repeating"])
def test_midnight_in_a_gap_keeps_its_date(zone: str, date: str, expected: str, expression: str) -> None:
    assert fire_times(expression, zone, f"{date} 00:00", f"{date} 12:00") == [f"{date} {expected}"]


@pytest.mark.parametrize(
    ("zone", "before", "date", "offsets"),
    [
        pytest.param("Africa/Cairo", "2026-10-29", "2026-10-30", ("+0300", "+0200"), id="cairo"),
        pytest.param("Asia/Beirut", "2026-10-24", "2026-10-25", ("+0300", "+0200"), id="beirut"),
        pytest.param("Asia/Gaza", "2014-10-23", "2014-10-24", ("+0300", "+0200"), id="gaza"),
        pytest.param("Asia/Amman", "2013-12-19", "2013-12-20", ("+0300", "+0200"), id="amman"),
        pytest.param("America/Asuncion", "2024-03-23", "2024-03-24", ("-0300", "-0400"), id="asuncion"),
    ],
)
def test_a_repeated_hour_before_midnight(zone: str, before: str, date: str, offsets: tuple[str, str]) -> None:
    hour = partial(fire_times, zone=zone, start=f"{before} 12:00", end=f"{date} 12:00")

    assert hour("30 23 * * *") == [f"{before} 23:30 {offsets[0]}"]
    assert hour("0 0 * * *") == [f"{date} 00:00 {offsets[1]}"]
    assert hour("30 0-23/23 * * *") == [f"{before} 23:30 {offset}" for offset in offsets] + [
        f"{date} 00:30 {offsets[1]}"
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(
            "0,30 23,0 * * *", ["06 23:00 -0230", "06 23:30 -0230", "07 00:00 -0230", "07 00:30 -0330"], id="fixed"
        ),
        pytest.param(
            "*/30 * * * *",
            [
                "06 23:00 -0230",
                "06 23:30 -0230",
                "07 00:00 -0230",
                "06 23:30 -0330",
                "07 00:00 -0330",
                "07 00:30 -0330",
            ],
            id="repeating",
        ),
        pytest.param("*/30 * 6 * *", ["06 23:00 -0230", "06 23:30 -0230", "06 23:30 -0330"], id="first-date-only"),
        pytest.param("*/30 * 7 * *", ["07 00:00 -0230", "07 00:00 -0330", "07 00:30 -0330"], id="second-date-only"),
        pytest.param("30 23 6 * *", ["06 23:30 -0230"], id="fixed-first-date-only"),
        pytest.param("0 0 7 * *", ["07 00:00 -0230"], id="fixed-second-date-only"),
    ],
)
def test_a_clock_put_back_across_midnight_repeats_two_dates(expression: str, expected: list[str]) -> None:
    # In St. John's, one minute after midnight, to 23:01 of the day before.
    found = fire_times(expression, "America/St_Johns", "2010-11-06 23:00", "2010-11-07 01:00")

    assert found == [f"2010-11-{time}" for time in expected]


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        pytest.param("30 23 6 * *", "2010-11-07 02:30:30", "2010-12-07 03:00", id="fixed-only-once"),
        pytest.param("*/30 23 6 * *", "2010-11-07 02:30:30", "2010-11-07 03:00", id="repeating-comes-back"),
        pytest.param("*/30 23 * * *", "2010-11-07 02:30:30", "2010-11-07 03:00", id="repeating-on-any-date"),
    ],
)
def test_a_restart_in_the_minute_before_yesterday_comes_back(expression: str, after: str, expected: str) -> None:
    assert next_fire_time(cron(expression), ZoneInfo("America/St_Johns"), utc(after)) == utc(expected)


def test_midnight_comes_after_a_repeated_hour_before_it() -> None:
    nuuk, second_pass = ZoneInfo("America/Nuuk"), utc("2026-10-25 01:59:59.999999")  # 24 October, 23:59

    assert next_fire_time(cron("0 0 */2 * *"), nuuk, second_pass) == utc("2026-10-25 02:00")


# -- the calendar


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29"], id="leap-day"),
        pytest.param("0 0 31 * *", ["2026-01-31", "2026-03-31", "2026-05-31"], id="only-months-of-31-days"),
        pytest.param("0 0 30 2,4 *", ["2026-04-30", "2027-04-30", "2028-04-30"], id="month-that-lacks-the-day"),
        pytest.param("0 0 13 * 5", ["2026-02-13", "2026-03-13", "2026-11-13"], id="day-of-month-and-day-of-week"),
        pytest.param("0 0 1-7 * mon", ["2026-01-05", "2026-02-02", "2026-03-02"], id="first-monday"),
        pytest.param("0 0 29 2 0", ["2032-02-29", "2060-02-29", "2088-02-29"], id="leap-day-on-a-sunday"),
        pytest.param("0 0 * 12 *", ["2026-12-01", "2026-12-02", "2026-12-03"], id="one-month"),
        pytest.param("0 0 * * fri-mon", ["2026-01-02", "2026-01-03", "2026-01-04"], id="range-over-the-week-end"),
    ],
)
def test_fire_times_follow_the_calendar(expression: str, expected: list[str]) -> None:
    fire_time, found = utc("2026-01-01 12:00"), []
    for _ in expected:
        following = next_fire_time(cron(expression), UTC, fire_time)
        assert following is not None
        fire_time = following
        found.append(f"{fire_time:%Y-%m-%d}")

    assert found == expected


def test_leap_days_of_one_weekday_are_found_across_a_century_without_one() -> None:
    assert next_fire_time(cron("0 0 29 2 4"), UTC, utc("2080-03-01")) == utc("2120-02-29")


def test_the_end_of_the_calendar_is_not_an_error() -> None:
    assert next_fire_time(cron("0 0 1 1 *"), UTC, utc("9998-06-01")) is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param("2026-01-01 09:00", "2026-01-02 09:00", id="a-fire-time-is-not-after-itself"),
        pytest.param("2026-01-01 08:59:59.999999", "2026-01-01 09:00", id="a-microsecond-before"),
        pytest.param("2026-01-01 09:00:00.000001", "2026-01-02 09:00", id="a-microsecond-after"),
    ],
)
def test_the_next_fire_time_is_later_to_the_microsecond(after: str, expected: str) -> None:
    assert next_fire_time(cron("0 9 * * *"), UTC, utc(after)) == utc(expected)


# -- what an expression means


@pytest.mark.parametrize(
    ("schedule", "repeating"),
    [
        pytest.param(cron("30 2 * * *"), False, id="plain"),
        pytest.param(cron("0,30 1-5 * * *"), False, id="lists-and-ranges"),
        pytest.param(cron("0 0 */2 * */2"), False, id="steps-in-day-fields-only"),
        pytest.param(cron("* 2 * * *"), True, id="star-minute"),
        pytest.param(cron("0 * * * *"), True, id="star-hour"),
        pytest.param(cron("0-30/10 2 * * *"), True, id="step-minute"),
        pytest.param(cron("0 8-18/2 * * *"), True, id="step-hour"),
        pytest.param(cron("0 0-23 * * *"), True, id="all-hours"),
        pytest.param(crontab(minute=0, hour=set(range(24))), True, id="all-hours-as-a-set"),
        pytest.param(crontab(minute=[0, 30], hour=2), False, id="numbers"),
    ],
)
def test_which_crontabs_mean_elapsed_time(schedule: crontab, repeating: bool) -> None:
    assert is_repeating(schedule) is repeating
