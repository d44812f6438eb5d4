"""Beat puts the message of a run into the broker with the commit, where both are one Redis server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import kombu
import pytest
import redis
from celery import Celery, Task
from celery.signals import before_task_publish
from click.testing import CliRunner, Result
from due import ago, save_due, stored
from support.proxy import LOOPBACK, Proxy
from support.servers import Server, running
from support.topologies import SERVICE, Sentinels, app_with
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, StoreUnavailable
from redisbeater.beat.heartbeat import PERIOD_SECONDS
from redisbeater.broker import connection
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.store.keys import LOCK_RELEASED

pytestmark = [
    pytest.mark.skipif(not hasattr(kombu.Producer, "batch"), reason="this kombu sends each message at once"),
]

BROKER_DB = 1

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Pass = Callable[[float], None]


@pytest.fixture
def broker(server: Server) -> Iterator[redis.Redis]:
    broker = server.client(BROKER_DB)
    broker.flushdb()
    yield broker
    broker.flushdb()


@pytest.fixture
def app(make_app: MakeApp, broker: redis.Redis, server: Server) -> Celery:
    return make_app(broker_url=server.url(BROKER_DB))


def anything(*args: Any) -> None: ...


def run(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))


def arrived(broker: redis.Redis, queue: str = "celery") -> list[str]:
    """The names of the entries whose messages are in a queue, in their order."""
    return [json.loads(text)["headers"]["periodic_task_name"] for text in broker.lrange(queue, 0, -1)[::-1]]


def by_beats_connection(scheduler: RedisScheduler, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each message that beat's connection to the broker sends."""
    sent: list[int] = []
    execute = redis.client.Pipeline.execute

    def counting(self: Any, *args: Any, **options: Any) -> Any:
        sent.extend(1 for command in self.command_stack if command[0][0].upper() == "LPUSH")
        return execute(self, *args, **options)

    monkeypatch.setattr(redis.client.Pipeline, "execute", counting)
    return sent


