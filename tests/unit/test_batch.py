"""A batch: what becomes of entries in flight whose runs are accepted, in part or not at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from moments import utc

from redisbeater import RedisScheduleEntry
from redisbeater.context import Context
from redisbeater.dispatch.batch import Batch, PlannedEntry
from redisbeater.dispatch.job import Job
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.plan import Plan
from redisbeater.results import Score
from redisbeater.store import ClaimedEntry

FIRE_TIME = utc("2026-06-10 12:00")
NOW = FIRE_TIME + timedelta(minutes=5)


@pytest.fixture
def job(context: Context) -> Job:
    """A job with three runs."""
    definition = Definition.checked(name="report", task="proj.report", schedule=60)
    text = definition.to_text(context.codec)
    runs = tuple(FIRE_TIME + timedelta(minutes=number) for number in range(3))
    plan = Plan(runs=runs, handled=runs[-1], next=Score(fire_time=FIRE_TIME + timedelta(minutes=3)))
    claimed = ClaimedEntry(key="k", name="report", definition=text, meta="", fire_time=FIRE_TIME)
    return Job(context=context, claimed=claimed, definition=definition, meta=Meta(), plan=plan)


@pytest.fixture
def batch(job: Job) -> Batch:
    """A batch whose only entry was taken to be sent."""
    batch = Batch([job.claimed], NOW)
    batch.pop_next()
    return batch


def published(job: Job, *messages: int, first: int = 0, runs: int | None = None) -> PlannedEntry:
    """Return a job as it is once runs of it have left in these messages; ``runs``: how many were to leave."""
    due = [RedisScheduleEntry()] * (len(messages) if runs is None else runs)
    return PlannedEntry(job, first=first, runs=due, messages=[range(number, number + 1) for number in messages])


def up_to(number: int) -> Callable[[range], bool]:
    """Return what a broker says that has accepted the messages up to a number."""
    return lambda messages: messages[-1] <= number


def sent_runs(batch: Batch) -> int:
    return len(batch.done["k"].plan.runs)


def test_an_entry_catches_up_once_its_first_run_is_accepted(batch: Batch, job: Job) -> None:
    batch.mark_in_flight(published(job, 1))
    batch.confirm(up_to(1))

    assert sent_runs(batch) == 1
    assert [(waiting.job, waiting.first) for waiting in batch.catch_up] == [(job, 1)]


def test_an_entry_whose_catching_up_was_ended_early_waits_for_the_next_claim(batch: Batch, job: Job) -> None:
    batch.mark_in_flight(published(job, 1, runs=2))
    batch.confirm(up_to(1))

    assert sent_runs(batch) == 1
    assert not batch.catch_up


def test_a_run_that_is_not_accepted_ends_the_catching_up(batch: Batch, job: Job) -> None:
    batch.mark_in_flight(published(job, 1, 2))
    batch.confirm(up_to(1))

    assert sent_runs(batch) == 1
    assert not batch.catch_up


def test_an_entry_of_which_nothing_is_accepted_is_sent_again(batch: Batch, job: Job) -> None:
    batch.mark_in_flight(published(job, 1))
    batch.confirm(up_to(0))

    assert not batch.done
    assert batch.requeue_in_flight() == 1
    assert list(batch.unsent) == [job.claimed]


def test_entries_of_which_nothing_is_accepted_are_sent_again_oldest_first(batch: Batch, job: Job) -> None:
    younger = job._replace(claimed=job.claimed._replace(key="younger"))
    for each in (job, younger):
        batch.mark_in_flight(published(each, 1))

    batch.requeue_in_flight()

    assert list(batch.unsent) == [job.claimed, younger.claimed]


def test_an_entry_whose_first_runs_are_accepted_is_committed_and_not_sent_again(batch: Batch, job: Job) -> None:
    batch.mark_in_flight(published(job, 1))
    batch.confirm(up_to(1))
    batch.mark_in_flight(published(job, 2, first=1))
    batch.confirm(up_to(1))

    assert batch.requeue_in_flight() == 0
    assert not batch.unsent
    assert sent_runs(batch) == 1
