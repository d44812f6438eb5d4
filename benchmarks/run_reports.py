"""Measure what reporting runs costs a worker: ``python benchmarks/run_reports.py redis://localhost:6379/9``.

Four figures, on a server whose database 9 may be written: what Celery takes to call receivers that do nothing, what
ours add to that for a message that beat has not sent, what they take for a tracked run, and what part of a core it
takes to renew the leases of runs that are executed at once.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

from celery import Celery, signals
from celery.app.task import Context as Request

from redisbeater.context import Context

#: How many runs are executed at once, and how many executions are timed in each of many rounds.
AT_ONCE, ROUND, ROUNDS = 10_000, 100, 35

HEADERS = {"redisbeater_attempt": 1, "periodic_task_name": "benchmark", "scheduled_for": "2026-11-22T09:00:00+00:00"}


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="a Redis of which this database may be written")
    app = Celery("benchmark", broker="memory://")
    app.conf.update(redisbeater_redis_url=parser.parse_args().url, redisbeater_key_prefix=f"b-{uuid.uuid4().hex[:8]}:")

    @app.task(name="benchmark.work")
    def work() -> None:
        """Do nothing."""

    app.finalize()
    task = app.tasks["benchmark.work"]
    try:
        untracked, tracked = microseconds(task, {}), microseconds(task, HEADERS)
        dispatch = with_empty_receivers(task)
        importlib.import_module("redisbeater.runs")  # connects the receivers
        print(f"Celery's own dispatch {dispatch - untracked:8.1f} us, of two signals to receivers that do nothing")
        print(f"a message of others   {microseconds(task, {}) - dispatch:8.1f} us more than that")
        print(f"a tracked run         {microseconds(task, HEADERS) - tracked:8.1f} us in all, in two round trips")
        print(f"{AT_ONCE:,} at once     {100 * share_of_renewals(app, task):8.2f} % of a core, for their renewals")
    finally:
        remove(app)


def microseconds(task: Any, headers: dict[str, Any]) -> float:
    """Return the shortest time of the signals around one execution: what other processes add is none of ours."""
    times = [timed(lambda: [execute(task, headers) for _ in range(ROUND)]) / ROUND for _ in range(ROUNDS)]
    return min(times) * 1e6


def with_empty_receivers(task: Any) -> float:
    """Return that time with a receiver of each signal that does nothing."""

    def receive(**_: Any) -> None: ...

    both = (signals.task_prerun, signals.task_postrun)
    for signal in both:
        signal.connect(receive, weak=False, dispatch_uid="empty")
    try:
        return microseconds(task, {})
    finally:
        for signal in both:
            signal.disconnect(dispatch_uid="empty")


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def execute(task: Any, headers: dict[str, Any]) -> None:
    request = begin(task, headers)
    signals.task_postrun.send(
        sender=task, task_id=request.id, task=task, args=(), kwargs={}, retval=None, state="SUCCESS"
    )
    task.request_stack.pop()


def begin(task: Any, headers: dict[str, Any]) -> Any:
    request = Request({"id": str(uuid.uuid4()), "hostname": "benchmark", "delivery_info": {}, **headers})
    task.request_stack.push(request)
    signals.task_prerun.send(sender=task, task_id=request.id, task=task, args=(), kwargs={})
    return request


def share_of_renewals(app: Celery, task: Any) -> float:
    """Return the processor time of this process for one renewal of all leases, by the time from one to the next."""
    kept = [begin(task, HEADERS) for _ in range(AT_ONCE)]
    process: Any = importlib.import_module("redisbeater.runs.process").Process.of(app)
    spent = []
    for _ in range(ROUNDS):
        for running in process.running.holding():
            running.renewed -= running.lease
        before = time.process_time()
        process.renew()
        while process.running.renew_at() <= time.monotonic():
            process.renew()
        spent.append(time.process_time() - before)
    assert len(kept) == AT_ONCE
    return statistics.median(spent) / (Context.of(app).config.run_timeout / 4)


def remove(app: Celery) -> None:
    schedule = Context.of(app).redis
    client: Any = schedule._connection._client.get()
    for key in client.scan_iter(f"{schedule.keys.prefix}*", count=1000):
        client.delete(key)


if __name__ == "__main__":
    main()
