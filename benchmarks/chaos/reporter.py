"""The reporter: says of some of the runs that arrive that they began and ended, as a worker would."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from datetime import datetime
from queue import SimpleQueue
from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.exceptions import StoreError
from redisbeater.model.run import ATTEMPT_HEADER, State
from redisbeater.store import Execution, RunStore, new_holder

__all__ = ("Reporter",)

#: What becomes of a run, with its weight: how often it is chosen.
SUCCEEDS, FAILS, DIES, WAITS = "succeeded", "failed", "died while it was executed", "never started"
FATES = {SUCCEEDS: 6.0, FAILS: 1.0, DIES: 1.0, WAITS: 2.0}

#: The states that are reported.
ENDS = {SUCCEEDS: State.SUCCESS, FAILS: State.FAILURE}


class Reporter:
    """Reports runs in a thread of its own. What it cannot report, because the server is down, died with its worker."""

    def __init__(self, app: Celery, rng: random.Random) -> None:
        self._runs = RunStore.of_worker(Context.of(app).config)
        self._rng = rng
        self._arrived: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._report_all, daemon=True)
        #: How often each fate came to a message.
        self.tally: Counter[str] = Counter()
        #: The ids of the runs whose success Redis has confirmed.
        self.succeeded: set[str] = set()

    def start(self) -> None:
        self._thread.start()

    def arrived(self, headers: dict[str, Any]) -> None:
        """Take the headers of a message; its run is reported soon."""
        self._arrived.put(headers)

    def end(self) -> None:
        """Report what has arrived, and end."""
        self._arrived.put(None)
        self._thread.join()
        if not self._arrived.empty():
            raise RuntimeError("the reporter ended before its time; its traceback is above")

    def _report_all(self) -> None:
        while (headers := self._arrived.get()) is not None:
            fate = self._rng.choices(list(FATES), list(FATES.values()))[0]
            try:
                self._report(headers, fate)
            except StoreError:
                fate = "could not be reported"
            self.tally[fate] += 1

    def _report(self, headers: dict[str, Any], fate: str) -> None:
        if fate == WAITS:
            return
        execution = _execution(headers)
        word, _ = self._runs.start(execution)
        if word != "STARTED" or fate == DIES:
            return
        word = self._runs.finish(execution, ENDS[fate])
        if word == "FINISHED" and fate == SUCCEEDS:
            self.succeeded.add(execution.run_id)


def _execution(headers: dict[str, Any]) -> Execution:
    return Execution(
        run_id=headers["id"],
        name=headers["periodic_task_name"],
        task=headers["task"],
        attempt=headers[ATTEMPT_HEADER],
        holder=new_holder("chaos", os.getpid()),
        fire_time=datetime.fromisoformat(headers["scheduled_for"]),
        worker="reporter@chaos",
        pid=os.getpid(),
    )
