"""Deferred signals: when they are delivered instead."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import wait_until

import redisbeater.deferred_signals as module
from redisbeater.deferred_signals import deferred_signals

SIGNALS = [signal.SIGTERM, signal.SIGINT]
each_signal = pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)


@pytest.fixture
def delivered() -> Iterator[list[int]]:
    """The signals that this process's own handler was called with."""
    delivered: list[int] = []

    def note(number: int, frame: Any) -> None:
        delivered.append(number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    yield delivered
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@each_signal
def test_a_signal_during_a_step_is_delivered_right_after_it(delivered: list[int], number: int) -> None:
    with deferred_signals():
        send(number)
        assert delivered == []

    assert delivered == [number]


def test_a_signal_during_a_step_that_fails_is_delivered_after_it(delivered: list[int]) -> None:
    def step() -> None:
        with deferred_signals():
            send(signal.SIGTERM)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step()

    assert delivered == [signal.SIGTERM]


@pytest.mark.usefixtures("delivered")
def test_an_exception_of_the_handler_is_raised_by_the_step() -> None:
    def leave(number: int, frame: Any) -> None:
        raise SystemExit

    def step() -> None:
        with deferred_signals():
            send(signal.SIGTERM)
            finished.append("the step")

    signal.signal(signal.SIGTERM, leave)
    finished: list[str] = []
    with pytest.raises(SystemExit):
        step()

    assert finished == ["the step"]


@pytest.mark.parametrize("second", SIGNALS, ids=lambda number: number.name)
def test_a_second_signal_is_delivered_at_once(delivered: list[int], second: int) -> None:
    with deferred_signals():
        send(signal.SIGTERM)
        send(second)
        assert delivered == [second]

    assert delivered == [second]


def test_a_signal_is_deferred_no_longer_than_the_limit(delivered: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEFERRAL_SECONDS", 0.05)

    with deferred_signals():
        send(signal.SIGTERM)
        wait_until(lambda: delivered, "the signal, in the middle of the step")

    assert delivered == [signal.SIGTERM]


def test_a_step_that_ended_in_time_leaves_no_timer_behind(delivered: list[int]) -> None:
    with deferred_signals():
        send(signal.SIGTERM)

    assert not [thread for thread in threading.enumerate() if _is_running_timer(thread)]


def _is_running_timer(thread: threading.Thread) -> bool:
    return isinstance(thread, threading.Timer) and not thread.finished.is_set()


@pytest.mark.parametrize("times", [0, 1, 2])
def test_the_handlers_are_as_before_when_the_step_is_over(delivered: list[int], times: int) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]

    with deferred_signals():
        for _ in range(times):
            send(signal.SIGTERM)

    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_signals_are_deferred_again_after_a_step_that_was_signalled(delivered: list[int]) -> None:
    with deferred_signals():
        send(signal.SIGTERM)
    with deferred_signals():
        send(signal.SIGINT)
        assert delivered == [signal.SIGTERM]

    assert delivered == [signal.SIGTERM, signal.SIGINT]


def test_in_a_thread_the_handlers_stay_as_they_are(delivered: list[int]) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    during: list[Any] = []

    def step() -> None:
        with deferred_signals():
            during.extend(signal.getsignal(number) for number in SIGNALS)

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()

    assert during == before
