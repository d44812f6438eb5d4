"""How a run's arguments look in logs and events, as Celery would show them, but cheaper.

Celery makes that text (``argsrepr``, ``kwargsrepr``) token by token for each message, a tenth of what one costs, unless
it is given one. It is given one where nothing on the way may want another: many applications add arguments, and some
hide them.
"""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import celery.app.amqp
import celery.app.base
import celery.app.task
from celery import Celery
from celery.utils.saferepr import saferepr

from redisbeater.entry import RedisScheduleEntry

__all__ = ("Representations",)

#: How many texts are kept, and how long they are at most: Celery puts one that it is given into its message twice.
MOST_TEXTS, LONGEST = 10_000, 64

#: How deep Celery looks into values where it has no setting for that.
DEFAULT_LEVELS = 3

_FLAT = frozenset({str, int, bool, float, type(None)})


class Representations:
    """The texts for the runs of one app."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._gives_any = _is_plain(app)
        self._levels = getattr(app.conf, "task_repr_maxlevels", DEFAULT_LEVELS)
        self._texts: dict[str, str] = {}

    def add_to(self, run: RedisScheduleEntry) -> None:
        """Give a run its texts, where Celery would make the same."""
        if not self._gives_any or self._may_change(run.task):
            return
        with suppress(Exception):  # of settings, for example: Celery meets it, too, and says what is wrong
            amqp = self._app.amqp
            texts = {
                "argsrepr": self._text(run.args or (), amqp.argsrepr_maxsize),
                "kwargsrepr": self._text(run.kwargs, amqp.kwargsrepr_maxsize),
            }
            run.options = {**{name: text for name, text in texts.items() if text}, **run.options}

    def _may_change(self, name: str | None) -> bool:
        """Whether a task has an ``apply_async`` that is not Celery's."""
        task = self._app.tasks.get(name)
        return task is not None and not _is_from(celery.app.task, task.apply_async)

    def _text(self, value: Any, most: int | None) -> str | None:
        shown = repr(value)
        if len(shown) > (LONGEST if most is None else min(LONGEST, most)):
            return None
        if self._levels and _is_shown_as_in_python(value, shown):
            return shown
        return self._remembered(shown, value, most)

    def _remembered(self, key: str, value: Any, most: int | None) -> str:
        if len(self._texts) > MOST_TEXTS:
            self._texts.clear()
        if key not in self._texts:
            self._texts[key] = saferepr(value, most, maxlevels=self._levels)
        return self._texts[key]


def _is_plain(app: Celery) -> bool:
    """Whether nobody has put anything of their own between a task and its message."""
    return (
        app.conf.task_protocol == 2  # the first one has no such texts
        and _is_from(celery.app.base, app.send_task)
        and _is_from(celery.app.amqp, app.amqp.as_task_v2)
        and celery.app.amqp.saferepr is saferepr
    )


def _is_from(module: ModuleType, function: Any) -> bool:
    """Whether a function was written in a module; what is wrapped around one was not, whatever it calls itself."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == module.__file__


def _is_shown_as_in_python(value: Any, shown: str) -> bool:
    """Whether a value is flat, and nothing in it needs an escape: of those Celery makes the same as Python does."""
    if "\\" in shown or '"' in shown:
        return False
    items = value.values() if type(value) is dict else value
    return all(type(item) in _FLAT for item in items)
