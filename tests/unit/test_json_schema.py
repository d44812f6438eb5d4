"""The JSON Schema of files of entries says what the validator says."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from celery import Celery
from jsonschema import Draft7Validator, Draft202012Validator
from support.pages import DOCS

from redisbeater import Export, InvalidEntry
from redisbeater.context import Context
from redisbeater.management.files.definitions import definition_of
from redisbeater.management.files.export import parse
from redisbeater.management.files.json_schema import json_schema
from redisbeater.model.fields import FIELDS
from redisbeater.model.options import OPTIONS
from redisbeater.schedules.kinds import SCHEDULE_WORDS

pytest.importorskip("yaml", reason="the extra yaml installs PyYAML")

ROOT = DOCS.parent
SCHEMA = json_schema()
VALIDATORS = [Draft202012Validator(SCHEMA), Draft7Validator({**SCHEMA, "$schema": Draft7Validator.META_SCHEMA["$id"]})]

#: Whatever somebody may write after the name of a field.
VALUES = (
    *(str(choice) for field in FIELDS.values() for choice in getattr(field.kind, "choices", ())),
    *(None, True, False, -1, 0, 1, 2, 29, 30, 101, 0.5, 1e300, "", "x", "5m", "none", "UTC", "mon-fri", "09:30-16:00"),
    *("2027-01-03T09:00", "2027-01-03T09:00:00+01:00[Europe/Vienna]", "0 9 * * *", "sunset,48.2,16.4"),
    *("RRULE:FREQ=DAILY", "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY"),
    *([], [1], ["0 9 * * *"], ["2027-01-03T08:00:00+00:00"], ["x"] * 101),
    *({}, {"a": 1}, {"team": "billing"}, {"team": ""}, {"": "x"}, {"queue": "slow"}, {"__type__": "solar"}),
    *({"__type__": "interval", "every": 5}, {"__type__": "datetime", "year": 2027, "month": 1, "day": 3}),
)


@cache
def context() -> Context:
    return Context.of(Celery("proj", broker="redis://localhost:1/0", set_as_current=False))


def accepts(text: str) -> bool:
    """Return whether what applies a file would take its entries."""
    try:
        for entry in Export.from_text(text).entries.values():
            definition_of(entry, context().codec, context().task_options, context().zone)
    except InvalidEntry:
        return False
    return True


def problems(data: Any) -> list[str]:
    return [error.message for validator in VALIDATORS for error in validator.iter_errors(data)]


def file_of(entry: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    return {"redisbeater": 1, **others, "entries": {"a": entry}}


def test_it_is_a_schema_of_both_drafts() -> None:
    for validator in VALIDATORS:
        validator.check_schema(validator.schema)


def test_it_has_each_field_and_each_word_of_the_tables_with_what_people_read_of_it() -> None:
    fields = SCHEMA["$defs"]["entry"]["properties"]

    assert set(fields) == {"task", "schedule", *SCHEDULE_WORDS, *FIELDS}
    assert [name for name, field in FIELDS.items() if field.sentence not in fields[name]["description"]] == []
    assert set(fields["options"]["properties"]) == set(OPTIONS)


@pytest.mark.parametrize("name", [*FIELDS, *SCHEDULE_WORDS, "schedule", "task"])
def test_what_the_validator_takes_is_right_by_the_schema(name: str) -> None:
    taken = []
    for value in VALUES:
        entry = {"task": "t", "every": 60, name: value}
        if name in SCHEDULE_WORDS or name == "schedule":
            entry = {"task": "t", name: value}
        if accepts(json.dumps(file_of(entry))):
            taken.append(value)
            assert problems(file_of(entry)) == [], value

    assert taken


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_of_another_type_is_wrong_by_both(name: str) -> None:
    types = str(FIELDS[name].json_schema())
    wrong: list[Any] = [value for word, value in (("object", {"a": 1}), ("array", [1])) if f"'{word}'" not in types]
    wrong += [] if "'boolean'" in types else [True]

    assert wrong
    for value in wrong:
        file = file_of({"task": "t", "every": 60, name: value})
        assert not accepts(json.dumps(file)), value
        assert problems(file), value


@pytest.mark.parametrize(
    "file",
    [
        [],
        {"entries": {}},
        {"redisbeater": 2, "entries": {}},
        {"redisbeater": 1},
        {"redisbeater": 1, "entries": ["a"]},
        {"redisbeater": 1, "entries": {"a": "0 9 * * *"}},
        {"redisbeater": 1, "entries": {}, "entry": {}},
        {"redisbeater": 1, "entries": {}, "owner": ["shop"]},
        {"redisbeater": 1, "entries": {}, "$schema": 7},
        {"redisbeater": 1, "entries": {}, "defaults": []},
        file_of({"task": "t"}),
        file_of({"every": 60}),
        file_of({"task": "t", "every": 60, "cron": "0 9 * * *"}),
        file_of({"task": "t", "every": 60}, defaults={"cron": "0 9 * * *"}),
        file_of({"task": "t", "evrey": 60}),
        file_of({"task": "t", "every": 60, "name": "b"}),
        file_of({"task": "t", "every": 60}, defaults={"kwarg": {}}),
        file_of({"task": "t", "every": {"minutes": 5}}),
        file_of({"task": "t", "cron": []}),
        file_of({"task": "t", "schedule": "0 9 * * *"}),
        file_of({"task": "t", "schedule": {"__type__": "moon"}}),
        file_of({"task": "t", "every": 60, "overlap": "jump"}),
        file_of({"task": "t", "every": 60, "max_runs": 0}),
        file_of({"task": "t", "every": 60, "start_at": "tomorrow"}),
        file_of({"task": "t", "every": 60, "labels": {"team": 5}}),
    ],
    ids=lambda file: re.sub(r"\W+", "-", json.dumps(file)).strip("-"),
)
def test_a_file_of_another_shape_is_wrong_by_both(file: Any) -> None:
    assert not accepts(json.dumps(file))
    assert problems(file)


def written() -> Iterator[str]:
    """Yield the texts that may be files of entries: on pages, in examples, and in the programs of tests."""
    for page in (*DOCS.glob("*.rst"), *(ROOT / "examples").rglob("*.rst")):
        for block in re.findall(
            r"\.\. code-block:: (?:yaml|json)\n\n((?:   .*\n|\n)+)", page.read_text(encoding="utf-8")
        ):
            yield re.sub("(?m)^   ", "", block)
    for file in (ROOT / "examples").rglob("*.y*ml"):
        yield file.read_text(encoding="utf-8")
    for file in (ROOT / "tests").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "redisbeater: 1" in text or '"redisbeater": 1' in text:
            yield from _literals(ast.parse(text))


def _literals(program: ast.AST) -> Iterator[str]:
    for node in ast.walk(program):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Dict):
            try:
                yield json.dumps(ast.literal_eval(node))
            except (ValueError, TypeError):
                continue


def test_each_file_that_is_written_on_a_page_or_in_a_test_and_is_taken_is_right_by_the_schema() -> None:
    taken = [text for text in written() if "redisbeater" in text and "entries" in text and accepts(text)]

    assert len(taken) > 5
    for text in taken:
        assert problems(parse(text, "file")) == [], text
