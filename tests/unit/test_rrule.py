from __future__ import annotations

import json
import pickle
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from dateutil import relativedelta
from dateutil.rrule import DAILY, FR, HOURLY, MINUTELY, MO, MONTHLY, SECONDLY, TU, WEEKLY, YEARLY, rrulestr
from dateutil.rrule import rrule as dateutil_rrule
from hypothesis import assume, example, given
from hypothesis import strategies as st
from moments import NEW_YORK, at, local, sequence, utc
from support.examples import examples

from redisbeater import rrule
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.zones import to_utc

UTC = timezone.utc
VIENNA = ZoneInfo("Europe/Vienna")
NINE = datetime(2026, 1, 1, 9)


def upcoming(rule: rrule, after: datetime, count: int = 3) -> list[str]:
    """Return the next fire times as local times of the rule with their offset."""
    found: list[str] = []
    fire_time = rule.next_fire_time(after)
    while fire_time is not None and len(found) < count:
        found.append(local(fire_time, rule.zone))
        fire_time = rule.next_fire_time(fire_time)
    return found


def lines(*texts: str) -> str:
    return "\n".join(texts)


def through_json(rule: rrule) -> Any:
    codec = ScheduleCodec()
    return codec.decode(json.loads(json.dumps(codec.encode(rule))))


# -- made from text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("FREQ=MONTHLY;BYDAY=1MO", ["2026-01-05 09:00 +0100", "2026-02-02 09:00 +0100"], id="first-monday"),
        pytest.param("FREQ=MONTHLY;BYDAY=-1FR", ["2026-01-30 09:00 +0100", "2026-02-27 09:00 +0100"], id="last-friday"),
        pytest.param(
            "RRULE:FREQ=DAILY;INTERVAL=2", ["2026-01-01 09:00 +0100", "2026-01-03 09:00 +0100"], id="with-its-name"
        ),
        pytest.param(
            "rrule:freq=weekly;byday=tu,th", ["2026-01-01 09:00 +0100", "2026-01-06 09:00 +0100"], id="small-letters"
        ),
        pytest.param(
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            ["2026-01-30 09:00 +0100", "2026-02-27 09:00 +0100"],
            id="last-work-day",
        ),
        pytest.param(
            "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", ["2026-05-11 09:00 +0200", "2027-05-17 09:00 +0200"], id="week-20"
        ),
        pytest.param("FREQ=YEARLY;BYEASTER=-2", ["2026-04-03 09:00 +0200", "2027-03-26 09:00 +0100"], id="good-friday"),
        pytest.param(
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1", ["2026-02-28 09:00 +0100", "2027-02-28 09:00 +0100"], id="negative"
        ),
        pytest.param("FREQ=DAILY;COUNT=1", ["2026-01-01 09:00 +0100"], id="count"),
        pytest.param("FREQ=DAILY;UNTIL=20260102T080000Z", ["2026-01-01 09:00 +0100", "2026-01-02 09:00 +0100"], id="z"),
        pytest.param("FREQ=DAILY;UNTIL=20260101T090000", ["2026-01-01 09:00 +0100"], id="until-in-local-time"),
        pytest.param("FREQ=DAILY;UNTIL=20260102", ["2026-01-01 09:00 +0100"], id="until-a-midnight"),
    ],
)
def test_a_rule_may_be_an_rrule_text(text: str, expected: list[str]) -> None:
    rule = rrule(text, dtstart=NINE, timezone="Europe/Vienna")

    assert upcoming(rule, utc("2025-12-31"), 2) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            lines("DTSTART;TZID=Europe/Vienna:20260101T090000", "RRULE:FREQ=DAILY"),
            ["2026-01-01 09:00 +0100", "2026-01-02 09:00 +0100"],
            id="start-in-a-zone",
        ),
        pytest.param(
            lines('DTSTART;TZID="Europe/Vienna";VALUE=DATE-TIME:20260101T090000', "RRULE:FREQ=DAILY"),
            ["2026-01-01 09:00 +0100", "2026-01-02 09:00 +0100"],
            id="start-with-quotes",
        ),
        pytest.param(
            lines("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY"),
            ["2026-01-01 09:00 +0000", "2026-01-02 09:00 +0000"],
            id="start-in-utc",
        ),
        pytest.param(
            lines("DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY", "EXDATE;VALUE=DATE:20260102"),
            ["2026-01-01 00:00 +0000", "2026-01-03 00:00 +0000"],
            id="days-without-a-time",
        ),
        pytest.param(
            "DTSTART;TZID=Europe/Vienna:20260101T090000\r\nRRULE:FREQ=MON\r\n THLY;BYDAY\r\n\t=1MO\r\n",
            ["2026-01-05 09:00 +0100", "2026-02-02 09:00 +0100"],
            id="folded",
        ),
        pytest.param(
            lines("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY;INTERVAL=3", "RRULE:FREQ=DAILY;INTERVAL=2"),
            ["2026-01-01 09:00 +0000", "2026-01-03 09:00 +0000", "2026-01-04 09:00 +0000", "2026-01-05 09:00 +0000"],
            id="two-rules",
        ),
        pytest.param(
            lines(
                "DTSTART;TZID=Europe/Vienna:20260101T090000",
                "RRULE:FREQ=DAILY;COUNT=3",
                "RDATE;TZID=Europe/Vienna:20260101T090000,20260101T120000",
                "RDATE;TZID=America/New_York:20260101T120000",
                "EXDATE:20260102T080000Z",
            ),
            ["2026-01-01 09:00 +0100", "2026-01-01 12:00 +0100", "2026-01-01 18:00 +0100", "2026-01-03 09:00 +0100"],
            id="dates-in-several-zones",
        ),
        pytest.param(
            lines("DTSTART;TZID=Europe/Vienna:20260101T090000", "RDATE:20260301T090000,20260201T090000"),
            ["2026-02-01 09:00 +0100", "2026-03-01 09:00 +0100"],
            id="dates-alone",
        ),
        pytest.param(
            lines("DTSTART:20260101T090000Z", "RDATE:20260301T090000,20260201T090000", "EXDATE:20260201T090000Z"),
            ["2026-03-01 09:00 +0000"],
            id="a-date-that-is-excluded",
        ),
    ],
)
def test_a_rule_may_be_lines_of_text(text: str, expected: list[str]) -> None:
    assert upcoming(rrule(text), utc("2025-12-31"), 4)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("dtstart", "zone", "expected"),
    [
        pytest.param(datetime(2026, 1, 1, 9), "Europe/Vienna", "2026-01-01 09:00 +0100", id="naive"),
        pytest.param(datetime(2026, 1, 1, 9, tzinfo=NEW_YORK), "Europe/Vienna", "2026-01-01 15:00 +0100", id="other"),
        pytest.param(datetime(2026, 1, 1, 9, tzinfo=VIENNA), None, "2026-01-01 09:00 +0100", id="its-own"),
        pytest.param(utc("2026-01-01 09:00"), "UTC", "2026-01-01 09:00 +0000", id="utc"),
    ],
)
@pytest.mark.parametrize("freq", ["DAILY", "FREQ=DAILY"])
def test_local_times_are_those_of_the_zone(freq: str, dtstart: datetime, zone: str | None, expected: str) -> None:
    assert upcoming(rrule(freq, dtstart=dtstart, timezone=zone), utc("2025-12-31"), 1) == [expected]


