"""The mutants of ``benchmarks/mutants.py``: each still changes one place of the source, and names tests that exist."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from mutants.checkout import CommandFailed, changed_text
from mutants.table import MUTANTS

ROOT = Path(__file__).parents[2]


def test_each_mutant_changes_one_place_of_the_source() -> None:
    gone = []
    for mutant in MUTANTS:
        try:
            text = changed_text(mutant)
        except CommandFailed as failed:
            gone.append(str(failed))
            continue
        if mutant.path.endswith(".py"):
            compile(text, mutant.name, "exec")

    assert gone == []


def test_the_first_tests_of_each_mutant_need_no_processes() -> None:
    assert not [mutant.name for mutant in MUTANTS if not mutant.first]
    assert not [
        (mutant.name, name)
        for mutant in MUTANTS
        for name in mutant.first
        if not (ROOT / "tests" / name).is_file() or name.split("/")[0] not in ("unit", "integration")
    ]


def test_each_mutant_has_a_name_of_its_own_and_says_what_a_user_suffers() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.path, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    assert not [mutant.name for mutant in MUTANTS if not mutant.harm.endswith(".")]


def test_a_mutant_whose_text_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=f"mutant {MUTANTS[0].name}: its text is 0 times in {MUTANTS[0].path}"):
        changed_text(MUTANTS[0], tmp_path)


def test_a_mutant_whose_text_has_changed_is_shown_the_nearest_line(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    line = mutant.old.splitlines()[0]
    path = tmp_path / "src" / "redisbeater" / mutant.path
    path.parent.mkdir(parents=True)
    path.write_text(f"first\n{line}  # reworded\nlast\n")

    with pytest.raises(CommandFailed, match=f"the nearest is:\n{re.escape(line)}  # reworded"):
        changed_text(replace(mutant, old=f"{line} as it was"), tmp_path)


def test_survivors_meet_the_command_of_the_readme() -> None:
    command = re.search(r"-m pytest (.*)$", (ROOT / "README.rst").read_text(), re.MULTILINE)
    whole = re.search(r"^WHOLE = \((.*)\)$", (ROOT / "benchmarks" / "mutants.py").read_text(), re.MULTILINE)

    assert command is not None
    assert whole is not None
    assert shlex.split(command[1]) == re.findall(r'"([^"]*)"', whole[1])
