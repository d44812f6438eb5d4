"""Every Lua script documents at its top what it takes and returns; these tests hold the header against the body."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import redisbeater
from redisbeater.results import State
from redisbeater.store.connection import load_script, without_unused
from redisbeater.store.snapshot import digest, sha1

PRELUDE = Path(redisbeater.__file__).parent / "store" / "lua" / "prelude.lua"
RUNS_PRELUDE = PRELUDE.parent / "runs" / "prelude.lua"

#: What the scripts of runs know of states.
STATES = """\
local FINAL = {BUFFERED = false, SENT = false, STARTED = false, RETRY = false, SUCCESS = true, FAILURE = true, \
REVOKED = true, EXPIRED = true, LOST = true}
local CLOSED = {SUCCESS = true}
local LETTERS = {SUCCESS = 'S', FAILURE = 'F', EXPIRED = 'X', LOST = 'L'}
local REVISABLE = {LOST = true}
local FAILURES = {FAILURE = true, LOST = true}
local REPORTED = {SUCCESS = true, FAILURE = true}
local REDELIVERED = {FAILURE = true, REVOKED = true}
local COUNTED = {'n.sent', 'n.success', 'n.failure', 'n.lost', 'n.revoked', 'n.expired', 'n.skipped'}
"""

#: What scripts do besides, where runs are tracked.
PARTS = sorted(PRELUDE.parent.rglob("with_*.lua"))
PATHS = sorted(set(PRELUDE.parent.rglob("*.lua")) - {PRELUDE, RUNS_PRELUDE, *PARTS})

#: The longest line of any script, in characters.
LONGEST_LINE = 120

_DOCUMENTED = re.compile(r"^-- ((?:KEYS|ARGV)\[\d+(?:\.\.)?\]) +(\w+) +\S", re.MULTILINE)
_BOUND = re.compile(r"^local ([\w, ]+) = ((?:(?:KEYS|ARGV)\[\d+\](?:, )?)+)$")
_REDIS_CALL = re.compile(r"redis\.p?call\('\w+'")
_OUTCOME = re.compile(r"'([A-Z][A-Z_]+)'")


#: Commands whose cost has no bound.
UNBOUNDED = ("KEYS", "SMEMBERS", "HGETALL", "FLUSHDB", "FLUSHALL")


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


SCRIPTS = {name_of(path): Script.read(path) for path in PATHS}


def test_there_are_scripts() -> None:
    assert set(SCRIPTS) >= {"claim", "commit", "release", "save", "load", "delete", "runs/start", "runs/finish"}


def test_a_header_documents_what_the_body_binds_by_the_same_names() -> None:
    fixed = {
        name: {position: word for position, word in script.documented.items() if ".." not in position}
        for name, script in SCRIPTS.items()
    }

    assert fixed == {name: script.bound for name, script in SCRIPTS.items()}


def test_keys_and_arguments_are_numbered_without_a_hole() -> None:
    numbers = {
        (name, table): [
            int(re.sub(r"\D", "", position)) for position in script.documented if position.startswith(table)
        ]
        for name, script in SCRIPTS.items()
        for table in ("KEYS", "ARGV")
    }

    assert not {place: found for place, found in numbers.items() if found != list(range(1, len(found) + 1))}


def test_only_a_variable_part_is_indexed_after_the_bindings() -> None:
    indexed = {
        (name, table, line)
        for name, script in SCRIPTS.items()
        for line in script.body
        for table in ("KEYS", "ARGV")
        if f"{table}[" in line
    }

    assert not {(name, line) for name, table, line in indexed if table not in SCRIPTS[name].variadic}
    assert not {(name, line) for name, _, line in indexed if re.search(r"(KEYS|ARGV)\[\d", line)}


def test_a_variable_part_of_the_keys_is_gone_through_from_where_it_begins() -> None:
    loops = {name: re.findall(r"for i = (\d+), #KEYS\b", "\n".join(script.body)) for name, script in SCRIPTS.items()}
    begins = {
        name: [str(script.variadic["KEYS"])] if "KEYS" in script.variadic else [] for name, script in SCRIPTS.items()
    }

    assert loops == begins


def test_a_header_begins_with_what_the_script_does() -> None:
    first = {name: script.header.splitlines()[0] for name, script in SCRIPTS.items()}

    assert not {name: line for name, line in first.items() if not re.match(r"-- [A-Z].*\.|-- [A-Z][^.]*$", line)}


def test_a_header_says_what_is_returned() -> None:
    assert not [name for name, script in SCRIPTS.items() if not re.search(r"^-- Returns ", script.header, re.MULTILINE)]


def test_a_header_knows_the_words_that_are_returned() -> None:
    said = {name: set(_OUTCOME.findall(script.header.split("-- Returns ", 1)[1])) for name, script in SCRIPTS.items()}

    assert said == {name: script.returned for name, script in SCRIPTS.items()}


def test_no_line_is_long() -> None:
    lengths = {
        f"{name_of(path)}.lua:{number}": len(line)
        for path in (PRELUDE, RUNS_PRELUDE, *PARTS, *PATHS)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    }

    assert not {place: length for place, length in lengths.items() if length > LONGEST_LINE}


def _without_comments(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("--")]


def test_no_command_of_unbounded_cost_is_used() -> None:
    used = {
        (name, line)
        for name, script in SCRIPTS.items()
        for line in script.body
        if re.search(rf"call\('({'|'.join(UNBOUNDED)})'", line)
    }

    assert not used


def test_a_walk_through_the_keys_is_bounded() -> None:
    walks = {(name, line) for name, script in SCRIPTS.items() for line in script.body if "'SCAN'" in line}

    assert walks
    assert not {(name, line) for name, line in walks if "'COUNT'" not in line}


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


FUNCTIONS, RUN_FUNCTIONS = Function.all(), Function.all(RUNS_PRELUDE)


def test_the_prelude_is_put_in_front_of_every_script() -> None:
    for path in PATHS:
        of_runs = [STATES, RUNS_PRELUDE.read_text()] if path.parent == RUNS_PRELUDE.parent else []
        texts = [PRELUDE.read_text(), *_own_part(path.stem), *of_runs, path.read_text()]
        assert load_script(name_of(path)).text == without_unused("\n".join(texts)), path


def test_a_script_has_only_the_shared_functions_that_it_uses() -> None:
    for path in PATHS:
        text = load_script(name_of(path)).text
        code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        for function in (*FUNCTIONS, *RUN_FUNCTIONS):
            uses, is_there = len(re.findall(rf"\b{function.name}\b", code)), f"function {function.name}(" in code
            assert uses > 1 if is_there else f" {function.name}(" not in code, (path, function.name)
        assert path.read_text().rstrip("\n") in text, path


def test_what_a_script_uses_by_way_of_other_functions_stays() -> None:
    script = """\
