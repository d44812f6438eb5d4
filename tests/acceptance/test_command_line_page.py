"""The session of the page on the command line, from an empty folder, word by word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time

import pytest
from support.pages import DOCS
from support.project import Project

PAGE = (DOCS / "command-line.rst").read_text(encoding="utf-8")

#: What a new user's first session may take; a person types between the commands.
MOST_SECONDS = 300

#: What differs from one session to the next: ids, dates, times, zones and distances.
CHANGING = (
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    r"(in )?\d+ (s|min|h|d)( \d+ (s|min|h))?( ago)?",
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun)?( ?\d{1,2} [A-Z][a-z]{2}( \d{4})?)? ?\d\d:\d\d:\d\d( (CET|CEST|UTC))?",
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{1,2} [A-Z][a-z]{2}( \d{4})?",
)


def block(kind: str) -> str:
    """Return the first block of that kind on the page."""
    found = re.search(rf"\.\. code-block:: {kind}\n\n((?:   .*\n|\n)+)", PAGE)
    assert found, f"the page has no block of {kind}"
    return textwrap.dedent(found[1]).strip()


def steps() -> list[tuple[str, str]]:
    """Return each command of the session with the output that the page shows."""
    parts = re.split(r"^\$ ", block("console"), flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def comparable(output: str) -> list[str]:
    """Return the lines of an output without what changes, and without the widths of columns."""
    output = re.sub(r"\w[\w.-]*@\w[\w.-]*", "USER", output)
    for pattern in CHANGING:
        output = re.sub(rf"(?<![\w:]){pattern}(?![\w:])", "TIME", output)
    return [" ".join(line.split()) for line in output.strip().splitlines()]


@pytest.fixture
def shell(project: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a new user: an empty folder but for the file of the page, with the servers of the test."""
    code, prefix = block("python"), project.settings["redisbeater_key_prefix"]
    for database in (0, 1):
        assert f"redis://localhost:6379/{database}" in code
    code = code.replace("redis://localhost:6379/0", project.server.url(1))
    code = code.replace("redis://localhost:6379/1", project.server.url(0))
    (project.folder / "proj.py").write_text(f"{code}\n\napp.conf.redisbeater_key_prefix = {prefix!r}\n")
    programs_folder = tmp_path_factory.mktemp("bin")
    (programs_folder / "celery").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m celery "$@"\n')
    (programs_folder / "celery").chmod(0o755)
    return {**os.environ, "PATH": f"{programs_folder}:{os.environ['PATH']}"}


def test_the_session_of_the_page_does_what_it_shows(project: Project, shell: dict[str, str]) -> None:
    began = time.monotonic()
    verbs = []
    for command, expected in steps():
        finished = subprocess.run(
            command, shell=True, cwd=project.folder, env=shell, capture_output=True, text=True, timeout=60, check=False
        )
        verbs.append(command.split()[4])
        assert (finished.returncode, finished.stderr) == (0, ""), command
        assert comparable(finished.stdout) == comparable(expected), command
    took = time.monotonic() - began
    print(f"the session took {took:.1f} s")

    assert verbs == ["create", "list", "update", "disable", "enable", "show", "trigger", "why", "delete"]
    assert took < MOST_SECONDS


@pytest.mark.usefixtures("server")
def test_every_command_is_shown_on_a_page() -> None:
    from redisbeater.cli import redisbeater

    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.rst"))
    shown = set(re.findall(r"(?m)^ +\$ celery -A \w+ redisbeater ([a-z-]+)", pages))

    assert set(redisbeater.commands) - shown == set()
