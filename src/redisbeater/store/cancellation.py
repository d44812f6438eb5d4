"""Cancellation of a read that goes through many entries: before each command it looks whether anybody still waits."""

from __future__ import annotations

from asyncio import CancelledError
from contextvars import ContextVar
from threading import Event

__all__ = ("cancelled", "end_if_cancelled")

#: Is set once nobody waits for what runs in this context; None: it goes on to its end, whoever waits.
cancelled: ContextVar[Event | None] = ContextVar("cancelled", default=None)


def end_if_cancelled() -> None:
    """End a read that nobody waits for any more.

    Raises:
        CancelledError: nobody does; no handler of errors on the way stops it.
    """
    event = cancelled.get()
    if event is not None and event.is_set():
        raise CancelledError
