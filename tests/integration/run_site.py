"""A schedule whose runs are tracked, at times that a test sets: what beat, workers and programs do with a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import redis
from celery import Celery
from celery.app.trace import build_tracer
from edit_ledger import ServerClock
from outbox import Sent

from redisbeater import RedisScheduleEntry, Run
from redisbeater.context import Context
from redisbeater.model.run import NewRun, Payload
from redisbeater.results import Score, State
from redisbeater.runs.process import flush_all
from redisbeater.store import Claim, Execution
from redisbeater.store.claim import Commitment, CommitResult
from redisbeater.store.keys import Keys

#: Settings of the schedule, seconds.
LEASE, QUEUE = 60, 3600

#: Settings of a schedule whose runs are tracked.
TRACKED: dict[str, Any] = {
    "redisbeater_track_runs": True,
    "redisbeater_lock_key": None,
    "redisbeater_run_history_limit": 5,
}


def execute(app: Celery, sent: Sent) -> None:
    """Execute the task of a message, and wait until its reports are written."""
    task = app.tasks[sent.task]
    request = {"id": sent.id, "headers": sent.headers, "hostname": "celery@w1", "delivery_info": {}, "is_eager": False}
    build_tracer(task.name, task, app=app, propagate=False)(sent.id, sent.args, sent.kwargs, request)
    flush_all()


class RunSite:
    """One schedule, and the programs around it."""

    def __init__(self, app: Celery, client: redis.Redis, clock: ServerClock) -> None:
        self.app, self.client, self.clock = app, client, clock
        self.context = Context.of(app)
        self.store, self.runs = self.context.redis, self.context.redis.runs
        self.keys: Keys = self.store.keys

    def create(self, name: str = "report") -> None:
        """Store an entry that is due once a minute, from now on."""
        RedisScheduleEntry(name, "proj.work", 60.0, app=self.app).save()
        self.client.zadd(self.keys.schedule, {self.keys.entry(name): self.clock.now.timestamp()})

    def new(self, run_id: str, name: str = "report", **changes: Any) -> NewRun:
        """Return a run as beat hands it to the commit."""
        payload = Payload(task="proj.work", args=[], kwargs={}, options={}).to_text()
        run = NewRun(id=run_id, name=name, task="proj.work", fire_time=self.clock.now, payload=payload)
        return replace(run, **changes)

    def claim(self) -> Claim:
        """Claim what is due."""
        return self.store.claim(token="", limit=100)

    def commit(self, claim: Claim, *runs: NewRun, resent: list[Run] | None = None, **fields: Any) -> CommitResult:
        """Commit the claimed entries with the runs of each."""
        after = Score.planned(claim.now + timedelta(seconds=60))
        items = [
            Commitment(
                entry=entry,
                runs=[run for run in runs if run.name == entry.name],
                **{"next": after, "meta": "{}", **fields},
            )
            for entry in claim.entries
        ]
        return self.store.commit(claim, items, resent or [])

    def send(self, run_id: str, name: str = "report", **changes: Any) -> None:
        """Make an entry due, and let beat send this run of it and commit it."""
        self.client.zadd(self.keys.schedule, {self.keys.entry(name): self.clock.now.timestamp()})
        self.commit(self.claim(), self.new(run_id, name, **changes))

    def execution(self, run_id: str, holder: str = "w1:1:a", **fields: Any) -> Execution:
        """Return an execution as a worker reports it."""
        return Execution(**{"run_id": run_id, "name": "report", "task": "proj.work", "holder": holder, **fields})

    def start(self, run_id: str, holder: str = "w1:1:a", **fields: Any) -> str:
        """Report the start of an execution; return the answer."""
        return self.runs.start(self.execution(run_id, holder, **fields))[0]

    def finish(self, run_id: str, state: State = State.SUCCESS, holder: str = "w1:1:a", **fields: Any) -> str:
        """Report the end of an execution; return the answer."""
        ends = {
            name: fields.pop(name) for name in ("error", "retry_in", "seconds", "result", "traceback") if name in fields
        }
        return self.runs.finish(self.execution(run_id, holder, **fields), state, **ends)

    def state(self, run_id: str) -> State | None:
        """Return the state of a run."""
        run = self.runs.run(run_id)
        return run.state if run else None

    def active(self, name: str = "report") -> set[str]:
        """Return the ids of the runs that are listed as active."""
        return {self.keys.run_id(key) for key in self.client.smembers(self.keys.active_of(name))}

    def lose_overdue(self, requeue_in: float | None = None) -> list[str]:
        """Do what the monitor does; return the ids of the runs that were lost."""
        overdue = self.runs.overdue()
        return [run.id for run in overdue if self.runs.lose(run, requeue_in=requeue_in) == "LOST"]


def runs_of(client: redis.Redis, keys: Keys) -> set[str]:
    """Return the ids of all runs that are stored."""
    return {keys.run_id(key) for key in client.scan_iter(f"{keys.run('')}*")}
