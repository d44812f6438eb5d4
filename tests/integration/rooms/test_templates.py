"""Templates: what they make of a run is what Celery and kombu make of it, byte for byte but for the tag."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, NamedTuple

import kombu
import pytest
from celery import Celery
from celery.result import denied_join_result
from celery.signals import before_task_publish
from due import ago
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu import Exchange, Queue
from support.servers import Server

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.broker.publisher_confirms import CapturedPublishBatch, Command
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.runs.receivers import on_publish
from redisbeater.sending.sender import Sender
from redisbeater.sending.template import PlainRun, Templates
from redisbeater.sending.who_may import OF_BATCH
from redisbeater.store import ClaimedEntry

pytestmark = [
    pytest.mark.usefixtures("nobody_listens"),
    pytest.mark.skipif(not hasattr(kombu.Producer, "batch"), reason="this kombu sends each message at once"),
]

BROKER_DB = 1
SCHEDULE_ID = "7b0c6a4e-5d0e-4f57-9a51-0d3c1f1f7a11"

TASKS: dict[str, dict[str, Any]] = {
    "t.add": {},
    "t.opts": {"queue": "q2", "priority": 3, "ignore_result": False, "time_limit": 30},
    "t.bound": {"bind": True},
    "t.typed": {"typing": True, "ignore_result": True},
    "t.limits": {"soft_time_limit": 5, "time_limit": 9, "acks_late": True},
}

#: The application in ten configurations.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "ignored results": {"task_ignore_result": True},
    "results in Redis": {"result_backend": "redis://localhost:1/0"},
    "own queues": {"task_queues": [Queue("celery"), Queue("qa", Exchange("qa", "direct"), routing_key="qa")]},
    "a topic exchange": {
        "task_queues": [Queue("celery"), Queue("qa", Exchange("topics", "topic"), routing_key="a.#"), Queue("q2")],
    },
    "routes by name": {"task_routes": {"t.add": {"queue": "routed", "priority": 7}, "t.*": "q b"}},
    "a prefix and priorities": {
        "broker_transport_options": {"global_keyprefix": "own:", "priority_steps": [0, 4, 8]},
        "task_default_priority": 5,
    },
    "another default queue": {"task_default_queue": "é b", "task_repr_maxlevels": 2},
    "compressed": {"task_compression": "gzip"},
    "own zone, no UTC": {"timezone": "Asia/Kolkata", "enable_utc": False, "task_serializer": "json"},
}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["%s", "{}", '"', "\\", "<b>é中😀</b>", "\u2028", "\x7f", "celery", "t.add", "()", "a" * 2000]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["qa", "celery", "q b"]),
        "priority": st.integers(0, 9),
        "time_limit": st.integers(1, 99),
        "soft_time_limit": st.integers(1, 99),
        "ignore_result": st.booleans(),
        "headers": st.dictionaries(TEXTS.filter(lambda name: name.isascii()), VALUES, max_size=2),
        "shadow": TEXTS,
        "routing_key": st.sampled_from(["a.b", "qa"]),
        "exchange": st.sampled_from(["topics", "qa"]),
        "serializer": st.sampled_from(["json", "pickle", "yaml"]),
        "compression": st.just("zlib"),
        "expires": st.integers(1, 9999),
        "countdown": st.integers(1, 9999),
        "argsrepr": st.just("(hidden)"),
        "delivery_mode": st.sampled_from([1, 2]),
        "link": st.just([{"task": "t.add", "args": [], "kwargs": {}, "options": {}, "immutable": False}]),
    },
)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Zs"]), min_size=1, max_size=20).filter(
    lambda name: not name.startswith(":")
)


class Wanted(NamedTuple):
    """An entry that is tried, and the arguments of another one of the same task and options."""

    name: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    others: list[Any]
    options: dict[str, Any]
    has_run: bool
    seconds: float


WANTED = st.builds(
    Wanted,
    NAMES,
    st.sampled_from([*TASKS, "not.registered"]),
    st.lists(VALUES, max_size=3),
    st.dictionaries(st.sampled_from(["a", "k1", "k2"]), VALUES, max_size=2),
    st.lists(VALUES, max_size=2),
    OPTIONS,
    st.booleans(),
    st.sampled_from([1.0, 60.0, 86_400.5]),
)


def anything(*args: Any, **kwargs: Any) -> None: ...


def typed(first: Any, a: Any = 1) -> None: ...


class Site:
    """A beat of an application, which sends nothing: what its runs would put into the broker is compared."""

    def __init__(self, app: Celery, make_scheduler: Callable[..., RedisScheduler]) -> None:
        self.app, self.context = app, Context.of(app)
        for name, options in TASKS.items():
            app.task(name=name, shared=False, **options)(typed if name == "t.typed" else anything)
        app.finalize()
        self.scheduler = make_scheduler(app)
        self.templates = Templates(self.scheduler, lambda run: None)
        self.equal, self.entries = 0, set[str]()

    @contextmanager
    def batch(self) -> Any:
        producer = self.scheduler.producer
        channel = getattr(producer.channel, "instance", producer.channel)
        with CapturedPublishBatch(producer, channel) as batch:
            yield batch, self.templates.begin(batch, producer)

    def run(self, entry: RedisScheduleEntry, at: int, *, has_run: bool) -> PlainRun | None:
        """The run of an entry at a fire time, as beat plans it; None: it is none for a template."""
        fire_time = ago(seconds=100).replace(microsecond=at) + timedelta(seconds=at)
        meta = Meta(last_run_at=fire_time - timedelta(seconds=60), total_run_count=1) if has_run else Meta()
        now = fire_time + timedelta(microseconds=1)
        runs = self._planned(entry, fire_time, meta, now).plain_runs(SCHEDULE_ID, self.app, 0, 1, now, lambda _: True)
        return runs[0] if runs else None

    def runs(self, entry: RedisScheduleEntry, *, number: int, first: int) -> list[PlainRun]:
        """The runs of an entry of a minute that has missed some fire times, from the one with a number on."""
        now = ago(seconds=0)
        fire_time = now - timedelta(seconds=60 * number - 1)
        job = self._planned(entry, fire_time, Meta(), now)
        return job.plain_runs(SCHEDULE_ID, self.app, first, number, now, lambda _: True)

    def _planned(self, entry: RedisScheduleEntry, fire_time: datetime, meta: Meta, now: datetime) -> Job:
        definition = entry_definition(entry, self.context)
        claimed = ClaimedEntry(
            key="k", name=entry.name, definition=definition, meta=meta.to_text(), fire_time=fire_time
        )
        return Job.planned(claimed, now, self.context, SCHEDULE_ID)

    def check(self, run: PlainRun) -> bool | None:
        """Send a run both ways; return whether both are equal, or None where no template makes it."""
        with self.batch() as (batch, filling):
            if filling is None:
                return None
            by_template: tuple[Command, ...] = batch.commands([batch.published]) if filling.send(run) else ()
            last = batch.published
            with denied_join_result():  # as beat sends
                error = Sender(self.scheduler).send(run.make())
            if error is not None:
                assert by_template == (), error
                return None
            numbers = range(last + 1, batch.published + 1)
            by_celery = batch.commands(numbers)
            filling.compare(run, numbers)
            if not by_template:
                return None
            self.entries.add(run.name)
            self.equal += 1
            return [plain(command) for command in by_template] == [plain(command) for command in by_celery]


def plain(command: Command) -> tuple[str, ...]:
    """A command whose tag is replaced where it stands, so that every other byte is compared."""
    tag = json.loads(command[2])["properties"]["delivery_tag"]
    return *command[:2], command[2].replace(tag, "tag")


def entry_definition(entry: RedisScheduleEntry, context: Context) -> str:
    fields = {
        name: getattr(entry, name) for name in ("name", "task", "schedule", "args", "kwargs", "options", "coalesce")
    }
    return Definition.checked(**fields).to_text(context.codec)


@pytest.fixture
def make_site(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], server: Server
) -> Callable[..., Site]:
    def make(**configuration: Any) -> Site:
        app = make_app(broker_url=server.url(BROKER_DB), **configuration)
        site = Site(app, make_scheduler)
        with site.batch():  # the first one, which connects
            return site

    return make


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=list(CONFIGURATIONS))
def test_a_message_of_a_template_is_that_of_celery_but_for_its_tag(
    make_site: Callable[..., Site], configuration: dict[str, Any]
) -> None:
    site = make_site(**configuration)

    @given(wanted=WANTED)
    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
    def entries_are_sent_alike(wanted: Wanted) -> None:
        fields = {"options": wanted.options, "app": site.app}
        try:
            first = RedisScheduleEntry(wanted.name, wanted.task, wanted.seconds, wanted.args, wanted.kwargs, **fields)
            other = RedisScheduleEntry(f"{wanted.name}/2", wanted.task, wanted.seconds, wanted.others, **fields)
            runs = [
                site.run(entry, at, has_run=wanted.has_run)
                for at, entry in enumerate((first, first, other, other, first))
            ]
        except InvalidEntry:
            return
        for run in runs:
            if run is not None:
                assert site.check(run) in (True, None)

    entries_are_sent_alike()
    assert site.templates.words == ""
    assert site.equal == 0 if "task_compression" in configuration else site.equal >= 10


def test_fifty_kinds_of_entries_are_sent_by_templates_alike(make_site: Callable[..., Site]) -> None:
    site, chance = make_site(), random.Random(7)
    for number in range(60):
        options = {"priority": number % 10, "queue": chance.choice(["qa", "celery"]), "headers": {"x": str(number)}}
        args = [[None, True, number, -0.0, 1e300, "é", [], {"a": [number]}][number % 8], chance.random()]
        entry = RedisScheduleEntry(f"e{number}", "t.add", 60.0, args, {"k": number}, options=options, app=site.app)
        results = [site.check(run) for at in range(5) if (run := site.run(entry, at, has_run=bool(number % 2)))]
        # The first two are compared, and so is the first one after a queue that is new to the application.
        assert results[:2] + results[-2:] == [None, None, True, True], (number, results)
    assert len(site.entries) == 60


def test_headers_stay_in_the_order_of_their_entry(make_site: Callable[..., Site]) -> None:
    site = make_site()
    for headers in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}):
        entry = RedisScheduleEntry("e", "t.add", 60.0, options={"headers": headers}, app=site.app)
        assert [site.check(site.run(entry, at, has_run=True)) for at in range(4)] == [None, None, True, True]


@pytest.mark.parametrize("first", [1, 2, 3])
def test_each_of_several_fire_times_tells_the_one_before(make_site: Callable[..., Site], first: int) -> None:
    """Beat sends the fire times that have passed one after the other, with ``coalesce="all"``."""
    site = make_site()
    entry = RedisScheduleEntry("e", "t.add", 60.0, [1], coalesce="all", app=site.app)
    runs = site.runs(entry, number=7, first=first)
    assert [site.check(run) for run in runs][2:] == [True] * (5 - first)
    assert [run.previous for run in runs[1:]] == [run.last_run_at for run in runs[:-1]]


def test_what_this_package_listens_to_leaves_runs_to_templates() -> None:
    condition = next(each for each in OF_BATCH if each.name == "signals")

    before_task_publish.connect(on_publish, weak=False)
    assert condition.is_met(None)

    before_task_publish.connect(wraps(on_publish)(lambda **_: None), weak=False)
    assert not condition.is_met(None)
