"""A real beat and a real worker; checks that every fire time of an entry arrives, whatever happens to the broker."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import NamedTuple

import redis
from support.project import Process, Project
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry

AWAY, BACK = "broker unavailable, retrying", "broker available again"

#: Seconds that a broker and its clients may take to recover on a slow machine.
RECOVERY = 90.0


class Outcome(NamedTuple):
    """What became of the fire times that beat has counted.

    Attributes:
        missing: those that never arrived.
        uncounted: those that arrived and that beat has not counted.
        ids: how many ids the runs of a fire time had.
    """

    missing: set[datetime]
    uncounted: set[datetime]
    ids: set[int]


#: Each fire time arrived, with one id, and was counted.
EACH_ONCE = Outcome(missing=set(), uncounted=set(), ids={1})


class Arrivals:
    """The runs of an entry that runs every half second and catches up on each fire time it missed."""

    def __init__(self, project: Project, client: redis.Redis, prefix: str, every: float = 0.5) -> None:
        self._project = project
        self._client = client
        self._lock = f"{prefix}:lock"
        self._every = timedelta(seconds=every)
        self.beat = project.beat()
        self.worker = project.worker()
        self.beat.says("leading as")
        self._token = client.get(self._lock)
        self._entry = RedisScheduleEntry("steady", "proj.note", every, app=project.app(), coalesce="all").save()

    def wait_for_more(self, number: int = 3) -> None:
        """Wait until this many more fire times have arrived."""
        before = len(self.ids())
        wait_until(lambda: len(self.ids()) >= before + number, f"{number} more fire times", RECOVERY)

    def ids(self) -> dict[datetime, set[str]]:
        """Return the ids of the runs that arrived, by fire time."""
        found: dict[datetime, set[str]] = defaultdict(set)
        for run in self._project.runs():
            found[datetime.fromisoformat(run["scheduled_for"])].add(run["id"])
        return found

    def misses_the_broker(self) -> None:
        """Wait until beat reports that the broker is unavailable."""
        says(self.beat, AWAY)

    def has_the_broker_again(self) -> None:
        """Wait until beat reports that the broker is available again."""
        says(self.beat, BACK)

    def outcome(self) -> Outcome:
        """Wait until beat has counted what arrived, and end it: the first one, which has led all the time."""
        self._wait_for_count()
        assert self.beat.popen.poll() is None
        assert (self._client.get(self._lock), self.beat.output().count("leading as")) == (self._token, 1)
        assert self.beat.end() == 0
        count = self._count()
        wait_until(lambda: len(self.ids()) >= count, "the last runs", RECOVERY)
        arrived = self.ids()
        first = self._entry.due_at
        assert first is not None
        expected = {first + number * self._every for number in range(count)}
        return Outcome(expected - set(arrived), set(arrived) - expected, {len(ids) for ids in arrived.values()})

    def _wait_for_count(self) -> None:
        """Wait until more runs, and all that arrived, are counted: unconfirmed runs are sent and counted later."""
        enough = self._count() + 3
        wait_until(lambda: max(enough, len(self.ids())) <= self._count(), "what arrived to be counted", RECOVERY)

    def _count(self) -> int:
        return RedisScheduleEntry.from_key(self._entry.key, app=self._project.app()).total_run_count


def says(process: Process, text: str) -> None:
    """Wait until a process has printed a text."""
    wait_until(lambda: text in process.output(), f"{text!r} in the output of beat", RECOVERY)
