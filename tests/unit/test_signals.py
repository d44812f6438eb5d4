"""The contract of signals: what a receiver may do, and what it cannot do to others."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from support.pages import block_with

from redisbeater import signals
from redisbeater.log_lines import event
from redisbeater.signals import run_skipped, schedule_paused


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """The receivers that were called, which are disconnected when the test ends."""
    called: list[str] = []
    before = list(run_skipped.receivers)
    yield called
    run_skipped.receivers[:] = before


def test_a_receiver_that_raises_is_logged_and_does_not_keep_others_from_being_called(
    calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def failing(**_: Any) -> None:
        raise ValueError("no such channel")

    def working(name: str, **_: Any) -> None:
        calls.append(name)

    run_skipped.connect(failing, weak=False)
    run_skipped.connect(working, weak=False)
    for _ in range(2):
        run_skipped.send("report", name="report")

    assert calls == ["report", "report"]
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [bool(record.exc_info) for record in failures] == [True, False]
    assert "failing of the signal run_skipped failed, and its error is ignored: ValueError: no such" in caplog.text


def test_a_receiver_whose_error_has_no_text_is_logged_and_costs_nothing(
    calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise OSError("no text")

    def failing(**_: Any) -> None:
        raise Mute

    run_skipped.connect(failing, weak=False)
    run_skipped.connect(lambda name, **_: calls.append(name), weak=False, dispatch_uid="working")
    run_skipped.send("report", name="report")

    assert calls == ["report"]
    assert "and its error is ignored: Mute: (an error without a text)" in caplog.text


def test_a_slow_receiver_is_named_once(
    calls: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: clock.seconds))

    def slow(**_: Any) -> None:
        calls.append("slow")
        clock.seconds += signals.SLOW_SECONDS * 1.2

    def fast(**_: Any) -> None:
        calls.append("fast")
        clock.seconds += signals.SLOW_SECONDS * 0.8

    run_skipped.connect(slow, weak=False)
    run_skipped.connect(fast, weak=False)
    for _ in range(2):
        run_skipped.send("report")

    assert calls == ["slow", "fast"] * 2
    assert len([record for record in caplog.records if " of the signal" in record.getMessage()]) == 1
    assert ".slow of the signal run_skipped took 0.06 s" in caplog.text


def test_a_receiver_of_one_sender_hears_of_no_other(calls: list[str]) -> None:
    def receive(sender: str, **_: Any) -> None:
        calls.append(sender)

    run_skipped.connect(receive, sender="report", weak=False)
    for sender in ("mail", "report"):
        run_skipped.send(sender)

    assert calls == ["report"]


def test_a_signal_without_receivers_does_nothing() -> None:
    assert run_skipped.send("report", name="report") == []


def test_every_signal_is_listed_and_says_what_it_passes() -> None:
    found = {name for name, value in vars(signals).items() if type(value) is type(run_skipped)}

    assert found == set(signals.__all__)
    assert all(getattr(signals, name).name == name for name in found)
    assert all(getattr(signals, name).providing_args for name in found)


# The code on the pages


def test_the_receivers_on_the_page_about_signals_work(calls: list[str]) -> None:
    paused_before, posted = list(schedule_paused.receivers), threading.Event()
    names: dict[str, Any] = {}
    try:
        exec(block_with("signals.rst", "count_missed"), names)
        names["post_to_chat"] = lambda text: (calls.append(text), posted.set())
        run_skipped.send("report", name="report", reason="missed", count=3)
        run_skipped.send("report", name="report", reason="coalesced", count=5)
        schedule_paused.send("redisbeater:", by="ann", note="migration")
        assert posted.wait(10)
    finally:
        schedule_paused.receivers[:] = paused_before

    assert (names["missed"], calls) == ({"report": 3}, ["ann paused the schedule: migration"])


def test_the_formatter_on_the_page_about_operating_writes_the_event_as_json(caplog: pytest.LogCaptureFixture) -> None:
    names: dict[str, Any] = {}
    exec(block_with("log-lines.rst", "JsonFormatter"), names)
    logger, at = logging.getLogger("redisbeater.test"), datetime(2026, 5, 1, tzinfo=timezone.utc)
    logger.warning("entry %r", "report", extra=event("run_refused", name="report", error=OSError("no\n"), next_try=at))

    [record] = caplog.records
    assert json.loads(names["JsonFormatter"]().format(record)) == {
        "level": "WARNING",
        "logger": "redisbeater.test",
        "message": "entry 'report'",
        "event": "run_refused",
        "name": "report",
        "error": "no\\x0a",
        "next_try": "2026-05-01T00:00:00+00:00",
    }
