"""Publish batches whatever happens in the middle of them: no fire time is lost, early, or has two ids.

A case has up to 120 entries that are due, what becomes of some of them, and faults that come while one of them is
being sent: of the broker, of the lock, of the lease, of what is stored. Of an entry that is refused nothing is expected
but that it holds up no other.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=500`` in the environment there are as many others.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from celery import Celery, Task
from due import now, stored
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kombu import Exchange, Queue
from outbox import take
from proxy import LOOPBACK, Proxy
from rabbitmq import RabbitMQ
from servers import Server, programs
from waiting import wait_until

from redisbeater import EntryNotFound, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.dispatch import planned_entry
from redisbeater.dispatch.slow_tasks import SLOW_SECONDS

#: Which Redis the schedule is in makes no difference here.
pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])

BROKER_DB = 1

#: The prefix of the schedule, and the key of its lock.
PREFIX, LOCK = "t-faults:", "t-faults::lock"

#: Bytes that the broker takes at once; it ends the connection of who sends more.
MOST_BYTES = 1024 * 1024

#: What becomes of an entry: it is refused before its message leaves, once or each time; the broker refuses its message;
#: its task is slow to send; it is due in a moment.
FATES = ("refused once", "refused", "too much", "slow", "soon")

#: The fates in which an entry is never sent.
NEVER = ("refused", "too much")

#: Faults that hit all entries, and changes of one of them.
FAULTS = ("reply lost", "cut", "broker away", "lock lost", "lease over", "taken over")
CHANGES = ("edit", "delete")

#: Seconds between two fire times of an entry that catches up.
CATCH_UP_EVERY = 10.0


@dataclass(frozen=True)
class Case:
    """Entries by their number, the oldest first, and what comes when one of them is being sent for the first time."""

    count: int
    fates: dict[int, str] = field(default_factory=dict)
    #: How many fire times an entry catches up.
    runs: dict[int, int] = field(default_factory=dict)
    events: dict[int, str] = field(default_factory=dict)
    #: For how long plans are gathered, and published.
    gather_seconds: float = 0.05
    has_lock: bool = True
    tracks_runs: bool = False

    @property
    def has_faults(self) -> bool:
        return any(event in FAULTS for event in self.events.values())


NUMBERS = st.integers(0, 119)
CASES = st.builds(
    Case,
    count=st.sampled_from([5, 40, 120]),
    fates=st.dictionaries(NUMBERS, st.sampled_from(FATES), max_size=8),
    runs=st.dictionaries(NUMBERS, st.integers(2, 40), max_size=4),
    events=st.dictionaries(NUMBERS, st.sampled_from([*FAULTS, *CHANGES]), max_size=3),
    gather_seconds=st.sampled_from([0.0005, 0.005, 5.0]),
    has_lock=st.booleans(),
    tracks_runs=st.booleans(),
)


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


class Site:
    """A schedule, beats that send to a Redis through a proxy, and all that has arrived."""

    def __init__(self, server: Server, case: Case, stack: ExitStack) -> None:
        self.case, self._server = case, server
        self.client = server.client()
        self._proxy = stack.enter_context(Proxy(self._port))
        self._queue = f"queue-{uuid.uuid4().hex}"
        self.apps = [self._app() for _ in range(1 if case.has_lock else 2)]
        self._beats = [stack.enter_context(contextlib.closing(RedisScheduler(app))) for app in self.apps]
        self._events = dict(case.events)
        #: The entries that are still to be refused, or slow, once.
        self._refused_once = {number for number, fate in case.fates.items() if fate == "refused once"}
        self._slow = {number for number, fate in case.fates.items() if fate == "slow"}
        self.sent: list[Run] = []
        self.early: list[Run] = []
        self.deleted: set[str] = set()
        for beat in self._beats:
            beat.tick()  # it leads, and is connected
        self.names = [f"entry-{number:03}" for number in range(case.count)]
        #: The fire times of each entry.
        self.owed: dict[str, set[datetime]] = {}
        with ScheduleStore(self.apps[0]).bulk() as bulk:
            for number, name in enumerate(self.names):
                bulk.upsert(self._entry(number, name))

    def tick(self, beat: int = 0) -> None:
        """Let a beat make one pass, and take what has arrived."""
        self._beats[beat].tick()
        self._proxy.heal()
        arrived = self._take()
        self.sent += arrived
        self.early += [run for run in arrived if run.fire_time > now()]

    def tick_all(self) -> None:
        for beat in range(len(self._beats)):
            self.tick(beat)

    def before(self, number: int) -> None:
        """Do what is to happen before a run of an entry is published; raise what its task raises."""
        fate, event = self.case.fates.get(number), self._events.pop(number, None)
        if event is not None:
            self._do(event, number)
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
        return all(self._is_done(name) for number, name in enumerate(self.names) if self._is_expected(number))

    def counted(self) -> dict[str, int]:
        """How many runs of each entry are recorded as sent, of those of which all are expected."""
        runs = ScheduleStore(self.apps[0]).run_counts
        return {name: runs(name).sent for name in self.expected()}

    def expected(self) -> dict[str, set[datetime]]:
        """The fire times of which a run must have arrived."""
        return {name: self.owed[name] for number, name in enumerate(self.names) if self._is_expected(number)}

    def _is_expected(self, number: int) -> bool:
        return self.case.fates.get(number) not in NEVER and self.names[number] not in self.deleted

    def _is_done(self, name: str) -> bool:
        return stored(self.apps[0], name).total_run_count == len(self.owed[name])

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
            ScheduleStore(self.apps[0]).delete(other)
        else:
            self._outlive_lease(is_taken_over=event == "taken over" and len(self._beats) > 1)

    def _outlive_lease(self, *, is_taken_over: bool) -> None:
        """Wait until no more is sent on the lease, or until it is over and another beat has sent what it claims."""
        dispatch = self._beats[0]._dispatch
        if dispatch is None:  # it is the other beat that sends
            return
        wait_until(lambda: time.monotonic() >= dispatch.claim.trusted_until, "the end of the trusted lease")
        if is_taken_over:
            wait_until(lambda: not self.client.exists(f"{PREFIX}:claim:{dispatch.claim.id}"), "the end of the lease")
            beat = threading.Thread(target=self._beats[1].tick)
            beat.start()
            beat.join()

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
        lease, publish = (1, 0.3) if self.case.has_faults else (600, 60)
        app.conf.update(redisbeater_lease_timeout=lease, redisbeater_lock_timeout=lease)
        app.conf.redisbeater_publish_timeout = publish
        app.conf.redisbeater_track_runs = self.case.tracks_runs
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
        headers = [json.loads(text)["headers"] for text in reversed(texts)]
        return [
            Run(each["periodic_task_name"], datetime.fromisoformat(each["scheduled_for"]), each["id"])
            for each in headers
        ]

    def too_much(self, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Change arguments and options of a message so that the broker refuses it."""
        return ["x" * 2 * MOST_BYTES], options

    def _entry(self, number: int, name: str) -> RedisScheduleEntry:
        fate, runs = self.case.fates.get(number), self.case.runs.get(number, 1)
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
            yield Site(server, case, stack) if rabbitmq is None else RabbitMQSite(server, case, stack, rabbitmq)
    finally:
        client.config_set("proto-max-bulk-len", before["proto-max-bulk-len"])
        for db in (0, BROKER_DB):
            server.client(db).flushdb()


