"""Stages: the time of some functions, each without the time of the other stages inside it."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ("LOOP_STAGES", "STAGES", "Stages")

_MESSAGE = "apply_async: create the message"
_PUBLISHING = {
    "publish: serialise and route": "kombu.messaging:Producer.publish",
    "flush: to the broker": "kombu.transport.redis:PublishBatch.flush",
}

#: The stages of both the bare loop and a dispatch: stage -> ``module:qualified name``.
LOOP_STAGES = {_MESSAGE: "celery.app.task:Task.apply_async", **_PUBLISHING}

#: The stages of a dispatch.
STAGES = {
    "claim: Redis": "redisbeater.store.schedule:RedisSchedule.claim",
    "decode and plan": "redisbeater.dispatch.job:Job.planned",
    "an entry for each run": "redisbeater.dispatch.job:Job.runs",
    "Celery's apply_entry": "redisbeater.scheduler:RedisScheduler.apply_entry",
    _MESSAGE: "celery.beat:Scheduler.apply_async",  # with its part around the task's own
    **_PUBLISHING,
    "build the commitment": "redisbeater.dispatch.job:Job.commitment",
    "commit: Redis": "redisbeater.store.schedule:RedisSchedule.commit",
}


class Stages:
    """Times the stages within a ``with`` block, in this thread."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._originals: list[tuple[Any, str, Any]] = []
        self._inside: list[float] = []
        #: The seconds of each stage.
        self.seconds: dict[str, float] = dict.fromkeys(names, 0.0)

    def __enter__(self) -> Stages:
        for stage, name in self._names.items():
            module, _, path = name.partition(":")
            holder, _, attribute = path.rpartition(".")
            owner = getattr(importlib.import_module(module), holder)
            original = owner.__dict__.get(attribute)  # None: the attribute is inherited
            self._originals.append((owner, attribute, original))
            setattr(owner, attribute, self._wrapped(stage, original or getattr(owner, attribute)))
        return self

    def __exit__(self, *error: object) -> None:
        for owner, attribute, original in self._originals:
            if original is None:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)

    def _wrapped(self, stage: str, original: Any) -> Any:
        if isinstance(original, classmethod):
            return classmethod(self._timed(stage, original.__func__))
        return self._timed(stage, original)

    def _timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        inside, clock = self._inside, time.perf_counter

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            inside.append(0.0)
            began_at = clock()
            try:
                return function(*args, **kwargs)
            finally:
                spent = clock() - began_at
                self.seconds[stage] += spent - inside.pop()
                if inside:
                    inside[-1] += spent

        return timed
