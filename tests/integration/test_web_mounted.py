"""The web page below a path of another application, and as a process of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import uvicorn
from celery import Celery
from click.testing import Result
from fastapi import FastAPI
from servers import programs
from starlette.applications import Starlette
from starlette.routing import Mount
from web_site import BEARER, HOST, SECRET, TestClient, app_with_tasks

from redisbeater import ScheduleStore
from redisbeater.dashboard import create_app, token
from redisbeater.dashboard.serving import Serving

pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    app = app_with_tasks(make_app())
    ScheduleStore(app).create("report", "shop.report", 60.0)
    return app


def _fastapi(page: Starlette, path: str) -> object:
    app = FastAPI()
    app.mount(path, page)
    return app


def _starlette(page: Starlette, path: str) -> object:
    return Starlette(routes=[Mount(path, page)])


@pytest.mark.parametrize("mounted", [_fastapi, _starlette])
@pytest.mark.parametrize("path", ["/schedule", "/internal/schedule"])
def test_all_links_stay_below_the_path_of_the_mount(
    app: Celery, mounted: Callable[[Starlette, str], object], path: str
) -> None:
    whole = mounted(create_app(app, auth=token(SECRET), allowed_hosts=[HOST]), path)
    web = TestClient(whole, base_url=f"http://{HOST}", headers={"Sec-Fetch-Site": "same-origin"})
    answer = web.post(f"{path}/login", data={"secret": SECRET}, follow_redirects=False)
    assert f"Path={path};" in answer.headers["Set-Cookie"]
    assert answer.headers["Location"] == f"{path}/"
    text = web.get(f"{path}/").text + web.get(f"{path}/entry?name=report").text
    addresses = {part.split('"', 1)[0] for word in ('href="', 'src="', 'action="') for part in text.split(word)[1:]}
    assert {address for address in addresses if not address.startswith((f"{path}/", "#"))} == set()
    disabled = web.post(f"{path}/entries/disable?name=report", data={"next": f"{path}/entry?name=report"})
    assert disabled.url.path == f"{path}/entry"
    assert not ScheduleStore(app).get("report").enabled


@contextmanager
def _served(page: Starlette) -> Iterator[str]:
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


def test_an_open_page_hears_of_changes(app: Celery) -> None:
    store = ScheduleStore(app)
    with (
        _served(create_app(app, auth=token(SECRET), allowed_hosts=[HOST])) as address,
        urlopen(Request(f"{address}/events", headers=BEARER), timeout=20) as stream,
    ):
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.readline() == b"retry: 3000\n"
        store.update("report", max_runs=3)
        lines = _until(stream, b"event: entries\n")
        assert stream.readline() == b'data: {"names": ["report"]}\n', lines
        store.pause("deploy")
        assert _until(stream, b"event: status\n")[-1] == b"event: status\n"


def _until(stream: Iterator[bytes], wanted: bytes) -> list[bytes]:
    """Read lines up to one, for as long as the time-out of the connection lets."""
    lines = []
    for line in stream:
        lines.append(line)
        if line == wanted:
            break
    return lines


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--bind", "0.0.0.0"], "others reach it"),
        (["--bind", "0.0.0.0", "--no-auth"], "others reach it"),
        (["--bind", "example.com"], "others reach it"),
        (["--auth-header", "X-User"], "--trusted"),
        (["--trusted", "10.0.0.0/8", "--no-auth"], "--auth-header"),
        (["--no-auth", "--token-file", "x"], "only one of"),
        (["--token-file", "/nothing/there"], "No such file"),
        (["--basic-file", "/dev/null"], "no name has a password"),
    ],
)
def test_the_command_refuses_what_would_be_open(run: Callable[..., Result], arguments: list[str], problem: str) -> None:
    result = run("dashboard", *arguments)
    assert result.exit_code == 2
    assert problem in result.output


def test_a_token_of_a_file_lets_in_who_sends_it(app: Celery, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    serving = Serving(token_file=str(tmp_path / "token"), bind="0.0.0.0", allowed_hosts=[HOST])
    web = TestClient(serving.app(app), base_url=f"http://{HOST}")
    assert web.get("/status", headers=BEARER).status_code == 200
    assert web.get("/status", headers={"Authorization": "Bearer other"}).status_code == 401
    assert Serving().link.startswith("http://127.0.0.1:5577/login#")
