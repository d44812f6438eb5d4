"""The verdict on a run whose lease is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from moments import utc

from redisbeater import Run
from redisbeater.beat.monitor import judge
from redisbeater.model.definition import Definition
from redisbeater.model.run import Payload
from redisbeater.results import State

NOW = utc("2026-06-10 12:00")


PAYLOAD = Payload(task="proj.report", args=[], kwargs={}, options={}).to_text()


def run(state: State = State.STARTED, **fields: Any) -> Run:
    fields = {"payload": PAYLOAD, "sent_at": NOW - timedelta(hours=1), **fields}
    return Run(id="r1", name="report", state=state, **fields)


def entry(**fields: Any) -> Definition:
    return Definition.checked(name="report", task="proj.report", schedule=60, **fields)


@pytest.mark.parametrize(
    ("lost", "definition", "setting", "requeue_in"),
    [
        pytest.param(run(), entry(), 0, None, id="off-by-default"),
        pytest.param(run(), entry(), 1, 10.0, id="the-setting"),
        pytest.param(run(), entry(requeue_lost=0), 1, None, id="the-entry-goes-before-the-setting"),
        pytest.param(run(), entry(requeue_lost=3), 0, 10.0, id="first"),
        pytest.param(run(attempt=3), entry(requeue_lost=3), 0, 40.0, id="third"),
        pytest.param(run(attempt=4), entry(requeue_lost=3), 0, None, id="once-too-often"),
        pytest.param(run(attempt=10), entry(requeue_lost=10), 0, 300.0, id="the-longest-delay"),
        pytest.param(run(), None, 2, 10.0, id="its-entry-is-deleted"),
        pytest.param(run(acks_late=True), entry(requeue_lost=3), 0, None, id="the-broker-delivers-it-again"),
        pytest.param(run(acks_late=True), entry(requeue_lost=3, once=True), 0, 10.0, id="once-refuses-the-second"),
        pytest.param(run(acks_late=True), None, 3, None, id="nobody-knows-whether-once"),
        pytest.param(run(is_to_stop=True), entry(requeue_lost=3), 0, None, id="somebody-stopped-it"),
        pytest.param(run(payload=""), entry(requeue_lost=3), 0, None, id="nothing-to-send"),
        pytest.param(run(State.SENT), entry(requeue_lost=3), 0, None, id="it-may-still-be-in-the-queue"),
        pytest.param(run(State.RETRY), entry(requeue_lost=3), 0, None, id="so-may-the-next-try"),
    ],
)
def test_a_lost_run_is_sent_again_as_often_as_its_entry_says(
    lost: Run, definition: Definition | None, setting: int, requeue_in: float | None
) -> None:
    verdict = judge(lost, definition, NOW, setting)

    assert (verdict.state, verdict.requeue_in) == (State.LOST, requeue_in)
    assert verdict.note


@pytest.mark.parametrize(("late", "requeue_in"), [(-1, 10.0), (20, 10.0), (21, 20.0), (3600, 20.0)])
def test_a_lease_that_ended_long_ago_leaves_its_worker_the_time_to_renew_it(late: int, requeue_in: float) -> None:
    """Redis's clock was set, or older data was restored: a worker that is alive comes within a period."""
    lost = run(lease_end=NOW - timedelta(seconds=late))

    assert judge(lost, entry(requeue_lost=1), NOW, 0, period=15.0).requeue_in == requeue_in


@pytest.mark.parametrize("state", [State.SENT, State.RETRY])
@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(-1, State.EXPIRED, id="past"),
        pytest.param(0, State.EXPIRED, id="now"),
        pytest.param(1, State.LOST, id="to-come"),
        pytest.param(None, State.LOST, id="never"),
    ],
)
def test_a_run_that_nobody_started_by_its_deadline_has_expired(
    state: State, seconds: int | None, expected: State
) -> None:
    expires = None if seconds is None else NOW + timedelta(seconds=seconds)

    assert judge(run(state, expires=expires), entry(), NOW, 0).state == expected


def test_a_run_that_was_started_does_not_expire() -> None:
    assert judge(run(expires=NOW), entry(), NOW, 0).state == State.LOST
