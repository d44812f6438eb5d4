"""Windows of the day: the table of the documentation, how they are read, kept and refused."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, crontab, schedule, solar
from moments import NEW_YORK, at, sequence, utc

from redisbeater import InvalidEntry, any_of, clocked, cron, rrule
from redisbeater.model.definition import Definition
from redisbeater.schedules.budget import COUNTING_STEPS, Steps
from redisbeater.schedules.kinds import ScheduleCodec, comparable, describe, kind_of
from redisbeater.schedules.limited import limited
from redisbeater.schedules.timetable import Timetable, clock_change_note, next_fire_time
from redisbeater.schedules.window import checked_between, checked_days

CODEC = ScheduleCodec()
QUARTERS = schedule(timedelta(minutes=15))
GAP, REPEATED = "2026-03-08", "2026-11-01"


def minutes(number: int) -> BaseSchedule:
    return schedule(timedelta(minutes=number))


def fire_times(when: BaseSchedule, day: str, zone: ZoneInfo = NEW_YORK) -> str:
    """Return the fire times of a date as its clock shows them; those of a second pass with a mark."""
    midnight = at(f"{day} 00:00", zone)
    found = sequence(
        partial(next_fire_time, when, zone), midnight - timedelta(microseconds=1), midnight + timedelta(hours=23)
    )
    return " ".join(f"{local:%H:%M}{'*' * local.fold}" for local in (each.astimezone(zone) for each in found))


@pytest.mark.parametrize(
    ("between", "in_gap", "repeated"),
    [
        ("02:00-03:00", "03:00", "02:00 02:15 02:30 02:45"),
        ("02:30-04:00", "03:00 03:15 03:30 03:45", "02:30 02:45 03:00 03:15 03:30 03:45"),
        (
            "01:30-03:30",
            "01:30 01:45 03:00 03:15",
            "01:30 01:45 01:30* 01:45* 02:00 02:15 02:30 02:45 03:00 03:15",
        ),
        ("01:15-01:45", "01:15 01:30", "01:15 01:30 01:15* 01:30*"),
        ("00:30-01:30", "00:30 00:45 01:00 01:15", "00:30 00:45 01:00 01:15 01:00* 01:15*"),
    ],
)
@pytest.mark.parametrize("when", [QUARTERS, cron("*/15 * * * *")], ids=["interval", "cron"])
def test_every_fifteen_minutes_within_a_window_when_the_clocks_change(
    when: BaseSchedule, between: str, in_gap: str, repeated: str
) -> None:
    assert fire_times(limited(when, between), GAP) == in_gap
    assert fire_times(limited(when, between), REPEATED) == repeated


def test_an_interval_that_divides_no_hour_goes_on_while_its_window_is_open() -> None:
    when = limited(minutes(20), "01:30-03:30")

    assert fire_times(when, GAP) == "01:30 01:50 03:10"
    assert fire_times(when, REPEATED) == "01:30 01:50 01:30* 01:50* 02:10 02:30 02:50 03:10"


def test_each_window_in_a_gap_opens_once_at_its_end() -> None:
    assert fire_times(limited(minutes(10), "02:00-02:20,02:30-02:50,09:00-09:20"), GAP) == "03:00 09:00 09:10"
    assert fire_times(limited(cron("*/10 * * * *"), "02:00-02:20,09:00-09:20"), GAP) == "09:00 09:10"
    assert fire_times(limited(cron("0,10 2,9 * * *"), "02:00-02:20,09:00-09:20"), GAP) == "03:00 09:00 09:10"


def test_a_window_of_a_date_that_does_not_exist_does_not_open() -> None:
    apia, when = ZoneInfo("Pacific/Apia"), limited(minutes(30), "09:00-10:00")

    found = sequence(partial(next_fire_time, when, apia), utc("2011-12-29 12:00"), utc("2011-12-31 12:00"))

    assert [f"{each.astimezone(apia):%d %H:%M}" for each in found] == ["29 09:00", "29 09:30", "31 09:00", "31 09:30"]


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    friday = limited(minutes(120), "22:00-03:00", "fri")

    found = sequence(partial(next_fire_time, friday, timezone.utc), utc("2026-11-16 00:00"), utc("2026-11-29 00:00"))

    assert [f"{each:%a %d %H}" for each in found] == [
        "Fri 20 22", "Sat 21 00", "Sat 21 02", "Fri 27 22", "Sat 28 00", "Sat 28 02",
    ]  # fmt: skip
    hourly = limited(cron("0 * * * *"), "22:00-03:00", "fri")
    found = sequence(partial(next_fire_time, hourly, timezone.utc), utc("2026-11-16 00:00"), utc("2026-11-23 00:00"))
    assert [f"{each:%a %H}" for each in found] == ["Fri 22", "Fri 23", "Sat 00", "Sat 01", "Sat 02"]


def test_the_start_is_in_and_the_end_is_out() -> None:
    within = limited(cron("* * * * *"), "09:30-09:33")

    assert fire_times(within, "2026-05-05") == "09:30 09:31 09:32"
    assert fire_times(limited(minutes(1), "09:30-09:33"), "2026-05-05") == "09:30 09:31 09:32"
    assert fire_times(limited(cron("*/30 * * * * *"), "09:30-09:31"), "2026-05-05") == "09:30 09:30"


def test_days_alone_are_the_whole_days_and_an_interval_begins_anew_at_midnight() -> None:
    when = limited(schedule(timedelta(hours=7)), None, "sat-sun")

    found = sequence(partial(next_fire_time, when, timezone.utc), utc("2026-11-20 00:00"), utc("2026-11-24 00:00"))

    assert [f"{each:%a %H}" for each in found] == [
        f"{day} {hour}" for day in ("Sat", "Sun") for hour in ("00", "07", "14", "21")
    ]


def test_an_interval_depends_on_no_run_and_its_start_only_bounds_it() -> None:
    when, start = limited(minutes(25), "09:30-12:00"), utc("2026-11-20 10:00")
    table = Timetable(schedule=when, zone=timezone.utc, start_at=start, end_at=utc("2026-11-21 09:55"))

    assert table.period is None
    assert table.first(start) == utc("2026-11-20 10:20")
    assert table.next(utc("2026-11-20 11:59")) == utc("2026-11-21 09:30")
    assert table.resumed(utc("2026-11-20 11:11"), utc("2026-11-20 11:12")) == utc("2026-11-20 11:35")
    assert table.next(utc("2026-11-21 09:55")) is None


def test_many_fire_times_are_counted_by_days() -> None:
    begin = utc("2016-11-20 09:30")
    for when, number in ((minutes(5), 78), (cron("*/5 * * * *"), 78), (cron("*/5 * * * * *"), 78 * 60)):
        table = Timetable(schedule=limited(when, "09:30-16:00"), zone=timezone.utc)
        assert table.count(begin, begin + timedelta(days=2_000, hours=6, minutes=29, seconds=59)) == (
            2_001 * number,
            False,
        )


def test_beyond_the_budget_a_count_is_at_least() -> None:
    table = Timetable(schedule=limited(minutes(5), "09:30-16:00", "mon-fri"), zone=timezone.utc)

    found = table.count(utc("1990-01-01 09:30"), utc("2026-01-01 00:00"))

    assert found.is_at_least
    assert 100_000 < found.number < 36 * 261 * 78


def test_a_search_goes_by_days_each_of_which_takes_steps_and_each_window_of_it() -> None:
    def taken(between: str) -> int:
        steps = Steps(COUNTING_STEPS)
        next_fire_time(limited(minutes(5), between, "mon"), timezone.utc, utc("2026-11-24 00:00"), steps)
        return steps.taken

    quarters = ",".join(f"{hour:02}:{minute}-{hour:02}:{minute + 10}" for hour in range(24) for minute in (10, 30, 45))

    assert 50 <= taken("09:30-16:00") <= 200
    assert taken(quarters) > 20 * taken("09:30-16:00")


def test_a_fire_time_that_a_gap_has_moved_is_explained() -> None:
    when = limited(minutes(20), "02:30-04:00")

    assert (
        clock_change_note(when, NEW_YORK, at(f"{GAP} 03:00")) == "moved from 02:30, which does not exist on 2026-03-08"
    )
    assert clock_change_note(when, NEW_YORK, at(f"{GAP} 03:20")) == ""


# -- how they are read


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("9:30-16:00", "09:30-16:00"),
        (" 18:00 - 20:00 , 09:30-12:00", "09:30-12:00,18:00-20:00"),
        ("00:00-24:00", "00:00-24:00"),
        ("22:00-00:00", "22:00-24:00"),
        ("22:00-04:00", "22:00-04:00"),
        ("09:00-12:00,12:00-17:00", "09:00-12:00,12:00-17:00"),
        ("22:00-04:00,04:00-22:00", "04:00-22:00,22:00-04:00"),
    ],
)
def test_windows_have_one_form(given: str, text: str) -> None:
    assert checked_between(given, "$.between") == text
    assert checked_between(text, "$.between") == text


@pytest.mark.parametrize(
    "given",
    [
        "", "9-17", "09:30", "09:30-25:00", "24:00-04:00", "09:60-10:00", "09:00-09:00", "00:00-00:00", "09:30-16:00,",
        "09:00-12:00,11:59-13:00", "22:00-04:00,03:00-05:00", "00:00-24:00,09:00-10:00", "09:30-24:01",
        "\u0660\u0669:30-16:00", "09:30:00-16:00:00", ["09:30-16:00"], 9, True, "00:00-00:01," * 1_000,
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_window_is_refused(given: Any) -> None:
    with pytest.raises(InvalidEntry) as refused:
        Definition.checked(name="x", task="t", schedule=QUARTERS, between=given)

    assert refused.value.path == "$.between"


@pytest.mark.parametrize("given", ["", "monday-", "8", "fri#1", "L", "mon fri x", ["mon"], 1, "H"], ids=str)
def test_what_are_no_weekdays_is_refused(given: Any) -> None:
    with pytest.raises(InvalidEntry) as refused:
        Definition.checked(name="x", task="t", schedule=QUARTERS, days=given)

    assert refused.value.path == "$.days"


def test_days_are_weekdays_as_in_cron() -> None:
    assert checked_days(" mon-fri, 7 ", "$.days") == "mon-fri,7"
    for text, days in (
        ("fri-mon", "Fri Mon Sat Sun"),
        ("1-5", "Fri Mon Thu Tue Wed"),
        ("7", "Sun"),
        ("*/6", "Sat Sun"),
    ):
        when = limited(cron("0 12 * * *"), None, text)
        found = sequence(partial(next_fire_time, when, timezone.utc), utc("2026-11-16 00:00"), utc("2026-11-23 00:00"))
        assert " ".join(sorted(f"{each:%a}" for each in found)) == days


@pytest.mark.parametrize(
    "when",
    [
        schedule(timedelta(minutes=15), relative=True),
        rrule("FREQ=DAILY", dtstart=datetime(2026, 1, 1, 9)),
        clocked(datetime(2026, 1, 1, 9)),
        solar("sunset", 48, 16),
    ],
    ids=["relative", "rrule", "clocked", "solar"],
)
def test_other_schedules_have_no_windows(when: BaseSchedule) -> None:
    with pytest.raises(InvalidEntry, match="is for crons and for intervals that are not relative"):
        Definition.checked(name="x", task="t", schedule=when, between="09:30-16:00")


@pytest.mark.parametrize(
    ("when", "between", "days", "words"),
    [
        (cron("0 9 * * *"), "10:00-12:00", None, "'0 9 * * *' has no time between 10:00 and 12:00"),
        (cron("0 9 * * mon"), None, "sat", "'0 9 * * mon' has no time on Saturday"),
        (any_of("0 9 * * *", "0 11 * * *"), "10:00-12:00", None, "'0 9 * * *' has no time between"),
        (cron("0 2 29 2 *"), "22:00-02:00", None, "has no time between"),
        (minutes(30), "09:30-10:00", None, "a window must be longer than the interval"),
        (minutes(60), "09:00-17:00,18:00-18:30", None, "a window must be longer than the interval"),
        (schedule(86400), None, "mon-fri", "a window must be longer than the interval"),
    ],
)  # fmt: skip
def test_a_schedule_that_cannot_fire_within_is_refused(
    when: BaseSchedule, between: str | None, days: str | None, words: str
) -> None:
    with pytest.raises(InvalidEntry, match=re.escape(words)) as refused:
        Definition.checked(name="x", task="t", schedule=when, between=between, days=days)

    assert refused.value.path in ("$.between", "$.days")


def test_a_leap_day_within_a_window_is_found() -> None:
    when = limited(cron("0 2 29 2 *"), "22:00-03:00", "mon")

    assert next_fire_time(when, timezone.utc, utc("2026-01-01 00:00")) == utc("2028-02-29 02:00")


def test_an_interval_with_windows_counts_from_no_execution() -> None:
    with pytest.raises(InvalidEntry, match="'execution' is for intervals"):
        Definition.checked(name="x", task="t", schedule=QUARTERS, between="09:00-17:00", anchor="execution")


# -- how they are kept and described

WHEN = [
    pytest.param(QUARTERS, "09:30-16:00", "mon-fri", id="interval"),
    pytest.param(cron("*/15 * * * *"), "22:00-04:00", None, id="crontab"),
    pytest.param(cron("*/15 H(1-3) * * * *"), None, "sat", id="cron-expression"),
    pytest.param(any_of("*/15 * * * *", "0 12 L * *"), "09:30-16:00", "1-5", id="any-of"),
]


@pytest.mark.parametrize(("when", "between", "days"), WHEN)
def test_a_window_is_stored_with_the_schedule_and_read_back(
    when: BaseSchedule, between: str | None, days: str | None
) -> None:
    definition = Definition.checked(name="x", task="t", schedule=when, between=between, days=days)
    data = definition.to_data(CODEC)
    read = Definition.from_text("x", definition.to_text(CODEC), CODEC)

    assert data["schedule"]["__type__"] == "limited"
    assert not {"between", "days"} & data.keys()
    assert read == definition
    assert (read.between, read.days) == (between, days)
    assert read.plain_schedule == definition.plain_schedule
    assert read.has_same_fire_times_as(definition, CODEC)
    assert not read.changed(between="10:00-15:00", days=None).has_same_fire_times_as(definition, CODEC)
    assert CODEC.decode(data["schedule"]) == limited(when, between, days) or "H" in str(when)
    assert next_fire_time(read.schedule, NEW_YORK, utc("2026-05-05 00:00")) == next_fire_time(
        definition.schedule, NEW_YORK, utc("2026-05-05 00:00")
    )


@pytest.mark.parametrize(("when", "between", "days"), WHEN)
def test_without_its_window_an_entry_has_its_plain_schedule(
    when: BaseSchedule, between: str | None, days: str | None
) -> None:
    definition = Definition.checked(name="x", task="t", schedule=when, between=between, days=days)

    plain = definition.changed(between=None, days=None)

    assert plain.to_data(CODEC) == Definition.checked(name="x", task="t", schedule=when).to_data(CODEC)
    assert definition.changed(schedule=cron("*/30 * * * *")).between == between


def test_fields_beside_the_schedule_are_read_and_in_both_places_refused() -> None:
    stored = '{"task": "t", "schedule": {"__type__": "interval", "every": 60}, "between": "9:30-16:00"}'
    definition = Definition.from_text("x", stored, CODEC)
    assert definition.to_data(CODEC)["schedule"] == {
        "__type__": "limited",
        "schedule": {"__type__": "interval", "every": 60.0, "relative": False},
        "between": "09:30-16:00",
    }
    twice = definition.to_text(CODEC)[:-1] + ', "between": "09:30-16:00"}'
    with pytest.raises(InvalidEntry, match=r"\$\.between: is also in the schedule"):
        Definition.from_text("x", twice, CODEC)


@pytest.mark.parametrize(
    "schedule_",
    [
        {"schedule": {"__type__": "interval", "every": 60}, "season": "winter"},
        {"schedule": {"__type__": "interval", "every": 60}, "between": 5},
        {
            "schedule": {"__type__": "limited", "schedule": {"__type__": "interval", "every": 60}, "days": "1"},
            "days": "1",
        },
        {"schedule": {"__type__": "solar", "event": "sunset", "lat": 1, "lon": 1}, "days": "1"},
        {"schedule": "0 9 * * *", "days": "1"},
        {"between": "09:30-16:00"},
    ],
    ids=["unknown-limit", "number", "nested", "other-kind", "text", "nothing"],
)
def test_a_stored_limit_that_is_unknown_or_wrong_is_refused(schedule_: dict[str, Any]) -> None:
    stored = {"__type__": "limited", **schedule_}
    with pytest.raises(InvalidEntry):
        CODEC.decode(stored)
    with pytest.raises(InvalidEntry):
        Definition.from_text("x", f'{{"task": "t", "schedule": {stored}}}'.replace("'", '"'), CODEC)


def test_equal_windows_are_equal_however_their_schedule_is_written() -> None:
    one, other = (
        {"__type__": "limited", "schedule": {"__type__": "crontab", "minute": minute}, "days": "1"}
        for minute in (3, "3")
    )
    assert comparable(one) == comparable(other)
    assert comparable(one) != comparable({**other, "days": "2"})


@pytest.mark.parametrize(("when", "between", "days"), WHEN)
def test_copies_and_pickles_are_equal(when: BaseSchedule, between: str | None, days: str | None) -> None:
    bound = limited(kind_of(when).for_entry(when, "x"), between, days)

    assert copy.copy(bound) == pickle.loads(pickle.dumps(bound)) == bound
    assert hash(copy.deepcopy(bound)) == hash(bound)
    assert bound != limited(minutes(1), "00:00-01:00")


@pytest.mark.parametrize(
    ("when", "between", "days", "words"),
    [
        (QUARTERS, "09:30-16:00", "mon-fri", "every 15 minutes, between 09:30 and 16:00 on Monday to Friday, UTC"),
        (crontab("0", "*"), "06:00-22:00", None, "at 00 minutes past every hour, between 06:00 and 22:00, UTC"),
        (QUARTERS, "22:00-04:00", "fri", "every 15 minutes, between 22:00 and 04:00 opening on Friday, UTC"),
        (QUARTERS, None, "sat,sun", "every 15 minutes, on Saturday and Sunday, UTC"),
        (QUARTERS, "00:00-24:00", None, "every 15 minutes, between 00:00 and 24:00, UTC"),
        (QUARTERS, "09:00-12:00,13:00-17:00", None,
         "every 15 minutes, between 09:00 and 12:00 and 13:00 and 17:00, UTC"),
    ],
)  # fmt: skip
def test_a_window_in_words(when: BaseSchedule, between: str | None, days: str | None, words: str) -> None:
    assert describe(limited(when, between, days), "UTC").partition(" (")[0] == words


def test_a_repeating_cron_goes_by_the_clock_within_a_window() -> None:
    assert describe(limited(cron("*/5 * * * *"), "01:00-03:00")).endswith(
        "(repeating: by the clock, so twice at a time that comes twice when the clocks change)"
    )
    assert "(fixed: " in describe(limited(cron("0 9 * * *"), "09:00-10:00"))
