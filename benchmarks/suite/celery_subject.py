"""Celery's own PersistentScheduler: entries in memory, written to a file when synchronised. One run a pass."""

from __future__ import annotations

from typing import Any

from celery.beat import PersistentScheduler
from celery.schedules import schedule

from suite.application import TASK
from suite.population import EVERY_SECONDS, Population
from suite.subject import Subject

__all__ = ("CeleryFile",)


class CeleryFile(Subject):
    """The default scheduler of ``celery beat``."""

    scheduler: Any

    def start(self) -> None:
        self.scheduler = PersistentScheduler(self.app, schedule_filename=str(self.job.path / "schedule"))

    def create(self, population: Population) -> None:
        self.scheduler.schedule.clear()
        self.scheduler.update_from_dict({f"entry-{number}": _entry(number) for number in range(population.count)})
        for number, entry in enumerate(self.scheduler.schedule.values()):
            entry.last_run_at = population.last_run_at(number)

    def tick(self) -> float:
        return self.scheduler.tick()


def _entry(number: int) -> dict[str, Any]:
    return {"task": TASK, "schedule": schedule(EVERY_SECONDS), "args": [str(number)]}
