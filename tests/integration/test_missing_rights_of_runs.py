"""Where a right is missing, or another program has written a key, the state of a run is stored all the same.

Log, counts and records come behind the state. A run that cannot be judged is passed over, and beat goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from celery import Celery
from edit_ledger import ServerClock, scripts_by_the_clock_at
from run_site import QUEUE, TRACKED, RunSite
from support.servers import Server

from redisbeater import RedisScheduler, ScheduleStore, StoreError
from redisbeater.model.run import State
from redisbeater.store.connection import commands_of, load_script

pytestmark = pytest.mark.one_server

LOSE, FINISH, START, RENEW = "runs/lose", "runs/finish", "runs/start", "runs/renew"

#: Commands of each script without which the state of a run cannot be read or stored: then nothing is, and the caller
#: is told.
STATE = {
    LOSE: {"HMGET", "HSET", "ZSCORE"},
    FINISH: {"HMGET", "HSET"},
    START: {"HMGET", "HSET", "ZADD"},
    RENEW: {"HMGET", "ZADD"},
    "runs/drop": {"HMGET", "HSET", "ZADD", "ZSCORE"},
    "runs/reserve": {"HMGET", "HSET", "ZADD", "SADD", "ZSCORE"},
    "runs/stop": {"HMGET", "HSET"},
    "runs/take": {"GET", "TYPE", "ZRANGEBYSCORE"},
}

#: Commands that need no right.
FREE = {"TIME"}


def commands(script: str) -> set[str]:
    """Return the commands that occur in a script, with the functions that it uses."""
    text = "\n".join(line for line in load_script(script).text.splitlines() if not line.startswith("--"))
    tried = re.findall(r"\b(?:try\(|aside\(try, |redis\.p?call\()(?:set|\w+ and )?'([A-Z]+)'(?: or '([A-Z]+)')?", text)
    return {word for found in tried for word in found if word} - FREE


def cases(*scripts: str) -> list[tuple[str, str]]:
    """Return each command of each script."""
    return [(script, command) for script in scripts for command in sorted(commands(script))]


@pytest.fixture
def site(make_app: Callable[..., Celery], client: redis.Redis, server: Server, prefix: str) -> Iterator[RunSite]:
    url = f"redis://few:any@127.0.0.1:{server.port}/0"
    client.acl_setuser("few", enabled=True, nopass=True, keys=["*"], channels=["*"], commands=["+@all"])
    with scripts_by_the_clock_at(client, f"{prefix}clock"):
        app = make_app(**{**TRACKED, "redisbeater_redis_url": url, "redisbeater_run_history_limit": 2})
        yield RunSite(app, client, ServerClock(client, f"{prefix}clock"))
    client.acl_deluser("few")


@pytest.fixture
def without(client: redis.Redis) -> Callable[[str], object]:
    @contextmanager
    def without(command: str) -> Iterator[None]:
        client.execute_command("ACL", "SETUSER", "few", f"-{command.lower()}")
        try:
            yield
        finally:
            client.execute_command("ACL", "SETUSER", "few", f"+{command.lower()}")

    return without


def prepare(site: RunSite) -> None:
    """Let a schedule have all that a script of runs may have to write: a full history, failures, a run that waits."""
    site.create()
    for number in range(3):
        site.send(f"old-{number}")
        site.start(f"old-{number}")
        site.finish(f"old-{number}", State.FAILURE, error="ValueError", traceback="Traceback")
        site.clock.go_on(1)
    site.send("a")
    site.start("a")
    site.send("next", state=State.BUFFERED)


def act(site: RunSite, script: str) -> tuple[object, object]:
    """Make a call of a script, and return what became of it and what is to become of it."""
    runs = site.runs
    if script == LOSE:
        [run, *_] = runs.overdue()
        return runs.lose(run, note="silent"), "LOST"
    if script == FINISH:
        return site.finish("a", State.FAILURE, error="OSError", traceback="Traceback", seconds=1.0), "FINISHED"
    if script == START:
        return site.start("b", "w2:1:b"), "STARTED"
    if script == RENEW:
        return runs.renew({"a": "w1:1:a"}).not_ours, frozenset()
    if script == "runs/drop":
        return runs.drop(site.execution("a"), error="killed"), "DROPPED"
    if script == "runs/reserve":
        return runs.reserve(site.new("c"), "allow").outcome, "RESERVED"
    if script == "runs/stop":
        stopped = runs.stop("next", by="me")
        return stopped and stopped.state, State.REVOKED
    taken = runs.take(token="")
    return [run.id for run in taken], ["next"]


STATES = {
    LOSE: ("a", State.LOST),
    FINISH: ("a", State.FAILURE),
    START: ("b", State.STARTED),
    RENEW: ("a", State.STARTED),
    "runs/drop": ("a", State.STARTED),
    "runs/reserve": ("c", State.SENT),
    "runs/stop": ("next", State.REVOKED),
}


@pytest.mark.parametrize(("script", "command"), cases(*STATES))
def test_without_a_right_a_state_is_stored_or_nothing_is(
    site: RunSite,
    without: Callable[[str], contextmanager],
    caplog: pytest.LogCaptureFixture,
    client: redis.Redis,
    script: str,
    command: str,
) -> None:
    prepare(site)
    site.clock.go_on(QUEUE + 1 if script == LOSE else 1)
    run_id, state = STATES[script]
    before = client.hgetall(site.keys.run(run_id))

    try:
        with without(command):
            outcome, expected = act(site, script)
    except StoreError as exc:
        assert command in STATE[script], exc
        assert f"+{command.lower()}" in str(exc)
        assert client.hgetall(site.keys.run(run_id)) == before
        return

    assert outcome == expected
    assert site.state(run_id) is state
    warnings = [record.getMessage() for record in caplog.records if "Redis refused a part" in record.getMessage()]
    assert all(f"ACL SETUSER <user> +{command.lower()})" in line for line in warnings)
