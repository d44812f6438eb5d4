"""How a run's arguments look in logs and events, as Celery would show them, but cheaper.

Celery makes that text (``argsrepr``, ``kwargsrepr``) token by token for each message, a tenth of what one costs, unless
it is given one.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, Task
from celery.utils.saferepr import saferepr

from redisbeater.entry import RedisScheduleEntry

__all__ = ("Representations",)

#: How many texts are kept, and of values how long at most.
MOST_TEXTS, LONGEST = 10_000, 256

#: How deep Celery looks into values where it has no setting for that.
DEFAULT_LEVELS = 3

_FLAT = frozenset({str, int, bool, float, type(None)})


class Representations:
    """The texts for the runs of one app."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._levels = getattr(app.conf, "task_repr_maxlevels", DEFAULT_LEVELS)
        self._texts: dict[str, str] = {}

    def add_to(self, run: RedisScheduleEntry) -> None:
        """Give a run its texts, where its options have none and its task sends what it is called with."""
        if not self._may_change(run.task):
            amqp = self._app.amqp
            run.options = {
                "argsrepr": self._text(run.args or (), amqp.argsrepr_maxsize),
                "kwargsrepr": self._text(run.kwargs, amqp.kwargsrepr_maxsize),
                **run.options,
            }

    def _may_change(self, name: str | None) -> bool:
        """Whether a task has an ``apply_async`` of its own: many of them add arguments."""
        task = self._app.tasks.get(name)
        return task is not None and getattr(task.apply_async, "__func__", None) is not Task.apply_async

    def _text(self, value: Any, most: int | None) -> str:
        shown = repr(value)
        if len(shown) > (LONGEST if most is None else min(LONGEST, most)):
            return saferepr(value, most, maxlevels=self._levels)
        if self._levels and _is_shown_as_in_python(value, shown):
            return shown
        return self._remembered(shown, value, most)

    def _remembered(self, key: str, value: Any, most: int | None) -> str:
        if len(self._texts) > MOST_TEXTS:
            self._texts.clear()
        if key not in self._texts:
            self._texts[key] = saferepr(value, most, maxlevels=self._levels)
        return self._texts[key]


def _is_shown_as_in_python(value: Any, shown: str) -> bool:
    """Whether a value is flat, and nothing in it needs an escape: of those Celery makes the same as Python does."""
    if "\\" in shown or '"' in shown:
        return False
    items = value.values() if type(value) is dict else value
    return all(type(item) in _FLAT for item in items)
