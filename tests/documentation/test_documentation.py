"""Every block of every page: its code runs, its commands print what the page shows, its files can be read."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from page_blocks import Block, blocks
from page_commands import check, is_run, run, shown
from page_output import fits
from page_site import Site
from support import django_project
from support.pages import DOCS
from support.servers import Server

ROOT = DOCS.parent
PAGES = sorted([*DOCS.rglob("*.rst"), ROOT / "README.rst"])
PAGES = [page for page in PAGES if "_generated" not in page.parts and blocks(page)]

#: Marks that the pages need: what nothing can run here, and what prints something else each time. It may only shrink.
MOST_MARKED = {"not run": 12, "output differs": 0}

#: Hidden lines only make an output comparable: a page is typed without them, too, and its commands end alike. Not so
#: these pages: theirs stand for what a reader has already, or for what the page asks for in words. It may only shrink.
SUPPLIED = {
    "know-that-it-ran": "a phone that receives messages",
}

#: How pages begin that act on entries.
START = "To follow this page"

#: Opens a site; the argument says whether nothing but what the page shows is done.
Open = Callable[[bool], contextlib.AbstractContextManager[Site]]


@pytest.fixture
def open_site(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open an empty folder with an empty schedule; modules and variables that the page makes are gone afterwards."""
    monkeypatch.setenv("USER", "anna")
    monkeypatch.setenv("REDIS_URL", server.url(0).rpartition("/")[0])  # which the examples read
    modules, environ = dict(sys.modules), dict(os.environ)
    server.client().config_set("save", "86400 1000000000")  # lint would advise readers to write to the disk

    @contextlib.contextmanager
    def opened(is_on_its_own: bool) -> Iterator[Site]:
        folder = tmp_path / ("typed" if is_on_its_own else "shown")
        folder.mkdir()
        for database in (0, 1):
            server.client(database).flushdb()
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            patch.syspath_prepend(folder)
            found = Site(server, folder, is_on_its_own=is_on_its_own)
            try:
                with found.opened:
                    yield found
            finally:
                os.environ.clear()
                os.environ.update(environ)
                for name in set(sys.modules) - set(modules):
                    if (getattr(sys.modules[name], "__file__", None) or str(folder)).startswith(str(folder)):
                        del sys.modules[name]

    yield opened
    server.client().config_set("save", "")
    for database in (0, 1):
        server.client(database).flushdb()


@pytest.mark.usefixtures("nothing_of_a_worker_stays")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_happens(page: Path, open_site: Open) -> None:
    """A page is typed into an empty folder; one with hidden lines that it does not need a second time, without them."""
    if "django_celery_beat" in page.read_text(encoding="utf-8"):
        django_project.set_up()  # once in a process; the test below has one of its own
        django_project.empty_tables()
    parts = blocks(page)
    has_hidden_lines = any(block.language == "setup" for block in parts)
    with open_site(not has_hidden_lines) as site:
        for block in parts:
            _run(site, block)
    if not has_hidden_lines or page.stem in SUPPLIED:
        return
    with open_site(True) as typed:
        for block in parts:
            if block.language != "setup":
                _run(typed, block, compare=False)

    assert typed.codes == site.codes


