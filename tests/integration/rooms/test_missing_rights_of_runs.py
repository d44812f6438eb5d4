"""Where a right is missing, or another program has written a key, the state of a run is stored all the same.

Log, counts and records come behind the state. A run that cannot be judged is passed over, and beat goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone

import pytest
import redis
from celery import Celery
from edit_ledger import ServerClock
from run_site import TRACKED, RunSite
from support.servers import Server

from redisbeater import RedisScheduler, Run, StoreError
from redisbeater.results import State
from redisbeater.store.connection import load_script

LOSE, FINISH, START, RENEW, STOP = "runs/lose", "runs/finish", "runs/start", "runs/renew", "runs/stop"

#: Commands of each script without which the state of a run cannot be read or stored: then nothing is, and the caller
#: is told.
STATE = {
    LOSE: {"HMGET", "HSET", "ZSCORE"},
    FINISH: {"HMGET", "HSET"},
    START: {"HMGET", "HSET", "ZADD"},
    RENEW: {"HMGET", "ZADD"},
    "runs/drop": {"HMGET", "HSET", "ZADD", "ZSCORE"},
    "runs/reserve": {"HMGET", "HSET", "ZADD", "SADD", "ZSCORE"},
    STOP: {"HMGET", "HSET", "GET", "ZSCORE"},
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
    app = make_app(
        **{**TRACKED, "redisbeater_redis_url": url, "redisbeater_run_history_limit": 4, "redisbeater_requeue_lost": 1}
    )
    clock = ServerClock(client, f"{prefix}clock")
    clock.set(datetime.now(timezone.utc))
    yield RunSite(app, client, clock)
    client.delete(clock.key)
    client.acl_deluser("few")


@pytest.fixture
def without(client: redis.Redis) -> Callable[[str], AbstractContextManager[None]]:
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
    for number in range(5):
        site.send(f"old-{number}")
        site.start(f"old-{number}")
        site.finish(f"old-{number}", State.FAILURE, error="ValueError", traceback="Traceback")
    site.send("a")
    site.start("a")
    site.send("next", state=State.BUFFERED)


def end_lease(site: RunSite, run_id: str) -> None:
    """Let the lease of a run be over."""
    site.client.zadd(site.keys.active, {site.keys.run(run_id): 1})


def act(site: RunSite, script: str, overdue: list[Run]) -> tuple[object, object]:
    """Make a call of a script, and return what became of it and what is to become of it."""
    runs = site.runs
    if script == LOSE:
        return runs.lose(overdue[0], note="silent"), "LOST"
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
    if script == STOP:
        runs.stop("next", by="me")
        return State.REVOKED, State.REVOKED
    taken = runs.take(token="")
    return [run.id for run in taken], ["next"]


STATES = {
    LOSE: ("a", State.LOST),
    FINISH: ("a", State.FAILURE),
    START: ("b", State.STARTED),
    RENEW: ("a", State.STARTED),
    "runs/drop": ("a", State.STARTED),
    "runs/reserve": ("c", State.SENT),
    STOP: ("next", State.REVOKED),
}


@pytest.mark.parametrize(("script", "command"), cases(*STATES))
def test_without_a_right_a_state_is_stored_or_nothing_is(
    site: RunSite,
    without: Callable[[str], AbstractContextManager[None]],
    caplog: pytest.LogCaptureFixture,
    client: redis.Redis,
    script: str,
    command: str,
) -> None:
    prepare(site)
    if script == LOSE:
        end_lease(site, "a")
    overdue = site.runs.overdue()
    run_id, state = STATES[script]
    before = client.hgetall(site.keys.run(run_id))

    error = ""
    try:
        with without(command):
            outcome, expected = act(site, script, overdue)
    except StoreError as exc:
        error = str(exc)
    if error:
        assert command in STATE[script]
        assert f"+{command.lower()}" in error
        # To stop a run reads it as well, with rights of its own.
        assert script == STOP or client.hgetall(site.keys.run(run_id)) == before
        return

    assert outcome == expected
    assert site.state(run_id) is state
    warnings = [record.getMessage() for record in caplog.records if "Redis refused a part" in record.getMessage()]
    assert all(f"ACL SETUSER <user> +{command.lower()})" in line for line in warnings)


#: Longer than beat waits between two looks for lost runs, and shorter than between two walks of its repair.
LOOK_SECONDS = 30.0


@pytest.fixture
def beat(
    site: RunSite, make_scheduler: Callable[..., RedisScheduler], let_pass: Callable[[float], None]
) -> Callable[[], None]:
    """Return what lets beat look for lost runs, of which there are four."""
    site.create()
    scheduler = make_scheduler(site.app)
    scheduler.tick()
    for number in range(4):
        site.send(f"a{number}")
        end_lease(site, f"a{number}")

    def look() -> None:
        let_pass(LOOK_SECONDS)
        scheduler.tick()

    return look


@pytest.mark.parametrize("command", ["LINDEX", "LPUSH", "LTRIM", "PERSIST", "PEXPIRE", "HINCRBY", "SREM"])
def test_beat_judges_all_lost_runs_and_counts_no_outage_where_a_right_is_missing(
    site: RunSite,
    beat: Callable[[], None],
    without: Callable[[str], AbstractContextManager[None]],
    caplog: pytest.LogCaptureFixture,
    command: str,
) -> None:
    with without(command):
        beat()

    assert [site.state(f"a{number}") for number in range(4)] == [State.LOST] * 4
    assert "retrying" not in caplog.text
    assert caplog.text.count("but Redis refused a part of its records") == 1
    assert f"ACL SETUSER <user> +{command.lower()})" in caplog.text


def test_beat_passes_over_a_run_that_it_cannot_judge_and_judges_the_others(
    site: RunSite, beat: Callable[[], None], client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    site.start("a0")
    end_lease(site, "a0")
    written = [
        f"~{site.keys.prefix}{begin}*" for begin in ("[^:]", ":[^r]", ":r[^e]", ":re[^s]")
    ]  # all but what is to be sent again
    client.execute_command("ACL", "SETUSER", "few", "resetkeys", f"%R~{site.keys.prefix}*", *written)

    beat()

    states = [client.hget(site.keys.run(f"a{number}"), "state") for number in range(4)]
    assert states == ["STARTED", "LOST", "LOST", "LOST"]
    assert "retrying" not in caplog.text
    [line] = [record.getMessage() for record in caplog.records if "cannot be judged" in record.getMessage()]
    assert line.startswith("entry 'report': run a0 cannot be judged, its lease is over; Redis refused that")


def test_a_lost_run_whose_entry_is_no_hash_any_more_is_judged(
    site: RunSite, beat: Callable[[], None], client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client.delete(site.keys.entry("report"))
    client.rpush(site.keys.entry("report"), "what another program wrote")

    beat()

    assert [site.state(f"a{number}") for number in range(4)] == [State.LOST] * 4
    assert client.hget(site.keys.totals, "LOST proj.work") == "4"
    assert "retrying" not in caplog.text
    client.delete(site.keys.entry("report"))


def test_a_report_of_a_run_whose_entry_is_no_hash_any_more_is_stored(site: RunSite, client: redis.Redis) -> None:
    prepare(site)
    client.delete(site.keys.entry("report"))
    client.set(site.keys.entry("report"), "what another program wrote")

    assert site.finish("a", State.FAILURE, error="OSError") == "FINISHED"
    assert site.state("a") is State.FAILURE
    assert site.start("b") == "STARTED"
    client.delete(site.keys.entry("report"))


def test_a_run_that_has_ended_and_could_not_be_removed_from_the_active_ones_is_not_lost(
    site: RunSite, without: Callable[[str], AbstractContextManager[None]], client: redis.Redis
) -> None:
    prepare(site)
    with without("ZREM"):
        site.finish("a", State.SUCCESS)
    end_lease(site, "a")

    [run] = site.runs.overdue()

    assert site.runs.lose(run) == "ALIVE"
    assert site.state("a") is State.SUCCESS
    assert client.zscore(site.keys.active, site.keys.run("a")) is None