def test_a_start_without_a_zone_is_read_in_that_of_the_app() -> None:
    app = Celery(set_as_current=False)
    app.conf.timezone = "Europe/Vienna"
    rule = rrule(lines("DTSTART:20260101T090000", "RRULE:FREQ=DAILY"), app=app)

    assert upcoming(rule, utc("2025-12-31"), 1) == ["2026-01-01 09:00 +0100"]


def test_a_start_of_the_text_is_converted_to_the_zone() -> None:
    rule = rrule(lines("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY"), timezone="Europe/Vienna")

    assert upcoming(rule, utc("2026-07-01"), 1) == ["2026-07-01 10:00 +0200"]


def test_until_by_parts_is_read_in_the_zone() -> None:
    rule = rrule("DAILY", dtstart=NINE, until=datetime(2026, 1, 2, 9), timezone="Europe/Vienna")

    assert upcoming(rule, utc("2025-12-31")) == ["2026-01-01 09:00 +0100", "2026-01-02 09:00 +0100"]


@pytest.mark.parametrize(
    ("rule", "explicit"),
    [
        pytest.param(rrule("FREQ=DAILY"), False, id="text"),
        pytest.param(rrule("FREQ=DAILY", dtstart=NINE), True, id="argument"),
        pytest.param(rrule(lines("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY")), True, id="line"),
        pytest.param(rrule("DAILY"), False, id="parts"),
    ],
)
def test_a_rule_knows_whether_its_start_was_passed(rule: rrule, explicit: bool) -> None:
    assert rule.has_explicit_start is explicit


def test_the_parts_of_a_text_with_one_rule_can_be_read() -> None:
    rule = rrule("FREQ=MONTHLY;INTERVAL=2;BYDAY=1MO;UNTIL=20270101T080000Z", dtstart=NINE, timezone="Europe/Vienna")

    assert (rule.freq, rule.interval, rule.byweekday) == (MONTHLY, 2, [MO(+1)])
    assert rule.until == datetime(2027, 1, 1, 9, tzinfo=VIENNA)


def test_a_text_with_dates_has_no_parts() -> None:
    assert rrule(lines("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY", "RDATE:20260101T100000Z")).freq is None


