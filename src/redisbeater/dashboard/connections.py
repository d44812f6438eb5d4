"""Connections to the page: those on which no whole request comes in time are closed."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ("BoundedProtocol",)

#: How long the head of a request may take, from the first byte or the begin of its connection on.
HEAD_SECONDS = 10.0

#: Connections of one process: those of 200 streams and as many again. Systems allow a process 1,024 files by default.
MOST_CONNECTIONS = 500


class BoundedProtocol(H11Protocol):
    """Closes connections on which no request comes, the oldest of them at once where there are too many.

    Without it they stay for ever, and 1,000 of them leave no room for a new one.
    """

    #: Ends the wait for the head of a request; None: nothing is waited for.
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > MOST_CONNECTIONS:
            self._close_one()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, unless it is whole."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._await_head()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_one(self) -> None:
        """Close the connection that is waited for longest; this one at least waits."""
        waiting = {
            each: each._deadline.when()
            for each in self.connections
            if isinstance(each, BoundedProtocol) and each._deadline and not each.transport.is_closing()
        }
        min(waiting, key=waiting.__getitem__).transport.close()
