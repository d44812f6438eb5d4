"""``Raised``: a traceback as people read it: where an error was raised stands first, frames of libraries are folded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

_BEGIN = "Traceback (most recent call last):"

_FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')

#: What is none of the application's own code: installed packages, and what comes with Python.
_LIBRARY = re.compile(
    r"(?:/(?:site|dist)-packages/|/lib(?:64)?/python[\d.]+/(?!(?:site|dist)-)|^<frozen )(?P<package>[^/.>]+)"
)

#: The arrows below a line of code, which say nothing where its frame stands alone.
_ARROWS = re.compile(r"[\s^~]+")

#: How many parts of a path tell which file it is.
_PARTS = 3


class Frame(NamedTuple):
    """A line of code that was being executed.

    Attributes:
        file: the whole path of its file.
        place: the end of the path, and the line: ``orders/feed.py:88``.
        function: in which it stands.
        code: the lines of code.
        package: the library that it belongs to; empty: it is the application's own.
    """

    file: str
    place: str
    function: str
    code: tuple[str, ...]
    package: str


class Frames(NamedTuple):
    """Neighbouring frames, of the application alone, or of libraries alone; the one that raised stands first."""

    frames: Sequence[Frame]
    is_own: bool

    @property
    def words(self) -> str:
        """What is folded: ``4 frames of celery, csv``."""
        number = "1 frame" if len(self.frames) == 1 else f"{len(self.frames)} frames"
        return f"{number} of {', '.join(dict.fromkeys(frame.package for frame in self.frames))}"


class Raised(NamedTuple):
    """An error, its class, text and notes, and where it was raised."""

    error: str
    parts: Sequence[Frames]

    @property
    def has_own(self) -> bool:
        """Whether a frame is the application's own."""
        return any(part.is_own for part in self.parts)


def raised_of(traceback: str) -> list[Raised]:
    """Return the errors of a traceback, the last one first; none if it is not as Python prints it."""
    return list(_errors(traceback.split("\n")))[::-1]


def _errors(lines: Sequence[str]) -> Iterator[Raised]:
    frames, error = list[Frame](), list[str]()
    for line in [*lines, _BEGIN]:
        if line == _BEGIN:
            if frames:
                yield Raised("\n".join(error).strip(), _parts(frames))
            frames, error = [], []
        elif found := _FRAME.fullmatch(line):
            frames.append(_frame(found))
        elif not error and line.startswith("    "):
            if frames and not _ARROWS.fullmatch(line):
                frames[-1] = frames[-1]._replace(code=(*frames[-1].code, line.strip()))
        elif frames and line.strip() and not line.startswith("  ["):
            error.append(line)


def _frame(found: re.Match[str]) -> Frame:
    file, library = found["file"], _LIBRARY.search(found["file"])
    place = "/".join(file.strip("/").split("/")[-_PARTS:]) if library is None else file[library.start("package") :]
    return Frame(file, f"{place}:{found['line']}", found["function"], (), library["package"] if library else "")


def _parts(frames: Sequence[Frame]) -> list[Frames]:
    grouped = groupby(reversed(frames), key=lambda frame: not frame.package)
    return [Frames(list(of_one_kind), is_own) for is_own, of_one_kind in grouped]
