"""The tasks that an app has, and their arguments as texts of a form."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from celery import Celery, Task

from redisbeater.context import Context
from redisbeater.display import NEAR, did_you_mean, printable_json, shown
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import Collected, InvalidEntry
from redisbeater.model import json_text
from redisbeater.redaction import redacted


def is_registered(app: Celery, task: str) -> bool | None:
    """Tell whether an app has a task of that name; import its modules, as a worker does, if it is not known yet.

    None: nobody knows, as a module cannot be imported here.
    """
    try:
        if task not in app.tasks:
            app.loader.import_default_modules()
        return task in app.tasks
    except Exception:  # the application's code; a worker that has all it needs may import it
        return None


def refused_arguments(app: Celery, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return why Celery would refuse these arguments of a task, or an empty text.

    It checks none where the task is not known, has ``typing=False``, or has its own ``apply_async``, which may change
    them.
    """
    found = app.tasks.get(task)
    if found is None or not found.typing or type(found).apply_async is not Task.apply_async:
        return ""
    check = getattr(found, "__header__", None)
    try:
        if check is not None:
            check(*args, **kwargs)
    except TypeError as exc:
        return str(exc)
    return ""


def task_problem(app: Celery, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return why each run will fail, an unknown task or refused arguments, as far as the app tells; else nothing."""
    if is_registered(app, task) is False:
        refusal = f"this app has no task {shown(repr(task))}, and workers refuse to run a task that they do not have"
        return f"{refusal}{nearest_task(app, task)}"
    refusal = refused_arguments(app, task, args, kwargs)
    return f"each run will fail, the task does not take these arguments: {shown(refusal)}" if refusal else ""


def entry_problem(
    context: Context,
    entry: RedisScheduleEntry,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> str:
    """Return why runs of an entry will fail, or one with other arguments, or are not held to ``once``; else nothing."""
    found = entry._definition()
    args, kwargs = found.args if args is None else args, found.kwargs if kwargs is None else kwargs
    refusal = task_problem(context.app, found.task, args, kwargs)
    return refusal or (once_problem(context.app, found.task) if found.once else "")


def once_problem(app: Celery, task: str) -> str:
    """Return why ``once`` has no effect on the runs of a task, as far as the app has it; else an empty text."""
    found = app.tasks.get(task) if is_registered(app, task) else None
    if found is None or getattr(found, "executes_once", False):
        return ""
    return f"once has no effect: the class of {shown(task)} is not OnceTask; declare it with base=OnceTask"


def import_tasks(app: Celery) -> None:
    """Import the modules of an app, as a worker does, as far as they can be imported here."""
    with suppress(Exception):  # the application's code; a worker that has all it needs may import it
        app.loader.import_default_modules()


def task_names(context: Context) -> list[str]:
    """Return the names of the tasks of the app, without Celery's own; of those that can be imported here."""
    import_tasks(context.app)
    return sorted(name for name in context.app.tasks if not name.startswith("celery."))


def nearest_task(app: Celery, task: str) -> str:
    """Return ``; did you mean 'proj.report'?`` with the nearest task of an app; empty if none is near.

    The functions must be near, too: all tasks of a module begin alike.
    """
    function = task.rpartition(".")[2]
    near = [name for name in app.tasks if did_you_mean(function, [name.rpartition(".")[2]], cutoff=NEAR)]
    return did_you_mean(task, near, cutoff=NEAR)


#: What an annotation calls the values that only JSON can mean: a text that is no JSON is a mistake there.
_ONLY_JSON = {"int", "float", "bool", "list", "dict", "tuple", "set", "None"}


class Argument(NamedTuple):
    """An argument that a task takes by name; annotation and default are in words, empty where there is none."""

    name: str
    annotation: str
    default: str
    is_keyword_only: bool

    def read(self, text: str) -> Any:
        """Return the value of a text: JSON, or the text itself where it is none or where the task takes a text.

        Raises:
            InvalidEntry: it is no JSON, and the task takes no texts.
        """
        types = set(re.sub(r"\[.*\]|[ ]", "", self.annotation).split("|")) - {""}
        try:
            value = json_text.from_person(text, f"$.kwargs.{self.name}")
        except InvalidEntry as exc:
            if types and types <= _ONLY_JSON:
                raise InvalidEntry(exc.path, f"expected {self.annotation} as JSON, got {shown(text, 80)!r}") from exc
            return text
        kind = "None" if value is None else type(value).__name__
        return text if "str" in types and kind not in types else value

    def text(self, value: Any) -> str | None:
        """Return a text that is read as this value, or None if there is none."""
        for text in (value if isinstance(value, str) else "", printable_json(value)):
            with suppress(InvalidEntry):
                if text and text == text.strip() and json_text.to_text(self.read(text)) == json_text.to_text(value):
                    return text
        return None


class Signature(NamedTuple):
    """The arguments of a task; ``words`` has them as its author wrote them."""

    words: str
    arguments: Sequence[Argument]

    def texts(self, args: Any, kwargs: Any) -> dict[str, str] | None:
        """Return arguments as texts by name, or None if only JSON can hold them."""
        names = [each.name for each in self.arguments if not each.is_keyword_only]
        if not isinstance(args, list) or not isinstance(kwargs, dict) or len(args) > len(names):
            return None
        by_name, known = dict(zip(names, args)), {each.name: each for each in self.arguments}
        if by_name.keys() & kwargs.keys() or not kwargs.keys() <= known.keys():
            return None
        texts = {name: known[name].text(value) for name, value in {**by_name, **kwargs}.items()}
        return {name: text for name, text in texts.items() if text is not None} if None not in texts.values() else None

    def passed(self, texts: Mapping[str, str], args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of texts by name: as many by position, and in the order, as they were passed before.

        Raises:
            InvalidEntry: a text cannot be read; it has the errors of the others.
        """
        errors, values = Collected(), {}
        for each in self.arguments:
            if text := texts.get(each.name, "").strip():
                with errors:
                    values[each.name] = each.read(text)
        errors.raise_first()
        positional = []
        for each in self.arguments[: len(args) if isinstance(args, list) else 0]:
            if each.is_keyword_only or each.name not in values:
                break
            positional.append(values.pop(each.name))
        order = [*(kwargs if isinstance(kwargs, dict) else ()), *values]
        return positional, {name: values[name] for name in order if name in values}


def signature_of(context: Context, task: str) -> Signature | None:
    """Return the signature of a task, with secrets blanked; None if it is not known.

    Its arguments are those without ``self``, ``*args`` and ``**kwargs``. One that can only be passed by position has no
    name to ask for, and its task no such signature.
    """
    app, patterns = context.app, context.config.redact
    if not is_registered(app, task):
        return None
    try:
        found = inspect.signature(app.tasks[task].run)
        parameters = [
            each.replace(default=redacted({each.name: each.default}, patterns, in_texts=True)[each.name])
            if each.default is not each.empty
            else each
            for each in found.parameters.values()
        ]
        words = re.sub(r": '([^']*)'", r": \1", str(found.replace(parameters=parameters)))
    except Exception:  # the application's code: a class in C, or a default with a broken repr
        return None
    if any(each.kind is each.POSITIONAL_ONLY for each in parameters):
        return None
    arguments = [
        Argument(
            each.name,
            "" if each.annotation is each.empty else inspect.formatannotation(each.annotation).strip("'\""),
            "" if each.default is each.empty else repr(each.default),
            each.kind is each.KEYWORD_ONLY,
        )
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    return Signature(f"{task.rpartition('.')[2]}{words}", arguments)
