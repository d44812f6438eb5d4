"""The sessions of the web page: logging out ends them everywhere, and those of two pages leave each other alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from http.cookiejar import CookieJar
from typing import Any
from urllib.request import Request, urlopen

import pytest
import redis
from celery import Celery
from starlette.applications import Starlette
from starlette.routing import Mount
from support.passwords import cheap_hash
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import wait_until
from web_site import HOST, SECRET, TestClient, browse, served

from redisbeater import ScheduleStore
from redisbeater.dashboard import basic, create_app, hub, token

pytestmark = [
    pytest.mark.usefixtures("shop_with_report"),
]

FORM = {"X-Redisbeater": "1"}


def logged_in(app: Celery, **options: Any) -> TestClient:
    """Return a browser of the page of an app, in a process of its own, in which somebody has logged in."""
    web = browse(app, headers=FORM, **options)
    assert web.post("/login", data={"secret": SECRET}, follow_redirects=False).status_code == 303
    return web


def status(web: TestClient, path: str = "/status") -> int:
    """Return how a page answers: 200, or 303 to the login."""
    return web.get(path, follow_redirects=False).status_code


def test_logging_out_ends_the_session_for_whoever_has_its_cookie_and_in_every_process(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    web, other = logged_in(app), browse(app, headers=FORM)
    other.cookies = web.cookies.__class__(web.cookies)
    assert status(other) == 200
    assert web.post("/logout", follow_redirects=False).status_code == 303
    assert status(other) == 303
    refused = other.post("/entries/disable?name=report", follow_redirects=False)
    assert (refused.status_code, other.get("/status.json").status_code) == (401, 401)
    [key] = client.keys(f"{prefix}:logout:*")
    assert 11 * 3600 < client.ttl(key) <= 12 * 3600
    assert status(logged_in(app)) == 200


def test_a_restart_of_the_page_ends_no_session(app: Celery) -> None:
    web, restarted = logged_in(app), browse(app, headers=FORM)
    restarted.cookies = web.cookies
    assert status(restarted) == 200


def test_a_cookie_whose_session_has_ended_keeps_nobody_from_sending_the_token(app: Celery) -> None:
    web = logged_in(app)
    copied = dict(web.cookies)
    web.post("/logout")
    again = browse(app)
    again.cookies.update(copied)
    assert status(again) == 200


def test_two_pages_of_one_host_leave_each_others_sessions_alone(make_app: Callable[..., Celery], prefix: str) -> None:
    """By port, of which cookies know nothing: two secrets, or two schedules; and by path."""
    one, two = make_app(), make_app(redisbeater_key_prefix=f"{prefix}b:")
    pages: dict[str, Any] = {
        "first": create_app(one, auth=token(SECRET), allowed_hosts=[HOST]),
        "secret": create_app(one, auth=token(SECRET[::-1]), allowed_hosts=[HOST]),
        "schedule": create_app(two, auth=token(SECRET), allowed_hosts=[HOST]),
    }
    paths = {"root": "", "below": "/schedule"}
    routes = [Mount("/schedule", create_app(one, auth=token(SECRET), allowed_hosts=[HOST]))]
    pages["below"] = Starlette(routes=[*routes, Mount("/", pages["first"])])
    jar = CookieJar()
    browsers = {name: TestClient(page, base_url=f"http://{HOST}", headers=FORM) for name, page in pages.items()}
    for name, web in browsers.items():
        web.cookies.jar = jar
        secret = SECRET[::-1] if name == "secret" else SECRET
        root = "/schedule" if name == "below" else ""
        assert web.post(f"{root}/login", data={"secret": secret}, follow_redirects=False).status_code == 303
    found = {name: status(web, "/schedule/status" if name == "below" else "/status") for name, web in browsers.items()}
    assert found == dict.fromkeys(pages, 200), paths
    browsers["secret"].post("/logout")
    browsers["below"].post("/schedule/logout")
    assert [status(browsers[name]) for name in ("first", "schedule", "secret")] == [200, 200, 303]


def test_the_cookie_of_one_page_is_none_on_another(make_app: Callable[..., Celery], prefix: str) -> None:
    first, second = logged_in(make_app()), logged_in(make_app(redisbeater_key_prefix=f"{prefix}b:"))
    [(mine, value)], [(theirs, _)] = first.cookies.items(), second.cookies.items()
    assert mine != theirs
    second.cookies.clear()
    second.cookies.set(theirs, value)
    assert status(second) == 303


def test_where_redis_refuses_to_keep_it_the_page_says_that_the_session_goes_on(
    make_app: Callable[..., Celery], server: Server, client: redis.Redis
) -> None:
    rights = ["~*", "&*", "+@all", "-@write", "+eval", "+evalsha"]
    client.execute_command("ACL", "SETUSER", "reader", "on", ">secret", *rights)
    web = logged_in(make_app(redisbeater_redis_url=server.url(0).replace("://", "://reader:secret@")))
    copied = dict(web.cookies)
    try:
        assert status(web) == 200
        answer = web.post("/logout", follow_redirects=False)
        assert answer.status_code == 503
        assert "logged out in this browser" in answer.text
        assert "+set" in answer.text
        assert "<h1>Redis refuses this</h1>" in answer.text
        assert (status(web), dict(web.cookies)) == (303, {})
        web.cookies.update(copied)
        assert status(web) == 200
    finally:
        client.execute_command("ACL", "DELUSER", "reader")


def test_the_streams_of_a_session_end_in_every_process_and_not_because_redis_is_away(
    app: Celery, make_app: Callable[..., Celery], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "CHECK_SECONDS", 0.1)
    web = logged_in(app)
    [(cookie, value)] = web.cookies.items()
    headers = {"Cookie": f"{cookie}={value}", "Authorization": "Bearer of-nobody"}
    with Proxy(server.port) as proxy:
        other = make_app(redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0", redisbeater_retry_period=0)
        page = create_app(other, auth=token(SECRET), allowed_hosts=[HOST])
        with served(page) as address, urlopen(Request(f"{address}/events", headers=headers), timeout=60) as stream:
            assert stream.readline() == b"retry: 3000\n"
            proxy.refuse()
            wait_until(lambda: stream.readline() == b"event: status\n", "the event of the outage")
            proxy.heal()
            wait_until(lambda: stream.readline() == b"event: status\n", "the event of its end")
            web.post("/logout")
            assert stream.read().endswith(b"event: status\ndata: {}\n\n")


def test_people_with_passwords_log_out_for_themselves_alone(app: Celery) -> None:
    auth = basic({"anna": cheap_hash("pw")})
    browsers = [browse(app, headers=FORM, auth=auth) for _ in range(2)]
    for web in browsers:
        web.post("/login", data={"name": "anna", "secret": "pw"})
    browsers[0].post("/logout")
    assert [status(web) for web in browsers] == [303, 200]


def form_of(page: str) -> tuple[str, list[tuple[str, str]]]:
    """Return where the form of a page is sent to, and its hidden fields."""
    found = re.search(r'<form method="post" action="([^"]+)" data-still>(.*?)</form>', page, re.DOTALL)
    assert found, "the page has no form"
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', found[2])
    return unescape(found[1]), [(unescape(name), unescape(value)) for name, value in fields]


def test_a_form_that_comes_after_the_end_of_its_session_is_sent_again_from_the_answer(
    app: Celery, store: ScheduleStore
) -> None:
    web = logged_in(app)
    cookies = dict(web.cookies)
    web.cookies.clear()
    del web.headers["X-Redisbeater"]
    web.headers["Origin"] = f"http://{HOST}"
    typed = {"was": "report", "description": 'line 1\n"><script>x</script> {{ 7 * 7 }}', "labels": "", "kind": ""}
    answer = web.post("/entry?a=1&b=2", data=typed)
    assert (answer.status_code, store.get("report").description) == (401, "")
    assert "<h1>Your session has ended</h1>" in answer.text
    assert 'href="/login?next=%2F" target="_blank">Log in</a>' in answer.text
    assert "<script>x" not in answer.text
    action, fields = form_of(answer.text)
    assert (action, dict(fields)) == ("/entry?a=1&b=2", typed)
    web.cookies.update(cookies)
    assert web.post(action, data=dict(fields)).status_code == 200
    assert store.get("report").description == typed["description"]


def test_a_form_that_comes_while_redis_is_away_is_sent_again_from_the_answer(
    make_app: Callable[..., Celery], server: Server
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0", redisbeater_retry_period=0)
        web = logged_in(app)
        del web.headers["X-Redisbeater"]
        web.headers["Origin"] = f"http://{HOST}"
        proxy.refuse()
        answer = web.post("/entries/disable?name=report", data={"note": "deploy"})
        assert answer.status_code == 503
        assert "<h1>Redis cannot be reached</h1>" in answer.text
        assert "look before you send it again" in answer.text
        action, fields = form_of(answer.text)
        assert (action, fields) == ("/entries/disable?name=report", [("note", "deploy")])
        proxy.heal()
        assert "Disabled report." in web.post(action, data=dict(fields)).text


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        (FORM, {"was": "report"}),
        ({"Authorization": "Bearer of-nobody-who-is-known"}, {"was": "report"}),
        ({"Origin": f"http://{HOST}"}, {"was": "report", "secret": SECRET}),
        ({"Origin": f"http://{HOST}", "HX-Request": "true"}, {"was": "report"}),
        ({"Origin": f"http://{HOST}", "Content-Type": "text/plain"}, {"was": "report"}),
    ],
    ids=["a program", "credentials", "a secret", "a part of a page", "no form"],
)
def test_no_other_form_comes_back(app: Celery, headers: dict[str, str], data: dict[str, str]) -> None:
    answer = browse(app, headers=headers).post("/entry", data=data)
    assert answer.status_code == 401
    assert "data-still" not in answer.text
    assert SECRET not in answer.text


def test_an_error_has_head_and_navigation_for_who_is_logged_in_alone(app: Celery) -> None:
    web = logged_in(app)
    for path in ("/entry?name=gone", "/nowhere", "/entry"):
        answer = web.get(path)
        assert answer.status_code in (400, 404)
        assert '<nav aria-label="Pages">' in answer.text
        assert " data-answer" in answer.text
    web.post("/logout")
    stranger = web.get("/nowhere")
    assert (stranger.status_code, "<nav" in stranger.text) == (404, False)
    for credentials in (SECRET, "wrong-0123456789abcdef"):  # to be told apart they count as an attempt to log in
        answer = web.get("/nowhere", headers={"Authorization": f"Bearer {credentials}"})
        assert "<nav" not in answer.text
