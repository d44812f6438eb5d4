"""Beat makes the messages of a task by what it has learned of one; whatever is put in between still sees every run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import celery
import kombu
import kombu.transport.virtual.base
import pytest
import redis
from celery import Celery, Task, signals
from celery.beat import Scheduler
from due import save_due
from kombu import serialization
from support.servers import Server

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.signals import run_dispatched

pytestmark = [
    pytest.mark.usefixtures("nobody_listens"),
    pytest.mark.skipif(not hasattr(kombu.Producer, "batch"), reason="this kombu sends each message at once"),
]

BROKER_DB = 1

#: No lease and no lock ends on a slow machine.
UNHURRIED = {"redisbeater_lease_timeout": 600.0, "redisbeater_lock_timeout": 600.0}

#: A beat writes its line after this long.
PERIOD_SECONDS = 5.0

#: Characters of a delivery tag that the messages of one publish batch share where beat has made them.
SHARED = 24

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


def anything(*args: Any, **kwargs: Any) -> None: ...


class Beat:
    """A beat whose messages of one task are made by a template by now."""

    def __init__(self, app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis) -> None:
        self.app, self.broker, self.saved = app, broker, 0
        app.task(name="proj.work", shared=False)(anything)
        app.finalize()
        self.task = app.tasks["proj.work"]
        self.scheduler = make_scheduler(app)
        for _ in range(3):
            self.send(4)
        assert self.are_made(self.send(4))

    def send(self, number: int, task: str = "proj.work", queue: str = "celery", **fields: Any) -> list[dict[str, Any]]:
        """Let entries become due, and return the messages of their runs in their order."""
        for _ in range(number):
            self.saved += 1
            save_due(self.app, f"entry-{self.saved:03}", task, late=50.0 - self.saved / 100, every=86_400.0, **fields)
        for _ in range(100):
            if self.scheduler.tick():
                break
        texts = self.broker.lrange(queue, 0, -1)[::-1]
        self.broker.delete(queue)
        return [json.loads(text) for text in texts]

    def are_made(self, messages: list[dict[str, Any]]) -> bool:
        """Whether templates have made some of these messages."""
        heads = [each["properties"]["delivery_tag"][:SHARED] for each in messages]
        return len(set(heads)) < len(heads)

    def said(self, let_pass: Callable[[float], None]) -> str:
        """What status says of how messages are made, once the beat has written it."""
        let_pass(PERIOD_SECONDS)
        self.send(1)
        return ScheduleStore(self.app).status().beats[0].messages


@pytest.fixture(autouse=True)
def nothing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill each publish batch on a slow machine as well, and take no task for a slow one, to be sent alone."""
    monkeypatch.setattr("redisbeater.dispatch.batch.GATHER_SECONDS", 60)
    monkeypatch.setattr("redisbeater.dispatch.resources.SLOW_SECONDS", 60)


@pytest.fixture
def broker(server: Server) -> Iterator[redis.Redis]:
    broker = server.client(BROKER_DB)
    broker.flushdb()
    yield broker
    broker.flushdb()


@pytest.fixture
def app(make_app: MakeApp, broker: redis.Redis, server: Server) -> Celery:
    return make_app(broker_url=server.url(BROKER_DB), **UNHURRIED)


@pytest.fixture
def beat(app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis) -> Beat:
    return Beat(app, make_scheduler, broker)


@pytest.fixture(params=["one step", "two steps", "tracked"])
def any_beat(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, server: Server, request: Any
) -> Beat:
    settings: dict[str, Any] = (
        UNHURRIED
        | {
            "one step": {},
            "two steps": {"redisbeater_one_commit": False},
            "tracked": {"redisbeater_track_runs": True},
        }[request.param]
    )
    return Beat(make_app(broker_url=server.url(BROKER_DB), **settings), make_scheduler, broker)


def test_made_messages_are_those_of_their_entries(any_beat: Beat) -> None:
    messages = any_beat.send(40, args=[1, "two"], kwargs={"three": {"four": [None]}}, options={"priority": 3})
    messages = messages or any_beat.send(0, queue="celery\x06\x163")

    assert any_beat.are_made(messages)
    assert [each["headers"]["periodic_task_name"] for each in messages] == [f"entry-{n:03}" for n in range(17, 57)]
    assert len({each["headers"]["id"] for each in messages}) == 40
    assert len({each["properties"]["delivery_tag"] for each in messages}) == 40
    for message in messages:
        headers, properties = message["headers"], message["properties"]
        assert headers["id"] == headers["root_id"] == properties["correlation_id"]
        assert (headers["argsrepr"], headers["kwargsrepr"]) == ("[1, 'two']", "{'three': {'four': [None]}}")
        assert properties["priority"] == 3


