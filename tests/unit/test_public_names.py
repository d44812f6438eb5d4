"""The public names of the package: each is there, and importing the package loads only what most processes need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import redisbeater
from redisbeater import results

#: What a process that saves an entry, or executes tasks, has no use for.
UNNEEDED = ("beat", "broker.broker", "cli", "dashboard", "dispatch", "management", "observe", "scheduler", "sending")

PROGRAM = """
import sys
from redisbeater import RedisScheduleEntry, cron
import redisbeater.runs
print(*(name for name in sys.modules if name.startswith("redisbeater.")))
"""


def test_a_process_that_saves_an_entry_loads_neither_beat_nor_the_management() -> None:
    loaded = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()

    rooms = tuple(f"redisbeater.{room}" for room in UNNEEDED)
    assert [name for name in loaded if name in rooms or name.startswith(tuple(f"{room}." for room in rooms))] == []
    assert "redisbeater.serving" in loaded, "Celery's signals about a beat service are not connected"


def test_every_public_name_is_found_and_listed() -> None:
    assert {name for name in redisbeater.__all__ if getattr(redisbeater, name).__doc__} == {*redisbeater.__all__}
    assert set(redisbeater.__all__) <= set(dir(redisbeater))


def test_each_result_class_on_the_page_about_the_api_is_in_the_module_of_results() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.rst").read_text(encoding="utf-8")

    assert not re.findall(r"autoclass:: redisbeater\.(?:editing|management|model|store)\..*", page)
    shown = set(re.findall(r"autoclass:: (?:redisbeater\.results\.)?(\w+)(?:\(\))?$", page, re.MULTILINE))
    assert {*results.__all__} - shown == set()


def test_another_name_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'redisbeater' has no attribute 'ScheduleStor'"):
        redisbeater.ScheduleStor  # type: ignore[attr-defined]  # noqa: B018
