"""Definitions with secrets, whatever is wrong with them, and all places that show them: the secret is in none."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
import redis
from celery import Celery, Task
from click.testing import CliRunner, Result
from outbox import run_due
from run_site import TRACKED, execute
from support.received import Received
from web_site import SECRET, browse

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.dashboard import VIEW, token
from redisbeater.management.runs.results import read_failures

pytestmark = pytest.mark.deep

#: What must not be seen; each definition adds its own number.
HUSH = "S3cr3t"

SECRETIVE = {"password": HUSH}

EVERY = {"__type__": "interval", "every": 3600}

#: Fields, or whole texts, that are stored as they are: other programs write what they like.
WRONG: dict[str, Any] = {
    "args is an object": {"args": SECRETIVE},
    "args is a text": {"args": json.dumps(SECRETIVE)},
    "kwargs is a list": {"kwargs": [SECRETIVE]},
    "kwargs is JSON in a text": {"kwargs": json.dumps(SECRETIVE)},
    "kwargs is Python in a text": {"kwargs": repr(SECRETIVE)},
    "kwargs is a query in a text": {"kwargs": f"user=anna&password={HUSH}&x=1"},
    "kwargs is a URL in a text": {"kwargs": f"redis://:{HUSH}@cache/0"},
    "kwargs is a header in a text": {"kwargs": f"Authorization: Bearer {HUSH}"},
    "kwargs is JSON in JSON": {"kwargs": json.dumps({"body": json.dumps(SECRETIVE)})},
    "options is a list": {"options": [SECRETIVE]},
    "headers is a list": {"options": {"headers": [SECRETIVE]}},
    "task is an object": {"task": SECRETIVE},
    "schedule is an object without a type": {"schedule": SECRETIVE},
    "schedule is a list": {"schedule": [SECRETIVE]},
    "the type of the schedule is an object": {"schedule": {"__type__": SECRETIVE}},
    "every is an object": {"schedule": {"__type__": "interval", "every": SECRETIVE}},
    "minute is an object": {"schedule": {"__type__": "crontab", "minute": SECRETIVE}},
    "minute is a text": {"schedule": {"__type__": "crontab", "minute": f"password={HUSH}"}},
    "the text of cron is an object": {"schedule": {"__type__": "cron", "text": SECRETIVE}},
    "at is an object": {"schedule": {"__type__": "clocked", "at": SECRETIVE}},
    "the year is an object": {"schedule": {"__type__": "clocked", "at": {"__type__": "datetime", "year": SECRETIVE}}},
    "the text of rrule is an object": {"schedule": {"__type__": "rrule", "text": SECRETIVE}},
    "freq is an object": {"schedule": {"__type__": "rrule", "freq": SECRETIVE, "dtstart": SECRETIVE}},
    "import_path is an object": {"schedule": {"__type__": "custom", "import_path": SECRETIVE}},
    "timezone is an object": {"timezone": SECRETIVE},
    "enabled is an object": {"enabled": SECRETIVE},
    "description is an object": {"description": SECRETIVE},
    "labels is a list": {"labels": [SECRETIVE]},
    "a label is an object": {"labels": {"team": SECRETIVE}},
    "a label is an object named so": {"labels": {"api_key": {"a": HUSH}}},
    "a label is too long": {"labels": {"api_key": HUSH * 30}},
    "start_at is an object": {"start_at": SECRETIVE},
    "skip is an object": {"skip": SECRETIVE},
    "skip has an object": {"skip": [SECRETIVE]},
    "overlap is an object": {"overlap": SECRETIVE},
    "max_runs is an object": {"max_runs": SECRETIVE},
    "deadline is an object": {"deadline": SECRETIVE},
    "another key names it": {"args": {"apiKey": HUSH, "db_passwd": [HUSH], "privateKey": HUSH, "sentryDsn": HUSH}},
    "one more key names it": {"args": {"Cookie": HUSH, "credentials": {"a": HUSH}, "apikey": HUSH}},
    "no JSON": f'{{"kwargs": {{"password": {{"a": {{"b": 1}}, "c": "{HUSH}"}}, "x": 1',
    "no JSON, an escape in the key": f'{{"kwargs": {{"pass\\u0077ord": "{HUSH}"',
    "no JSON, of Python": f"{{'kwargs': {{'password': '{HUSH}', 'x': 1}}}}",
    "a list": f'[{{"password": "{HUSH}"}}]',
}

RIGHT: dict[str, Any] = {
    "kwargs": {"kwargs": {"db_password": HUSH, "x": {"token": [HUSH]}}},
    "labels": {"labels": {"api_key": HUSH, "team": "billing"}},
    "headers": {"options": {"headers": {"Authorization": f"Bearer {HUSH}"}}},
    "no valid unicode": {"kwargs": {"password": f"{HUSH}\ud800"}},
    "JSON in an argument": {"kwargs": {"body": json.dumps(SECRETIVE)}, "args": [f"https://me:{HUSH}@host/"]},
    "an unknown field": {"secret": HUSH, "more": SECRETIVE},
}

#: Pages, which have a twin in JSON, and commands; with NAME once for each entry.
PAGES = (
    "/",
    "/?sort=last",
    "/findings",
    "/status",
    "/history",
    "/upcoming",
    "/forecast",
    "/bands",
    "/incidents",
    "/delays",
)
PAGES_OF_ONE = ("/entry?name=NAME", "/why?name=NAME", "/history?name=NAME", "/upcoming?name=NAME")
COMMANDS = ("list", "list --json", "broken", "broken --json", "lint", "lint --json", "history", "history --json",
            "status", "health", "export --redact", "export --redact --state", "upcoming")  # fmt: skip
COMMANDS_OF_ONE = ("show NAME", "show NAME --json", "show NAME --definition --redact", "why NAME", "why NAME --json",
                   "history NAME", "history NAME --json", "upcoming NAME", "update NAME --queue slow")  # fmt: skip


def stored(fields: Any, number: int) -> str:
    """Return the text of a definition whose secrets have a number, by which a leak is known."""
    whole = {"task": "shop.report", "schedule": EVERY, **fields} if isinstance(fields, dict) else fields
    text = whole if isinstance(whole, str) else json.dumps(whole)
    return text.replace(HUSH, f"{HUSH}{number:02}")


@pytest.fixture(params=[False, True], ids=["unread", "quarantined"])
def entries(
    request: pytest.FixtureRequest, app: Celery, client: redis.Redis, prefix: str, scheduler: RedisScheduler
) -> dict[str, str]:
    """Store all definitions, which beat has met or not; return number -> what is wrong."""
    found = {}
    for number, (name, fields) in enumerate({**WRONG, **RIGHT}.items()):
        found[f"{number:02}"] = name
        client.hset(f"{prefix}{name}", "definition", stored(fields, number))
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 1})
    if request.param:
        run_due(scheduler)
        assert len(ScheduleStore(app).broken()) == len(WRONG)
    return found


def leaks(text: str, entries: dict[str, str]) -> list[str]:
    """Return which definitions a text shows the secret of."""
    return sorted({entries.get(piece[:2], piece[:2]) for piece in text.split(HUSH)[1:]})


@pytest.mark.parametrize("path", [*PAGES, *PAGES_OF_ONE])
def test_no_page_shows_a_secret_to_whoever_may_view(
    entries: dict[str, str], app: Celery, store: ScheduleStore, path: str
) -> None:
    web = browse(app, auth=token(SECRET, rights=VIEW))
    page, _, query = path.partition("?")
    for name in entries.values() if "NAME" in path else [""]:
        for twin in (page, f"{page if page != '/' else '/index'}.json"):
            answer = web.get(f"{twin}?{query.replace('NAME', quote(name))}")
            assert answer.status_code in (200, 409, 422)
            assert leaks(answer.text, entries) == []


@pytest.mark.parametrize("command", [*COMMANDS, *COMMANDS_OF_ONE])
def test_no_command_shows_a_secret(entries: dict[str, str], run: Callable[..., Result], command: str) -> None:
    for name in entries.values() if "NAME" in command else [""]:
        result = run(*(name if word == "NAME" else word for word in command.split()))

        assert result.exit_code in (0, 1, 2)
        assert leaks(result.output, entries) == []


def test_no_form_shows_a_secret(entries: dict[str, str], app: Celery) -> None:
    web = browse(app)
    for name in entries.values():
        assert leaks(web.get(f"/entry/edit?name={quote(name)}").text, entries) == []


def test_beat_says_no_secret(
    store: ScheduleStore,
    client: redis.Redis,
    prefix: str,
    scheduler: RedisScheduler,
    caplog: pytest.LogCaptureFixture,
    received: Received,
) -> None:
    for number, (name, fields) in enumerate(WRONG.items()):
        client.hset(f"{prefix}{name}", "definition", stored(fields, number))
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 1})
        run_due(scheduler)  # of a few that are found at once, each has its line

    lines = "".join(f"{caplog.handler.format(record)} {vars(record).get('redisbeater')}" for record in caplog.records)
    assert len(received.of("entry_broken")) == len(WRONG)
    reports = str(client.hgetall(f"{prefix}:broken")) + str([store.log(name) for name in WRONG])
    assert leaks(lines + reports + str(vars(received)), {f"{n:02}": name for n, name in enumerate(WRONG)}) == []


COMMANDS_OF_A_RUN = (("history",), ("history", "--json"), ("history", "report", "--long"), ("why", "report"), ("list",),
                     ("why", "report", "--json"), ("show", "report", "--json"), ("list", "--json"), ("lint",),
                     ("status",))  # fmt: skip

#: A key that names a secret by a pattern of the app.
BY_PATTERN: dict[str, Any] = {"redisbeater_redact": ["password", "iban"]}


@pytest.fixture
def tracked(make_app: Callable[..., Celery], reporting: None) -> Celery:
    """Make an app whose runs and results are recorded, with a task that fails and one that ends well."""
    app = make_app(**TRACKED, **BY_PATTERN, redisbeater_run_results=True, result_expires=None)

    @app.task(name="proj.fail", shared=False, ignore_result=True)
    def fail(**kwargs: Any) -> None:
        raise ValueError(f"refused: {kwargs}, iban={kwargs['iban']}, https://host/?q={kwargs['iban']}")

    @app.task(name="proj.work", shared=False, ignore_result=True)
    def work(**kwargs: Any) -> dict[str, Any]:
        return {"IBAN": kwargs["iban"], "asked": f"https://host/?q={kwargs['iban']}", "more": "x" * 500}

    return app


@pytest.fixture
def run_in() -> Callable[..., str]:
    """Run a command for an app, and return what it prints."""

    def run_in(app: Celery, *arguments: str) -> str:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app)).output

    return run_in


@pytest.mark.parametrize("task", ["proj.fail", "proj.work"])
def test_no_run_keeps_or_shows_a_secret(
    tracked: Celery,
    make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis,
    prefix: str,
    task: str,
    run_in: Callable[..., str],
) -> None:
    ScheduleStore(tracked).create("report", task, 3600, kwargs={"iban": HUSH, "pages": 3})
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": 1})
    [sent] = run_due(make_scheduler(tracked))
    execute(tracked, sent)

    kept = client.hgetall(f"{prefix}:run:{sent.id}")
    kept["traceback"] = Context.of(tracked).redis.runs.traceback(sent.id)
    assert ("iban=***" in kept["traceback"]) == (task == "proj.fail")
    assert str(kept.get("error", "") + kept.get("result", "")).count("***") >= 2
    assert leaks(str(kept), {}) == []
    shown = [run_in(tracked, *command) for command in COMMANDS_OF_A_RUN]
    web = browse(tracked, auth=token(SECRET, rights=VIEW))
    for path in ("/", "/history", "/history?q=proj", "/status", f"/run?id={sent.id}", *PAGES_OF_ONE):
        page, _, query = path.replace("NAME", "report").partition("?")
        shown += [web.get(f"{twin}?{query}").text for twin in (page, f"{page if page != '/' else '/index'}.json")]
    assert '"iban":"***"' in "".join(shown)
    assert leaks("".join(shown), {}) == []


def test_what_is_named_a_secret_later_is_shown_no_more(
    tracked: Celery,
    make_app: Callable[..., Celery],
    make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis,
    prefix: str,
    run_in: Callable[..., str],
) -> None:
    ScheduleStore(tracked).create("report", "proj.fail", 3600, kwargs={"iban": "AT61", "account": HUSH, "pages": 3})
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": 1})
    [sent] = run_due(make_scheduler(tracked))
    execute(tracked, sent)
    error = f"refused: {HUSH} of {{'account': '{HUSH}'}}"
    client.hset(f"{prefix}:run:{sent.id}", "error", error)
    assert HUSH in run_in(tracked, "history", "--json")

    app = make_app(**TRACKED, redisbeater_redact=["account"])

    store = ScheduleStore(app)
    found = [store.runs.get(sent.id), *store.history("report"), *store.history(), *read_failures(Context.of(app))]
    shown = [str(vars(run)) for run in found] + [run_in(app, *command) for command in COMMANDS_OF_A_RUN]
    web = browse(app, auth=token(SECRET, rights=VIEW))
    shown += [web.get(path.replace("NAME", "report")).text for path in (*PAGES, *PAGES_OF_ONE, f"/run?id={sent.id}")]
    assert "refused: *** of" in "".join(shown)
    assert leaks("".join(shown), {}) == []


def test_no_error_of_a_run_that_cannot_be_sent_shows_a_secret(
    make_app: Callable[..., Celery],
    make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
    received: Received,
    run_in: Callable[..., str],
) -> None:
    app = make_app(**BY_PATTERN)

    class Signed(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, **_: Any) -> Any:
            raise ValueError(f"cannot sign {kwargs}") from KeyError({"iban": HUSH})

    @app.task(base=Signed, name="proj.report", shared=False)
    def report(**kwargs: Any) -> None:
        pass

    ScheduleStore(app).create("report", "proj.report", 3600, kwargs={"iban": HUSH})
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": 1})
    run_due(make_scheduler(app))

    lines = "".join(f"{caplog.handler.format(record)} {vars(record).get('redisbeater')}" for record in caplog.records)
    assert lines.count("cannot sign {'iban': '***'}") >= 1
    web = browse(app, auth=token(SECRET, rights=VIEW))
    shown = [
        web.get(path).text for path in ("/", "/index.json", "/entry?name=report", "/why.json?name=report", "/findings")
    ]
    shown += [run_in(app, *command) for command in (*COMMANDS_OF_A_RUN, ("list",), ("status",))]
    assert "cannot sign" in "".join(shown)
    assert leaks(lines + "".join(shown) + str(client.hgetall(f"{prefix}report")["last_error"]), {}) == []
