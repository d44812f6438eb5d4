"""The bare loops: the cost of ``apply_async`` without any scheduler."""

from __future__ import annotations

from suite.application import TASK, application
from suite.job import Job, Unavailable
from suite.spent import Spent, Stopwatch

__all__ = ("BATCHED", "CONFIRMED", "PLAIN", "Loop", "loop")

PLAIN, BATCHED, CONFIRMED = "loop", "batched loop", "confirmed loop"


class Loop:
    """Calls of ``task.apply_async`` on one producer, with its defaults.

    The batched loop runs inside kombu's ``Producer.batch()``, and includes its flush. The confirmed loop is for
    RabbitMQ, which confirms each message before the next one is sent.
    """

    def __init__(self, job: Job) -> None:
        """Connect, and send one message."""
        app = application(job)
        self._is_batched = job.contender == BATCHED
        self._task = app.tasks[TASK]
        options = {"confirm_publish": True} if job.contender == CONFIRMED else {}
        connection = app.connection_for_write(transport_options=options)
        self._producer = app.amqp.Producer(connection, auto_declare=False)
        if self._is_batched and not hasattr(self._producer, "batch"):
            raise Unavailable("kombu has no Producer.batch() before 5.7")
        self._task.apply_async(["warm"], producer=self._producer)

    def send(self, count: int) -> Spent:
        """Send so many messages, and return the time that it took."""
        stopwatch = Stopwatch()
        if self._is_batched:
            with self._producer.batch():
                self._send(count)
        else:
            self._send(count)
        return stopwatch.read()

    def _send(self, count: int) -> None:
        task, producer = self._task, self._producer
        for number in range(count):
            task.apply_async([str(number)], producer=producer)


def loop(job: Job, count: int) -> Spent:
    """Return the time of ``count`` messages of a new loop."""
    return Loop(job).send(count)
