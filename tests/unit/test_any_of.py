"""Several crons in one schedule."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, crontab, schedule
from moments import NEW_YORK, at, sequence, utc

from redisbeater import InvalidEntry, any_of, clocked, cron, rrule
from redisbeater.model.definition import Definition
from redisbeater.schedules.kinds import SCHEDULE_WORDS, ScheduleCodec, describe, kind_of
from redisbeater.schedules.timetable import Timetable, next_fire_time, part_note

CODEC = ScheduleCodec()
DOORS = any_of("0 12 * * sat", "0 9 * * mon-fri")


def test_it_fires_at_the_times_of_each_part() -> None:
    found = sequence(partial(next_fire_time, DOORS, NEW_YORK), at("2026-11-20 00:00"), at("2026-11-24 12:00"))

    assert [f"{each.astimezone(NEW_YORK):%a %H:%M}" for each in found] == [
        "Fri 09:00",
        "Sat 12:00",
        "Mon 09:00",
        "Tue 09:00",
    ]


def test_a_time_of_two_parts_is_one_run() -> None:
    when = any_of("0 * * * *", "*/30 * * * *", "0 12 * * *")
    table = Timetable(schedule=when, zone=timezone.utc)
    noon = utc("2026-11-20 12:00")

    assert sequence(partial(next_fire_time, when, timezone.utc), noon, utc("2026-11-20 13:00")) == [
        utc("2026-11-20 12:30")
    ]
    assert table.count(noon, utc("2026-11-21 12:00")) == (49, False)
    assert table.newest_of(3, noon, utc("2026-11-20 13:10")) == [noon, utc("2026-11-20 12:30"), utc("2026-11-20 13:00")]
    assert part_note(when, timezone.utc, noon) == "by 0 12 * * *, 0 * * * * and */30 * * * *"
    assert part_note(when, timezone.utc, noon + timedelta(minutes=30)) == "by */30 * * * *"


def test_each_part_keeps_what_it_does_when_the_clocks_change() -> None:
    when = any_of("30 1,2 * * *", "*/30 1 * * *")

    def on(day: str) -> list[str]:
        found = sequence(partial(next_fire_time, when, NEW_YORK), at(f"{day} 00:00"), at(f"{day} 12:00"))
        return [f"{each.astimezone(NEW_YORK):%H:%M %z}" for each in found]

    assert on("2026-03-08") == ["01:00 -0500", "01:30 -0500", "03:00 -0400"]
    assert on("2026-11-01") == ["01:00 -0400", "01:30 -0400", "01:00 -0500", "01:30 -0500", "02:30 -0500"]


def test_parts_are_flat_sorted_by_their_times_and_each_once() -> None:
    nested = any_of(any_of("0 12 * * *", cron("0 9 * * *")), crontab("30", "10"), "0 9 * * *", cron("0 0 9 L * *"))

    assert CODEC.encode(nested) == {
        "__type__": "any_of",
        "crons": ["0 9 * * *", "0 0 9 L * *", "30 10 * * *", "0 12 * * *"],
    }
    assert nested == any_of("30 10 * * *", "0 9 * * *", "0 12 * * *", "0 0 9 L * *")


@pytest.mark.parametrize(
    "parts",
    [
        (), ("0 9 * * *",), ("0 9 * * *", "0 9 * * *"), tuple(f"{minute} 9 * * *" for minute in range(21)),
        ("0 9 * * *", "61 * * * *"), ("0 9 * * *", ""), ("0 9 * * *", schedule(60)), ("0 9 * * *", None),
        ("0 9 * * *", rrule("FREQ=DAILY", dtstart=datetime(2026, 1, 1))), ("0 9 * * *", clocked(datetime(2026, 1, 1))),
        (cron("0 9 * * *", "Europe/Vienna"), cron("0 12 * * *", "UTC")), ("0 9 31 2 *", "0 9 * * *"),
        ("0 9 * * *", crontab(nowfun=lambda: None)), (["0 9 * * *", "0 12 * * *"],),
    ],
    ids=[
        "none", "one", "one-twice", "too-many", "wrong", "empty", "interval", "None", "rrule", "clocked", "two-zones",
        "never", "nowfun", "a-list",
    ],
)  # fmt: skip
def test_what_cannot_be_parts_is_refused(parts: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidEntry):
        any_of(*parts)


def test_the_zone_of_a_part_is_that_of_the_entry() -> None:
    when = any_of(cron("0 9 * * *", "Europe/Vienna"), "0 12 * * *")

    assert Definition.checked(name="x", task="t", schedule=when).timezone == "Europe/Vienna"
    assert str(when.tz) == "Europe/Vienna"
    with pytest.raises(InvalidEntry, match=r"\$\.timezone"):
        Definition.checked(name="x", task="t", schedule=when, timezone="UTC")


def test_h_of_each_part_is_decided_by_the_name_of_the_entry() -> None:
    when = any_of("H 9 * * *", "H 12 * * *")
    one, other = (Definition.checked(name=name, task="t", schedule=when) for name in ("a", "b"))

    assert one.schedule != other.schedule
    assert kind_of(one.schedule).depends_on_entry(one.schedule)
    with pytest.raises(InvalidEntry, match="is decided by the name of an entry"):
        next_fire_time(when, timezone.utc, utc("2026-11-20 00:00"))
    found = next_fire_time(one.schedule, timezone.utc, utc("2026-11-20 00:00"))
    assert found == next_fire_time(cron("H 9 * * *").for_entry("a"), timezone.utc, utc("2026-11-20 00:00"))
    assert Definition.from_text("a", one.to_text(CODEC), CODEC) == one


def test_many_fire_times_are_counted_as_far_as_the_budget_reaches() -> None:
    begin, table = utc("2020-01-01 00:00"), Timetable(schedule=any_of("* * * * *", "30 9 * * * *"), zone=timezone.utc)

    assert table.count(begin, begin + timedelta(days=10)) == (10 * 24 * 61 + 1, False)
    of_years = table.count(begin, begin + timedelta(days=2_000))
    assert of_years.is_at_least
    assert 2_000 * 24 * 60 < of_years.number < 2_000 * 24 * 61


@pytest.mark.parametrize(
    "stored",
    [
        {}, {"crons": []}, {"crons": ["0 9 * * *"]}, {"crons": "0 9 * * *"}, {"crons": ["0 9 * * *", 5]},
        {"crons": ["0 9 * * *", "0 12 * * *"], "timezone": "UTC"}, {"crons": ["0 9 * * *", "61 12 * * *"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_stored_form_that_is_wrong_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(InvalidEntry):
        CODEC.decode({"__type__": "any_of", **stored})


def test_copies_and_pickles_are_equal() -> None:
    for when in (DOORS, DOORS.for_entry("x"), any_of("H 9 * * *", "0 12 L * *").for_entry("x")):
        assert copy.copy(when) == pickle.loads(pickle.dumps(when)) == CODEC.decode(CODEC.encode(when)) or "H" in repr(
            when
        )
        assert hash(copy.deepcopy(when)) == hash(when)
        assert when != any_of("0 1 * * *", "0 2 * * *")


def test_celery_itself_can_ask_it() -> None:
    when = any_of("* * * * *", "0 12 * * *")
    is_due, seconds = when.is_due(datetime.now(timezone.utc) - timedelta(hours=1))

    assert is_due
    assert 0 <= seconds <= 60


def test_it_is_described_by_its_parts() -> None:
    words = "at 09:00 on Monday to Friday; or at 12:00 on Saturday"
    fixed = "(fixed: once for each time of the day, also when the clocks change)"

    assert describe(DOORS, "Europe/Vienna") == f"{words}, Europe/Vienna {fixed}"
    assert describe(DOORS) == f"{words} {fixed}"
    assert describe(any_of(cron("0 9 * * mon-fri", "UTC"), "0 12 * * sat")) == f"{words}, UTC {fixed}"
    both = describe(any_of("0 9 * * *", "*/5 * * * *"))
    assert "0 9 * * * is fixed: " in both
    assert "*/5 * * * * is repeating: " in both


class Reading:
    zone = ZoneInfo("UTC")
    start = None

    def time(self, text: str, path: str) -> datetime:
        raise AssertionError(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("0 9 * * mon-fri\n0 12 * * sat", DOORS),
        ("\n0 9 * * mon-fri\r\n\r\n 0 12 * * sat ", DOORS),
        (["0 9 * * mon-fri", "0 12 * * sat"], DOORS),
        (["0 9 * * *"], cron("0 9 * * *")),
        ("0 9 * * *", cron("0 9 * * *")),
    ],
    ids=["lines", "blank-lines", "list", "list-of-one", "one"],
)
def test_the_word_cron_reads_one_text_or_several(given: Any, expected: BaseSchedule) -> None:
    assert SCHEDULE_WORDS["cron"].read(given, Reading()) == expected


@pytest.mark.parametrize("given", [5, None, [], [5], {"a": 1}, "", ["0 9 * * *", "x"]], ids=str)
def test_the_word_cron_refuses_what_is_no_text(given: Any) -> None:
    with pytest.raises(InvalidEntry):
        SCHEDULE_WORDS["cron"].read(given, Reading())
