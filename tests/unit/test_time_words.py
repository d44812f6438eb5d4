"""Durations and times in words, read and written."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from redisbeater.times import (
    age_words,
    clock_words,
    date_words,
    duration_words,
    read_duration,
    read_time,
    relative_words,
    span_words,
)

VIENNA = ZoneInfo("Europe/Vienna")

#: A Saturday, 23:31:07 in Vienna.
NOW = datetime(2026, 11, 21, 22, 31, 7, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30 min", 5400),
        ("2d", 172_800),
        ("1w 1d", 691_200),
        ("250ms", 0.25),
        (" 10 Seconds ", 10),
        ("1.5 hours", 5400),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert read_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", ""),
        ("soon", ""),
        ("-5", ""),
        ("1h30", ""),
        ("٣s", ""),
        ("1e3", ""),
        ("5 fortnights", "'fortnights' is no unit, use w, d, h, m, s, ms"),
        ("5m1h", "write each unit once, the longest first"),
        ("5m5m", "write each unit once, the longest first"),
        ("9" * 30, "it is too long"),
    ],
)
def test_what_is_no_duration_is_refused_with_what_is_accepted(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 90, 90s, 1h30m or 2d") as error:
        read_duration(text)

    assert str(error.value).endswith(hint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-21T22:31:07"),
        ("2026-11-23T09:00", "2026-11-23T08:00:00"),
        ("2026-11-23 09:00:30", "2026-11-23T08:00:30"),
        ("2026-11-23", "2026-11-22T23:00:00"),
        ("2026-11-23T09:00Z", "2026-11-23T09:00:00"),
        ("2026-11-23t09:00:00+0530", "2026-11-23T03:30:00"),
        ("+2h", "2026-11-22T00:31:07"),
        ("2h", "2026-11-22T00:31:07"),
        ("in 1h30m", "2026-11-22T00:01:07"),
        ("-30m", "2026-11-21T22:01:07"),
        ("30 min ago", "2026-11-21T22:01:07"),
        ("09:00", "2026-11-22T08:00:00"),
        ("23:45", "2026-11-21T22:45:00"),
        ("today 9:00", "2026-11-21T08:00:00"),
        ("tomorrow 09:00", "2026-11-22T08:00:00"),
        ("Tomorrow", "2026-11-21T23:00:00"),
        ("yesterday 09:00", "2026-11-20T08:00:00"),
        ("fri 09:00", "2026-11-27T08:00:00"),
        ("saturday 23:45", "2026-11-21T22:45:00"),
        ("sat 09:00", "2026-11-28T08:00:00"),
        ("2026-03-29 02:30", "2026-03-29T01:30:00"),  # a gap: 03:30
        ("2026-10-25 02:30", "2026-10-25T00:30:00"),  # repeated: the first
    ],
)
def test_a_time_is_read_in_the_zone(text: str, expected: str) -> None:
    assert read_time(text, now=NOW, zone=VIENNA) == datetime.fromisoformat(f"{expected}+00:00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("09:00", "2026-11-21T08:00:00"),
        ("23:45", "2026-11-20T22:45:00"),
        ("fri 09:00", "2026-11-20T08:00:00"),
        ("sat 09:00", "2026-11-21T08:00:00"),
        ("sat 23:45", "2026-11-14T22:45:00"),
        ("24h", "2026-11-20T22:31:07"),
        ("1d", "2026-11-20T22:31:07"),
        ("1h30m", "2026-11-21T21:01:07"),
        ("2h ago", "2026-11-21T20:31:07"),
        ("+2h", "2026-11-22T00:31:07"),
        ("in 2h", "2026-11-22T00:31:07"),
    ],
)
def test_a_time_of_the_past_is_the_newest_that_has_passed(text: str, expected: str) -> None:
    assert read_time(text, now=NOW, zone=VIENNA, is_past=True) == datetime.fromisoformat(f"{expected}+00:00")


def test_a_text_that_is_no_time_of_the_past_is_refused_with_what_is_one() -> None:
    with pytest.raises(ValueError, match=r"^'last week': expected a time such as .*, 7d for 7 days ago, or now$"):
        read_time("last week", now=NOW, zone=VIENNA, is_past=True)


@pytest.mark.parametrize("text", ["+2h", "in 2h", "tomorrow", "2026-11-21T23:31:08"])
def test_a_time_to_come_is_refused_where_it_cannot_be_meant(text: str) -> None:
    with pytest.raises(ValueError, match=r": expected a time such as .*, 7d for 7 days ago, or now; that is in \d"):
        read_time(text, now=NOW, zone=VIENNA, is_past=True, may_come=False)


@pytest.mark.parametrize("text", ["now", "2h", "23:31:07", "2026-11-21T23:31:07"])
def test_a_time_that_has_passed_is_accepted_there(text: str) -> None:
    assert read_time(text, now=NOW, zone=VIENNA, is_past=True, may_come=False) <= NOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "90",
        "1763764267",
        "25:00",
        "9",
        "tomorrow at nine",
        "2026-13-01",
        "2026-02-30 09:00",
        "someday 09:00",
    ],
)
def test_what_is_no_time_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a time such as 2026-11-23T09:00, 09:00, tomorrow 09:00"):
        read_time(text, now=NOW, zone=VIENNA)


@pytest.mark.parametrize(
    ("seconds", "one", "two"),
    [
        (0, "0 s", "0 s"),
        (3.4, "3 s", "3 s"),
        (59.6, "1 min", "1 min"),
        (233, "4 min", "3 min 53 s"),
        (3570, "1 h", "59 min 30 s"),
        (5400, "90 min", "1 h 30 min"),
        (75, "75 s", "1 min 15 s"),
        (8000, "2 h", "2 h 13 min"),
        (120_533, "33 h", "1 d 9 h"),
        (86_400, "1 d", "1 d"),
        (1e8, "1,157 d", "1,157 d 9 h"),
    ],
)
def test_a_duration_in_words(seconds: float, one: str, two: str) -> None:
    length = timedelta(seconds=seconds)

    assert (duration_words(length), duration_words(length, units=2)) == (one, two)


@pytest.mark.parametrize(
    ("text", "age", "clock"),
    [
        ("2026-11-21T23:31:00", "7 s ago", "Sat 23:31:00"),
        ("2026-11-21T22:58:00", "33 min ago", "Sat 22:58:00"),
        ("2026-11-20T09:00:00", "Fri 09:00", "Fri 09:00:00"),
        ("2026-11-03T09:00:00", "3 Nov", "3 Nov 09:00:00"),
        ("2025-11-03T09:00:00", "3 Nov 2025", "3 Nov 2025 09:00:00"),
        ("2026-11-21T23:31:10", "in 3 s", "Sat 23:31:10"),
    ],
)
def test_a_time_in_words(text: str, age: str, clock: str) -> None:
    now, moment = NOW.astimezone(VIENNA), datetime.fromisoformat(text).replace(tzinfo=VIENNA)

    assert (age_words(moment, now), clock_words(moment, now)) == (age, clock)


def test_a_date_and_a_distance_in_words() -> None:
    assert date_words(NOW.date()) == "Sat 21 Nov 2026"
    assert relative_words(NOW + timedelta(hours=33.5), NOW, units=2) == "in 1 d 9 h"
    assert relative_words(NOW - timedelta(hours=33.5), NOW, units=2) == "1 d 9 h ago"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"), (-1, "0 ms"), (0.0034, "3 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (1.24, "1.2 s"),
        (59.94, "59.9 s"), (59.96, "1 min"), (367, "6 min"), (90_000, "1 d"),
    ],
)  # fmt: skip
def test_how_long_something_took_is_as_exact_as_it_matters(seconds: float, words: str) -> None:
    assert span_words(timedelta(seconds=seconds)) == words


def test_a_long_span_has_as_many_units_as_asked_for() -> None:
    assert span_words(timedelta(seconds=367), units=2) == "6 min 7 s"
