"""Who gets to the web page, and what it refuses."""

from __future__ import annotations

import re

import pytest
from celery import Celery
from starlette.requests import Request
from web_site import BEARER, HOST, SECRET, browse

from redisbeater import ImproperlyConfigured, ScheduleStore
from redisbeater.dashboard import ALL, OPERATE, VIEW, User, basic, create_app, hash_password, header, token
from redisbeater.dashboard.app import ACTIONS
from redisbeater.dashboard.defences import POLICY
from redisbeater.dashboard.serving import Serving

pytestmark = [
    pytest.mark.usefixtures("shop_with_report"),
]

READ = sorted(action.path for action in ACTIONS if action.method == "GET" and action.path != "/events")
CHANGES = sorted(action.path for action in ACTIONS if action.method == "POST")
RIGHTS = {(action.method, action.path): action.right for action in ACTIONS}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"}, 403),
        ({"Origin": f"http://{HOST}"}, 200),
        ({"Origin": f"https://{HOST}"}, 200),  # a proxy ends TLS
        ({"Origin": f"http://{HOST}:8080"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": f"http://{HOST}.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"X-Redisbeater": "1"}, 200),
        ({"X-Redisbeater": "0"}, 403),
        (BEARER, 200),
        ({**BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**BEARER, "Origin": "http://evil.example"}, 403),
    ],
)
def test_a_change_comes_from_the_page_itself(app: Celery, headers: dict[str, str], status: int) -> None:
    web = browse(app, headers=headers, auth=_anna)
    answer = web.post("/entries/disable?name=report")
    assert answer.status_code == status
    assert ScheduleStore(app).get("report").enabled is (status != 200)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (HOST, 200), (f"{HOST}:8443", 200), ("localhost:5577", 200), ("127.0.0.1:5577", 200), ("[::1]:5577", 200),
        ("10.1.2.3", 200), ("evil.example", 400), (f"{HOST}.evil.example", 400), (f"evil-{HOST}", 400), ("", 400),
        ("127.0.0.1.nip.io", 400), (f"{HOST}@evil.example", 400), ("[::1", 400), (f"{HOST.upper()}.", 200),
        (f"{HOST}/evil", 400), (f"{HOST}?evil", 400), (f"evil@{HOST}", 400), (f"{HOST}:evil", 400),
        (f"{HOST}:80:80", 400), ("[::1].evil.example", 400), ("[::1]evil.example:80", 400), ("[::1]:80:80", 400),
        ("[localhost]", 400), ("evil.example[::1]", 400), ("[fe80::1%eth0]:80", 200),
    ],
)  # fmt: skip
def test_only_allowed_host_names_are_served(app: Celery, host: str, status: int) -> None:
    answer = browse(app).get("/status", headers={"Host": host})
    assert answer.status_code == status


def test_no_answer_sends_anybody_to_the_host_of_a_request(app: Celery) -> None:
    web = browse(app, page=Serving(path="/schedule", allowed_hosts=[HOST]).app(app))
    answer = web.get("/schedule?state=late", follow_redirects=False)
    assert (answer.status_code, answer.headers.get("Location")) == (307, "/schedule/?state=late")
    assert web.get("/schedule", headers={"Host": "evil.example"}, follow_redirects=False).status_code == 400
    assert browse(app).get("/entry/?name=report", follow_redirects=False).status_code == 404


@pytest.mark.parametrize("host", ["a b", "", "https://jobs.example.com", "jobs.example.com:8080", "jobs.example.com/x"])
def test_an_allowed_host_that_no_request_can_name_is_refused_at_the_start(app: Celery, host: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"allowed_hosts: .* is no name of a host; expected one such as"):
        create_app(app, auth=token(SECRET), allowed_hosts=[HOST, host])
    with pytest.raises(ValueError, match=r"--allowed-host: .* is no name of a host"):
        Serving(allowed_hosts=[host]).check()


@pytest.mark.parametrize("host", ["Jobs.Example.com", ".example.com", "*", "localhost", "10.0.0.1", "::1", "[::1]"])
def test_whatever_a_request_can_name_may_be_allowed(app: Celery, host: str) -> None:
    assert create_app(app, auth=token(SECRET), allowed_hosts=[host]).routes


