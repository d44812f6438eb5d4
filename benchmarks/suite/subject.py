"""A subject: a contender's scheduler in this process, over entries that are due or far away."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from celery import Celery

from suite.application import application
from suite.job import Job
from suite.message_queue import queue_of
from suite.population import Population

__all__ = ("Subject", "drain")

#: Seconds without a message after which a scheduler has failed.
PATIENCE = 60.0


class Subject(ABC):
    """A scheduler whose passes are called directly: nothing sleeps, nothing else runs."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.app: Celery = application(job)
        self.queue = queue_of(job)

    @abstractmethod
    def start(self) -> None:
        """Make the scheduler, as beat would when it starts."""

    @abstractmethod
    def make(self, population: Population) -> None:
        """Have these entries, for the next pass to find."""

    @abstractmethod
    def tick(self) -> float:
        """One pass; seconds until the next one is due, 0 when it should follow at once."""

    def warm_up(self) -> None:
        """Send one run, so that everything is imported and connected before the clock starts."""
        self.make(Population.due_now(1))
        drain(self, 1)
        self.queue.clear()


def drain(subject: Subject, count: int) -> float:
    """Call passes until so many messages are on the queue; seconds from the first pass to the last message."""
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
            if now > progress_at + PATIENCE:
                raise TimeoutError(f"{found} of {count} runs were sent, and no more")
            time.sleep(min(delay, 0.001))
