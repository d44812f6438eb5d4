"""Beats on hosts with wrong clocks send their runs at the right time, which is the time of the Redis server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
from support.project import Process, Project
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, clocked

UTC = timezone.utc

SHIFT = "REDISBEATER_TEST_CLOCK_SHIFT"

#: Shifts the clock of a process before anything else in it asks for the time, and prints the time it shows.
MOVED_CLOCK = f"""
import datetime, os, time
import time_machine

shift = datetime.timedelta(seconds=float(os.environ[{SHIFT!r}]))
now = datetime.datetime.now(datetime.timezone.utc)
time_machine.travel(now + shift, tick=True).start()
assert abs(datetime.datetime.now(datetime.timezone.utc) - now - shift) < datetime.timedelta(seconds=30)
print(f"the clock shows {{time.time():.3f}}", flush=True)
"""

#: Seconds by which a clock is wrong; far more than the delay that a busy machine may cause.
WRONG_BY = 600
SLACK = timedelta(seconds=120)


@dataclass
class Arrivals:
    """The times at which messages arrived at the broker, by the server's clock.

    Time and queue are read in one transaction: a message in the queue arrived at that time or before it.
    """

    broker: redis.Redis
    #: Task id -> the fire time, and the time at which the message was first found.
    seen: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    early: list[str] = field(default_factory=list)
    copies: int = 0

    def look(self) -> None:
        with self.broker.pipeline(transaction=True) as pipe:
            (seconds, microseconds), messages = pipe.time().lrange("celery", 0, -1).execute()
        now = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)
        self.copies = len(messages)
        for message in map(json.loads, messages):
            self._note(message["headers"], now)

    def _note(self, headers: dict[str, Any], now: datetime) -> None:
        if headers["id"] in self.seen:
            return
        fire_time = datetime.fromisoformat(headers["scheduled_for"])
        self.seen[headers["id"]] = fire_time, now
        self.names[headers["id"]] = headers["periodic_task_name"]
        if now < fire_time:
            self.early.append(f"{headers['periodic_task_name']}: due at {fire_time}, sent by {now}")

    def fire_times(self, name: str) -> list[datetime]:
        return sorted(self.seen[id_][0] for id_, named in self.names.items() if named == name)

    @property
    def longest_delay(self) -> timedelta:
        return max(arrived - fire_time for fire_time, arrived in self.seen.values())


@pytest.fixture
def skewed(make_project: Callable[..., Project]) -> Project:
    """A project whose processes shift their clocks, and whose beats all lead."""
    project = make_project(redisbeater_lock_key=None, redisbeater_batch_size=1)
    project.begin_with(MOVED_CLOCK)
    return project


@pytest.fixture
def beat(skewed: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Process]:
    """Start a beat whose clock is wrong by so many seconds, and assert that it is."""

    def start(shift: float) -> Process:
        monkeypatch.setenv(SHIFT, str(shift))
        process = skewed.beat()
        process.says("leading without a lock")
        [shown] = re.findall(r"the clock shows ([\d.]+)", process.output())
        assert abs(float(shown) - shift - server_time(skewed).timestamp()) < SLACK.total_seconds()
        return process

    return start


def server_time(project: Project) -> datetime:
    seconds, microseconds = project.broker.time()
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)


def save_entries(project: Project) -> dict[str, datetime]:
    """Store intervals and a one-off; return their first fire times, which are in the future."""
    app = project.app()
    start = server_time(project) + timedelta(seconds=1)
    first: dict[str, datetime] = {}
    for number in range(4):
        # coalesce="all": a machine that stalls for longer than the interval loses no fire time.
        begin = start + timedelta(seconds=number / 10)
        entry = RedisScheduleEntry(
            f"interval-{number}", "proj.note", 0.5, app=app, start_at=begin, coalesce="all"
        ).save()
        assert entry.due_at is not None
        first[f"interval-{number}"] = entry.due_at
    first["once"] = start + timedelta(seconds=2)
    RedisScheduleEntry("once", "proj.note", clocked(first["once"]), app=app).save()
    return first


def assert_complete(arrivals: Arrivals, first: dict[str, datetime]) -> None:
    assert set(arrivals.names.values()) == set(first)
    for name, begin in first.items():
        times = arrivals.fire_times(name)
        assert times == [begin + timedelta(seconds=0.5) * number for number in range(len(times))], name
    assert arrivals.fire_times("once") == [first["once"]]


def watch_until(arrivals: Arrivals, condition: Callable[[], bool], what: str) -> None:
    def look() -> bool:
        arrivals.look()
        return condition()

    wait_until(look, what)


def end_beats(arrivals: Arrivals, beats: list[Process]) -> None:
    """End the beats, so that all they sent is in the queue and no claim is in flight."""
    for process in beats:
        assert process.end() == 0
    arrivals.look()


def test_two_beats_of_which_one_is_ahead_and_one_behind_send_each_fire_time_once_and_on_time(
    skewed: Project, beat: Callable[[float], Process]
) -> None:
    beats = [beat(WRONG_BY), beat(-WRONG_BY)]
    first = save_entries(skewed)
    arrivals = Arrivals(skewed.broker)

    def enough() -> bool:
        each = all(len(arrivals.fire_times(name)) >= 10 for name in first if name != "once")
        return each and bool(arrivals.fire_times("once")) and all("Sending due task" in b.output() for b in beats)

    watch_until(arrivals, enough, "ten runs of each interval, some from each beat")
    end_beats(arrivals, beats)

    assert_complete(arrivals, first)
    assert arrivals.copies == len(arrivals.seen), "a fire time was sent twice"
    assert arrivals.early == []
    assert arrivals.longest_delay < SLACK


@pytest.mark.parametrize("shift", [WRONG_BY, -WRONG_BY], ids=["ahead", "behind"])
def test_a_beat_alone_whose_clock_is_wrong_sends_each_fire_time_once_and_on_time(
    skewed: Project, beat: Callable[[float], Process], shift: float
) -> None:
    beats = [beat(shift)]
    first = save_entries(skewed)
    arrivals = Arrivals(skewed.broker)

    def enough() -> bool:
        return len(arrivals.seen) >= 30 and bool(arrivals.fire_times("once"))

    watch_until(arrivals, enough, "thirty runs, the one-off among them")
    end_beats(arrivals, beats)

    assert_complete(arrivals, first)
    assert arrivals.copies == len(arrivals.seen), "a fire time was sent twice"
    assert arrivals.early == []
    assert arrivals.longest_delay < SLACK


@pytest.mark.parametrize("shift", [WRONG_BY, -WRONG_BY], ids=["ahead", "behind"])
def test_no_run_expires_before_its_seconds_are_over(
    skewed: Project, beat: Callable[[float], Process], shift: float
) -> None:
    process = beat(shift)
    options = {"expires": 3600}
    RedisScheduleEntry("report", "proj.note", 0.5, app=skewed.app(), options=options).save()

    wait_until(skewed.queued, "a run")
    assert process.end() == 0

    message = json.loads(skewed.queued()[-1])
    expires, fire_time = (datetime.fromisoformat(message["headers"][name]) for name in ("expires", "scheduled_for"))
    kept = timedelta(milliseconds=int(message["properties"]["expiration"]))
    for span in (expires - fire_time, kept):
        assert timedelta(hours=1) - timedelta(seconds=1) <= span < timedelta(hours=1, seconds=WRONG_BY) + SLACK


def test_an_entry_saved_by_a_program_whose_clock_is_wrong_is_planned_by_the_servers_clock(
    skewed: Project, beat: Callable[[float], Process]
) -> None:
    """Use the beat itself as that program: it stores the static entries."""
    source = skewed.folder / "proj.py"
    declared = {"static": {"task": "proj.note", "schedule": 0.5, "coalesce": "all"}}
    source.write_text(f"{source.read_text()}\napp.conf.beat_schedule = {declared!r}\n")
    before = server_time(skewed)
    process = beat(WRONG_BY)
    arrivals = Arrivals(skewed.broker)

    watch_until(arrivals, lambda: len(arrivals.seen) >= 5, "five runs")
    end_beats(arrivals, [process])

    times = arrivals.fire_times("static")
    assert arrivals.early == []
    assert arrivals.longest_delay < SLACK
    assert before < times[0]
    assert times == [times[0] + timedelta(seconds=0.5) * number for number in range(len(times))]
