"""The voice of the house: words that were retired, and docstrings that can be read aloud."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: A pattern for each retired word, and the words to use instead. Case does not matter; an underscore counts as a blank.
RETIRED = {
    r"volleys?": "publish batch",
    r"in the air": "in flight",
    r"takes? off": "mark in flight",
    r"turn(s|ed|ing)? back": "put back in the queue",
    r"mou?lds?": "template",
    r"likeness": "template key",
    r"set(s|ting)? (it |them |one )?aside": "quarantine",
    r"doubt(s|ed|ful)?": "invalidate, retry one by one, unknown",
    r"suspects?": "must be sent alone",
    r"probation": "how many fast runs a slow task still needs",
    r"rescue[sd]?": "confirm what left",
    r"farewells?|goodbye": "close, release",
    r"sweep(s|ing)?|swept": "repair",
    r"strays?": "unscheduled",
    r"(stands?|stood) in (no|the|a) schedule": "is missing from the schedule, is in the schedule",
    r"(stands?|stood|standing) beside": "is stored with",
}

ANY = re.compile(rf"(?<![a-z])(?:{'|'.join(RETIRED)})(?![a-z])", re.IGNORECASE)


def files() -> list[Path]:
    """Return what people read: the sources, tests, documentation and examples, and the pages at the root."""
    folders = [
        path
        for folder, endings in {
            "src": (".py", ".lua"),
            "tests": (".py",),
            "docs": (".rst", ".py"),
            "examples": (".py", ".rst", ".sh"),
        }.items()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in endings and not {"_build", "_generated"} & set(path.parts) and path != Path(__file__)
    ]
    return [*folders, *(ROOT / page for page in ("README.rst", "CHANGELOG.rst", "CONTRIBUTING.rst"))]


def test_no_retired_word_is_used() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: write {_successor(match[0])!r}"
        for path in files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in ANY.finditer(line.replace("_", " "))
    ]

    assert not found


def _successor(word: str) -> str:
    return next(use for words, use in RETIRED.items() if re.fullmatch(words, word, re.IGNORECASE))


@pytest.mark.parametrize(
    "text", ["a volley", "Volley", "LARGEST_VOLLEY", "in_the_air", "is set aside", "_sweep(", "stray."]
)
def test_a_retired_word_is_found_in_any_form(text: str) -> None:
    assert ANY.search(text.replace("_", " "))


@pytest.mark.parametrize("text", ["a blanket is set", "moldy", "strayed", "sweeper", "in air", "a while"])
def test_another_word_is_not(text: str) -> None:
    assert not ANY.search(text.replace("_", " "))


def test_a_docstring_names_what_is_returned() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line!r}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line, is_of_function in first_lines(path)
        if line.startswith("Return what") or (is_of_function and re.search("; (None|empty):", line))
    ]

    assert not found, "write 'Return the run, or None if there is none.':\n" + "\n".join(found)


def first_lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the line number, the first line, and whether it is that of a function, of each docstring of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first, *_ = (ast.get_docstring(node) or "").splitlines() or [""]
            yield getattr(node, "lineno", 1), first, isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
