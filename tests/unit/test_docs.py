from __future__ import annotations

import ast
import codeop
import functools
import importlib.util
import re
import runpy
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import test_architecture
from support.pages import DOCS, python_blocks

from redisbeater import ScheduleStore
from redisbeater.config.settings import Config
from redisbeater.config.values import PREFIX
from redisbeater.model.fields import FIELDS, Word
from redisbeater.store.keys import refusal

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "redisbeater"
CONTRIBUTING = ROOT / "CONTRIBUTING.rst"
PAGES = sorted(DOCS.glob("*.rst"))


#: A row of a table that explains one field, up to its next cell or row.
ROW = r"^   \* - ``(\w+)``\n     - (.+?)(?=\n   \* -|\n     -|\n\n)"


def load(path: Path) -> Any:
    """Import a module that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


drawing = load(DOCS / "drawing.py")


def test_the_examples_of_the_pages_are_python() -> None:
    blocks = [(page.stem, block) for page in PAGES for block in python_blocks(page.read_text(encoding="utf-8"))]

    assert len(blocks) > 10
    assert not [block for block in blocks if not ast.parse(block[1], filename=block[0]).body], "a block without code"


def test_a_heading_and_its_line_are_two_lines() -> None:
    for page in (*PAGES, *ROOT.glob("*.rst")):
        assert not re.findall(r"^\w.* ([=~^\-\"])\1{3,}$", page.read_text(encoding="utf-8"), re.M), page.name


def test_every_setting_is_in_the_table() -> None:
    table = runpy.run_path(str(DOCS / "conf.py"))["settings_table"]()
    names = [f"{PREFIX}{setting.name}" for setting in fields(Config)]

    assert not [
        name for name in names if f"* - :confval:`{name}`" not in table or f".. confval:: {name}\n" not in table
    ]


def test_the_refusal_of_newer_data_names_a_page_and_a_section_that_are_there() -> None:
    page, section = refusal("redisbeater::format", "2").rpartition("(documentation: ")[2].rstrip(")").split(", ")
    lines = (DOCS / "operating.rst").read_text(encoding="utf-8").splitlines()
    assert lines[0] == page
    assert section in lines


def test_the_words_of_policies_are_explained_as_the_form_of_the_web_page_explains_them() -> None:
    page = (DOCS / "policies.rst").read_text(encoding="utf-8")
    explained = re.findall(r'^   ``(\w+)`` \| ``"(\w+)"`` \| (.+)$', page, re.MULTILINE)
    kinds = {name: field.kind for name, field in FIELDS.items()}
    words = [(name, each) for name, kind in kinds.items() if isinstance(kind, Word) for each in kind.choices]

    assert explained == [(name, each.value, each.sentence) for name, each in words]
    assert all(sentence.endswith(".") for _, _, sentence in explained)


def test_each_field_is_explained_as_the_command_line_and_the_web_page_explain_it() -> None:
    pages = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("entries.rst", "policies.rst"))
    rows = [f"{name}: {' '.join(text.split())}" for name, text in re.findall(ROW, pages, re.MULTILINE | re.DOTALL)]
    since = {name: "" if field.since == "1.0" else f" New in {field.since}." for name, field in FIELDS.items()}
    wanted = [f"{name}: {field.sentence}{since[name]}" for name, field in FIELDS.items()]

    assert not [text for text in wanted if not any(row.startswith(text) for row in rows)]


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


def test_every_line_of_the_log_is_explained() -> None:
    explained = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("log-lines*.rst"))
    texts = set(logged())

    assert len(texts) > 50
    assert not [text for text in texts if text not in explained]


def test_lines_with_redis_cli_name_the_redis_and_its_database() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    lines = re.findall(r"^ +\$ redis-cli .*", text, re.MULTILINE)

    assert not [line for line in lines if not re.search(r"redis-cli (-c )?-u redis://\S+:\d+", line)]


# The map in CONTRIBUTING


def mapped() -> list[str]:
    """The folders and files that the map names, a folder with a slash at its end."""
    block = CONTRIBUTING.read_text(encoding="utf-8").partition("   src/redisbeater/\n")[2].partition("\n\n")[0]
    return [line.split()[0] for line in block.splitlines()]


def test_the_map_has_every_folder_and_every_file_at_the_root_once() -> None:
    inside = [path for path in PACKAGE.rglob("*") if "__pycache__" not in path.parts]
    folders = {f"{path.relative_to(PACKAGE)}/" for path in inside if path.is_dir()}
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}

    assert sorted(mapped()) == sorted(folders | files)


# The drawing of the rooms


@functools.cache
def rooms_imported_by_the_code() -> dict[str, set[str]]:
    """The same imports as the test of the architecture reads them."""
    imports: dict[str, set[str]] = {}
    for module in test_architecture.TREES:
        room = test_architecture._room(module)
        others = {test_architecture._room(other) for other in test_architecture._own(module)}
        imports.setdefault(room, set()).update(others - {room})
    return imports


@functools.cache
def drawn_once() -> str:
    return drawing.draw()


def test_the_drawing_has_the_floors_of_the_rules() -> None:
    assert drawing.read_floors() == test_architecture.FLOORS


def test_the_drawing_has_every_room_of_the_code() -> None:
    on_disk = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    drawn = {room for floor in drawing.read_floors() for room in floor}

    assert {room or "__init__" for room in drawn} == on_disk
    assert drawn_once().count('<g class="room">') == len(drawn)


def test_the_table_of_the_rooms_has_every_import_of_the_code() -> None:
    table = drawing.table()

    assert drawing.read_imports() == rooms_imported_by_the_code()
    for room, others in rooms_imported_by_the_code().items():
        listed = re.search(rf"\* - ``{re.escape(drawing.label(room))}``\n +- .*\n +- (.*)", table)
        assert listed
        assert set(re.findall("``(.*?)``", listed[1])) == {drawing.label(other) for other in others}


def test_the_arrows_lead_to_every_room_that_a_room_imports_and_to_no_other() -> None:
    arrows = re.findall(r'data-from="(.*?)" data-to="(.*?)"', drawn_once())
    ground = {drawing.label(room) for room in drawing.read_floors()[0]}
    for room, others in rooms_imported_by_the_code().items():
        reached, waiting = set(), {drawing.label(room)}
        while waiting:
            start = waiting.pop()
            reached.add(start)
            waiting |= {end for begin, end in arrows if begin == start} - reached
        assert {drawing.label(other) for other in others} - ground <= reached
    assert set(arrows) <= {
        (drawing.label(room), drawing.label(other))
        for room, others in rooms_imported_by_the_code().items()
        for other in others
    }


def test_the_drawing_is_xml() -> None:
    assert ElementTree.fromstring(drawing.draw()).tag.endswith("svg")


def test_no_arrow_goes_up() -> None:
    lower, upper = (drawing.Box(room=room, left=0, top=top) for room, top in (("store", 100), ("cli", 0)))

    with pytest.raises(ValueError, match=r"store/ imports cli/, which is not below it"):
        drawing._arrow(lower, upper, [])


def test_a_chain_of_imports_stands_for_an_arrow() -> None:
    assert drawing.direct({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_no_arrow_crosses_a_room() -> None:
    boxes = drawing._boxes(drawing.read_floors())
    ground = set(drawing.read_floors()[0])
    for room, others in drawing.direct(drawing.read_imports()).items():
        for other in others - ground:
            between = [box for name, box in boxes.items() if name not in (room, other)]
            curves = [drawing.Curve.between(boxes[room], boxes[other], bend) for bend in drawing.BENDS]
            assert any(not any(curve.crosses(box) for box in between) for curve in curves), (room, other)


# The way of an entry in CONTRIBUTING


def test_every_file_on_the_way_of_an_entry_exists() -> None:
    way = CONTRIBUTING.read_text(encoding="utf-8").partition("\n**Save**")[2].partition("\nHow to add\n")[0]
    paths = re.findall(r"``([a-z_/]+\.(?:py|lua))``", way)

    assert len(paths) > 20
    assert not [path for path in paths if not (PACKAGE / path).is_file() and not (ROOT / path).is_file()]


def test_every_test_that_the_page_on_failures_names_exists() -> None:
    paths = re.findall(r"``([a-z]+/test_\w+\.py)``", (DOCS / "failures.rst").read_text(encoding="utf-8"))

    assert paths
    assert not [path for path in paths if not (ROOT / "tests" / path).is_file()]


def test_a_block_can_be_typed_into_python() -> None:
    """A blank line ends each indented block, as Python's prompt asks for; functions of a file are for a file."""
    refused = [
        f"{page.stem}: {line}"
        for page in PAGES
        for block in python_blocks(page.read_text(encoding="utf-8"))
        if not re.search(r"\n\n +\S", block)
        for line in refused_lines(block)
    ]

    assert not refused


def refused_lines(block: str) -> Iterator[str]:
    """Yield the first line that Python's prompt refuses, if there is one."""
    typed: list[str] = []
    for line in [*block.splitlines(), ""]:
        typed.append(line)
        try:
            if codeop.compile_command("\n".join(typed), "<page>", "single") is not None:
                typed = []
        except SyntaxError:
            yield line
            return


def test_each_method_of_the_store_is_in_one_group_of_its_page() -> None:
    page = (DOCS / "api-store.rst").read_text(encoding="utf-8")
    public = [name for name in vars(ScheduleStore) if not name.startswith("_")]

    assert sorted(re.findall(r"   \.\. auto(?:method|attribute):: (\w+)", page)) == sorted(public)
