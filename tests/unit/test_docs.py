from __future__ import annotations

import ast
import re
import runpy
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from redisbeater.config.settings import PREFIX, Config

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.rst"))


def python_blocks(text: str) -> list[str]:
    """The bodies of the ``code-block:: python`` directives of a page."""
    blocks = []
    for part in text.split(".. code-block:: python\n")[1:]:
        lines = []
        for line in part.splitlines():
            if line and not line.startswith("   "):
                break
            lines.append(line)
        blocks.append(textwrap.dedent("\n".join(lines)).strip())
    return blocks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_are_python(page: Path) -> None:
    for block in python_blocks(page.read_text(encoding="utf-8")):
        ast.parse(block)


def test_pages_with_examples_are_found() -> None:
    assert sum(len(python_blocks(page.read_text(encoding="utf-8"))) for page in PAGES) > 10


@pytest.mark.parametrize("setting", [setting.name for setting in fields(Config)])
def test_every_setting_is_in_the_table(setting: str) -> None:
    table = runpy.run_path(str(DOCS / "conf.py"))["settings_table"]()

    assert f"* - :confval:`{PREFIX}{setting}`" in table
    assert f".. confval:: {PREFIX}{setting}\n" in table


def logged() -> Iterator[str]:
    """What beat logs, from info on: of each message its longest text without a placeholder."""
    for source in sorted((ROOT / "src" / "redisbeater").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="logger"), attr="info" | "warning" | "error" | "exception"),
                    args=[ast.Constant(value=str(message)), *_],
                ):
                    yield max(re.split(r"%[-.\d]*\w", message), key=len).strip(" ':")


@pytest.mark.parametrize("text", sorted(set(logged())))
def test_every_line_of_the_log_is_explained(text: str) -> None:
    assert text in (DOCS / "operating.rst").read_text(encoding="utf-8")
