"""Asks a run to stop: its record says so, and Celery's remote control reaches the worker that executes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.exceptions import StoreError
from redisbeater.log_lines import get_logger
from redisbeater.model.run import Run, State

__all__ = ("cancel", "revoke")

logger = get_logger(__name__)


def cancel(
    app: Celery, run_id: str, *, by: str, note: str = "", connection: Callable[[], Any] = lambda: None
) -> Run | None:
    """Ask a run to stop that is in the way of another. Return it as it is then.

    A run that waits for beat ends at once; the end of any other is not awaited. Return None if there is no such run, or
    if its worker could not be reached, which is logged: the worker reads the request when it renews its lease.

    Arguments:
        app: the app.
        run_id: the id of the run.
        by: who asks.
        note: why.
        connection: returns the connection to the broker; None: one of the app's own.

    Raises:
        StoreError: Redis could not be asked.
    """
    context = Context.of(app)
    run = context.redis.runs.stop(run_id, by=by, note=note)
    if run is None or run.is_final:
        return run
    try:
        revoke(app, run, context.config.stop_signal, connection=connection())
    except StoreError:
        raise
    except Exception as exc:  # the broker does not carry the request
        logger.warning("run %s was asked to stop, but its worker could not be reached: %s", run_id, shown(exc))
        return None
    return run


def revoke(app: Celery, run: Run, stop_signal: str | None, **options: Any) -> Any:
    """Tell the workers to end a run, and return what they reply; without a signal they only refuse to start it.

    Arguments:
        app: the app.
        run: the run; while it is executed, only its worker gets that.
        stop_signal: what ends the process that executes it, such as ``SIGTERM``.
        options: more options of Celery's ``control.revoke()``.
    """
    if stop_signal is not None:
        options.update(terminate=True, signal=stop_signal)
    if run.state is State.STARTED and run.worker:
        options["destination"] = [run.worker]
    return app.control.revoke(run.id, **options)
