"""Asks a run to stop: its record says so, and Celery's remote control reaches the worker that executes it."""

from __future__ import annotations

from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.model.run import Run, State

__all__ = ("ask_to_stop", "revoke")


def ask_to_stop(app: Celery, run_id: str, *, by: str, note: str = "", connection: Any = None) -> Run | None:
    """Ask a run to stop, without waiting for its end. Return it as it is then; None: there is none.

    One that waits for beat has ended at once.

    Arguments:
        app: the app.
        run_id: the id of the run.
        by: who asks.
        note: why.
        connection: the connection to the broker; None: one of the app's own.
    """
    context = Context.of(app)
    run = context.redis.runs.stop(run_id, by=by, note=note)
    if run is not None and not run.is_final:
        revoke(app, run, context.config.stop_signal, connection=connection)
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
