"""``TaskOptions``: what an application and the broker client know about the options of tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import Any

from celery import Celery, Task
from kombu import compression, serialization

from redisbeater.code_errors import EndedByCode

#: Compression methods of kombu; some need a package, which beat may have and this process lacks.
COMPRESSIONS = ("gzip", "zlib", "bzip2", "bzip", "brotli", "lzma", "xz", "zstd", "zstandard")

_NAMED_KINDS = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """The options of the tasks of one application; nothing is read from it before a method is called.

    Attributes:
        names: the options that the setting ``redisbeater_task_options`` adds.
    """

    app: Celery
    names: Collection[str]

    def accepts(self, task: str, option: str) -> bool:
        """Tell whether the application lists an option, or the ``apply_async`` of a task known here names it."""
        return option in self.names or option in _named_parameters(self._task(task))

    def routed_queue(
        self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> str:
        """Return the queue that Celery routes a run to; empty where its options name one, or it is the default one.

        The routers of the application are asked, as Celery does when it sends the run.
        """
        if options.get("queue"):
            return ""
        queue: Any = getattr(self._task(task), "queue", None)
        try:
            if queue is None and self._router.routes:
                route: Any = self._router.lookup_route(task, args, kwargs, dict(options))
                queue = route if isinstance(route, str) else route and dict(route).get("queue")
        except BaseException as exc:  # the application's routers; the run was sent, or Celery says why not
            EndedByCode.of(exc)
            return ""
        name = str(getattr(queue, "name", queue) or "")
        return name if name and name != self._default_queue else ""

    def _task(self, name: str) -> Any:
        """Return a task that is known here, or None."""
        app = self.app
        return (app.tasks if app.autofinalize and not app.finalized else app._tasks).get(name)

    # Each run asks for these two, and to get them takes Celery longer than to look for a route.

    @cached_property
    def _router(self) -> Any:
        return self.app.amqp.router

    @cached_property
    def _default_queue(self) -> str:
        return str(self.app.conf.task_default_queue)

    def serializers(self) -> Collection[str]:
        """Return the names of the serializers that are registered with kombu, of packages that are missing as well."""
        return list(serialization.registry.name_to_type)

    def compressions(self) -> Collection[str]:
        """Return the names and content types of the compression methods."""
        return [*COMPRESSIONS, *compression.encoders()]

    def queues(self) -> Collection[str] | None:
        """Return the names of the queues; None if Celery creates any other when it is needed."""
        conf = self.app.conf
        if conf.task_create_missing_queues:
            return None
        queues = conf.task_queues or (conf.task_default_queue,)
        names = queues if isinstance(queues, Mapping) else (getattr(queue, "name", queue) for queue in queues)
        return [str(name) for name in names]


def _named_parameters(task: Any) -> set[str]:
    """Return the parameters that overridden methods ``apply_async`` of a task name."""
    methods = [vars(cls).get("apply_async") for cls in type(task).__mro__ if cls not in Task.__mro__]
    parameters = [each for method in methods if callable(method) for each in signature(method).parameters.values()]
    return {each.name for each in parameters if each.kind in _NAMED_KINDS}
