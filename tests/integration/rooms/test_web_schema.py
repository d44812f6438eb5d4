"""The answers of the HTTP API have the fields and types that ``docs/http-api.rst`` lists, no more and no fewer."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab
from support.ended_runs import begin_run, end_runs
from support.pages import DOCS
from web_site import browse

from redisbeater import ScheduleStore
from redisbeater.display import json_form
from redisbeater.results import BeatLine, Delay, Incident, IncidentGroup, Receiver

PLAIN: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "seconds": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "ms": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "time": lambda value: re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?[+-]\d\d:\d\d", value) is not None,
    "any": lambda value: True,
}


class Checker:
    """Compares answers with the schema, and remembers which objects it has met."""

    def __init__(self, schema: dict[str, str]) -> None:
        self.schema = schema
        self.met: set[str] = set()

    def check(self, kind: str, value: Any, where: str, more: frozenset[str] = frozenset()) -> None:
        """Assert that a value is of a type; ``more``: names that an object has besides."""
        if kind.endswith("?"):
            if value is not None:
                self.check(kind[:-1], value, where)
        elif kind in PLAIN:
            assert PLAIN[kind](value), f"{where} is no {kind}: {value!r}"
        elif kind.startswith("["):
            assert isinstance(value, list), where
            for number, each in enumerate(value):
                item, is_typed = kind[1:-1], kind == "[run or line]"
                if is_typed:
                    item = {"run": "run", "log": "line"}[each["type"]]
                self.check(item, each, f"{where}[{number}]", frozenset({"type"} if is_typed else ()))
        elif kind.startswith("{"):
            assert isinstance(value, dict), where
            for name, each in value.items():
                self.check(kind[1:-1], each, f"{where}.{name}")
        else:
            self.check_object(kind, value, where, more)

    def check_object(self, kind: str, value: Any, where: str, more: frozenset[str] = frozenset()) -> None:
        """Assert that an answer, or an object in one, has exactly its fields."""
        self.met.add(kind)
        if self.schema[kind].startswith("["):
            return self.check(self.schema[kind], value, where)
        fields = dict(self.fields(kind))
        rest = fields.pop("*", None)
        names = set(value) - more
        assert names == set(fields) if rest is None else names >= set(fields), f"{where}: {names ^ set(fields)}"
        for name in names:
            self.check(fields.get(name, rest or ""), value[name], f"{where}.{name}")

    def fields(self, kind: str) -> list[tuple[str, str]]:
        """Return the fields of an object, with those of the objects that stand for all of theirs."""
        found = []
        for part in self.schema[kind].split(", "):
            name, colon, type_ = part.partition(": ")
            found += [(name, type_)] if colon else self.fields(name)
        return found


@pytest.fixture
def checker() -> Checker:
    text = (DOCS / "http-api.rst").read_text(encoding="utf-8").split("   /index.json")[1].split("\n\n- ``quarters``")[0]
    joined = re.sub(r"\n {10,}", " ", "   /index.json" + text)
    return Checker(dict(re.findall(r"^ {3}(\S+) +(.+)$", joined, re.MULTILINE)))


def test_answers_have_the_fields_that_the_documentation_lists(shop: Celery, checker: Checker) -> None:
    store, web = ScheduleStore(shop), browse(shop)
    store.create("report", "shop.report", crontab(hour=9, minute=0), labels={"team": "x"}, overlap="skip")
    store.create("hourly", "shop.report", 3600.0)
    store.update("report", description="Daily", note="so that people know", by="anna")
    store.disable("report", until=timedelta(hours=1))
    store.enable("report")
    end_runs(shop, "report", "F")
    begin_run(shop, "hourly")
    run_id = store.trigger("report")
    named = ("/entry.json", "/entry/edit.json", "/history.json", "/why.json")
    asked = {"/find.json": {"q": "trigger report"}}
    for path in [name for name in checker.schema if name.startswith("/")]:
        answer = web.get(path, params={"name": "report"} if path in named else {"id": run_id, **asked.get(path, {})})
        assert answer.status_code == 200, path
        checker.check_object(path, answer.json(), path)
    now = datetime.now(timezone.utc)
    line = BeatLine(token="host:1:x", role="leader", since=now, last_pass=now, late_p50_ms=1.5)
    checker.check_object("beat", line.as_dict(), "a beat")
    incident = Incident.from_fields("1f2e3d4c", {"opened": "1700000000", "kind": "schedule_lost"})
    assert incident is not None
    checker.check_object("incidents", IncidentGroup(incidents=(incident,)).as_dict(), "incidents")
    receiver = Receiver("ops", told=now, problem="refused", since=now, next=now, tries=2)
    checker.check_object("receiver", json_form(receiver), "a receiver")
    checker.check_object("delay", Delay.read("a", now, "{}", "", now=now, redact=()).as_dict(), "a delay")
    assert checker.met == set(checker.schema), "what no answer had is not held"
