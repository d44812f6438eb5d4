"""APScheduler 3 with its Redis job store, its jobs calling ``apply_async`` in the scheduler's own thread.

It is no Celery scheduler: this is how a program uses both. Threads, its default, would only add costs.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from celery import current_app

from suite.application import TASK
from suite.population import Population
from suite.subject import Subject

__all__ = ("APScheduler", "send")


def send(number: str) -> None:
    """Send the task; this is the function of each job."""
    current_app.tasks[TASK].apply_async([number])


class APScheduler(Subject):
    """APScheduler's BlockingScheduler, whose passes the benchmark calls one by one."""

    scheduler: Any

    def start(self) -> None:
        from apscheduler.executors.debug import DebugExecutor
        from apscheduler.jobstores.redis import RedisJobStore
        from apscheduler.schedulers.blocking import BlockingScheduler

        class Passes(BlockingScheduler):
            def _main_loop(self) -> None:  # tick calls the passes
                pass

        store = RedisJobStore(db=0, port=self.job.port)
        executors = {"default": DebugExecutor()}
        self.scheduler = Passes(jobstores={"default": store}, executors=executors, timezone=timezone.utc)
        self.scheduler.start()

    def create(self, population: Population) -> None:
        self.scheduler.remove_all_jobs()
        for number in range(population.count):
            self.add(f"entry-{number}", datetime.fromtimestamp(population.fire_time(number), timezone.utc))

    def add(self, name: str, first: datetime) -> None:
        """Add one hourly job."""
        self.scheduler.add_job(
            send, "interval", hours=1, id=name, args=[name], next_run_time=first, misfire_grace_time=None
        )

    def tick(self) -> float:
        return self.scheduler._process_jobs()
