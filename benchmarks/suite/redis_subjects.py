"""The two schedulers whose entries are hashes and a sorted set in Redis: redisbeater and celery-redbeat."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from celery.schedules import BaseSchedule, schedule

from suite.application import TASK
from suite.copies import MARK, copy
from suite.population import EVERY_SECONDS, Population
from suite.subject import Subject

__all__ = ("RedBeat", "RedisSubject", "Redisbeater", "entry_class")

#: What a score has beside whole seconds: those alone would be of RedBeat, which looks at the entry then.
FRACTION = 0.001


def entry_class(contender: str) -> Any:
    """Return the class of a contender's entries."""
    if contender == "redisbeater":
        from redisbeater import RedisScheduleEntry

        return RedisScheduleEntry
    from redbeat import RedBeatSchedulerEntry

    return RedBeatSchedulerEntry


class RedisSubject(Subject):
    """A scheduler whose entries can be copied on the server."""

    prefix: str
    scheduler: Any

    def create(self, population: Population) -> None:
        share = population.due // population.groups
        for group in range(population.groups):
            score = population.fire_time(group)
            self.copy(share, f"group-{group}-{MARK}", score=score, ran_at=score - EVERY_SECONDS)
        later = population.count - population.due
        if later:
            score = population.fire_time(population.due)
            self.copy(later, f"later-{MARK}", score=score, ran_at=score - EVERY_SECONDS, step=1.0)

    def again(self, population: Population) -> None:
        """Make entries due that ``create`` has made: write them anew, as if the runs since then had not been."""
        self.create(population)

    def copy(
        self,
        count: int,
        name: str,
        *,
        score: float,
        ran_at: float | None,
        step: float = 0.0,
        when: BaseSchedule | None = None,
    ) -> None:
        """Write `count` entries, the first due at `score` and each next one `step` seconds later.

        Arguments:
            name: their name, with the placeholder for a number.
            ran_at: their last run, in UNIX seconds; None: whatever their constructor sets.
            when: their schedule; None: hourly.
        """
        client = self.job.schedule_client()
        entry = entry_class(self.job.contender)(name, TASK, when or schedule(EVERY_SECONDS), args=[MARK], app=self.app)
        if ran_at is not None:
            entry.last_run_at = datetime.fromtimestamp(ran_at, timezone.utc)
        entry.save()
        fields = client.hgetall(entry.key)
        entry.delete()
        copy(client, f"{self.prefix}:schedule", entry.key, fields, count=count, score=score, step=step)

    def tick(self) -> float:
        return self.scheduler.tick()


class Redisbeater(RedisSubject):
    """redisbeater."""

    prefix = "redisbeater:"

    def start(self) -> None:
        from redisbeater import RedisScheduler

        self.scheduler = RedisScheduler(self.app)

    def again(self, population: Population) -> None:
        """Make entries due that ``create`` has made, and which have run."""
        at = population.fire_time(0) + FRACTION
        keys = (f"{self.prefix}group-0-{number}" for number in range(population.count))
        self.job.schedule_client().zadd(f"{self.prefix}:schedule", dict.fromkeys(keys, at))

    def warm_up(self) -> None:
        """Send one run, then tune the process as ``celery beat`` does when it starts."""
        from redisbeater.beat.process import tune_process

        super().warm_up()
        tune_process(self.app)


class RedBeat(RedisSubject):
    """celery-redbeat."""

    prefix = "redbeat:"

    def start(self) -> None:
        from redbeat.schedulers import RedBeatScheduler, acquire_distributed_beat_lock

        self.scheduler = RedBeatScheduler(self.app)
        acquire_distributed_beat_lock(SimpleNamespace(scheduler=self.scheduler))
