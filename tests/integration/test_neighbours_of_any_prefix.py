"""Schedules of random prefixes that begin alike, under all verbs and beats: each touches its own keys and no other's.

A key belongs to the schedule that made it. After each step the keys of all others must be as they were, and no schedule
lists or reads an entry that is not its own.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=5000`` in the environment there are as many others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.examples import more_in_the_whole_run, same_examples

from redisbeater import EntryNotFound, RedisBeaterError, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.context import with_prefix

#: Which program serves makes no difference here.
pytestmark = pytest.mark.one_server

#: What follows the prefix of the test.
PREFIXES = ["", "b:", "b:c:", "bc:", "log:"]
NAMES = ["foo", "b:foo", "c:foo", "b:c:foo", "bc:foo", "log:foo", "b::nightly"]
#: Names that would be keys of another of them.
OWN = [f"{prefix}:{key}" for prefix in PREFIXES[1:] for key in ("broken", "deleted:foo", "log:foo", "schedule")]

DEFINITION = json.dumps({"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}})

Verb = Callable[[ScheduleStore, str, str], Any]


def create_due(store: ScheduleStore, name: str, _: str) -> None:
    store.create(name, "proj.work", 60).reschedule(store.clock() - timedelta(hours=1))


VERBS: dict[str, Verb] = {
    "create due": create_due,
    "create disabled": lambda store, name, _: store.create(name, "proj.work", 60, enabled=False),
    "upsert": lambda store, name, _: store.upsert(RedisScheduleEntry(name, "proj.other", 30)),
    "update": lambda store, name, _: store.update(name, kwargs={"by": store.status().prefix}),
    "enable": lambda store, name, _: store.enable(name),
    "disable": lambda store, name, _: store.disable(name),
    "skip next": lambda store, name, _: store.skip_next(name),
    "trigger": lambda store, name, _: store.trigger(name, overlap="buffer_one"),
    "executed": lambda store, name, _: store.executed(name),
    "delete": lambda store, name, _: store.delete(name),
    "delete many": lambda store, name, other: store.delete_many([name, other]),
    "restore": lambda store, name, _: store.restore(name),
    "rename": lambda store, name, other: store.rename(name, other),
    "copy": lambda store, name, other: store.copy(name, other),
    "backup": lambda store, _, __: store.apply(store.plan(store.export(state=True), state=True)),
    "look": lambda store, name, _: (store.runs(name), store.run_counts(name), store.log(name), store.why(name)),
}
OTHERS = ["beat", "another language", "lost member", "lost schedule"]

numbers, names = st.integers(0, 3), st.sampled_from([*NAMES * 4, *OWN])
kinds = st.sampled_from([*VERBS, "create due", "delete", "restore", *OTHERS, "beat", "beat", "another language"])
Step = tuple[int, str, str, str]


class Neighbours:
    """The schedules of one example, each with an entry of the same name that is due."""

    def __init__(self, app: Celery, client: redis.Redis, prefix: str, prefixes: list[str]) -> None:
        client.flushdb()
        self.app, self.client, self.prefix = app, client, prefix
        self.prefixes = [prefix + each for each in prefixes]
        self.owners: dict[str, str] = {}
        for number in range(len(prefixes)):
            self.happens((number, "create due", "foo", ""))

    def happens(self, step: Step) -> None:
        number, what, name, other = step
        prefix = self.prefixes[number % len(self.prefixes)]
        with self._touching_its_own_keys(prefix):
            if what in VERBS:
                with suppress(RedisBeaterError):
                    VERBS[what](ScheduleStore(self.app, prefix=prefix), name, other)
            elif what == "beat":
                self._beat(prefix)
            elif what == "lost schedule":
                self.client.delete(f"{prefix}:schedule")
            elif what == "lost member":
                self.client.zrem(f"{prefix}:schedule", prefix + name)
            elif name in NAMES and not self.client.exists(prefix + name):
                self.client.hset(prefix + name, "definition", DEFINITION)
                self.client.zadd(f"{prefix}:schedule", {prefix + name: 0})

    def _beat(self, prefix: str) -> None:
        with closing(RedisScheduler(with_prefix(self.app, prefix))) as scheduler:
            for _ in range(3):
                scheduler.tick()

    @contextmanager
    def _touching_its_own_keys(self, prefix: str) -> Iterator[None]:
        before = self._stored()
        yield
        after = self._stored()
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                assert self.owners.setdefault(key, prefix) == prefix, f"{prefix} has touched {key}"
            if key not in after:
                self.owners.pop(key, None)
        for each in self.prefixes:
            self._check_what_is_read(each)

    def _check_what_is_read(self, prefix: str) -> None:
        store = ScheduleStore(self.app, prefix=prefix)
        assert {self.owners.get(prefix + name, prefix) for name in store.names()} <= {prefix}
        for key, owner in self.owners.items():
            name = key.removeprefix(prefix)
            if owner != prefix and name != key and not name.startswith(":"):
                with pytest.raises(EntryNotFound):
                    store.get(name)

    def _stored(self) -> dict[str, bytes]:
        return {key: self.client.dump(key) for key in self.client.scan_iter(f"{self.prefix}*", count=1000)}


@pytest.fixture
def cleared(client: redis.Redis) -> Iterator[None]:
    yield
    client.flushdb()


@more_in_the_whole_run
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("cleared")
def test_no_schedule_reads_writes_or_deletes_a_key_of_a_neighbour(
    make_app: Callable[..., Celery], client: redis.Redis, prefix: str
) -> None:
    app = make_app(redisbeater_track_runs=True)

    @same_examples(100, default=6, database=None, suppress_health_check=list(HealthCheck))
    @given(
        prefixes=st.lists(st.sampled_from(PREFIXES), min_size=2, max_size=4, unique=True),
        steps=st.lists(st.tuples(numbers, kinds, names, names), min_size=20, max_size=60),
    )
    def check(prefixes: list[str], steps: list[Step]) -> None:
        site = Neighbours(app, client, prefix, prefixes)
        for step in steps:
            site.happens(step)

    check()
