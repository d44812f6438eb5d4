"""What is wrong with an entry is an incident: the beat that leads writes from when to when."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery import Celery
from support.ended_runs import end_runs

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.results import Incident

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
LetPass = Callable[[float], None]


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    return make_app(redisbeater_track_runs=True)


@pytest.fixture
def beat(app: Celery, make_scheduler: MakeScheduler) -> RedisScheduler:
    scheduler = make_scheduler(app)
    scheduler.tick()
    return scheduler


def look(beat: RedisScheduler, let_pass: LetPass) -> None:
    let_pass(5.5)
    beat.tick()


def create(app: Celery, name: str = "feed", **fields: object) -> RedisScheduleEntry:
    entry = RedisScheduleEntry(name, "proj.work", 3600, app=app, **fields)
    entry.save()
    return entry


def opened(app: Celery) -> dict[str, str]:
    return {each.entry: each.kind for each in ScheduleStore(app).incidents.list(only_open=True)}


def only(app: Celery) -> Incident:
    (incident,) = ScheduleStore(app).incidents.list()
    return incident


def test_a_bad_end_opens_one_and_a_good_one_closes_it(app: Celery, beat: RedisScheduler, let_pass: LetPass) -> None:
    create(app)
    (run_id,) = end_runs(app, "feed", "F", traceback="Traceback: here")
    look(beat, let_pass)

    incident = only(app)
    assert (incident.kind, incident.entry, incident.count, incident.closed) == ("failed", "feed", 1, None)
    assert (incident.first["run"], incident.error) == (run_id, "ValueError: cannot parse row 17")
    assert incident.traceback == "Traceback: here"
    end_runs(app, "feed", "F")
    look(beat, let_pass)
    assert (only(app).count, only(app).times) == (2, 1)
    end_runs(app, "feed", "S")
    look(beat, let_pass)
    assert only(app).closed is not None
    assert opened(app) == {}