local A = {x = 1}
local B = {}
local function first()
  if A then
    return 1
  end
end
local function second() return first() end
-- A comment names unused.
local function unused() return B end
for _, key in ipairs(KEYS) do
  second(key)
end
"""

    assert without_unused(script) == script.replace("local B = {}\n", "").replace(
        "local function unused() return B end\n", ""
    )


def _own_part(script: str) -> list[str]:
    """Return the part that stands in front of a script whether runs are tracked or not."""
    path = PRELUDE.parent / f"with_{script}.lua"
    return [path.read_text()] if path in PARTS else []


def test_scripts_of_runs_know_the_states_by_a_text_that_each_process_sends_alike() -> None:
    ask = "from redisbeater.store.connection import load_script; print(load_script('runs/start').sha)"
    shas = {
        subprocess.run(
            [sys.executable, "-c", ask], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(shas) == 1


def test_no_script_has_a_list_of_states() -> None:
    lists = re.compile(rf"(({'|'.join(State)})\b[^.\n]*){{3,}}|(n\.\w+', '){{2,}}")

    assert not [
        (path.name, line)
        for path in (RUNS_PRELUDE, *PARTS, *PATHS)
        for line in _without_comments(path)
        if lists.search(line)
    ]


def test_a_prelude_holds_functions_and_nothing_else() -> None:
    for path in (PRELUDE, RUNS_PRELUDE):
        starts = [line for line in path.read_text().splitlines() if line and not line.startswith((" ", "--", "end"))]
        functions = [line for line in starts if line.startswith("local function ")]
        assert len(functions) == len(Function.all(path)) > 5
        assert {line.partition(" --")[0] for line in starts} - set(functions) <= {
            "local refused",
            "local clock, now_text",
        }


def test_a_shared_function_is_shared() -> None:
    assert not [
        function.name for function in FUNCTIONS if _uses(function, [*PATHS, *PARTS, RUNS_PRELUDE], FUNCTIONS) < 2
    ]


def test_a_function_of_runs_is_shared_or_a_step_of_one_that_is() -> None:
    scripts = [*PATHS, *PARTS]

    assert not [
        function.name
        for function in RUN_FUNCTIONS
        if not _uses(function, [], RUN_FUNCTIONS) and _uses(function, scripts, RUN_FUNCTIONS) < 2
    ]


def _uses(function: Function, paths: list[Path], functions: list[Function]) -> int:
    """Return how many of these scripts and functions call a function."""
    bodies = [other.body for other in functions if other != function]
    call = re.compile(rf"\b{function.name}\(|\b(?:aside|pcall)\({function.name}\b")
    return sum(bool(call.search(text)) for text in [*(path.read_text() for path in paths), *bodies])


def test_a_shared_function_is_documented_and_cheap() -> None:
    for function in (*FUNCTIONS, *RUN_FUNCTIONS):
        assert re.match(r"-- (Add|Delete|Do|Let|Publish|Remove|Return|Schedule|Store|Tell|Wake) ", function.comment), (
            function.name
        )
        assert not re.search(rf"'({'|'.join(UNBOUNDED)}|SCAN)'", function.body), function.name


def test_a_part_says_of_which_script_and_stands_in_front_of_it() -> None:
    for path in PARTS:
        script = path.stem.removeprefix("with_")
        texts = [RUNS_PRELUDE, RUNS_PRELUDE.parent / path.name, PRELUDE.parent / f"{script}.lua"]
        assert path.read_text().splitlines()[0].endswith(f"It stands in front of {script}.lua.")
        whole = [PRELUDE.read_text(), *_own_part(script), STATES, *(each.read_text() for each in texts)]
        assert load_script(script, with_runs=True).text == without_unused("\n".join(whole))
        assert "HGETALL" not in path.read_text()


def test_only_the_prelude_decides_whether_a_stored_fire_time_counts() -> None:
    readers = [path.stem for path in PATHS if re.search(r"tonumber\(\w+\.look_at\)|string\.match", path.read_text())]

    assert readers == []


def test_the_digest_of_the_scripts_is_that_of_python() -> None:
    assert r"table.concat(texts, '\n')" in PRELUDE.read_text()
    assert digest("d", "m", "r") == sha1("d\nm\nr")
    assert digest("", "", "r") == ""