def send_all(site: Site) -> None:
    """Let the beats make passes until all runs have arrived and are counted."""

    def tick() -> bool:
        site.tick_all()
        return site.is_done()

    wait_until(tick, f"all runs of {site.case}")


def check(site: Site) -> None:
    """Assert that each fire time that is expected has arrived, at its time and with one id, and no other has."""
    arrived: dict[str, set[datetime]] = defaultdict(set)
    ids: dict[tuple[str, datetime], set[str]] = defaultdict(set)
    for run in site.sent:
        arrived[run.name].add(run.fire_time)
        ids[run.name, run.fire_time].add(run.id)
    assert {name: arrived[name] for name in site.expected()} == site.expected()
    assert all(fire_times <= site.owed[name] for name, fire_times in arrived.items())
    assert {len(each) for each in ids.values()} <= {1}
    assert not site.early
    if site.case.tracks_runs:
        assert site.counted() == {name: len(fire_times) for name, fire_times in site.expected().items()}


OWN = os.environ.get("REDISBEATER_EXAMPLES")
cases = settings(
    max_examples=int(OWN or 4), derandomize=not OWN, deadline=None, suppress_health_check=list(HealthCheck)
)


@cases
@given(case=CASES)
@example(
    case=Case(
        count=120,
        events={7: "reply lost", 60: "lock lost"},
        fates={3: "too much", 20: "refused once"},
        tracks_runs=True,
    )
)
@example(case=Case(count=40, runs={2: 40, 9: 5}, events={9: "taken over"}, has_lock=False, gather_seconds=0.005))
def test_nothing_is_lost_early_or_sent_with_two_ids_whatever_happens(server: Server, case: Case) -> None:
    with site_of(server, case) as site:
        send_all(site)
        check(site)


@cases
@given(case=CASES)
def test_nothing_is_lost_early_or_sent_with_two_ids_by_rabbitmq(server: Server, rabbitmq: RabbitMQ, case: Case) -> None:
    with site_of(server, case, rabbitmq) as site:
        send_all(site)
        check(site)


@cases
@given(case=CASES)
@example(
    case=Case(
        count=100, fates={1: "too much", 2: "refused", 40: "slow", 41: "too much", 99: "too much"}, gather_seconds=5.0
    )
)
def test_an_entry_that_is_refused_or_slow_holds_up_no_other_for_longer_than_one_pass(
    server: Server, case: Case
) -> None:
    events = {number: event for number, event in case.events.items() if event in CHANGES}
    case = replace(case, count=min(case.count, 100), events=events)
    with site_of(server, case) as site:
        site.tick()

        late = [
            number for number in range(case.count) if case.fates.get(number) not in (*NEVER, "refused once", "soon")
        ]
        sent = {run.name for run in site.sent}
        assert {site.names[number] for number in late} - site.deleted <= sent
        assert len({run.id for run in site.sent}) == len({(run.name, run.fire_time) for run in site.sent})
