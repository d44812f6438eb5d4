"""The web page below a path of another application, and as a process of its own."""

from __future__ import annotations

import base64
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest
import redis
from celery import Celery
from click.testing import Result
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from support.waiting import wait_until
from web_site import BEARER, HOST, SECRET, TestClient, browse, run_block, served

from redisbeater import ScheduleStore
from redisbeater.dashboard import OPERATE, User, basic, create_app, hash_password, header, token
from redisbeater.dashboard.serving import Serving, serve

pytestmark = [
    pytest.mark.usefixtures("shop_with_report"),
]


def _basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


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


def test_the_page_in_fastapi_and_in_starlette_is_as_documented(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_TOKEN", SECRET)
    fastapi = TestClient(run_block("from fastapi", app, monkeypatch)["app"], base_url=f"http://{HOST}")
    assert fastapi.get("/schedule/index.json", headers=BEARER).json()["total"] == 1
    assert fastapi.get("/schedule/index.json", headers={"Authorization": "Bearer another"}).status_code == 401
    assert fastapi.get("/docs").status_code == 200
    people = {name: SimpleNamespace(name=name, is_staff=name == "anna") for name in ("anna", "bob")}
    sessions = {"1f0e": people["anna"], "77ac": people["bob"]}

    async def person_of_session(session: str) -> Any:
        return sessions.get(session)

    block = run_block("async def auth", app, monkeypatch, person_of_session=person_of_session)
    starlette = TestClient(block["app"], base_url=f"http://{HOST}")
    answers = {}
    for session in (*sessions, "", "anna"):
        headers = {"X-Redisbeater": "1", "Cookie": f"session={session}", "X-Staff": "anna"}
        answers[session] = starlette.post("/schedule/pause", headers=headers, follow_redirects=False).status_code
    assert answers == {"1f0e": 303, "77ac": 403, "": 401, "anna": 401}
    assert (pause := ScheduleStore(app).paused())
    assert pause.by == "anna"


def test_people_are_recognized_by_password_and_by_a_proxy_as_documented(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HASH_OF_ANNA", hash_password("pw of anna"))
    monkeypatch.setenv("HASH_OF_BERT", hash_password("pw of bert"))
    web = TestClient(run_block("HASH_OF_ANNA", app, monkeypatch, "dashboard.rst")["page"], base_url=f"http://{HOST}")
    people = [("anna", "pw of anna"), ("bert", "pw of bert"), ("bert", "pw of anna")]
    assert [web.get("/new.json", headers=_basic(*each)).status_code for each in people] == [200, 403, 401]
    page = run_block('"X-Forwarded-User"', app, monkeypatch, "dashboard.rst")["page"]
    answers = {}
    for peer, name in [("10.1.2.3", "a@ops.example.com"), ("10.1.2.3", "a@example.com"), ("10.1.2.3", "a@evil.com"),
                       ("192.0.2.7", "a@ops.example.com")]:  # fmt: skip
        web = TestClient(page, base_url=f"http://{HOST}", client=(peer, 4000))
        codes = [web.get(path, headers={"X-Forwarded-User": name}).status_code for path in ("/index.json", "/new.json")]
        answers[peer, name] = codes
    assert list(answers.values()) == [[200, 200], [200, 403], [403, 403], [401, 401]]


async def _own(request: Any) -> User | None:
    return User("dave", OPERATE) if request.headers.get("X-Key") == "k" else None


_PROXY = {"trusted": ["192.0.2.0/24"], "rights": OPERATE}


@pytest.mark.parametrize(
    ("auth", "good", "bad", "name"),
    [
        (token(SECRET, OPERATE), BEARER, {"Authorization": "Bearer 0"}, "token"),
        (basic({"anna": hash_password("pw")}, OPERATE), _basic("anna", "pw"), _basic("anna", "pw2"), "anna"),
        (header("X-User", **_PROXY), {"X-User": "carl"}, {"X-User": ""}, "carl"),
        (_own, {"X-Key": "k"}, {"X-Key": "j"}, "dave"),
    ],
    ids=["token", "basic", "header", "own"],
)
def test_each_way_to_be_recognized_works_below_a_mount(
    app: Celery, auth: Any, good: dict[str, str], bad: dict[str, str], name: str
) -> None:
    whole = _fastapi(create_app(app, auth=auth, allowed_hosts=[HOST]), "/internal/schedule")
    web = TestClient(whole, base_url=f"http://{HOST}", client=("192.0.2.7", 4000), headers={"X-Redisbeater": "1"})
    paths = ("/entries/skip-next", "/entries/delete")
    statuses = {
        path: [
            web.post(f"/internal/schedule{path}?name=report", headers=headers, follow_redirects=False).status_code
            for headers in (good, bad)
        ]
        for path in paths
    }
    assert statuses == {paths[0]: [303, 401], paths[1]: [403, 401]}
    assert ScheduleStore(app).log("report")[0].details["by"] == name


def test_behind_a_proxy_that_cuts_the_path_off_links_have_it(app: Celery) -> None:
    web = browse(app, root="/schedule")
    page = web.get("/history?n=5")
    assert 'name="next" value="/schedule/history?n=5"' in page.text
    assert '<a href="/schedule/history" data-key="h" aria-current="page">' in page.text
    web.headers.pop("Authorization")
    asked = web.get("/history?n=5", follow_redirects=False)
    assert asked.headers["Location"] == "/schedule/login?next=%2Fschedule%2Fhistory%3Fn%3D5"


def test_cookies_are_for_https_where_the_browser_uses_it(app: Celery) -> None:
    web = browse(app, headers={})
    cookies = [
        web.post("/login", data={"secret": SECRET}, headers={"Origin": origin}, follow_redirects=False).headers
        for origin in (f"http://{HOST}", f"https://{HOST}")
    ]
    assert ["Secure" in headers["Set-Cookie"] for headers in cookies] == [False, True]


def test_open_pages_hear_of_changes_by_one_subscription(app: Celery, client: redis.Redis) -> None:
    store = ScheduleStore(app)
    with (
        served(create_app(app, auth=token(SECRET), allowed_hosts=[HOST])) as address,
        urlopen(Request(f"{address}/events", headers=BEARER), timeout=20) as stream,
        urlopen(Request(f"{address}/events", headers=BEARER), timeout=20) as other,
    ):
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.readline() == b"retry: 3000\n"
        wait_until(lambda: any(int(each["sub"]) for each in client.client_list()), "a subscription")
        assert [each["sub"] for each in client.client_list() if each["sub"] != "0"] == ["2"]
        store.update("report", max_runs=3)
        lines = _until(stream, b"event: entries\n")
        assert stream.readline() == b'data: {"names": ["report"]}\n', lines
        store.trigger("report")
        assert _until(stream, b"event: runs\n")[-1] == b"event: runs\n"
        store.pause(note="deploy")
        assert _until(other, b"event: status\n")[-1] == b"event: status\n"


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
        (["--path", "schedule"], "such as /schedule"),
        (["--trusted", "10.0.0.0/8", "--no-auth"], "--auth-header"),
        (["--no-auth", "--token-file", "x"], "--token-file and --no-auth: give only one"),
        (
            ["--token-file", "/nothing/there"],
            "Error: --token-file /nothing/there: cannot be read: No such file",
        ),
        (
            ["--basic-file", "/nothing/there"],
            "Error: --basic-file /nothing/there: cannot be read: No such file",
        ),
        (["--auth-header", "X-User", "--trusted", "proxy"], "Error: --trusted: 'proxy' does not appear to be"),
        (["--trusted-proxy", "proxy"], "Error: --trusted-proxy: 'proxy' does not appear to be"),
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


def test_the_command_serves_below_a_path(app: Celery) -> None:
    serving = Serving(path="/ops/schedule", no_auth=True)
    web = TestClient(serving.app(app), base_url="http://127.0.0.1:5577")
    assert serving.link == "http://127.0.0.1:5577/ops/schedule/"
    assert 'href="/ops/schedule/upcoming"' in web.get("/ops/schedule/").text
    assert web.get("/").status_code == 404


def test_the_command_is_ready_when_the_page_answers(app: Celery) -> None:
    answers: list[int] = []

    def ask() -> None:
        try:
            with urlopen(f"{serving.link}healthz", timeout=5) as answer:
                answers.append(answer.status)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    with socket.create_server(("127.0.0.1", 0)) as free:
        serving = Serving(no_auth=True, port=free.getsockname()[1])
    serve(app, serving, lambda: threading.Thread(target=ask).start())
    assert answers == [200]


def test_a_taken_port_is_one_line_without_a_link(run: Callable[..., Result]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("dashboard", "--port", str(port))
    problem = f"Error: cannot listen on 127.0.0.1 port {port}: Address already in use; pass another --port\n"
    assert (result.exit_code, result.output) == (2, problem)
