"""Steps that a signal may not tear apart."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ("uninterrupted",)

_SIGNALS = {signal.SIGTERM, signal.SIGINT}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGTERM and SIGINT back until the end of a short step.

    Celery's handler raises wherever the program happens to be: between a send and the note of it, the run would be
    sent again; between a claim and its reply, the entries would wait for the end of their lease.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled by the main thread: they cannot interrupt this one
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
