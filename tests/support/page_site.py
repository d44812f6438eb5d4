"""The web page under attack: what must hold of each answer, of what is stored, and of the next plain request."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, NoReturn
from urllib.parse import quote_from_bytes, unquote, urlencode

import redis
from celery import Celery
from kombu.transport import memory

from redisbeater import ScheduleStore
from redisbeater.dashboard import ALL, OPERATE, VIEW, Right, basic, create_app, hash_password
from redisbeater.dashboard.defences import PROTECTION
from support.hostile import Unpredictable
from support.hostile_site import captured_log, is_same, send_raw, shown
from support.page_attacks import FROM_HERE, HOST, MARK, MARKUP, RUNS, SPOOFED, TASK, PageAttack, Request

__all__ = ("Answer", "PageSite")

#: What an argument of an entry holds that nobody may see but editors who ask for it.
SECRET = "hunter2hunter2"

#: The statuses that an answer may have while Redis answers; 502: the broker refused a run; 503: too many streams.
STATUSES = {200, 303, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 502}

#: How long an answer may take on a busy machine.
MOST_SECONDS = 30.0

#: What an operator may change of a definition.
OPERATED = {"enabled", "disabled_until", "skip"}

RIGHTS = {"viewer": VIEW, "operator": OPERATE, "editor": ALL}

#: What changes the schedule, and the right that this takes.
CHANGES = {
    **dict.fromkeys(("/entry", "/entry/revert", "/entries/delete", "/entries/restore"), Right.EDIT),
    **dict.fromkeys((f"/entries/{verb}" for verb in ("enable", "disable", "trigger", "skip-next")), Right.OPERATE),
    **dict.fromkeys(("/pause", "/resume", "/undo", "/runs/stop", "/runs/restart"), Right.OPERATE),
}

#: Attributes that are addresses.
ADDRESSES = {"href", "src", "action", "formaction", "hx-get", "hx-post"}

#: The keys of a database, with what they hold.
Dumps = dict[bytes, Any]

#: The server's own bounds: what is longer reaches no page.
LONGEST_TARGET, LONGEST_HEADER = 40_000, 16_000


@dataclass(frozen=True)
class Answer:
    """What a client gets."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name.lower()), "")

    @property
    def kind(self) -> str:
        return self.header("content-type").partition(";")[0]


class Markup(HTMLParser):
    """Finds what an attacker has got into a page as a tag, an attribute, a comment, a script or an address."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        odd = [name for name in names if MARK in name or name.startswith(("on", "hx-on")) or "<" in name]
        odd += [name for name in ADDRESSES & names.keys() if not is_ours(names[name] or "")]
        if MARK in tag or odd or (tag == "script" and "src" not in names):
            self.found.append(self.get_starttag_text() or tag)

    def handle_comment(self, data: str) -> None:
        if MARK in data:
            self.found.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def is_ours(address: str) -> bool:
    """Return whether a browser stays on the page's own site."""
    return not address or (address[0] in "/#?" and not address.startswith(("//", "/\\")) and "\t" not in address)


def no_number(text: str) -> NoReturn:
    raise AssertionError(f"{text} is no JSON")


