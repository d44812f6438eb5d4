"""The commands in the help stand below what people do with them."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from redisbeater.cli import redisbeater
from redisbeater.cli.sections import SECTIONS


def test_help_shows_each_command_once_in_its_section() -> None:
    shown = CliRunner().invoke(redisbeater, ["--help"]).output.partition("Options:")[2]
    parts = re.split(r"(?m)^(\S.*):\n", shown)[1:]
    found = {title: re.findall(r"(?m)^  (\S+)  ", text) for title, text in zip(parts[::2], parts[1::2], strict=True)}

    assert found == SECTIONS
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(redisbeater.commands)


def test_the_sentences_of_all_sections_begin_in_one_column() -> None:
    shown = CliRunner().invoke(redisbeater, ["--help"]).output.partition("Look at entries:")[2]

    assert {line.index(line.split(None, 1)[1]) for line in re.findall(r"(?m)^  \S+ .*", shown)} == {13}


_CONTEXT = click.Context(redisbeater)
_COMMANDS = {name: redisbeater.get_command(_CONTEXT, name) for name in redisbeater.list_commands(_CONTEXT)}
GROUPS = {"": redisbeater} | {name: each for name, each in _COMMANDS.items() if isinstance(each, click.Group)}


@pytest.mark.parametrize("name", GROUPS)
def test_the_summaries_of_commands_fit_80_columns_uncut(name: str) -> None:
    group = GROUPS[name]
    shown = group.get_help(click.Context(group, terminal_width=78))  # click leaves two columns free
    sentences = re.findall(r"(?m)^  ([a-z][\w-]+)  +(\S.*)$", shown)

    assert {command for command, _ in sentences} == {*group.commands}
    assert [sentence for _, sentence in sentences if not sentence.endswith(".") or sentence.endswith("...")] == []


def test_the_first_help_shows_what_people_do_first() -> None:
    examples = CliRunner().invoke(redisbeater, ["--help"]).output.partition("Options:")[0]

    assert re.findall(r"celery -A proj redisbeater (\w+)", examples) == ["status", "list", "create", "why"]


def test_a_command_without_a_section_cannot_be_registered() -> None:
    with pytest.raises(LookupError, match=r"'report' is in no section of cli/sections\.py"):
        redisbeater.add_command(click.Command("report"))

    assert "report" not in redisbeater.commands
