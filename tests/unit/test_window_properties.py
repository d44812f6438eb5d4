"""Windows and unions against a naive reference of minutes, around the shifts of many zones.

``REDISBEATER_EXAMPLES=20 pytest --whole --hypothesis-seed=1`` on this file tries some 3,000 specifications.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, schedule
from hypothesis import assume, given
from hypothesis import strategies as st
from moments import cron, sequence
from shifts import shifts, span
from support.examples import examples
from window_reference import Cron, Windows, clock_around

from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.any_of import any_of
from redisbeater.schedules.limited import limited
from redisbeater.schedules.timetable import Timetable, next_fire_time

MICROSECOND = timedelta(microseconds=1)
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

#: Minutes of the day around shifts, and others.
_minutes = st.one_of(
    st.sampled_from([0, 1, 15, 30, 45, 60, 75, 90, 120, 150, 180, 210, 1380, 1410, 1439]), st.integers(0, 1439)
)
_weekdays = st.one_of(st.just(frozenset(range(7))), st.frozensets(st.integers(0, 6), min_size=1))


def _text(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    """Draw one to three windows that do not overlap, the last perhaps over midnight."""
    marks = sorted(draw(st.lists(_minutes, min_size=2, max_size=6, unique=True)))
    marks = marks[: len(marks) // 2 * 2]
    spans = list(zip(marks[::2], marks[1::2]))
    if draw(st.booleans()):  # what lies between them, and around the end of the day
        spans = list(zip(marks[1::2], [*marks[2::2], marks[0]]))
    return Windows(tuple(spans), draw(_weekdays))


def fields(drawn: Windows) -> tuple[str, str]:
    """Return the two fields of an entry that mean some windows."""
    between = ",".join(f"{_text(start)}-{_text(end)}" for start, end in drawn.spans)
    return between, ",".join(DAYS[day] for day in sorted(drawn.days))


_hours = st.frozensets(st.one_of(st.sampled_from([0, 1, 2, 3, 23]), st.integers(0, 23)), min_size=1, max_size=4)
_of_hour = st.frozensets(st.one_of(st.sampled_from([0, 15, 30, 59]), st.integers(0, 59)), min_size=1, max_size=3)


@st.composite
def crons(draw: st.DrawFn) -> tuple[str, Cron]:
    """Draw a cron text, and what it means."""
    days = draw(_weekdays)
    on_days = "*" if len(days) == 7 else _listed(days)
    if draw(st.booleans()):
        hours, minutes = draw(_hours), draw(_of_hour)
        return f"{_listed(minutes)} {_listed(hours)} * * {on_days}", Cron(hours, minutes, False, days)
    step = draw(st.sampled_from([5, 15, 20, 30, 60]))
    hours = draw(st.one_of(st.just(frozenset(range(24))), _hours))
    of_hour = "*" if len(hours) == 24 else _listed(hours)
    text = f"{'0' if step == 60 else f'*/{step}'} {of_hour} * * {on_days}"
    return text, Cron(hours, frozenset(range(0, 60, step)), step != 60 or of_hour == "*", days)


def _listed(numbers: frozenset[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def check(when: BaseSchedule, zone: ZoneInfo, day: str, expected: set[datetime]) -> None:
    """Compare what the engine finds, counts and knows of single instants with a set of fire times."""
    start, end = span(day)
    wanted = sorted(at for at in expected if start < at < end)
    assert sequence(partial(next_fire_time, when, zone), start, end) == wanted
    table = Timetable(schedule=when, zone=zone)
    if wanted:
        assert table.count(wanted[0], end - MICROSECOND) == (len(wanted), False)
        assert table.newest(wanted[0], end - MICROSECOND) == wanted[-1]
    assert all(table.fires_at(at) for at in wanted[::7])
    assert not any(table.fires_at(at + timedelta(seconds=1)) for at in wanted[::7])


@shifts
@examples(6, default=3)
@given(drawn=windows(), of_cron=crons())
def test_a_cron_fires_at_its_slots_within(zone: str, day: str, drawn: Windows, of_cron: tuple[str, Cron]) -> None:
    text, meant = of_cron
    try:
        when = limited(cron(text), *fields(drawn))
    except InvalidEntry:
        assume(False)

    check(when, ZoneInfo(zone), day, clock_around(zone, day).cron(meant, drawn))


@shifts
@examples(6, default=3)
@given(drawn=windows(), length=st.one_of(st.sampled_from([1, 7, 15, 20, 30]), st.integers(1, 120)))
def test_an_interval_begins_anew_at_each_opening(zone: str, day: str, drawn: Windows, length: int) -> None:
    assume(all(length < (end - start) % 1440 for start, end in drawn.spans))
    info = ZoneInfo(zone)
    when = limited(schedule(timedelta(minutes=length)), *fields(drawn))
    clock = clock_around(zone, day)

    check(when, info, day, clock.interval(length, drawn))


@shifts
@examples(4, default=2)
@given(parts=st.lists(crons(), min_size=2, max_size=4, unique_by=lambda each: each[0]), drawn=st.none() | windows())
def test_a_union_fires_at_the_times_of_each_part(
    zone: str, day: str, parts: list[tuple[str, Cron]], drawn: Windows | None
) -> None:
    when: BaseSchedule = any_of(*(text for text, _ in parts))
    try:
        when = limited(when, *fields(drawn)) if drawn else when
    except InvalidEntry:
        assume(False)
    clock = clock_around(zone, day)

    check(when, ZoneInfo(zone), day, set().union(*(clock.cron(meant, drawn or Windows()) for _, meant in parts)))


@shifts
@examples(4, default=3)
@given(
    start=st.integers(0, 93),
    quarters=st.integers(2, 95),
    days=st.sampled_from([None, "mon-fri", "sat,sun", "*"]),
    data=st.data(),
)
def test_fifteen_minutes_fire_as_every_quarter_of_an_hour_does(
    zone: str, day: str, start: int, quarters: int, days: str | None, data: st.DataObject
) -> None:
    end = min(start + quarters, 96)
    between = f"{_text(start * 15)}-{_text(end * 15) if end < 96 else '24:00'}"
    info, (since, until) = ZoneInfo(zone), span(day)
    found = [
        sequence(partial(next_fire_time, limited(plain, between, days), info), since, until)
        for plain in (schedule(timedelta(minutes=15)), cron("*/15 * * * *"))
    ]

    assume(all(at.astimezone(info).minute % 15 == 0 for at in found[0]))  # a shift at one minute past midnight
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("wide", "between", "narrow"),
    [
        ("*/15 * * * *", "02:00-03:00", "*/15 2 * * *"),
        ("*/20 * * * *", "22:00-02:00", "*/20 22,23,0,1 * * *"),
        ("0 * * * *", "00:30-03:30", "0 1-3/1 * * *"),
        ("30 0,1,2,3 * * *", "01:00-03:00", "30 1,2 * * *"),
        ("0,30 1,2 * * *", "01:30-02:30", "30 1 * * *;0 2 * * *"),
    ],
)
@shifts
def test_a_windowed_cron_is_the_cron_of_its_slots(zone: str, day: str, wide: str, between: str, narrow: str) -> None:
    info, (start, end) = ZoneInfo(zone), span(day)
    of_window = sequence(partial(next_fire_time, limited(cron(wide), between), info), start, end)
    of_slots = {
        at for each in narrow.split(";") for at in sequence(partial(next_fire_time, cron(each), info), start, end)
    }

    assert of_window == sorted(of_slots)
