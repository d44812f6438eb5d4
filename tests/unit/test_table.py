"""Columns that fit a terminal."""

from __future__ import annotations

import click
import pytest

from redisbeater.cli.table import aligned
from redisbeater.cli.terminal import coloured

LINES = [
    ("NAME", "STATE", "SCHEDULE", "TASK"),
    ("n" * 30, "enabled", "s" * 40, "t" * 30),
    ("short", "broken", "every minute", "proj.task"),
]


def test_columns_are_aligned_and_not_cut_without_a_width() -> None:
    lines = aligned(LINES)

    assert [line.index(word) for line, word in zip(lines, ("SCHEDULE", "sss", "every"))] == [41, 41, 41]
    assert len(lines[1]) == 30 + 7 + 40 + 30 + 6


@pytest.mark.parametrize("width", [120, 100, 80, 40, 20, 5])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in aligned(LINES, width))


def test_the_schedule_is_cut_before_the_task_and_the_name() -> None:
    line = aligned(LINES, 100)[1]

    assert line.split() == ["n" * 30, "enabled", "s" * 24 + "...", "t" * 30]
    assert aligned(LINES, 80)[1].split()[0] == "n" * 24 + "..."


def test_what_cannot_be_printed_is_escaped_and_a_long_cell_is_cut() -> None:
    long = "\x1b[2J" + "x" * 100

    line = aligned([("NAME", "NOTE"), (long, long)])[1]

    assert line.startswith("\\x1b[2Jxxx")
    assert len(line) == 80 + 2 + len("\\x1b[2J") + 100  # the last column pads nothing


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    names = ("report", "日報🎉", "re\u0301sume\u0301")
    lines = aligned([("NAME", "STATE"), *((name, "enabled") for name in names)])

    assert lines[1:] == ["report  enabled", "日報🎉  enabled", "re\u0301sume\u0301  enabled"]
    assert aligned([("NAME",), ("日" * 10,)], 11)[1] == "日日日日..."
    coloured_lines = coloured(lines, ["enabled"] * 3, "STATE")[1:]
    assert all(click.style("enabled", fg="green") in line for line in coloured_lines)


def test_a_terminal_colours_the_state_of_a_run_by_its_tone() -> None:
    lines = aligned([("STATE", "NOTE"), ("SUCCESS", ""), ("LOST", "its worker is away"), ("skipped", "overlap")])
    drawn = coloured(lines, ["SUCCESS", "LOST", "skipped"], "STATE")

    assert drawn[1] == click.style("SUCCESS", fg="green")
    assert drawn[2].startswith(click.style("LOST", fg="red"))
    assert drawn[3] == lines[3]
