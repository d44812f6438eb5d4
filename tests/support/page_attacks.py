"""What strangers and people with few rights send to the web page: strategies for paths, fields, headers and cookies.

A request is what a server such as uvicorn makes of the bytes of a client: no library between them leaves anything out.
Most are nearly right, and come from where the page's own forms do: others do not get far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, urlencode

from hypothesis import strategies as st

from redisbeater.dashboard.app import ACTIONS
from support.hostile import NINES, SPOOFS, Entry, Key, Member, mostly, odd_texts, some_of, writes

__all__ = ("ENTRIES", "HOST", "MARK", "PAGE_ATTACKS", "PEOPLE", "RUNS", "SPOOFED", "TASK", "PageAttack", "Request")

HOST = "jobs.example.com"

#: The people, by what they may do; the first one is not logged in.
PEOPLE = ("anonymous", "viewer", "operator", "editor")

TASK = "shop.report"

#: What no page of ours has in a tag, an attribute, a header or an address.
MARK = "xq7"

#: Texts that are markup, code, an address or a header to whatever does not escape them.
MARKUP = (
    f"<{MARK}>",
    f"\"><{MARK} a='",
    f'\' {MARK}=1 onclick={MARK} " {MARK}=1 onclick="{MARK}',
    f"</script></textarea></title></style>--><{MARK}>",
    f"<script>{MARK}</script><img src=x onerror={MARK}>",
    "{{ 98765 * 2 }}{% raw %}${98765*2}",
    f"javascript:{MARK}",
    f"//{MARK}.example",
    f"/\\{MARK}.example",
    f"/\t/{MARK}.example",
    f"https://{MARK}.example/",
    f"x\r\nX-{MARK}: 1\r\nSet-Cookie: {MARK}=1",
    f"&lt;{MARK}&gt; &#60;{MARK}&#62;",
)

#: A name of markup, which is that of an entry.
SPOOFED = f"a/b \"'><{MARK} onclick={MARK}>"
ENTRIES = ("report", "disabled", "broken", SPOOFED)
RUNS = ("11111111-run-failure", "22222222-run-started", "33333333-run-buffered")

sizes = st.sampled_from(["x" * 600, "x" * 50_000, "[" * 9_000, NINES, "1e999", "é" * 20_000, "a=b\n" * 2_000])
texts = st.one_of(
    st.sampled_from(MARKUP),
    st.sampled_from(MARKUP),
    odd_texts,
    st.sampled_from([*SPOOFS, "\0", "%00", "../../etc/passwd", "NaN", "-Infinity", "1e999", "a" * 513, *ENTRIES]),
    sizes,
)


def usually(*values: str) -> st.SearchStrategy[str]:
    """Return one of some values three times, and any text once."""
    return mostly(st.sampled_from(values), texts)


# Fields of addresses and forms

names = usually(*ENTRIES)
moments = usually(
    "tomorrow 9:00", "1h", "2h ago", "2030-01-01T00:00:00+00:00", "9999-12-31T23:59:59", "0001-01-01T00:00:00", "now",
    "2026-03-29T02:30:00", "10000000000 years", "-1h", "24:00",
)  # fmt: skip
counts = usually("1", "2", "0", "-1", "200", "999999999", "1.5", "٣", "1e3")
durations = usually("1m", "90s", "24h", "7d", "0", "-1s", "1e-9s", "99999999999w")
flags = usually("1", "1", "0", "yes", "")
objects = usually(
    '{"pages": 3}', '{"db_password": "***"}', '{"shown": "***"}', "[1, 2]", '["***"]', "{}", '{"a": NaN}', "[1e999]",
    '{"a": 1, "a": 2}', '{"__proto__": 1}', '{"queue": "other", "expires": 60}', '{"headers": {"a": "***"}}',
)  # fmt: skip

#: The usual values of each field, in addresses and in forms.
FIELDS: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(("name", "was", "like", "copy"), names),
    **dict.fromkeys(("at", "since", "before", "until", "start_at", "end_at"), moments),
    **dict.fromkeys(("within", "every", "grace", "jitter", "deadline"), durations),
    **dict.fromkeys(("n", "page", "max_runs", "disable_after_failures", "if_version"), counts),
    **dict.fromkeys(("args", "kwargs", "options"), objects),
    **dict.fromkeys(("all", "secrets", "undo", "once", "requeue_lost"), flags),
    "confirm": usually("1"),
    "next": st.one_of(usually("/", "/status", "/entry?name=report"), st.sampled_from(MARKUP)),
    "id": usually(*RUNS, "<flash>"),
    "task": usually(TASK),
    "kind": usually("every", "cron", "rrule", "at", "solar", ""),
    "step": usually("check", "", "arguments", "switch", "restore"),
    "arguments": usually("fields", "json"),
    "arg.pages": usually("3", "many", '"5"', "***", "[1]"),
    "state": usually("broken", "late", "deleted", "enabled", "SUCCESS,LOST", "skipped"),
    "sort": usually("next", "name", "late"),
    "label": usually("team=shop", "team", "="),
    "labels": usually("team=shop", "team", "=x", "a=b\nc=d", "db_password=***"),
    "on_finish": usually("keep", "disable", "delete"),
    "coalesce": usually("latest", "earliest", "all"),
    "overlap": usually("allow", "skip", "buffer_one", "cancel_other"),
    "cron": usually("0 9 * * 1-5", "* * * * * *", "60 * * * *", "0 0 31 2 *", "@daily", "H H * * *"),
    "rrule": usually("FREQ=DAILY", "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=", "DTSTART:1970"),
    "solar": usually("sunset 48.2 16.4", "sunset 91 0", "sunset nan inf"),
    "timezone": usually("Europe/Vienna", "../../etc/passwd", "Mars/Olympus"),
    "zone": usually("utc", "browser", "entry"),
    "theme": usually("dark", "light", "auto"),
}
FILTERS = ("q", "prefix", "state", "task", "queue", "label")
HISTORY = ("name", "state", "task", "worker", "since", "before", "n")
FORM = (
    "name", "was", "like", "if_version", "kind", "note", "step", "task", "every", "cron", "rrule", "at", "solar",
    "args", "kwargs", "options", "timezone", "start_at", "end_at", "max_runs", "on_finish", "grace", "coalesce",
    "jitter", "overlap", "requeue_lost", "anchor", "deadline", "once", "disable_after_failures", "description",
    "labels", "arguments", "arg.pages",
)  # fmt: skip
CHANGE = ("name", "all", "confirm", "ask", "until", "undo", "note", "next", "if_version", *FILTERS)

#: What each page reads of its address, or of its form.
READS: Mapping[str, tuple[str, ...]] = {
    "/": (*FILTERS, "sort", "page", "name"),
    "/forecast": FILTERS,
    "/bands": ("within", "page"),
    "/entry": (*HISTORY, "secrets"),
    "/why": ("name", "at"),
    "/findings": ("wait",),
    "/incidents": ("since",),
    "/delays": ("task", "queue", "args", "after", "before"),
    "/new": ("copy",),
    "/entry/edit": ("name",),
    "/entry/revert": ("name", "at", "if_version", "note"),
    "/upcoming": ("name", "within", "at", "n"),
    "/history": (*HISTORY, "q", "error", "id"),
    "/find": ("q",),
    "/changes": ("name", "by", "since", "before", "n"),
    "/run": ("id",),
    "/events": ("since",),
    "POST /entry": FORM,
    "/preview": FORM,
    "/undo": ("id", "next"),
    "/pause": ("note", "until", "next"),
    "/resume": ("note", "next"),
    "/preferences": ("zone", "theme", "next"),
    "/delays/change": ("do", "id", "at", "confirm", "note", "next"),
    "/runs/stop": ("id", "all", "confirm", "note", "next"),
    "/runs/restart": ("id", "all", "confirm", "note", "next"),
    "/login": ("name", "secret", "next"),
}
#: Without these a page says only that they are missing.
NEEDS = ("name", "id", "task", "kind", "every", "confirm", "next")

ROUTES = [(action.method, action.path) for action in ACTIONS]
OTHERS = [("POST", "/login"), ("POST", "/logout"), ("GET", "/login"), ("GET", "/healthz"), ("GET", "/static/0/page.js"),
          ("GET", "/static/0/..%2f..%2fapp.py"), ("GET", "/metrics"), ("PUT", "/"), ("DELETE", "/entry"), ("GET", "//"),
          ("OPTIONS", "/pause"), ("GET", "/%3Cxq7%3E"), ("GET", "/%ff.json"), ("POST", "/entries/rename")]  # fmt: skip


#: The headers of a form of the page itself.
FROM_HERE = (("Host", HOST), ("Sec-Fetch-Site", "same-origin"))


@dataclass(frozen=True)
class Request:
    """A request of somebody, as it reaches the page.

    ``cookie`` is how the cookie of their session is sent; ``target`` is the address as the client wrote it.
    """

    person: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    cookie: str = "right"


@dataclass(frozen=True)
class PageAttack:
    """What other programs write into the schedule, and then the requests, one after the other."""

    written: list[Entry | Member | Key]
    requests: list[Request]


_usually = st.integers(0, 3)


@st.composite
def pairs(draw: st.DrawFn, page: str) -> list[tuple[str, str]]:
    """Return fields that a page reads, most of them with values that it takes."""
    known = READS.get(page, CHANGE)
    needed = [name for name in known if name in NEEDS and draw(st.integers(0, 9))]
    others = [name for name in known if name != "if_version" or draw(_usually) == 0]
    chosen = [*needed, *draw(st.lists(st.sampled_from([*others, "by", MARK]), max_size=4))]
    return [(name, draw(FIELDS.get(name, texts))) for name in chosen]


junk = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"%", b"%ff=%ff", b"a=%00&=&&", b"name=\xff", b"name=report&" * 60, b"[" * 9_000]),
    st.sampled_from([b"x" * 300_000, b"a=1&" * 1_300]),
)
KINDS = ("application/json", "multipart/form-data; boundary=x", "text/plain", "multipart/form-data", "", "x" * 900)
bodies = st.one_of(
    junk.map(lambda body: ("application/x-www-form-urlencoded", body)),
    st.tuples(st.sampled_from(KINDS), st.one_of(junk, objects.map(lambda text: text.encode("utf-8", "replace")))),
)
zone_cookies = texts.map(lambda text: f"redisbeater_zone=browser; redisbeater_browser_zone={text}")

#: Headers that the page reads, and some that it must not trust.
HEADERS: dict[str, st.SearchStrategy[str]] = {
    "Accept": usually("application/json", "text/html", "application/json;q=0"),
    "Accept-Encoding": usually("gzip", "gzip;q=0"),
    "Authorization": usually("Bearer x", "Basic x", "Basic /w==", "Basic Og==", "Bearer é", "Negotiate", "Bearer "),
    "Cookie": st.one_of(
        zone_cookies,
        usually("redisbeater_zone=utc", f"redisbeater_theme=<{MARK}>", "=;;=", ";" * 3_000),
        st.sampled_from(["../../etc/passwd", "Europe/Vienna", "Europe", "\x80"]).map(
            lambda name: f"redisbeater_zone=browser; redisbeater_browser_zone={name}"
        ),
    ),
    "HX-Request": usually("true"),
    "Host": usually("evil.example", "[::1", "127.0.0.1:x", f"{HOST}:99999", ""),
    "Origin": usually(f"http://{HOST}", "null", "http://[", "https://evil.example"),
    "Sec-Fetch-Mode": usually("navigate"),
    "Sec-Fetch-Site": usually("cross-site", "none", "same-site"),
    "X-Forwarded-For": usually("198.51.100.1", "::1%x", "[::1]:5", ",,,", "1" * 5_000),
    "X-Redisbeater": usually("1"),
    "X-Redisbeater-Live": usually("1"),
    **dict.fromkeys(("Accept-Language", "Last-Event-ID", "Referer", "X-Forwarded-Prefix", "X-Forwarded-User"), texts),
}
odd_headers = some_of(HEADERS)
_people = st.sampled_from([*PEOPLE, "editor", "editor"])
_cookies = st.sampled_from(["right"] * 12 + ["cut", "changed", "twice", "none", "foreign"])


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Return a request for one of the routes, most often as a browser sends it."""
    method, path = draw(st.sampled_from(ROUTES if draw(st.integers(0, 9)) else OTHERS))
    fields = draw(pairs(f"POST {path}" if f"{method} {path}" in READS else path))
    headers = dict(FROM_HERE)
    body, query = b"", ""
    if method == "GET":
        twin = "/index.json" if path == "/" else f"{path}.json"
        path = twin if draw(_usually) == 0 else path
        method = "HEAD" if draw(st.integers(0, 15)) == 0 else method
        query = urlencode(fields) if draw(_usually) else quote_from_bytes(draw(junk), safe="&=%+;")
    elif draw(st.integers(0, 7)):
        headers["Content-Type"], body = (
            "application/x-www-form-urlencoded",
            urlencode(fields, errors="replace").encode(),
        )
    else:
        headers["Content-Type"], body = draw(bodies)
    if draw(_usually) == 0:
        headers.update(draw(odd_headers))
    person, cookie = draw(_people), draw(_cookies)
    target = f"{path}?{query}" if query else path
    return Request(person, method, target, tuple(sorted(headers.items())), body, cookie)


