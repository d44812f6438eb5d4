"""Clients of the page's own server that send nothing, or too little: they hold no place for long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from celery import Celery
from support.waiting import wait_until

from redisbeater.dashboard import connections, forms
from redisbeater.dashboard.serving import Serving, configuration

pytestmark = pytest.mark.one_server

HEAD = b"POST /preview HTTP/1.1\r\nHost: localhost\r\nX-Redisbeater: 1\r\n"


@pytest.fixture
def address(app: Celery, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The address of the page, served as the command serves it, with short limits."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(forms, "BODY_SECONDS", 0.5)
    config = configuration(Serving(no_auth=True).app(app))
    config.port, config.timeout_keep_alive = 0, 1
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    wait_until(lambda: web.started, "the page to be served")
    yield web.servers[0].sockets[0].getsockname()[:2]
    web.should_exit = True
    thread.join(10)


def _all(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    with connection:
        connection.settimeout(20)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_a_request_that_never_ends_is_given_up(address: tuple[str, int]) -> None:
    sent = {
        "nothing": b"",
        "half a head": HEAD,
        "half a head behind a request": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEAD,
        "half a body": HEAD + b"Connection: close\r\nContent-Length: 100\r\n\r\nname=",
    }
    opened = {words: socket.create_connection(address) for words in sent}
    for words, connection in opened.items():
        connection.sendall(sent[words])
    found = {words: _all(connection) for words, connection in opened.items()}
    assert found["nothing"] == found["half a head"] == b""
    assert found["half a head behind a request"].endswith(b"ok\n")
    assert found["half a body"].startswith(b"HTTP/1.1 408 ")


def test_a_crowd_that_sends_nothing_keeps_nobody_out(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 60.0)
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    crowd = [socket.create_connection(address) for _ in range(60)]
    with socket.create_connection(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert _all(connection).endswith(b"ok\n")
    assert [_all(each) for each in crowd[:40]] == [b""] * 40
    for each in crowd:
        each.close()