def test_the_broker_gets_no_message_by_beats_connection(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(app)
    sent = by_beats_connection(scheduler, monkeypatch)
    saved = [save_due(app, f"entry-{number:02}", late=20 - number).name for number in range(20)]

    scheduler.tick()

    assert arrived(broker) == saved
    assert not sent
    assert [stored(app, name).total_run_count for name in saved] == [1] * 20


@pytest.mark.parametrize("is_tracking", [False, True], ids=["untracked", "tracked"])
def test_an_entry_catches_up_a_hundred_runs_each_once(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, server: Server, is_tracking: bool
) -> None:
    app = make_app(broker_url=server.url(BROKER_DB), redisbeater_track_runs=is_tracking)
    scheduler = make_scheduler(app)
    RedisScheduleEntry(
        "late", "proj.work", 60.0, app=app, last_run_at=ago(seconds=60 * 100 + 30), coalesce="all", max_runs=100
    ).save()
    save_due(app, "other", late=0.5)

    wait_until(lambda: scheduler.tick() > 0 and stored(app, "late").total_run_count == 100, "a hundred runs")

    ids = [json.loads(text)["headers"]["id"] for text in broker.lrange("celery", 0, -1)]
    assert len(ids) == len(set(ids)) == 101
    assert arrived(broker)[:2] == ["late", "other"]


def test_a_commit_whose_reply_is_lost_sends_no_run_twice(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    broker: redis.Redis,
    server: Server,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(
            broker_url=server.url(BROKER_DB),
            redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0",
            redisbeater_redis_options={"socket_timeout": 0.3},
            redisbeater_retry_period=0,
        )
        scheduler = make_scheduler(app)
        scheduler.tick()
        saved = [save_due(app, name, late=10.0, every=3600.0).name for name in ("a", "b", "c")]
        lost = proxy.lose_reply(b"LPUSH")

        def tick() -> bool:
            with suppress(StoreUnavailable):  # beat has no time to try again: the next pass does
                scheduler.tick()
                return lost.is_set() and [stored(app, name).total_run_count for name in saved] == [1] * 3
            return False

        wait_until(tick, "all to be committed")
        scheduler.tick()
    assert "was not sent" not in caplog.text
    assert sorted(arrived(broker)) == saved


def test_a_commit_whose_reply_is_lost_until_another_beat_has_the_entry_says_what_it_does_not_know(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    broker: redis.Redis,
    client: redis.Redis,
    server: Server,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(
            broker_url=server.url(BROKER_DB),
            redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0",
            redisbeater_redis_options={"socket_timeout": 0.3},
            redisbeater_retry_period=0,
        )
        scheduler = make_scheduler(app)
        scheduler.tick()
        save_due(app, "report", every=3600.0)
        lost = proxy.lose_reply(b"LPUSH")
        with suppress(StoreUnavailable):
            scheduler.tick()
        assert lost.is_set()
        client.hset(Context.of(app).redis.keys.entry("report"), "claim", "another")
        wait_until(lambda: scheduler.tick() is not None and "did not say" in caplog.text, "the next try")

    assert "was not sent" not in caplog.text
    assert arrived(broker) == ["report"]


def edit(app: Celery, name: str, **fields: Any) -> None:
    """Edit an entry when its message is made, which is after its claim and before its commit."""

    def receiver(headers: Any = None, **_: Any) -> None:
        if headers["periodic_task_name"] == name:
            before_task_publish.disconnect(receiver)
            ScheduleStore(app).update(name, **fields)

    before_task_publish.connect(receiver, weak=False)


@pytest.mark.parametrize(
    ("fields", "is_sent"),
    [({"args": [2]}, True), ({"enabled": False}, False), ({"schedule": 7200.0}, True)],
    ids=["other arguments", "disabled", "another schedule"],
)
def test_a_run_leaves_as_its_entry_is_at_the_commit(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, fields: dict[str, Any], is_sent: bool
) -> None:
    scheduler = make_scheduler(app)
    save_due(app, "report", every=3600.0, args=[1])
    edit(app, "report", **fields)

    for _ in range(4):
        scheduler.tick()

    entry = stored(app, "report")
    messages = [json.loads(text)["headers"]["argsrepr"] for text in broker.lrange("celery", 0, -1)]
    assert messages == ([repr(entry.args)] if is_sent else [])
    assert entry.total_run_count == len(messages)


def test_an_entry_that_is_deleted_meanwhile_sends_nothing(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis
) -> None:
    scheduler = make_scheduler(app)
    save_due(app, "report")

    def receiver(**_: Any) -> None:
        before_task_publish.disconnect(receiver)
        ScheduleStore(app).delete("report")

    before_task_publish.connect(receiver)
    scheduler.tick()

    assert arrived(broker) == []


def test_a_queue_that_is_no_list_holds_up_no_other(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis
) -> None:
    scheduler = make_scheduler(app)
    broker.set("text", "")
    save_due(app, "early", late=3.0)
    save_due(app, "bad", late=2.0, options={"queue": "text"})
    save_due(app, "late", late=1.0)

    scheduler.tick()

    assert arrived(broker) == ["early", "late"]
    assert "WRONGTYPE" in (ScheduleStore(app).get("bad").last_error or "")
    broker.delete("text")
    wait_until(lambda: scheduler.tick() is not None and arrived(broker, "text") == ["bad"], "the other run")


def test_a_queue_without_rights_is_sent_to_by_the_brokers_connection(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, client: redis.Redis, server: Server,
    prefix: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    rights = ["~" + prefix + "*", "~redisbeater.proof.*", "~celery", "&*", "+@all"]
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", *rights)
    try:
        url = f"redis://beat:secret@{LOOPBACK}:{server.port}/0"
        app = make_app(redisbeater_redis_url=url, broker_url=server.url(BROKER_DB))
        scheduler = make_scheduler(app)
        sent = by_beats_connection(scheduler, monkeypatch)
        save_due(app, "open", late=2.0)
        for number in range(2):
            save_due(app, f"closed-{number}", options={"queue": "closed"})

        scheduler.tick()
        assert len(sent) == 2
        save_due(app, "closed-2", options={"queue": "closed"})
        scheduler.tick()
        scheduler.close()
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert arrived(broker) == ["open"]
    assert sorted(arrived(broker, "closed")) == ["closed-0", "closed-1", "closed-2"]
    assert caplog.text.count("has no right to the queue 'closed'") == 1
    assert "grant ~closed" in caplog.text


def test_a_beat_that_must_send_in_one_step_says_which_right_to_a_queue_it_lacks(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, client: redis.Redis, server: Server,
    prefix: str,
) -> None:  # fmt: skip
    rights = ["~" + prefix + "*", "~redisbeater.proof.*", "~celery", "&*", "+@all"]
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", *rights)
    try:
        url = f"redis://beat:secret@{LOOPBACK}:{server.port}/0"
        app = make_app(redisbeater_redis_url=url, broker_url=server.url(BROKER_DB), redisbeater_one_commit=True)
        scheduler = make_scheduler(app)
        save_due(app, "report", options={"queue": "closed"})

        scheduler.tick()

        assert "grant the user of the schedule ~closed" in (ScheduleStore(app).get("report").last_error or "")
        scheduler.close()
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert arrived(broker, "closed") == []


def test_the_other_messages_of_a_run_go_to_queues_without_rights_as_well(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, client: redis.Redis, server: Server,
    prefix: str,
) -> None:  # fmt: skip
    class Both(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            for queue in ("celery", "closed", "celery"):
                result = super().apply_async(*args, **{**options, "queue": queue})
            return result

    rights = ["~" + prefix + "*", "~redisbeater.proof.*", "~celery", "&*", "+@all"]
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", *rights)
    try:
        url = f"redis://beat:secret@{LOOPBACK}:{server.port}/0"
        app = make_app(redisbeater_redis_url=url, broker_url=server.url(BROKER_DB))
        app.task(name="proj.both", base=Both, shared=False)(anything)
        scheduler = make_scheduler(app)
        save_due(app, "report", "proj.both")
        scheduler.tick()
        scheduler.close()
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert (arrived(broker), arrived(broker, "closed")) == (["report"] * 2, ["report"])


def test_a_task_may_send_several_messages_or_none(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, server: Server
) -> None:
    class Three(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            for _ in range(2):
                super().apply_async(*args, **options)
            return super().apply_async(*args, **options)

    class Own(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, producer: Any = None, **options: Any) -> Any:
            with app.connection_for_write() as connection:
                return super().apply_async(args, kwargs, connection=connection, producer=None, **options)

    class Silent(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            return None

    for name, base in (("proj.three", Three), ("proj.own", Own), ("proj.silent", Silent)):
        app.task(name=name, base=base, shared=False)(anything)
        save_due(app, name, name)

    make_scheduler(app).tick()

    assert sorted(arrived(broker)) == ["proj.own", *["proj.three"] * 3]
    assert [stored(app, f"proj.{name}").total_run_count for name in ("three", "own", "silent")] == [1, 1, 0]
    assert stored(app, "proj.silent").skipped["declined"].count == 1


def test_a_message_that_is_refused_before_it_leaves_holds_up_no_other(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis
) -> None:
    class Twice(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            super().apply_async(*args, **options)
            raise ValueError("after the first message")

    app.task(name="proj.twice", base=Twice, shared=False)(anything)
    save_due(app, "good", late=3.0)
    save_due(app, "half", "proj.twice", late=2.0)
    save_due(app, "last", late=0.5)

    scheduler = make_scheduler(app)
    for _ in range(3):
        scheduler.tick()

    assert arrived(broker) == ["good", "last"]
    assert stored(app, "half").total_run_count == 0


def test_a_full_memory_costs_no_run_and_repeats_none(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, client: redis.Redis
) -> None:
    scheduler = make_scheduler(app)
    scheduler.tick()
    saved = [save_due(app, name).name for name in ("a", "b")]

    def fill(**_: Any) -> None:
        before_task_publish.disconnect(fill)
        client.config_set("maxmemory", 1)

    before_task_publish.connect(fill)
    policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
    client.config_set("maxmemory-policy", "noeviction")
    try:
        for _ in range(2):
            scheduler.tick()
        assert arrived(broker) == []
    finally:
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", policy)

    wait_until(lambda: scheduler.tick() is not None and len(arrived(broker)) == 2, "both runs")
    assert sorted(arrived(broker)) == saved


def test_a_message_of_ten_megabytes_leaves(app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis) -> None:
    class Huge(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            return super().apply_async(["x" * 10_000_000], kwargs, **options)

    app.task(name="proj.huge", base=Huge, shared=False)(anything)
    for name in ("a", "b", "c"):
        save_due(app, name, "proj.huge")

    scheduler = make_scheduler(app)
    for _ in range(3):
        scheduler.tick()

    assert sorted(arrived(broker)) == ["a", "b", "c"]
    assert min(map(len, broker.lrange("celery", 0, -1))) > 10_000_000


def test_an_entry_that_catches_up_long_messages_puts_few_of_them_in_at_once(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis
) -> None:
    class Long(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            return super().apply_async(["x" * 1_000_000], kwargs, **options)

    app.task(name="proj.long", base=Long, shared=False)(anything)
    RedisScheduleEntry(
        "late", "proj.long", 60.0, app=app, last_run_at=ago(seconds=60 * 30 + 30), coalesce="all", max_runs=30
    ).save()
    kept: list[int] = []

    def count(**_: Any) -> None:
        kept.append(len(kept) - broker.llen("celery"))

    before_task_publish.connect(count)
    scheduler = make_scheduler(app)
    wait_until(lambda: scheduler.tick() is not None and stored(app, "late").total_run_count == 30, "all runs")

    ids = [json.loads(text)["headers"]["id"] for text in broker.lrange("celery", 0, -1)]
    assert len(ids) == len(set(ids)) == 30
    assert max(kept) <= 4, "megabytes"


# Runs that leave in ways of their own


class Apart(Task):
    """A task that sends its messages by a connection of its own."""

    def apply_async(self, *args: Any, **options: Any) -> Any:
        with self.app.connection_for_write() as own:
            return super().apply_async(*args, **{**options, "connection": own, "producer": None})


@pytest.mark.parametrize("change", [{"args": [2]}, {"enabled": False}], ids=["edited", "disabled"])
def test_a_run_that_has_left_counts_though_its_entry_is_edited_meanwhile(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, change: dict[str, Any]
) -> None:
    app.task(name="proj.apart", base=Apart, shared=False)(anything)
    scheduler = make_scheduler(app)
    save_due(app, "report", "proj.apart", every=3600.0, args=[1])
    edit(app, "report", **change)

    for _ in range(3):
        scheduler.tick()

    assert arrived(broker) == ["report"]
    assert stored(app, "report").total_run_count == 1


def test_a_run_that_has_left_is_not_said_to_be_unsent_when_its_entry_is_deleted(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    app.task(name="proj.apart", base=Apart, shared=False)(anything)
    scheduler = make_scheduler(app)
    save_due(app, "report", "proj.apart")

    def receiver(**_: Any) -> None:
        before_task_publish.disconnect(receiver)
        ScheduleStore(app).delete("report")

    before_task_publish.connect(receiver)
    scheduler.tick()

    assert arrived(broker) == ["report"]
    assert "entry 'report' was sent after its lease ended" in caplog.text


# When it holds


def test_another_server_gets_its_messages_by_beats_connection(
    make_app: MakeApp, make_scheduler: MakeScheduler, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(server.program) as other:
        app = make_app(broker_url=other.url(BROKER_DB))
        scheduler = make_scheduler(app)
        sent = by_beats_connection(scheduler, monkeypatch)
        save_due(app, "report")
        scheduler.tick()

        assert arrived(other.client(BROKER_DB)) == ["report"]
        assert len(sent) == 1
        scheduler.close()


def test_the_master_behind_sentinels_may_be_both(
    sentinels: Sentinels, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = sentinels.settings(db=1)
    options = {"master_name": SERVICE}
    app = app_with(**settings, broker_url=sentinels.url(), broker_transport_options=options)
    scheduler = make_scheduler(app)
    sent = by_beats_connection(scheduler, monkeypatch)
    save_due(app, "report")
    scheduler.tick()

    with redis.Redis(port=sentinels.master.port, decode_responses=True) as broker:
        assert arrived(broker) == ["report"]
    assert not sent


def test_the_first_line_of_a_leader_says_how_runs_leave(
    app: Celery, make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture, server: Server
) -> None:
    caplog.set_level("INFO")
    for number, each in enumerate(
        [
            app,
            make_app(redisbeater_lock_key=None),
            make_app(redisbeater_lock_key=None, broker_url=server.url(BROKER_DB), redisbeater_one_commit=False),
        ]
    ):
        each.conf.redisbeater_lock_key = f"lock-{number}"
        make_scheduler(each).tick()

    lines = [record.getMessage() for record in caplog.records if "leading" in record.getMessage()]
    assert [line.partition("; runs: ")[2] for line in lines] == [
        "enqueued in one step with the commit",
        "at least once: the broker is another server",
        "at least once: redisbeater_one_commit is False",
    ]


def test_status_health_and_lint_say_how_runs_leave_and_which_left_otherwise(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, server: Server, prefix: str, let_pass: Pass
) -> None:
    class Own(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, producer: Any = None, **options: Any) -> Any:
            with app.connection_for_write() as connection:
                return super().apply_async(args, kwargs, connection=connection, producer=None, **options)

    app.task(name="proj.own", base=Own, shared=False)(anything)
    scheduler = make_scheduler(app)
    said = []
    for task in ("proj.work", "proj.own"):
        save_due(app, task, task)
        scheduler.tick()
        let_pass(PERIOD_SECONDS)
        scheduler.tick()
        shown = [line for line in run(app, "status").stdout.splitlines() if line.startswith("runs ")]
        findings = json.loads(run(app, "lint", "--json").stdout)
        said.append((shown, [each["text"] for each in findings if each["rule"] == "not-in-one-step"]))

    words = "enqueued in one step with the commit"
    apart = f"{words}; 1 left before their commit: at least once"
    [(first, nothing), (second, [finding])] = said
    assert ([line.split(maxsplit=1)[1] for line in (*first, *second)], nothing) == ([words, apart], [])
    assert finding.endswith(f": {apart}; such a run may be sent twice, with the same id")
    assert f"runs {apart}" in run(app, "health").stdout


def test_the_server_that_is_another_by_choice_is_no_finding(
    make_app: MakeApp, make_scheduler: MakeScheduler, server: Server
) -> None:
    app = make_app(broker_url=server.url(BROKER_DB), redisbeater_one_commit=False)
    make_scheduler(app).tick()

    assert "not-in-one-step" not in run(app, "lint").stdout


def test_a_right_that_is_missing_is_a_finding(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, server: Server, prefix: str, let_pass: Pass
) -> None:
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", f"~{prefix}*", "~celery", "&*", "+@all")
    try:
        url = f"redis://beat:secret@{LOOPBACK}:{server.port}/0"
        app = make_app(redisbeater_redis_url=url, broker_url=server.url(BROKER_DB))
        scheduler = make_scheduler(app)
        scheduler.tick()
        let_pass(PERIOD_SECONDS)
        scheduler.tick()
        found = run(app, "lint").stdout
        scheduler.close()
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert "~redisbeater.proof.*" in next(line for line in found.splitlines() if "not-in-one-step" in line)


def test_a_beat_that_must_send_in_one_step_does_not_lead_where_it_cannot(
    make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(redisbeater_one_commit=True)
    save_due(app, "report")
    scheduler = make_scheduler(app)

    for _ in range(3):
        scheduler.tick()

    assert stored(app, "report").total_run_count == 0
    refusal = "refusing to lead: redisbeater_one_commit = True, but the broker is another server"
    assert [record.getMessage() for record in caplog.records if "refusing" in record.getMessage()] == [refusal]


def test_a_beat_that_cannot_send_in_one_step_leaves_the_lock_alone_until_it_can(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    app = make_app(broker_url=f"redis://{LOOPBACK}:1/0", redisbeater_one_commit=True)
    scheduler = make_scheduler(app)
    subscription = client.pubsub(ignore_subscribe_messages=True)
    subscription.subscribe(Context.of(app).redis.keys.changes)
    subscription.get_message(timeout=5)

    for _ in range(5):
        scheduler.tick()

    released = 0
    while (message := subscription.get_message(timeout=0.2)) is not None:
        released += message["data"] == LOCK_RELEASED
    assert released == 1, "its own message would wake it at once, again and again"


def test_a_beat_that_must_send_in_one_step_waits_while_the_broker_is_away(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, server: Server
) -> None:
    with Proxy(server.port) as proxy:
        url = f"redis://{LOOPBACK}:{proxy.port}/{BROKER_DB}"
        app = make_app(broker_url=url, redisbeater_one_commit=True)
        scheduler = make_scheduler(app)
        save_due(app, "report", every=3600.0)
        proxy.refuse()
        scheduler.tick()
        assert arrived(broker) == []

        proxy.heal()
        wait_until(lambda: scheduler.tick() is not None and arrived(broker) == ["report"], "the run")


def test_a_proof_that_is_gone_makes_beat_send_by_its_own_connection_and_prove_once_more(
    app: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(app)
    scheduler.tick()
    sent = by_beats_connection(scheduler, monkeypatch)

    def delete_proof(**_: Any) -> None:
        before_task_publish.disconnect(delete_proof)
        broker.delete(*broker.scan_iter("redisbeater.proof.*"))

    before_task_publish.connect(delete_proof)
    save_due(app, "first", every=3600.0)
    scheduler.tick()
    assert (arrived(broker), len(sent)) == (["first"], 1)
    monkeypatch.setattr(connection, "PROOF_SECONDS", 0.0)
    save_due(app, "second", every=3600.0)
    scheduler.tick()

    assert (arrived(broker), len(sent)) == (["first", "second"], 1)


def test_beat_says_once_that_runs_leave_otherwise_and_once_that_this_is_over(
    app: Celery,
    make_scheduler: MakeScheduler,
    broker: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = make_scheduler(app)
    scheduler.tick()

    monkeypatch.setattr(connection, "PROOF_SECONDS", 0.0)  # each question takes a proof of its own

    def said_by_two_runs(name: str) -> list[str]:
        caplog.clear()
        for number in range(2):
            save_due(app, f"{name}-{number}", every=3600.0)
            scheduler.tick()
        return [record.getMessage() for record in caplog.records if "leave otherwise" in record.getMessage()]

    assert said_by_two_runs("before") == []
    with monkeypatch.context() as gone:
        gone.setattr(connection.CapturingChannel, "store", lambda *_: 0)  # as if another server had taken the proof
        [fallen] = said_by_two_runs("meanwhile")
    [over] = said_by_two_runs("behind")

    assert fallen.startswith("runs leave otherwise from now on: at least once: ")
    assert over == "runs leave otherwise from now on: enqueued in one step with the commit"


@pytest.mark.parametrize("when", ["before a message", "before a commit"])
def test_a_proof_that_does_not_come_through_sends_no_run_before_its_commit(
    make_app: MakeApp, make_scheduler: MakeScheduler, broker: redis.Redis, server: Server, when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with Proxy(server.port) as proxy:
        url = f"redis://{LOOPBACK}:{proxy.port}/{BROKER_DB}"
        app = make_app(broker_url=url, redisbeater_publish_timeout=1.0)
        scheduler = make_scheduler(app)
        sent = by_beats_connection(scheduler, monkeypatch)
        scheduler.tick()
        save_due(app, "report", every=3600.0)
        monkeypatch.setattr(connection, "PROOF_SECONDS", 0.0)
        lost = []

        def lose(**_: Any) -> None:
            lost.append(proxy.lose_reply(b"redisbeater.proof"))
            before_task_publish.disconnect(lose)

        if when == "before a message":
            lose()
        else:
            before_task_publish.connect(lose, weak=False)
        wait_until(lambda: scheduler.tick() is not None and arrived(broker) == ["report"], "the run")

    assert lost[0].is_set()
    assert not sent
    assert stored(app, "report").total_run_count == 1


# Lost and buffered runs


@pytest.fixture
def tracked(make_app: MakeApp, broker: redis.Redis, server: Server) -> Celery:
    return make_app(
        broker_url=server.url(BROKER_DB),
        redisbeater_track_runs=True,
        redisbeater_requeue_lost=1,
        redisbeater_run_queue_timeout=1,
    )


def lose_a_run(app: Celery, scheduler: RedisScheduler, broker: redis.Redis) -> str:
    """Send the run of an entry and let nobody take it; return its id once it is to be sent again."""
    save_due(app, "report", every=3600.0)
    scheduler.tick()
    [text] = broker.lrange("celery", 0, -1)
    run_id = str(json.loads(text)["headers"]["id"])
    broker.delete("celery")
    context = Context.of(app)
    key = f"{context.redis.keys.prefix}:run:{run_id}"
    client = redis.Redis.from_url(app.conf.redisbeater_redis_url, decode_responses=True)
    client.hset(key, "state", "LOST")
    client.hset(key, "attempt", 2)
    client.zadd(f"{context.redis.keys.prefix}:resend", {key: 1})
    return run_id


def test_a_lost_run_is_put_in_again_with_its_record(
    tracked: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(tracked)
    run_id = lose_a_run(tracked, scheduler, broker)
    sent = by_beats_connection(scheduler, monkeypatch)

    for _ in range(2):
        scheduler.tick()

    assert [json.loads(text)["headers"]["id"] for text in broker.lrange("celery", 0, -1)] == [run_id]
    assert not sent
    run = Context.of(tracked).redis.runs.many([run_id])[run_id]
    assert run.state == "SENT"


def test_a_lost_run_that_another_beat_has_taken_meanwhile_is_not_put_in(
    tracked: Celery, make_scheduler: MakeScheduler, broker: redis.Redis, client: redis.Redis, prefix: str
) -> None:
    scheduler = make_scheduler(tracked)
    run_id = lose_a_run(tracked, scheduler, broker)

    def take_it(**_: Any) -> None:
        before_task_publish.disconnect(take_it)
        client.hset(f"{prefix}:run:{run_id}", "taken", "another")

    before_task_publish.connect(take_it)
    for _ in range(2):
        scheduler.tick()

    assert arrived(broker) == []
