"""The blocks of a page: what is to be run, in the order of the page, and what the page says about running it."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

__all__ = ("MARKS", "Block", "blocks")

#: Comments in front of a block that change how it is run; each has a text behind its colon.
#: ``not run``: why nothing can run it. ``output differs``: why its output is not compared. ``file``: where it is saved.
#: ``add``: the module to whose end it is added; a beat and a worker that the page has started start again.
#: ``clock``: how much time passes before it, such as ``70 s``; a beat and a worker that the page has started work on.
MARKS = ("not run", "output differs", "file", "add", "clock")

_DIRECTIVE = re.compile(
    r"^( *)\.\. (?:code-block:: (?P<language>\w+)|(?P<setup>setup):|literalinclude:: (?P<included>\S+))\n"
    r"(?:\1   :.*\n)*\n(?P<text>(?:\1   .*\n|\n)*)",
    re.MULTILINE,
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
    """Return the blocks of a page in their order, with the included files that it lets a reader save."""
    text = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
    found = []
    for match in _DIRECTIVE.finditer(text):
        marks = _marks(text[: match.start()])
        if match["included"] and "file" not in marks:
            continue
        line = text.count("\n", 0, match.start()) + 1
        shown = textwrap.dedent(match["text"]).strip("\n") + "\n"
        if match["included"]:
            shown = (path.parent / match["included"]).read_text(encoding="utf-8")
        found.append(Block(path.name, line, match["language"] or match["setup"] or "python", shown, marks))
    return found


def _marks(before: str) -> dict[str, str]:
    """Return the marks directly in front of a block, with a blank line behind each or none."""
    marks = {}
    for line in reversed(before.splitlines()):
        if found := _MARK.match(line):
            marks[found[1]] = found[2]
        elif line.strip():
            break
    return marks
