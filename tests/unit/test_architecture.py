"""The rules of the layout, held against the source itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import redisbeater

ROOT = Path(redisbeater.__file__).parent

#: From the bottom up: a module imports from its own layer and from those before it, never from one after it.
LAYERS = (
    (
        "exceptions",
        "backoff",
        "uninterrupted",
        "coalesce",
        "declarations",
        "eviction_check",
        "message_settings",
        "redis_url",
        "slow_tasks",
    ),
    ("instant", "json_text", "meta_text", "volley"),
    ("config",),
    ("score", "schedules", "skip", "confirms"),
    ("policy_fields",),
    ("definition", "meta"),
    ("terms",),
    ("policies", "reader", "store"),
    ("context",),
    ("replan",),
    ("page",),
    ("edit", "eviction", "leadership", "outage", "broker"),
    ("sweep",),
    ("upcoming",),
    ("entry",),
    ("mold",),
    ("statics", "job", "bulk", "listing", "mapping", "representation"),
    ("batch", "schedule_store"),
    ("dispatch",),
    ("scheduler",),
    ("",),  # the public names
    ("cli", "demo"),
)

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


def _layer(module: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if module.split(".")[0] in layer)


modules = pytest.mark.parametrize("module", sorted(TREES), ids=lambda module: module or "redisbeater")


def _in(*tops: str) -> list[str]:
    return [module for module in sorted(TREES) if module.split(".")[0] in tops]


@modules
def test_every_module_has_its_layer(module: str) -> None:
    known = {name for layer in LAYERS for name in layer}

    assert module.split(".")[0] in known, "write it into LAYERS"


@modules
def test_imports_go_one_way(module: str) -> None:
    above = {name for layer in LAYERS[_layer(module) + 1 :] for name in layer}

    assert not {other for other in _own(module) if other.split(".")[0] in above}


def test_no_modules_import_each_other() -> None:
    order = TopologicalSorter({module: _own(module) - {module} for module in TREES}).static_order()

    assert set(order) == set(TREES)  # a cycle raises CycleError, which shows it


@pytest.mark.parametrize("module", [m for m in sorted(TREES) if m.split(".")[0] != "store"])
def test_only_the_store_imports_redis(module: str) -> None:
    assert not _foreign(module) & {"redis", "valkey"}


@pytest.mark.parametrize("module", _in("store"))
def test_the_store_knows_no_celery(module: str) -> None:
    assert not _foreign(module) & {"celery", "kombu"}


@pytest.mark.parametrize("module", _in("schedules", "policies", "instant", "score", "json_text", "definition", "meta"))
def test_what_is_pure_knows_no_redis(module: str) -> None:
    assert not {other for other in _own(module) if other.split(".")[0] in ("store", "context", "config")}


@pytest.mark.parametrize("module", _in("schedules", "policies", "instant", "score", "definition", "meta", "replan"))
def test_what_is_a_function_of_time_reads_no_clock(module: str) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)}

    assert "time" not in _foreign(module)
    assert not calls & {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}


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