# -- refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FREQ=FORTNIGHTLY", "^FREQ: expected one of YEARLY, MONTHLY, .*, got 'FORTNIGHTLY'"),
        ("BYDAY=MO", "^FREQ: is missing; expected one of YEARLY"),
        ("FREQ=DAILY;BYDAY=MONDAY", "^BYDAY: expected a day such as MO, or with a number such as 1MO.*got 'MONDAY'"),
        ("FREQ=MONTHLY;BYDAY=0MO", "^BYDAY: expected a day such as MO.*got '0MO'"),
        ("FREQ=MONTHLY;BYDAY=6MO", "^BYDAY: expected a number from 1 to 5 or negative, got MO"),
        ("FREQ=YEARLY;BYMONTH=1;BYDAY=20MO", "^BYDAY: expected a number from 1 to 5 or negative"),
        ("FREQ=WEEKLY;BYDAY=1MO", r"^BYDAY: expected FREQ=MONTHLY or FREQ=YEARLY with \+1MO"),
        ("FREQ=WEEKLY;WKST=1MO", "^WKST: expected a day such as MO, got '1MO'"),
        ("FREQ=DAILY;INTERVAL=0", "^INTERVAL: expected a whole number above 0, got 0"),
        ("FREQ=DAILY;INTERVAL=x", "^INTERVAL: expected a whole number, got 'X'"),
        ("FREQ=DAILY;INTERVAL", "^INTERVAL: expected a whole number, got ''"),
        ("FREQ=DAILY;COUNT=0", "^COUNT: expected a whole number above 0, got 0"),
        ("FREQ=DAILY;COUNT=1;UNTIL=20260101T000000Z", "^COUNT: cannot be combined with UNTIL; use one of the two"),
        ("FREQ=DAILY;UNTIL=tomorrow", "^UNTIL: expected a time such as 20260101T090000, got 'TOMORROW'"),
        ("FREQ=DAILY;UNTIL=20260230T090000Z", "^UNTIL: .*day.*, got '20260230T090000Z'"),
        ("FREQ=DAILY;BYHOUR=24", "^BYHOUR: expected numbers from 0 to 23, got"),
        ("FREQ=DAILY;BYHOUR=9,", "^BYHOUR: expected a whole number, got ''"),
        ("FREQ=DAILY;BYSECOND=60", "^BYSECOND: expected numbers from 0 to 59"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "^BYMONTHDAY: expected numbers from 1 to 31 or from -31 to -1, got"),
        ("FREQ=YEARLY;BYMONTH=13", "^BYMONTH: expected numbers from 1 to 12, got"),
        ("FREQ=YEARLY;BYEASTER=300", "^BYEASTER: expected numbers from -80 to 250, got"),
        ("FREQ=DAILY;FREQ=DAILY", "^FREQ: is given twice; write it once$"),
        ("FREQ=DAILY;BYHOUR=1;BYHOUR=2", "^BYHOUR: is given twice; list the values: BYHOUR=1,2$"),
        ("FREQ=DAILY;UNTIL=20261301", "^UNTIL: month must be in 1..12, got '20261301'; expected a time such as"),
        ("FREQ=DAILY;RSCALE=CHINESE", "^RSCALE: unknown part of a rule; expected FREQ, INTERVAL"),
        ("FREQ=DAILY;", "^RRULE: has a semicolon too many in 'FREQ=DAILY;'; leave it out"),
        ("DTSTART:20260101T090000Z", "^RRULE: is missing; expected a line such as RRULE:FREQ=MONTHLY"),
        ("DTSTART:2026-01-01\nRRULE:FREQ=DAILY", "^DTSTART: expected a time such as 20260101T090000, got '2026-01-01'"),
        ("DTSTART;TZID=Europe/Wien:20260101T090000\nRRULE:FREQ=DAILY", "^DTSTART: unknown time zone 'Europe/Wien'"),
        (
            "DTSTART;TZID=Europe/Vienna:20260101T090000Z\nRRULE:FREQ=DAILY",
            "^DTSTART: with TZID, expected a time without Z",
        ),
        ("DTSTART;X=1:20260101T090000Z\nRRULE:FREQ=DAILY", "^DTSTART: unknown parameter 'X=1'; expected TZID="),
        ("DTSTART:20260101T090000Z\nDTSTART:20260101T090000Z\nRRULE:FREQ=DAILY", "^DTSTART: is given twice"),
        ("DTSTART:00010101T000000Z\nRRULE:FREQ=DAILY", "^dtstart: expected a year from 2 to 9998, got 1"),
        (
            "DTSTART;TZID=America/New_York:20260101T090000\nRDATE:00010101T000000Z",
            "^RDATE: expected a year from 2 to 9998, got 1",
        ),
        ("RDATE;VALUE=PERIOD:20260101T090000Z/PT1H", "^RDATE: unknown parameter 'VALUE=PERIOD'"),
        (
            "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY\nEXDATE;VALUE=DATE:20261224",
            "^EXDATE: expected a time such as 20261224T090000, got 20261224",
        ),
        ("RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "^EXRULE: .*list the dates: EXDATE:"),
        ("RRULE:FREQ=DAILY\nDURATION:PT1H", "^DURATION: unknown line; expected DTSTART, RRULE, RDATE or EXDATE"),
        ("RRULE;X=1:FREQ=DAILY", "^RRULE;X=1: unknown line"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_by_the_name_of_its_part(text: str, message: str) -> None:
    start = None if "DTSTART" in text else NINE
    with pytest.raises(ValueError, match=message):
        rrule(text, dtstart=start)


LONG = "9" * 100_000


@pytest.mark.parametrize(
    "arguments",
    [
        {"freq": f"FREQ={LONG}"},
        {"freq": LONG},
        {"freq": f"FREQ=DAILY;{LONG}"},
        {"freq": f"FREQ=DAILY;INTERVAL={LONG}"},
        {"freq": f"FREQ=DAILY;BYDAY={LONG}"},
        {"freq": f"FREQ=DAILY;UNTIL={LONG}"},
        {"freq": f"{LONG}:FREQ=DAILY"},
        {"freq": f"EXDATE:{LONG}\nRRULE:FREQ=DAILY"},
        {"freq": f"EXDATE;TZID={LONG}:20260101T090000\nRRULE:FREQ=DAILY"},
        {"freq": f"EXDATE;X={LONG}:20260101T090000\nRRULE:FREQ=DAILY"},
        {"freq": "DAILY", "byhour": LONG},
        {"freq": "DAILY", "byweekday": LONG},
        {"freq": "DAILY", "until": LONG},
        {"freq": "DAILY", "timezone": LONG},
        {"freq": "FREQ=DAILY", "byhour": LONG},
        {"freq": "DAILY", "byhour": [99] * 100_000},
    ],
    ids=lambda arguments: str(arguments)[:40],
)
def test_an_error_quotes_little_of_a_long_value(arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        rrule(**{"dtstart": NINE, **arguments})

    assert len(str(raised.value)) < 1000


def test_a_rule_with_many_dates_shows_few_of_them() -> None:
    dates = ",".join(f"2026{day:%m%d}T090000Z" for day in (date(2026, 1, 1) + timedelta(k) for k in range(300)))

    assert len(repr(rrule(f"DTSTART:20260101T090000Z\nRDATE:{dates}"))) < 600


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"freq": "FREQ=DAILY", "interval": 2},
            TypeError,
            "^interval: expected INTERVAL in the text, got the argument interval=2",
        ),
        ({"freq": "FREQ=DAILY", "byweekday": MO}, TypeError, "^byweekday: expected BYDAY in the text"),
        ({"freq": "FREQ=DAILY", "until": NINE}, TypeError, "^until: expected UNTIL in the text"),
        (
            {"freq": "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY"},
            ValueError,
            "^dtstart: expected one start, got DTSTART in the text and dtstart=",
        ),
        (
            {"freq": "FREQ=DAILY", "dtstart": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))},
            ValueError,
            r"^dtstart: a text cannot name the zone UTC\+01:00; pass timezone='Europe/Vienna'",
        ),
        (
            {"freq": "DAILY", "timezone": "Mars"},
            ValueError,
            "^timezone: unknown time zone 'Mars'; expected an IANA name",
        ),
        ({"freq": "DAILY", "dtstart": date(2026, 1, 1)}, TypeError, "^dtstart: expected a datetime, got datetime.date"),
        ({"freq": "DAILY", "until": "2026"}, TypeError, "^until: expected a datetime, got '2026'"),
        ({"freq": "DAILY", "count": 0}, ValueError, "^count: expected a whole number above 0, got 0"),
        ({"freq": "DAILY", "byhour": "9"}, ValueError, "^byhour: expected numbers from 0 to 23, got '9'"),
        ({"freq": "DAILY", "byhour": True}, ValueError, "^byhour: expected numbers from 0 to 23, got True"),
        ({"freq": "DAILY", "weekday": 0}, TypeError, r"^weekday: is not an argument of rrule\(\); .*mean 'byweekday'"),
        ({"freq": "DAILY", "byday": 0}, TypeError, r"^byday: is not an argument of rrule\(\); .*mean 'byweekday'"),
        ({"freq": "DAILY", "cache": True}, TypeError, r"^cache: is not an argument of rrule\(\)$"),
        ({"freq": "DAILY", "byweekday": "MO"}, ValueError, "^byweekday: expected days of the week such as MO"),
        ({"freq": "DAILY", "byweekday": 7}, ValueError, "^byweekday: expected days of the week such as MO"),
        ({"freq": "DAILY", "wkst": 7}, ValueError, "^wkst: expected days of the week such as MO"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rrule(**{"dtstart": NINE, **arguments})


# -- the occurrences


START = datetime(2025, 1, 3, 4, 5, 6)

hours = st.lists(st.integers(0, 23), min_size=2, max_size=3, unique=True)
sixty = st.lists(st.integers(0, 59), min_size=1, max_size=3, unique=True)
some_weekdays = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True)
numbered = st.lists(
    st.builds(lambda day, n: day(n), st.sampled_from([MO, TU, FR]), st.sampled_from([1, 2, 4, -1, -3])),
    min_size=1,
    max_size=2,
)
days_of_month = st.lists(st.sampled_from([1, 13, 28, 29, 31, -1, -30]), min_size=1, max_size=2, unique=True)
some_months = st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True)
first_or_last = st.sampled_from([1, -1, [1, -1]])
on_clock = {"byhour": hours, "byminute": sixty, "bysecond": sixty, "bysetpos": first_or_last}