@pytest.mark.usefixtures("client")
def test_the_project_with_django_celery_beat_is_complete(server: Server, tmp_path: Path) -> None:
    """In a process of its own: in that of the tests Django has its settings already."""
    parts = blocks(DOCS / "moving-from-django-celery-beat.rst")
    [project] = [block.text for block in parts if block.marks.get("file") == "proj.py"]
    steps = [step for block in parts if block.language == "console" for step in shown(block.text)]
    [dry_run] = [step for step in steps if "--dry-run" in step.command]
    url = server.url(0).rpartition("/")[0]
    (tmp_path / "proj.py").write_text(project.replace("redis://localhost:6379", url), encoding="utf-8")

    def output(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
        return done.stdout + done.stderr

    assert output("proj.py") == ""
    assert fits(dry_run.output, output("-m", *shlex.split(dry_run.command)))


def _run(site: Site, block: Block, *, compare: bool = True) -> None:
    if "clock" in block.marks:
        site.pass_time(float(block.marks["clock"].split()[0]))
    if "not run" not in block.marks:
        _RUN.get(block.language, _read)(site, block, compare)


def test_the_pages_that_begin_with_a_block_to_paste_have_no_hidden_line() -> None:
    begin = {page.stem: blocks(page) for page in PAGES if START in page.read_text(encoding="utf-8")}

    assert {"editing", "fire-times", "looking", "managing-runs", "not-run"} <= begin.keys()
    assert not [page for page, parts in begin.items() if any(block.language == "setup" for block in parts)]


@pytest.mark.usefixtures("server")
def test_marked_blocks_are_few_and_say_why() -> None:
    marked = {mark: [block for page in PAGES for block in blocks(page) if mark in block.marks] for mark in MOST_MARKED}
    for mark, found in marked.items():
        print(f"{mark}: {len(found)}", *(f"{block.place}: {block.marks[mark]}" for block in found), sep="\n")
    reasons = [block.marks[mark] for mark, found in marked.items() for block in found]
    tests = {path for reason in reasons for path in re.findall(r"tests/[\w/]+\.py", reason)}

    assert all(len(found) <= MOST_MARKED[mark] for mark, found in marked.items())
    assert [path for path in tests if not (ROOT / path).is_file()] == []


def test_each_block_of_python_says_where_it_goes() -> None:
    """In the paragraph before it, or once for all blocks of its page; the quickstart explains the words."""
    lost = []
    for page in sorted(DOCS.glob("*.rst")):
        text = page.read_text(encoding="utf-8")
        for block in blocks(page):
            *_, before = _paragraphs(text.splitlines()[: block.line - 1])
            is_said = re.search(_PLACE, before) or re.search(_PLACE_OF_ALL, text)
            is_added = "Add th" in before and "``proj.py``" in before
            if block.language == "python" and not (is_said and is_added >= ("add" in block.marks)):
                lost.append(block.place)

    assert not lost


#: What says where the blocks of a page go, and where a block goes.
_PLACE_OF_ALL = r"type a Python block into ``python``|blocks of this page are settings|each block is a module"
_PLACE = r"``python``|``[\w/]+\.py``|your (application|programs|handler)|[sS]ettings|save these two files"


def _paragraphs(lines: list[str]) -> list[str]:
    """Return the paragraphs of these lines, without comments, directives and their options."""
    parts = " ".join("\n\n" if re.match(r" *(\.\.|:[\w-]+:( |$)|$)", line) else line for line in lines)
    return ["", *(part.strip() for part in parts.split("\n\n") if part.strip())]


@pytest.mark.parametrize("page", sorted(DOCS.glob("recipe-*.rst")), ids=lambda page: page.stem)
def test_a_recipe_is_short(page: Path) -> None:
    """Without blocks and tables it has 400 words at most."""
    prose = re.sub(r"^( *)\.\. .*\n(?:\1 +.*\n|\n)*", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert 100 < len(prose.split()) <= 400


def _python(site: Site, block: Block, compare: bool) -> None:
    if name := block.marks.get("file"):
        site.save(name, block.text)
        if name == "proj.py":
            site.run("from proj import app", block.place)
        return
    if name := block.marks.get("add"):
        site.add(name, block.text)
        return
    printed = site.run(block.text, block.place)
    expected = _comment_at_the_end(block.text)
    if compare and printed and expected and "output differs" not in block.marks:
        assert fits(expected, printed), f"{block.place} printed\n{printed}"


def _comment_at_the_end(text: str) -> str:
    """Return the comment at the end of a block: what its prints show."""
    found = re.search(r"((?:^# .*\n)+)\Z", text, re.MULTILINE)
    return re.sub(r"^# ?", "", found[1], flags=re.MULTILINE) if found else ""


def _console(site: Site, block: Block, compare: bool) -> None:
    for step in shown(block.text):
        if is_run(site, step.command):
            run(site, step, compare=compare and "output differs" not in block.marks)
        else:
            check(step.command)


def _read(site: Site, block: Block, _compare: bool) -> None:
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


def _setup(site: Site, block: Block, _compare: bool) -> None:
    site.run(block.text, block.place)


_RUN = {"python": _python, "setup": _setup, "console": _console}
