"""Every block of every page: its code runs, its commands print what the page shows, its files can be read."""

from __future__ import annotations

import configparser
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from page_blocks import Block, blocks
from page_commands import check, is_run, run, shown
from page_output import fits
from page_site import Site
from support.pages import DOCS
from support.servers import Server

#: Which server the schedule is in makes no difference here.
pytestmark = pytest.mark.one_server

ROOT = DOCS.parent
PAGES = sorted([*DOCS.rglob("*.rst"), ROOT / "README.rst"])
PAGES = [page for page in PAGES if "_generated" not in page.parts and blocks(page)]

#: Marks that the pages need: what nothing can run here, and what prints something else each time. It may only shrink.
MOST_MARKED = {"not run": 20, "output differs": 0}


@pytest.fixture
def site(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder and an empty schedule; modules that the page makes are gone afterwards."""
    modules, environ = dict(sys.modules), dict(os.environ)
    for database in (0, 1):
        server.client(database).flushdb()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("USER", "anna")
    server.client().config_set("save", "86400 1000000000")  # lint would advise readers to write to the disk
    found = Site(server, tmp_path)
    with found.opened:
        yield found
    server.client().config_set("save", "")
    os.environ.clear()
    os.environ.update(environ)
    for name in set(sys.modules) - set(modules):
        if (getattr(sys.modules[name], "__file__", None) or str(tmp_path)).startswith(str(tmp_path)):
            del sys.modules[name]
    for database in (0, 1):
        server.client(database).flushdb()


@pytest.mark.usefixtures("nothing_of_a_worker_stays")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_happens(page: Path, site: Site) -> None:
    done = 0
    for block in blocks(page):
        if "not run" not in block.marks:
            _RUN.get(block.language, _read)(site, block)
        done += 1

    assert done == len(blocks(page))


@pytest.mark.usefixtures("server")
def test_marked_blocks_are_few_and_say_why() -> None:
    marked = {mark: [block for page in PAGES for block in blocks(page) if mark in block.marks] for mark in MOST_MARKED}
    for mark, found in marked.items():
        print(f"{mark}: {len(found)}", *(f"{block.place}: {block.marks[mark]}" for block in found), sep="\n")
    reasons = [block.marks[mark] for mark, found in marked.items() for block in found]
    tests = {path for reason in reasons for path in re.findall(r"tests/[\w/]+\.py", reason)}

    assert all(len(found) <= MOST_MARKED[mark] for mark, found in marked.items())
    assert [path for path in tests if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("recipe-*.rst")), ids=lambda page: page.stem)
def test_a_recipe_is_short(page: Path) -> None:
    """Without blocks and tables it has 400 words at most."""
    prose = re.sub(r"^( *)\.\. .*\n(?:\1 +.*\n|\n)*", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert 100 < len(prose.split()) <= 400


def _python(site: Site, block: Block) -> None:
    if name := block.marks.get("file"):
        site.save(name, block.text)
        if name == "proj.py":
            site.run("from proj import app", block.place)
        return
    printed = site.run(block.text, block.place)
    expected = _comment_at_the_end(block.text)
    if printed and expected and "output differs" not in block.marks:
        assert fits(expected, printed), f"{block.place} printed\n{printed}"


def _comment_at_the_end(text: str) -> str:
    """Return the comment at the end of a block: what its prints show."""
    found = re.search(r"((?:^# .*\n)+)\Z", text, re.MULTILINE)
    return re.sub(r"^# ?", "", found[1], flags=re.MULTILINE) if found else ""


def _console(site: Site, block: Block) -> None:
    for step in shown(block.text):
        if is_run(step.command):
            run(site, step, compare="output differs" not in block.marks)
        else:
            check(step.command)


def _read(site: Site, block: Block) -> None:
    """Read a file that a page shows; the commands in it are known."""
    data: Any = None
    match block.language:
        case "json":
            data = json.loads(block.text)
        case "yaml":
            data = list(yaml.safe_load_all(block.text))
        case "ini":
            data = configparser.ConfigParser(interpolation=None, strict=False)
            data.read_string(block.text)
            data = {name: dict(section) for name, section in data.items()}
    if name := block.marks.get("file"):
        site.save(name, block.text)
    for command in _steps(data) or re.findall(r"celery -A \w+ [^\n\"']*", _texts(data)):
        if "$(" not in command:
            check(command)


def _steps(data: Any) -> list[str]:
    """Return the commands of a workflow of a forge; none, if it is another file."""
    workflows = [each for each in data if isinstance(each, dict) and "jobs" in each] if isinstance(data, list) else []
    steps = [step for each in workflows for job in each["jobs"].values() for step in job["steps"]]
    assert all(("run" in step) != ("uses" in step) for step in steps), "a step runs or uses something"
    return [line for step in steps for line in step.get("run", "").splitlines()]


def _texts(data: Any) -> str:
    """Return the texts of a file, one a line; a list of words is a command."""
    if isinstance(data, dict):
        return "\n".join(_texts(value) for value in data.values())
    if isinstance(data, list) and all(isinstance(word, str) for word in data):
        return " ".join(data)
    if isinstance(data, list):
        return "\n".join(_texts(value) for value in data)
    return str(data)


_RUN = {"python": _python, "setup": lambda site, block: site.run(block.text, block.place), "console": _console}
