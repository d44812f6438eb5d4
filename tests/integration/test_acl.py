"""ACL users: the rights that the documentation names are enough, and each of them is needed."""

from __future__ import annotations

import re
import shlex
import threading
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from due import save_due, stored
from outbox import names, run_due
from redis.credentials import CredentialProvider
from support.servers import Server
from support.topologies import SERVICE, Cluster, Sentinels, app_with, running_watcher
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore, StoreError, StoreUnavailable
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.pausing import Watcher

PAGE = (Path(__file__).parents[2] / "docs" / "connecting.rst").read_text(encoding="utf-8")
LINE, SENTINEL_LINE = (shlex.split(line) for line in re.findall(r"ACL SETUSER .*", PAGE))
RIGHTS = [word for word in LINE if word.startswith("+")]
ON_A_CLUSTER = re.findall(r"``(\+cluster.*?)``", PAGE)[0].split()

#: A message that the schedule keeps, which has no headers worth mentioning.
DELAY = '{"body": "[[], {}, {}]", "type": "application/json", "headers": {}, "key": "celery"}'

#: Where the documentation's examples have the default.
PREFIX, CLUSTER_PREFIX = "redisbeater:", "{redisbeater}:"


def granted(line: list[str], prefix: str) -> list[str]:
    """The documentation's line for the keys below another prefix."""
    return [word.replace(PREFIX, prefix) if word[0] in "~&" else word for word in line]


class Workout:
    """All that beat, a standby, the Python API and the command line ask of Redis."""

    def __init__(self, app: Celery, admin: Any, let_pass: Callable[[float], None]) -> None:
        self.app = app
        self.admin = admin
        self.let_pass = let_pass
        self.keys = Context.of(app).redis.keys

    def run(self) -> None:
        scheduler = RedisScheduler(self.app)
        self._lead(scheduler)
        self._edit()
        self._command_line()
        self._resign(scheduler)
        self._stand_by()

    def refusal(self) -> StoreError | None:
        """Ask for all of it; return the first thing that was refused, or None."""
        try:
            self.run()
        except StoreError as exc:
            return exc
        return None

    def _lead(self, scheduler: RedisScheduler) -> None:
        self.app.conf.beat_schedule = {"static": {"task": "proj.work", "schedule": 60.0}}
        scheduler.is_served = True
        scheduler.tick()
        save_due(self.app, "report")
        self.admin.hset(self.keys.entry("broken"), "definition", "{")
        self.admin.zadd(self.keys.schedule, {self.keys.entry("broken"): 0, self.keys.entry("gone"): 0})
        for task_id, text in (("damaged", "{"), ("delay", DELAY)):
            self.admin.hset(self.keys.delay_messages, task_id, text)
            self.admin.zadd(self.keys.delays, {task_id: 1})
        wait_until(lambda: scheduler.tick() == 0 and stored(self.app, "report").total_run_count, "its run")
        assert self.admin.hkeys(self.keys.delay_messages) == self.admin.hkeys(self.keys.failing_delays) == ["damaged"]

    def _edit(self) -> None:
        entry = stored(self.app, "report")
        assert entry.total_run_count == 1
        entry.disable()
        entry.enable()
        entry.reschedule()
        entry.record_execution()
        assert entry.upcoming()
        assert entry.rank is not None
        store = ScheduleStore(self.app)
        for number in (1, 2):
            store.update("report", args=[number])
        assert [line.count for line in store.log("report", 1)] == [2]
        assert store.count() == len(list(store.names()))
        assert set(store.broken()) == {"broken"}
        assert len(store.list(state=("failing", "late"))) == 0
        assert store.status().due == 0
        assert store.runs.active("report") == []
        assert Context.of(self.app).redis.runs.traceback("none") == ""
        watcher = Watcher(Context.of(self.app))
        watcher.wait(0)
        watcher.close()
        store.log()
        store.log("report")
        assert store.pause(until=timedelta(hours=1)).note == ""
        for _ in range(2):  # the second line of the log is folded into the first one
            assert not store.pause().note
        assert store.status().pause is not None
        assert store.resume().pause is not None
        store.rename("report", "other")
        store.rename("other", "report")
        store.delete("report")
        assert store.restore("report").total_run_count == 1
        assert store.log("report")[0].what == "restored"
        for _ in range(2):
            Context.of(self.app).redis.log.add("leading")
        assert Context.of(self.app).redis.measures.read().broken == 1

    def _command_line(self) -> None:
        verbs = ["list", "broken", "status"]
        verbs += [f"{verb} report" for verb in ("show", "upcoming", "disable", "enable", "delete")]
        for verb in verbs:
            result = CliRunner().invoke(redisbeater, verb.split(), obj=SimpleNamespace(app=self.app))
            if result.exit_code:
                raise StoreError(result.output)

    def _resign(self, scheduler: RedisScheduler) -> None:
        """The code declares nothing any more; the lock is renewed, then given up."""
        self.app.conf.beat_schedule = {}
        self.let_pass(Context.of(self.app).config.lock_timeout / 2)
        scheduler.tick()
        scheduler.close()
        lock = Context.of(self.app).redis.lock()  # closing would only log what is refused
        assert lock.acquire()
        assert lock.release()

    def _stand_by(self) -> None:
        leader, standby = RedisScheduler(self.app), RedisScheduler(self.app)
        standby.is_served = True
        leader.tick()
        assert "static" not in set(ScheduleStore(self.app).names())
        resigning = threading.Timer(0.05, leader.close)
        resigning.start()
        try:
            standby.tick()
        finally:
            resigning.join()
        standby.close()


