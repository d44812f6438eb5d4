"""Who may be sent by a template: where nothing but Celery's and kombu's own code takes part in making a message.

Each condition is asked once for each publish batch, or once for each task in it. Where one is not met, the runs go
Celery's way, through all that an application or an instrument has put there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from celery import Celery, Task
from celery import signals as celery_signals
from celery.app.routes import MapRoute, Router

from redisbeater.broker.own_code import (
    facts_of_producer,
    is_kombus_channel,
    is_kombus_json,
    is_kombus_producer,
    is_own,
)


class Way(NamedTuple):
    """What a run passes on its way to the broker.

    Attributes:
        scheduler: the scheduler that sends it.
        producer: kombu's producer.
        channel: the channel of that.
    """

    scheduler: Any
    producer: Any
    channel: Any

    @property
    def app(self) -> Celery:
        """The application."""
        app: Celery = self.scheduler.app
        return app


class Condition(NamedTuple):
    """One condition.

    Attributes:
        name: how tests and mutants call it.
        words: what is so where it is not met, for ``status``.
        is_met: tells of the way of a publish batch, or of a task, whether it is.
    """

    name: str
    words: str
    is_met: Callable[[Any], bool]


#: The signals of Celery that somebody may listen to while a message is made.
_SIGNALS = ("before_task_publish", "after_task_publish", "task_sent")


def _is_ours(receiver: Any) -> bool:
    """Return whether a receiver is this package's, which wants nothing of these messages."""
    if type(receiver) is not FunctionType:  # by its type, as some wrappers say that they are of another class
        return False
    return str(receiver.__globals__.get("__name__", "")).startswith("redisbeater.")


def _have_no_receivers(_: Way) -> bool:
    """Return whether nobody listens but this package itself."""
    signals = [getattr(celery_signals, name) for name in _SIGNALS]
    return all(
        is_own(signal, "send", "celery.utils.dispatch.signal")
        and all(_is_ours(receiver) for _, receiver in signal.receivers)
        for signal in signals
    )


def _is_own_scheduler(way: Way) -> bool:
    names = ("apply_entry", "apply_async", "send_task", "should_sync", "_do_sync", "sync")
    return all(is_own(way.scheduler, name, "celery.beat") for name in names)


def _is_own_app(way: Way) -> bool:
    return all(is_own(way.app, name, "celery.app.base") for name in ("send_task", "producer_or_acquire"))


def _is_own_amqp(way: Way) -> bool:
    names = ("create_task_message", "send_task_message")
    return all(is_own(way.app.amqp, name, "celery.app.amqp") for name in names)


def _is_protocol_2(way: Way) -> bool:
    return bool(way.app.conf.task_protocol == 2 and way.app.amqp.create_task_message.__name__ == "as_task_v2")


def _routes_are_declarations(way: Way) -> bool:
    router = way.app.amqp.router
    names = ("route", "expand_destination", "lookup_route", "query_router")
    return (
        type(router) is Router
        and all(is_own(router, name, "celery.app.routes") for name in names)
        and is_own(MapRoute, "__call__", "celery.app.routes")
        and all(type(route) is MapRoute for route in router.routes)
    )


def _has_own_backend(way: Way) -> bool:
    """Return whether it is one of Celery's, which do nothing before a send of beat."""
    return is_own(way.app.backend, "on_task_call", "celery.backends.")


#: What is asked once for each publish batch, in this order.
OF_BATCH = (
    Condition("scheduler", "the scheduler sends in a way of its own", _is_own_scheduler),
    Condition("producer", "the producer is not kombu's own", lambda way: is_kombus_producer(way.producer)),
    Condition(
        "same-producer", "the scheduler has another producer", lambda way: way.scheduler.producer is way.producer
    ),
    Condition("channel", "kombu's transport is not its own", lambda way: is_kombus_channel(way.channel)),
    Condition("json", "the serializer json is not kombu's own", lambda _: is_kombus_json()),
    Condition(
        "signals", "somebody listens to before_task_publish, after_task_publish or task_sent", _have_no_receivers
    ),
    Condition("app", "the application's send_task is not Celery's own", _is_own_app),
    Condition("eager", "task_always_eager is set", lambda way: not way.app.conf.task_always_eager),
    Condition("sent-events", "task_send_sent_event is set", lambda way: not way.app.conf.task_send_sent_event),
    Condition("protocol", "task_protocol is not 2", _is_protocol_2),
    Condition("amqp", "what makes the messages of the application is not Celery's own", _is_own_amqp),
    Condition("routes", "a route is code", _routes_are_declarations),
    Condition("backend", "the result backend takes part in each send", _has_own_backend),
    Condition("no-task", "beat sends within a task", lambda way: way.app.current_worker_task is None),
)


def _is_own_task(task: Task[Any, Any] | None) -> bool:
    names = ("apply_async", "shadow_name", "_get_exec_options", "AsyncResult")
    return task is None or all(is_own(task, name, "celery.app.task") for name in names)


def _has_plain_arguments(task: Task[Any, Any] | None) -> bool:
    return getattr(task, "_dump_pydantic_arguments", None) is None


#: What is asked once for each task in a publish batch; None: a task that this process does not know.
OF_TASK = (
    Condition("task", "the task's apply_async is not Celery's own", _is_own_task),
    Condition("pydantic", "the task has arguments of pydantic", _has_plain_arguments),
)

#: The settings that Celery reads for each message. Those that it reads once are facts of what it made of them.
_SETTINGS = ("task_default_queue", "task_repr_maxlevels", "task_default_priority", "task_inherit_parent_priority")


def unmet(conditions: tuple[Condition, ...], subject: Any) -> Condition | None:
    """Return the first condition that is not met, or None. One that cannot be told is not met."""
    for condition in conditions:
        try:
            is_met = condition.is_met(subject)
        except Exception:  # code of the application, or a version of Celery that has no such thing
            is_met = False
        if not is_met:
            return condition
    return None


def facts(way: Way) -> tuple[Any, ...]:
    """Return the facts that go into all messages besides the run, the task and its options."""
    app, amqp = way.app, way.app.amqp
    return (
        os.getpid(),
        app.thread_oid,
        amqp.router,
        amqp.argsrepr_maxsize,
        amqp.kwargsrepr_maxsize,
        amqp.send_task_message,
        *facts_of_producer(way.producer),
        *(app.conf.get(name) for name in _SETTINGS),
        *_queues(amqp),
    )


def _queues(amqp: Any) -> Iterator[Any]:
    for name, queue in amqp.queues.items():
        yield name
        yield queue


def facts_of_task(task: Task[Any, Any] | None) -> tuple[Any, ...]:
    """Return the facts that a task puts into its messages."""
    if task is None:
        return ()
    options = tuple(task._get_exec_options().items())
    limits = task.soft_time_limit, task.time_limit
    return task, task.ignore_result, task.typing, task.priority, *limits, options
