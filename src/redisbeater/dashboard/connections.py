"""Connections to the page: those whose client gets nowhere with a request or its answer are closed."""

from __future__ import annotations

import asyncio
from enum import Enum

from uvicorn.protocols.http.h11_impl import H11Protocol

from redisbeater.dashboard.address import network_of

__all__ = ("BoundedProtocol",)

#: How long the head of a request may take, from the begin of its connection, or from the answer before it, on.
HEAD_SECONDS = 10.0

#: How long a body may take, also one that nobody reads. A form that is late is answered before, with 408.
BODY_SECONDS = 40.0

#: In so many seconds a client takes so much of an answer, or all that is left of it.
READ_SECONDS, LEAST_BYTES = 30.0, 16 * 1024

#: Connections of one process: those of 200 streams and as many again. Systems allow a process 1,024 files by default.
MOST_CONNECTIONS = 500

#: Those of one address, so that others find room whatever its clients do.
MOST_OF_ADDRESS = 250


class Owed(Enum):
    """What the page waits for a client to do."""

    NOTHING = "the page has to act"
    HEAD = "send the head of a request"
    BODY = "send the rest of its body"
    READING = "take the answer"


class BoundedProtocol(H11Protocol):
    """Closes connections whose client is waited for too long, and that one first where there are too many.

    Without it they stay for ever, and 1,000 of them leave no room for a new one.
    """

    _owed = Owed.NOTHING
    #: Ends the wait for what is owed, since when that lasts, and how much of an answer was left when it began.
    deadline: asyncio.TimerHandle | None = None
    _since = 0.0
    _left = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, and make room for it."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # tells of each answer that is not taken at once
        self._network = network_of(self.client[0] if self.client else "")
        self._look()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request, unless it is whole. Where another one is behind it, end after the answer.

        No browser sends that one so early; whoever does would have hundreds of answers for a few bytes, unread.
        """
        super().data_received(data)
        self._look()
        is_answered = self.cycle is None or self.cycle.response_complete
        if not is_answered and not self.cycle.more_body and self.conn.trailing_data[0]:
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Wait until the client has taken what is written."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Wait for what comes next."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait(Owed.NOTHING)
        super().connection_lost(exc)

    def _look(self) -> None:
        """Begin to wait for what the client owes now, unless that is waited for already."""
        if self.flow.write_paused:
            owed = Owed.READING
        elif self.transport.is_closing():
            owed = Owed.NOTHING
        elif self.cycle is None or self.cycle.response_complete:
            owed = Owed.HEAD
        else:
            owed = Owed.BODY if self.cycle.more_body else Owed.NOTHING
        if owed is not self._owed:
            self._since = self.loop.time()
            self._wait(owed)

    def _wait(self, owed: Owed) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        self._owed, self._left = owed, self.transport.get_write_buffer_size()
        seconds = {Owed.HEAD: HEAD_SECONDS, Owed.BODY: BODY_SECONDS, Owed.READING: READ_SECONDS}.get(owed)
        if seconds is not None:
            self.deadline = self.loop.call_later(seconds, self._end_wait)

    def _end_wait(self) -> None:
        """Close the connection, unless its client reads, if slowly."""
        if self._owed is Owed.READING and self._left - self.transport.get_write_buffer_size() >= LEAST_BYTES:
            self._wait(Owed.READING)
        else:
            self._close()

    def _make_room(self) -> None:
        """Close the connection that is waited for longest, of this address or of all, where there are too many."""
        everybody = [each for each in self.connections if isinstance(each, BoundedProtocol)]
        own = [each for each in everybody if each._network == self._network]
        crowd = own if len(own) > MOST_OF_ADDRESS else everybody if len(everybody) > MOST_CONNECTIONS else []
        waiting = [each for each in crowd if each.deadline is not None]  # this one at least
        if waiting:
            min(waiting, key=lambda each: each._since)._close()

    def _close(self) -> None:
        """Close the connection at once, also one that has not taken its answer."""
        self._wait(Owed.NOTHING)
        self.transport.abort()
