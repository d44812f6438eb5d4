"""Steps that a signal may not tear apart: when it is delivered instead."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from waiting import wait_until

import redisbeater.deferred_signals as module
from redisbeater.deferred_signals import deferred_signals

SIGNALS = [signal.SIGTERM, signal.SIGINT]
each_signal = pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that this process's own handler was called with."""
    heard: list[int] = []

    def note(number: int, frame: Any) -> None:
        heard.append(number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    yield heard
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@each_signal
def test_a_signal_during_a_step_is_delivered_right_after_it(heard: list[int], number: int) -> None:
    with deferred_signals():
        send(number)
        assert heard == []

    assert heard == [number]


def test_a_signal_during_a_step_that_fails_is_delivered_after_it(heard: list[int]) -> None:
    def step() -> None:
        with deferred_signals():
            send(signal.SIGTERM)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step()

    assert heard == [signal.SIGTERM]


@pytest.mark.usefixtures("heard")
def test_what_the_handler_raises_comes_out_of_the_step() -> None:
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
def test_a_second_signal_is_delivered_at_once(heard: list[int], second: int) -> None:
    with deferred_signals():
        send(signal.SIGTERM)
        send(second)
        assert heard == [second]

    assert heard == [second]


def test_a_signal_is_not_held_back_for_longer_than_patience(heard: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEFERRAL_SECONDS", 0.05)

    with deferred_signals():
        send(signal.SIGTERM)
        wait_until(lambda: heard, "the signal, in the middle of the step")

    assert heard == [signal.SIGTERM]


def test_a_step_that_ended_in_time_leaves_no_reminder_behind(heard: list[int]) -> None:
    with deferred_signals():
        send(signal.SIGTERM)

    assert not [thread for thread in threading.enumerate() if _would_remind(thread)]


def _would_remind(thread: threading.Thread) -> bool:
    return isinstance(thread, threading.Timer) and not thread.finished.is_set()


@pytest.mark.parametrize("times", [0, 1, 2])
def test_the_handlers_are_as_before_when_the_step_is_over(heard: list[int], times: int) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]

    with deferred_signals():
        for _ in range(times):
            send(signal.SIGTERM)

    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_step_after_one_that_was_signalled_is_held_together_as_well(heard: list[int]) -> None:
    with deferred_signals():
        send(signal.SIGTERM)
    with deferred_signals():
        send(signal.SIGINT)
        assert heard == [signal.SIGTERM]

    assert heard == [signal.SIGTERM, signal.SIGINT]


def test_in_a_thread_the_handlers_stay_as_they_are(heard: list[int]) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    during: list[Any] = []

    def step() -> None:
        with deferred_signals():
            during.extend(signal.getsignal(number) for number in SIGNALS)

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()

    assert during == before
