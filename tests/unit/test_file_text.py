"""The text of a file: JSON, and YAML without its surprises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from redisbeater import Export, InvalidEntry
from redisbeater.display import unsafe_character
from redisbeater.management.files import export as text
from redisbeater.management.files.export import parse, render

yaml = pytest.importorskip("yaml", reason="the extra yaml installs PyYAML")

SHOP = """
redisbeater: 1            # format
owner: shop
defaults: {timezone: Europe/Vienna, options: {queue: reports}}
entries:
  report: {task: shop.tasks.report, cron: "0 9 * * 1-5", args: [1]}
  once:
    task: shop.tasks.once
    at: 2030-01-01T09:00:00
    options: {priority: 3}
    kwargs: {from: 2026-01-01, at: 12:30, is_on: on}
"""


def test_yaml_is_read_without_its_surprises() -> None:
    export = Export.from_text(SHOP)

    assert export.owner == "shop"
    assert export.entries["report"].fields == {
        "task": "shop.tasks.report",
        "cron": "0 9 * * 1-5",
        "args": [1],
        "timezone": "Europe/Vienna",
        "options": {"queue": "reports"},
    }
    once = export.entries["once"].fields
    assert once["at"] == "2030-01-01T09:00:00"
    assert once["options"] == {"queue": "reports", "priority": 3}
    assert once["kwargs"] == {"from": "2026-01-01", "at": "12:30", "is_on": True}


def test_an_export_is_the_same_in_both_forms() -> None:
    export = Export.from_text(SHOP)

    assert Export.from_text(export.to_text(as_yaml=True)) == Export.from_text(export.to_text())


def head(rest: str) -> str:
    return f"redisbeater: 1\nentries:\n{rest}"


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (BOMB, "f: not YAML: aliases are not accepted; use defaults, line 2, column 8"),
        ("[" * 200 + "]" * 200, "f: not YAML: nested too deeply; at most 103 levels, line 1, column 104"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "f: nested too deeply; at most 103 levels"),
        (head("  a: {}\n  a: {}"), "f: not YAML: 'a' is there twice, line 4, column 3"),
        ('{"redisbeater": 1, "entries": {"a": {}, "a": {}}}', "f: not JSON: 'a' is there twice"),
        ('{"redisbeater": 1,}', "f: not JSON: "),
        ("a: [", "f: not YAML: "),
        ("a: !!python/object/apply:os.system [ls]", "f: not YAML: could not determine a constructor for the tag"),
        ("redisbeater: 2\nentries: {}", "f: redisbeater: is format 2; this version reads 1"),
        ("entries: {}", "f: redisbeater: is missing; a file begins with redisbeater: 1"),
        ("redisbeater: 1\nenties: {}", "f: enties: is not a part of a file; did you mean 'entries'?"),
        ("redisbeater: 1\nentries: []", "f: entries: expected an object of names and values, got []"),
        ("redisbeater: 1\nowner: '   '\nentries: {}", "f: owner: expected a name of 1 to 100 characters"),
        ("just a text", "f: expected an object with redisbeater: 1 and entries, got 'just a text'"),
        ("", "f: expected an object with redisbeater: 1 and entries, got None"),
        ('{"redisbeater": 1, "entries": {}, "id": "\\ud800"}', r"f: id: '\ud800' is not valid unicode"),
        ('{"redisbeater": 1, "entries": {}, "owner": "\\ud800"}', r"f: owner: '\ud800' is not valid unicode"),
        (
            '{"redisbeater": 1, "entries": {}, "state": {"a": {"skipped": "\\ud800"}}}',
            r"f: state.a.skipped: '\ud800' is not valid unicode",
        ),
        ('{"redisbeater": 1,\n "entries" 2}', "f: not JSON: Expecting ':' delimiter: line 2 column 12"),
        (head("  ? [a, b]\n  : x"), "f: not YAML: a key must be a text, not a list or an object, line 3, column 5"),
        (head("  ? {a: b}\n  : x"), "f: not YAML: a key must be a text, not a list or an object, line 3, column 5"),
        (head("  a: !!map [1]"), "f: not YAML: expected a mapping node, but found sequence, line 3, column 6"),
        (head("  a: !!bool maybe"), "f: not YAML: 'maybe' cannot be read as bool, line 3, column 6"),
        (head("  a: !!int ''"), "f: not YAML: '' cannot be read as int, line 3, column 6"),
        (head("  a: !!float ''"), "f: not YAML: '' cannot be read as float, line 3, column 6"),
        (head("  a: !!float x"), "f: not YAML: 'x' cannot be read as float, line 3, column 6"),
        (head("  a: 0x_"), "f: not YAML: '0x_' cannot be read as int, line 3, column 6"),
        (head("  a: " + "1" * 5000), "f: not YAML: '1111"),
        (head('  a: "\\U00110000"'), "f: not YAML: chr() arg not in range(0x110000), line 3, column 9"),
        (head("  a: \x07"), "f: not YAML: special characters are not allowed, U+0007, line 3, column 6"),
        *(
            (head(f"  a: !!{kind} {value}"), "f: not YAML: could not determine a constructor for the tag")
            for kind, value in {
                "timestamp": "foo",
                "binary": "x",
                "set": "{a}",
                "omap": "[a: 1]",
                "pairs": "[]",
            }.items()
        ),
    ],
)
def test_what_is_no_file_is_refused_with_the_place(written: str, problem: str) -> None:
    with pytest.raises(InvalidEntry) as caught:
        Export.from_text(written, "f")

    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("key", "meaning"),
    [
        ("on", "True"),
        ("yes", "True"),
        ("NO", "False"),
        ("007", "7"),
        ("0x7", "7"),
        ("1_0", "10"),
        ("1.5", "1.5"),
        ("~", "None"),
    ],
)
def test_a_key_that_yaml_does_not_read_as_a_text_is_refused_with_how_to_quote_it(key: str, meaning: str) -> None:
    text = f"  {key}: {{task: t, every: 60}}"

    with pytest.raises(InvalidEntry) as caught:
        Export.from_text(head(text), "f")

    assert (
        str(caught.value)
        == f"f: not YAML: the key {key} means {meaning}; write it as a text: '{key}', line 3, column 3"
    )
    assert list(Export.from_text(head(text.replace(key, f"'{key}'", 1))).entries) == [key]


def test_names_that_yaml_reads_as_something_else_come_back_from_a_file() -> None:
    names = (
        "on",
        "yes",
        "007",
        "7",
        "0x7",
        "1_0",
        "1.5",
        "~",
        "",
        "null",
        "12:30",
        "2026-01-01",
        "=",
        "<<",
        "- a",
        "a: b",
    )
    data = {"redisbeater": 1, "entries": {name: {"description": name} for name in names}}

    assert parse(render(data, as_yaml=True), "f") == data
    assert list(parse("12:30: a\n2026-01-01: a\n=: a\n<<: =", "f")) == ["12:30", "2026-01-01", "=", "<<"]


def test_a_file_that_is_no_utf_8_is_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("redisbeater: 1\nowner: café\n".encode("latin-1"))

    with pytest.raises(InvalidEntry, match=r"f: is no UTF-8 text: the byte 0xe9, line 2, column 11$"):
        Export.read(tmp_path / "f")


def test_a_file_of_too_many_characters_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidEntry, match="at most 8,000,000 are read"):
        Export.from_text("a: " + "x" * text.MOST_YAML_BYTES)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidEntry, match=r"none\.json: cannot be read: .*No such file"):
        Export.read(tmp_path / "none.json")


def test_a_byte_order_mark_does_no_harm() -> None:
    assert Export.from_text("\ufeff" + json.dumps({"redisbeater": 1, "entries": {}})).entries == {}


@pytest.mark.parametrize("as_yaml", [False, True], ids=["json", "yaml"])
def test_characters_that_drive_a_terminal_are_escaped_in_a_file_and_come_back(as_yaml: bool) -> None:
    marks = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000 and unsafe_character(chr(code))]
    odd = {
        f"e {ord(mark):x} {mark} é": {"text": f"a{mark}: # {mark}", "mark": mark, "lines": "1\n 2\n"} for mark in marks
    }
    data = {"redisbeater": 1, "entries": odd}

    written = render(data, as_yaml=as_yaml)

    assert len(marks) > 70
    assert [char for char in written if char != "\n" and not char.isprintable()] == []
    assert "é" in written
    assert parse(written, "f") == data


def test_yaml_of_many_entries_is_written_in_pages_and_read_back() -> None:
    fields = {"every": "10m", "args": [1, {"a": None}], "kwargs": {"text": "line\nbreak: é 😀 "}, "labels": {}}
    data = {"redisbeater": 1, "owner": "shop", "entries": {f"e {each}": fields for each in range(501)}, "state": {}}
    counts: list[int] = []

    text = render(data, as_yaml=True, progress=counts.append)

    assert parse(text, "f") == data
    assert counts == [250, 500, 501]
    assert text.startswith("redisbeater: 1\nowner: shop\nentries:\n  e 0:\n    every: 10m\n")
