"""Clients of the page's own server that send or take nothing, or too little: they hold no place for long."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files

import pytest
import uvicorn
from celery import Celery
from support.waiting import wait_until

from redisbeater.dashboard import access as forms
from redisbeater.dashboard import serving as connections
from redisbeater.dashboard.serving import Serving, configuration
from redisbeater.dashboard.site import Assets

pytestmark = pytest.mark.deep

HEAD = b"POST /preview HTTP/1.1\r\nHost: localhost\r\nX-Redisbeater: 1\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
PAGE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SLOW_BODY = HEAD + b"Content-Length: 1000\r\n\r\na"
SCRIPT = f"GET /static/{Assets().version}/htmx.min.js HTTP/1.1\r\nHost: localhost\r\n".encode()

PIPELINED = (SCRIPT + b"\r\n") * 120

#: The limit of sockets in this process, which holds both ends, and how many more than a page has.
SOCKETS, CROWD = 4_096, connections.MOST_CONNECTIONS + 10


@pytest.fixture
def web(app: Celery) -> Iterator[uvicorn.Server]:
    """The page, served as the command serves it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, SOCKETS)), hard))
    config = configuration(Serving(no_auth=True).app(app))
    config.port = 0
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    wait_until(lambda: web.started, "the page to be served")
    yield web
    web.should_exit = True
    thread.join(10)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _shrink(web: uvicorn.Server) -> None:
    """Let the system take less than an answer of the page for a client that reads nothing."""
    web.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)


def _send(web: uvicorn.Server, data: bytes, source: str = "127.0.0.1") -> socket.socket:
    """Return a connection on which this was sent, and whose answers find little room."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    connection.bind((source, 0))
    connection.settimeout(60)
    connection.connect(web.servers[0].sockets[0].getsockname()[:2])
    with suppress(OSError):  # one of a crowd may be closed already
        connection.sendall(data)
    return connection


def _all(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_a_request_that_never_ends_is_given_up(web: uvicorn.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(forms, "BODY_SECONDS", 0.5)
    sent = {
        "nothing": b"",
        "half a head": HEAD,
        "half a head behind a request": HEALTH + b"\r\n" + HEAD,
        "half a body": HEAD + b"Connection: close\r\nContent-Length: 100\r\n\r\nname=",
        "half a body that nobody reads": HEALTH + b"Content-Length: 100\r\n\r\nname=",
    }
    opened = {words: _send(web, data) for words, data in sent.items()}
    found = {words: _all(connection) for words, connection in opened.items()}
    assert found["nothing"] == found["half a head"] == b""
    assert found["half a head behind a request"].endswith(b"ok\n")
    assert found["half a body"].startswith(b"HTTP/1.1 408 ")
    assert found["half a body that nobody reads"].endswith(b"ok\n")


def test_a_body_that_never_comes_is_given_up(web: uvicorn.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    assert _all(_send(web, SLOW_BODY)) == b""


@pytest.mark.parametrize("data", [SCRIPT + b"\r\n", SCRIPT + b"Connection: close\r\n\r\n"], ids=["on", "closing"])
def test_a_client_that_does_not_read_is_given_up(
    web: uvicorn.Server, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    _shrink(web)
    with _send(web, data):
        wait_until(lambda: web.server_state.connections, "the connection")
        wait_until(lambda: not web.server_state.connections, "the connection to be closed")


@pytest.mark.deep
def test_a_client_that_reads_slowly_gets_all(web: uvicorn.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 5.0)
    monkeypatch.setattr(connections, "LEAST_BYTES", 1_024)
    _shrink(web)
    connection = _send(web, SCRIPT + b"Connection: close\r\n\r\n")
    wait_until(lambda: any(each.flow.write_paused for each in web.server_state.connections), "a full buffer")
    (served,) = web.server_state.connections
    found = b""
    for _ in range(2):
        deadline = served.deadline
        found += connection.recv(8_192, socket.MSG_WAITALL)
        wait_until(lambda before=deadline: served.deadline is not before, "the end of one wait")
    script = files("redisbeater.dashboard").joinpath("static/htmx.min.js").read_bytes()
    assert (found + _all(connection)).partition(b"\r\n\r\n")[2] == script


def test_requests_behind_one_that_is_not_answered_are_not_begun(web: uvicorn.Server) -> None:
    assert _all(_send(web, PIPELINED)).count(b"HTTP/1.1 200 OK") == 1


@pytest.mark.parametrize(
    ("data", "is_shrunk"),
    [(SLOW_BODY, False), (PIPELINED, False), (SCRIPT + b"\r\n", True), (HEALTH + b"\r\n", False)],
    ids=["slow body", "pipelined", "slow reader", "idle"],
)
def test_a_crowd_that_gets_nowhere_keeps_nobody_out(web: uvicorn.Server, data: bytes, is_shrunk: bool) -> None:
    if is_shrunk:
        _shrink(web)
    crowd = [_send(web, data, f"127.0.0.{2 + number % 3}") for number in range(CROWD)]
    for _ in range(10):
        assert _all(_send(web, PAGE)).startswith(b"HTTP/1.1 200 OK")
        crowd += [_send(web, data, "127.0.0.2") for _ in range(10)]
    for each in crowd:
        each.close()


def test_of_too_many_connections_the_one_that_waits_for_longest_is_closed(
    web: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    crowd = [_send(web, b"") for _ in range(60)]
    assert _all(_send(web, HEALTH + b"Connection: close\r\n\r\n")).endswith(b"ok\n")
    assert [_all(each) for each in crowd[:40]] == [b""] * 40
    for each in crowd:
        each.close()


def test_one_address_has_not_all_connections(web: uvicorn.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ADDRESS", 5)
    other = _send(web, b"", "127.0.0.3")
    crowd = [_send(web, b"", "127.0.0.2") for _ in range(15)]
    assert [_all(each) for each in crowd[:10]] == [b""] * 10
    for each in (other, *crowd[10:]):
        each.sendall(HEALTH + b"Connection: close\r\n\r\n")
        assert _all(each).endswith(b"ok\n")
