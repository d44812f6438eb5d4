"""Cron expressions: texts, fire times when the clocks change, ``H``, words, storing and Celery's interface."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab
from hypothesis import assume, given
from hypothesis import strategies as st
from moments import NEW_YORK, at, sequence, utc
from support.definitions import definition_of

from redisbeater import RedisScheduleEntry, cron, describe
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.schedules.budget import SEARCHING_STEPS
from redisbeater.schedules.cron_expression import cron_expression
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.timetable import Timetable, clock_change_note, next_fire_time

UTC = timezone.utc
MICROSECOND = timedelta(microseconds=1)


def dates(text: str, start: str, number: int) -> list[str]:
    """Return the dates of the next fire times in UTC."""
    found, after = [], utc(start) - MICROSECOND
    for _ in range(number):
        following = next_fire_time(cron(text), UTC, after)
        assert following is not None
        found.append(f"{following:%Y-%m-%d}")
        after = following
    return found


def times_in_new_york(text: str, start: str, end: str) -> list[str]:
    """Return the fire times from one local time until before another, as local times with offset."""
    made = cron(text)
    found = sequence(lambda after: next_fire_time(made, NEW_YORK, after), at(start) - MICROSECOND, at(end))
    return [f"{instant.astimezone(NEW_YORK):%H:%M:%S %z}" for instant in found]


# -- texts


@pytest.mark.parametrize(
    "text",
    ["0 9 * * *", "@daily", "0 9 1-7 * mon", "*/5 * * * *", "0 0 ? * 7", "0 9 * jul,mar wed,sat"],
)
def test_five_plain_fields_stay_a_crontab_of_celery(text: str) -> None:
    assert type(cron(text)) is crontab


@pytest.mark.parametrize(
    "text",
    [
        "0 0 9 * * *",
        "0 9 L * *",
        "0 9 l-2 * *",
        "0 9 lw * *",
        "0 9 15w * *",
        "0 9 * * fri#1",
        "0 9 * * 5l",
        "h 9 * * *",
    ],
)
def test_what_celery_lacks_is_a_cron_expression(text: str) -> None:
    made = cron(f"  {text}\n")

    assert type(made) is cron_expression
    assert made.text == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0 9 L * *", ["2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"], id="last-day"),
        pytest.param("0 9 L-1 * *", ["2028-01-30", "2028-02-28", "2028-03-30"], id="day-before-the-last"),
        pytest.param("0 9 L-30 * *", ["2028-01-01", "2028-03-01", "2028-05-01"], id="not-in-shorter-months"),
        pytest.param("0 9 LW * *", ["2028-01-31", "2028-02-29", "2028-03-31", "2028-04-28"], id="last-workday"),
        pytest.param("0 9 WL 4 *", ["2028-04-28", "2029-04-30"], id="last-workday-the-other-way"),
        pytest.param("0 9 1W * *", ["2028-01-03", "2028-02-01", "2028-03-01", "2028-04-03"], id="not-in-december"),
        pytest.param("0 9 15W * *", ["2028-01-14", "2028-02-15", "2028-03-15", "2028-04-14"], id="nearest-to-15"),
        pytest.param("0 9 16W * *", ["2028-01-17", "2028-02-16", "2028-03-16", "2028-04-17"], id="sunday-to-monday"),
        pytest.param("0 9 30W 4,7 *", ["2028-04-28", "2028-07-31"], id="not-in-may"),
        pytest.param("0 9 31W * *", ["2028-01-31", "2028-03-31", "2028-05-31", "2028-07-31"], id="only-long-months"),
        pytest.param("0 9 29W 2 *", ["2028-02-29", "2032-02-27", "2036-02-29"], id="nearest-to-a-leap-day"),
        pytest.param("0 9 1,15W,L * *", ["2028-01-01", "2028-01-14", "2028-01-31", "2028-02-01"], id="list-of-days"),
        pytest.param("0 9 * * fri#1", ["2028-01-07", "2028-02-04", "2028-03-03"], id="first-friday"),
        pytest.param("0 9 * * 1#5", ["2028-01-31", "2028-05-29", "2028-07-31"], id="fifth-monday"),
        pytest.param("0 9 * * 7#1", ["2028-01-02", "2028-02-06"], id="first-sunday-as-7"),
        pytest.param("0 9 * * 5L", ["2028-01-28", "2028-02-25", "2028-03-31"], id="last-friday-as-5"),
        pytest.param("0 9 * * fridayL", ["2028-01-28", "2028-02-25", "2028-03-31"], id="last-friday"),
        pytest.param("0 9 * * 0L", ["2028-01-30", "2028-02-27"], id="last-sunday"),
        pytest.param("0 9 * * mon,5L", ["2028-01-03", "2028-01-10", "2028-01-17"], id="list-of-weekdays"),
        pytest.param("0 9 13 * 5#2", ["2028-10-13", "2029-04-13"], id="friday-the-13th"),
        pytest.param("0 9 L * 5", ["2028-03-31", "2028-06-30"], id="both-day-fields-must-match"),
        pytest.param("0 9 15W * fri", ["2028-01-14", "2028-04-14", "2028-07-14"], id="both-after-the-move"),
        pytest.param("0 0 9 29 2 tue", ["2028-02-29", "2056-02-29", "2084-02-29", "2124-02-29"], id="leap-tuesday"),
        pytest.param("0 0 9 1 */6 ?", ["2028-01-01", "2028-07-01"], id="seconds-and-plain-days"),
    ],
)
def test_the_days_of_a_text(text: str, expected: list[str]) -> None:
    assert dates(text, "2028-01-01", len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("*/20 * * * * *", ["12:00:00", "12:00:20", "12:00:40", "12:01:00"], id="every-20-seconds"),
        pytest.param("30 */5 * * * *", ["12:00:30", "12:05:30"], id="half-past-every-fifth-minute"),
        pytest.param("58-1 0 * * * *", ["12:00:00", "12:00:01", "12:00:58", "12:00:59"], id="around-the-end"),
        pytest.param("5,55 59 12 * * *", ["12:59:05", "12:59:55", "12:59:05"], id="two-seconds-a-day"),
        pytest.param("* * * * * *", ["12:00:00", "12:00:01", "12:00:02"], id="every-second"),
    ],
)
def test_the_field_of_seconds_is_in_front(text: str, expected: list[str]) -> None:
    timetable = Timetable(schedule=cron(text), zone=UTC)

    found = islice(timetable.between(utc("2028-01-01 11:59:59.9"), utc("2028-01-03")), len(expected))

    assert [f"{fire_time:%H:%M:%S}" for fire_time in found] == expected


def test_a_fire_time_within_a_second_is_the_next_second() -> None:
    assert next_fire_time(cron("* * * * * *"), UTC, utc("2028-01-01 12:00:00.5")) == utc("2028-01-01 12:00:01")


# -- refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "61 * * * * *",
            """$.schedule.second: '61' is out of range in ">61< * * * * *"; expected 0 to 59""",
            id="second",
        ),
        pytest.param(
            "0 61 * * * *",
            """$.schedule.minute: '61' is out of range in "0 >61< * * * *"; expected 0 to 59""",
            id="minute-after-seconds",
        ),
        pytest.param(
            "0 9 32W * *",
            """$.schedule.day_of_month: '32' is out of range in "0 9 >32W< * *"; expected 1 to 31""",
            id="day-32",
        ),
        pytest.param(
            "0 9 L-31 * *",
            """$.schedule.day_of_month: 'L-31' is out of range in "0 9 >L-31< * *"; expected L-0 to L-30""",
            id="31-days-before-the-last",
        ),
        pytest.param(
            "0 9 1,W * *",
            """$.schedule.day_of_month: cannot read 'W' in "0 9 >1,W< * *"; expected L, L-2, LW or 15W, one by one""",
            id="w-alone",
        ),
        pytest.param(
            "0 9 * * fri#6",
            """$.schedule.day_of_week: cannot read 'fri#6' in "0 9 * * >fri#6<"; """
            "a month has at most 5 of each weekday, so #1 to #5",
            id="sixth-friday",
        ),
        pytest.param(
            "0 9 * * day#1",
            """$.schedule.day_of_week: cannot read 'day#1' in "0 9 * * >day#1<"; """
            "expected a weekday such as 'fri' or 5 in front of L or #",
            id="no-weekday",
        ),
        pytest.param(
            "0 9 * * 8L",
            """$.schedule.day_of_week: cannot read '8L' in "0 9 * * >8L<"; """
            "expected a weekday such as 'fri' or 5 in front of L or #",
            id="weekday-8",
        ),
        pytest.param(
            "0 9 L * mon/2",
            """$.schedule.day_of_week: cannot read 'mon/2' in "0 9 L * >mon/2<"; """
            "a step needs a range, as in 'mon-6/2'",
            id="plain-part-beside",
        ),
        pytest.param(
            "0 0 30 feb L",
            """$.schedule.day_of_week: cannot read 'L' in "0 0 30 feb >L<"; for Saturday write 'sat'""",
            id="last-day-of-the-week",
        ),
        pytest.param(
            "0 0 0 30 feb *",
            """$.schedule.day_of_month: no month of the crontab has such a day in "0 0 0 >30< feb *"; """
            "change day_of_month or month_of_year",
            id="30-february",
        ),
        pytest.param(
            "0 0 31W feb,apr *",
            """$.schedule.day_of_month: no month of the crontab has such a day in "0 0 >31W< feb,apr *"; """
            "change day_of_month or month_of_year",
            id="31w-in-short-months",
        ),
        pytest.param(
            "0 0 LW * sun",
            """$.schedule.day_of_week: no date matches both day_of_month and day_of_week in "0 0 LW * >sun<"; """
            "change one of them",
            id="last-workday-on-sunday",
        ),
        pytest.param(
            "0 0 1-28 * fri#5",
            """$.schedule.day_of_week: no date matches both day_of_month and day_of_week in "0 0 1-28 * >fri#5<"; """
            "change one of them",
            id="fifth-friday-before-the-29th",
        ),
        pytest.param(
            "0 0 29W 2 sat",
            """$.schedule.day_of_week: no date matches both day_of_month and day_of_week in "0 0 29W 2 >sat<"; """
            "change one of them",
            id="workday-on-saturday",
        ),
        pytest.param(
            "H(5) * * * *",
            """$.schedule.minute: cannot read 'H(5)' in ">H(5)< * * * *"; """
            "expected H, a range or a step: H, H(0-29) or H/15",
            id="h-without-a-range",
        ),
        pytest.param(
            "H(5-60) * * * *",
            """$.schedule.minute: the range of 'H(5-60)' is not valid in ">H(5-60)< * * * *"; """
            "expected one within 0-59",
            id="h-out-of-range",
        ),
        pytest.param(
            "H(29-0) * * * *",
            """$.schedule.minute: the range of 'H(29-0)' is not valid in ">H(29-0)< * * * *"; """
            "expected one within 0-59",
            id="h-backwards",
        ),
        pytest.param(
            "0 H/25 * * *",
            """$.schedule.hour: the step of 'H/25' is not valid in "0 >H/25< * * *"; expected 1 to 24""",
            id="h-with-a-long-step",
        ),
        pytest.param(
            "H/0 * * * *",
            """$.schedule.minute: the step of 'H/0' is not valid in ">H/0< * * * *"; expected 1 to 60""",
            id="h-with-step-0",
        ),
        pytest.param(
            "H 61 * * *",
            """$.schedule.hour: '61' is out of range in "H >61< * * *"; expected 0 to 23""",
            id="beside-h",
        ),
    ],
)
def test_an_error_points_at_the_field(text: str, message: str) -> None:
    with pytest.raises(InvalidEntry) as caught:
        cron(text)

    assert str(caught.value) == message


@pytest.mark.parametrize("zone", ["Mars/Base", "", 1], ids=repr)
def test_an_unknown_zone_is_refused(zone: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.timezone: unknown time zone"):
        cron("0 9 L * *", timezone=zone)


# -- when the clocks change: gap 02:00-03:00 on 8 March, repeated hour 01:00-02:00 on 1 November


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("30 30 2 * * *", ["03:00:00 -0400"], id="fixed-once-when-the-gap-ends"),
        pytest.param("0,30 0,30 2 * * *", ["03:00:00 -0400"], id="fixed-four-times-are-one-run"),
        pytest.param("30 2 * * sun#2", ["03:00:00 -0400"], id="fixed-second-sunday"),
        pytest.param("0 0 2,3 * * *", ["03:00:00 -0400"], id="fixed-time-in-the-gap-and-at-its-end-are-one-run"),
        pytest.param("*/15 30 2 * * *", ["03:00:00 -0400"], id="repeating-by-its-seconds-no-day-is-lost"),
        pytest.param("* * 2 * * *", ["03:00:00 -0400"], id="repeating-every-second-of-the-gap-is-one-run"),
        pytest.param("0 */30 1-3 8W * *", [], id="another-day"),
        pytest.param(
            "*/30 59 1-3 * * *",
            ["01:59:00 -0500", "01:59:30 -0500", "03:59:00 -0400", "03:59:30 -0400"],
            id="repeating-owes-nothing",
        ),
        pytest.param("30 59 1-3 * * *", ["01:59:30 -0500", "03:00:00 -0400", "03:59:30 -0400"], id="fixed-owes-one"),
    ],
)
def test_a_time_in_a_gap_in_new_york(text: str, expected: list[str]) -> None:
    assert times_in_new_york(text, "2026-03-08 00:30", "2026-03-08 06:00") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("30 30 1 * * *", ["01:30:30 -0400"], id="fixed-first-pass-only"),
        pytest.param("0 1 1 * *", ["01:00:00 -0400"], id="plain"),
        pytest.param("0 1 * * sun#1", ["01:00:00 -0400"], id="fixed-first-sunday"),
        pytest.param(
            "*/30 30 1 * * *",
            ["01:30:00 -0400", "01:30:30 -0400", "01:30:00 -0500", "01:30:30 -0500"],
            id="repeating-by-its-seconds-both-passes",
        ),
        pytest.param(
            "5 0 * 1 * *",
            ["01:00:05 -0400", "01:00:05 -0500", "02:00:05 -0500", "03:00:05 -0500"],
            id="repeating-by-its-hours-both-passes",
        ),
        pytest.param(
            "5 0 0-23 * * *",
            ["01:00:05 -0400", "01:00:05 -0500", "02:00:05 -0500", "03:00:05 -0500"],
            id="all-hours-both-passes",
        ),
    ],
)
def test_a_time_in_the_repeated_hour_of_new_york(text: str, expected: list[str]) -> None:
    assert times_in_new_york(text, "2026-11-01 00:30", "2026-11-01 04:00") == expected


@pytest.mark.parametrize("day", ["2026-03-08", "2026-11-01"])
def test_every_ten_seconds_is_elapsed_time_across_a_shift(day: str) -> None:
    made, start = cron("*/10 * * * * *"), at(f"{day} 00:59")

    found = sequence(lambda after: next_fire_time(made, NEW_YORK, after), start, start + timedelta(hours=3))

    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(seconds=10)}
    assert len(found) == 3 * 360 - 1


@pytest.mark.parametrize(
    ("text", "zone", "after", "note"),
    [
        pytest.param(
            "15 30 2 * * *", "America/New_York", "2026-03-08 06:59",
            "moved from 02:30:15, which does not exist on 2026-03-08",
            id="one",
        ),
        pytest.param(
            "* * 2 * * *", "America/New_York", "2026-03-08 06:59",
            "moved from 3600 times between 02:00 and 02:59:59, which do not exist on 2026-03-08",
            id="very-many",
        ),
        pytest.param(
            "15 * * * * *", "America/New_York", "2026-11-01 06:00",
            "01:00:15 comes twice on 2026-11-01; this is the second",
            id="second-pass",
        ),
        pytest.param("15 * * * * *", "America/New_York", "2026-11-01 16:00", "", id="none"),
    ],
)  # fmt: skip
def test_the_effect_of_a_clock_change_is_noted(text: str, zone: str, after: str, note: str) -> None:
    fire_time = next_fire_time(cron(text), ZoneInfo(zone), utc(after))
    assert fire_time is not None

    assert clock_change_note(cron(text), ZoneInfo(zone), fire_time) == note


# -- H


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("H H * * *", "report", "56 6 * * *"),
        ("H H * * *", "invoice", "34 13 * * *"),
        ("0 H H * * *", "report", "0 56 6 * * *"),
        ("H * * * * *", "report", "59 * * * * *"),
        ("H(0-29) * * * *", "report", "26 * * * *"),
        ("H/15 * * * *", "report", "11-59/15 * * * *"),
        ("H(0-29)/10 * * * *", "report", "6-29/10 * * * *"),
        ("H,30 9 * * *", "report", "56,30 9 * * *"),
        ("0 9 H * *", "report", "0 9 4 * *"),
        ("0 9 H(1-31) * *", "report", "0 9 18 * *"),
        ("0 9 * H *", "report", "0 9 * 8 *"),
        ("0 9 * * H", "report", "0 9 * * 3"),
        ("0 9 * * H(1-5)", "report", "0 9 * * 4"),
        ("H H * * *", "Übersicht für \N{SNOWMAN}", "20 1 * * *"),
    ],
)
def test_what_h_stands_for_never_changes(text: str, name: str, expected: str) -> None:
    assert cron(text).for_entry(name).resolved_text == expected


def test_the_prefix_and_the_field_of_seconds_do_not_change_what_h_stands_for() -> None:
    five, six = (cron(text).for_entry("report").resolved_text for text in ("H H * * *", "0 H H * * *"))

    assert six == f"0 {five}"


@given(name=st.text(min_size=1), low=st.integers(0, 59), high=st.integers(0, 59))
def test_h_stays_within_its_range(name: str, low: int, high: int) -> None:
    assume(low <= high)
    made = cron(f"H({low}-{high}) * * * *").for_entry(name)

    assert low <= made.slots.fields.minutes[0] <= high
    assert made == cron(f"H({low}-{high}) * * * *").for_entry(name)


@pytest.mark.parametrize(("step", "expected"), [(15, 4), (7, {8, 9}), (60, 1), (45, {1, 2})])
def test_h_with_a_step_is_that_step_from_a_minute_on_that_the_name_decides(step: int, expected: Any) -> None:
    made = [cron(f"H/{step} * * * *").for_entry(f"entry {number}") for number in range(200)]
    minutes = [schedule.slots.fields.minutes for schedule in made]

    assert {later - earlier for each in minutes for earlier, later in pairwise(each)} <= {step}
    assert {each[0] for each in minutes} <= set(range(step))
    assert len({each[0] for each in minutes}) > 0.9 * step
    assert {len(each) for each in minutes} == (expected if isinstance(expected, set) else {expected})


def test_h_spreads_entries_evenly() -> None:
    counted = Counter(cron("H * * * *").for_entry(f"entry {number}").slots.fields.minutes[0] for number in range(3000))

    assert set(counted) == set(range(60))
    assert max(counted.values()) < 85  # 50 on average


def test_h_of_the_day_of_the_month_is_a_day_that_every_month_has() -> None:
    days = {
        day for number in range(500) for day in cron("0 9 H * *").for_entry(f"entry {number}").slots.fields.dates.days
    }

    assert days == set(range(1, 29))


@pytest.mark.parametrize("act", [
    lambda made: next_fire_time(made, UTC, utc("2026-01-01")),
    lambda made: Timetable(schedule=made, zone=UTC).count(utc("2026-01-01"), utc("2026-01-02")),
    lambda made: Timetable(schedule=made, zone=UTC).newest(utc("2026-01-01"), utc("2026-01-02")),
    lambda made: made.is_due(utc("2026-01-01")),
    lambda made: made.remaining_estimate(utc("2026-01-01")),
    lambda made: made.slots,
], ids=["next", "count", "newest", "is-due", "remaining-estimate", "slots"])  # fmt: skip
def test_without_a_name_h_is_an_error(act: Any) -> None:
    expected = '$.schedule: H in "H H * * *" is decided by the name of an entry; give the schedule to an entry, or use '

    with pytest.raises(InvalidEntry, match=re.escape(expected)):
        act(cron("H H * * *"))


def test_an_entry_has_the_times_of_its_name_and_a_renamed_one_those_of_the_new_name(lone_app: Celery) -> None:
    shared = cron("H H * * *")

    first = RedisScheduleEntry("report", "proj.work", shared, app=lone_app)
    renamed = RedisScheduleEntry(**{**dict(first), "name": "invoice"})

    assert first.schedule == shared.for_entry("report")
    assert renamed.schedule == shared.for_entry("invoice") != first.schedule
    assert definition_of(renamed).schedule == renamed.schedule
    assert not shared.is_bound


def test_an_entry_whose_name_is_changed_is_checked_with_the_times_of_the_new_name(lone_app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", cron("H H * * *"), app=lone_app)

    entry.name = "invoice"

    assert definition_of(entry).schedule == cron("H H * * *").for_entry("invoice")


def test_a_stored_entry_has_the_times_of_its_name() -> None:
    codec, text = ScheduleCodec(), '{"task": "proj.work", "schedule": {"__type__": "cron", "text": "H H * * *"}}'

    found = {Definition.from_text(name, text, codec).schedule.resolved_text for name in ("a", "b", "c")}

    assert len(found) == 3


def test_a_name_whose_day_no_month_has_is_refused_when_the_entry_is_made() -> None:
    made = cron("0 9 H(30-31) feb *")

    with pytest.raises(InvalidEntry, match=r'no month of the crontab has such a day in "0 9 >H\(30-31\)< feb \*"'):
        definition_of(RedisScheduleEntry("report", "proj.work", made))


# -- far away, and cheap


@pytest.mark.parametrize(
    ("text", "last"),
    [
        pytest.param("* * * * * *", "2056-06-10 16:07:03", id="every-second"),
        pytest.param("*/7 */11 * * * *", "2056-06-10 16:00:56", id="some-seconds"),
        pytest.param("30 0 9 * * *", "2056-06-10 13:00:30", id="daily"),
        pytest.param("0 9 LW * *", "2056-05-31 13:00:00", id="last-workday"),
        pytest.param("0 9 29 2 1L", "2044-02-29 14:00:00", id="leap-monday"),
    ],
)
def test_the_newest_of_thirty_years_is_found_without_stepping_through_them(text: str, last: str) -> None:
    timetable = Timetable(schedule=cron(text), zone=NEW_YORK)
    first = timetable.next(utc("2026-06-10 16:07:03"))
    assert first is not None

    assert timetable.newest(first, utc("2056-06-10 16:07:03")) == utc(last)
    assert timetable.searching.taken < SEARCHING_STEPS / 10


def test_all_seconds_of_thirty_years_are_counted_by_arithmetic() -> None:
    timetable = Timetable(schedule=cron("* * * * * *"), zone=NEW_YORK)
    first, last = utc("2026-06-10 16:07:03"), utc("2056-06-10 16:07:03")

    assert timetable.count(first, last).number == (last - first).total_seconds() + 1


def test_at_the_end_of_the_calendar_there_is_none() -> None:
    assert next_fire_time(cron("0 9 L * *"), UTC, datetime(9998, 12, 31, 9, tzinfo=UTC)) is None


# -- in words

FIXED = "(fixed: once for each time of the day, also when the clocks change)"
REPEATING = "(repeating: by elapsed time, also when the clocks change)"
BY_THE_CLOCK = "(repeating: by the clock, so twice at a time that comes twice when the clocks change)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/10 * * * * *", f"every 10 seconds {REPEATING}"),
        ("* * * * * *", f"every second {REPEATING}"),
        ("5,35 * * * * *", f"at 5 and 35 seconds past every minute {REPEATING}"),
        ("*/7 * * * * *", f"at {', '.join(map(str, range(0, 56, 7)))} and 56 seconds past every minute {REPEATING}"),
        ("0 */5 * * * *", f"every 5 minutes {REPEATING}"),
        ("0 0 9 * * *", f"at 09:00 every day {FIXED}"),
        ("30 0 9 * * mon-fri", f"at 09:00:30 on Monday to Friday {FIXED}"),
        ("0,30 0 9 * * *", f"at 09:00 and 09:00:30 every day {FIXED}"),
        (
            "*/10 */5 9-16 * * *",
            f"every 10 seconds in these minutes: every 5 minutes from 09:00 to 16:55 {BY_THE_CLOCK}",
        ),
        ("* 0 9 * * *", f"every second in these minutes: at 09:00 every day {BY_THE_CLOCK}"),
        (
            "5,7,30 0,5,7 9 * * 1",
            f"at 5, 7 and 30 seconds in these minutes: at 09:00, 09:05 and 09:07 on Monday {FIXED}",
        ),
        ("0 18 L * *", f"at 18:00 on the last day of the month {FIXED}"),
        ("0 18 1,15,L-2 * *", f"at 18:00 on day 1 and 15 and the third last day of the month {FIXED}"),
        ("0 18 LW jun *", f"at 18:00 on the last workday of the month in June {FIXED}"),
        ("0 9 15W * *", f"at 09:00 on the workday nearest to day 15 of the month {FIXED}"),
        ("0 9 * * fri#1", f"at 09:00 on the first Friday of the month {FIXED}"),
        ("0 9 * * 7L", f"at 09:00 on the last Sunday of the month {FIXED}"),
        (
            "0 9 * * mon,wed,5L,2#3",
            f"at 09:00 on Monday and Wednesday, the third Tuesday and the last Friday of the month {FIXED}",
        ),
        ("0 9 13 * 5#2", f"at 09:00 on the second Friday of the month, when it is day 13 of the month {FIXED}"),
        ("H H * * *", '"H H * * *", where the name of the entry decides H'),
    ],
)
def test_it_is_described_in_words(text: str, expected: str) -> None:
    assert describe(cron(text)) == expected


def test_the_description_of_an_entry_has_the_times_of_its_name() -> None:
    entry = RedisScheduleEntry("report", "proj.work", cron("0 H * * *", timezone="Europe/Vienna"))

    assert describe(entry.schedule) == f"at 06:00 every day, Europe/Vienna {FIXED}"


# -- as stored, and as a value

texts = st.tuples(
    st.sampled_from(["", "0 ", "*/10 ", "H ", "5,10-20/3 "]),
    st.sampled_from(["0", "*/15", "H/7", "H(3-9)", "1,5-9"]),
    st.sampled_from(["9", "*", "H(0-5)", "22-2"]),
    st.sampled_from(["L", "LW", "15W", "L-3", "1,L", "1-9,15w", "H"]),
    st.sampled_from(["*", "jan,jul", "*/2"]),
    st.sampled_from(["*", "?", "mon-fri", "5L,fri#1", "7", "H"]),
).map(lambda fields: f"{fields[0]}{' '.join(fields[1:])}")


@given(text=texts, name=st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1))
def test_stored_and_read_again_it_is_the_same(text: str, name: str) -> None:
    codec = ScheduleCodec()
    try:
        made = cron(text)
        definition = Definition.checked(name=name, task="proj.work", schedule=made)
    except InvalidEntry:  # no date matches
        assume(False)
        raise

    stored = codec.encode(definition.schedule)
    read = Definition.from_text(name, definition.to_text(codec), codec)

    assert stored == {"__type__": "cron", "text": " ".join(text.split())}
    assert codec.decode(stored) == made
    assert read.schedule == definition.schedule
    assert read.has_same_fire_times_as(definition, codec)
    after = utc("2026-01-01")
    assert next_fire_time(read.schedule, UTC, after) == next_fire_time(definition.schedule, UTC, after)


def test_another_program_may_store_five_plain_fields_and_a_macro() -> None:
    plain, macro = (ScheduleCodec().decode({"__type__": "cron", "text": text}) for text in ("0 0 * * *", "@daily"))

    assert plain == macro == cron_expression("0 0 * * *")
    assert next_fire_time(plain, UTC, utc("2026-01-01 12:00")) == utc("2026-01-02")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            {"text": "61 * * * * *"}, """$.schedule.text: '61' is out of range in ">61< * * * * *"; """, id="field"
        ),
        pytest.param({"text": 5}, "$.schedule.text: expected a text such as ", id="number"),
        pytest.param({}, "$.schedule.text: expected 5 fields, or 6 with seconds in front, got 0 ", id="missing"),
        pytest.param({"text": "0 9 L * *", "app": 1}, "$.schedule.app: unknown field; expected text", id="other-field"),
    ],
)
def test_stored_data_that_cannot_be_read_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidEntry, match=re.escape(message)):
        ScheduleCodec().decode({"__type__": "cron", **data})


def test_a_clock_of_its_own_cannot_be_stored() -> None:
    with pytest.raises(InvalidEntry, match="nowfun cannot be stored"):
        ScheduleCodec().encode(cron_expression("0 9 L * *", nowfun=lambda: utc("2026-01-01")))


@pytest.mark.parametrize("text", ["0 9 L * *", "H H * * *"])
def test_it_is_a_value(text: str) -> None:
    made = cron(text, timezone="Europe/Vienna").for_entry("report")

    for other in (
        pickle.loads(pickle.dumps(made)),
        copy.copy(made),
        copy.deepcopy(made),
        cron(text).for_entry("report"),
    ):
        assert other == made
        assert hash(other) == hash(made)
    assert made == cron(text).for_entry("report")
    assert pickle.loads(pickle.dumps(made)).timezone == "Europe/Vienna"
    assert made != cron("0 9 LW * *")
    assert made != crontab()


def test_its_repr_shows_text_and_name() -> None:
    assert repr(cron("0  9 L * *")) == "<cron: 0 9 L * *>"
    assert repr(cron("H H * * *").for_entry("report")) == "<cron: H H * * * of report>"


def test_the_zone_that_was_passed_is_that_of_the_entry() -> None:
    made = Definition.checked(name="report", task="proj.work", schedule=cron("0 9 L * *", timezone="Europe/Vienna"))

    assert made.timezone == "Europe/Vienna"
    assert describe(made.schedule) == f"at 09:00 on the last day of the month, Europe/Vienna {FIXED}"


def test_another_zone_of_the_entry_is_refused() -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.timezone: is 'Asia/Tokyo', but the schedule has 'Europe/Vienna'"):
        Definition.checked(
            name="report", task="proj.work", schedule=cron("0 9 L * *", timezone="Europe/Vienna"), timezone="Asia/Tokyo"
        )


# -- for Celery's own beat


@pytest.mark.parametrize(
    ("now", "is_due", "seconds"),
    [
        pytest.param("2026-06-29 23:59:50", False, 10, id="before"),
        pytest.param("2026-06-30 00:00:00", True, 31 * 86_400, id="at-it"),
        pytest.param("2026-07-02 00:00:00", True, 29 * 86_400, id="late"),
    ],
)
def test_celery_asks_whether_it_is_due(now: str, is_due: bool, seconds: int) -> None:
    app = Celery("oracle", set_as_current=False, timezone="UTC")
    made = cron_expression("0 0 L * *", app=app, nowfun=lambda: utc(now))

    state = made.is_due(utc("2026-06-01"))

    assert (state.is_due, state.next) == (is_due, seconds)


def test_celery_s_own_beat_uses_the_zone() -> None:
    now = utc("2026-06-30 15:00")
    made = cron_expression("0 18 L * *", "Europe/Vienna", app=Celery(set_as_current=False), nowfun=lambda: now)

    assert now + made.remaining_estimate(now) == utc("2026-06-30 16:00")
