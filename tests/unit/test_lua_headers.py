"""Every Lua script documents at its top what it takes and returns; these tests hold the header against the body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import redisbeater
from redisbeater.store.connection.script import load_script
from redisbeater.store.snapshot import digest, sha1

PRELUDE = Path(redisbeater.__file__).parent / "store" / "lua" / "prelude.lua"
RUNS_PRELUDE = PRELUDE.parent / "runs" / "prelude.lua"

#: What scripts do besides, where runs are tracked.
PARTS = sorted(RUNS_PRELUDE.parent.glob("with_*.lua"))
SCRIPTS = sorted(set(PRELUDE.parent.rglob("*.lua")) - {PRELUDE, RUNS_PRELUDE, *PARTS})

#: The longest body, without blank lines.
LONGEST_BODY = 80

_DOCUMENTED = re.compile(r"^-- ((?:KEYS|ARGV)\[\d+(?:\.\.)?\]) +(\w+) +\S", re.MULTILINE)
_BOUND = re.compile(r"^local ([\w, ]+) = ((?:(?:KEYS|ARGV)\[\d+\](?:, )?)+)$")
_REDIS_CALL = re.compile(r"redis\.p?call\('\w+'")
_OUTCOME = re.compile(r"'([A-Z][A-Z_]+)'")


@dataclass(frozen=True, kw_only=True)
class Script:
    header: str
    bindings: list[str]
    body: list[str]

    @classmethod
    def read(cls, path: Path) -> Script:
        lines = path.read_text().splitlines()
        code = next(index for index, line in enumerate(lines) if not line.startswith("--"))
        bound = next((index for index, line in enumerate(lines) if index >= code and not _BOUND.match(line)), code)
        return cls(header="\n".join(lines[:code]), bindings=lines[code:bound], body=lines[bound:])

    @property
    def documented(self) -> dict[str, str]:
        return dict(_DOCUMENTED.findall(self.header))

    @property
    def variadic(self) -> dict[str, int]:
        """KEYS or ARGV -> where its variable part begins."""
        found = re.findall(r"(KEYS|ARGV)\[(\d+)\.\.\]", " ".join(self.documented))
        return {table: int(first) for table, first in found}

    @property
    def bound(self) -> dict[str, str]:
        matches = [match for match in map(_BOUND.match, self.bindings) if match]
        return {
            position: name
            for match in matches
            for position, name in zip(match[2].split(", "), match[1].split(", "), strict=True)
        }

    @property
    def returned(self) -> set[str]:
        """The words that the body returns."""
        lines = [_REDIS_CALL.sub("", line) for line in self.body]
        return {word for line in lines if "return" in line for word in _OUTCOME.findall(line.split("return", 1)[1])}


def name_of(path: Path) -> str:
    return str(path.relative_to(PRELUDE.parent).with_suffix(""))


scripts = pytest.mark.parametrize(
    "script", [Script.read(path) for path in SCRIPTS], ids=[name_of(path) for path in SCRIPTS]
)


def test_there_are_scripts() -> None:
    names = {name_of(path) for path in SCRIPTS}

    assert names >= {"claim", "commit", "release", "save", "load", "delete", "runs/start", "runs/finish"}


@scripts
def test_the_header_documents_what_the_body_binds_by_the_same_names(script: Script) -> None:
    fixed = {position: name for position, name in script.documented.items() if ".." not in position}

    assert fixed == script.bound


@scripts
def test_keys_and_arguments_are_numbered_without_a_hole(script: Script) -> None:
    for table in ("KEYS", "ARGV"):
        numbers = [int(re.sub(r"\D", "", position)) for position in script.documented if position.startswith(table)]
        assert numbers == list(range(1, len(numbers) + 1))


@scripts
def test_only_a_variable_part_is_indexed_after_the_bindings(script: Script) -> None:
    indexed = {table for table in ("KEYS", "ARGV") for line in script.body if f"{table}[" in line}

    assert indexed <= set(script.variadic)
    assert not [line for line in script.body if re.search(r"(KEYS|ARGV)\[\d", line)]


@scripts
def test_a_variable_part_of_the_keys_is_gone_through_from_where_it_begins(script: Script) -> None:
    loops = re.findall(r"for i = (\d+), #KEYS\b", "\n".join(script.body))

    assert [int(first) for first in loops] == ([script.variadic["KEYS"]] if "KEYS" in script.variadic else [])


@scripts
def test_the_header_says_what_is_returned(script: Script) -> None:
    assert re.search(r"^-- Returns ", script.header, re.MULTILINE)


@scripts
def test_the_header_knows_the_words_that_are_returned(script: Script) -> None:
    returns = script.header.split("-- Returns ", 1)[1]

    assert script.returned == set(_OUTCOME.findall(returns))


@scripts
def test_the_header_begins_with_what_the_script_does(script: Script) -> None:
    assert re.match(r"-- [A-Z].*\.|-- [A-Z][^.]*$", script.header.splitlines()[0])


@scripts
def test_a_body_is_short(script: Script) -> None:
    assert len([line for line in script.bindings + script.body if line.strip()]) <= LONGEST_BODY


@scripts
@pytest.mark.parametrize("command", ["KEYS", "SMEMBERS", "HGETALL", "FLUSHDB", "FLUSHALL"])
def test_no_command_of_unbounded_cost_is_used(script: Script, command: str) -> None:
    assert f"call('{command}'" not in "\n".join(script.body)


@scripts
def test_a_walk_through_the_keys_is_bounded(script: Script) -> None:
    walks = [line for line in script.body if "'SCAN'" in line]

    assert all("'COUNT'" in line for line in walks)


# -- the functions that scripts share


@dataclass(frozen=True, kw_only=True)
class Function:
    name: str
    comment: str
    body: str

    @classmethod
    def all(cls, path: Path = PRELUDE) -> list[Function]:
        """The functions of a prelude, or of a part, each with the comment in front of it."""
        parts = re.split(r"\n\n(?=--)", path.read_text().strip())[1:]
        found = [re.fullmatch(r"((?:--.*\n)+)local function (\w+)(\(.*)", part, re.DOTALL) for part in parts]
        assert all(found)
        return [cls(comment=match[1], name=match[2], body=match[3]) for match in found if match]


RUN_FUNCTIONS = Function.all(RUNS_PRELUDE)
functions = pytest.mark.parametrize("function", Function.all(), ids=lambda function: function.name)


def test_the_prelude_is_put_in_front_of_every_script() -> None:
    for path in SCRIPTS:
        texts = [PRELUDE, *([RUNS_PRELUDE] if path.parent == RUNS_PRELUDE.parent else []), path]
        assert load_script(name_of(path)).text == "\n".join(each.read_text() for each in texts)


@pytest.mark.parametrize("path", [PRELUDE, RUNS_PRELUDE], ids=["prelude", "runs/prelude"])
def test_a_prelude_holds_functions_and_nothing_else(path: Path) -> None:
    starts = [line for line in path.read_text().splitlines() if line and not line.startswith((" ", "--", "end"))]

    assert len(starts) == len(Function.all(path)) > 5
    assert all(line.startswith("local function ") for line in starts)


@functions
def test_a_shared_function_is_shared(function: Function) -> None:
    users = [path.stem for path in [*SCRIPTS, RUNS_PRELUDE] if f"{function.name}(" in path.read_text()]
    callers = [other.name for other in Function.all() if f"{function.name}(" in other.body and other != function]

    assert len(users + callers) > 1


@pytest.mark.parametrize("function", RUN_FUNCTIONS, ids=lambda function: function.name)
def test_a_function_of_runs_is_shared_or_a_step_of_one_that_is(function: Function) -> None:
    users = [path.stem for path in [*SCRIPTS, *PARTS] if f"{function.name}(" in path.read_text()]
    callers = [other.name for other in RUN_FUNCTIONS if f"{function.name}(" in other.body and other != function]

    assert callers or len(users) > 1


@pytest.mark.parametrize("function", [*Function.all(), *RUN_FUNCTIONS], ids=lambda function: function.name)
def test_a_shared_function_is_documented_short_and_cheap(function: Function) -> None:
    assert re.match(r"-- (Add|Return|Remove|Schedule|Store|Tell) ", function.comment)
    assert len(function.body.splitlines()) <= 15
    assert not re.search(r"'(KEYS|SMEMBERS|HGETALL|SCAN|FLUSHDB|FLUSHALL)'", function.body)


@pytest.mark.parametrize("path", PARTS, ids=name_of)
def test_a_part_says_of_which_script_and_stands_in_front_of_it(path: Path) -> None:
    script = path.stem.removeprefix("with_")
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("--")]
    texts = [PRELUDE, RUNS_PRELUDE, path, PRELUDE.parent / f"{script}.lua"]

    assert path.read_text().splitlines()[0].endswith(f"It stands in front of {script}.lua.")
    assert load_script(script, with_runs=True).text == "\n".join(each.read_text() for each in texts)
    assert len(lines) <= LONGEST_BODY
    assert "HGETALL" not in path.read_text()


def test_only_the_prelude_decides_whether_a_stored_fire_time_counts() -> None:
    readers = [path.stem for path in SCRIPTS if re.search(r"tonumber\(\w+\.look_at\)|string\.match", path.read_text())]

    assert readers == []


def test_the_digest_of_the_scripts_is_that_of_python() -> None:
    assert r"table.concat(texts, '\n')" in PRELUDE.read_text()
    assert digest("d", "m", "r") == sha1("d\nm\nr")
    assert digest("", "", "r") == ""