def parts_of(freq: int, interval: st.SearchStrategy[int], **optional: st.SearchStrategy[Any]) -> Any:
    return st.fixed_dictionaries({"freq": st.just(freq), "interval": interval}, optional=optional)


long_rules = st.one_of(
    parts_of(YEARLY, st.integers(1, 3), bymonth=some_months, **on_clock),
    parts_of(YEARLY, st.integers(1, 3), byweekday=numbered, bymonth=some_months, **on_clock),
    parts_of(YEARLY, st.integers(1, 3), byweekday=some_weekdays, wkst=st.integers(0, 6), **on_clock),
    parts_of(YEARLY, st.integers(1, 3), byweekno=st.sampled_from([[1, 52], 20, -1]), wkst=st.integers(0, 6)),
    parts_of(YEARLY, st.integers(1, 3), byyearday=st.sampled_from([[1, 200], -1, 366]), **on_clock),
    parts_of(YEARLY, st.integers(1, 3), byeaster=st.sampled_from([0, -2, [1, 50]]), **on_clock),
    parts_of(MONTHLY, st.integers(1, 13), bymonthday=days_of_month, **on_clock),
    parts_of(MONTHLY, st.integers(1, 13), byweekday=numbered, **on_clock),
    parts_of(MONTHLY, st.integers(1, 5), byweekday=some_weekdays, bymonthday=days_of_month),
    parts_of(WEEKLY, st.integers(1, 5), byweekday=some_weekdays, wkst=st.integers(0, 6), **on_clock),
    parts_of(WEEKLY, st.integers(1, 5), bymonth=some_months, wkst=st.integers(0, 6)),
    parts_of(DAILY, st.integers(1, 6), byweekday=some_weekdays, bymonth=some_months, **on_clock),
    parts_of(DAILY, st.integers(1, 40), bymonthday=days_of_month, **on_clock),
)
short_rules = st.one_of(
    parts_of(HOURLY, st.sampled_from([1, 5, 7, 25]), byhour=hours, byminute=sixty, bysetpos=first_or_last),
    parts_of(HOURLY, st.integers(1, 50), byminute=sixty, bysecond=sixty, byweekday=some_weekdays),
    parts_of(MINUTELY, st.sampled_from([1, 7, 11, 61]), byhour=hours, byminute=sixty, bysecond=sixty),
    parts_of(MINUTELY, st.integers(1, 2000), bysecond=sixty, bysetpos=first_or_last),
    parts_of(SECONDLY, st.sampled_from([1, 7, 11, 61, 3601]), byhour=hours, byminute=sixty, bysecond=sixty),
)
ends = st.one_of(
    st.just({}),
    st.builds(lambda count: {"count": count}, st.integers(1, 40)),
    st.builds(lambda days: {"until": START + timedelta(days=days)}, st.integers(1, 900)),
)


def following(rule: dateutil_rrule, after: datetime) -> list[datetime]:
    """Return the next three occurrences by dateutil, which steps from the start of the rule."""
    return list(islice((found for found in rule if found > after), 3))


#: How far dateutil looks for an occurrence of a rule that never matches, by frequency.
LOOKED_AT = {
    YEARLY: timedelta(days=365 * 60),
    MONTHLY: timedelta(days=365 * 60),
    WEEKLY: timedelta(days=365 * 20),
    DAILY: timedelta(days=365 * 20),
    HOURLY: timedelta(days=365),
    MINUTELY: timedelta(days=30),
    SECONDLY: timedelta(days=1),
}


def unless_impossible(parts: dict[str, Any], end: dict[str, Any]) -> rrule | None:
    """Return the rule; None if it is refused because it never matches."""
    try:
        return rrule(dtstart=START, timezone="UTC", **parts, **end)
    except ValueError as refused:
        if ": never match every " not in str(refused):
            raise
        return None


def both_after(parts: dict[str, Any], end: dict[str, Any], after: datetime) -> tuple[list[datetime], list[datetime]]:
    """Return the next occurrences of a rule, three at most, and those of dateutil; a refused rule has none."""
    ends_at = {name: moment.replace(tzinfo=UTC) if name == "until" else moment for name, moment in end.items()}
    rule = unless_impossible(parts, ends_at)
    if rule is None:  # dateutil looks for it up to the year 9999, so it gets an end
        return [], list(dateutil_rrule(dtstart=START, **parts, until=START + LOOKED_AT[parts["freq"]]))
    expected = following(dateutil_rrule(dtstart=START, **parts, **end), after)
    found, fire_time = [], after.replace(tzinfo=UTC)
    for _ in range(3):
        fire_time = rule.next_fire_time(fire_time)
        if fire_time is None:
            break
        found.append(fire_time.replace(tzinfo=None))
    return found, expected


@examples(300)
@given(parts=long_rules, end=ends, hours=st.integers(-48, 5 * 365 * 24))
@example(parts={"freq": WEEKLY, "interval": 2, "byweekday": [0, 4], "bysetpos": 1, "wkst": 2}, end={}, hours=-1)
@example(parts={"freq": YEARLY, "interval": 1, "byweekno": 1, "wkst": 6}, end={}, hours=0)
def test_a_rule_of_days_or_more_has_the_occurrences_of_dateutil(
    parts: dict[str, Any], end: dict[str, Any], hours: int
) -> None:
    ours, those_of_dateutil = both_after(parts, end, START + timedelta(hours=hours))

    assert ours == those_of_dateutil


@examples(100)
@given(parts=short_rules, end=ends, seconds=st.integers(-60, 4 * 3600))
def test_a_rule_of_hours_or_less_has_the_occurrences_of_dateutil(
    parts: dict[str, Any], end: dict[str, Any], seconds: int
) -> None:
    at_clock = {name: values for name, values in parts.items() if name in ("byhour", "byminute", "bysecond")}
    assume(parts["freq"] != SECONDLY or "byhour" not in at_clock or len(at_clock) == 3)  # dateutil takes minutes
    # An occurrence every five years or so: counting forty of them takes too many steps, so the rule is refused.
    assume(not (parts["interval"] == 3601 and len(at_clock) == 3 and "count" in end))
    ours, those_of_dateutil = both_after(parts, end, START + timedelta(seconds=seconds))

    assert ours == those_of_dateutil


