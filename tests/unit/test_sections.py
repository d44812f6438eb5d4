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


def test_a_command_without_a_section_cannot_be_registered() -> None:
    with pytest.raises(LookupError, match=r"'report' is in no section of cli/sections\.py"):
        redisbeater.add_command(click.Command("report"))

    assert "report" not in redisbeater.commands