def test_each_run_has_its_line_in_the_log_and_its_signal(beat: Beat, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="celery.beat")
    told: list[RedisScheduleEntry] = []

    def receiver(sender: str, entry: RedisScheduleEntry, **_: Any) -> None:
        told.append(entry)

    run_dispatched.connect(receiver)
    try:
        messages = beat.send(20)
    finally:
        run_dispatched.disconnect(receiver)

    assert beat.are_made(messages)
    ids = [each["headers"]["id"] for each in messages]
    lines = [each for each in caplog.records if each.getMessage().startswith("Scheduler: Sending due task")]
    assert [line.redisbeater["run_id"] for line in lines] == ids  # type: ignore[attr-defined]
    assert [line.redisbeater["kind"] for line in lines] == ["schedule"] * 20  # type: ignore[attr-defined]
    assert [f"proj.work sent. id->{run_id}" in caplog.text for run_id in ids] == [True] * 20
    assert [(entry.name, entry.options["task_id"]) for entry in told] == [
        (each["headers"]["periodic_task_name"], each["headers"]["id"]) for each in messages
    ]


def counting(function: Any, seen: list[Any]) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        seen.append(args)
        return function(*args, **kwargs)

    return wrapper


#: What an instrument, or the application, may put its own code around while beat runs.
AROUND: dict[str, Callable[[Beat], tuple[Any, str]]] = {
    "the scheduler's apply_entry": lambda beat: (RedisScheduler, "apply_entry"),
    "the apply_entry of Celery's scheduler": lambda beat: (Scheduler, "apply_entry"),
    "apply_async on the scheduler object": lambda beat: (beat.scheduler, "apply_async"),
    "the application's send_task": lambda beat: (beat.app, "send_task"),
    "Celery's send_task": lambda beat: (Celery, "send_task"),
    "apply_async of all tasks": lambda beat: (Task, "apply_async"),
    "apply_async of the task": lambda beat: (type(beat.task), "apply_async"),
    "shadow_name of the task": lambda beat: (type(beat.task), "shadow_name"),
    "what makes messages": lambda beat: (beat.app.amqp, "create_task_message"),
    "what sends messages": lambda beat: (beat.app.amqp, "send_task_message"),
    "the router": lambda beat: (beat.app.amqp.router, "route"),
    "kombu's publish": lambda beat: (kombu.Producer, "publish"),
    "kombu's channel": lambda beat: (kombu.transport.virtual.base.Channel, "prepare_message"),
    "the result backend": lambda beat: (type(beat.app.backend), "on_task_call"),
}
if celery.VERSION[:2] >= (5, 7):  # before, Celery sends no signal to which nobody listens
    AROUND["send of a signal"] = lambda beat: (signals.before_task_publish, "send")


@pytest.mark.parametrize("place", AROUND.values(), ids=list(AROUND))
def test_what_is_put_around_a_step_while_beat_runs_sees_every_run(
    beat: Beat, monkeypatch: pytest.MonkeyPatch, place: Callable[[Beat], tuple[Any, str]]
) -> None:
    holder, name = place(beat)
    if name == "send":  # Celery reads it once
        del beat.app.amqp.send_task_message
    seen: list[Any] = []
    monkeypatch.setattr(holder, name, counting(getattr(holder, name), seen))

    messages = beat.send(20)

    assert (len(messages), len(seen)) == (20, 20)
    monkeypatch.undo()
    if name == "send":
        del beat.app.amqp.send_task_message
    beat.send(4)
    assert beat.are_made(beat.send(10))


@pytest.mark.parametrize("name", ["before_task_publish", "after_task_publish", "task_sent"])
def test_a_receiver_that_is_connected_while_beat_runs_gets_every_run(
    beat: Beat, name: str, let_pass: Callable[[float], None]
) -> None:
    seen: list[Any] = []

    def receiver(**facts: Any) -> None:
        seen.append(facts)

    signal = getattr(signals, name)
    signal.connect(receiver)
    try:
        assert (len(beat.send(20)), len(seen)) == (20, 20)
        assert beat.said(let_pass) == (
            "made by Celery: somebody listens to before_task_publish, after_task_publish or task_sent"
        )
    finally:
        signal.disconnect(receiver)
    beat.send(4)
    assert beat.are_made(beat.send(10))
    assert beat.said(let_pass) == ""