texts = st.builds(
    lambda rules, rdates, exdates: lines(
        "DTSTART:20250103T040506Z",
        *(f"RRULE:FREQ={rule}" for rule in rules),
        *(f"RDATE:2025{day:%m%dT040506}Z" for day in rdates),
        *(f"EXDATE:2025{day:%m%dT040506}Z" for day in exdates),
    ),
    st.lists(
        st.sampled_from(["DAILY;COUNT=50", "WEEKLY;BYDAY=MO,FR", "MONTHLY;BYDAY=1MO", "DAILY;UNTIL=20250301T000000Z"]),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.dates(date(2025, 1, 1), date(2025, 4, 1)), max_size=3),
    st.lists(st.dates(date(2025, 1, 1), date(2025, 4, 1)), max_size=9),
)


@examples(60)
@given(text=texts)
def test_rules_dates_and_excluded_dates_make_the_set_of_dateutil(text: str) -> None:
    end = utc("2025-05-01")
    found = sequence(rrule(text).next_fire_time, utc("2024-12-01"), end)

    expected = takewhile(lambda moment: moment < end, rrulestr(text, forceset=True))
    assert found == [moment for moment in expected if moment >= START.replace(tzinfo=UTC)]


ZONES = (
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Europe/Dublin", "2026-03-29"),
    ("America/Santiago", "2026-09-06"),
    ("America/Santiago", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Antarctica/Troll", "2026-03-29"),
    ("Africa/Casablanca", "2026-02-15"),
    ("Asia/Kathmandu", "2026-01-01"),
)


@examples(60)
@given(
    where=st.sampled_from(ZONES),
    parts=st.sampled_from(
        [
            {"freq": "DAILY", "byhour": [0, 1, 2, 3, 4], "byminute": [0, 10, 30, 50]},
            {"freq": "HOURLY", "byminute": [15, 45]},
            {"freq": "MINUTELY", "interval": 7},
            {"freq": "WEEKLY", "byweekday": range(7), "byhour": range(24)},
            {"freq": "MONTHLY", "bymonthday": range(1, 32), "byhour": [0, 2], "byminute": 30},
        ]
    ),
    begin=st.integers(0, 36 * 60),
)
def test_no_occurrence_is_lost_or_doubled_where_the_clocks_change(
    where: tuple[str, str], parts: dict[str, Any], begin: int
) -> None:
    zone, day = ZoneInfo(where[0]), datetime.fromisoformat(where[1])
    rule = rrule(dtstart=day - timedelta(days=2), timezone=where[0], **parts)
    after, end = to_utc(day, zone) - timedelta(hours=12) + timedelta(minutes=begin), to_utc(day, zone) + timedelta(2)

    found = sequence(rule.next_fire_time, after, end)

    clock = dateutil_rrule(**{**parts, "freq": rule.freq}, dtstart=day - timedelta(days=2))
    expected = {to_utc(local, zone) for local in takewhile(lambda local: local < day + timedelta(days=4), clock)}
    assert found == sorted(instant for instant in expected if after < instant < end)


def test_each_monday_and_the_last_friday_are_combined() -> None:
    rule = rrule("FREQ=MONTHLY;BYDAY=MO,-1FR", dtstart=datetime(2026, 5, 12), timezone="UTC")

    assert [day[:10] for day in upcoming(rule, utc("2026-05-12"), 5)] == [
        "2026-05-18",
        "2026-05-25",
        "2026-05-29",
        "2026-06-01",
        "2026-06-08",
    ]


def test_the_number_of_a_weekday_is_ignored_in_weekly_rules_as_in_dateutil() -> None:
    rule = rrule("WEEKLY", dtstart=utc("2026-01-05"), byweekday=TU(+3))

    assert upcoming(rule, utc("2026-01-05"), 2) == ["2026-01-06 00:00 +0000", "2026-01-13 00:00 +0000"]


@pytest.mark.parametrize("count", [1, 2, 1000])
@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("FREQ=WEEKLY", timedelta(weeks=1)),
        ("FREQ=DAILY;INTERVAL=3", timedelta(days=3)),
        ("FREQ=HOURLY", timedelta(hours=1)),
        ("FREQ=MINUTELY", timedelta(minutes=1)),
        ("FREQ=SECONDLY;INTERVAL=5", timedelta(seconds=5)),
    ],
)
def test_a_count_without_parts_ends_after_that_many_intervals(text: str, interval: timedelta, count: int) -> None:
    rule = rrule(f"{text};COUNT={count}", dtstart=NINE, timezone="UTC")
    last = utc("2026-01-01 09:00") + interval * (count - 1)

    assert rule.next_fire_time(last - timedelta(microseconds=1)) == last
    assert rule.next_fire_time(last) is None


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("BYWEEKNO=20", ["2026-05-14", "2027-05-20", "2028-05-18"]),
        ("BYWEEKNO=20;BYMONTH=5", ["2026-05-14", "2027-05-20", "2028-05-18"]),
        ("BYWEEKNO=20,21", ["2026-05-14", "2026-05-21", "2027-05-20"]),
        ("BYWEEKNO=20;BYDAY=MO", ["2026-05-11", "2027-05-17", "2028-05-15"]),
        ("BYWEEKNO=20;BYMONTHDAY=17", ["2026-05-17", "2027-05-17", "2028-05-17"]),
    ],
)
def test_weeks_in_a_text_mean_the_weekday_of_the_start_unless_it_lists_days(text: str, days: list[str]) -> None:
    rule = rrule(f"FREQ=YEARLY;{text}", dtstart=NINE, timezone="UTC")

    assert upcoming(rule, utc("2026-01-01"), 3) == upcoming(rrule(rule.text or ""), utc("2026-01-01"), 3)
    assert [moment[:10] for moment in upcoming(rule, utc("2026-01-01"), 3)] == days


def test_weeks_of_a_rule_from_parts_mean_all_their_days_as_in_dateutil() -> None:
    rule = rrule("YEARLY", byweekno=20, dtstart=NINE, timezone="UTC")

    assert [moment[:10] for moment in upcoming(rule, utc("2026-01-01"), 8)] == [
        *(f"2026-05-{day}" for day in range(11, 18)),
        "2027-05-17",
    ]


