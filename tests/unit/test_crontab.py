from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from moments import at, cron, local, sequence, utc

from redisbeater.schedules.crontab import is_repeating, next_fire_time

UTC = timezone.utc


def fire_times(expression: str, zone: str, start: str, end: str) -> list[str]:
    """The fire times from one local time until another, both naive text, as local time with offset."""
    info = ZoneInfo(zone)
    following = partial(next_fire_time, cron(expression), info)
    instants = sequence(following, at(start, info) - timedelta(microseconds=1), at(end, info))
    return [local(instant, info) for instant in instants]


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
def test_a_gap_in_new_york(expression: str, expected: list[str]) -> None:
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
def test_a_repeated_hour_in_new_york(expression: str, expected: list[str]) -> None:
    found = fire_times(expression, "America/New_York", "2026-11-01 00:00", "2026-11-01 06:00")

    assert found == [f"2026-11-01 {time}" for time in expected]


@pytest.mark.parametrize("date", ["2026-03-08", "2026-11-01"], ids=["gap", "repeated-hour"])
@pytest.mark.parametrize("minutes", [5, 10])
def test_every_few_minutes_is_elapsed_time_across_a_shift(date: str, minutes: int) -> None:
    following = partial(next_fire_time, cron(f"*/{minutes} * * * *"), ZoneInfo("America/New_York"))
    start = at(f"{date} 00:00")

    instants = sequence(following, start, start + timedelta(hours=6))

    assert instants == [start + k * timedelta(minutes=minutes) for k in range(1, 6 * 60 // minutes)]


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
            "0 12 * * *",
            "America/New_York",
            "2026-10-31 00:00",
            "2026-11-03 00:00",
            ["2026-10-31 12:00 -0400", "2026-11-01 12:00 -0500", "2026-11-02 12:00 -0500"],
            id="noon-stays-noon",
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
def test_a_shift_elsewhere(expression: str, zone: str, start: str, end: str, expected: list[str]) -> None:
    assert fire_times(expression, zone, start, end) == expected


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
def test_the_calendar(expression: str, expected: list[str]) -> None:
    fire_time, found = utc("2026-01-01 12:00"), []
    for _ in expected:
        following = next_fire_time(cron(expression), UTC, fire_time)
        assert following is not None
        fire_time = following
        found.append(f"{fire_time:%Y-%m-%d}")

    assert found == expected


def test_leap_days_of_one_weekday_are_found_across_a_century_without_one() -> None:
    assert next_fire_time(cron("0 0 29 2 4"), UTC, utc("2080-03-01")) == utc("2120-02-29")


def test_the_end_of_the_calendar_is_no_error() -> None:
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


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    # Two ends, because cronsim reads 5-5/2 as 5-59/2.
    pair = st.tuples(number, number).filter(lambda ends: ends[0] != ends[1]).map(sorted)
    return st.one_of(
        st.just("*"),
        number.map(str),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.integers(2, high).map(lambda step: f"*/{step}"),
        st.tuples(pair, st.integers(1, 5)).map(lambda drawn: f"{drawn[0][0]}-{drawn[0][1]}/{drawn[1]}"),
        st.lists(number, min_size=1, max_size=4, unique=True).map(lambda drawn: ",".join(map(str, sorted(drawn)))),
    )


times = st.tuples(_field(0, 59), _field(0, 23))
instants = st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))
expressions = st.tuples(times, _field(1, 31), _field(1, 12), _field(0, 6)).map(
    lambda fields: f"{fields[0][0]} {fields[0][1]} {fields[1]} {fields[2]} {fields[3]}"
)
one_day_field = st.one_of(
    st.tuples(_field(1, 31), st.just("*")),
    st.tuples(st.just("*"), _field(0, 6)),
)


def _readable(expression: str) -> crontab:
    try:
        return cron(expression)
    except ValueError:  # the 30th of February
        assume(False)
        raise


@pytest.fixture(scope="module")
def celery_app() -> Celery:
    return Celery("oracle", set_as_current=False, broker="memory://")


@settings(max_examples=400, deadline=None)
@given(expression=expressions, after=instants)
def test_in_utc_it_agrees_with_celery(celery_app: Celery, expression: str, after: datetime) -> None:
    schedule = _readable(expression)
    schedule.app, schedule.nowfun = celery_app, lambda: after
    try:
        expected = after + schedule.remaining_estimate(after)
    except RuntimeError:  # Celery gives up on day and weekday that rarely meet
        assume(False)
        raise

    assert next_fire_time(_readable(expression), UTC, after) == expected