def posted(person: str, path: str, **fields: str) -> Request:
    """Return a form as a browser sends it."""
    return Request(person, "POST", path, FROM_HERE, urlencode(fields).encode())


#: Who changes, who undoes that, and whose session ends: what single requests seldom come to.
changes = st.builds(
    lambda person, verb, name: posted(person, f"/entries/{verb}", name=name, confirm="1"),
    _people,
    st.sampled_from(["delete", "disable", "enable", "skip-next", "trigger", "restore"]),
    st.sampled_from([*ENTRIES, "deleted"]),
)
edits = st.builds(
    lambda person, field, text: posted(person, "/entry", **{"was": "report", field: text}),
    _people,
    st.sampled_from(["description", "kwargs", "args", "labels", "every", "options", "task"]),
    st.one_of(objects, durations),
)
pauses = st.builds(posted, _people, st.sampled_from(["/pause", "/resume"]))
all_changes = st.one_of(changes, edits, pauses)
undoes = st.builds(lambda person: posted(person, "/undo", id="<flash>"), _people)
ends = _people.map(lambda person: posted(person, "/logout"))
stories = st.one_of(
    st.tuples(all_changes, undoes),
    st.tuples(all_changes, undoes, undoes),
    st.tuples(ends, requests(), requests()),
    st.tuples(ends, all_changes),
).map(list)
lists_of_requests = st.one_of(st.lists(requests(), min_size=1, max_size=4), stories)

_writes = st.lists(writes(), min_size=1, max_size=2)
_one_of_four_writes = st.integers(0, 3).flatmap(lambda number: st.just([]) if number else _writes)
PAGE_ATTACKS = st.builds(PageAttack, _one_of_four_writes, lists_of_requests)
