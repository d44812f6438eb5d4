"""The reader of stored definitions: what it shares, and what it must not confuse."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timezone
from typing import Any

import pytest
from celery.schedules import BaseSchedule
from celery.schedules import schedule as interval

from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.policies import Overlap
from redisbeater.model.reader import LONGEST_TEXT, EntryReader, tracked_fields
from redisbeater.model.resolved_policy import Defaults
from redisbeater.schedules.kinds import ScheduleCodec

HOURLY = {"__type__": "interval", "every": 3600.0, "relative": False}


@pytest.fixture
def reader() -> EntryReader:
    return EntryReader(ScheduleCodec(), Defaults(zone=timezone.utc))


def schedule_of(reader: EntryReader, name: str, schedule: Any) -> BaseSchedule:
    definition, _ = reader.read(name, json.dumps({"task": "proj.report", "schedule": schedule}))
    return definition.schedule


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(HOURLY, id="interval"),
        pytest.param({"__type__": "crontab", "minute": "*/5"}, id="crontab"),
        pytest.param({"__type__": "crontab", "minute": [0, 30]}, id="crontab-with-a-list"),
    ],
)
def test_entries_of_one_schedule_share_it(reader: EntryReader, schedule: dict[str, Any]) -> None:
    assert schedule_of(reader, "first", schedule) is schedule_of(reader, "second", schedule)


def test_a_schedule_that_only_looks_like_one_that_was_read_is_refused(reader: EntryReader) -> None:
    schedule_of(reader, "first", {**HOURLY, "every": 1})

    with pytest.raises(InvalidEntry, match=r"^\$\.schedule\.every: expected seconds, got True"):
        schedule_of(reader, "second", {**HOURLY, "every": True})


@pytest.mark.parametrize("schedule", [None, 60, "hourly", [], {}], ids=["null", "number", "text", "list", "no-type"])
def test_stored_data_that_is_not_a_schedule_is_refused(reader: EntryReader, schedule: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.schedule"):
        schedule_of(reader, "report", schedule)


def test_a_date_with_an_unknown_part_is_refused_by_its_path(reader: EntryReader) -> None:
    moment = {"__type__": "datetime", "year": 2026, "month": 1, "day": 1, "timezone": "UTC", "tzinfo": 1}

    with pytest.raises(InvalidEntry, match=r"^\$\.schedule\.at"):
        schedule_of(reader, "report", {"__type__": "clocked", "at": moment})


@pytest.mark.parametrize(("characters", "is_remembered"), [(100, True), (LONGEST_TEXT, False)])
def test_a_definition_is_remembered_unless_it_is_long(
    reader: EntryReader, characters: int, is_remembered: bool
) -> None:
    text = json.dumps({"task": "proj.report", "schedule": HOURLY, "args": ["x" * characters]})

    first, second = (reader.read("report", text)[0] for _ in range(2))

    assert first == second
    assert (first is second) == is_remembered
    assert (first.schedule is second.schedule) == is_remembered


#: Appends a field to every definition, as a later version will, and prints what is found of an overlap alone.
WITH_ONE_MORE_FIELD = """
import collections, importlib
from redisbeater.model import definition, policies, reader
before = definition.Definition
fields, defaults = (*before._fields, "another"), (*before._field_defaults.values(), 0)
definition.Definition = collections.namedtuple("Definition", fields, defaults=defaults)
importlib.reload(reader)
entry = definition.Definition("a", "t", None, [], {}, {}, {}, overlap=policies.Overlap.SKIP)
print(*reader.tracked_fields(entry))
"""


def test_a_field_that_needs_records_is_found_when_a_later_version_has_more_fields() -> None:
    found = subprocess.run([sys.executable, "-c", WITH_ONE_MORE_FIELD], capture_output=True, text=True, check=True)

    assert found.stdout == "overlap\n"


def test_values_that_need_no_records_are_not_found() -> None:
    definition = Definition(
        "a", "t", interval(60), [], {}, {}, {}, overlap=Overlap.ALLOW, requeue_lost=0, deadline=60.0
    )

    assert tracked_fields(definition) == []