def test_a_route_that_is_code_decides_about_every_run(beat: Beat, let_pass: Callable[[float], None]) -> None:
    asked: list[str] = []

    def route(name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **_: Any) -> dict[str, str]:
        asked.append(name)
        return {"queue": "odd" if len(asked) % 2 else "even"}

    beat.app.amqp.router = beat.app.amqp.Router()
    beat.app.amqp.router.routes = [route]

    odd = beat.send(20, queue="odd")

    assert (len(odd), len(beat.send(0, queue="even")), len(asked)) == (10, 10, 20)
    assert beat.said(let_pass) == "made by Celery: a route is code"


def test_a_serializer_that_is_registered_anew_writes_every_message(beat: Beat) -> None:
    seen: list[Any] = []
    plain = serialization.registry._encoders["json"]
    try:
        serialization.register(
            "json", counting(plain.encoder, seen), json.loads, plain.content_type, plain.content_encoding
        )
        late = {"every": 60.0, "late": 60 * 19 + 1.0, "coalesce": "all", "max_runs": 20}
        save_due(beat.app, "twenty runs of one entry", **late)
        assert (len(beat.send(0)), len(seen)) == (20, 20)
    finally:
        serialization.register_json()


def test_a_producer_of_the_scheduler_sends_every_run(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    producers: list[Any] = []
    plain = RedisScheduler.producer.fget

    class Own(kombu.Producer):
        def publish(self, *args: Any, **options: Any) -> Any:
            producers.append(self)
            return beat_producer.publish(*args, **options)

    beat_producer: Any = plain(beat.scheduler)
    own = Own(beat_producer.connection, auto_declare=False)
    monkeypatch.setattr(RedisScheduler, "producer", property(lambda _: own))

    assert (len(beat.send(20)), len(producers)) == (20, 20)


def test_a_task_that_is_executed_at_once_sends_no_message(
    beat: Beat, monkeypatch: pytest.MonkeyPatch, let_pass: Callable[[float], None]
) -> None:
    beat.app.conf.task_always_eager = True

    assert beat.send(10) == []
    assert beat.said(let_pass) == "made by Celery: task_always_eager is set"


def test_sent_events_are_sent_for_every_run(beat: Beat, let_pass: Callable[[float], None]) -> None:
    with beat.broker.pubsub() as listener:
        listener.psubscribe("*celeryev*")
        assert listener.get_message(timeout=5)
        beat.app.conf.task_send_sent_event = True

        beat.send(20)

        events = 0
        while listener.get_message(timeout=0.5):
            events += 1
    assert events == 20
    assert beat.said(let_pass) == "made by Celery: task_send_sent_event is set"


def test_another_protocol_is_that_of_every_message(beat: Beat, let_pass: Callable[[float], None]) -> None:
    beat.app.amqp.create_task_message = beat.app.amqp.as_task_v1

    messages = beat.send(10)

    assert [set(each["headers"]) & {"task", "id"} for each in messages] == [set()] * 10
    assert beat.said(let_pass) == "made by Celery: task_protocol is not 2"


def test_runs_that_are_sent_within_a_task_name_it(beat: Beat) -> None:
    from celery._state import _task_stack

    beat.task.push_request(id="outer", root_id="root", called_directly=False, delivery_info={}, children=[])
    _task_stack.push(beat.task)
    try:
        messages = beat.send(10)
    finally:
        _task_stack.pop()
        beat.task.pop_request()

    assert [each["headers"]["root_id"] for each in messages] == ["root"] * 10


@pytest.mark.skipif(celery.VERSION[:2] < (5, 7), reason="before Celery 5.7 no task changes its arguments")
def test_a_task_that_changes_its_arguments_changes_those_of_every_run(beat: Beat) -> None:
    type(beat.task)._dump_pydantic_arguments = staticmethod(lambda args, kwargs: ([42], {}))

    assert [each["headers"]["argsrepr"] for each in beat.send(10, args=[1])] == ["[42]"] * 10


def test_a_scheduler_that_syncs_does_so(app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis) -> None:
    app.conf.beat_sync_every = 1
    beat = Beat(app, make_scheduler, broker)
    synced: list[int] = []
    beat.scheduler.sync = lambda: synced.append(1)  # type: ignore[method-assign]

    beat.send(10)

    assert len(synced) == 10


Change = Callable[[Beat, pytest.MonkeyPatch], Any]

#: Before Celery 5.7 nothing sets them.
LEVELS = "the levels of shown arguments"

#: What goes into a message and may be changed while beat runs: how, and where the message tells it.
CHANGES: dict[str, tuple[Change, Callable[[dict[str, Any]], Any]]] = {
    "ignored results": (
        lambda beat, patch: patch.setattr(type(beat.task), "ignore_result", True),
        lambda message: message["headers"]["ignore_result"],
    ),
    "the limit of the task": (
        lambda beat, patch: (
            patch.setattr(type(beat.task), "time_limit", 7),
            patch.delitem(vars(beat.task), "_exec_options"),
        ),
        lambda message: str(message["headers"]["timelimit"]),
    ),
    "the length of shown arguments": (
        lambda beat, patch: patch.setattr(beat.app.amqp, "argsrepr_maxsize", 9),
        lambda message: message["headers"]["argsrepr"],
    ),
    LEVELS: (
        lambda beat, patch: setattr(beat.app.conf, "task_repr_maxlevels", 1),
        lambda message: message["headers"]["argsrepr"],
    ),
    "the process": (
        lambda beat, patch: patch.setattr(os, "getpid", lambda: 4711),
        lambda message: message["headers"]["origin"],
    ),
    "the thread": (
        lambda beat, patch: vars(beat.app)["_local"].__dict__.update(oid="other"),
        lambda message: message["properties"]["reply_to"],
    ),
}


@pytest.mark.parametrize("name", [name for name in CHANGES if name != LEVELS or celery.VERSION[:2] >= (5, 7)])
def test_a_change_while_beat_runs_is_in_every_message(beat: Beat, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    change, found = CHANGES[name]
    args = [["x" * 30, [["y"]]]]
    (before,) = {found(each) for each in beat.send(6, args=args)}
    change(beat, monkeypatch)

    messages = beat.send(20, args=args)

    (after,) = {found(each) for each in messages}
    assert after != before
    assert beat.are_made(messages)


def test_a_priority_that_changes_while_beat_runs_is_taken_as_celery_takes_it(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, server: Server
) -> None:
    one_queue = {"broker_transport_options": {"priority_steps": [0]}}
    beat = Beat(make_app(broker_url=server.url(BROKER_DB), **one_queue, **UNHURRIED), make_scheduler, broker)
    vars(beat.task)["_exec_options"] = {}  # then Celery before 5.7 asks the task for each message
    beat.send(6)
    beat.task.priority = 7

    messages = beat.send(20)

    beat.task.apply_async()
    (of_celery,) = beat.send(0)
    assert {each["properties"]["priority"] for each in messages} == {of_celery["properties"]["priority"]}
    assert beat.are_made(messages)


def test_a_change_counts_for_entries_that_have_run_before(beat: Beat) -> None:
    """The first message after it is that of an entry for which nothing changes."""

    def both() -> dict[str, str]:
        saved = [
            save_due(beat.app, name, late=late, every=86_400.0, args=[text])
            for name, late, text in (("short", 9.0, "y"), ("long", 8.0, "x" * 30))
        ]
        messages = beat.send(0)
        for entry in saved:
            entry.delete()
        return {each["headers"]["periodic_task_name"]: each["headers"]["argsrepr"] for each in messages}

    before = both()
    beat.app.amqp.argsrepr_maxsize = 9

    after = both()

    assert after["short"] == before["short"] == "['y']"
    assert len(after["long"]) < len(before["long"])


def test_a_queue_that_another_program_binds_later_gets_every_run(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis
) -> None:
    topics = kombu.Exchange("topics", "topic")
    app.conf.task_queues = [kombu.Queue("celery", topics, routing_key="celery")]
    scheduler = make_scheduler(app)
    for number in range(4):
        save_due(app, f"before-{number}", every=86_400.0)
        scheduler.tick()
    with app.connection_for_write() as connection:
        kombu.Queue("also", topics, routing_key="celery")(connection.default_channel).declare()

    for number in range(4):
        save_due(app, f"after-{number}", every=86_400.0)
        scheduler.tick()

    assert (broker.llen("celery"), broker.llen("also")) == (8, 4)


def test_another_default_queue_gets_every_run(beat: Beat) -> None:
    beat.app.conf.task_default_queue = "other"

    assert len(beat.send(20, queue="other")) == 20
    assert beat.broker.llen("celery") == 0


def test_a_queue_that_is_declared_anew_is_that_of_every_run(beat: Beat) -> None:
    beat.app.amqp.queues["celery"] = kombu.Queue("celery", kombu.Exchange("all", "fanout"), routing_key="celery")
    with beat.broker.pubsub() as listener:
        listener.psubscribe("*")
        assert listener.get_message(timeout=5)

        assert beat.send(10) == []

        published = 0
        while listener.get_message(timeout=0.5):
            published += 1
    assert published >= 10


def test_a_queue_is_declared_on_each_connection(beat: Beat) -> None:
    binding = "_kombu.binding.celery"
    assert beat.broker.delete(binding)
    beat.scheduler.close()

    beat.send(4)

    assert beat.broker.exists(binding)


def test_arguments_that_the_task_does_not_take_are_refused(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis
) -> None:
    beat = Beat(app, make_scheduler, broker)
    beat.task.__class__.__header__ = staticmethod(lambda *args, **kwargs: None)

    def one(first: Any = None) -> None: ...

    beat.task.__class__.__header__ = app.type_checker(one)
    assert len(beat.send(10, args=[1])) == 10

    sent = beat.send(1, args=[1, 2])

    assert sent == []
    (entry,) = [each for each in ScheduleStore(app).list().entries if each.state == "failing"]
    assert "takes from 0 to 1 positional arguments but 2 were given" in entry.last_error


def test_what_the_time_decides_is_computed_for_each_run(beat: Beat, caplog: pytest.LogCaptureFixture) -> None:
    for options in ({"countdown": 60}, {"expires": 60}):
        messages = beat.send(10, options=options)
        times = {each["headers"]["eta"] or each["headers"]["expires"] for each in messages}
        assert (len(times), beat.are_made(messages)) == (10, False)
    assert "differs" not in caplog.text


def test_a_deadline_counts_from_the_fire_time_of_each_run(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    broker: redis.Redis,
    server: Server,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app(broker_url=server.url(BROKER_DB), redisbeater_track_runs=True, **UNHURRIED)
    beat = Beat(app, make_scheduler, broker)

    messages = beat.send(10, deadline=3600)

    assert len({each["headers"]["expires"] for each in messages}) == 10
    assert "differs" not in caplog.text


def test_a_subclass_of_the_entry_is_what_is_sent(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Doubled(RedisScheduleEntry):
        def __init__(self, *args: Any, **fields: Any) -> None:
            super().__init__(*args, **fields)
            self.args = [*self.args, "own"]

    class Own(RedisScheduler):
        Entry = Doubled

    scheduler = make_scheduler(app, Own)
    for name in ("first", "second", "third"):
        save_due(app, name, every=86_400.0)
        scheduler.tick()

    texts = [json.loads(text)["headers"]["argsrepr"] for text in broker.lrange("celery", 0, -1)]

    assert texts == ["['own']"] * 3


def test_a_difference_is_logged_once_and_told_and_no_run_is_lost(
    beat: Beat, caplog: pytest.LogCaptureFixture, let_pass: Callable[[float], None]
) -> None:
    """A type of kombu's message changes by itself: that is nothing that any condition knows."""
    beat.app.amqp.queues["celery"].exchange.delivery_mode = 1  # in place, so that nobody notices it
    caplog.set_level("ERROR")

    messages = [message for _ in range(21) for message in beat.send(50)]

    assert len(messages) == 1050
    assert len({each["headers"]["id"] for each in messages}) == 1050
    (line,) = [each.getMessage() for each in caplog.records if "differs from what was learned" in each.getMessage()]
    assert line == (
        "task 'proj.work': the message of a run differs from what was learned, in properties.delivery_mode; "
        "such runs go Celery's way from now on"
    )
    assert [each["properties"]["delivery_mode"] for each in beat.send(20)] == [1] * 20
    assert (
        beat.said(let_pass) == "made by Celery, as what was learned differed: of proj.work in properties.delivery_mode"
    )
