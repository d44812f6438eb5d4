"""A TCP proxy with faults, to put between a process under test and a real server.

.. code-block:: python

    with Proxy(server.port) as proxy:       # forwards 127.0.0.1:proxy.port to the server
        proxy.cut()                         # close all connections; new ones are forwarded
        proxy.refuse()                      # close all connections, and refuse new ones
        proxy.swallow()                     # accept connections and data, but forward nothing in either direction
        proxy.delay(0.1)                    # delay all data by so many seconds, in both directions
        proxy.lose_reply(b"LPUSH")          # forward the next request with these bytes, but not its reply
        proxy.cut_after(b"LPUSH", 3)        # forward the third request with these bytes, then close all connections
        proxy.heal()                        # forward everything again; close the connections that have lost data

``refuse``, ``swallow`` and ``delay`` last until ``heal``. ``lose_reply`` and ``cut_after`` happen once; they return an
event that is set when it has happened. A request is one piece of data that arrived at once: enough for what the tests
send, but not a rule of TCP.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

from support.ports import LOOPBACK, free_port, listen

__all__ = ("LOOPBACK", "Proxy")

#: Bytes to read at once.
PIECE = 1 << 16


class Proxy:
    """A forwarder from a port of its own to ``target_port`` on the loopback interface, which can be made to fail."""

    def __init__(self, target_port: int, choose: Callable[[], int] = free_port) -> None:
        self.target_port = target_port
        self._choose = choose
        self.port = 0
        #: How many connections were accepted so far.
        self.accepted = 0
        self._swallows = False
        self._ended = threading.Event()
        self._delay = 0.0
        self._losing = self._cutting = _Trap(b"", 0)
        self._links: set[_Link] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._refuses = False

    def __enter__(self) -> Proxy:
        self._listener = listen(self._choose)
        self.port = int(self._listener.getsockname()[1])
        self._accept_in_background(self._listener)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self.refuse()
        if self._listener is not None:
            self._listener.close()

    def heal(self) -> None:
        """Forward everything again."""
        self._swallows, self._delay = False, 0.0
        self._losing = self._cutting = _Trap(b"", 0)
        for link in self._open_links():
            if link.lost_data or link.loses_replies:
                link.end()
        if self._refuses and self._listener is not None:
            self._refuses = False
            self._listener.listen()
            self._accept_in_background(self._listener)

    def cut(self) -> None:
        """Close all connections."""
        for link in self._open_links():
            link.end()

    def refuse(self) -> None:
        """Close all connections, and refuse new ones."""
        self._refuses = True
        if self._listener is not None:
            with contextlib.suppress(OSError):
                # Not closed: the port would be free for another program. This wakes the thread in accept(), too.
                self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()

    def swallow(self) -> None:
        """Accept connections and data, but forward nothing: like a firewall that drops, or a server that hangs."""
        self._swallows = True

    @property
    def has_swallowed(self) -> bool:
        """Whether data is lost on a connection that is open."""
        return any(link.lost_data for link in self._open_links())

    def delay(self, seconds: float) -> None:
        """Delay all data by this many seconds, in both directions."""
        self._delay = seconds

    def lose_reply(self, marker: bytes) -> threading.Event:
        """Forward the next request that contains the marker, and from then on no reply on its connection."""
        self._losing = _Trap(marker, 1)
        return self._losing.sprung

    def cut_after(self, marker: bytes, times: int = 1) -> threading.Event:
        """Forward this many requests that contain the marker, then close all connections."""
        self._cutting = _Trap(marker, times)
        return self._cutting.sprung

    def _accept_in_background(self, listener: socket.socket) -> None:
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it listens no more
            while True:
                client, _ = listener.accept()
                self.accepted += 1
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection((LOOPBACK, self.target_port))
        except OSError:
            client.close()
            return
        link = _Link(client, server)
        with self._lock:
            self._links.add(link)
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(link, source, sink), daemon=True).start()

    def _pump(self, link: _Link, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):  # one side has closed the connection
            while piece := source.recv(PIECE):
                self._forward(link, piece, sink)
        link.end()
        with self._lock:
            self._links.discard(link)

    def _forward(self, link: _Link, piece: bytes, sink: socket.socket) -> None:
        if self._delay:
            self._ended.wait(self._delay)
        is_request = sink is link.server
        if link.loses_replies and not is_request:
            return
        if self._swallows or link.lost_data:
            link.lost_data = True
            return
        losing, cutting = self._losing, self._cutting
        loses, cuts = is_request and losing.springs_at(piece), is_request and cutting.springs_at(piece)
        link.loses_replies |= loses
        sink.sendall(piece)
        if loses:
            losing.sprung.set()
        if cuts:
            self.cut()
            cutting.sprung.set()

    def _open_links(self) -> list[_Link]:
        with self._lock:
            return list(self._links)


class _Trap:
    """A fault that happens once, at the n-th request with a marker."""

    def __init__(self, marker: bytes, times: int) -> None:
        self.sprung = threading.Event()
        self._marker = marker
        self._left = times

    def springs_at(self, piece: bytes) -> bool:
        """Whether the fault happens at this request."""
        before, self._left = self._left, self._left - piece.count(self._marker)
        return self._left <= 0 < before


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.loses_replies = False
        self.lost_data = False

    def end(self) -> None:
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()
