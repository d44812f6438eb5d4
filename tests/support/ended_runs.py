"""Runs of entries that workers have reported, by the scripts that record them."""

from __future__ import annotations

import time

import redis
from celery import Celery

from redisbeater import ScheduleStore
from redisbeater.context import Context
from redisbeater.results import State
from redisbeater.store.runs import Execution


def begin_run(app: Celery, name: str) -> Execution:
    """Send a run of an entry, and report its start."""
    found = Execution(run_id=ScheduleStore(app).trigger(name), name=name, task="work", holder="w:1:a")
    Context.of(app).redis.runs.start(found)
    return found


def end_runs(
    app: Celery, name: str, letters: str, error: str = "ValueError: cannot parse row 17", traceback: str = ""
) -> list[str]:
    """Let runs of an entry end, the oldest first: ``S`` well, ``F`` with an error. Return their ids."""
    ids = []
    for letter in letters:
        run, state = begin_run(app, name), State.SUCCESS if letter == "S" else State.FAILURE
        details = {} if letter == "S" else {"error": error, "traceback": traceback}
        Context.of(app).redis.runs.finish(run, state, **details)
        ids.append(run.run_id)
    return ids


def let_wait(app: Celery, client: redis.Redis, name: str, seconds: float = 90.0) -> None:
    """Send a run of an entry that no worker has started for so long."""
    keys, sent = Context.of(app).redis.keys, time.time() - seconds
    key = keys.run(ScheduleStore(app).trigger(name))
    client.hset(key, "sent_at", f"{sent:.6f}")
    client.zadd(keys.waiting, {key: sent})
