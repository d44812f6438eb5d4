"""TLS for the tests: certificates, and a terminator for servers without TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import trustme

from support.ports import LOOPBACK, listen


@dataclass(frozen=True)
class Certificates:
    """The certificate files of an authority, of a server on this machine, and of a client."""

    ca: str
    server: str
    server_key: str
    client: str
    client_key: str

    @classmethod
    def issued(cls, folder: Path, name: str = LOOPBACK, not_after: datetime | None = None) -> Certificates:
        """Issue them by a new authority, the server's for ``name`` and until ``not_after``."""
        folder.mkdir(exist_ok=True)
        authority = trustme.CA()
        server, client = authority.issue_cert(name, not_after=not_after), authority.issue_cert("beat@example.org")
        files = {"ca": authority.cert_pem, "server": server.cert_chain_pems[0], "server_key": server.private_key_pem}
        files |= {"client": client.cert_chain_pems[0], "client_key": client.private_key_pem}
        for file, blob in files.items():
            blob.write_to_path(folder / f"{file}.pem")
        return cls(**{file: str(folder / f"{file}.pem") for file in files})

    def for_server(self, *, asks_client: bool = False) -> ssl.SSLContext:
        """Return a server's context, which may require a certificate of its clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, self.server_key)
        if asks_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


@contextlib.contextmanager
def terminator(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Accept TLS on a port, which this yields, and forward to ``port`` without TLS."""
    with listen() as listener, contextlib.ExitStack() as stack:
        threading.Thread(target=_accept, args=(listener, port, context, stack), daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, port: int, context: ssl.SSLContext, stack: contextlib.ExitStack) -> None:
    with contextlib.suppress(OSError):
        while True:
            client = listener.accept()[0]
            threading.Thread(target=_serve, args=(client, port, context, stack), daemon=True).start()


def _serve(client: socket.socket, port: int, context: ssl.SSLContext, stack: contextlib.ExitStack) -> None:
    # Not asyncio: it closes without the alert that tells a client what is wrong with its certificate.
    with contextlib.suppress(OSError), _wrapped(client, context) as secure:
        server = socket.create_connection((LOOPBACK, port))
        stack.callback(_hang_up, secure, server)
        threading.Thread(target=_copy, args=(server, secure), daemon=True).start()
        _copy(secure, server)


def _wrapped(client: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    secure = context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
    try:
        secure.do_handshake()
    except ssl.SSLError:
        # Closed with something unread, the connection would be reset, and the client not see the alert.
        with socket.socket(fileno=os.dup(secure.fileno())) as raw:
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65536):
                pass
        raise
    return secure


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _hang_up(source, target)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
