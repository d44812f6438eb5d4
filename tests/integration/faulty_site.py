"""A schedule whose publish batches meet faults: a case, beats, a broker behind a proxy, and what has arrived."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from celery import Celery, Task
from due import now, stored
from kombu import Exchange, Queue
from outbox import take
from support.proxy import LOOPBACK, Proxy
from support.rabbitmq import RabbitMQ
from support.servers import Server
from support.waiting import wait_until

from redisbeater import EntryNotFound, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.dispatch import batch as planned_entry
from redisbeater.dispatch import dispatcher
from redisbeater.dispatch.resources import SLOW_SECONDS
from redisbeater.store.claim import TRUSTED_SHARE

__all__ = ("CHANGES", "FATES", "FAULTS", "NEVER", "Case", "Site", "site_of")

BROKER_DB = 1

#: The prefix of the schedule, and the key of its lock.
PREFIX, LOCK = "t-faults:", "t-faults::lock"

#: Bytes that the broker takes at once; it ends the connection of who sends more.
MOST_BYTES = 1024 * 1024

#: What becomes of an entry: it is refused before its message leaves, once or each time; the broker refuses its message;
#: its task is slow to send; it is due in a moment.
FATES = ("refused once", "refused", "too much", "slow", "soon")

#: Seconds of a lease that a fault may outlast.
LEASE_SECONDS = 1

#: The fates in which an entry is never sent.
NEVER = ("refused", "too much")

#: Faults that hit all entries, and changes of one of them.
FAULTS = ("reply lost", "cut", "broker away", "lock lost", "lease over", "taken over")
CHANGES = ("edit", "delete")

#: Seconds between two fire times of an entry that catches up.
CATCH_UP_EVERY = 10.0


@dataclass(frozen=True)
class Case:
    """Entries by their number, the oldest first, and what comes when one of them is being sent."""

    count: int
    fates: dict[int, str] = field(default_factory=dict)
    #: How many fire times an entry catches up.
    runs: dict[int, int] = field(default_factory=dict)
    events: dict[int, str] = field(default_factory=dict)
    #: At which of its runs that comes; at its last one, where it has fewer.
    at_run: int = 1
    #: For how long plans are gathered, and published.
    gather_seconds: float = 0.05
    has_lock: bool = True
    tracks_runs: bool = False
    #: Whether messages are put into the broker by the commit of their runs.
    in_one_step: bool = False

    def runs_of(self, number: int) -> int:
        """How many fire times of an entry have passed, or are about to."""
        return 1 if self.fates.get(number) == "soon" else self.runs.get(number, 1)

    @property
    def has_faults(self) -> bool:
        return any(event in FAULTS for event in self.events.values())


def anything(*args: Any, **kwargs: Any) -> None: ...


class Faulty(Task):
    """A task of which sending a run may fail, take long, or be the moment of a fault."""

    site: Site

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        number = int(options["headers"]["periodic_task_name"].removeprefix("entry-"))
        self.site.before(number)
        if self.site.case.fates.get(number) == "too much":
            args, options = self.site.too_much(args, options)
        return super().apply_async(args, kwargs, **options)


class Run(NamedTuple):
    """A run that has arrived."""

    name: str
    fire_time: datetime
    id: str


def _run(headers: dict[str, Any]) -> Run:
    return Run(headers["periodic_task_name"], datetime.fromisoformat(headers["scheduled_for"]), headers["id"])


class Site:
    """A schedule, beats that send to a Redis through a proxy, and all that has arrived."""

    def __init__(self, server: Server, case: Case, stack: ExitStack) -> None:
        self.case, self._server = case, server
        self.client = server.client()
        self._proxy = stack.enter_context(Proxy(self._port))
        self._queue = f"queue-{uuid.uuid4().hex}"
        self.apps = [self._app() for _ in range(1 if case.has_lock else 2)]
        self._beats = [stack.enter_context(contextlib.closing(RedisScheduler(app))) for app in self.apps]
        self._events, self._sends = dict(case.events), Counter[int]()
        self._refused_once = {number for number, fate in case.fates.items() if fate == "refused once"}
        self._slow = {number for number, fate in case.fates.items() if fate == "slow"}
        self.sent: list[Run] = []
        self.early: list[Run] = []
        self.deleted: set[str] = set()
        #: The number of the beat that makes a pass.
        self._at_work = 0
        for beat in self._beats:
            beat.tick()  # it leads, and is connected
        self.names = [f"entry-{number:03}" for number in range(case.count)]
        #: The fire times of each entry.
        self.owed: dict[str, set[datetime]] = {}
        with ScheduleStore(self.apps[0]).bulk() as bulk:
            for number, name in enumerate(self.names):
                bulk.save(self._entry(number, name))

    def tick(self, beat: int = 0) -> None:
        """Let a beat make one pass, and take what has arrived."""
        self._pass_of(beat)
        self._proxy.heal()
        arrived = self._take()
        self.sent += arrived
        self.early += [run for run in arrived if run.fire_time > now()]

    def tick_all(self) -> None:
        for beat in range(len(self._beats)):
            self.tick(beat)

    def before(self, number: int) -> None:
        """Do what is to happen before a run of an entry is published; raise what its task raises."""
        fate = self.case.fates.get(number)
        self._sends[number] += 1
        if number in self._events and self._sends[number] >= min(self.case.at_run, self.case.runs_of(number)):
            self._do(self._events.pop(number), number)
        if number in self._slow:
            self._slow.remove(number)
            time.sleep(SLOW_SECONDS)
        if fate == "refused" or number in self._refused_once:
            self._refused_once.discard(number)
            raise ValueError("not today")

    def is_done(self) -> bool:
        """Whether all fire times have arrived, and are counted, of each entry of which that is expected."""
        arrived = {(run.name, run.fire_time) for run in self.sent}
        if any((name, each) not in arrived for name, owed in self.expected().items() for each in owed):
            return False
        counts = ((stored(self.apps[0], name).total_run_count, owed) for name, owed in self.expected().items())
        return all(count == len(owed) for count, owed in counts)

    def counted(self) -> dict[str, int]:
        """How many runs of each entry are recorded as sent, of those of which all are expected."""
        runs = ScheduleStore(self.apps[0]).runs.counts
        return {name: runs(name).sent for name in self.expected()}

    def expected(self) -> dict[str, set[datetime]]:
        """The fire times of which a run must have arrived."""
        return {name: self.owed[name] for number, name in enumerate(self.names) if self._is_expected(number)}

    def _is_expected(self, number: int) -> bool:
        return self.case.fates.get(number) not in NEVER and self.names[number] not in self.deleted

    def _do(self, event: str, number: int) -> None:
        # The next entry but two has been planned, and not published yet; or it waits for its plan.
        marker, other = self.names[number].encode(), self.names[(number + 3) % self.case.count]
        if event == "reply lost":
            self._proxy.lose_reply(marker)
        elif event == "cut":
            self._proxy.cut_after(marker)
        elif event == "broker away":
            self._proxy.refuse()
        elif event == "lock lost":
            self.client.set(LOCK, "another:1:token", px=300)
        elif event == "edit":
            with contextlib.suppress(EntryNotFound):  # it was deleted
                ScheduleStore(self.apps[0]).update(other, kwargs={"edited": True})
        elif event == "delete":
            self.deleted.add(other)
            with contextlib.suppress(EntryNotFound):
                ScheduleStore(self.apps[0]).delete(other)
        else:
            self._outlive_lease(number, is_taken_over=event == "taken over" and len(self._beats) > 1)

    def _outlive_lease(self, number: int, *, is_taken_over: bool) -> None:
        """Wait until no more is sent on the lease, or until it is over and another beat has sent what it claims."""
        claim, lease_end = self.client.hmget(PREFIX + self.names[number], "claim", "look_at")
        if self._at_work != 0 or claim is None:  # it is the other beat that sends, or the entry was deleted
            return
        trusted_until = float(lease_end) - LEASE_SECONDS * (1 - TRUSTED_SHARE)
        wait_until(lambda: time.time() >= trusted_until, "the end of the trusted lease")
        if is_taken_over:
            wait_until(lambda: not self.client.exists(f"{PREFIX}:claim:{claim}"), "the end of the lease")
            beat = threading.Thread(target=self._pass_of, args=(1,))
            beat.start()
            beat.join()

    def _pass_of(self, beat: int) -> None:
        """Let a beat make one pass, perhaps within the pass of the other one."""
        before, self._at_work = self._at_work, beat
        self._beats[beat].tick()
        self._at_work = before

    def _app(self) -> Celery:
        app = Celery("proj", set_as_current=False)
        app.conf.update(
            **self._urls(),
            task_default_queue=self._queue,
            result_expires=None,
            redisbeater_redis_url=self._server.url(),
            redisbeater_key_prefix=PREFIX,
            redisbeater_lock_lost="standby",
        )
        if not self.case.has_lock:
            app.conf.redisbeater_lock_key = None
        # Where nothing of these is to run out, it does not on a slow machine either.
        lease, publish = (LEASE_SECONDS, 0.3) if self.case.has_faults else (600, 60)
        app.conf.update(redisbeater_lease_timeout=lease, redisbeater_lock_timeout=lease)
        app.conf.redisbeater_publish_timeout = publish
        app.conf.redisbeater_track_runs = self.case.tracks_runs
        app.conf.redisbeater_one_commit = None if self.case.in_one_step else False
        for name in ("proj.faulty", "proj.slow"):
            app.task(name=name, base=Faulty, shared=False)(anything).site = self
        return app

    @property
    def _port(self) -> int:
        return self._server.port

    def _urls(self) -> dict[str, str]:
        through_proxy = f"redis://{LOOPBACK}:{self._proxy.port}/{BROKER_DB}"
        return {"broker_read_url": self._server.url(BROKER_DB), "broker_write_url": through_proxy}

    def _take(self) -> list[Run]:
        """Remove what is in the queue, and return it."""
        with self._server.client(BROKER_DB).pipeline() as pipe:
            texts, _ = pipe.lrange(self._queue, 0, -1).delete(self._queue).execute()
        return [_run(json.loads(text)["headers"]) for text in reversed(texts)]

    def too_much(self, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Change arguments and options of a message so that the broker refuses it."""
        return ["x" * 2 * MOST_BYTES], options

    def _entry(self, number: int, name: str) -> RedisScheduleEntry:
        fate, runs = self.case.fates.get(number), self.case.runs_of(number)
        every, fields = (CATCH_UP_EVERY, {"max_runs": runs, "coalesce": "all"}) if runs > 1 else (86_400.0, {})
        late = CATCH_UP_EVERY * (runs - 1) + self.case.count - number
        first = now() - timedelta(seconds=-0.2 if fate == "soon" else late)
        self.owed[name] = {first + step * timedelta(seconds=every) for step in range(runs)}
        task, last_run_at = "proj.slow" if fate == "slow" else "proj.faulty", first - timedelta(seconds=every)
        return RedisScheduleEntry(name, task, every, app=self.apps[0], last_run_at=last_run_at, **fields)