def test_a_page_without_allowed_hosts_is_refused_at_the_start(app: Celery) -> None:
    with pytest.raises(ImproperlyConfigured, match=r'allowed_hosts=\["jobs.example.com"\]'):
        create_app(app, auth=token(SECRET))


def test_a_proxy_that_is_no_address_is_refused_at_the_start(app: Celery) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"trusted_proxies: 'proxy' does not appear .*\[\"10.0.0.0/8\"\]"):
        create_app(app, auth=token(SECRET), allowed_hosts=[HOST], trusted_proxies=["proxy"])


def test_every_answer_has_the_headers_that_defend_it(app: Celery) -> None:
    web, below = browse(app), browse(app, page=Serving(path="/schedule", allowed_hosts=[HOST]).app(app))
    answers = [(path, web.get(f"{path}?name=report")) for path in (*READ, "/login", "/nothing-there", "/healthz")]
    answers += [(path, below.get(path, follow_redirects=False)) for path in ("/schedule", "/schedule/login", "/")]
    for path, answer in answers:
        assert answer.headers["Content-Security-Policy"] == POLICY, path
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert not re.search(r"<script(?! src=)|<style| style=| on[a-z]+=", answer.text), path


def test_nobody_is_let_in_without_logging_in(app: Celery) -> None:
    web = browse(app, headers={"X-Redisbeater": "1"})
    for method, path in RIGHTS:
        answer = web.request(method, path, follow_redirects=False)
        assert answer.status_code == (303 if method == "GET" else 401), path
        assert answer.headers.get("Location", "/login").startswith("/login")
    assert web.get("/index.json").status_code == 401


@pytest.mark.parametrize("rights", [VIEW, OPERATE], ids=["view", "operate"])
def test_a_page_needs_its_right(app: Celery, rights: frozenset) -> None:
    web = browse(app, auth=token(SECRET, rights))
    for method, path in set(RIGHTS) - {("GET", "/events")}:
        answer = web.request(method, path)
        assert (answer.status_code == 403) is (RIGHTS[method, path] not in rights), path


def test_a_page_that_is_read_only_changes_nothing(app: Celery) -> None:
    web = browse(app, read_only=True)
    for path in CHANGES:
        answer = web.post(f"{path}?name=report", data={"name": "report", "confirm": "1"})
        assert answer.status_code == (403 if path not in ("/preview", "/preferences") else 200), path
    assert ScheduleStore(app).get("report").enabled
    assert ScheduleStore(app).paused() is None


def test_nothing_is_changed_by_get(app: Celery) -> None:
    web = browse(app)
    for path in CHANGES:
        answer = web.get(f"{path}?name=report&confirm=1")
        asked = {"/entry": 200, "/pause": 200, "/entry/run": 200, "/entry/backfill": 200, "/entry/revert": 400}
        assert answer.status_code == asked.get(path, 405), path
    assert [entry.name for entry in ScheduleStore(app).list() if entry.enabled] == ["report"]


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "javascript:alert(1)", "/\nx"]
)
def test_no_redirect_leaves_the_site(app: Celery, target: str) -> None:
    web = browse(app)
    answers = [
        web.post("/entries/disable?name=report", data={"next": target}, follow_redirects=False),
        web.post("/preferences", data={"next": target}, follow_redirects=False),
        web.post("/login", data={"secret": SECRET, "next": target}, follow_redirects=False),
    ]
    assert [(answer.status_code, answer.headers["Location"]) for answer in answers] == [(303, "/")] * 3


def test_a_login_begins_a_new_session_whose_cookie_no_script_reads(app: Celery) -> None:
    web = browse(app, headers={"Sec-Fetch-Site": "same-origin"})
    [name] = web.post("/login", data={"secret": SECRET}, follow_redirects=False).cookies
    web.cookies.clear()
    web.cookies.set(name, "planted.0000", domain=HOST)
    assert web.get("/status", follow_redirects=False).status_code == 303
    answer = web.post("/login", data={"secret": SECRET, "next": "/status"}, follow_redirects=False)
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/;" in cookie
    assert "planted" not in cookie
    assert "Secure" not in cookie


