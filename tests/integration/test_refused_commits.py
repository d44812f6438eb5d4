"""What Redis refuses of one entry, by its rights or otherwise, keeps no other entry from running."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from celery.signals import before_task_publish
from due import save_due, stored
from outbox import names, take
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore, log_lines
from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.results import State
from redisbeater.store import Execution

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Forbid = Callable[..., None]


@pytest.fixture
def forbid(client: redis.Redis) -> Iterator[Forbid]:
    """Take commands away from the user of beat, who has all others."""
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", "~*", "&*", "+@all")
    yield lambda *commands: client.execute_command(
        "ACL", "SETUSER", "beat", "+@all", *(f"-{name}" for name in commands)
    )
    client.execute_command("ACL", "DELUSER", "beat")


@pytest.fixture
def beat_app(make_app: MakeApp, forbid: Forbid, server: Server) -> Callable[..., Celery]:
    """An app whose user of Redis the test may take rights from."""
    url = f"redis://beat:secret@127.0.0.1:{server.port}/0"
    return lambda **settings: make_app(redisbeater_redis_url=url, **settings)


@contextmanager
def connected(signal: Any, receiver: Callable[..., object]) -> Iterator[None]:
    """Call a receiver at a signal."""
    signal.connect(receiver)
    try:
        yield
    finally:
        signal.disconnect(receiver)


def ticked(scheduler: RedisScheduler, passes: int = 3) -> list[str]:
    """Make passes at once; return the names of the entries that were sent."""
    for _ in range(passes):
        scheduler.tick()
    return names(take(scheduler.app))


@pytest.mark.parametrize("is_tracking", [False, True], ids=["untracked", "tracked"])
@pytest.mark.parametrize("command", ["lpush", "lindex", "persist"])
def test_an_entry_whose_log_is_refused_runs_once_and_so_do_the_others(
    beat_app: MakeApp, make_app: MakeApp, make_scheduler: MakeScheduler, forbid: Forbid,
    caplog: pytest.LogCaptureFixture, command: str, is_tracking: bool,
) -> None:  # fmt: skip
    app = beat_app(redisbeater_track_runs=is_tracking)
    scheduler = make_scheduler(app)
    scheduler.tick()
    admin = make_app(redisbeater_track_runs=is_tracking)
    save_due(admin, "ends", max_runs=1)  # its end is a line of its log
    for name in ("early", "late"):
        save_due(admin, name, late={"early": 3.0, "late": 0.5}[name])
    forbid(command)

    assert sorted(ticked(scheduler)) == ["early", "ends", "late"]
    save_due(admin, "later")
    assert ticked(scheduler) == ["later"]

    assert [stored(admin, name).total_run_count for name in ("early", "ends", "late", "later")] == [1] * 4
    assert "retrying" not in caplog.text
    assert "but Redis refused its log or its record" in caplog.text
    assert "sent after its lease ended" not in caplog.text


def test_the_same_refusal_of_many_runs_is_logged_once_a_minute(
    beat_app: MakeApp, make_app: MakeApp, make_scheduler: MakeScheduler, forbid: Forbid,
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    scheduler, admin = make_scheduler(beat_app(redisbeater_track_runs=True)), make_app(redisbeater_track_runs=True)
    scheduler.tick()
    forbid("hincrby")
    for number in range(4):
        save_due(admin, f"report-{number}")
        assert ticked(scheduler) == [f"report-{number}"]
        if number == 2:
            monkeypatch.setattr(log_lines, "REPEAT_SECONDS", 0.0)

    lines = [record.getMessage() for record in caplog.records if "its run counts, but" in record.getMessage()]
    assert [re.sub(" entries: .*", "", line) for line in lines] == [
        f"entry 'report-{number}': its run counts, but Redis refused its log or its record, as of {count}"
        for number, count in ((0, 1), (3, 3))
    ]


def test_a_broken_entry_whose_log_is_refused_is_quarantined_beside_the_others(
    beat_app: MakeApp, make_app: MakeApp, make_scheduler: MakeScheduler, forbid: Forbid,
    client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    scheduler, admin = make_scheduler(beat_app()), make_app()
    scheduler.tick()
    for name in ("bad-1", "bad-2"):
        client.hset(f"{prefix}{name}", "definition", "{")
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 1})
    save_due(admin, "good")
    forbid("lpush")

    assert ticked(scheduler) == ["good"]

    assert set(ScheduleStore(admin).broken()) == {"bad-1", "bad-2"}
    assert [caplog.text.count(f"entry '{name}' is broken, quarantined it") for name in ("bad-1", "bad-2")] == [1, 1]


@pytest.mark.parametrize("command", ["hset", "hdel", "zadd", "zscore", "type", "del"])
def test_what_a_missing_right_keeps_from_being_recorded_runs_once_and_is_recorded_later(
    beat_app: MakeApp, make_app: MakeApp, make_scheduler: MakeScheduler, forbid: Forbid,
    client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture, command: str,
) -> None:  # fmt: skip
    scheduler, admin = make_scheduler(beat_app()), make_app()
    scheduler.tick()
    keys = [save_due(admin, name).key for name in ("early", "late")]
    due = [client.zscore(f"{prefix}:schedule", key) for key in keys]
    with connected(before_task_publish, lambda **_: forbid(command)):
        sent = ticked(scheduler)

    assert [client.hexists(key, "claim") for key in keys] == [True, True]
    forbid()
    assert (sorted(sent), ticked(scheduler)) == (["early", "late"], [])

    assert [client.zscore(f"{prefix}:schedule", key) for key in keys] == [score + 60 for score in due]
    assert [stored(admin, name).total_run_count for name in ("early", "late")] == [1, 1]
    refusals = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(refusals) == 1
    assert "no run can be recorded, so none is sent until that is fixed" in refusals[0]
    assert f"ACL SETUSER <user> +{command})" in refusals[0]


def test_no_beat_sends_anything_while_no_run_can_be_recorded(
    beat_app: MakeApp,
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    forbid: Forbid,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, admin = beat_app(redisbeater_lease_timeout=1, redisbeater_lock_timeout=1), make_app()
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()
    save_due(admin, "report")
    with connected(before_task_publish, lambda **_: forbid("zscore")):
        assert ticked(leader) == ["report"]

    save_due(admin, "other")
    restarted = make_scheduler(beat_app(redisbeater_lock_key=None))
    ends_at, sent = host_seconds() + 1.3, list[str]()  # the lease is over before
    while host_seconds() < ends_at:
        sent += [name for beat in (leader, standby, restarted) for name in ticked(beat, 1)]

    assert sent == []
    assert caplog.text.count("Redis refused a command, retrying") == 2  # of the leader, and of the one without a lock
    assert caplog.text.count("no run can be recorded") == 1
    forbid()

    def counts() -> list[int]:
        leader.tick()
        return [stored(admin, name).total_run_count for name in ("report", "other")]

    wait_until(lambda: counts() == [1, 1], "the commit")
    assert [run.name for run in take(app)] == ["other"]


def test_what_redis_refuses_for_another_reason_is_given_up_after_the_lease(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str,
    caplog: pytest.LogCaptureFixture, let_pass: Callable[[float], None],
) -> None:  # fmt: skip
    app = make_app(redisbeater_lease_timeout=1)
    scheduler = make_scheduler(app)
    scheduler.tick()
    save_due(app, "report")

    def overwrite(**_: Any) -> None:
        client.rename(f"{prefix}:schedule", f"{prefix}:away")
        client.set(f"{prefix}:schedule", "theirs")

    with connected(before_task_publish, overwrite):
        scheduler.tick()
    assert names(take(app)) == ["report"]
    scheduler.tick()
    assert "until their lease ended" not in caplog.text

    let_pass(1)
    scheduler.tick()
    client.rename(f"{prefix}:away", f"{prefix}:schedule")

    assert caplog.text.count("Redis refused what became of 1 entries until their lease ended") == 1
    assert wait_until(lambda: ticked(scheduler), "the end of the lease in Redis") == ["report"]


def test_a_buffered_run_whose_record_is_refused_is_sent_once_and_recorded_later(
    beat_app: MakeApp, make_app: MakeApp, make_scheduler: MakeScheduler, forbid: Forbid
) -> None:
    tracked = {"redisbeater_track_runs": True, "redisbeater_lease_timeout": 1}
    scheduler, admin = make_scheduler(beat_app(**tracked)), make_app(**tracked)
    scheduler.tick()
    store, runs = ScheduleStore(admin), Context.of(admin).redis.runs
    store.create("report", "t", 3600, overlap="buffer_one")
    first, second = store.trigger("report"), store.trigger("report")
    execution = Execution(run_id=first, name="report", holder="w1:1:a")
    runs.start(execution)
    runs.finish(execution, State.SUCCESS)
    take(admin)
    forbid("exists")

    ends_at, sent = host_seconds() + 1.3, list[str]()
    while host_seconds() < ends_at:
        scheduler.tick()
        sent += [run.id for run in take(admin)]
    forbid()
    assert ticked(scheduler) == []

    assert sent == [second]
    assert store.runs.get(second).state is State.SENT