class RabbitMQSite(Site):
    """The same with a RabbitMQ, of which another queue is full."""

    def __init__(self, server: Server, case: Case, stack: ExitStack, rabbitmq: RabbitMQ) -> None:
        self._rabbitmq = rabbitmq
        super().__init__(server, case, stack)

    @property
    def _port(self) -> int:
        return self._rabbitmq.port

    def _urls(self) -> dict[str, Any]:
        self._full = Queue(f"{self._queue}-full", Exchange(f"{self._queue}-full"), self._queue, max_length=0)
        self._full.queue_arguments = {"x-overflow": "reject-publish"}
        urls = {"broker_read_url": self._rabbitmq.url(), "broker_write_url": self._rabbitmq.url(self._proxy.port)}
        return {**urls, "task_queues": [Queue(self._queue), self._full]}

    def _take(self) -> list[Run]:
        return [Run(run.name, run.fire_time, run.id) for run in take(self.apps[0], self._queue)]

    def too_much(self, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**options, "queue": self._full.name}


@contextlib.contextmanager
def site_of(server: Server, case: Case, rabbitmq: RabbitMQ | None = None) -> Iterator[Site]:
    """Run a case on a server that has nothing else, and ends the connection of who sends it a huge message."""
    for db in (0, BROKER_DB):
        server.client(db).flushdb()
    client = server.client()
    before = client.config_get("proto-max-bulk-len")
    client.config_set("proto-max-bulk-len", MOST_BYTES)
    try:
        with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
            patch.setattr(planned_entry, "GATHER_SECONDS", case.gather_seconds)
            patch.setattr(dispatcher, "LONGEST_PUSHED_CHARACTERS", MOST_BYTES / 2)
            yield Site(server, case, stack) if rabbitmq is None else RabbitMQSite(server, case, stack, rabbitmq)
    finally:
        client.config_set("proto-max-bulk-len", before["proto-max-bulk-len"])
        for db in (0, BROKER_DB):
            server.client(db).flushdb()
