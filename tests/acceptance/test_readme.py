"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project
from waiting import wait_until

README = Path(__file__).parents[2] / "README.rst"


def example(project: Project) -> str:
    """The first Python block, with the test's servers in place of the reader's."""
    block = re.search(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", README.read_text())
    assert block, "the README has no Python example"
    code = re.sub(r"^    ", "", block[1], flags=re.MULTILINE)
    prefix = project.settings["redisbeater_key_prefix"]
    for database in ("0", "1"):
        assert f"redis://localhost:6379/{database}" in code
    return (
        code.replace("redis://localhost:6379/0", project.server.url(1))
        .replace("redis://localhost:6379/1", project.server.url(0))
        .replace("\n\n@app.task", f"\napp.conf.redisbeater_key_prefix = {prefix!r}\n\n@app.task")
    )


@pytest.fixture
def readme_project(project: Project) -> Project:
    (project.folder / "proj.py").write_text(example(project))
    return project


def test_the_example_saves_its_entry_and_a_running_beat_has_it(readme_project: Project) -> None:
    beat = readme_project.beat()
    beat.says("leading as")

    printed = subprocess.run(
        [sys.executable, "proj.py"], cwd=readme_project.folder, capture_output=True, text=True, check=True
    ).stdout

    assert printed.startswith("next run at 20")
    listing = readme_project.celery("redisbeater", "list")
    wait_until(lambda: listing.popen.poll() == 0, "the listing")
    assert re.search(r"vienna-report +enabled", listing.output())


def test_the_readme_has_exactly_one_command_for_the_demo_and_one_for_the_tests() -> None:
    commands = re.findall(r"^ +(python3 -m venv .*)$", README.read_text(), flags=re.MULTILINE)
    assert [command.split(".venv/bin/python -m ")[1].split()[0] for command in commands] == [
        "redisbeater.demo",
        "pytest",
    ]
