"""Steps that a signal may not tear apart."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

__all__ = ("deferred_signals",)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Seconds that a signal waits for the end of a step; a broker that hangs must not make beat deaf.
PATIENCE = 3.0


class deferred_signals:
    """Hold SIGTERM and SIGINT back until the end of a short step, for 3 s at most, or until they come again.

    Celery's handler raises wherever the program happens to be: between a send and the note of it, the run would be
    sent again; between a claim and its reply, the entries would wait for the end of their lease.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._held: int | None = None
        self._reminder: threading.Timer | None = None

    def __enter__(self) -> None:
        # Signals are handled by the main thread: in another one there is nothing to hold back.
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._hold) for number in _SIGNALS}

    def __exit__(self, *_: object) -> None:
        self._let_go()
        if self._held is not None:
            signal.raise_signal(self._held)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._held is None:
            self._held = number
            self._reminder = threading.Timer(PATIENCE, os.kill, (os.getpid(), number))
            self._reminder.daemon = True
            self._reminder.start()
        else:
            self._held = None
            self._let_go()
            signal.raise_signal(number)

    def _let_go(self) -> None:
        if self._reminder is not None:
            self._reminder.cancel()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
