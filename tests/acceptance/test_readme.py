"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest
from support.project import Project
from support.waiting import wait_until

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


def test_the_first_example_prints_something_within_seconds(readme_project: Project) -> None:
    create, start = re.findall(
        r"^    \$ celery -A proj (redisbeater create .*|worker --beat .*)$", README.read_text(), re.M
    )
    created = readme_project.celery(*shlex.split(create))
    wait_until(lambda: created.popen.poll() == 0, "the entry to be created")
    assert created.output().startswith("greeting: created\n")

    worker = readme_project.celery(*shlex.split(start))
    began = time.monotonic()
    worker.says("hello world")
    print(f"printed after {time.monotonic() - began:.1f} s")

    deleted = readme_project.celery("redisbeater", "delete", "greeting")
    wait_until(lambda: deleted.popen.poll() == 0, "the entry to be deleted")
    assert deleted.output() == "greeting: deleted; restore undoes that\n"


def test_the_readme_has_exactly_one_command_for_the_demo_and_one_for_the_tests() -> None:
    commands = re.findall(r"^ +(python3 -m venv .*)$", README.read_text(), flags=re.MULTILINE)
    assert [command.split(".venv/bin/python -m ")[1].split()[0] for command in commands] == [
        "redisbeater.demo",
        "pytest",
    ]
