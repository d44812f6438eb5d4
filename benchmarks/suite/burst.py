"""Many entries due at once under a real beat, measured from outside: the first burst after a start, and later ones."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from support import rabbitmq
from support.servers import running

from suite import machine
from suite.apscheduler_process import apscheduler
from suite.beat_process import BeatProcess, beat
from suite.case import Case, Column, Target
from suite.first_message import awaited
from suite.job import Job, Outcome, Unavailable
from suite.loops import BATCHED, CONFIRMED, PLAIN, Loop
from suite.message_queue import queue_of
from suite.population import Population
from suite.redis_subjects import RedisSubject
from suite.results import Results
from suite.runner import starting_on
from suite.subjects import subject_class

__all__ = ("BURST",)

#: The size that the targets refer to, and how many bursts follow the first one.
BURST_SIZE, LATER, QUICK_LATER = 5000, 4, 1

#: Seconds to write entries before they are due: at least, and for each.
LEAD_SECONDS, LEAD_SECONDS_EACH = 2.0, {"apscheduler": 2e-3, "celery-redbeat": 2e-4, "redisbeater": 1e-5}

#: Seconds that a burst may take.
PATIENCE_SECONDS = 300.0

#: RedBeat looks at the schedule this often here: by default up to 300 s pass until it sees what has changed. Its lock
#: lasts as long as by default.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "celery-redbeat": {"beat_max_loop_interval": 1, "redbeat_lock_timeout": 1500}
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """How a contender is run: by default one beat with default settings, schedule and broker in one server."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    beats: int = 1
    #: Whether another beat has led the schedule before.
    was_led: bool = True
    broker: str = ""

    @property
    def has_lock(self) -> bool:
        """Whether one beat leads."""
        return "redisbeater_lock_key" not in self.settings


VARIANTS = {
    "": Variant(),
    "never led": Variant(was_led=False),
    "tracked": Variant(settings={"redisbeater_track_runs": True}),
    "no lock": Variant(settings={"redisbeater_lock_key": None}),
    "two beats": Variant(settings={"redisbeater_lock_key": None}, beats=2),
    "two steps": Variant(broker="redis"),
    "RabbitMQ": Variant(broker="amqp"),
}


def measure(job: Job) -> Outcome:
    """Measure a contender, whose name may end in that of a variant."""
    contender, _, variant = job.contender.partition(", ")
    run = VARIANTS[variant]
    with _broker(replace(job, contender=contender), run.broker) as job:
        if contender in (PLAIN, BATCHED, CONFIRMED):
            return _loop(job)
        if contender == "apscheduler":
            return _apscheduler(job)
        return _beats(job, run)


@contextmanager
def _broker(job: Job, kind: str) -> Iterator[Job]:
    """Run another broker beside the server of the schedule, and yield the job that has it."""
    if not kind:
        yield job
        return
    if kind == "amqp" and rabbitmq.program() is None:
        raise Unavailable("RabbitMQ is missing: apt-get install rabbitmq-server")
    with ExitStack() as stack:
        with starting_on(Redis(job).cores()):
            if kind == "amqp":
                url = stack.enter_context(rabbitmq.running()).url()
            else:
                program = machine.server_program()
                assert program is not None
                url = stack.enter_context(running(program)).url()
        yield replace(job, broker=url)


def _loop(job: Job) -> Outcome:
    """Measure the bare loop: bursts of calls in this process. The first of them is as any other."""
    loop, redis, bursts = Loop(job), Redis(job), []
    for _ in range(1 + _later(job)):
        before = redis.cpu_seconds()
        spent = loop.send(job.size)
        bursts.append(Burst(spent.seconds, spent.cpu_seconds, redis.cpu_seconds() - before))
    return Outcome(figures=_figures(job, bursts[1:]))


def _apscheduler(job: Job) -> Outcome:
    with apscheduler(job) as process:
        site = Site(job, [process], process.make_due)
        return Outcome(figures=_figures(job, [site.later() for _ in range(_later(job))]))


