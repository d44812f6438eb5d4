"""A project whose workers report the runs that a test sends as beat would, and what Redis has of them.

They reach the schedule as the user whom the documentation describes.
"""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from support.project import Process, Project
from support.servers import Server
from support.waiting import wait_until

from redisbeater import Run
from redisbeater.context import Context
from redisbeater.model.run import FINAL, NewRun
from redisbeater.results import State
from redisbeater.store.runs import RunStore

__all__ = ("ENTRY", "Worker")

PAGE = Path(__file__).parents[2] / "docs" / "runs.rst"

#: What the documentation gives the Redis user of a worker.
RIGHTS = re.findall(r"ACL SETUSER .*", PAGE.read_text(encoding="utf-8"))[0]

#: The entry whose runs these are; it does not exist, so that nothing counts them.
ENTRY = "report"

TASKS = """
import os, signal, sys
from celery.exceptions import Ignore, Reject
import redisbeater.runs
from redisbeater.runs import OnceTask, stop_requested

redisbeater.runs.install(app)

def began(task):
    notes.rpush("began", task.request.id)

@app.task(bind=True, name="proj.work")
def work(self, seconds=0.0):
    began(self)
    time.sleep(seconds)
    return "done"

@app.task(bind=True, name="proj.once", base=OnceTask)
def once(self, seconds=0.0):
    began(self)
    time.sleep(seconds)

@app.task(bind=True, name="proj.late", acks_late=True, reject_on_worker_lost=True)
def late(self, seconds=0.0, dies=False):
    began(self)
    if dies and not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)

@app.task(bind=True, name="proj.fail")
def fail(self):
    raise ValueError("no feed")

@app.task(bind=True, name="proj.retry")
def retry(self, countdown=0, tries=1):
    began(self)
    if self.request.retries < tries:
        try:
            raise OSError("feed is away")
        except OSError as exc:
            raise self.retry(exc=exc, countdown=countdown)

@app.task(bind=True, name="proj.ignore")
def ignore(self):
    raise Ignore()

@app.task(bind=True, name="proj.replace")
def replace(self):
    raise self.replace(work.s(0.2))

@app.task(bind=True, name="proj.reject")
def reject(self):
    raise Reject("no feed", requeue=False)

@app.task(bind=True, name="proj.requeue", acks_late=True)
def requeue(self):
    began(self)
    if not self.request.delivery_info["redelivered"]:
        raise Reject("not here", requeue=True)

@app.task(bind=True, name="proj.die")
def die(self):
    os.kill(os.getpid(), signal.SIGKILL)

@app.task(bind=True, name="proj.late_die", acks_late=True)
def late_die(self):
    os.kill(os.getpid(), signal.SIGKILL)

@app.task(bind=True, name="proj.leave")
def leave(self):
    sys.exit(3)

@app.task(bind=True, name="proj.limited", time_limit=1, soft_time_limit=None)
def limited(self):
    time.sleep(30)

# Not sooner: a limit that strikes in a receiver of Celery's signals, before the task has begun, is swallowed there.
@app.task(bind=True, name="proj.soft", soft_time_limit=5)
def soft(self):
    time.sleep(30)

@app.task(bind=True, name="proj.polite")
def polite(self, seconds=30.0):
    began(self)
    deadline = time.monotonic() + seconds
    while not stop_requested() and time.monotonic() < deadline:
        time.sleep(0.05)
    notes.rpush("stopped" if stop_requested() else "not stopped", self.request.id)

@app.task(bind=True, name="proj.spread")
def spread(self):
    notes.rpush("child", work.delay().id)
"""


