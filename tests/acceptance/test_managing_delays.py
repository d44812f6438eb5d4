"""Delays that a real worker has handed over, managed at the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from celery.result import AsyncResult
from delayed import SETTINGS, Delayed
from support.project import Project
from support.servers import Server
from support.waiting import wait_until

pytestmark = pytest.mark.processes


def test_delays_of_a_worker_are_listed_moved_sent_and_cancelled(
    make_project: Callable[..., Project], server: Server
) -> None:
    delayed = Delayed(make_project(**SETTINGS), server.client())
    backend = server.url(2)
    delayed.project.add_source(f"app.conf.update(result_backend={backend!r})")
    delayed.app.conf.update(result_backend=backend)
    delayed.beat()
    delayed.worker()
    (moved,) = delayed.send(args=["first"])
    (sent,) = delayed.send(args=["second"], queue="celery", kwargs={"token": "hunter22"})
    (cancelled,) = delayed.send(args=["third"])
    (left,) = delayed.send(args=["fourth"])
    delayed.are_kept([moved, sent, cancelled, left])

    def ask(*words: str) -> str:
        command = delayed.project.celery("redisbeater", "delays", *words)
        assert command.popen.wait(60) == 0, command.output()
        return command.output()

    def lines(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in ask(*words, "--json").splitlines()]

    listed = lines("list", "--task", "proj.note")
    assert {each["id"]: (each["state"], each["queue"]) for each in listed} == dict.fromkeys(
        (moved, sent, cancelled, left), ("waiting", "celery")
    )
    assert all("@" in each["by"] for each in listed)
    assert [each["id"] for each in lines("list", "--args", "third")] == [cancelled]
    assert "hunter22" not in ask("list")

    assert f"{moved}: moved to " in ask("move", moved, "--shift", "+1h", "--note", "later")
    assert lines("send", "--args", "second")[0]["done"] == "sent"
    assert f"{cancelled}: cancelled" in ask("cancel", cancelled)

    delayed.are_executed([sent])
    wait_until(lambda: AsyncResult(cancelled, app=delayed.app).state == "REVOKED", "the result")
    assert delayed.executed() == [sent]
    assert [each["id"] for each in lines("list")] == [left, moved]
    ask("send", "--all", "--yes")
    delayed.are_executed([left, moved])
    assert sorted(delayed.executed()) == sorted([left, moved, sent])
    assert ask("list").strip() == "no delays"
