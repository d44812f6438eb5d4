"""The web page in this process, asked as a browser or a program would ask it."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import uvicorn
from celery import Celery
from starlette.applications import Starlette
from support.pages import block_with

from redisbeater.dashboard import create_app, token

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it prefers another HTTP client
    from starlette.testclient import TestClient

SECRET = "0123456789abcdef-token"
BEARER = {"Authorization": f"Bearer {SECRET}"}
HOST = "jobs.example.com"


def browse(
    app: Celery, *, headers: dict[str, str] | None = None, root: str = "", page: Any = None, **settings: Any
) -> TestClient:
    """Return a client of the page of an app, or of a given one; it sends the token, unless other headers are passed."""
    given = {"auth": token(SECRET), "allowed_hosts": [HOST], **settings}
    web = page or create_app(app, **given)
    client = TestClient(web, base_url=f"http://{HOST}", root_path=root, client=("192.0.2.7", 4000))
    client.headers.update(BEARER if headers is None else headers)
    return client


def undo_form(text: str) -> tuple[str, dict[str, str]]:
    """Return where the button Undo of a page posts its form to, and the fields; nothing: it has no such button."""
    form = re.search(r'<div id="said".*?action="([^"]+)">(.*?)</form>', text.partition("<h1")[0], re.DOTALL)
    return (form[1], dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form[2]))) if form else ("", {})


def undo(web: TestClient, text: str) -> str:
    """Press the button Undo on a page; return the page that comes."""
    action, fields = undo_form(text)
    assert action, "the page offers no undo"
    return web.post(action, data=fields).text


def run_block(
    text: str, app: Celery, monkeypatch: pytest.MonkeyPatch, page: str = "dashboard.rst", **names_of_proj: Any
) -> dict[str, Any]:
    """Run the block of a page of the documentation that has a text, with ``app`` as the one of ``proj``."""
    project = ModuleType("proj")
    vars(project).update(app=app, celery_app=app, **names_of_proj)
    monkeypatch.setitem(sys.modules, "proj", project)
    names: dict[str, Any] = {}
    exec(block_with(page, text), names)
    return names


@contextmanager
def served(page: Starlette) -> Iterator[str]:
    """Serve a page on a free port, in a thread."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(page, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [free]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{free.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)
