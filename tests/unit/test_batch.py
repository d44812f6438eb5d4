"""A job over a meta that others wrote while its run was on its way."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from moments import utc

from redisbeater.batch import Job
from redisbeater.context import Context
from redisbeater.definition import Definition
from redisbeater.meta import Meta
from redisbeater.policies import Plan
from redisbeater.score import Score
from redisbeater.store import ClaimedEntry

FIRE_TIME = utc("2026-06-10 12:00")
LAST = utc("2026-06-10 11:59")
SET = utc("2026-06-10 11:30")


@pytest.fixture
def job(context: Context) -> Job:
    """One whose run, the third, was sent."""
    meta = Meta(last_run_at=LAST, total_run_count=2)
    definition = Definition.checked(name="report", task="proj.report", schedule=60)
    text = definition.to_text(context.codec)
    claimed = ClaimedEntry(key="k", name="report", definition=text, meta=meta.to_text(), fire_time=FIRE_TIME)
    plan = Plan(runs=(FIRE_TIME,), handled=FIRE_TIME, next=Score(fire_time=FIRE_TIME + timedelta(minutes=1)))
    return Job(context=context, claimed=claimed, definition=definition, meta=meta, plan=plan)


def committed(job: Job) -> Meta:
    return Meta.from_text(job.commitment().meta)


def over(job: Job, meta: str) -> Job:
    return job.over(job.claimed.definition, meta)


def written(last_run_at: Any = LAST, count: int = 2, **extra: Any) -> str:
    return Meta(last_run_at=last_run_at, total_run_count=count, extra=extra).to_text()


def test_fields_that_others_wrote_stay(job: Job) -> None:
    merged = committed(over(job, written(owner="data")))

    assert merged == Meta(last_run_at=FIRE_TIME, total_run_count=3, extra={"owner": "data"})


def test_a_last_run_that_others_set_stays_and_the_run_is_counted(job: Job) -> None:
    merged = committed(over(job, written(SET)))

    assert (merged.last_run_at, merged.total_run_count) == (SET, 3)


def test_a_last_run_that_others_set_stays_when_they_write_once_more(job: Job) -> None:
    merged = committed(over(over(job, written(SET)), written(SET, owner="data")))

    assert merged == Meta(last_run_at=SET, total_run_count=3, extra={"owner": "data"})


def test_a_last_run_that_others_set_and_took_away_again_is_that_of_the_run(job: Job) -> None:
    merged = committed(over(over(job, written(SET)), written(None)))

    assert (merged.last_run_at, merged.total_run_count) == (FIRE_TIME, 3)


def test_runs_that_others_counted_are_not_forgotten(job: Job) -> None:
    assert committed(over(job, written(count=41))).total_run_count == 42


@pytest.mark.parametrize("text", ["", "{}", "null", "{", "[]", json.dumps({"total_run_count": "x"})], ids=repr)
def test_a_meta_that_says_nothing_costs_no_run_its_count(job: Job, text: str) -> None:
    merged = committed(over(job, text))

    assert (merged.last_run_at, merged.total_run_count) == (FIRE_TIME, 3)


def test_what_is_committed_next_is_compared_with_what_others_wrote(job: Job) -> None:
    assert over(job, "theirs").commitment().entry.meta == "theirs"
