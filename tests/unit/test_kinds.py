"""What is said of each kind of schedule, and of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from celery.schedules import BaseSchedule, crontab, schedule, solar

from redisbeater import any_of, clocked, cron, rrule
from redisbeater.schedules.kind import ScheduleKind
from redisbeater.schedules.kinds import KINDS, SCHEDULE_WORDS, ScheduleCodec, kind_of
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.zones import moment_of

NOON = datetime(2026, 6, 10, 12, tzinfo=timezone.utc)

SCHEDULES = [
    pytest.param(schedule(90), id="interval"),
    pytest.param(crontab("*/5", "9"), id="crontab"),
    pytest.param(cron("0 18 L * *"), id="cron"),
    pytest.param(any_of("0 18 L * *", "0 9 * * *"), id="any_of"),
    pytest.param(rrule("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY"), id="rrule"),
    pytest.param(clocked(NOON), id="clocked"),
    pytest.param(solar("sunset", 48.2, 16.4), id="solar"),
]


@dataclass(frozen=True)
class InUTC:
    """A word in a file of an application in UTC."""

    zone: tzinfo = timezone.utc
    start: datetime | None = None

    def time(self, text: str, path: str) -> datetime:
        moment: datetime = moment_of(text, path)
        return moment


def test_there_is_an_example_of_each_kind() -> None:
    assert [kind_of(each.values[0]).name for each in SCHEDULES] == [kind.name for kind in KINDS]


@pytest.mark.parametrize("schedule_", SCHEDULES)
def test_the_text_of_a_schedule_is_read_as_the_same_schedule(schedule_: BaseSchedule) -> None:
    kind = kind_of(schedule_)

    assert SCHEDULE_WORDS[kind.word].read(kind.text(schedule_), InUTC()) == schedule_


@pytest.mark.parametrize("schedule_", SCHEDULES)
def test_a_class_of_the_application_is_custom_though_it_derives_from_a_kind(schedule_: BaseSchedule) -> None:
    own = type("Own", (type(schedule_),), {"to_redisbeater": lambda self: {}})

    assert kind_of(object.__new__(own)).is_custom


def test_a_subclass_that_finds_its_own_fire_times_is_asked_for_them() -> None:
    class Hourly(crontab):
        def remaining_estimate(self, last_run_at: datetime) -> timedelta:
            return timedelta(hours=1)

    assert Timetable(schedule=Hourly(), zone=timezone.utc).next(NOON) == NOON + timedelta(hours=1)


@pytest.mark.parametrize(
    "given", [None, 60, "hourly", crontab, BaseSchedule()], ids=["None", "a number", "a text", "a class", "another"]
)
def test_what_is_no_schedule_is_none_of_the_kinds(given: Any) -> None:
    assert kind_of(given) not in KINDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_is_described_without_the_words_of_a_command_line_or_a_page(kind: ScheduleKind[Any]) -> None:
    said = " ".join((kind.word, kind.title, kind.placeholder, kind.sentence, kind.expected))

    assert all((kind.word, kind.title, kind.placeholder, kind.sentence, kind.expected))
    assert not any(mark in said for mark in ("--", "<", ">", "&"))


def test_a_kind_has_no_state() -> None:
    with pytest.raises(AttributeError):
        KINDS[0].word = "each"


def test_redbeat_reads_three_kinds_and_rules_made_of_parts() -> None:
    codec = ScheduleCodec()
    assert {kind.name for kind in KINDS if kind.foreign == ()} == {"interval", "crontab", "solar"}

    parts, text = rrule("DAILY", dtstart=NOON), rrule("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY")

    foreign = kind_of(parts).foreign or ()
    assert (set(foreign) & codec.encode(parts).keys(), set(foreign) & codec.encode(text).keys()) == (set(), {"text"})
