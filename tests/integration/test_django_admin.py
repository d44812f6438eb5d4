"""The application of Django: the admin's list, the page below it, the command, the checks; by its permissions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from celery import _state as celery_state
from support import django_project
from web_site import HOST

from redisbeater import ScheduleStore

pytestmark = [
    pytest.mark.usefixtures("shop_with_report"),
]

LIST, FORM = "/admin/redisbeater/entry/", "application/x-www-form-urlencoded"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Celery], None]:
    """Make an app that of the project, in all threads, until the test ends."""

    def use(app: Celery) -> None:
        app.set_current()
        monkeypatch.setattr(celery_state, "default_app", app)

    django_project.set_up()
    return use


@pytest.fixture
def log_in(app: Celery, use: Callable[[Celery], None]) -> Iterator[Callable[..., Any]]:
    """Make a user of the staff with some permissions; return a client of the site who has logged in as that user."""
    use(app)
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    def log_in(name: str, *permissions: str, **fields: bool) -> Client:
        user = User.objects.create_user(name, password="s3cret", **{"is_staff": True, **fields})
        for permission in permissions:
            user.user_permissions.add(Permission.objects.get(codename=permission))
        web = Client(headers={"Host": HOST, "Sec-Fetch-Site": "same-origin"})
        assert web.login(username=name, password="s3cret")
        return web

    yield log_in
    User.objects.all().delete()


def _act(web: Any, action: str, *names: str, **more: str) -> Any:
    return web.post(LIST, {"action": action, "name": list(names), **more}, follow=True)


def _names(answer: Any) -> list[str]:
    return re.findall(r"<bdi>(.*?)</bdi>", answer.content.decode())


def test_the_list_shows_searches_and_filters_entries(app: Celery, log_in: Callable[..., Any]) -> None:
    ScheduleStore(app).create("<b>odd</b>", "shop.mail", 3600.0)
    web = log_in("anna", "view_entry")

    assert _names(web.get(LIST)) == ["report", "&lt;b&gt;odd&lt;/b&gt;"]
    assert _names(web.get(LIST, {"q": "rep"})) == ["report"]
    assert _names(web.get(LIST, {"result": "failed"})) == []
    assert "every minute" in web.get(LIST).content.decode()
    assert "Entries" in web.get("/admin/").content.decode()


def test_actions_are_offered_and_done_by_permissions(app: Celery, log_in: Callable[..., Any]) -> None:
    store = ScheduleStore(app)
    people = {
        name: log_in(name, *permissions)
        for name, permissions in {
            "nobody": (), "viewer": ("view_entry",), "operator": ("operate_entry",), "editor": ("change_entry",),
        }.items()
    }  # fmt: skip
    offered = {
        name: re.findall(r'<option value="([a-z-]+)"', web.get(LIST).content.decode()) for name, web in people.items()
    }

    assert people["nobody"].get(LIST).status_code == 403
    assert offered == {
        "nobody": [], "viewer": [], "operator": ["trigger", "disable", "enable"],
        "editor": ["trigger", "disable", "enable", "delete"],
    }  # fmt: skip
    assert "Nothing was changed" in _act(people["viewer"], "disable", "report").content.decode()
    assert store.get("report").enabled
    assert "Disabled: report." in _act(people["operator"], "disable", "report").content.decode()
    assert store.log("report")[0].details["by"] == "operator"
    _act(people["operator"], "delete", "report", confirmed="yes")
    assert store.exists("report")


def test_what_takes_something_away_asks_first(app: Celery, log_in: Callable[..., Any]) -> None:
    store, web = ScheduleStore(app), log_in("anna", "change_entry")

    asked = _act(web, "delete", "report").content.decode()
    was_there = store.exists("report")
    _act(web, "delete", "report", confirmed="yes")

    assert "Delete: are you sure?" in asked
    assert 'name="name" value="report"' in asked
    assert (was_there, store.exists("report")) == (True, False)


def test_one_entry_that_is_gone_hinders_no_other(app: Celery, log_in: Callable[..., Any]) -> None:
    said = _act(log_in("anna", "operate_entry"), "disable", "gone", "report").content.decode()

    assert "Disabled: report." in said
    assert "No entry named &#x27;gone&#x27;" in said


def test_the_page_below_the_admin_has_the_same_permissions(app: Celery, log_in: Callable[..., Any]) -> None:
    for web, status in ((log_in("viewer", "view_entry"), 403), (log_in("operator", "operate_entry"), 303)):
        page = web.get(f"{LIST}page/")
        [style] = re.findall(r'href="([^"]+\.css)"', page.content.decode())
        assert page.status_code == 200
        assert web.get(style)["Content-Type"].startswith("text/css")
        assert web.post(f"{LIST}page/entries/disable?name=report", "", FORM).status_code == status
        assert web.get("/schedule/index.json").json()["entries"][0]["name"] == "report"
    assert not ScheduleStore(app).get("report").enabled
    assert log_in("nobody").get(f"{LIST}page/").status_code == 403


def test_another_site_changes_nothing(app: Celery, log_in: Callable[..., Any]) -> None:
    web = log_in("anna", "change_entry")

    answer = web.post(f"{LIST}page/entries/disable?name=report", "", FORM, headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 403
    assert ScheduleStore(app).get("report").enabled


@pytest.mark.parametrize(
    ("login_url", "sent_to"),
    [
        ("login", "/accounts/login/"), ("/accounts/nowhere/", "/admin/login/"), ("no-such-name", "/admin/login/"),
        ("https://sso.example.com/", "https://sso.example.com/"),
    ],
)  # fmt: skip
def test_who_has_not_logged_in_is_sent_to_a_page_that_exists(
    log_in: Callable[..., Any], login_url: str, sent_to: str
) -> None:
    from django.test import Client, override_settings

    with override_settings(LOGIN_URL=login_url):
        answer = Client(headers={"Host": HOST}).get(f"{LIST}page/status")

    assert answer.status_code == 303
    assert answer["Location"] == f"{sent_to}?next=%2Fadmin%2Fredisbeater%2Fentry%2Fpage%2Fstatus"


def test_the_list_says_that_redis_does_not_answer(
    log_in: Callable[..., Any], make_app: Callable[..., Celery], use: Callable[[Celery], None]
) -> None:
    web = log_in("anna", "view_entry")
    use(make_app(redisbeater_redis_url="redis://127.0.0.1:1/0"))

    answer = web.get(LIST)

    assert answer.status_code == 503
    assert "127.0.0.1:1" in answer.content.decode()


def test_under_asgi_the_page_is_live_and_what_changes_comes_by_itself(app: Celery, log_in: Callable[..., Any]) -> None:
    cookie = log_in("anna", "view_entry").cookies["sessionid"].value
    from django.test import AsyncClient, override_settings

    async def events() -> tuple[int, str]:
        web = AsyncClient()
        web.cookies["sessionid"] = cookie
        answer = await web.get(f"{LIST}page/events?since=none")
        assert answer.status_code == 200, answer.content
        parts = answer.streaming_content
        first = await anext(aiter(parts))
        await parts.aclose()
        return answer.status_code, first.decode()

    with override_settings(ALLOWED_HOSTS=["testserver"]):
        status, first = asyncio.run(events())

    assert status == 200
    assert first


def test_under_wsgi_there_are_no_live_updates(log_in: Callable[..., Any]) -> None:
    assert log_in("anna", "view_entry").get(f"{LIST}page/events").status_code == 404


def test_an_error_of_the_page_is_an_error_of_the_view(
    log_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    web = log_in("anna", "view_entry")
    monkeypatch.setattr("django.contrib.auth.get_user", None)

    with pytest.raises(TypeError):
        web.get(f"{LIST}page/status")


def test_the_command_has_the_commands_of_the_command_line(
    app: Celery, use: Callable[[Celery], None], capsys: pytest.CaptureFixture[str]
) -> None:
    use(app)
    from django.core.management import call_command

    call_command("redisbeater", "list", "--json")

    assert '"report"' in capsys.readouterr().out


def test_checks_name_what_is_wrong_with_the_settings(
    make_app: Callable[..., Celery], use: Callable[[Celery], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.conf import settings
    from django.core.checks import run_checks

    def found(**conf: Any) -> list[str]:
        checked = make_app(**conf)
        checked.namespace = "CELERY"
        use(checked)
        return [f"{each.id}: {each.msg}" for each in run_checks(tags=["redisbeater"])]

    good = {"beat_scheduler": "redisbeater"}
    monkeypatch.setattr(settings, "REDISBEATER_KEY_PREFIX", "mine:", raising=False)
    assert found(**good) == ["redisbeater.W001: REDISBEATER_KEY_PREFIX is not read"]
    monkeypatch.delattr(settings, "REDISBEATER_KEY_PREFIX")
    assert found(**good) == []
    assert found(beat_scheduler="celery.beat:PersistentScheduler") == [
        "redisbeater.W002: beat would use another scheduler: celery.beat:PersistentScheduler"
    ]
    assert [each[:16] for each in found(**good, redisbeater_max_rate=-1)] == ["redisbeater.E002"]


def test_a_check_for_deployment_has_what_lint_finds(app: Celery, log_in: Callable[..., Any]) -> None:
    from django.core.checks import run_checks

    ScheduleStore(app).create("never", "shop.nowhere", 60.0)
    app.conf.beat_scheduler = "redisbeater"

    found = {
        (each.id, each.msg.partition(":")[0])
        for each in run_checks(tags=["redisbeater"], include_deployment_checks=True)
    }

    assert ("redisbeater.unknown-task", "never") in found
