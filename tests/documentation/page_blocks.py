"""The blocks of a page: what is to be run, in the order of the page, and what the page says about running it."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

__all__ = ("MARKS", "Block", "blocks")

#: Comments in front of a block that change how it is run; each has a text behind its colon.
#: ``not run``: why nothing can run it. ``output differs``: why its output is not compared. ``file``: where it is saved.
#: ``clock``: how much time passes before it, such as ``70 s``; a beat and a worker that the page has started work on.
MARKS = ("not run", "output differs", "file", "clock")

_DIRECTIVE = re.compile(
    r"^( *)\.\. (?:code-block:: (\w+)|(setup):)\n(?:\1   :.*\n)*\n((?:\1   .*\n|\n)+)", re.MULTILINE
)
_MARK = re.compile(rf"^ *\.\. ({'|'.join(MARKS)}): (.+)$")


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    #: ``python``, ``console``, ``yaml``, ..., or ``setup``.
    language: str
    text: str
    marks: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    text = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
    return [
        Block(
            path.name,
            text.count("\n", 0, match.start()) + 1,
            match[2] or match[3],
            textwrap.dedent(match[4]).strip("\n") + "\n",
            _marks(text[: match.start()]),
        )
        for match in _DIRECTIVE.finditer(text)
    ]


def _marks(before: str) -> dict[str, str]:
    """Return the marks directly in front of a block, with a blank line behind each or none."""
    marks = {}
    for line in reversed(before.splitlines()):
        if found := _MARK.match(line):
            marks[found[1]] = found[2]
        elif line.strip():
            break
    return marks
