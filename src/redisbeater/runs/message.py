"""The messages of runs: the headers by which a worker recognises them, and what they say of the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redisbeater.entry_name import is_name
from redisbeater.instant import from_iso
from redisbeater.model.run import ATTEMPT_HEADER
from redisbeater.store import Execution

__all__ = ("add_headers", "execution_of", "is_tracked", "is_tracked_request", "odd_headers")

#: The header of a message that a run itself published, for another try or as a replacement: how often it has done so.
STEP = "redisbeater_step"

#: The headers of a run that all its messages carry.
NAME, FIRE_TIME = "periodic_task_name", "scheduled_for"


def is_tracked(request: Any) -> bool:
    """Return whether the request of a task, a ``celery.app.task.Context``, is that of a run that beat tracks."""
    headers = request.headers
    return isinstance(headers, dict) and ATTEMPT_HEADER in headers and not request.is_eager and _is_storable(request.id)


def is_tracked_request(request: Any) -> bool:
    """Return the same of a ``celery.worker.request.Request``, as the main process of a worker has it."""
    headers = request.request_dict
    own = headers.get("headers")
    is_marked = ATTEMPT_HEADER in headers or (isinstance(own, dict) and ATTEMPT_HEADER in own)
    return is_marked and _is_storable(request.id)


def add_headers(request: Any, headers: dict[str, Any], *, is_next: bool) -> None:
    """Add the headers of a run to those of another message of it.

    Arguments:
        request: the request of the execution that publishes the message.
        headers: the headers of the message.
        is_next: whether the message is for the next execution; else it is only a copy, which is delivered again later.
    """
    for name in (ATTEMPT_HEADER, STEP, NAME, FIRE_TIME):
        if name in request.headers:
            headers.setdefault(name, request.headers[name])
    if is_next:
        headers[STEP] = _number(request.headers.get(STEP), 0) + 1


def odd_headers(request: Any) -> list[str]:
    """Return the names of headers of a tracked run in which another program has written what beat does not."""
    headers = request.headers
    read = {
        ATTEMPT_HEADER: _number(headers[ATTEMPT_HEADER], 0) > 0,
        STEP: STEP not in headers or _number(headers[STEP], -1) >= 0,
        NAME: bool(_name(headers)),
        FIRE_TIME: from_iso(headers.get(FIRE_TIME)) is not None,
    }
    return [name for name, is_known in read.items() if not is_known]


def execution_of(task: Any, request: Any, holder: str = "", *, is_exclusive: bool = False) -> Execution:
    """Return an execution of a tracked run, as it is reported.

    Arguments:
        task: the task.
        request: its ``celery.app.task.Context``.
        holder: the token of the execution; the prefix of one where only the process is known; empty: none has begun.
        is_exclusive: the task refuses to run beside another execution.
    """
    headers = request.headers
    return Execution(
        run_id=request.id,
        name=_name(headers),
        task=task.name,
        attempt=_number(headers[ATTEMPT_HEADER], 1),
        step=_number(headers.get(STEP), 0),
        holder=holder,
        fire_time=from_iso(headers.get(FIRE_TIME)),
        worker=str(request.hostname or ""),
        pid=os.getpid(),
        acks_late=bool(task.acks_late),
        is_redelivered=bool((request.delivery_info or {}).get("redelivered")),
        is_exclusive=is_exclusive,
    )


def _number(value: Any, least: int) -> int:
    """Return the number in a header; the least one for what another program wrote there."""
    with suppress(TypeError, ValueError, OverflowError):
        return max(int(value), least)
    return least


def _name(headers: Mapping[str, Any]) -> str:
    """Return the name of the entry in the headers; empty where another program wrote what can be none."""
    name: Any = headers.get(NAME)
    return str(name) if _is_storable(name) and is_name(name) else ""


def _is_storable(text: Any) -> bool:
    """Tell whether Redis can store something as a text; names and ids whose bytes are no UTF-8 come back from it."""
    try:
        return isinstance(text, str) and bool(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False
