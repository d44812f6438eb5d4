"""A page in a real browser, on a real server: Debian's chromium, and axe-core from npm."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import uvicorn
from celery import Celery
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from starlette.requests import Request
from support import compiled_templates  # noqa: F401  for all of them
from support.requirements import AXE, require
from support.waiting import wait_until

from redisbeater import ScheduleStore
from redisbeater.dashboard.app import create_app
from redisbeater.dashboard.auth import ALL, User

#: Milliseconds that an element may take to appear on a busy machine.
APPEAR_TIMEOUT_MS = 45_000


@pytest.fixture(scope="module")  # while it is there, an event loop runs, and no test can start one
def browser() -> Iterator[Browser]:
    """Debian's browser, without a window."""
    require("chromium")
    expect.set_options(timeout=APPEAR_TIMEOUT_MS)
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]  # one in software takes a quarter of the time
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, as tests/web/package.json pins it."""
    require("axe-core")
    return AXE.read_text()


async def anna(request: Request) -> User:
    """Recognize everybody as Anna, who may do everything."""
    return User("anna", ALL)


class Site:
    """A schedule and its page, served on a free port."""

    def __init__(self, app: Celery, client: redis.Redis, auth: Any, wrap: Callable[[Any], Any]) -> None:
        self.app, self.client = app, client
        self.store = ScheduleStore(app)
        asgi = wrap(create_app(app, auth=auth, allowed_hosts=["localhost"]))
        self._server = uvicorn.Server(uvicorn.Config(asgi, port=0, log_level="warning", timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "the page to be served")

    @property
    def url(self) -> str:
        """The address of the first page, without a slash at the end."""
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(10)


def _work(*args: Any, **kwargs: Any) -> None:
    """Do nothing: no worker runs."""


@pytest.fixture
def schedule(make_app: Callable[..., Celery]) -> Celery:
    """An app with a few tasks, whose runs are tracked."""
    app = make_app(redisbeater_track_runs=True)
    for name in ("proj.report", "proj.mail", "proj.fetch"):
        app.task(name=name)(_work)
    return app


@pytest.fixture
def make_site(schedule: Celery, client: redis.Redis) -> Iterator[Callable[..., Site]]:
    sites: list[Site] = []

    def make(auth: Any = anna, wrap: Callable[[Any], Any] = lambda page: page) -> Site:
        sites.append(Site(schedule, client, auth, wrap))
        return sites[-1]

    yield make
    for each in sites:
        each.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


@pytest.fixture
def make_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open pages, each with cookies of its own. What they write to the console as an error fails the test."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def make(**options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(APPEAR_TIMEOUT_MS)
        context.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        return context.new_page()

    make.errors = errors  # type: ignore[attr-defined]
    yield make
    for context in contexts:
        context.close()
    assert errors == [], "the browser reported errors, or a violation of the page's own policy"


@pytest.fixture
def page(make_page: Callable[..., Page]) -> Page:
    return make_page()