@pytest.mark.parametrize(
    "text", ["FREQ=WEEKLY", "FREQ=WEEKLY;BYDAY=TH", "FREQ=DAILY;INTERVAL=7", "FREQ=DAILY;BYDAY=TH"]
)
def test_a_count_beyond_the_calendar_does_not_end_the_rule(text: str) -> None:
    rule = rrule(f"{text};COUNT={10**17}", dtstart=NINE, timezone="UTC")

    assert rule.next_fire_time(utc("2500-01-01")) == utc("2500-01-07 09:00")


@pytest.mark.parametrize(
    ("text", "following"),
    [
        ("FREQ=MONTHLY;COUNT=1875", "2026-12-01 09:00"),
        ("FREQ=MONTHLY;COUNT=130000", "2026-12-01 09:00"),
        ("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=1094", "2026-12-31 09:00"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=1900", "2026-11-30 09:00"),
        ("FREQ=WEEKLY;BYMONTH=2,8;COUNT=1665", "2027-02-04 09:00"),
        ("FREQ=WEEKLY;BYDAY=MO,WE;COUNT=16297", "2026-11-30 09:00"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;BYMONTH=3;COUNT=3000", "2027-03-08 09:00"),
        ("FREQ=DAILY;BYMONTH=1;COUNT=6400", "2027-01-01 09:00"),
        ("FREQ=YEARLY;BYEASTER=0;COUNT=500", "2027-03-28 09:00"),
        ("FREQ=HOURLY;BYHOUR=9,12;COUNT=50000", "2026-11-26 09:00"),
        ("FREQ=SECONDLY;INTERVAL=7;BYDAY=MO;COUNT=30000000", "2026-11-30 00:00:01"),
    ],
)
def test_a_count_that_takes_too_long_to_count_ends_no_rule_before_it_is_reached(text: str, following: str) -> None:
    counted = rrule(text, dtstart=NINE, timezone="UTC")
    endless = rrule(text.partition(";COUNT")[0], dtstart=NINE, timezone="UTC")

    assert counted.next_fire_time(utc("2026-11-26")) == utc(following)
    assert upcoming(counted, utc("2035-01-01"), 5) == upcoming(endless, utc("2035-01-01"), 5)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;COUNT=3", "2036-02-29 09:00"),
        ("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=7", "2026-12-31 09:00"),
        ("FREQ=MONTHLY;COUNT=12", "2026-12-01 09:00"),
        ("FREQ=WEEKLY;BYDAY=MO,TH;COUNT=4", "2026-01-12 09:00"),
        ("FREQ=DAILY;BYHOUR=8,9,10;COUNT=5", "2026-01-02 10:00"),
        ("FREQ=MINUTELY;BYDAY=MO,TU,WE,TH,FR;COUNT=1000000", "2028-08-30 19:39"),
        ("FREQ=SECONDLY;BYHOUR=9;BYMINUTE=0;COUNT=61", "2026-01-02 09:00:00"),
    ],
)
def test_a_rule_ends_with_its_last_counted_occurrence(text: str, last: str) -> None:
    rule = rrule(text, dtstart=NINE, timezone="UTC")

    assert rule.next_fire_time(utc(last) - timedelta(microseconds=1)) == utc(last)
    assert rule.next_fire_time(utc(last)) is None


def test_a_count_and_an_end_both_apply() -> None:
    parts = {"dtstart": utc("2026-01-01"), "until": utc("2026-01-03")}

    assert len(upcoming(rrule("DAILY", count=2, **parts), utc("2025-12-31"), 9)) == 2
    assert len(upcoming(rrule("DAILY", count=9, **parts), utc("2025-12-31"), 9)) == 3


def test_an_excluded_date_counts_as_an_occurrence_of_its_rule() -> None:
    text = lines("DTSTART:20260101T090000Z", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE:20260102T090000Z")

    assert [day[:10] for day in upcoming(rrule(text), utc("2025-12-31"))] == ["2026-01-01", "2026-01-03"]


@pytest.mark.parametrize("freq", ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"])
@pytest.mark.parametrize(
    "parts",
    [
        "BYMONTH=2;BYMONTHDAY=30",
        "BYYEARDAY=1;BYMONTHDAY=2",
        "BYMONTH=2;BYMONTHDAY=30;BYHOUR=23;BYMINUTE=59;BYSECOND=59",
    ],
)
@pytest.mark.parametrize("end", ["", ";COUNT=5", ";UNTIL=20991231T000000Z"], ids=["endless", "count", "until"])
def test_a_rule_without_a_possible_date_is_refused(freq: str, parts: str, end: str) -> None:
    with pytest.raises(ValueError, match=r"^BY[A-Z, ]+: never match.* change one of these, INTERVAL or the start$"):
        rrule(f"FREQ={freq};{parts}{end}", dtstart=NINE, timezone="Europe/Vienna")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("FREQ=DAILY;INTERVAL=7;BYDAY=FR", id="each-seventh-day-is-another"),
        pytest.param("FREQ=DAILY;INTERVAL=7;BYDAY=MO,TU,WE,FR,SA,SU", id="each-seventh-day-is-none-of-six"),
        pytest.param("FREQ=HOURLY;INTERVAL=24;BYHOUR=10", id="each-24th-hour-is-another"),
        pytest.param("FREQ=MINUTELY;INTERVAL=1440;BYHOUR=10", id="each-1440th-minute-is-another"),
        pytest.param("FREQ=SECONDLY;INTERVAL=60;BYSECOND=30", id="each-60th-second-is-another"),
        pytest.param("FREQ=SECONDLY;INTERVAL=7;BYHOUR=23;BYMINUTE=59;BYSECOND=59;BYDAY=TU", id="the-phase-of-a-week"),
        pytest.param("FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2", id="no-second-in-a-week"),
        pytest.param("FREQ=SECONDLY;BYSETPOS=2", id="no-second-in-a-second"),
    ],
)
def test_a_rule_whose_interval_never_meets_its_parts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^BY[A-Z, ]+: never match .* from 2026-01-01 09:00:00"):
        rrule(text, dtstart=NINE, timezone="UTC")


