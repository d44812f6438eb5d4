"""What Redis refuses of one entry, by its rights or otherwise, keeps no other entry from running."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import names, take
from servers import Server, programs
from waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore

pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])

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
    return lambda **settings: make_app(redisbeater_redis_url=url, result_expires=None, **settings)


def ticked(scheduler: RedisScheduler, passes: int = 3) -> list[str]:
    """Make passes at once; return the names of the entries that were sent."""
    for _ in range(passes):
        scheduler._look_at = 0.0
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
    assert not scheduler._outage.is_on
    assert "but Redis refused its log or its record" in caplog.text
    assert "sent after its lease ended" not in caplog.text


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


def test_a_claim_that_redis_refuses_to_record_is_given_up_after_its_lease(
    beat_app: MakeApp,
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    forbid: Forbid,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, admin = beat_app(redisbeater_lease_timeout=1), make_app()
    scheduler = make_scheduler(app)
    scheduler.tick()
    save_due(admin, "report")
    forbid("zscore")

    scheduler.tick()
    [first] = take(app)
    assert scheduler._outage.is_on
    dispatch = scheduler._dispatch
    assert dispatch is not None
    wait_until(lambda: time.monotonic() >= dispatch.claim.ends_at, "the end of the lease")
    forbid()
    save_due(admin, "other")
    forbid("zscore")
    scheduler.tick()

    assert caplog.text.count("Redis refused what became of 1 entries until their lease ended") == 1
    forbid()
    sent = take(app)
    wait_until(lambda: scheduler.tick() and scheduler._dispatch is None, "the commit")
    assert [run.id for run in sent + take(app) if run.name == "report"] == [first.id]
    assert [stored(admin, name).total_run_count for name in ("report", "other")] == [1, 1]
