"""Schedules of random prefixes that begin alike, under all verbs and beats: each touches its own keys and no other's.

A key belongs to the schedule that made it. After each step the keys of all others must be as they were, and no schedule
lists or reads an entry that is not its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import redis
from celery import Celery
from hypothesis import strategies as st

from redisbeater import EntryNotFound, RedisBeaterError, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.context import Context
from support.hostile_site import captured_log, is_same

__all__ = ("NEIGHBOURHOODS", "Neighbourhood", "Neighbours")

#: What follows the prefix of the test.
PREFIXES = ["", "b:", "b:c:", "bc:", "log:"]
NAMES = ["foo", "b:foo", "c:foo", "b:c:foo", "bc:foo", "log:foo", "b::nightly"]
#: Names that would be keys of another of them.
OWN = [f"{prefix}:{key}" for prefix in PREFIXES[1:] for key in ("broken", "deleted:foo", "log:foo", "schedule")]

DEFINITION = json.dumps({"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}})

Verb = Callable[[ScheduleStore, str, str], Any]


def create_due(store: ScheduleStore, name: str, _: str) -> None:
    store.create(name, "proj.work", 60).reschedule(store.now() - timedelta(hours=1))


VERBS: dict[str, Verb] = {
    "create due": create_due,
    "create disabled": lambda store, name, _: store.create(name, "proj.work", 60, enabled=False),
    "upsert": lambda store, name, _: store.save(RedisScheduleEntry(name, "proj.other", 30)),
    "update": lambda store, name, _: store.update(name, kwargs={"by": store.status().prefix}),
    "enable": lambda store, name, _: store.enable(name),
    "disable": lambda store, name, _: store.disable(name),
    "skip next": lambda store, name, _: store.skip_next(name),
    "trigger": lambda store, name, _: store.trigger(name, overlap="buffer_one"),
    "executed": lambda store, name, _: store.record_execution(name),
    "delete": lambda store, name, _: store.delete(name),
    "delete many": lambda store, name, other: store.delete_many([name, other]),
    "restore": lambda store, name, _: store.restore(name),
    "rename": lambda store, name, other: store.rename(name, other),
    "copy": lambda store, name, other: store.copy(name, other),
    "backup": lambda store, _, __: store.files.apply(store.files.plan(store.files.export(state=True), state=True)),
    "pause": lambda store, _, __: store.pause(),
    "resume": lambda store, _, __: store.resume(),
    "enable many": lambda store, name, other: store.enable_many([name, other]),
    "retry": lambda store, name, _: store.retry(name),
    "restart": lambda store, name, _: [store.runs.restart(run.id) for run in store.runs.active(name, 1)],
    "look at all": lambda store, _, __: (store.list(), store.history(), store.deleted()),
    "look": lambda store, name, _: (store.runs.active(name), store.runs.counts(name), store.log(name), store.why(name)),
}
OTHERS = ["beat", "another language", "lost member", "lost schedule"]

numbers, names = st.integers(0, 3), st.sampled_from([*NAMES * 4, *OWN])
kinds = st.sampled_from([*VERBS, "create due", "delete", "restore", *OTHERS, "beat", "beat", "another language"])

#: The number of a schedule, what happens to it, and the names of two entries.
Step = tuple[int, str, str, str]


@dataclass(frozen=True)
class Neighbourhood:
    """The ends of the prefixes of some schedules, and what happens to them."""

    prefixes: list[str]
    steps: list[Step]


NEIGHBOURHOODS = st.builds(
    Neighbourhood,
    st.lists(st.sampled_from(PREFIXES), min_size=2, max_size=4, unique=True),
    st.lists(st.tuples(numbers, kinds, names, names), min_size=20, max_size=60),
)


class Neighbours:
    """Schedules on a real server that begin alike, each with an entry of the same name that is due.

    Arguments:
        app: whose schedules they are; it tracks its runs.
        client: of the server's database, which is emptied for each example.
        prefix: what all their prefixes begin with.
    """

    def __init__(self, app: Celery, client: redis.Redis, prefix: str) -> None:
        self.app, self.client, self.prefix = app, client, prefix
        self.figures: Counter[str] = Counter()
        self.prefixes: list[str] = []
        self.owners: dict[str, str] = {}

    @classmethod
    def on(cls, url: str) -> Neighbours:
        """Return some on the server of a URL."""
        app = Celery("proj", broker="memory://", set_as_current=False)
        app.conf.update(redisbeater_redis_url=url, redisbeater_track_runs=True, result_expires=None)
        return cls(app, redis.Redis.from_url(url, decode_responses=True), "x:")

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def endure(self, attack: Neighbourhood) -> None:
        """Let happen what an example has, and assert that no schedule touches a key of another."""
        with captured_log():
            self._endure(attack)
        self.figures["attacks"] += 1

    def _endure(self, attack: Neighbourhood) -> None:
        self.client.flushdb()
        self.prefixes, self.owners = [self.prefix + each for each in attack.prefixes], {}
        for number in range(len(self.prefixes)):
            self.happens((number, "create due", "foo", ""))
        for step in attack.steps:
            self.happens(step)
            self.figures["steps"] += 1

    def happens(self, step: Step) -> None:
        number, what, name, other = step
        prefix = self.prefixes[number % len(self.prefixes)]
        with self._touching_its_own_keys(prefix):
            if what in VERBS:
                with suppress(RedisBeaterError):
                    VERBS[what](ScheduleStore(self.app, key_prefix=prefix), name, other)
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
        with Context.using(self.app, prefix), closing(RedisScheduler(self.app)) as scheduler:
            for _ in range(3):
                scheduler.tick()

    @contextmanager
    def _touching_its_own_keys(self, prefix: str) -> Iterator[None]:
        before = self._stored()
        yield
        after = self._stored()
        for key in before.keys() | after.keys():
            if not is_same(self.client, before.get(key), after.get(key)):
                assert self.owners.setdefault(key, prefix) == prefix, f"{prefix} has touched {key}"
            if key not in after:
                self.owners.pop(key, None)
        for each in self.prefixes:
            self._check_what_is_read(each)

    def _check_what_is_read(self, prefix: str) -> None:
        store = ScheduleStore(self.app, key_prefix=prefix)
        assert {self.owners.get(prefix + name, prefix) for name in store.names()} <= {prefix}
        for key, owner in self.owners.items():
            name = key.removeprefix(prefix)
            if owner != prefix and name != key and not name.startswith(":"):
                assert not is_found(store, name), f"{prefix} reads {key}"

    def _stored(self) -> dict[str, bytes]:
        return {key: self.client.dump(key) for key in self.client.scan_iter(f"{self.prefix}*", count=1000)}


def is_found(store: ScheduleStore, name: str) -> bool:
    try:
        store.get(name)
    except EntryNotFound:
        return False
    return True
