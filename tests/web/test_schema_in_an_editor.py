"""The JSON Schema of files of entries in an editor: yaml-language-server completes, marks and explains by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery
from click.testing import CliRunner
from support.language_server import LanguageServer, language_server
from support.requirements import YAML_SERVER, require

from redisbeater.cli import redisbeater

#: The lines of a file in front of the names of its entries.
HEAD = "# yaml-language-server: $schema=redisbeater.schema.json\nredisbeater: 1\nowner: shop\n"


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[LanguageServer]:
    require("yaml-language-server")
    app = Celery("shop", broker="memory://", set_as_current=False)
    schema = CliRunner().invoke(redisbeater, ["files", "schema"], obj=SimpleNamespace(app=app)).stdout
    (tmp_path / "redisbeater.schema.json").write_text(schema)
    settings = {"schemaStore": {"enable": False}}  # asks nobody else for schemas
    with language_server(["node", str(YAML_SERVER), "--stdio"], tmp_path, yaml=settings) as started:
        yield started


@pytest.fixture
def opened(editor: LanguageServer, tmp_path: Path) -> Callable[[str], Path]:
    """Open a file of entries in the editor."""

    def opened(text: str) -> Path:
        path = tmp_path / "schedule.yaml"
        path.write_text(HEAD + text)
        editor.open(path, "yaml")
        return path

    return opened


def test_a_file_that_can_be_applied_is_right(editor: LanguageServer, opened: Callable[[str], Path]) -> None:
    file = opened('entries:\n  report: {task: shop.tasks.report, cron: "0 9 * * 1-5"}\n')

    assert editor.findings(file) == []
    assert "Run at the times of a cron text" in editor.hover(file, 4, 42)
    assert "Whose the entries are" in editor.hover(file, 2, 2)


ONE = "An entry has one schedule: every, cron, rrule, at, solar or schedule."


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("entries:\n  a: {task: t, evrey: 60, every: 5m}\n", [(4, "Property evrey is not allowed.")]),
        ("entries:\n  a: {every: 5m}\n", [(4, 'Missing property "task".')]),
        ("entries:\n  a: {task: t}\n", [(4, ONE)]),
        ("entries:\n  a: {task: t, every: 5m, at: +2h}\n", [(4, ONE)]),
        (
            "defaults: {every: 5m}\nentries:\n  a: {task: t, at: +2h}\n",
            [(5, "The defaults have a schedule: an entry has none of its own.")],
        ),
    ],
    ids=["misspelt", "no task", "no schedule", "two schedules", "one besides the defaults"],
)
def test_what_cannot_be_applied_is_marked_where_it_is(
    editor: LanguageServer, opened: Callable[[str], Path], text: str, findings: list[tuple[int, str]]
) -> None:
    assert editor.findings(opened(text)) == findings


def test_names_and_words_are_completed(editor: LanguageServer, opened: Callable[[str], Path]) -> None:
    file = opened("entries:\n  a:\n    task: t\n    every: 5m\n    overlap: \n    \n")

    names = editor.completions(file, 8, 4)
    assert {"cron", "rrule", "timezone", "jitter"} <= names.keys()
    assert names["cron"] == "cron: ", "one text, and no list"
    assert list(editor.completions(file, 7, 13)) == ["allow", "skip", "buffer_one", "cancel_other"]
