"""The schedule in Django's admin, in a real browser, from servers of WSGI and of ASGI."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect
from support.example import Example
from support.servers import INSTALL, free_port, programs, running
from support.waiting import wait_until

#: The arguments of Python that start a server of the example, by their interface; the port follows.
SERVERS = {
    "wsgi": ("-m", "gunicorn", "proj.wsgi", "--preload", "--threads", "4", "--bind", "127.0.0.1:{}"),
    "asgi": ("-m", "uvicorn", "proj.asgi:application", "--timeout-graceful-shutdown", "1", "--port", "{}"),
}


@pytest.fixture(params=SERVERS, scope="module")
def interface(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def site(interface: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the example, with a superuser root and an entry tea that is due in an hour."""
    if not programs():
        pytest.fail(INSTALL)
    with running(programs()[0]) as server:
        example, port = Example("django", server, tmp_path_factory.mktemp("site")), free_port()
        try:
            manage = (sys.executable, "manage.py")
            example.run(*manage, "migrate", "--verbosity", "0")
            root = ("--username", "root", "--email", "root@example.com")
            example.run(*manage, "createsuperuser", "--noinput", *root, DJANGO_SUPERUSER_PASSWORD="s3cret")
            example.run(
                *manage, "redisbeater", "create", "tea", "proj.tasks.remind", "--every", "1h", "--args", '["tea"]'
            )
            example.start(*(each.format(port) for each in SERVERS[interface]))
            wait_until(lambda: _answers(f"http://127.0.0.1:{port}/admin/login/"), "the site to answer")
            yield f"http://127.0.0.1:{port}"
        finally:
            example.end()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_staff_act_in_the_list_and_on_the_page_below_it(site: str, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site}/admin/redisbeater/entry/page/entry?name=tea")
    page.get_by_label("Username").fill("root")
    page.get_by_label("Password").fill("s3cret")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="tea")).to_be_visible()  # where the person wanted to go

    page.goto(f"{site}/admin/")
    page.get_by_role("link", name="Entries").first.click()
    page.get_by_label("Select tea").check()
    page.get_by_label("Action:").select_option("Disable")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("Disabled: tea.")).to_be_visible()

    page.get_by_role("link", name="tea").click()
    second = context.new_page()
    second.goto(page.url)
    expect(second.get_by_role("button", name="Enable")).to_be_visible()
    page.get_by_role("button", name="Enable").click()

    expect(page.get_by_text("Enabled tea.")).to_be_visible()
    expect(second.get_by_text("Waits for its time")).to_be_visible()  # by itself: live, or after ten seconds
    context.close()


def test_only_a_server_that_has_a_stream_is_asked_for_one(site: str, interface: str, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path.rpartition("/")[2]))
    page.goto(f"{site}/admin/redisbeater/entry/page/")
    page.get_by_label("Username").fill("root")
    page.get_by_label("Password").fill("s3cret")
    page.get_by_role("button", name="Log in").click()
    words = {"asgi": "live: what changes", "wsgi": "this server sends no stream: the page asks every 10 s"}
    expect(page.locator("#live-state")).to_contain_text(words[interface])
    assert ("events" in asked) == (interface == "asgi")
    context.close()
