"""Hosts with different zone data on one schedule: the rules of the leader count for each pending fire time."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import now, save_due, stored
from support.waiting import wait_until
from support.zone_data import EAST, VANCOUVER, WEST, write_zones, zone_data

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked, cron, rrule
from redisbeater.beat import replanning, zone_change
from redisbeater.beat.zone_change import ZoneChange
from redisbeater.context import Context
from redisbeater.editing.compare_and_set import write_page

HOUR = timedelta(hours=1)

#: How many entries of one zone a schedule has at most in these tests.
ENTRIES = 20_000


class Host:
    """A host with zone data of its own, in this process: what is made in its block reads that."""

    def __init__(
        self, folder: Path, client: redis.Redis, prefix: str, make_app: Callable[..., Celery],
        make_scheduler: Callable[..., Any],
    ) -> None:  # fmt: skip
        self._folder, self._client, self._prefix = folder, client, prefix
        self._make_app, self._make_scheduler = make_app, make_scheduler

    def save(self, name: str, given: Any, **fields: Any) -> datetime:
        """Save an entry; its next fire time."""
        app = self._make_app(**fields.pop("settings", {}))
        with self.data():
            given = given() if callable(given) else given
            due_at = RedisScheduleEntry(name, "proj.work", given, app=app, **fields).save().due_at
        assert due_at is not None
        return due_at

    def lead(self, **settings: Any) -> RedisScheduler:
        """Let a beat lead until all entries are planned by its rules; it does not end."""
        beat = self.beat(**settings)
        self.tick(beat)
        self.tick_until(beat, self.is_finished, "the change is finished")
        return beat

    def beat(self, **settings: Any) -> RedisScheduler:
        with self.data():
            beat: RedisScheduler = self._make_scheduler(self._make_app(**settings))
        beat.is_served = True
        return beat

    def tick(self, beat: RedisScheduler) -> None:
        with self.data():
            beat.tick()

    def tick_until(self, beat: RedisScheduler, condition: Callable[[], Any], what: str) -> None:
        """Let a beat work, as its service does, until something is so."""
        with self.data():
            wait_until(lambda: condition() or beat.tick(), what, seconds=600)

    def data(self) -> AbstractContextManager[None]:
        return zone_data(self._folder)

    def is_finished(self) -> bool:
        rules = self._client.hkeys(f"{self._prefix}:zone-rules")
        return ":listed" in rules and not any(" " in field or field == ":again" for field in rules)


@pytest.fixture
def make_host(
    tmp_path: Path, client: redis.Redis, prefix: str, make_app: Callable[..., Celery],
    make_scheduler: Callable[..., Any],
) -> Callable[..., Host]:  # fmt: skip
    return lambda name, zones: Host(write_zones(tmp_path / name, zones), client, prefix, make_app, make_scheduler)


@pytest.fixture
def west(make_host: Callable[..., Host]) -> Host:
    """A host on whose data Vancouver is 8 hours behind UTC."""
    return make_host("west", WEST)


@pytest.fixture
def east(make_host: Callable[..., Host]) -> Host:
    """A host on whose data Vancouver is 7 hours behind UTC."""
    return make_host("east", EAST)


def due(app: Celery, name: str) -> datetime:
    due_at = stored(app, name).due_at
    assert due_at is not None
    return due_at


def far() -> datetime:
    """A local time next week."""
    return (now() + timedelta(days=7)).replace(minute=0, second=0, microsecond=0, tzinfo=None)


def daily() -> crontab:
    """Once a day, half a day from now: the rules change neither across it nor across the last run."""
    return crontab(0, (now() + timedelta(hours=4)).hour)


GIVEN: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "own-zone": (daily, {"timezone": VANCOUVER}),
    "cron": (lambda: cron(f"0 0 {(now() + timedelta(hours=4)).hour} * * *", VANCOUVER), {}),
    "rrule": (lambda: rrule("FREQ=WEEKLY", dtstart=far(), timezone=VANCOUVER), {}),
    "clocked": (lambda: clocked(far(), timezone=VANCOUVER), {}),
    "local-moment": (lambda: clocked(far()), {"timezone": VANCOUVER}),
}

UNMOVED: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "interval": (lambda: 86_400, {"timezone": VANCOUVER}),
    "elsewhere": (daily, {"timezone": "Europe/Vienna"}),
    "everywhere": (daily, {}),
    "hourly": (lambda: crontab(11), {"timezone": VANCOUVER}),
}


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_a_leader_with_other_rules_plans_each_entry_of_the_zone_again_once(
    west: Host, east: Host, app: Celery, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redisbeater")
    west.lead().close()
    before = {name: west.save(name, given, **fields) for name, (given, fields) in (GIVEN | UNMOVED).items()}
    assert "rules" not in caplog.text

    east.lead().close()

    after = {name: due(app, name) for name in before}
    assert {name: before[name] - after[name] for name in GIVEN} == dict.fromkeys(GIVEN, HOUR)
    assert {name: before[name] - after[name] for name in UNMOVED} == dict.fromkeys(UNMOVED, timedelta(0))
    changed = [line for line in lines(caplog, logging.WARNING) if line.startswith("rules of")]
    assert changed == [f"rules of {VANCOUVER} changed: 6 entries planned again, the next run of 5 moved by 1 h"]
    (line,) = [each for each in ScheduleStore(app).log("own-zone") if "other rules" in str(each.details)]
    assert line.details["next"] == [before["own-zone"].isoformat(), after["own-zone"].isoformat()]
    assert set(client.hkeys(f"{prefix}:zone-rules")) == {VANCOUVER, "Europe/Vienna", ":listed"}

    caplog.clear()
    east.lead().close()
    assert {name: due(app, name) for name in before} == after
    assert "rules of" not in caplog.text
    west.lead().close()
    assert {name: due(app, name) for name in before} == before


def test_entries_that_inherit_the_zone_are_planned_again_too(west: Host, east: Host, app: Celery) -> None:
    settings = {"timezone": VANCOUVER}
    west.lead(**settings).close()
    before = west.save("report", daily, settings=settings)

    east.lead(**settings).close()

    assert before - due(app, "report") == HOUR


def test_what_an_older_release_has_stored_is_listed_by_the_first_beat(
    west: Host, east: Host, app: Celery, client: redis.Redis, prefix: str
) -> None:
    before = west.save("report", daily, timezone=VANCOUVER)
    client.delete(f"{prefix}:zone-rules")

    west.lead().close()
    assert client.hexists(f"{prefix}:zone-rules", VANCOUVER)
    east.lead().close()

    assert before - due(app, "report") == HOUR


def test_a_first_lead_records_the_zones_of_all_entries_and_plans_none_of_them(
    west: Host, app: Celery, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (given, fields) in (GIVEN | UNMOVED).items():
        west.save(name, given, **fields)
    client.delete(f"{prefix}:zone-rules")
    monkeypatch.setattr(replanning, "write_page", lambda *args, **options: pytest.fail("it has planned entries again"))

    west.lead().close()

    assert set(client.hkeys(f"{prefix}:zone-rules")) == {VANCOUVER, "Europe/Vienna", ":listed"}


def test_a_first_look_that_another_beat_has_begun_is_done_by_the_next_one(
    west: Host, east: Host, app: Celery, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = west.save("report", daily, timezone=VANCOUVER)
    client.delete(f"{prefix}:zone-rules")
    with monkeypatch.context() as patch:
        patch.setattr(zone_change, "SLICE_SECONDS", 0)
        beat = west.beat()
        west.tick(beat)
        assert not west.is_finished()
        beat.close()

    west.lead().close()
    east.lead().close()

    assert before - due(app, "report") == HOUR


def test_an_entry_of_a_new_zone_that_a_program_saves_during_the_first_look_is_planned_again(
    west: Host, east: Host, app: Celery, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    west.save("own", daily, timezone="Europe/Vienna")
    beat = west.beat()
    with monkeypatch.context() as patch:
        patch.setattr(zone_change, "SLICE_SECONDS", 0)
        west.tick(beat)
        saved = east.save("report", daily, timezone=VANCOUVER)

    west.tick_until(beat, lambda: due(app, "report") - saved == HOUR, "it is planned again")


def test_a_first_look_leaves_its_turn_to_runs_and_is_done_though_they_do_not_end(
    west: Host, app: Celery, client: redis.Redis, prefix: str, let_pass: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(zone_change, "LOOK_SECONDS", 500.0)
    beat = west.beat(redisbeater_lock_timeout=2_000)
    for turn in range(5):
        save_due(app, f"e{turn}")
        west.tick(beat)
    assert client.hexists(f"{prefix}:zone-rules", ":listed") == 0
    let_pass(zone_change.LOOK_SECONDS)
    save_due(app, "last")
    west.tick(beat)

    assert client.hexists(f"{prefix}:zone-rules", ":listed") == 1
    assert [stored(app, f"e{turn}").total_run_count for turn in range(5)] == [1] * 5


def test_an_entry_that_is_due_before_it_was_planned_again_waits_and_all_others_run(
    west: Host, east: Host, app: Celery, monkeypatch: pytest.MonkeyPatch, let_pass: Callable[[float], None]
) -> None:
    """By its old rules it is due now, and by the new ones in an hour."""
    here = (now() - timedelta(seconds=30)).astimezone(ZoneInfo("Etc/GMT+7"))
    every_day = crontab(here.minute, here.hour)
    east.lead().close()
    for number in range(40):
        east.save(f"e{number:02}", every_day, timezone=VANCOUVER, last_run_at=now() - timedelta(days=1))
    monkeypatch.setattr(replanning, "PAGE_ENTRIES", 2)
    monkeypatch.setattr(zone_change, "SLICE_SECONDS", 0.0001)
    save_due(app, "other")
    beat, names = west.beat(), [f"e{number:02}" for number in range(40)]

    west.tick_until(beat, lambda: stored(app, "other").total_run_count, "the run of the other entry")
    assert any(due(app, name) < now() for name in names), "it has waited for all entries of the zone"
    west.tick_until(beat, lambda: all(due(app, name) > now() for name in names), "all are planned again")

    assert [stored(app, f"e{number:02}").total_run_count for number in range(40)] == [0] * 40
    assert {due(app, f"e{number:02}") - now() > timedelta(minutes=50) for number in range(40)} == {True}


@pytest.mark.parametrize("successor", ["east", "west"])
def test_a_beat_that_ends_in_the_middle_is_followed_by_one_that_begins_again(
    successor: str, west: Host, east: Host, app: Celery, make_app: Callable[..., Celery],
    monkeypatch: pytest.MonkeyPatch, let_pass: Callable[[float], None],
) -> None:  # fmt: skip
    """Whatever its own rules are: of the hours of ``several``, most are fire times by both rules."""
    hour = (now() + timedelta(hours=4)).hour
    several = crontab(0, ",".join(str((hour + more) % 24) for more in range(6)))
    west.lead().close()
    names = [f"e{number}" for number in range(9)]
    before = {name: west.save(name, several, timezone=VANCOUVER) for name in names}
    monkeypatch.setattr(replanning, "PAGE_ENTRIES", 2)
    with east.data(), monkeypatch.context() as patch:

        def write_slowly(*args: Any, **options: Any) -> Any:
            result = write_page(*args, **options)
            let_pass(zone_change.STEP_SECONDS)
            return result

        patch.setattr(replanning, "write_page", write_slowly)
        halfway = ZoneChange(Context.of(make_app()))
        for _ in range(3):
            halfway.begin()
            halfway.step()
            halfway.step()
    moved = [name for name in names if due(app, name) != before[name]]
    assert len(moved) == 4

    host = {"east": east, "west": west}[successor]
    host.lead().close()

    by = HOUR if successor == "east" else timedelta(0)
    assert {name: before[name] - due(app, name) for name in names} == dict.fromkeys(names, by)


def test_a_run_that_a_dead_beat_may_have_sent_keeps_its_fire_time_and_is_not_sent_an_hour_later(
    west: Host, east: Host, app: Celery, client: redis.Redis, prefix: str, make_scheduler: Callable[..., Any]
) -> None:
    here = (now() - timedelta(seconds=30)).astimezone(ZoneInfo("Etc/GMT+7"))
    east.lead().close()
    east.save("report", crontab(here.minute, here.hour), timezone=VANCOUVER, last_run_at=now() - timedelta(days=1))
    owed = stored(app, "report").due_at
    claim = Context.of(app).redis.claim(token="", limit=10)
    assert [entry.name for entry in claim.entries] == ["report"]

    beat = west.beat()
    west.tick(beat)
    ends_at = now() + timedelta(seconds=1)  # of its lease
    client.hset(f"{prefix}report", "look_at", f"{ends_at.timestamp():.6f}")
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": f"{ends_at.timestamp():.6f}"})
    west.tick_until(beat, lambda: due(app, "report") - owed > timedelta(hours=20), "it is due tomorrow")

    assert (stored(app, "report").total_run_count, stored(app, "report").last_run_at) == (1, owed)


# Programs


def test_an_entry_that_a_program_has_saved_by_other_rules_is_planned_again(
    west: Host, east: Host, app: Celery, caplog: pytest.LogCaptureFixture, client: redis.Redis, prefix: str,
) -> None:  # fmt: skip
    beat = west.lead()
    west.save("own", daily, timezone=VANCOUVER)
    caplog.clear()

    saved = east.save("report", daily, timezone=VANCOUVER)

    (warning,) = lines(caplog, logging.WARNING)
    assert warning.startswith(f"entry 'report': this host has other rules of {VANCOUVER} than the beat that leads")
    assert "PYTHONTZPATH=''" in warning
    west.tick_until(beat, lambda: due(app, "report") - saved == HOUR, "it is planned again")
    west.tick(beat)
    assert client.hget(f"{prefix}report", "rules") is None
    assert ":again" not in client.hkeys(f"{prefix}:zone-rules")


def test_a_bulk_that_a_program_has_written_by_other_rules_is_planned_again(
    west: Host, east: Host, app: Celery, make_app: Callable[..., Celery], caplog: pytest.LogCaptureFixture
) -> None:
    beat = west.lead()
    west.save("own", daily, timezone=VANCOUVER)
    with east.data():
        other = make_app()
        with ScheduleStore(other).bulk() as bulk:
            for number in range(5):
                bulk.save(RedisScheduleEntry(f"e{number}", "proj.work", daily(), timezone=VANCOUVER, app=other))
    saved = {f"e{number}": due(app, f"e{number}") for number in range(5)}
    assert "5 entries: this host has other rules of" in caplog.text

    west.tick_until(
        beat, lambda: {due(app, name) - at for name, at in saved.items()} == {HOUR}, "all are planned again"
    )


def test_a_beat_that_missed_the_message_finds_what_a_program_has_saved(west: Host, east: Host, app: Celery) -> None:
    west.lead().close()
    west.save("own", daily, timezone=VANCOUVER)
    saved = east.save("report", daily, timezone=VANCOUVER)

    west.lead().close()

    assert due(app, "report") - saved == HOUR


# Beats that differ


def test_beats_that_differ_are_named_in_an_error_in_status_and_in_lint(
    west: Host, east: Host, app: Celery, caplog: pytest.LogCaptureFixture, let_pass: Callable[[float], None]
) -> None:
    west.lead(timezone=VANCOUVER)
    standby = east.beat(timezone=VANCOUVER)
    east.tick(standby)
    let_pass(6)
    east.tick(standby)

    (error,) = [line for line in lines(caplog, logging.ERROR) if "zone-rules-differ" in line]
    assert f"has other rules of {VANCOUVER} than" in error
    assert "PYTHONTZPATH=''" in error
    status = ScheduleStore(app).status()
    (line,) = [beat for beat in status.beats if beat.other_rules]
    assert (line.role, line.other_rules) == ("standby", (VANCOUVER,))
    (finding,) = [each for each in ScheduleStore(app).lint() if each.rule == "zone-rules-differ"]
    assert finding.severity == "error"
    assert all(word in finding.text for word in (VANCOUVER, line.name, status.leader_name, "PYTHONTZPATH"))


def test_beats_that_take_turns_say_so(
    west: Host, east: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
    client: redis.Redis, prefix: str,
) -> None:  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "web1")
        beat = west.lead(timezone=VANCOUVER, redisbeater_lock_lost="standby")
    client.delete(f"{prefix}:lock")
    east.lead(timezone=VANCOUVER).close()
    caplog.clear()

    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "web1")
        west.tick_until(beat, lambda: "zone-rules-differ" in caplog.text, "the error")

    (error,) = lines(caplog, logging.ERROR)
    assert error.startswith("zone-rules-differ: this beat, web1:")
    assert f"has other rules of {VANCOUVER} than {socket.gethostname()}:" in error


def test_a_key_of_another_type_is_left(west: Host, client: redis.Redis, prefix: str, app: Celery) -> None:
    client.sadd(f"{prefix}:zone-rules", "x")

    west.save("report", daily, timezone=VANCOUVER)
    beat = west.beat(timezone=VANCOUVER)
    west.tick(beat)
    west.tick(beat)

    assert client.type(f"{prefix}:zone-rules") == "set"
    assert due(app, "report") > now()
    client.delete(f"{prefix}:zone-rules")


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_many_entries_are_planned_again_while_another_one_runs_on_time(
    west: Host, east: Host, app: Celery, make_app: Callable[..., Celery]
) -> None:
    west.lead().close()
    with west.data():
        writer = make_app()
        entry = RedisScheduleEntry("e", "proj.work", daily(), timezone=VANCOUVER, app=writer)
        with ScheduleStore(writer).bulk() as bulk:
            for number in range(ENTRIES):
                bulk.save(RedisScheduleEntry(f"e{number}", "proj.work", entry.schedule, timezone=VANCOUVER, app=writer))
    before = {f"e{number}": due(app, f"e{number}") for number in range(0, ENTRIES, 997)}
    RedisScheduleEntry("often", "proj.work", 0.5, app=app).save()
    beat, began = east.beat(), time.monotonic()
    late: list[float] = []

    def is_done() -> bool:
        status = ScheduleStore(app).status()
        late.append(status.oldest.total_seconds())
        return len(late) > 5 and east.is_finished()

    east.tick(beat)
    east.tick_until(beat, is_done, "all are planned again")

    print(f"{ENTRIES:,} entries in {time.monotonic() - began:.1f} s; the other one at most {max(late):.2f} s late")
    assert {before[name] - due(app, name) for name in before} == {HOUR}
    assert max(late) < max(5, (time.monotonic() - began) / 2), "it waited for the others"
