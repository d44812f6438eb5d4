"""The commands in the help stand below what people do with them."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from redisbeater.cli import redisbeater
from redisbeater.cli.sections import SECTIONS, SectionedCommand


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


@pytest.mark.parametrize("name", ["create", "update", "copy"])
def test_the_help_of_a_command_that_writes_an_entry_shows_each_option_once_below_what_it_is_about(name: str) -> None:
    command = _COMMANDS[name]
    assert command is not None
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    shown = command.get_help(click.Context(command, info_name=name))
    parts = re.split(r"(?m)^(\S.*):\n", shown)[1:]
    found = {title: re.findall(r"(?m)^  (--[\w-]+)", text) for title, text in zip(parts[::2], parts[1::2], strict=True)}

    assert [*found] == [
        "When it runs", "What it runs", "From when, until when", "How it is sent, and what it belongs to", "Late runs",
        "Runs that overlap, hang or fail", "What is an incident", "Other options",
    ]  # fmt: skip
    assert found["When it runs"][:2] == ["--every", "--cron"]
    assert found["What is an incident"] == ["--max-failures", "--start-within", "--finish-within", "--notify"]
    assert max(map(len, found.values())) < 16, "a section is looked through at a glance"
    assert sorted(option for each in found.values() for option in each) == sorted(
        ["--help", *(each.opts[0] for each in options)]
    )


def test_an_option_without_a_section_cannot_be_added_to_such_a_command() -> None:
    with pytest.raises(LookupError, match=r"'colour' is in no section of cli/sections\.py"):
        SectionedCommand("report", params=[click.Option(["--colour"])])

    assert SectionedCommand("report", params=[click.Option(["--colour"], hidden=True)]).name == "report"