def test_a_stored_rule_that_never_matches_is_refused_with_the_reason() -> None:
    text = "DTSTART:20240118T124952Z\nRRULE:FREQ=DAILY\nRRULE:FREQ=SECONDLY;INTERVAL=9908;BYSECOND=1,3"

    with pytest.raises(InvalidEntry, match=r"^\$.schedule.text: BYSECOND: never match every 9908 seconds from 2024"):
        ScheduleCodec().decode({"__type__": "rrule", "text": text})


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SA", "2026-01-01", "2048-02-29 09:00"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=TH", "2180-01-01", "2216-02-29 09:00"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=TH", "2180-01-01", "2216-02-29 09:00"),
        ("FREQ=YEARLY;INTERVAL=100", "2026-01-02", "2126-01-01 09:00"),
        ("FREQ=HOURLY;INTERVAL=1000000", "2026-01-02", "2140-01-31 01:00"),
        ("FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR", "2026-03-14", "2026-11-13 09:00"),
    ],
)
def test_a_rare_occurrence_is_found(text: str, after: str, expected: str) -> None:
    assert rrule(text, dtstart=NINE, timezone="UTC").next_fire_time(utc(after)) == utc(expected)


@pytest.mark.parametrize("after", ["9998-12-31 23:59:59", "9999-06-01"])
@pytest.mark.parametrize("freq", ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "SECONDLY"])
def test_a_rule_ends_with_the_calendar(freq: str, after: str) -> None:
    rule = rrule(f"FREQ={freq}", dtstart=NINE, timezone="America/New_York")
    following = rule.next_fire_time(utc(after))

    assert following is None or following < utc("9999-01-10")


# -- what stands behind a fire time


@pytest.mark.parametrize(
    ("fire_time", "expected"),
    [
        pytest.param(at("2026-03-07 02:30"), datetime(2026, 3, 7, 2, 30), id="before"),
        pytest.param(at("2026-03-08 03:30"), datetime(2026, 3, 8, 2, 30), id="in-the-gap"),
        pytest.param(at("2026-03-09 02:30"), datetime(2026, 3, 9, 2, 30), id="after"),
        pytest.param(at("2026-03-09 03:30"), None, id="no-occurrence"),
    ],
)
def test_the_nominal_time_of_a_fire_time_is_returned(fire_time: datetime, expected: datetime | None) -> None:
    rule = rrule("FREQ=DAILY", dtstart=datetime(2026, 3, 1, 2, 30), timezone="America/New_York")

    assert rule.nominal_time(fire_time) == expected


def test_of_two_nominal_times_the_one_that_exists_is_returned() -> None:
    rule = rrule("DAILY", dtstart=datetime(2026, 3, 1, 2, 30), byhour=[2, 3], timezone="America/New_York")

    assert rule.nominal_time(at("2026-03-08 03:30")) == datetime(2026, 3, 8, 3, 30)


def test_a_date_in_the_second_pass_of_a_repeated_hour_fires_in_it() -> None:
    text = lines("DTSTART;TZID=Europe/Vienna:20261025T010000", "RDATE:20261025T013000Z,20261025T003000Z")
    rule = rrule(text)

    assert upcoming(rule, utc("2026-10-24")) == ["2026-10-25 02:30 +0200", "2026-10-25 02:30 +0100"]
    assert through_json(rule) == rule
    assert rule.nominal_time(utc("2026-10-25 01:30")) == datetime(2026, 10, 25, 2, 30)


# -- the first occurrence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY", "2026-01-01 09:00"),
        ("DTSTART:20260101T090000Z\nRRULE:FREQ=MONTHLY;BYDAY=1MO", "2026-01-05 09:00"),
        ("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY\nEXDATE:20260101T090000Z", "2026-01-02 09:00"),
        ("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY\nRDATE:20251224T090000Z", "2026-01-01 09:00"),
        ("DTSTART;TZID=America/New_York:20260308T023000\nRRULE:FREQ=DAILY", "2026-03-08 07:30"),
        ("DTSTART;TZID=America/New_York:20260308T023000\nRRULE:FREQ=MINUTELY;INTERVAL=40", "2026-03-08 07:30"),
    ],
)
def test_the_first_occurrence_counts(text: str, expected: str) -> None:
    rule = rrule(text)

    assert rule.first_occurrence() == utc(expected)
    assert rule.next_fire_time(utc(expected) - timedelta(seconds=1)) == utc(expected)


# -- stored


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param("FREQ=DAILY", ["RRULE:FREQ=DAILY"], id="rule"),
        pytest.param(
            "rrule:wkst=mo;interval=1;byday=we,-1fr,1mo;freq=monthly",
            ["RRULE:FREQ=MONTHLY;BYDAY=WE,+1MO,-1FR"],
            id="in-order-without-defaults",
        ),
        pytest.param(
            "FREQ=YEARLY;COUNT=9;WKST=SU;BYHOUR=10,9,9;BYMONTHDAY=-1,2,1",
            ["RRULE:FREQ=YEARLY;WKST=SU;COUNT=9;BYMONTHDAY=1,2,-1;BYHOUR=9,10"],
            id="each-number-once",
        ),
        pytest.param(
            "FREQ=DAILY;UNTIL=20260701T120000", ["RRULE:FREQ=DAILY;UNTIL=20260701T100000Z"], id="until-in-utc"
        ),
        pytest.param("FREQ=DAILY;UNTIL=99991231T235959Z", ["RRULE:FREQ=DAILY"], id="until-for-ever"),
        pytest.param(
            lines("RRULE:FREQ=DAILY", "RRULE:FREQ=WEEKLY", "EXDATE:20260101T080000Z", "RDATE:20260101T120000Z"),
            [
                "RRULE:FREQ=DAILY",
                "RRULE:FREQ=WEEKLY",
                "RDATE;TZID=Europe/Vienna:20260101T130000",
                "EXDATE;TZID=Europe/Vienna:20260101T090000",
            ],
            id="dates-in-the-zone",
        ),
    ],
)
def test_a_text_is_stored_in_its_normal_form(text: str, stored: list[str]) -> None:
    rule = rrule(text, dtstart=NINE, timezone="Europe/Vienna")

    assert ScheduleCodec().encode(rule) == {
        "__type__": "rrule",
        "text": lines("DTSTART;TZID=Europe/Vienna:20260101T090000", *stored),
    }


def test_a_text_in_utc_is_stored_without_a_name_of_a_zone() -> None:
    rule = rrule(lines("DTSTART:20260101T090000Z", "RDATE;TZID=Europe/Vienna:20260101T120000"))

    assert rule.text == lines("DTSTART:20260101T090000Z", "RDATE:20260101T110000Z")


@examples(60)
@given(text=texts, zone=st.sampled_from(["UTC", "Europe/Vienna", "America/New_York"]))
def test_a_text_comes_back_as_it_was(text: str, zone: str) -> None:
    rule = rrule(text, timezone=zone)
    read = through_json(rule)

    assert read == rule
    assert read.text == rule.text
    assert upcoming(read, utc("2025-01-01"), 30) == upcoming(rule, utc("2025-01-01"), 30)


