"""Keys of the schedule itself that another program overwrote: the entries run, and one line says which key it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from celery import Celery
from due import save_due
from outbox import names, run_due

from redisbeater import RedisScheduler
from redisbeater.beat.repair import PERIOD_SECONDS
from redisbeater.store.keys import Keys

#: Keys without which entries run, by what is below the prefix.
DISPENSABLE = sorted(key.removeprefix("p::") for key in Keys("p:", None).bookkeeping() if not key.endswith(":schedule"))


def overwrite(client: redis.Redis, key: str) -> None:
    client.delete(key)
    client.xadd(key, {"a": "stream"})


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    return lambda text: [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize("name", DISPENSABLE)
@pytest.mark.parametrize("is_leading", [True, False], ids=["leading", "not-leading"])
def test_entries_run_whatever_another_key_of_the_schedule_holds(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str,
    lines: Callable[[str], list[str]], name: str, is_leading: bool, let_pass: Callable[[float], None],
) -> None:  # fmt: skip
    app = make_app(redisbeater_track_runs=True)
    scheduler = make_scheduler(app)
    if is_leading:
        scheduler.tick()
    overwrite(client, f"{prefix}:{name}")
    save_due(app, "report")

    assert names(run_due(scheduler)) == ["report"]

    let_pass(PERIOD_SECONDS)
    scheduler.tick()
    assert len(lines(f"{prefix}:{name} holds a stream, which beat did not write")) == 1
    assert not lines("this is a bug")
    client.delete(f"{prefix}:{name}")


@pytest.mark.parametrize("before", ["text", "stream"])
def test_a_zone_that_is_none_with_a_change_of_it_that_nobody_finished_holds_up_no_run(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str,
    lines: Callable[[str], list[str]], before: str,
) -> None:  # fmt: skip
    app = make_app()
    overwrite(client, f"{prefix}:zone")
    if before == "text":
        client.set(f"{prefix}:zone:before", "UTC")
    else:
        overwrite(client, f"{prefix}:zone:before")
    save_due(app, "report")

    assert names(run_due(make_scheduler(app))) == ["report"]

    assert len(lines(f"{prefix}:zone holds a stream")) == 1
    assert client.type(f"{prefix}:zone") == "stream", "another program's key was changed"
    client.delete(f"{prefix}:zone", f"{prefix}:zone:before")


def test_a_zone_change_that_cannot_be_recorded_is_not_begun(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str,
    lines: Callable[[str], list[str]],
) -> None:  # fmt: skip
    app = make_app(timezone="Europe/Vienna")
    client.set(f"{prefix}:zone", "UTC")
    overwrite(client, f"{prefix}:zone:before")
    save_due(app, "report")

    assert names(run_due(make_scheduler(app))) == ["report"]

    assert (client.get(f"{prefix}:zone"), client.type(f"{prefix}:zone:before")) == ("UTC", "stream")
    assert len(lines("time zone Europe/Vienna of this application is not used: the schedule stays in UTC")) == 1
    client.delete(f"{prefix}:zone:before")