@dataclass
class PageSite:
    """A page over a schedule on a real server, asked in this process by people with each right.

    Arguments:
        url: of the server's database, which is emptied for each attack.
    """

    url: str
    prefix: str = "hostile:"
    figures: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    slowest: str = ""

    def __post_init__(self) -> None:
        self.client = redis.Redis.from_url(self.url)
        self.client.flushdb()
        self.app = self._app()
        #: Each person has one password for the whole fuzz: its hash takes long on purpose.
        auth = basic(dict.fromkeys(RIGHTS, hash_password(SECRET)), rights=RIGHTS)
        self._page = create_app(self.app, auth=auth, allowed_hosts=[HOST])
        self._loop = asyncio.new_event_loop()
        self._number = 0
        self._cookies: dict[str, dict[str, str]] = {}
        self._ids: dict[str, str] = {}
        self._begin()
        self._stored = self._dumps(with_ttl=True)
        self._sessions = {person: dict(self._log_in(person)) for person in RIGHTS}
        self._ids = {person: _session_id(*cookies.values()) for person, cookies in self._sessions.items()}

    def close(self) -> None:
        """Close what the page and this site have opened."""
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self.client.flushdb()
        self.client.close()

    def endure(self, attack: PageAttack) -> None:
        """Write and send what an attack has, and assert that it harms nobody."""
        self.restore()
        with captured_log():
            self.figures["writes"] += send_raw(self.client, attack.written, self.prefix.encode())
            flashes, changed = list[str](), set[bytes]()
            for request in attack.requests:
                before, is_ended = self._dumps(), self._has_ended(request.person)
                answer = self.ask(request, flashes)
                kept = {name: text for name, text in self._set_cookies(answer) if "flash" in name and text}
                self._cookies.get(request.person, {}).update(kept)
                flashes += kept.values()
                changed |= self._changes(request, before, self._dumps(), is_ended=is_ended)
            self._check_rest(changed)
        self.figures["attacks"] += 1

    def restore(self) -> None:
        """Bring the schedule back as it was before the first attack, and everybody's session."""
        with self.client.pipeline() as pipe:
            pipe.flushdb()
            for key, (dump, ttl) in self._stored.items():
                pipe.restore(key, max(ttl, 0), dump)
            pipe.execute()
        memory.Channel.queues.clear()
        self._cookies = {person: dict(cookies) for person, cookies in self._sessions.items()}
        self._number += 1

    def look(self, *targets: str, person: str = "viewer", status: int = 200) -> list[Answer]:
        """Ask for pages as a browser does; return the answers, which must have a status."""
        found = []
        for target in targets:
            answer = self.ask(Request(person, "GET", target, (("Host", HOST),)))
            assert answer.status == status, f"{answer.status} for GET {target}: {shown(answer.body.decode())}"
            found.append(answer)
        return found

    def ask(self, request: Request, flashes: list[str] | None = None) -> Answer:
        """Return the answer to a request, in which all holds that must hold of every answer."""
        began = time.process_time()
        try:
            answer = self._loop.run_until_complete(self._answer(request, flashes or []))
        except Exception as exc:
            raise type(exc)(f"no answer to {_words(request)}: {exc!r}").with_traceback(exc.__traceback__) from exc
        if (took := time.process_time() - began) > self.slowest_seconds:
            self.slowest_seconds, self.slowest = took, _words(request)
        self.figures["requests"] += 1
        self.figures[f"answers {answer.status}"] += 1
        try:
            self._check(request, answer)
        except AssertionError as exc:
            raise AssertionError(f"{exc}; {answer.status} for {_words(request)}") from exc
        return answer

    # The schedule

    def _app(self) -> Celery:
        app = Celery("hostile", broker="memory://", set_as_current=False)
        app.conf.update(
            result_expires=None,
            redisbeater_redis_url=self.url,
            redisbeater_key_prefix=self.prefix,
            redisbeater_schedule_classes=[Unpredictable],
            redisbeater_track_runs=True,
        )
        app.task(name=TASK)(_report)
        return app

    def _begin(self) -> None:
        """Store entries and runs, texts of which are markup, and a secret."""
        store = ScheduleStore(self.app)
        store.create("report", TASK, 60.0, kwargs={"db_password": SECRET, "pages": 3}, labels={"team": "shop"})
        others: dict[str, Any] = {"description": MARKUP[1], "labels": {"k": MARKUP[2]}, "options": {"queue": MARKUP[0]}}
        store.create(SPOOFED, TASK, 3600.0, args=list(MARKUP), kwargs={"token": SECRET}, note=MARKUP[3], **others)
        store.create("disabled", TASK, 60.0, enabled=False, options={"headers": {"Authorization": f"Bearer {SECRET}"}})
        store.create("deleted", TASK, 60.0)
        store.delete("deleted", note=MARKUP[0], by=MARKUP[1])
        self.client.hset(f"{self.prefix}broken", "definition", f'{{"task": "{MARK}", "kwargs": {{"token": "{SECRET}"')
        self.client.zadd(f"{self.prefix}:schedule", {f"{self.prefix}broken": -1})
        self.client.hset(
            f"{self.prefix}:broken", "broken", json.dumps({"reason": MARKUP[0], "since": "2026-01-01T00:00:00+00:00"})
        )
        for number, run_id in enumerate(RUNS):
            self._add_run(run_id, run_id.rpartition("-")[2].upper(), ("report", SPOOFED)[number % 2])

    def _add_run(self, run_id: str, state: str, name: str) -> None:
        now, key = str(int(time.time()) - 60), f"{self.prefix}:run:{run_id}"
        times = dict.fromkeys(("fire_time", "sent_at", "started_at"), now)
        told = {"error": MARKUP[0], "worker": MARKUP[1], "note": MARKUP[4], "by": MARKUP[2], "result": MARKUP[3]}
        self.client.hset(key, mapping={"state": state, "name": name, "task": TASK, "holder": "w:1:a", **times, **told})
        self.client.zadd(f"{self.prefix}:runs:{name}", {key: now})
        if state != "FAILURE":
            self.client.zadd(f"{self.prefix}:active", {key: float(now) + 3600})
            self.client.sadd(f"{self.prefix}:active:{name}", key)

    def _dumps(self, *, with_ttl: bool = False) -> Dumps:
        keys = sorted(self.client.scan_iter(count=1000))
        with self.client.pipeline() as pipe:
            for key in keys:
                pipe.dump(key)
                pipe.pttl(key)
            replies = pipe.execute()
        found = zip(keys, replies[::2], replies[1::2])
        return {key: (dump, ttl) if with_ttl else dump for key, dump, ttl in found if dump is not None}

    # Requests

    def _log_in(self, person: str) -> Iterator[tuple[str, str]]:
        form = urlencode({"name": person, "secret": SECRET}).encode()
        answer = self.ask(Request("anonymous", "POST", "/login", FROM_HERE, form))
        assert answer.status == 303, answer
        yield from self._set_cookies(answer)

    def _set_cookies(self, answer: Answer) -> list[tuple[str, str]]:
        pairs = [value.partition(";")[0].partition("=") for key, value in answer.headers if key == "set-cookie"]
        return [(name, text.strip('"')) for name, _, text in pairs]

    async def _answer(self, request: Request, flashes: list[str]) -> Answer:
        """Hand a request to the page as a server does; hang up on a stream once it has begun."""
        messages: list[dict[str, Any]] = []
        bodies = [{"type": "http.request", "body": self._filled(request.body, flashes), "more_body": False}]
        gone = asyncio.Event()

        async def receive() -> Any:
            if bodies:
                return bodies.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.append(message)
            is_stream = b"text/event-stream" in dict(messages[0]["headers"]).get(b"content-type", b"")
            if message["type"] == "http.response.body" and (is_stream or not message.get("more_body")):
                gone.set()

        await asyncio.wait_for(self._page(self._scope(request), receive, send), MOST_SECONDS)
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in messages[0]["headers"]]
        body = b"".join(message.get("body", b"") for message in messages[1:])
        is_packed = ("content-encoding", "gzip") in headers
        return Answer(messages[0]["status"], headers, gzip.decompress(body) if is_packed else body)

    def _filled(self, body: bytes, flashes: list[str]) -> bytes:
        return body.replace(b"%3Cflash%3E", flashes[-1].encode() if flashes else b"none")

    def _scope(self, request: Request) -> dict[str, Any]:
        target = "".join(char for char in request.target if "!" <= char <= "~")[:LONGEST_TARGET]
        path, _, query = target.partition("?")
        headers = [(name.lower().encode(), _header(value)) for name, value in request.headers]
        cookie = self._cookie(request)
        headers += [(b"cookie", cookie.encode("latin-1"))] if cookie else []
        address = f"10.{self._number >> 16 & 255}.{self._number >> 8 & 255}.{self._number & 255}"
        return {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "scheme": "http",
            "method": request.method, "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "headers": headers, "client": (address, 4000), "server": (HOST, 80), "state": {},
        }  # fmt: skip

    def _cookie(self, request: Request) -> str:
        parts = []
        for name, value in self._cookies.get(request.person, {}).items():
            texts = {
                "right": [value], "cut": [value[:-1]], "changed": [value[:5] + "A" + value[6:]], "none": [],
                "foreign": [value.partition(".")[0] + "." + "0" * 64], "twice": ["x.y", value],
            }  # fmt: skip
            parts += [f"{name}={text}" for text in texts[request.cookie]]
        return "; ".join(parts)

    # What must hold

    def _check(self, request: Request, answer: Answer) -> None:
        """Check an answer."""
        assert answer.status in STATUSES or (answer.status == 503 and "/events" in request.target), "no status is meant"
        names = [name for name, _ in answer.headers]
        for name, value in PROTECTION.items():
            assert name == "Cache-Control" or answer.header(name) == value, f"no header {name}"
        assert "cache-control" in names, "no header Cache-Control"
        for name, value in answer.headers:
            assert MARK not in name, f"the header {name}"
            assert not set("\r\n\0") & set(value), f"a line in the header {name}"
        assert is_ours(answer.header("location")) or _is_login(answer), f"leads to {answer.header('location')}"
        self._check_body(request, answer)

    def _check_body(self, request: Request, answer: Answer) -> None:
        text = answer.body.decode()
        if answer.kind == "application/json":
            json.loads(text, parse_constant=no_number)
        elif answer.kind == "text/html":
            found = Markup()
            found.feed(text)
            found.close()
            assert not found.found, f"markup {shown(found.found[0])}"
        else:
            assert not text or answer.kind in ("text/plain", "text/event-stream", "text/javascript"), (
                f"kind {answer.kind}"
            )
        assert "197530" not in text, "a template in a text was drawn"
        if not (request.person == "editor" and "secrets=1" in request.target):
            assert SECRET not in text + str(answer.headers), "a secret is shown"

    def _changes(self, request: Request, before: Dumps, after: Dumps, *, is_ended: bool) -> set[bytes]:
        """Return the keys that a request has changed, which its person may change."""
        keys = before.keys() | after.keys()
        changed = {key for key in keys if not is_same(self.client, before.get(key), after.get(key))}
        path = request.target.partition("?")[0]
        if path == "/logout":
            changed = {key for key in changed if not key.startswith(f"{self.prefix}:logout:".encode())}
        is_known = request.cookie in ("right", "twice") and not is_ended
        rights = RIGHTS.get(request.person, frozenset()) if is_known else frozenset()
        may_change = request.method == "POST" and CHANGES.get(path) in rights
        assert not changed or may_change, f"{sorted(changed)[:3]} changed by {_words(request)}"
        if request.person == "operator":
            self._check_operated(request, changed, before, after)
        self.figures["changes"] += bool(changed)
        return changed

    def _check_operated(self, request: Request, changed: set[bytes], before: Dumps, after: Dumps) -> None:
        """Check that an operator has created, deleted and edited nothing."""
        own = [key for key in changed if not key.startswith(f"{self.prefix}:".encode())]
        for key in own:
            assert (key in before) == (key in after), f"{key!r} created or deleted by {_words(request)}"
            texts = [self._definition(dump) for dump in (before[key], after[key])]
            assert texts[0] == texts[1], f"{key!r} edited by {_words(request)}"

    def _definition(self, dump: bytes) -> Any:
        """Return what an operator may not change of an entry, by its dump."""
        with self.client.pipeline() as pipe:
            pipe.restore("dumped", 0, dump, replace=True)
            pipe.hget("dumped", "definition")
            pipe.delete("dumped")
            text = pipe.execute(raise_on_error=False)[1]
        try:
            return {name: value for name, value in json.loads(text).items() if name not in OPERATED}
        except (ValueError, TypeError, AttributeError, RecursionError):
            return text

    def _check_rest(self, changed: set[bytes]) -> None:
        """Check that the page serves everybody whose session was not ended, and shows what was changed."""
        for person in RIGHTS:
            self.look("/status.json", person=person, status=401 if self._has_ended(person) else 200)
        person = next((person for person in RIGHTS if not self._has_ended(person)), "anonymous")
        self.look("/", "/index.json", person=person, status=200 if person in RIGHTS else 303)
        self.look("/healthz", person="anonymous")
        names = sorted(key.removeprefix(self.prefix.encode()) for key in changed)
        for name in [name for name in names if not name.startswith(b":")][:3]:
            for path in ("/entry", "/entry.json", "/history"):
                self.ask(Request(person, "GET", f"{path}?name={quote_from_bytes(name, safe='')}", (("Host", HOST),)))

    def _has_ended(self, person: str) -> bool:
        return person in self._ids and bool(self.client.exists(f"{self.prefix}:logout:{self._ids[person]}"))


def _report(*args: object, **kwargs: object) -> None:
    """Do nothing: no worker runs."""


def _is_login(answer: Answer) -> bool:
    return answer.header("location").startswith("/login")


def _session_id(cookie: str) -> str:
    return str(json.loads(base64.urlsafe_b64decode(cookie.partition(".")[0]))[0])


def _header(value: str) -> bytes:
    """Return the bytes of a header as a server lets them through: no line ends, no control characters."""
    kept = "".join(char for char in value if char == "\t" or (char >= " " and char != "\x7f"))
    return kept.encode("latin-1", "replace")[:LONGEST_HEADER].strip()


def _words(request: Request) -> str:
    headers = {name: shown(value) for name, value in request.headers}
    body = shown(request.body.decode("utf-8", "backslashreplace"))
    return f"{request.person} ({request.cookie}) {request.method} {shown(request.target)} {headers} {body}"
