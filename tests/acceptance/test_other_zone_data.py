"""Two hosts of one schedule have different zone data, and their beats take turns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from celery.schedules import crontab
from support.project import Process, Project, leading
from support.waiting import wait_until
from support.zone_data import EAST, VANCOUVER, WEST, write_zones, zone_data

from redisbeater import RedisScheduleEntry, ScheduleStore


def test_each_leader_plans_by_the_rules_of_its_host_after_the_one_before_was_killed(
    make_project: Callable[..., Project], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    west, east = write_zones(tmp_path / "west", WEST), write_zones(tmp_path / "east", EAST)
    project = make_project(redisbeater_lock_timeout=3, redisbeater_publish_timeout=1)
    app = project.app()

    def beat_on(folder: Path) -> Process:
        monkeypatch.setenv("PYTHONTZPATH", str(folder))
        return project.beat()

    def due_at() -> datetime:
        due = RedisScheduleEntry.from_key(RedisScheduleEntry.generate_key(app, "report"), app=app).due_at
        assert due is not None
        return due

    with zone_data(west):
        hour = (datetime.now(timezone.utc) + timedelta(hours=4)).hour
        RedisScheduleEntry("report", "proj.note", crontab(0, hour), timezone=VANCOUVER, app=app).save()
    RedisScheduleEntry("often", "proj.note", 1, app=app).save()
    planned = due_at()

    first = leading(beat_on(west))
    second = beat_on(east)
    second.says("zone-rules-differ")
    assert "other rules" not in first.output()
    (found,) = wait_until(lambda: [each for each in ScheduleStore(app).status().beats if each.other_rules], "its line")
    assert found.other_rules == (VANCOUVER,)
    assert due_at() == planned

    first.kill()
    second.says(f"rules of {VANCOUVER} changed: 1 entries planned again, the next run of 1 moved by 1 h")
    assert planned - due_at() == timedelta(hours=1)

    third = beat_on(west)
    third.says("zone-rules-differ")
    second.kill()
    third.says(f"rules of {VANCOUVER} changed: 1 entries planned again, the next run of 1 moved by 1 h")
    wait_until(lambda: due_at() == planned, "it is planned as at first")