def _beats(job: Job, run: Variant) -> Outcome:
    settings = {**SETTINGS.get(job.contender, {}), **run.settings}
    subject = subject_class(job.contender)(job)
    assert isinstance(subject, RedisSubject)
    due = Population(count=job.size, due=job.size, at=math.floor(time.time()) + 3600.0)
    subject.create(due)
    if run.was_led:
        with beat(job, **settings) as process:
            process.end()
    subject.again(replace(due, at=math.floor(time.time()) - 1.0))
    with ExitStack() as stack:
        processes = [stack.enter_context(beat(job, settles=False, **settings))]
        site = Site(job, processes, lambda at: subject.again(replace(due, at=at)))
        first = site.drained(time.time())
        processes += [stack.enter_context(beat(job, **settings)) for _ in range(1, run.beats)]
        later = [site.later() for _ in range(_later(job))]
    figures = {"first_us": first.seconds / job.size * 1e6, **_figures(job, later)}
    if not run.has_lock:  # when the beat began is not known
        del figures["first_us"]
    return Outcome(figures=figures)


def _later(job: Job) -> int:
    return QUICK_LATER if job.quick else LATER


@dataclass(frozen=True)
class Burst:
    """What one burst took: on the clock, and of the processors of all beats and of the schedule's server."""

    seconds: float
    beat_seconds: float
    redis_seconds: float
    #: Seconds to the first message.
    first_seconds: float | None = None


def _figures(job: Job, later: Sequence[Burst]) -> dict[str, float]:
    """Return the medians of bursts, by run."""

    def median(value: Callable[[Burst], float | None]) -> float | None:
        values = [found for each in later if (found := value(each)) is not None]
        return statistics.median(values) if values else None

    figures = {
        "rate": median(lambda burst: job.size / burst.seconds),
        "us": median(lambda burst: burst.seconds / job.size * 1e6),
        "beat_us": median(lambda burst: burst.beat_seconds / job.size * 1e6),
        "redis_us": median(lambda burst: burst.redis_seconds / job.size * 1e6),
        "first_ms": median(lambda burst: burst.first_seconds and burst.first_seconds * 1000),
    }
    return {name: value for name, value in figures.items() if value is not None}