class Worker:
    """A worker of a project of its own, the runs that are sent to it, and what was reported of them.

    Arguments:
        server: where schedule and notes are.
        folder: an empty one, for the project.
        arguments: of ``celery worker``.
        settings: of the app, in place of those of a project.
    """

    def __init__(self, server: Server, folder: Path, *arguments: str, source: str = TASKS, **settings: Any) -> None:
        self.prefix = f"t-{uuid.uuid4().hex[:8]}:"
        self.user = f"worker-{uuid.uuid4().hex[:8]}"
        self.admin = server.client()
        line = RIGHTS.replace("SETUSER worker", f"SETUSER {self.user}").replace("redisbeater:", self.prefix)
        self.admin.execute_command(*shlex.split(line))
        own: dict[str, Any] = {
            "redisbeater_redis_url": server.url().replace("://", f"://{self.user}:secret@"),
            "redisbeater_run_timeout": 10.0,
            "redisbeater_run_write_timeout": 60.0,  # a busy machine is no Redis that is away
            # Not "celery": tests may run while messages of another one are left.
            "task_default_queue": f"queue-{uuid.uuid4().hex}",
        }
        settings = {**own, **settings}
        self.project = Project(server, self.prefix, folder, **settings)
        self.project.add_source(source)
        self.app: Celery = self.project.app()
        self.notes: redis.Redis = self.project.broker
        self.arguments = arguments
        # Not by the worker's own way to Redis, which some tests cut.
        observer = Celery(set_as_current=False)
        observer.conf.update(redisbeater_redis_url=server.url(), redisbeater_key_prefix=self.prefix)
        self.store: RunStore = Context.of(observer).redis.runs

    def start(self, *arguments: str) -> Process:
        """Start one worker process with its children, and wait until it takes messages."""
        # Not Project.worker(): Celery patches for gevent and eventlet by the first --pool.
        options = ("--loglevel", "INFO", "--concurrency", "4", "--without-gossip", "--without-mingle")
        process = self.project.celery("worker", *options, *self.arguments, *arguments)
        process.says("ready.")
        return process

    def send(self, task: str, *args: Any, run_id: str = "", attempt: int = 1, **options: Any) -> str:
        """Send a run as beat would and return its id."""
        headers = {
            "periodic_task_name": ENTRY,
            "scheduled_for": datetime.now(timezone.utc).isoformat(),
            "redisbeater_attempt": attempt,
        }
        run_id = run_id or str(uuid.uuid4())
        self.app.send_task(f"proj.{task}", args, task_id=run_id, headers=headers, **options)
        return run_id

    def send_recorded(self, task: str, *args: Any) -> str:
        """Record a run as beat would, send it, and return its id."""
        run_id, now = str(uuid.uuid4()), datetime.now(timezone.utc)
        self.store.reserve(NewRun(id=run_id, name=ENTRY, task=f"proj.{task}", fire_time=now, payload="{}"))
        return self.send(task, *args, run_id=run_id)

    def run(self, run_id: str) -> Run | None:
        return self.store.run(run_id)

    def lease_of(self, run_id: str) -> timedelta:
        """Return for how long the lease of a run goes on."""
        run = self.run(run_id)
        assert run is not None
        assert run.lease_end is not None
        return run.lease_end - datetime.now(timezone.utc)

    def reaches(self, run_id: str, states: State | Collection[State]) -> Run:
        """Wait until a run is in a state, and return it."""
        wanted = {states} if isinstance(states, State) else set(states)

        def reached() -> Run | None:
            run = self.run(run_id)
            return run if run is not None and run.state in wanted else None

        return wait_until(reached, f"{run_id} to be {wanted}; it is {self.run(run_id)}")  # type: ignore[return-value]

    def ends(self, run_id: str) -> Run:
        return self.reaches(run_id, FINAL)

    def noted(self, what: str, run_id: str) -> int:
        """Return how often a task has noted something of a run."""
        return self.notes.lrange(what, 0, -1).count(run_id)  # type: ignore[union-attr]

    def connections(self) -> int:
        """Return how many connections its processes have to the Redis of the schedule."""
        return sum(client["user"] == self.user for client in self.admin.client_list())

    def close(self) -> None:
        """End all processes, and remove what is in Redis."""
        self.project.end()
        for key in self.admin.scan_iter(f"{self.prefix}*"):
            self.admin.delete(key)
        self.admin.execute_command("ACL", "DELUSER", self.user)
