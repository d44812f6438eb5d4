"""Words that were retired; the glossary has their successors."""

from __future__ import annotations

import re
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
    r"rescue[sd]?": "confirm what left",
    r"farewells?|goodbye": "close, release",
    r"sweep(s|ing)?|swept": "repair",
    r"strays?": "unscheduled",
    r"(stands?|stood) in (no|the|a) schedule": "is missing from the schedule, is in the schedule",
    r"(stands?|stood|standing) beside": "is stored with",
    r"bring forward": "cache",
    r"anew": "again",
    r"a while": "a delay, or how long",
    r"(try|trying|tries|tried) on": "retry",
    r"probation|caution|(im)?patien(ce|t)": "a name that tells the unit",
    r"reviv(e|es|ed|ing)": "resume",
    r"rid(e|es|den|ing) out": "wait for the end of",
    r"(is|are|was|were|be) told": "is logged, is reported",
    r"in vain": "without success",
    r"mended?": "fixed",
    r"uninterrupted": "deferred",
    r"whilst|thereof|wherein|whereby|thence|hence|lest|ere|amongst|upon|unto|thus": "plain English",
}

#: Names of other packages, which tests may call.
OTHERS = ("producer.revive(",)

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
        for match in ANY.finditer(_without_names_of_others(line).replace("_", " "))
    ]

    assert not found


def _successor(word: str) -> str:
    return next(use for words, use in RETIRED.items() if re.fullmatch(words, word, re.IGNORECASE))


@pytest.mark.parametrize(
    "text", ["a volley", "Volley", "LARGEST_VOLLEY", "in_the_air", "is set aside", "_sweep(", "anew."]
)
def test_a_retired_word_is_found_in_any_form(text: str) -> None:
    assert ANY.search(text.replace("_", " "))


@pytest.mark.parametrize("text", ["a blanket is set", "heretofore", "Renewal", "moldy", "reshape", "while", "upcoming"])
def test_another_word_is_not(text: str) -> None:
    assert not ANY.search(text.replace("_", " "))


def _without_names_of_others(line: str) -> str:
    for name in OTHERS:
        line = line.replace(name, "")
    return line