@pytest.fixture
def workout(server: Server, client: redis.Redis, prefix: str, let_pass: Callable[[float], None]) -> Iterator[Workout]:
    """As the user of the documentation, whose rights the test may change."""
    client.execute_command(*granted(LINE, prefix))
    client.script_flush()
    app = app_with(
        redisbeater_redis_url=f"redis://beat:secret@127.0.0.1:{server.port}/0",
        redisbeater_key_prefix=prefix,
        redisbeater_retry_period=0,
        # Checked before each use, so that the right to ask is needed within the test.
        redisbeater_redis_options={"health_check_interval": 1e-6},
    )
    yield Workout(app, client, let_pass)
    client.execute_command("ACL", "DELUSER", "beat")


def test_the_documented_rights_are_enough(workout: Workout) -> None:
    assert workout.refusal() is None


@pytest.mark.parametrize("right", sorted(set(RIGHTS) - {"+select"}))
def test_each_documented_right_is_needed_and_told_when_it_is_missing(workout: Workout, right: str) -> None:
    workout.admin.execute_command("ACL", "SETUSER", "beat", right.replace("+", "-"))

    refused = workout.refusal()

    assert type(refused) is StoreError
    assert right.removeprefix("+").upper() in str(refused).upper()


def test_the_right_to_select_is_needed_for_another_database(workout: Workout, server: Server) -> None:
    settings = {**workout.app.conf.changes, "redisbeater_redis_url": f"redis://beat:secret@127.0.0.1:{server.port}/1"}
    assert ScheduleStore(app_with(**settings)).count() == 0

    workout.admin.execute_command("ACL", "SETUSER", "beat", "-select")

    with pytest.raises(StoreError, match="select"):
        ScheduleStore(app_with(**settings)).count()


def test_keys_beyond_the_prefix_are_refused_and_that_is_logged(workout: Workout) -> None:
    settings = {**workout.app.conf.changes, "redisbeater_key_prefix": "others:"}

    with pytest.raises(StoreError, match="keys: ACL SETUSER <user> ~<redisbeater_key_prefix>"):
        save_due(app_with(**settings), "report")


def test_the_channel_of_another_schedule_is_refused_and_that_is_logged(workout: Workout, prefix: str) -> None:
    workout.admin.execute_command("ACL", "SETUSER", "beat", "resetchannels", "&others:changes")

    with pytest.raises(StoreError, match="channels: ACL SETUSER <user> &<redisbeater_key_prefix>"):
        Context.of(workout.app).redis.notifier().listen()