def test_a_rule_of_parts_is_stored_by_parts() -> None:
    stored = ScheduleCodec().encode(rrule("DAILY", dtstart=NINE, timezone="Europe/Vienna"))

    assert "text" not in stored
    assert (stored["freq"], stored["timezone"]) == (DAILY, "Europe/Vienna")


@pytest.mark.parametrize("days", [MO(+1), relativedelta.MO(+1), [relativedelta.MO(+1)]], ids=repr)
def test_weekdays_of_either_module_of_dateutil_are_stored(days: Any) -> None:
    rule = rrule("MONTHLY", dtstart=utc("2026-01-01"), byweekday=days)

    assert upcoming(through_json(rule), utc("2026-01-06"), 1) == ["2026-02-02 00:00 +0000"]


def test_a_range_of_numbers_is_stored() -> None:
    rule = rrule("DAILY", dtstart=utc("2026-01-01"), byhour=range(9, 12))

    assert through_json(rule).byhour == [9, 10, 11]


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"text": None}, r"^\$.schedule.text: expected RFC 5545 text such as .*, got None"),
        ({"text": "DAILY"}, r"^\$.schedule.text: expected RFC 5545 text such as .*, got 'DAILY'"),
        ({"text": "FREQ=DAILY"}, r"^\$.schedule.text: DTSTART is missing; expected a line such as DTSTART;TZID="),
        ({"text": "DTSTART:20260101T090000Z\nRRULE:FREQ=X"}, r"^\$.schedule.text: FREQ: expected one of YEARLY"),
        ({"text": "DTSTART;TZID=X:20260101T090000\nFREQ=DAILY"}, r"^\$.schedule.text: DTSTART: unknown time zone 'X'"),
        ({"text": "FREQ=DAILY", "dtstart": 0}, r"^\$.schedule.dtstart: unknown field; expected text"),
        ({"freq": 3, "dtstart": 0, "byhour": 24}, r"^\$.schedule: rrule: byhour: expected numbers from 0 to 23"),
        ({"freq": 3, "dtstart": 0, "byweekday": "MO"}, r"^\$.schedule: rrule: byweekday: expected days of the week"),
    ],
)
def test_a_stored_rule_that_cannot_be_read_is_refused(stored: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        ScheduleCodec().decode({"__type__": "rrule", **stored})


def test_a_text_that_another_language_wrote_is_read() -> None:
    text = "DTSTART;TZID=Europe/Vienna:20260101T090000\r\nrrule:freq=daily\r\n"

    rule = ScheduleCodec().decode({"__type__": "rrule", "text": text})

    assert rule == rrule("FREQ=DAILY", dtstart=NINE, timezone="Europe/Vienna")


NAMES = ["DTSTART", "RRULE", "EXDATE", "BYDAY", "COUNT", "UNTIL", "BYSETPOS", "BYHOUR", "TZID=Europe/Vienna"]
VALUES = ["FREQ=DAILY", "1MO", "20260101T090000", "Z", "0", "-1", "99999999999", "9999", "00010101"]
pieces = st.sampled_from([*NAMES, *VALUES, *":;=,\n", "\n "])


@examples(300)
@given(text=st.lists(pieces, max_size=12).map("".join))
@example(text="DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY")
def test_whatever_text_is_stored_is_read_or_refused(text: str) -> None:
    with suppress(InvalidEntry):
        rule = ScheduleCodec().decode({"__type__": "rrule", "text": text})
        assert through_json(rule) == rule


# -- as a value

RULE = rrule("FREQ=MONTHLY;BYDAY=1MO", dtstart=NINE, timezone="Europe/Vienna")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rrule("FREQ=MONTHLY;BYDAY=2MO", dtstart=NINE, timezone="Europe/Vienna"), id="part"),
        pytest.param(rrule("FREQ=MONTHLY;BYDAY=1MO", dtstart=NINE, timezone="Europe/Berlin"), id="zone"),
        pytest.param(
            rrule("FREQ=MONTHLY;BYDAY=1MO", dtstart=datetime(2026, 1, 1), timezone="Europe/Vienna"), id="start"
        ),
        pytest.param(rrule("MONTHLY", byweekday=MO(1), dtstart=NINE, timezone="Europe/Vienna"), id="by-parts"),
    ],
)
def test_rules_that_are_stored_differently_are_not_equal(other: rrule) -> None:
    assert other != RULE


def test_rules_of_parts_that_begin_at_one_instant_in_two_zones_are_not_equal() -> None:
    start = datetime(2026, 1, 1, 9, tzinfo=VIENNA)

    assert rrule("DAILY", dtstart=start) != rrule("DAILY", dtstart=start.astimezone(UTC))


def test_a_rule_is_equal_to_one_whose_text_means_the_same() -> None:
    text = lines("DTSTART;TZID=Europe/Vienna:20260101T090000", "RRULE:BYDAY=+1MO;FREQ=MONTHLY;INTERVAL=1")

    assert rrule(text) == RULE
    assert hash(rrule(text)) == hash(RULE)


@pytest.mark.parametrize(
    "rule", [RULE, rrule("MONTHLY", dtstart=NINE, timezone="Europe/Vienna", byweekday=FR(-1))], ids=["text", "parts"]
)
def test_a_rule_survives_pickling(rule: rrule) -> None:
    read = pickle.loads(pickle.dumps(rule))

    assert (read, hash(read), repr(read)) == (rule, hash(rule), repr(rule))
    assert upcoming(read, utc("2026-01-01")) == upcoming(rule, utc("2026-01-01"))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            RULE,
            "<rrule: DTSTART;TZID=Europe/Vienna:20260101T090000 RRULE:FREQ=MONTHLY;BYDAY=+1MO in Europe/Vienna>",
        ),
        (
            rrule("DAILY", dtstart=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5.5)))),
            "<rrule: DTSTART:20260101T000000 RRULE:FREQ=DAILY in UTC+05:30>",
        ),
    ],
    ids=["zone", "offset"],
)
def test_a_rule_shows_its_text(rule: rrule, expected: str) -> None:
    assert repr(rule) == expected


def test_celery_gets_the_time_until_the_next_occurrence_of_a_text() -> None:
    app = Celery(set_as_current=False)
    rule = rrule("FREQ=DAILY", dtstart=NINE, timezone="UTC", nowfun=lambda: utc("2026-01-01 18:00"), app=app)

    assert rule.is_due(utc("2026-01-01 09:00")) == (False, 15 * 3600)
