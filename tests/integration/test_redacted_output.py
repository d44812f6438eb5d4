"""Secrets are blanked where entries are shown, and sent and kept as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from outbox import take

from redisbeater import ScheduleStore
from redisbeater.cli import redisbeater


@pytest.fixture
def store(app: Celery) -> ScheduleStore:
    store = ScheduleStore(app)
    headers = {"Authorization": "Bearer s3cret"}
    store.create(
        "report", "proj.report", 60, kwargs={"db_password": "s3cret", "pages": 3}, options={"headers": headers}
    )
    return store


def output(app: Celery, *arguments: str) -> str:
    result = CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("list", "--json"),
        ("show", "report"),
        ("show", "report", "--json"),
        ("show", "report", "--definition", "--redact"),
        ("export", "--redact"),
        ("why", "report"),
        ("why", "report", "--json"),
    ],
)
def test_no_command_shows_a_secret(store: ScheduleStore, app: Celery, arguments: tuple[str, ...]) -> None:
    assert "s3cret" not in output(app, *arguments)


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["lines", "json"])
def test_the_plan_of_a_file_shows_no_secret(
    store: ScheduleStore, app: Celery, tmp_path: Path, form: tuple[str, ...]
) -> None:
    path = tmp_path / "schedule.json"
    entry = {"task": "proj.report", "every": 60, "kwargs": {"db_password": "s3cret", "pages": 3}}
    path.write_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": {"new": entry}}))
    created = output(app, "apply", str(path), *form)
    entry["kwargs"] = {"db_password": "s3cret, too", "pages": 4}
    path.write_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": {"new": entry}}))
    changed = output(app, "apply", str(path), *form)

    assert "db_password" in changed
    assert "s3cret" not in created + changed


def test_what_is_no_secret_is_shown(store: ScheduleStore, app: Celery) -> None:
    assert "proj.report(db_password='***', pages=3)" in output(app, "show", "report")


def test_the_definition_has_them_unless_it_is_redacted(store: ScheduleStore, app: Celery) -> None:
    whole = json.loads(output(app, "show", "report", "--definition"))
    blanked = json.loads(output(app, "show", "report", "--definition", "--redact"))

    assert whole["kwargs"] == {"db_password": "s3cret", "pages": 3}
    assert blanked["kwargs"] == {"db_password": "***", "pages": 3}
    exported, blank = (json.loads(output(app, "export", *option)) for option in ((), ("--redact",)))
    assert exported["entries"]["report"]["kwargs"] == {"db_password": "s3cret", "pages": 3}
    assert blank["entries"]["report"]["kwargs"] == {"db_password": "***", "pages": 3}


def test_they_are_sent_and_kept_as_they_are(store: ScheduleStore, app: Celery) -> None:
    store.trigger("report")

    assert take(app)[0].kwargs == {"db_password": "s3cret", "pages": 3}
    assert store.get("report").kwargs == {"db_password": "s3cret", "pages": 3}


def test_an_entry_that_cannot_be_read_shows_none(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}report", "definition", '{"kwargs": {"token": "s3cret"')

    assert "s3cret" not in output(app, "show", "report") + output(app, "show", "report", "--json")


def test_the_details_of_a_log_are_blanked(store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str) -> None:
    client.rpush(f"{prefix}:log:report", '1 1 1 changed {"kwargs":{"token":"s3cret"},"by":"anna"}')

    assert store.log("report")[-1].details == {"kwargs": {"token": "***"}, "by": "anna"}


def test_other_patterns_take_the_place_of_the_usual_ones(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_redact=["iban"])
    ScheduleStore(app).create("report", "proj.report", 60, kwargs={"iban": "AT61", "token": "shown"})

    shown = output(app, "show", "report")

    assert "AT61" not in shown
    assert "shown" in shown