class Token(CredentialProvider):
    """Hands out a password, or fails as a service may that is asked for one."""

    def __init__(self) -> None:
        self.is_down = False

    def get_credentials(self) -> tuple[str, str]:
        if self.is_down:
            raise OSError("no answer from https://tokens.example.org?key=hunter2")
        return "beat", "secret"


@pytest.mark.usefixtures("short_retries")
def test_a_provider_of_credentials_that_fails_is_asked_again(workout: Workout, server: Server, prefix: str) -> None:
    provider = Token()
    app = app_with(
        redisbeater_redis_url=server.url(),
        redisbeater_key_prefix=prefix,
        redisbeater_redis_options={"credential_provider": provider},
    )
    provider.is_down = True
    with pytest.raises(StoreUnavailable, match="the credential_provider failed with OSError") as raised:
        ScheduleStore(app).count()
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))

    provider.is_down = False
    assert ScheduleStore(app).count() == 0


@pytest.mark.usefixtures("short_retries")
def test_the_documented_rights_are_enough_on_a_cluster(cluster: Cluster, let_pass: Callable[[float], None]) -> None:
    for node in cluster.nodes:
        node.ask(*granted([*LINE, *ON_A_CLUSTER], CLUSTER_PREFIX))
    app = app_with(redisbeater_redis_url=cluster.url().replace("://", "://beat:secret@"), redisbeater_retry_period=0)

    assert Workout(app, cluster.client(), let_pass).refusal() is None

    save_due(app, "report")
    source = cluster.owner(f"{CLUSTER_PREFIX}:schedule")
    target, keys = cluster.other_master(f"{CLUSTER_PREFIX}:schedule"), source.ask("KEYS", "*")
    with cluster.moving(f"{CLUSTER_PREFIX}:schedule", keys, target):
        assert ScheduleStore(app).count() >= 1
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "beat")


@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize("right", ON_A_CLUSTER[:2])
def test_each_right_for_a_cluster_is_needed_and_told_when_it_is_missing(cluster: Cluster, right: str) -> None:
    for node in cluster.nodes:
        node.ask(*granted([*LINE, *(each for each in ON_A_CLUSTER if each != right)], CLUSTER_PREFIX))
    app = app_with(redisbeater_redis_url=cluster.url().replace("://", "://beat:secret@"), redisbeater_retry_period=0)

    with pytest.raises(StoreError) as raised:
        ScheduleStore(app).count()

    assert not isinstance(raised.value, StoreUnavailable)
    assert right.removeprefix("+").split("|")[0] in str(raised.value)
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "beat")


def test_the_documented_rights_are_enough_behind_sentinels(
    sentinels: Sentinels, let_pass: Callable[[float], None]
) -> None:
    for server in sentinels.servers:
        server.ask(*LINE)
    url = sentinels.url(password="secret").replace("://:", "://beat:")
    settings = {"redisbeater_redis_options": {"service_name": SERVICE}, "redisbeater_retry_period": 0}
    app = app_with(redisbeater_redis_url=url, **settings)

    with sentinels.master.client as admin:
        assert Workout(app, admin, let_pass).refusal() is None

    for server in sentinels.servers:
        server.ask("ACL", "DELUSER", "beat")


@pytest.mark.usefixtures("client")
def test_the_documented_rights_are_enough_at_a_sentinel(server: Server, prefix: str) -> None:
    with running_watcher(server) as watcher:
        watcher.ask(*SENTINEL_LINE)
        app = app_with(
            redisbeater_redis_url=f"sentinel://{watcher.address}",
            redisbeater_key_prefix=prefix,
            redisbeater_redis_options={
                "service_name": SERVICE,
                "sentinel_kwargs": {"username": "beat", "password": "another"},
            },
        )
        save_due(app, "report")

        assert names(run_due(RedisScheduler(app))) == ["report"]
        assert "user=beat" in watcher.ask("CLIENT", "LIST")
