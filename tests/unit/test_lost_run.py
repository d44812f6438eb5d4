"""The verdict on a run whose lease is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from moments import utc

from redisbeater.model.definition import Definition
from redisbeater.model.lost_run import Verdict, judge
from redisbeater.model.run import Payload, Run, State
from redisbeater.schedules.datetime_codec import encode_datetime

NOW = utc("2026-06-10 12:00")


def payload(**options: Any) -> str:
    return Payload(task="proj.report", args=[], kwargs={}, options=options).to_text()


def run(state: State = State.STARTED, **fields: Any) -> Run:
    fields = {"payload": payload(), "sent_at": NOW - timedelta(hours=1), **fields}
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


PAST, FUTURE = (encode_datetime(NOW + timedelta(seconds=seconds)) for seconds in (-1, 1))


@pytest.mark.parametrize("state", [State.SENT, State.RETRY])
@pytest.mark.parametrize(
    ("expires", "expected"),
    [
        pytest.param(PAST, State.EXPIRED, id="past"),
        pytest.param(FUTURE, State.LOST, id="to-come"),
        pytest.param(3600, State.EXPIRED, id="seconds-since-it-was-sent"),
        pytest.param(3601, State.LOST, id="not-so-many-seconds-yet"),
        pytest.param(None, State.LOST, id="never"),
    ],
)
def test_a_run_that_nobody_started_by_its_deadline_has_expired(state: State, expires: Any, expected: State) -> None:
    assert judge(run(state, payload=payload(expires=expires)), entry(), NOW, 0).state == expected


def test_a_run_that_was_started_does_not_expire() -> None:
    assert judge(run(payload=payload(expires=PAST)), entry(), NOW, 0).state == State.LOST


@pytest.mark.parametrize("damaged", ["", "null", "[]", "{", '{"options": 5}'])
def test_a_damaged_record_is_lost_and_nothing_else_suffers(damaged: str) -> None:
    assert judge(run(State.SENT, payload=damaged), entry(), NOW, 5) == Verdict(
        state=State.LOST, note="nobody has started it; it may still be in the queue"
    )