class Redis:
    """The server of the schedule."""

    def __init__(self, job: Job) -> None:
        self._client: Any = job.schedule_client()

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used so far."""
        used = self._client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    def cores(self) -> set[int] | None:
        """Return the cores on which it may run."""
        return machine.cores_of(int(self._client.info("server")["process_id"]))


class Site:
    """A schedule whose entries become due again and again, the beats that send their runs, and who watches them."""

    def __init__(self, job: Job, processes: Sequence[BeatProcess], make_due: Callable[[float], object]) -> None:
        self._job = job
        self._processes = processes
        self._make_due = make_due
        self._redis = Redis(job)
        self._queue = queue_of(job)
        self._client: Any = job.schedule_client()

    def later(self) -> Burst:
        """Let all entries be due at a time that is near, and watch them from then on."""
        self._queue.clear()
        lead = LEAD_SECONDS + self._job.size * LEAD_SECONDS_EACH[self._job.contender]
        at = float(math.ceil(time.time() + lead))
        self._make_due(at)
        self._client.publish("redisbeater::changes", "all")
        if self._job.broker.startswith("amqp"):
            _sleep_until(at)
            return self.drained(at)
        with awaited(self._job) as message:
            _sleep_until(at)
            began_at = time.monotonic() - (time.time() - at)
            burst = self.drained(at, taken=1)
            return replace(burst, first_seconds=message.at() - began_at)

    def drained(self, since: float, *, taken: int = 0) -> Burst:
        """Wait until all messages are on the queue, but for those that are taken from it, and all commits are made."""
        beat_seconds, redis_seconds = self._used()
        wanted = self._job.size - taken
        while (found := self._queue.length()) < wanted:
            passed = time.time() - since
            if passed > PATIENCE_SECONDS or not all(process.is_running() for process in self._processes):
                raise TimeoutError(f"{found} of {wanted} messages after {passed:.0f} s")
            # Each look takes of the server's time: at first few, and the nearer the end, the more.
            time.sleep(min(max((wanted - found) * passed / max(found, 1) / 4, 0.002), 0.05))
        seconds = time.time() - since
        time.sleep(0.1)  # the last commit
        beats, redis = self._used()
        return Burst(seconds, beats - beat_seconds, redis - redis_seconds)

    def _used(self) -> tuple[float, float]:
        return sum(process.exact_cpu_seconds() for process in self._processes), self._redis.cpu_seconds()


def _sleep_until(at: float) -> None:
    """Sleep until a UNIX time, in which the entries are not yet due.

    Raises:
        RuntimeError: It is later already.
    """
    seconds = at - time.time()
    if seconds < 0:
        raise RuntimeError("the machine is too busy: the entries were not written in time; run it again")
    time.sleep(seconds)


LARGE = (BURST_SIZE, 10_000)


def _two_by_one(results: Results) -> float | None:
    return results.ratio("redisbeater, two beats", "redisbeater, no lock", "rate")


def _ratio(one: str, other: str, figure: str) -> Callable[[Results], float | None]:
    return lambda results: results.ratio(one, other, figure, at=BURST_SIZE)


def _median(contender: str, figure: str, size: int = BURST_SIZE) -> Callable[[Results], float | None]:
    return lambda results: results.median(contender, figure, size)


BURST = Case(
    name="burst",
    title="entries due at once, dispatched by a real beat to a Redis broker in the same server",
    about="after the comma: how it differs from that. First: overdue when beat starts, by the time from the lock",
    size_title="due",
    sizes={
        "redisbeater": (*LARGE, 100_000),
        BATCHED: LARGE,
        "celery-redbeat": LARGE,
        "redisbeater, never led": (BURST_SIZE,),
        "redisbeater, tracked": (BURST_SIZE,),
        "redisbeater, no lock": (BURST_SIZE,),
        "redisbeater, two beats": (BURST_SIZE,),
        "redisbeater, two steps": (BURST_SIZE,),
        "redisbeater, RabbitMQ": (BURST_SIZE,),
        f"{CONFIRMED}, RabbitMQ": (BURST_SIZE,),
        "celery-redbeat, RabbitMQ": (BURST_SIZE,),
        PLAIN: (10_000,),
        "apscheduler": (10_000,),
    },
    quick_sizes=dict.fromkeys(("redisbeater", BATCHED, "celery-redbeat"), (BURST_SIZE,)),
    once={"redisbeater": 100_000, "apscheduler": 10_000},
    columns=(
        Column(figure="first_us", title="first, us/run", digits=0),
        Column(figure="us", title="later, us/run", digits=0),
        Column(figure="rate", title="runs/s", digits=0),
        Column(figure="beat_us", title="beat's CPU us", digits=0),
        Column(figure="redis_us", title="Redis's CPU us"),
        Column(figure="first_ms", title="first after ms"),
    ),
    measure=measure,
    targets=(
        Target(
            text="time by the bare batched loop's", bound=0.9, aim=0.75, measure=_ratio("redisbeater", BATCHED, "us")
        ),
        Target(
            text="celery-redbeat's time by it",
            bound=5,
            at_least=True,
            measure=_ratio("celery-redbeat", "redisbeater", "us"),
        ),
        Target(text="beat by the loop's process", bound=0.6, measure=_ratio("redisbeater", BATCHED, "beat_us")),
        Target(
            text="Redis by celery-redbeat's", bound=0.3, measure=_ratio("redisbeater", "celery-redbeat", "redis_us")
        ),
        Target(
            text="first burst by the loop",
            bound=1.2,
            measure=lambda results: results.ratio("redisbeater", BATCHED, "first_us", at=BURST_SIZE, by="us"),
        ),
        Target(
            text="first burst of a schedule never led by that of one that was",
            bound=1.05,
            measure=_ratio("redisbeater, never led", "redisbeater", "first_us"),
        ),
        Target(text="two steps by the loop", bound=1, measure=_ratio("redisbeater, two steps", BATCHED, "us")),
        Target(
            text="RabbitMQ, confirmed, by celery-redbeat's rate without confirms",
            bound=1.4,
            at_least=True,
            measure=_ratio("redisbeater, RabbitMQ", "celery-redbeat, RabbitMQ", "rate"),
        ),
        Target(text="beat, tracked", bound=130, unit="us", measure=_median("redisbeater, tracked", "beat_us")),
        Target(text="Redis, tracked", bound=45, unit="us", measure=_median("redisbeater, tracked", "redis_us")),
        Target(text="two active beats by one", bound=1.6, at_least=True, measure=_two_by_one),
        Target(text="first message of 10,000", bound=8, unit="ms", measure=_median("redisbeater", "first_ms", 10_000)),
        Target(
            text="first message of 100,000", bound=12, unit="ms", measure=_median("redisbeater", "first_ms", 100_000)
        ),
    ),
)
