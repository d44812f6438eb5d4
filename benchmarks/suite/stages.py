"""Stages: the time that some functions take, each without what others of them take inside it."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ("LOOP_STAGES", "STAGES", "Stages")

_MESSAGE = "apply_async: make the message"
_PUBLISHING = {
    "publish: serialise and route": "kombu.messaging:Producer.publish",
    "flush: to the broker": "kombu.transport.redis:PublishBatch.flush",
}

#: What both do: stage -> ``module:qualified name``.
LOOP_STAGES = {_MESSAGE: "celery.app.task:Task.apply_async", **_PUBLISHING}

#: What a dispatch adds to it.
STAGES = {
    "claim: Redis": "redisbeater.store.schedule:RedisSchedule.claim",
    "decode and plan": "redisbeater.dispatch.job:Job.planned",
    "an entry for each run": "redisbeater.dispatch.job:Job.runs",
    "Celery's apply_entry": "redisbeater.scheduler:RedisScheduler.apply_entry",
    _MESSAGE: "celery.beat:Scheduler.apply_async",  # around a task's own, it is told no texts of arguments
    **_PUBLISHING,
    "what to commit": "redisbeater.dispatch.job:Job.commitment",
    "commit: Redis": "redisbeater.store.schedule:RedisSchedule.commit",
}


class Stages:
    """Times stages within a ``with`` block, in this thread."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._originals: list[tuple[Any, str, Any]] = []
        self._inside: list[float] = []
        #: Seconds of each stage.
        self.seconds: dict[str, float] = dict.fromkeys(names, 0.0)

    def __enter__(self) -> Stages:
        for stage, name in self._names.items():
            module, _, path = name.partition(":")
            holder, _, attribute = path.rpartition(".")
            owner = getattr(importlib.import_module(module), holder)
            original = owner.__dict__.get(attribute)  # None: it is inherited
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
