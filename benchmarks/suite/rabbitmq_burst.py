"""Many entries due at once, with RabbitMQ as the broker: the rate with and without publisher confirms."""

from __future__ import annotations

from dataclasses import replace

from support import rabbitmq

from suite.case import Case, Column
from suite.job import Job, Outcome, Unavailable
from suite.loops import CONFIRMED, PLAIN, loop
from suite.population import Population
from suite.subject import drain
from suite.subjects import started

__all__ = ("RABBITMQ",)


def measure(job: Job) -> Outcome:
    """Measure messages per second on a fresh node."""
    if rabbitmq.program() is None:
        raise Unavailable("RabbitMQ is missing: apt-get install rabbitmq-server")
    with rabbitmq.running() as node:
        seconds = _seconds(replace(job, amqp_url=node.url()))
    return Outcome(figures={"rate": job.size / seconds})


def _seconds(job: Job) -> float:
    if job.contender in (PLAIN, CONFIRMED):
        return loop(job, job.size).seconds
    subject = started(job)
    subject.create(Population.due_now(job.size))
    return drain(subject, job.size)


CONTENDERS = ("redisbeater", "celery-redbeat", PLAIN, CONFIRMED)

RABBITMQ = Case(
    name="rabbitmq",
    title="entries due at once, dispatched to RabbitMQ",
    about="redisbeater and the confirmed loop wait for the confirm of each message; the others use no confirms",
    size_title="due",
    sizes=dict.fromkeys(CONTENDERS, (5000,)),
    quick_sizes={},  # each node takes five seconds to start
    columns=(Column(figure="rate", title="runs/s", digits=0),),
    measure=measure,
)
