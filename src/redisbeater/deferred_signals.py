"""Signals deferred until the end of a step that they must not interrupt."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: A signal is delivered after this long even if the step still runs, so that a broker that hangs cannot block it.
MAX_DEFERRAL_SECONDS = 3.0

#: The same for a step that only asks Redis.
REDIS_STEP_SECONDS = 0.4


class deferred_signals:
    """Defer SIGTERM and SIGINT until the end of a step, for a limited time, or until a second one.

    Celery's handler raises wherever the program is: between a send and its record, the run would be sent again;
    between a claim and its reply, the entries would wait for the end of their lease.

    Arguments:
        most_seconds: how long; default: MAX_DEFERRAL_SECONDS.
    """

    def __init__(self, most_seconds: float | None = None) -> None:
        self._most_seconds = MAX_DEFERRAL_SECONDS if most_seconds is None else most_seconds
        self._handlers: dict[int, Any] = {}
        self._deferred: int | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> None:
        # Python delivers signals to the main thread only; other threads have nothing to defer.
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._defer) for number in _SIGNALS}

    def __exit__(self, *_: object) -> None:
        self._restore_handlers()
        if self._deferred is not None:
            signal.raise_signal(self._deferred)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._deferred is None:
            self._deferred = number
            self._timer = threading.Timer(self._most_seconds, os.kill, (os.getpid(), number))
            self._timer.daemon = True
            self._timer.start()
        else:
            self._deferred = None
            self._restore_handlers()
            signal.raise_signal(number)

    def _restore_handlers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
