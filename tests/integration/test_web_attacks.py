"""What an attacker sends to the web page: forged requests and sessions, tries without end, hostile names and texts."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import redis
from celery import Celery
from celery.schedules import BaseSchedule
from starlette.requests import Request
from support.passwords import cheap_hash
from web_site import BEARER, HOST, SECRET, TestClient, browse

from redisbeater import ScheduleStore
from redisbeater.dashboard import User, basic, create_app, hash_password, token
from redisbeater.dashboard.app import ACTIONS
from redisbeater.dashboard.defences import POLICY

pytestmark = [
    pytest.mark.deep,
    pytest.mark.usefixtures("shop_with_report"),
]

FORM = {"Content-Type": "application/x-www-form-urlencoded"}

#: Names that mean something to a shell, a path, a query, a page or a terminal.
NAMES = [
    "../../etc/passwd", "a/b%2Fc", "%00", "<script>alert(1)</script>", "{{ 7*7 }}", "'\"><svg onload=alert(1)>", "a&b",
    "x" * 500, "é" * 250, "\U0001f600" * 100, "javascript:alert(1)", "- -o",
]  # fmt: skip

#: Texts for any field of a form or a query.
TEXTS = [
    "\0", "9" * 5_000, "1e999", "[" * 20_000, "x" * 50_000, "9999-12-31T23:59:59", "10000000000 years", "\u202e",
]  # fmt: skip


def test_every_combination_of_headers_of_a_forged_form(app: Celery) -> None:
    web = browse(app, headers={})
    web.follow_redirects = False
    login = web.post("/login", data={"secret": SECRET}, headers={"Sec-Fetch-Site": "same-origin"})
    assert login.status_code == 303
    sites, origins = (
        (None, "same-origin", "same-site", "cross-site", "none"),
        (None, f"http://{HOST}", "http://evil", "null"),
    )
    refused = []
    for site, origin, bearer, own in itertools.product(sites, origins, (None, BEARER["Authorization"]), (None, "1")):
        named = {"Sec-Fetch-Site": site, "Origin": origin, "Authorization": bearer, "X-Redisbeater": own}
        answer = web.post("/preferences", headers={name: value for name, value in named.items() if value})
        is_ours = site == "same-origin" or (
            not site and (origin == f"http://{HOST}" or (not origin and (bearer or own)))
        )
        assert answer.status_code == (303 if is_ours else 403), named
        refused.append(answer.status_code == 403)
    assert (len(refused), sum(refused)) == (80, 57)


def test_a_session_is_bound_to_its_secret_and_ends(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def session(auth: object, form: dict[str, str]) -> str:
        answer = browse(app, headers={"X-Redisbeater": "1"}, auth=auth).post(
            "/login", data=form, follow_redirects=False
        )
        [(name, cookie)] = answer.cookies.items()
        names.append(name)
        return str(cookie)

    ours = session(token(SECRET), {"secret": SECRET})
    foreign = session(token("another-secret-of-32-characters!"), {"secret": "another-secret-of-32-characters!"})
    before, after = {"anna": cheap_hash("pw"), "bob": cheap_hash("pw")}, {"bob": cheap_hash("pw")}
    annas = session(basic(before), {"name": "anna", "secret": "pw"})
    web = browse(app, headers={}, auth=token(SECRET))
    statuses = {
        whose: web.get("/status", headers={"Cookie": f"{names[0]}={cookie}"}, follow_redirects=False).status_code
        for whose, cookie in (("ours", ours), ("foreign", foreign), ("annas", annas))
    }
    assert len(set(names)) == 3
    assert statuses == {"ours": 200, "foreign": 303, "annas": 303}
    other = browse(app, headers={"X-Redisbeater": "1"}, auth=basic(after))
    [name] = other.post("/login", data={"name": "bob", "secret": "pw"}, follow_redirects=False).cookies
    other.cookies.clear()
    gone = other.get("/status", headers={"Cookie": f"{name}={annas}"}, follow_redirects=False)
    assert gone.status_code == 303
    hours = time.time() + 12 * 3600 + 1
    monkeypatch.setattr(time, "time", lambda: hours)
    answer = web.get("/status", headers={"Cookie": f"{names[0]}={ours}"}, follow_redirects=False)
    assert answer.status_code == 303


def test_the_addresses_of_one_network_of_ipv6_count_as_one(app: Celery) -> None:
    page = create_app(app, auth=token(SECRET), allowed_hosts=[HOST])
    statuses = []
    for address in (*(f"2001:db8:0:1::{number:x}" for number in range(6)), "2001:db8:0:2::1", "fe80::1%eth0",
                    *["::ffff:192.0.2.1"] * 5, "::ffff:192.0.2.2"):  # fmt: skip
        web = TestClient(page, base_url=f"http://{HOST}", client=(address, 4000))
        statuses.append(web.get("/status", headers={"Authorization": "Bearer wrong"}).status_code)
    assert statuses == [401] * 5 + [429] + [401] * 8


#: Two people with passwords, and guesses of them. Three more guesses than one address may have for all names.
PEOPLE = {"anna": cheap_hash("pw of anna"), "bert": cheap_hash("pw of bert")}
GUESSES = 23


def _status(page: object, address: str, name: str, secret: str, forwarded: str = "") -> int:
    """Return what an address is answered that asks with a name and a password; others too by a proxy's header."""
    web = TestClient(page, base_url=f"http://{HOST}", client=(address, 4000))
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    return web.get("/status.json", auth=(name, secret), headers=headers).status_code


