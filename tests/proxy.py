"""A TCP proxy with faults, to put between a process under test and a real server.

.. code-block:: python

    with Proxy(server.port) as proxy:       # forwards 127.0.0.1:proxy.port to the server
        proxy.cut()                         # ends all connections; new ones are forwarded
        proxy.refuse()                      # ends all connections, and refuses new ones
        proxy.swallow()                     # a black hole: accepts, and passes nothing on, either way
        proxy.delay(0.1)                    # each piece of data waits that long, in seconds, either way
        proxy.lose_reply(b"LPUSH")          # the next request with these bytes arrives, its reply does not
        proxy.cut_after(b"LPUSH", 3)        # the third request with these bytes arrives, then all is cut
        proxy.heal()                        # forwards as at first; connections that have lost data are ended

``refuse``, ``swallow`` and ``delay`` last until ``heal``. ``lose_reply`` and ``cut_after`` happen once; they return an
event that is set when it has happened. A request is one piece of data that arrived at once: enough for what the tests
send, but not a rule of TCP.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

LOOPBACK = "127.0.0.1"

#: Bytes that are read at once.
PIECE = 1 << 16


class Proxy:
    """Forwards a port of its own to ``target_port``, both on the loopback interface, with the faults told to it."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
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

    def __enter__(self) -> Proxy:
        self._listen()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self.refuse()

    def heal(self) -> None:
        """Forward again, without faults."""
        self._swallows, self._delay = False, 0.0
        self._losing = self._cutting = _Trap(b"", 0)
        for link in self._open_links():
            if link.lost_data or link.loses_replies:
                link.end()
        if self._listener is None:
            self._listen()

    def cut(self) -> None:
        """End all connections."""
        for link in self._open_links():
            link.end()

    def refuse(self) -> None:
        """End all connections, and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
            listener.close()
        self.cut()

    def swallow(self) -> None:
        """Accept and pass nothing on, either way, as a firewall that drops or a server that hangs."""
        self._swallows = True

    def delay(self, seconds: float) -> None:
        """Hold each piece of data back for a while, either way."""
        self._delay = seconds

    def lose_reply(self, marker: bytes) -> threading.Event:
        """Pass the next request that contains the marker on, and swallow what its connection answers from then on."""
        self._losing = _Trap(marker, 1)
        return self._losing.sprung

    def cut_after(self, marker: bytes, times: int = 1) -> threading.Event:
        """Pass so many requests that contain the marker on, then end all connections."""
        self._cutting = _Trap(marker, times)
        return self._cutting.sprung

    def _listen(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, self.port))
        listener.listen()
        self.port = int(listener.getsockname()[1])
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
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
        with contextlib.suppress(OSError):  # one of the sides has ended it
            while piece := source.recv(PIECE):
                self._pass_on(link, piece, sink)
        link.end()
        with self._lock:
            self._links.discard(link)

    def _pass_on(self, link: _Link, piece: bytes, sink: socket.socket) -> None:
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
    """What happens once, at the n-th request with a marker."""

    def __init__(self, marker: bytes, times: int) -> None:
        self.sprung = threading.Event()
        self._marker = marker
        self._left = times

    def springs_at(self, piece: bytes) -> bool:
        """Whether this request is the one."""
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
