"""Calendars: which days count, what rolls where, how they are read and refused; and a naive reference of days."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from functools import partial
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, schedule, solar
from hypothesis import given
from hypothesis import strategies as st
from moments import at, sequence, utc
from shifts import shifts, span
from support.examples import examples
from window_reference import Cron, Windows, clock_around

from redisbeater import InvalidEntry, any_of, cron
from redisbeater.model.definition import Definition
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.calendar import Calendar, Days, checked_calendar
from redisbeater.schedules.kinds import ScheduleCodec, describe
from redisbeater.schedules.limited import limited
from redisbeater.schedules.timetable import Timetable, next_fire_time, roll_note
from redisbeater.schedules.window import FIELDS

VIENNA, DAY = ZoneInfo("Europe/Vienna"), timedelta(days=1)
FROM, TO = date(2026, 1, 1), date(2026, 12, 31)

#: The holidays of Austria in the last quarter of 2026.
HOLIDAYS = {
    "2026-10-26": "National Day",
    "2026-11-01": "All Saints",
    "2026-12-08": "",
    "2026-12-25": "",
    "2026-12-26": "",
}


def days(counts: Any, first: date = FROM, last: date = TO) -> Days:
    """Return the days from one to another of which a function says that they count."""
    length = (last - first).days + 1
    return Days(first, length, sum(1 << place for place in range(length) if counts(first + place * DAY)))


def is_working_day(day: date) -> bool:
    return day.weekday() < 5 and day.isoformat() not in HOLIDAYS


AT = Calendar(name="at", days=days(is_working_day), names=HOLIDAYS, version=1)
XETR = Calendar(name="xetr", days=days(lambda day: day.weekday() < 5, last=date(2026, 11, 15)), version=2)
CALENDARS = {"at": AT, "xetr": XETR}


def on(when: BaseSchedule, calendar: str, roll: str | None = None, **window: str) -> limited:
    return limited(when, calendar=calendar, roll=roll, **window).on_days_of(CALENDARS)


def fire_dates(when: BaseSchedule, start: str, end: str, zone: ZoneInfo = VIENNA) -> str:
    """Return the local dates of its fire times from one date to another, both included."""
    bounds = at(f"{start} 00:00", zone) - timedelta(microseconds=1), at(f"{end} 00:00", zone) + DAY
    found = sequence(partial(next_fire_time, when, zone), *bounds)
    return " ".join(f"{each.astimezone(zone):%-d/%-m}" for each in found)


@pytest.mark.parametrize(
    ("text", "roll", "expected"),
    [
        ("0 9 26 10 *", "next", "27/10"),
        ("0 9 26 10 *", "previous", "23/10"),
        ("0 9 26 10 *", "modified", "27/10"),
        ("0 9 31 10 *", "next", "2/11"),
        ("0 9 31 10 *", "previous", "30/10"),
        ("0 9 31 10 *", "modified", "30/10"),
        ("0 9 1 11 *", "next", "2/11"),
        ("0 9 1 11 *", "previous", "30/10"),
        ("0 9 1 11 *", "modified", "2/11"),
        ("0 9 25,26 12 *", "next", "28/12"),
        ("0 9 25,26 12 *", "previous", "24/12"),
        ("0 9 25,26 12 *", "modified", "28/12"),
        ("0 9 1 * *", "next", "1/10 2/11 1/12"),
        ("0 9 L * *", "previous", "30/10 30/11 31/12"),
        ("0 9 15 10 *", "next", "15/10"),
    ],
)
def test_a_day_that_does_not_count_rolls(text: str, roll: str, expected: str) -> None:
    assert fire_dates(on(cron(text), "at", roll), "2026-10-01", "2026-12-31") == expected


#: ISDA's conventions, by their definition: Following, Preceding, Modified Following; in the order of the rolls.
ISDA = {
    "a working day": ("2026-10-15", "2026-10-15", "2026-10-15", "2026-10-15"),
    "a Saturday": ("2026-10-10", "2026-10-12", "2026-10-09", "2026-10-12"),
    "a holiday on Monday": ("2026-10-26", "2026-10-27", "2026-10-23", "2026-10-27"),
    "a Saturday at the end of a month": ("2026-10-31", "2026-11-02", "2026-10-30", "2026-10-30"),
    "a Sunday at the end of a month": ("2026-05-31", "2026-06-01", "2026-05-29", "2026-05-29"),
    "a Sunday at its beginning": ("2026-11-01", "2026-11-02", "2026-10-30", "2026-11-02"),
    "Christmas": ("2026-12-25", "2026-12-28", "2026-12-24", "2026-12-28"),
}


@pytest.mark.parametrize(("day", "following", "preceding", "modified"), ISDA.values(), ids=list(ISDA))
def test_the_conventions_of_isda(day: str, following: str, preceding: str, modified: str) -> None:
    found = [AT.days.rolled(date.fromisoformat(day), roll) for roll in ("next", "previous", "modified")]

    assert [each and each.isoformat() for each in found] == [following, preceding, modified]


def test_nothing_fires_or_rolls_outside_of_what_a_calendar_covers() -> None:
    assert fire_dates(on(cron("0 9 * * *"), "at"), "2025-12-25", "2026-01-06") == "1/1 2/1 5/1 6/1"
    assert fire_dates(on(cron("0 9 * * *"), "!at"), "2026-12-20", "2027-01-10") == "20/12 25/12 26/12 27/12"
    assert fire_dates(on(cron("0 9 2 1 *"), "at", "previous"), "2026-12-20", "2027-01-10") == ""
    assert next_fire_time(on(cron("0 9 * * *"), "at"), VIENNA, utc("2026-12-31 12:00")) is None
    assert next_fire_time(on(schedule(3600), "at"), VIENNA, utc("2026-12-31 23:00")) is None
    assert fire_dates(on(cron("0 9 * * *"), "at,xetr"), "2026-11-12", "2026-11-20") == "12/11 13/11"


def test_a_day_rolls_by_a_month_and_no_farther() -> None:
    gap = days(lambda day: not date(2026, 3, 2) <= day <= date(2026, 5, 1))
    calendars = {"gap": Calendar(name="gap", days=gap)}
    when = limited(cron("0 9 * 3,4,5 *"), calendar="gap", roll="next").on_days_of(calendars)

    assert fire_dates(when, "2026-02-01", "2026-05-04") == "1/3 2/5 3/5 4/5"
    assert gap.rolled(date(2026, 3, 31), "next") is None
    assert gap.rolled(date(2026, 4, 1), "next") == date(2026, 5, 2)
    assert gap.rolled(date(2026, 3, 31), "modified") == date(2026, 3, 1)
    assert gap.rolled(date(2026, 4, 2), "previous") is None


@pytest.mark.parametrize("roll", ["next", "previous", "modified"])
def test_no_day_rolls_into_a_calendar_that_does_not_cover_it(roll: str) -> None:
    assert [AT.days.rolled(day, roll) for day in (AT.days.first - DAY, AT.days.last + DAY)] == [None, None]


def test_the_note_says_from_which_days_a_fire_time_was_moved() -> None:
    first, christmas = on(cron("0 9 1 * *"), "at", "next"), on(cron("0 9 25,26 12 *"), "at", "next")
    union = on(any_of("0 9 1 * *", "0 9 25,26 12 *"), "at", "next")

    assert roll_note(first, VIENNA, at("2026-11-02 09:00", VIENNA)) == "rolled from Sunday 1 November 2026"
    assert roll_note(first, VIENNA, at("2026-10-01 09:00", VIENNA)) == ""
    assert roll_note(union, VIENNA, at("2026-11-02 09:00", VIENNA)) == "rolled from Sunday 1 November 2026"
    words = "rolled from Friday 25 December 2026 and Saturday 26 December 2026"
    assert roll_note(christmas, VIENNA, at("2026-12-28 09:00", VIENNA)) == words


def test_a_window_counts_by_the_day_on_which_it_opens() -> None:
    when = on(schedule(timedelta(hours=2)), "!at", between="22:00-04:00")

    found = sequence(partial(next_fire_time, when, VIENNA), utc("2026-12-24 12:00"), utc("2026-12-26 02:00"))
    assert [f"{each.astimezone(VIENNA):%a %H:%M}" for each in found] == ["Fri 22:00", "Sat 00:00", "Sat 02:00"]
    on_working_days = on(cron("0 23,1,3 * * *"), "at", between="22:00-02:00")
    found = sequence(partial(next_fire_time, on_working_days, VIENNA), utc("2026-12-24 12:00"), utc("2026-12-28 23:00"))
    assert [f"{each.astimezone(VIENNA):%a %H:%M}" for each in found] == ["Thu 23:00", "Fri 01:00", "Mon 23:00"]


def test_an_interval_without_a_window_begins_anew_at_midnight() -> None:
    when = on(schedule(timedelta(hours=7)), "at")

    found = sequence(partial(next_fire_time, when, VIENNA), utc("2026-10-23 20:00"), utc("2026-10-27 22:00"))
    assert [f"{each.astimezone(VIENNA):%-d %H:%M}" for each in found] == [
        "27 00:00",
        "27 07:00",
        "27 14:00",
        "27 21:00",
    ]


def test_all_calendars_of_an_entry_agree() -> None:
    assert fire_dates(on(cron("0 9 * * *"), "xetr,!at"), "2026-10-20", "2026-11-15") == "26/10"
    assert fire_dates(on(cron("0 9 * * *"), "at,!xetr"), "2026-10-20", "2026-11-15") == ""


# Against a reference


@st.composite
def calendars(draw: st.DrawFn, around: date) -> Calendar:
    """Draw a calendar around a date, with stretches that count and others."""
    first = around - draw(st.integers(0, 60)) * DAY
    length = draw(st.integers(1, 120))
    bits = draw(st.integers(0, (1 << length) - 1)) | draw(st.integers(0, (1 << length) - 1)) >> draw(st.integers(0, 9))
    return Calendar(name="drawn", days=Days(first, length, bits & ((1 << length) - 1)))


def dates_that(calendar: Calendar, *, inverted: bool) -> frozenset[date]:
    """The dates of a calendar that count, or the others, each looked up in the digits of a number."""
    digits = f"{calendar.days.bits:0{calendar.days.length}b}"[::-1]
    return frozenset(
        calendar.days.first + place * DAY for place, digit in enumerate(digits) if (digit == "1") != inverted
    )


def rolled(day: date, roll: str, counted: frozenset[date], covered: set[date]) -> date | None:
    """The day to which another is moved, by looking at one after the other."""
    if day not in covered or day in counted:
        return day if day in covered else None
    later = next((day + step * DAY for step in range(1, 32) if day + step * DAY in counted), None)
    earlier = next((day - step * DAY for step in range(1, 32) if day - step * DAY in counted), None)
    if roll == "modified":
        return later if later and (later.year, later.month) == (day.year, day.month) else earlier
    return later if roll == "next" else earlier


def check(when: BaseSchedule, zone: ZoneInfo, day: str, expected: set[datetime]) -> None:
    start, end = span(day)
    wanted = sorted(each for each in expected if start < each < end)
    assert sequence(partial(next_fire_time, when, zone), start, end) == wanted
    table = Timetable(schedule=when, zone=zone)
    if wanted:
        assert table.count(wanted[0], end - timedelta(microseconds=1)) == (len(wanted), False)
        assert table.newest(wanted[0], end - timedelta(microseconds=1)) == wanted[-1]
    assert all(table.fires_at(each) for each in wanted[::7])


@shifts
@examples(4, default=2)
@given(
    data=st.data(),
    inverted=st.booleans(),
    at_night=st.booleans(),
    text=st.sampled_from(["30 1,2 * * *", "*/20 * * * *"]),
)
def test_crons_and_intervals_fire_on_the_days_of_a_calendar(
    zone: str, day: str, data: st.DataObject, inverted: bool, at_night: bool, text: str
) -> None:
    calendar = data.draw(calendars(span(day)[0].date()))
    spans, between = (((1320, 240),), "22:00-04:00") if at_night else (((0, 1440),), None)
    drawn = Windows(spans=spans, dates=dates_that(calendar, inverted=inverted))
    info, clock = ZoneInfo(zone), clock_around(zone, day)
    is_repeating = text.startswith("*")
    hours, minutes = (set(range(24)), {0, 20, 40}) if is_repeating else ({1, 2}, {30})
    name = "!drawn" if inverted else "drawn"

    of_cron, of_interval = (
        limited(each, between, calendar=name).on_days_of({"drawn": calendar}) for each in (cron(text), schedule(1500))
    )
    meant = Cron(frozenset(hours), frozenset(minutes), is_repeating)
    check(of_cron, info, day, clock.cron(meant, drawn))
    check(of_interval, info, day, clock.interval(25, drawn))


@shifts
@examples(4, default=2)
@given(data=st.data(), inverted=st.booleans(), roll=st.sampled_from(["next", "previous", "modified"]),
       dates=st.sets(st.integers(1, 31), min_size=1))  # fmt: skip
def test_a_fixed_cron_rolls_as_the_reference_does(
    zone: str, day: str, data: st.DataObject, inverted: bool, roll: str, dates: set[int]
) -> None:
    calendar = data.draw(calendars(span(day)[0].date()))
    counted = dates_that(calendar, inverted=inverted)
    covered = counted | dates_that(calendar, inverted=not inverted)
    targets = frozenset(
        target for each in covered if each.day in dates and (target := rolled(each, roll, counted, covered))
    )
    text = f"0,30 1,2 {','.join(map(str, sorted(dates)))} * *"
    when = limited(cron(text), calendar="!drawn" if inverted else "drawn", roll=roll).on_days_of({"drawn": calendar})

    meant = Cron(frozenset({1, 2}), frozenset({0, 30}), is_repeating=False)
    expected = clock_around(zone, day).cron(meant, Windows(dates=targets))
    check(when, ZoneInfo(zone), day, expected)


# Read, stored, described, refused


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"calendar": "AT"}, "$.calendar: expected a name of a calendar: 1 to 64 of a-z 0-9 . _ -, got 'AT'"),
        ({"calendar": ""}, "$.calendar: expected a name of a calendar"),
        ({"calendar": "at,"}, "$.calendar: expected a name of a calendar"),
        ({"calendar": 5}, "$.calendar: expected names of calendars as a text"),
        ({"calendar": "at,!at"}, "$.calendar: expected at most 5 different calendars"),
        ({"calendar": "a,b,c,d,e,f"}, "$.calendar: expected at most 5 different calendars"),
        ({"roll": "next"}, "$.roll: is for entries with a calendar"),
        ({"calendar": "at", "roll": "nearest"}, "$.roll: expected one of 'next', 'previous', 'modified'"),
        ({"calendar": "at", "roll": "next", "days": "mon-fri"}, "$.roll: is not for entries with between or days"),
        ({"calendar": "at", "roll": "next", "schedule": cron("0 * * * *")}, "$.roll: is for crons of fixed times"),
        ({"calendar": "at", "roll": "next", "schedule": 60}, "$.roll: is for crons of fixed times"),
        (
            {"calendar": "at", "roll": "next", "schedule": any_of("0 9 * * *", "*/5 * * * *")},
            "'*/5 * * * *' means elapsed",
        ),
        ({"calendar": "at", "schedule": 86_400}, "$.calendar: an interval begins anew on each day"),
        ({"calendar": "at", "schedule": solar("sunset", 48.2, 16.4)}, "$.calendar: is for crons and for intervals"),
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidEntry, match=re.escape(problem)):
        Definition.checked(**{"name": "e", "task": "t", "schedule": cron("0 9 * * *"), **fields})


def test_a_text_of_calendars_has_one_form() -> None:
    assert checked_calendar(" at , !xnys ", "$.calendar") == "at,!xnys"


@pytest.mark.parametrize("when", [cron("0 9 1 * *"), any_of("0 9 1 * *", "0 12 L * *")], ids=["cron", "any-of"])
def test_calendar_and_roll_are_stored_with_the_schedule_and_read_back(when: BaseSchedule) -> None:
    codec = ScheduleCodec()
    definition = Definition.checked(name="e", task="t", schedule=when, calendar="at,!xetr", roll="modified")

    stored = definition.to_data(codec)["schedule"]
    assert stored["__type__"] == "limited"
    assert {name: stored[name] for name in FIELDS if name in stored} == {"calendar": "at,!xetr", "roll": "modified"}
    read = Definition.from_text("e", definition.to_text(codec), codec)
    assert (read.calendar, read.roll, read.calendars) == ("at,!xetr", "modified", ["at", "xetr"])
    assert read.has_same_fire_times_as(definition, codec)
    assert not read.changed(roll="next").has_same_fire_times_as(definition, codec)


def test_a_calendar_that_there_is_not_is_named_when_a_fire_time_is_asked_for() -> None:
    for when in (cron("0 9 * * *"), schedule(60)):
        definition = Definition.checked(name="e", task="t", schedule=when, calendar="at,!nobody")
        table = definition.timetable(VIENNA, CALENDARS)
        with pytest.raises(InvalidEntry, match=r"\$\.calendar: there is no calendar 'nobody'; import it"):
            table.next(utc("2026-06-01"))


def test_the_words_say_which_days_and_where_others_go() -> None:
    assert describe(on(cron("0 9 1 * *"), "at", "next"), "Europe/Vienna") == (
        "at 09:00 on day 1 of the month, on days that count in at, else on the next day that counts, Europe/Vienna"
        " (fixed: once a day, whatever the clocks do)"
    ).replace(" (fixed: once a day, whatever the clocks do)", describe(cron("0 9 1 * *"), None).partition(" month")[2])
    assert "every 5 minutes, between 09:30 and 16:00, on days that count in xnys" in describe(
        limited(schedule(300), "09:30-16:00", calendar="xnys")
    )
    assert "on days that count in at and do not count in xetr" in describe(limited(schedule(300), calendar="at,!xetr"))


def test_a_schedule_with_its_days_can_be_pickled() -> None:
    when = pickle.loads(pickle.dumps(on(cron("0 9 * * *"), "at")))

    assert fire_dates(when, "2026-10-23", "2026-10-28") == "23/10 27/10 28/10"


def test_the_same_calendar_of_another_version_gives_other_fire_times() -> None:
    when = on(cron("0 9 * * *"), "at")
    more = replace(AT, days=days(lambda day: is_working_day(day) and day.day != 28), version=3)

    assert fire_dates(when.on_days_of({"at": more}), "2026-10-23", "2026-10-29") == "23/10 27/10 29/10"


def test_a_search_that_finds_nothing_in_a_hundred_years_ends() -> None:
    century = Calendar(name="c", days=days(lambda day: day.weekday() < 5, date(2020, 1, 1), date(2119, 12, 31)))
    calendars, begun = {"c": century}, process_time()
    for when in (cron("* * * * sat"), schedule(60)):
        never = (
            limited(when, days="sun", calendar="c").on_days_of(calendars)
            if when != cron("* * * * sat")
            else (limited(when, calendar="c").on_days_of(calendars))
        )
        assert next_fire_time(never, VIENNA, datetime(2026, 1, 1, tzinfo=timezone.utc), Steps(10**6)) is None
    assert process_time() - begun < 5