@settings(max_examples=300, deadline=None)
@given(time=times, days=one_day_field, month=_field(1, 12), after=instants)
def test_in_utc_it_agrees_with_cronsim(
    time: tuple[str, str], days: tuple[str, str], month: str, after: datetime
) -> None:
    expression = f"{time[0]} {time[1]} {days[0]} {month} {days[1]}"
    schedule = _readable(expression)
    oracle = CronSim(expression, after)

    found, fire_time = [], after
    for _ in range(3):
        following = next_fire_time(schedule, UTC, fire_time)
        assert following is not None
        fire_time = following
        found.append(fire_time)

    assert found == [next(oracle) for _ in range(3)]


#: A zone, and a day around which its offset shifts.
SHIFTS = {
    "new-york-gap": ("America/New_York", "2026-03-08"),
    "new-york-repeated": ("America/New_York", "2026-11-01"),
    "berlin-gap": ("Europe/Berlin", "2026-03-29"),
    "dublin-repeated": ("Europe/Dublin", "2026-10-25"),
    "santiago-gap": ("America/Santiago", "2026-09-06"),
    "santiago-repeated": ("America/Santiago", "2026-04-04"),
    "lord-howe-gap": ("Australia/Lord_Howe", "2026-10-04"),
    "lord-howe-repeated": ("Australia/Lord_Howe", "2026-04-05"),
    "casablanca-repeated": ("Africa/Casablanca", "2026-02-15"),
    "apia-no-date": ("Pacific/Apia", "2011-12-30"),
    "sao-paulo-gap": ("America/Sao_Paulo", "2018-11-04"),
    "troll-gap": ("Antarctica/Troll", "2026-03-29"),
    "troll-repeated": ("Antarctica/Troll", "2026-10-25"),
    "chatham-repeated": ("Pacific/Chatham", "2026-04-05"),
    "tehran-gap": ("Asia/Tehran", "2022-03-22"),
    "gaza-gap": ("Asia/Gaza", "2026-03-28"),
    "nuuk-gap": ("America/Nuuk", "2026-03-28"),
    "kathmandu-none": ("Asia/Kathmandu", "2026-03-28"),
}
shifts = pytest.mark.parametrize(("zone", "day"), SHIFTS.values(), ids=list(SHIFTS))

#: Crontabs of at most 32 fire times a day, so that a few days can be looked at whole.
daily = st.tuples(
    st.lists(st.integers(0, 59), min_size=1, max_size=2, unique=True),
    st.lists(st.integers(0, 23), min_size=1, max_size=6, unique=True),
    st.sampled_from(["*", "*/2", "1-28"]),
).map(lambda drawn: f"{','.join(map(str, drawn[0]))} {','.join(map(str, drawn[1]))} {drawn[2]} * *")
around_shifts = st.one_of(daily, st.sampled_from(["0 * * * *", "*/20 * * * *", "*/15 2 * * *", "30 */3 * * *"]))


def _around(expression: str, zone: ZoneInfo, day: str) -> tuple[partial[datetime | None], list[datetime]]:
    following = partial(next_fire_time, cron(expression), zone)
    middle = utc(f"{day} 12:00")
    return following, sequence(following, middle - timedelta(days=2), middle + timedelta(days=2))


@shifts
@settings(max_examples=15, deadline=None)
@given(expression=around_shifts)
def test_fire_times_strictly_increase(zone: str, day: str, expression: str) -> None:
    _, found = _around(expression, ZoneInfo(zone), day)

    assert all(earlier < later for earlier, later in pairwise(found))


@shifts
@settings(max_examples=15, deadline=None)
@given(expression=around_shifts, data=st.data())
def test_a_restart_at_any_instant_changes_no_fire_time(
    zone: str, day: str, expression: str, data: st.DataObject
) -> None:
    following, found = _around(expression, ZoneInfo(zone), day)
    assume(len(found) > 1)
    seconds = int((found[-1] - found[0]).total_seconds())
    restart = found[0] + timedelta(seconds=data.draw(st.integers(0, seconds - 1)))

    assert following(restart) == next(fire_time for fire_time in found if fire_time > restart)


@shifts
@settings(max_examples=15, deadline=None)
@given(expression=daily.filter(lambda text: not is_repeating(cron(text))))
def test_a_fixed_crontab_fires_on_every_date_that_exists(zone: str, day: str, expression: str) -> None:
    minute, hour, *_ = expression.split()
    info = ZoneInfo(zone)
    _, found = _around(f"{minute} {hour} * * *", info, day)

    dates = {
        (utc(f"{day} 12:00") + timedelta(hours=hours)).astimezone(info).date() for hours in range(-24, 24)
    }  # the first and last may be cut off, but not within a day of the middle
    # A slot in a gap that ends its date fires at midnight, so the date of a run is that of the minute before, too.
    served = {run.astimezone(info).date() for fire in found for run in (fire, fire - timedelta(minutes=1))}
    assert dates <= served


@shifts
def test_every_hour_of_real_time_has_one_run_of_an_hourly_crontab(zone: str, day: str) -> None:
    info = ZoneInfo(zone)
    _, found = _around("*/30 * * * *", info, day)

    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=30)}
