"""The web page in a project of Django that is served by WSGI, as docs/recipe-wsgi.rst mounts it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from celery import Celery
from support import django_project
from web_site import HOST, run_block

from redisbeater import ScheduleStore

pytestmark = [
    pytest.mark.one_server,
    pytest.mark.usefixtures("shop_with_report"),
]


@pytest.fixture
def application(app: Celery, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The application of the page's block."""
    django_project.set_up()
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "proj.settings")  # as the file does; gone after the test
    return run_block("ASGIMiddleware", app, monkeypatch, page="recipe-wsgi.rst")["application"]


@pytest.fixture
def browse(application: Any) -> Iterator[Callable[..., httpx.Client]]:
    """Return a client of the site for somebody who has logged in to Django, or for nobody."""
    from django.contrib.auth.models import User
    from django.test import Client

    def client(name: str = "", **fields: bool) -> httpx.Client:
        transport = httpx.WSGITransport(app=application)
        web = httpx.Client(transport=transport, base_url=f"http://{HOST}", headers={"Sec-Fetch-Site": "same-origin"})
        if name:
            User.objects.create_user(name, password="s3cret", **fields)
            django = Client()
            assert django.login(username=name, password="s3cret")
            web.cookies.set("sessionid", django.cookies["sessionid"].value)
        return web

    yield client
    User.objects.all().delete()


def test_staff_see_and_change_the_schedule(app: Celery, browse: Callable[..., httpx.Client]) -> None:
    web = browse("anna", is_staff=True)

    page = web.get("/schedule/")
    [style] = re.findall(r'href="([^"]+\.css)"', page.text)
    disabled = web.post("/schedule/entries/disable?name=report", data={"next": "/schedule/status"})

    assert page.status_code == 200
    assert "<summary><bdi>anna</bdi></summary>" in page.text
    assert web.get(style).headers["Content-Type"].startswith("text/css")
    assert [row["name"] for row in web.get("/schedule/index.json").json()["entries"]] == ["report"]
    assert (disabled.status_code, disabled.headers["Location"]) == (303, "/schedule/status")
    assert not ScheduleStore(app).get("report").enabled
    assert ScheduleStore(app).log("report")[0].details["by"] == "anna"


def test_others_look_and_who_has_not_logged_in_is_sent_to_the_site(browse: Callable[..., httpx.Client]) -> None:
    other, nobody = browse("otto"), browse()

    asked = nobody.get("/schedule/status")

    assert other.get("/schedule/status").status_code == 200
    assert other.post("/schedule/pause").status_code == 403
    assert (asked.status_code, asked.headers["Location"]) == (303, "/accounts/login/?next=%2Fschedule%2Fstatus")
    assert nobody.get(asked.headers["Location"]).text == "log in to go on to /schedule/status"


def test_live_updates_are_refused_at_once_and_the_page_asks_instead(browse: Callable[..., httpx.Client]) -> None:
    web = browse("anna", is_staff=True)

    assert web.get("/schedule/events").status_code == 503
    assert web.get("/schedule/", headers={"X-Redisbeater-Live": "1"}).status_code == 200


def test_the_page_works_in_a_process_that_was_forked_after_the_import(application: Any) -> None:
    """As gunicorn does with ``--preload``."""
    reads, writes = os.pipe()
    if not (child := os.fork()):
        try:
            with httpx.Client(transport=httpx.WSGITransport(app=application), base_url=f"http://{HOST}") as web:
                os.write(writes, str(web.get("/schedule/healthz").status_code).encode())
        finally:
            os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)

    assert os.read(reads, 100) == b"200"
    os.close(reads)
