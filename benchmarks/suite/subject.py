"""A subject: a contender's scheduler in this process, with entries that are due or far away."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from celery import Celery

from suite.application import application
from suite.job import Job
from suite.message_queue import queue_of
from suite.population import Population

__all__ = ("Subject", "drain")

#: A scheduler has failed when it sends no message for this long.
PROGRESS_TIMEOUT_SECONDS = 60.0


class Subject(ABC):
    """A scheduler whose passes the benchmark calls directly, without any sleep in between."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.app: Celery = application(job)
        self.queue = queue_of(job)

    @abstractmethod
    def start(self) -> None:
        """Create the scheduler, as beat does when it starts."""

    @abstractmethod
    def create(self, population: Population) -> None:
        """Create these entries for the next pass."""

    @abstractmethod
    def tick(self) -> float:
        """Run one pass; return the seconds until the next one, 0 if it should follow at once."""

    def warm_up(self) -> None:
        """Send one run, so that everything is imported and connected before the clock starts."""
        self.create(Population.due_now(1))
        drain(self, 1)
        self.queue.clear()


def drain(subject: Subject, count: int) -> float:
    """Call passes until ``count`` messages are on the queue; return the seconds until then."""
    began_at = progress_at = time.perf_counter()
    found = 0
    while True:
        delay = subject.tick()
        if delay and delay > 0:
            length = subject.queue.length()
            now = time.perf_counter()
            if length >= count:
                return now - began_at
            progress_at = now if length > found else progress_at
            found = length
            if now > progress_at + PROGRESS_TIMEOUT_SECONDS:
                raise TimeoutError(f"{found} of {count} runs were sent, then none for {PROGRESS_TIMEOUT_SECONDS:g} s")
            time.sleep(min(delay, 0.001))
