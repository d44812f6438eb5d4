"""One application over several schedules, each with a key prefix of its own."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import redis
from celery import Celery
from click.testing import Result
from support.topologies import Cluster, app_with

from redisbeater import AsyncScheduleStore, EntryNotFound, ImproperlyConfigured, RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context

#: Which program serves makes no difference here.


@pytest.fixture
def other(prefix: str, client: redis.Redis) -> Iterator[str]:
    """The prefix of a second schedule on the test's server."""
    yield f"other-{prefix}"
    for key in client.scan_iter(f"other-{prefix}*"):
        client.delete(key)


@pytest.fixture
def there(app: Celery, other: str) -> ScheduleStore:
    return ScheduleStore(app, key_prefix=other)


def test_each_store_has_the_entries_of_its_own_prefix(
    app: Celery, there: ScheduleStore, client: redis.Redis, prefix: str, other: str
) -> None:
    here = ScheduleStore(app)
    here.create("report", "proj.work", 60)
    there.create("report", "proj.work", 3600)
    there.create("only there", "proj.work", 60)

    assert (sorted(here.names()), sorted(there.names())) == (["report"], ["only there", "report"])
    assert (here.get("report").schedule.seconds, there.get("report").schedule.seconds) == (60, 3600)
    assert client.zcard(f"{other}:schedule") == 2
    here.delete("report")
    assert there.get("report").enable().key == f"{other}report"
    with pytest.raises(EntryNotFound):
        here.get("report")


def test_what_a_store_returns_stays_in_its_schedule(app: Celery, there: ScheduleStore) -> None:
    made = there.save(RedisScheduleEntry("report", "proj.work", 60, app=app))
    made.labels = {"team": "billing"}
    made.save()
    with there.bulk() as bulk:
        bulk.save(RedisScheduleEntry("bulk", "proj.work", 60, app=app))

    assert there.get("report").labels == {"team": "billing"}
    assert sorted(there.names()) == ["bulk", "report"]
    assert list(ScheduleStore(app).names()) == []


def test_it_is_the_same_app_in_all_else(app: Celery, there: ScheduleStore, other: str, prefix: str) -> None:
    there.create("report", "proj.work", 60)

    assert there.trigger("report")
    assert there.get("report").app is app
    assert Context.of(app, other) is Context.of(app, other)
    assert Context.of(app, prefix) is Context.of(app)
    assert repr(there) == f"<ScheduleStore of the app 'proj' below {other!r}>"


def test_the_app_keeps_one_thing_of_all_its_schedules(app: Celery, there: ScheduleStore) -> None:
    there.create("report", "proj.work", 60)

    assert [name for name in vars(app) if "redisbeater" in name] == ["_redisbeater_context"]


@pytest.mark.parametrize(
    "copied", [lambda entry: pickle.loads(pickle.dumps(entry)), lambda entry: entry.next()], ids=["pickle", "next"]
)
def test_a_copy_of_an_entry_stays_in_its_schedule(
    app: Celery, there: ScheduleStore, other: str, copied: Callable[[RedisScheduleEntry], RedisScheduleEntry]
) -> None:
    assert copied(there.create("report", "proj.work", 60)).key == f"{other}report"


def test_the_command_line_chooses_a_schedule_for_one_command(
    app: Celery, run: Callable[..., Result], other: str, prefix: str
) -> None:
    run("--key-prefix", other, "list")

    assert ScheduleStore(app).status().prefix == prefix


def test_an_awaitable_store_takes_a_prefix_too(app: Celery, there: ScheduleStore, other: str) -> None:
    async def create() -> None:
        store = AsyncScheduleStore(app, key_prefix=other)
        await store.create("report", "proj.work", 60)
        await store.close()

    asyncio.run(create())

    assert list(there.names()) == ["report"]


def test_a_beat_whose_setting_is_that_prefix_sends_its_entries_alone(
    app: Celery,
    there: ScheduleStore,
    other: str,
    make_app: Callable[..., Celery],
    make_scheduler: Callable[..., object],
) -> None:
    ScheduleStore(app).create("here", "proj.work", 60)
    there.create("there", "proj.work", 60)
    for store in (ScheduleStore(app), there):
        store.get(next(store.names())).reschedule(store.now() - timedelta(days=1))
    beat = make_scheduler(make_app(redisbeater_key_prefix=other))

    beat.tick()  # type: ignore[attr-defined]

    assert there.get("there").total_run_count == 1
    assert ScheduleStore(app).get("here").total_run_count == 0
    assert (there.status().is_led, ScheduleStore(app).status().is_led) == (True, False)


def test_the_command_line_chooses_by_an_option(run: Callable[..., Result], there: ScheduleStore, other: str) -> None:
    made = run("--key-prefix", other, "create", "report", "proj.work", "--every", "60s")

    assert made.exit_code == 0, made.output
    assert list(there.names()) == ["report"]
    assert json.loads(run("--key-prefix", other, "status", "--json").stdout)["prefix"] == other
    assert run("show", "report").exit_code == 2
    empty = run("--key-prefix", "", "list")
    assert (empty.exit_code, empty.output) == (
        2,
        "Error: redisbeater_key_prefix = '': expected a text that ends with ':'\n",
    )


@pytest.mark.parametrize("command", ["status", "lint", "list"])
def test_a_prefix_without_a_colon_at_its_end_is_refused_with_the_fix(run: Callable[..., Result], command: str) -> None:
    refused = run("--key-prefix", "myapp", command)

    assert refused.exit_code == 2
    assert "expected a text that ends with ':' and has no '::'; set it to 'myapp:'" in refused.output
    assert "import redbeat --prefix myapp" in refused.output


def test_a_cluster_has_each_schedule_on_the_master_of_its_hash_tag(cluster: Cluster) -> None:
    app = app_with(redisbeater_redis_url=cluster.url())
    prefixes = [
        next(f"{{{n}}}:" for n in range(100) if cluster.owner(f"{{{n}}}:") is master) for master in cluster.masters
    ]
    for prefix in prefixes:
        ScheduleStore(app, key_prefix=prefix).create("report", "proj.work", 60)

    for prefix, master in zip(prefixes, cluster.masters):
        assert master.client.zcard(f"{prefix}:schedule") == 1
        assert [f"{prefix}report" in each.client.keys("*report") for each in cluster.masters].count(True) == 1
    with pytest.raises(ImproperlyConfigured, match="a cluster needs a hash tag in it"):
        ScheduleStore(app, key_prefix="eu:").names()
