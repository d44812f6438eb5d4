"""The code on the pages of the documentation."""

from __future__ import annotations

import textwrap
from pathlib import Path

__all__ = ("DOCS", "block_with", "python_blocks")

DOCS = Path(__file__).parents[2] / "docs"


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


def block_with(page: str, text: str) -> str:
    """The one block of a page that contains a text."""
    [block] = [block for block in python_blocks((DOCS / page).read_text(encoding="utf-8")) if text in block]
    return block
