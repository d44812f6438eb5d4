"""The messages of runs: the headers by which a worker recognises them, and what they say of the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from redisbeater.store.runs import Execution

__all__ = ("ATTEMPT", "execution_of", "is_tracked", "is_tracked_request", "with_headers_of")

#: The header that beat sends with the runs that it tracks: which try of the run this is, counted from 1.
ATTEMPT = "redisbeater_attempt"

#: The headers of a run that all its messages carry.
NAME, FIRE_TIME = "periodic_task_name", "scheduled_for"


def is_tracked(request: Any) -> bool:
    """Return whether the request of a task, a ``celery.app.task.Context``, is that of a run that beat tracks."""
    headers = request.headers
    return bool(headers) and ATTEMPT in headers and not request.is_eager


def is_tracked_request(request: Any) -> bool:
    """Return the same of a ``celery.worker.request.Request``, as the main process of a worker has it."""
    headers = request.request_dict
    return ATTEMPT in headers or ATTEMPT in (headers.get("headers") or {})


def with_headers_of(request: Any, headers: dict[str, Any]) -> None:
    """Add the headers of a run to those of another message."""
    for name in (ATTEMPT, NAME, FIRE_TIME):
        if name in request.headers:
            headers.setdefault(name, request.headers[name])


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
        name=str(headers.get(NAME) or ""),
        task=task.name,
        attempt=_attempt(headers),
        holder=holder,
        fire_time=_fire_time(headers),
        worker=str(request.hostname or ""),
        pid=os.getpid(),
        acks_late=bool(task.acks_late),
        is_redelivered=bool((request.delivery_info or {}).get("redelivered")),
        is_exclusive=is_exclusive,
    )


def _attempt(headers: Mapping[str, Any]) -> int:
    """Return which try of the run a message is; 1 for what another program wrote there."""
    with suppress(TypeError, ValueError):
        return max(int(headers[ATTEMPT]), 1)
    return 1


def _fire_time(headers: Mapping[str, Any]) -> datetime | None:
    with suppress(TypeError, ValueError):
        fire_time = datetime.fromisoformat(headers[FIRE_TIME])
        return fire_time.astimezone(timezone.utc) if fire_time.tzinfo else fire_time.replace(tzinfo=timezone.utc)
    return None
