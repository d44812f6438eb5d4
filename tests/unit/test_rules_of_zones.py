"""When the rules of a zone change, each local time of an entry still has one run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab
from support.zone_data import NEW, OLD, WEST, write_zones, zone_data

from redisbeater import clocked, cron, rrule
from redisbeater.editing.rescheduling import Before, Replan
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.resolved_policy import Defaults
from redisbeater.results import Score
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.zones import PlannedBy, ZoneRules, rules_of
from redisbeater.store import Snapshot

UTC, CODEC = timezone.utc, ScheduleCodec()

BEGIN, END = datetime(2026, 9, 1, tzinfo=UTC), datetime(2027, 1, 20, tzinfo=UTC)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with the older and the newer zone data."""
    tables = {"old": OLD, "new": NEW}
    return {name: write_zones(tmp_path_factory.mktemp(name), table) for name, table in tables.items()}


def by_zone(folder: Path, name: str) -> ZoneInfo:
    with (folder / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def replanned(
    definition: Definition, rules: dict[str, ZoneInfo], *, pending: datetime, last: datetime | None, now: datetime
) -> datetime | None:
    """The pending fire time of an entry after its zones have the rules of this host; a second time changes nothing."""
    before = Before(
        zone="UTC",
        codec=CODEC,
        rules={name: rules_of(zone, 2026) for name, zone in rules.items()},
        now={name: rules_of(ZoneInfo(name), 2026).id for name in rules},
    )
    meta = "" if last is None else Meta(last_run_at=last, total_run_count=1, score_follows_last_run=True).to_text()
    text, marks = definition.to_text(CODEC), ""
    for attempt in range(2):
        snapshot = Snapshot(
            name="report", now=now, definition=text, meta=meta, score=Score(fire_time=pending), rules=marks
        )
        edit = Replan(name="report", before=before, decoder=CODEC).apply(snapshot, Defaults(zone=UTC), CODEC)
        assert attempt == 0 or edit.changes_nothing
        if edit.score is not None:
            if edit.score.dormant or edit.score.fire_time is None:
                return None
            pending = edit.score.fire_time
        marks = PlannedBy(2026).marks(definition.zones(UTC))[1] if edit.is_replanned else ""
    return pending


def entry(given: Any, zone: str | None) -> Definition:
    return Definition.checked(name="report", task="proj.work", schedule=given, timezone=zone)


KINDS: dict[str, tuple[Callable[[str], Any], bool]] = {
    "crontab": (lambda zone: crontab(0, 9), True),
    "crontab-of-several-hours": (lambda zone: crontab("0,30", "0,3,8-12,23"), True),
    "cron-text": (lambda zone: cron("15 30 6,17 * * *"), True),
    "rrule": (lambda zone: rrule("FREQ=DAILY;BYHOUR=2,9", dtstart=datetime(2026, 1, 1, 9), timezone=zone), False),
    "rrule-of-parts": (lambda zone: rrule("DAILY", dtstart=datetime(2026, 8, 1, 9), timezone=zone), False),
}


def slots(table: Timetable, begin: datetime, end: datetime) -> Iterator[datetime]:
    following = table.next(begin)
    while following is not None and following < end:
        yield following
        following = table.next(following)


@pytest.mark.parametrize("way", ["upgrade", "downgrade"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zone", OLD)
def test_no_local_time_runs_twice_and_none_is_lost(zone: str, kind: str, way: str, folders: dict[str, Path]) -> None:
    """Run an entry by the rules of one version of the data until an instant, and by those of the other from then on."""
    make, has_own_zone = KINDS[kind]
    before, now_data = (folders["old"], folders["new"]) if way == "upgrade" else (folders["new"], folders["old"])
    with zone_data(before):
        planned_before = list(slots(entry(make(zone), zone if has_own_zone else None).timetable(UTC), BEGIN, END))
    old = by_zone(before, zone)
    with zone_data(now_data):
        definition, new = entry(make(zone), zone if has_own_zone else None), ZoneInfo(zone)
        planned_now = list(slots(definition.timetable(UTC), BEGIN, END))
        for changed_at in (BEGIN + timedelta(hours=hours) for hours in range(5, 130 * 24, 131)):
            last = max((each for each in planned_before if each <= changed_at), default=None)
            pending = min(each for each in planned_before if each > changed_at)
            found = replanned(definition, {zone: old}, pending=pending, last=last, now=changed_at)
            assert found is not None
            rest = [found, *(each for each in planned_now if each > found)]
            shown = [each.astimezone(old).replace(tzinfo=None) for each in planned_before if each <= changed_at]
            shown += [each.astimezone(new).replace(tzinfo=None) for each in rest]
            assert len(set(shown)) == len(shown), (changed_at, "a local time has run twice")
            # What the clock shows by now at the last run, or has shown before it, that run stands for: as in a gap.
            owed = [each for each in planned_now if last is None or each > last]
            lost = {each.astimezone(new).replace(tzinfo=None) for each in owed} - set(shown)
            assert not lost, (changed_at, "local times are lost")


@pytest.mark.parametrize("zone", OLD)
def test_a_moment_in_the_zone_keeps_its_local_time(zone: str, folders: dict[str, Path]) -> None:
    at = datetime(2026, 12, 15, 9)
    old = by_zone(folders["old"], zone)
    with zone_data(folders["new"]):
        for given, own in ((clocked(at, timezone=zone), None), (clocked(at), zone)):
            found = replanned(
                entry(given, own),
                {zone: old},
                pending=at.replace(tzinfo=old).astimezone(UTC),
                last=None,
                now=datetime(2026, 11, 25, tzinfo=UTC),
            )
            assert found is not None
            assert found.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == at


@pytest.mark.parametrize("zone", OLD)
def test_an_interval_does_not_move_and_its_start_keeps_its_local_time(zone: str, folders: dict[str, Path]) -> None:
    old, now = by_zone(folders["old"], zone), datetime(2026, 11, 25, tzinfo=UTC)
    with zone_data(folders["new"]):
        start = datetime(2026, 12, 15, 9, tzinfo=ZoneInfo(zone))
        began = Definition.checked(name="report", task="proj.work", schedule=5400, start_at=start, timezone=zone)
        pending = start.replace(tzinfo=old).astimezone(UTC)

        assert replanned(began, {zone: old}, pending=pending, last=None, now=now) == start
        later = pending + timedelta(seconds=5400)
        assert replanned(began, {zone: old}, pending=later, last=pending, now=now) == later
        assert replanned(entry(5400, zone), {zone: old}, pending=now, last=None, now=now) == now


def test_a_rule_of_parts_that_began_by_the_old_rules_keeps_its_local_time(folders: dict[str, Path]) -> None:
    zone = "America/Vancouver"
    with zone_data(folders["old"]):
        text = entry(rrule("DAILY", dtstart=datetime(2026, 11, 20, 9), timezone=zone), None).to_text(CODEC)
    old = by_zone(folders["old"], zone)
    with zone_data(folders["new"]):
        definition = Definition.from_text("report", text, CODEC)
        pending = datetime(2026, 12, 15, 9, tzinfo=old).astimezone(UTC)
        found = replanned(
            definition, {zone: old}, pending=pending, last=None, now=datetime(2026, 12, 14, 20, tzinfo=UTC)
        )

        assert found == datetime(2026, 12, 15, 16, tzinfo=UTC)


def test_a_fire_time_that_is_left_out_stays_left_out(folders: dict[str, Path]) -> None:
    zone = "America/Vancouver"
    old = by_zone(folders["old"], zone)
    with zone_data(folders["new"]):
        skip = [datetime(2026, 12, 16, 9, tzinfo=old).astimezone(UTC)]
        definition = Definition.checked(
            name="report", task="proj.work", schedule=crontab(0, 9), timezone=zone, skip=skip
        )
        before = Before(zone="UTC", codec=CODEC, rules={zone: rules_of(old, 2026)})
        snapshot = Snapshot(
            name="report",
            now=datetime(2026, 11, 25, tzinfo=UTC),
            definition=definition.to_text(CODEC),
            meta="",
            score=Score(fire_time=datetime(2026, 11, 25, 9, tzinfo=old).astimezone(UTC)),
        )
        edit = Replan(name="report", before=before, decoder=CODEC).apply(snapshot, Defaults(zone=UTC), CODEC)

    assert edit.definition.skip == (datetime(2026, 12, 16, 16, tzinfo=UTC),)
    assert "2026-12-16T16:00:00" in edit.text


def test_a_fire_time_that_a_program_has_set_stays(folders: dict[str, Path]) -> None:
    zone = "America/Vancouver"
    with zone_data(folders["new"]):
        pending = datetime(2026, 12, 15, 3, 7, tzinfo=UTC)
        rules = {zone: by_zone(folders["old"], zone)}
        now = datetime(2026, 11, 25, tzinfo=UTC)

        assert replanned(entry(crontab(0, 9), zone), rules, pending=pending, last=None, now=now) == pending


# The rules themselves


@pytest.mark.parametrize("data", ["old", "new"])
@pytest.mark.parametrize("zone", [*OLD, "Europe/Dublin", "Australia/Lord_Howe", "Asia/Kathmandu", "Antarctica/Troll"])
def test_stored_rules_make_the_same_zone(zone: str, data: str, folders: dict[str, Path]) -> None:
    with zone_data(folders[data]):
        given = ZoneInfo(zone)
    rules = ZoneRules.from_text(rules_of(given, 2026).text)
    assert rules is not None
    made = rules.zone(zone)

    for hours in range(0, 4 * 365 * 24, 5):
        instant = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
        assert instant.astimezone(made).replace(tzinfo=None) == instant.astimezone(given).replace(tzinfo=None)
    assert (made.key, rules.id) == (zone, rules_of(given, 2026).id)


def test_rules_are_compared_in_the_years_that_both_are_about(folders: dict[str, Path]) -> None:
    old, new = (by_zone(folders[data], "America/Vancouver") for data in ("old", "new"))

    assert rules_of(old, 2026).agrees_with(rules_of(old, 2027))
    assert not rules_of(old, 2026).agrees_with(rules_of(new, 2026))
    assert rules_of(old, 2027).agrees_with(rules_of(old, 2026))
    assert rules_of(old, 2020).agrees_with(rules_of(new, 2030)), "no year in common"


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"offsets": [], "until": 1, "beat": ""}', '{"offsets": [[1]], "until": 1}',
             '{"offsets": [[1, 100000]], "until": 1, "beat": ""}', '{"offsets": [[1e400, 1]], "until": 1, "beat": ""}'],
)  # fmt: skip
def test_what_another_program_has_stored_is_no_rules(text: str) -> None:
    assert ZoneRules.from_text(text) is None


def test_two_processes_with_different_data_tell_each_other_apart(tmp_path: Path) -> None:
    folder = write_zones(tmp_path, WEST)
    code = "from redisbeater.schedules.zones import *; print(rules_of(read_zone('America/Vancouver', ''), 2026).id)"

    def told(path: str) -> str:
        env = {**os.environ, "PYTHONTZPATH": path}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    assert told(str(folder)) != told("")
    assert told("") == told("")