@pytest.mark.parametrize(("trusted", "statuses"), [(["10.0.0.0/24"], [401, 429, 200, 200]), ([], [401, 429, 429, 429])])
def test_a_stranger_behind_a_proxy_that_is_named_locks_out_nobody(
    app: Celery, trusted: list[str], statuses: list[int]
) -> None:
    page = create_app(app, auth=basic(PEOPLE), allowed_hosts=[HOST], trusted_proxies=trusted)
    asked = [_status(page, "10.0.0.5", "anna", f"guess {number}", "192.0.2.66") for number in range(5)]
    asked += [_status(page, "10.0.0.5", f"name {number}", "guess", "192.0.2.66") for number in range(16)]
    anna = _status(page, "10.0.0.5", "anna", "pw of anna", "192.0.2.66, 192.0.2.7")
    bert = _status(page, "10.0.0.5", "bert", "pw of bert", "192.0.2.8,10.0.0.9")
    assert [asked[0], asked[-1], anna, bert] == statuses


def test_only_a_trusted_proxy_says_whom_a_failure_counts_for(app: Celery) -> None:
    page = create_app(app, auth=basic(PEOPLE), allowed_hosts=[HOST], trusted_proxies=["10.0.0.5"])
    for peer, forwarded in (
        ("192.0.2.66", "198.51.100.{}"),  # no proxy
        ("10.0.0.5", "198.51.100.{}, 192.0.2.67"),  # who writes more than the proxy adds
        ("10.0.0.5", "198.51.100.{}, nobody"),
    ):
        asked = [_status(page, peer, "anna", "guess", forwarded.format(number)) for number in range(6)]
        assert asked == [401] * 5 + [429], forwarded


def test_one_with_a_login_has_no_more_guesses_at_the_names_of_others(app: Celery) -> None:
    page = create_app(app, auth=basic(PEOPLE), allowed_hosts=[HOST])
    statuses = []
    for number in range(6):
        statuses.append(_status(page, "192.0.2.66", "bert", "pw of bert"))
        statuses.append(_status(page, "192.0.2.66", "anna", f"guess {number}"))
    assert statuses == [200, 401] * 5 + [200, 429]


def test_a_session_of_ones_own_gives_no_guesses_at_another_name(app: Celery) -> None:
    page = create_app(app, auth=basic(PEOPLE), allowed_hosts=[HOST])
    web = TestClient(page, base_url=f"http://{HOST}", client=("192.0.2.66", 4000))
    form = {"name": "bert", "secret": "pw of bert"}
    assert web.post("/login", data=form, headers={"X-Redisbeater": "1"}, follow_redirects=False).status_code == 303
    web.get("/status.json", auth=("anna", "guess"))
    elsewhere = [_status(page, f"198.51.100.{number}", "anna", f"guess {number}") for number in range(GUESSES)]
    assert elsewhere == [401] * 20 + [429] * 3, "however many addresses guess one name"
    assert _status(page, "192.0.2.66", "anna", "guess") == 429


def test_who_has_logged_in_from_an_address_is_kept_out_by_no_other(app: Celery) -> None:
    page = create_app(app, auth=basic(PEOPLE), allowed_hosts=[HOST])
    assert _status(page, "192.0.2.7", "anna", "pw of anna") == 200
    for number in range(GUESSES):
        _status(page, f"198.51.100.{number}", "anna", "guess")
        _status(page, "192.0.2.7", f"name {number}", "guess")
    assert _status(page, "192.0.2.8", "anna", "pw of anna") == 429
    assert _status(page, "192.0.2.7", "anna", "pw of anna") == 200


def test_a_right_token_is_never_refused_for_the_failures_of_others(app: Celery) -> None:
    web = browse(app, headers={"X-Redisbeater": "1"})
    guesses = [web.post("/login", data={"secret": f"guess {number}"}).status_code for number in range(GUESSES)]
    assert guesses == [403] * 20 + [429] * 3
    assert web.get("/status", headers=BEARER).status_code == 200
    assert web.post("/login", data={"secret": SECRET}, follow_redirects=False).status_code == 303


def test_tries_at_the_same_time_count_one_by_one(app: Celery) -> None:
    page = create_app(app, auth=basic({"anna": hash_password("pw")}), allowed_hosts=[HOST])

    async def tries() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(page), base_url=f"http://{HOST}") as client:
            asked = [client.get("/status", auth=("anna", f"guess {number}")) for number in range(12)]
            return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert sorted(asyncio.run(tries())) == [401] * 5 + [429] * 7


#: Pages that need more of an address than a name.
NEEDY = ("/run", "/entry/revert")


