"""The bare loops: the cost of ``apply_async`` without any scheduler."""

from __future__ import annotations

from suite.application import TASK, application
from suite.job import Job, Unavailable
from suite.spent import Spent, Stopwatch

__all__ = ("BATCHED", "CONFIRMED", "PLAIN", "loop")

PLAIN, BATCHED, CONFIRMED = "loop", "batched loop", "confirmed loop"


def loop(job: Job, count: int) -> Spent:
    """Return the time of ``count`` calls of ``task.apply_async`` on one producer, with its defaults.

    The batched loop runs inside kombu's ``Producer.batch()``, and includes its flush. The confirmed loop is for
    RabbitMQ, which confirms each message before the next one is sent.
    """
    app = application(job)
    task = app.tasks[TASK]
    options = {"confirm_publish": True} if job.contender == CONFIRMED else {}
    with app.connection_for_write(transport_options=options) as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        if job.contender == BATCHED and not hasattr(producer, "batch"):
            raise Unavailable("kombu has no Producer.batch() before 5.7")
        task.apply_async(["warm"], producer=producer)
        stopwatch = Stopwatch()
        if job.contender == BATCHED:
            with producer.batch():
                for number in range(count):
                    task.apply_async([str(number)], producer=producer)
        else:
            for number in range(count):
                task.apply_async([str(number)], producer=producer)
        return stopwatch.read()