def test_a_cookie_that_somebody_made_is_none(app: Celery) -> None:
    web = browse(app, headers={"Sec-Fetch-Site": "same-origin"})
    answer = web.post("/login", data={"secret": SECRET}, follow_redirects=False)
    [(name, made)] = answer.cookies.items()
    content, _, signature = made.partition(".")
    web.cookies.clear()
    statuses = []
    for cookie in (f"{content}x.{signature}", f"{content}.", ".", "x", f"{content}.{signature}"):
        statuses.append(web.get("/status", headers={"Cookie": f"{name}={cookie}"}, follow_redirects=False).status_code)
    assert statuses == [303, 303, 303, 303, 200]


def test_a_name_waits_after_five_failures_from_an_address(app: Celery) -> None:
    web = browse(app, headers={"Sec-Fetch-Site": "same-origin"}, auth=basic({"anna": hash_password("s3cret")}))
    statuses = [web.post("/login", data={"name": "anna", "secret": "wrong"}).status_code for _ in range(6)]
    answer = web.post("/login", data={"name": "anna", "secret": "s3cret"})
    assert statuses == [403] * 5 + [429]
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 61


def test_wrong_bearers_count_as_failures(app: Celery) -> None:
    web = browse(app, headers={"Authorization": "Bearer wrong"})
    assert [web.get("/status").status_code for _ in range(6)] == [401] * 5 + [429]


def test_names_and_passwords_let_in_whom_they_belong_to(app: Celery) -> None:
    web = browse(app, headers={}, auth=basic({"anna": hash_password("s3cret")}, {"an.*": VIEW}))
    assert web.get("/status", auth=("anna", "s3cret")).status_code == 200
    assert web.get("/status", auth=("anna", "other")).status_code == 401
    assert web.get("/status", auth=("bob", "")).status_code == 401


@pytest.mark.parametrize(
    ("trusted", "given", "status"),
    [
        (["192.0.2.0/24"], [("X-User", "anna")], 200),
        (["10.0.0.0/8"], [("X-User", "anna")], 401),
        (["10.0.0.0/8"], [("X-User", "anna"), ("X-Forwarded-For", "10.0.0.1")], 401),
        (["192.0.2.0/24"], [("X-User", "anna"), ("X-User", "root")], 401),
        (["192.0.2.0/24"], [], 401),
        (["192.0.2.0/24"], [("X-User", " ")], 401),
    ],
)
def test_a_header_counts_only_from_the_proxy(
    app: Celery, trusted: list[str], given: list[tuple[str, str]], status: int
) -> None:
    web = browse(app, headers={}, auth=header("X-User", trusted=trusted, rights=VIEW))
    assert web.get("/status", headers=given).status_code == status


def test_rights_by_name_match_the_whole_name(app: Celery) -> None:
    web = browse(app, headers={}, auth=header("X-User", trusted=["192.0.2.7"], rights={r".*@example\.com": ALL}))
    statuses = [web.get("/status", headers={"X-User": name}).status_code for name in
                ("anna@example.com", "anna@example.com.evil.org", "anna@exampleXcom")]  # fmt: skip
    assert statuses == [200, 403, 403]


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b'{"name": "report"}', 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("text/plain", b"name=report", 415),
        ("application/x-www-form-urlencoded", b"name=" + b"x" * 300_000, 413),
        ("application/x-www-form-urlencoded", b"&".join([b"name=x"] * 1_300), 413),
        ("application/x-www-form-urlencoded", b"name=\xff", 400),
    ],
)
def test_bodies_of_forms_are_bounded(app: Celery, kind: str, body: bytes, status: int) -> None:
    answer = browse(app).post("/preferences", content=body, headers={"Content-Type": kind})
    assert answer.status_code == status


def test_an_error_is_json_for_programs(app: Celery) -> None:
    answer = browse(app).get("/entry.json?name=nothing")
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert "nothing" in answer.json()["error"]


async def _anna(_: Request) -> User:
    return User("anna", ALL)
