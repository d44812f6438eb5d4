"""The rules of the layout, held against the source itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import redisbeater

ROOT = Path(redisbeater.__file__).parent

#: From the ground up: a module imports from its own floor and from those below it, never from one above.
FLOORS = (
    ("exceptions", "instant", "backoff", "deferred_signals"),  # the ground
    ("schedules", "broker"),
    ("model",),
    ("config",),
    ("store",),
    ("context",),
    ("editing",),
    ("entry",),
    ("sending",),
    ("management", "beat", "dispatch"),  # none of the three imports another
    ("scheduler",),
    ("",),  # the public names
    ("cli", "demo"),
)

#: Rooms on one floor that do not import each other.
APART = {"schedules": {"broker"}, "broker": {"schedules"}} | {
    room: {"management", "beat", "dispatch"} - {room} for room in ("management", "beat", "dispatch")
}

LONGEST_FUNCTION, LONGEST_MODULE = 40, 400
VAGUE_NAMES = {"utils", "util", "common", "helpers", "base", "types", "misc"}


def _name(path: Path) -> str:
    """A module's name below the package; empty for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {_name(path): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
SOURCES = {_name(path): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


def _imported(tree: ast.AST) -> Iterator[str]:
    """The full names that a module imports; of ``from a import b`` also ``a.b``, which may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
            yield node.module or ""


def _own(module: str) -> set[str]:
    """The modules of this package that one imports; of a package and a module in it, the module."""
    names = {name for name in _imported(TREES[module]) if name.split(".")[0] == "redisbeater"}
    below = {name.removeprefix("redisbeater").removeprefix(".") for name in names}
    known = {name for name in below if name in TREES}
    through = {name for name in known if any(other.startswith(f"{name}." if name else "") for other in known - {name})}
    whole = {name.rpartition(".")[0] for name in below - set(TREES)} & known  # the package's own names are used, too
    return (known - through) | whole


def _foreign(module: str) -> set[str]:
    return {name.split(".")[0] for name in _imported(TREES[module])}


def _room(module: str) -> str:
    return module.split(".")[0]


def _floor(module: str) -> int:
    return next(index for index, floor in enumerate(FLOORS) if _room(module) in floor)


modules = pytest.mark.parametrize("module", sorted(TREES), ids=lambda module: module or "redisbeater")


def _in(*rooms: str) -> list[str]:
    return [module for module in sorted(TREES) if _room(module) in rooms]


def _not_in(*rooms: str) -> list[str]:
    return [module for module in sorted(TREES) if _room(module) not in rooms]


@modules
def test_every_module_has_its_floor(module: str) -> None:
    assert _room(module) in {room for floor in FLOORS for room in floor}, "write it into FLOORS and HOUSE"


@modules
def test_imports_go_down(module: str) -> None:
    forbidden = {room for floor in FLOORS[_floor(module) + 1 :] for room in floor} | APART.get(_room(module), set())

    assert not {other for other in _own(module) if _room(other) in forbidden}


def test_no_modules_import_each_other() -> None:
    order = TopologicalSorter({module: _own(module) - {module} for module in TREES}).static_order()

    assert set(order) == set(TREES)  # a cycle raises CycleError, which shows it


@pytest.mark.parametrize("module", _not_in("store"))
def test_only_the_store_imports_redis(module: str) -> None:
    assert not _foreign(module) & {"redis", "valkey"}


@pytest.mark.parametrize("module", _not_in("broker"))
def test_only_the_broker_imports_the_insides_of_kombu_and_amqp(module: str) -> None:
    assert not _foreign(module) & {"kombu", "amqp"}


@pytest.mark.parametrize("module", _in("store"))
def test_the_store_knows_no_celery(module: str) -> None:
    assert not _foreign(module) & {"celery", "kombu"}


@pytest.mark.parametrize("module", _in("store"))
def test_the_store_knows_of_the_model_only_the_score(module: str) -> None:
    assert {other for other in _own(module) if _room(other) == "model"} <= {"model.score"}


@pytest.mark.parametrize("module", _in("broker"))
def test_the_broker_knows_no_entry(module: str) -> None:
    assert {_room(other) for other in _own(module)} <= {"broker", "exceptions", "instant", "backoff"}


@pytest.mark.parametrize("module", _in("config"))
def test_the_settings_know_of_the_model_only_the_policies(module: str) -> None:
    assert {other for other in _own(module) if _room(other) == "model"} <= {"model.policies"}


@pytest.mark.parametrize("module", _in("schedules", "model", "instant"))
def test_values_do_no_input_or_output_and_read_no_clock(module: str) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)}

    assert not _foreign(module) & {"time", "socket", "logging", "os", "threading", "random", "pathlib"}
    assert not calls & {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "print"}


@modules
def test_functions_are_short(module: str) -> None:
    functions = [node for node in ast.walk(TREES[module]) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = {
        f"{function.name}: {length}" for function in functions if (length := _body_lines(function)) > LONGEST_FUNCTION
    }

    assert not long


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines the statements of a function take, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@modules
def test_modules_are_short(module: str) -> None:
    assert len(SOURCES[module].splitlines()) <= LONGEST_MODULE


@modules
def test_a_module_is_named_for_what_it_holds(module: str) -> None:
    assert not VAGUE_NAMES & set(module.split("."))


@modules
def test_a_module_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(TREES[module])
