"""The code that pages take from files: what a reader copies is whole."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path

import pytest
from support.pages import DOCS

_INCLUDE = re.compile(r"\.\. literalinclude:: (\S+)\n((?:   :.*\n)+)")


def included() -> dict[str, str]:
    """Return the Python that pages include, as far as they show it, by page and file."""
    found = {}
    for page in sorted(DOCS.glob("*.rst")):
        for name, options in _INCLUDE.findall(page.read_text(encoding="utf-8")):
            if name.endswith(".py"):
                found[f"{page.stem} {Path(name).name}"] = cut((page.parent / name).read_text(encoding="utf-8"), options)
    return found


def cut(text: str, options: str) -> str:
    given = dict(re.findall(r":([\w-]+): (.+)", options))
    assert given.keys() <= {"language", "caption", "start-at"}, "an option that this test does not know"
    return text[text.index(given["start-at"]) :] if "start-at" in given else text


def undefined(source: str) -> set[str]:
    """Return the names that the code reads and nothing in it makes."""
    made, read = set(dir(builtins)) | {"__file__"}, set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                made.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                made.add(name)
            case ast.alias(name=name, asname=asname):
                made.add(asname or name.partition(".")[0])
    return read - made


@pytest.mark.parametrize(("place", "source"), included().items(), ids=included())
def test_what_a_page_includes_has_every_name_that_it_uses(place: str, source: str) -> None:
    assert undefined(source) == set(), place


def test_included_code_is_found() -> None:
    assert len(included()) > 10
    assert undefined("import os\nprint(os.name, path)") == {"path"}