def test_methods_that_change_nothing_answer_without_a_body(app: Celery) -> None:
    web = browse(app)
    for action in ACTIONS:
        if action.method == "GET":
            answer = web.head(f"{action.path}?name=report")
            assert (answer.status_code, answer.content) == (400 if action.path in NEEDY else 200, b""), action.path
            assert answer.headers["Content-Security-Policy"] == POLICY
    for method in ("OPTIONS", "TRACE", "PUT", "DELETE", "PATCH"):
        answer = web.request(method, "/entries/delete?name=report")
        assert answer.status_code == 405, method
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert ScheduleStore(app).count() == 1


def test_a_hostile_name_is_text_everywhere_and_can_be_changed(app: Celery) -> None:
    store, web = ScheduleStore(app), browse(app)
    for name in NAMES:
        store.create(name, "shop.report", 60.0, description=f"about {name}", args=[name], labels={"k": name[:40]})
    for path in ("/?sort=name", "/upcoming", *(f"/entry?name={quote(name, safe='')}" for name in NAMES)):
        text = web.get(path).text
        tags = re.sub(r'"[^"]*"', '""', text)
        assert not re.search(r"<script(?! src=)|<svg o|\u202e|<[a-z]+[^>]* on\w+=", tags), path
        assert not re.search(r'(?:href|action|src)="(?!/|#|\?)', text), path
        assert "<bdi>49</bdi>" not in text
    for name in NAMES:
        web.post(f"/entries/disable?name={quote(name, safe='')}")
        assert not store.get(name).enabled, name
    for name in ("a\nb", "a\x1b[31mb", "x" * 513, "a\0b", "\u202etxt.exe"):
        refused = web.post("/entry", data={"name": name, "task": "shop.report", "kind": "every", "every": "1m"})
        assert refused.status_code == 422, repr(name)
        assert 'id="error-name"' in refused.text


class Unsteady(BaseSchedule):
    """A schedule class of the application whose method raises, or returns what is no time to wait."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def remaining_estimate(self, last_run_at: datetime) -> Any:
        if self.answer == "raises":
            raise ConnectionError("no tide table")
        return self.answer

    def to_redisbeater(self) -> str:
        return self.answer

    from_redisbeater = classmethod(lambda cls, answer: cls(answer))


@pytest.mark.parametrize("answer", ["raises", "a text"])
@pytest.mark.parametrize(
    ("target", "status"),
    [
        *((target, 200) for target in ("/", "/?q=tide", "/forecast", "/bands", "/findings", "/upcoming")),
        ("/entry?name=tide", 200),
        ("/upcoming?name=tide", 422),
    ],
)
def test_a_schedule_class_that_raises_costs_no_page(
    make_app: Callable[..., Celery], client: redis.Redis, prefix: str, target: str, status: int, answer: str
) -> None:
    app = make_app(redisbeater_schedule_classes=[Unsteady])
    path = f"{Unsteady.__module__}.{Unsteady.__qualname__}"
    schedule = {"__type__": "custom", "import_path": path, "data": answer}
    client.hset(f"{prefix}tide", "definition", json.dumps({"task": "shop.report", "schedule": schedule}))
    client.zadd(f"{prefix}:schedule", {f"{prefix}tide": 1})

    assert browse(app).get(target).status_code == status


def test_no_text_in_an_address_or_a_form_is_an_error_of_ours(app: Celery) -> None:
    web = browse(app)
    queries = {
        "/": ("q", "page"), "/upcoming": ("within", "at"), "/why": ("at",), "/run": ("id",), "/entry": ("name",),
        "/history": ("since", "before", "n", "q", "error", "id"),
    }  # fmt: skip
    for path, names in queries.items():
        for name, text in itertools.product(names, TEXTS):
            more = "name=report&" if path == "/why" else ""
            answer = web.get(f"{path}?{more}{name}={quote(text)}")
            assert answer.status_code < 500, (path, name, text[:40])
    fields = ("every", "cron", "at", "rrule", "solar", "args", "max_runs", "grace", "jitter")
    for field, text in itertools.product(fields, TEXTS):
        kind = field if field in ("every", "cron", "at", "rrule", "solar") else "every"
        form = {"name": "new", "task": "shop.report", "kind": kind, "every": "1m", field: text}
        answer = web.post("/preview", data=form)
        assert answer.status_code == 200, (field, text[:40])


def test_an_unexpected_error_says_nothing_and_keeps_the_defences(app: Celery) -> None:
    async def broken(_: Request) -> User | None:
        raise KeyError("redis://:hunter2@db")

    page = create_app(app, auth=broken, allowed_hosts=[HOST])
    web = TestClient(page, base_url=f"http://{HOST}", raise_server_exceptions=False)
    answer = web.get("/status")
    assert answer.status_code == 500
    assert "the log of this process has it" in answer.text
    assert "hunter2" not in answer.text
    assert (answer.headers["Content-Security-Policy"], answer.headers["Cache-Control"]) == (POLICY, "no-store")
    assert web.get("/status.json").json()["status"] == 500
