"""The web page in a project of Django: its sessions, its users and their permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from celery import Celery
from starlette.applications import Starlette
from starlette.routing import Mount
from support import django_project
from web_site import HOST, TestClient, run_block

from redisbeater import ScheduleStore
from redisbeater.dashboard import ALL, OPERATE, VIEW, create_app, django

pytestmark = [
    pytest.mark.usefixtures("shop_with_report"),
]


@pytest.fixture
def session() -> Iterator[Callable[..., dict[str, str]]]:
    """Make a user of Django; return the cookie of somebody who has logged in as that user."""
    django_project.set_up()
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    def log_in(name: str, permission: str = "", **fields: bool) -> dict[str, str]:
        user = User.objects.create_user(name, password="s3cret", **fields)
        if permission:
            user.user_permissions.add(Permission.objects.get(codename=permission))
        client = Client()
        assert client.login(username=name, password="s3cret")
        return {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}

    yield log_in
    User.objects.all().delete()


def _browse(whole: Any) -> TestClient:
    return TestClient(
        whole, base_url=f"http://{HOST}", headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False
    )


def _mounted(app: Celery, **settings: Any) -> TestClient:
    return _browse(Starlette(routes=[Mount("/ops/schedule", create_app(app, auth=django(**settings)))]))


def test_the_asgi_file_of_the_documentation_serves_both(
    app: Celery, session: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "proj.settings")  # as the file does; gone after the test
    anna = session("anna", is_staff=True)
    web = _browse(run_block("get_asgi_application", app, monkeypatch)["application"])
    asked = web.get("/schedule/history?n=5")
    login = urlsplit(asked.headers["Location"])
    assert (asked.status_code, login.path, parse_qs(login.query)) == (
        303, "/accounts/login/", {"next": ["/schedule/history?n=5"]},
    )  # fmt: skip
    assert web.get(asked.headers["Location"]).text == "log in to go on to /schedule/history?n=5"
    assert web.get("/schedule/index.json").status_code == 401
    page = web.get("/schedule/", headers=anna)
    assert "<summary><bdi>anna</bdi></summary>" in page.text
    [style] = [part.split('"')[0] for part in page.text.split('href="')[1:] if ".css" in part]
    assert style.startswith("/schedule/static/")
    assert web.get(style).headers["Content-Type"].startswith("text/css")
    disabled = web.post("/schedule/entries/disable?name=report", data={"next": "/schedule/status"}, headers=anna)
    assert (disabled.status_code, disabled.headers["Location"]) == (303, "/schedule/status")
    assert ScheduleStore(app).log("report")[0].details["by"] == "anna"


def test_staff_change_and_others_look(app: Celery, session: Callable[..., dict[str, str]]) -> None:
    web = _mounted(app)
    people = {
        "staff": session("staff", is_staff=True),
        "root": session("root", is_superuser=True),
        "other": session("other"),
        "gone": session("gone", is_staff=True),
        "nobody": {"Cookie": "sessionid=planted"},
    }
    from django.contrib.auth.models import User

    User.objects.filter(username="gone").update(is_active=False)
    answers = {}
    for name, cookie in people.items():
        looked = web.get("/ops/schedule/status", headers=cookie)
        changed = web.post("/ops/schedule/pause", headers=cookie)
        answers[name] = (looked.status_code, changed.status_code)
    assert answers == {
        "staff": (200, 303), "root": (200, 303), "other": (200, 403), "gone": (303, 401), "nobody": (303, 401),
    }  # fmt: skip
    none = _mounted(app, others=frozenset())
    assert none.get("/ops/schedule/status", headers=people["other"]).status_code == 403


def test_rights_come_from_permissions_of_the_project(app: Celery, session: Callable[..., dict[str, str]]) -> None:
    def rights(user: Any) -> frozenset:
        if user.has_perm("django_celery_beat.change_periodictask"):
            return ALL
        return OPERATE if user.has_perm("django_celery_beat.view_periodictask") else VIEW

    web = _mounted(app, rights=rights)
    may = {}
    for name, permission in (("a", "change_periodictask"), ("b", "view_periodictask"), ("c", "")):
        cookie = session(name, permission)
        paths = ("/entries/skip-next?name=report", "/entries/delete?name=report")
        may[name] = [web.post(f"/ops/schedule{path}", headers=cookie).status_code for path in paths]
    assert may == {"a": [303, 200], "b": [303, 403], "c": [403, 403]}


def test_a_password_that_was_changed_ends_the_sessions(app: Celery, session: Callable[..., dict[str, str]]) -> None:
    web, cookie = _mounted(app), session("anna")
    from django.contrib.auth.models import User

    before = web.get("/ops/schedule/status", headers=cookie).status_code
    anna = User.objects.get(username="anna")
    anna.set_password("other")
    anna.save()
    after = web.get("/ops/schedule/status", headers=cookie).status_code
    assert (before, after) == (200, 303)
