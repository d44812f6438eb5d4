"""The page on the exceptions: each one is there, with what raises it, its exit code and its status."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import SimpleNamespace

import click
import pytest
from celery import Celery
from click.testing import CliRunner
from support.pages import DOCS

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, exceptions
from redisbeater.cli.group import command
from redisbeater.dashboard.app import STATUS
from redisbeater.exceptions import InvalidEntry, RedisBeaterError
from redisbeater.results import Files, Runs

PAGE = (DOCS / "exceptions.rst").read_text(encoding="utf-8")

RAISED = [
    kind
    for name in exceptions.__all__
    if inspect.isclass(kind := getattr(exceptions, name)) and issubclass(kind, RedisBeaterError)
]
NAMES = {kind.__name__ for kind in RAISED}


def section(name: str) -> str:
    """What the page says about one exception."""
    [text] = re.findall(rf"(?ms)^\.\. autoexception:: (?:redisbeater\.exceptions\.)?{name}\n(.*?)(?=^\S|\Z)", PAGE)
    return text


def test_the_page_has_every_exception_of_the_module_once() -> None:
    defined = {
        name
        for name, value in vars(exceptions).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == exceptions.__name__
    }

    assert defined == NAMES
    listed = re.findall(r"(?m)^\.\. autoexception:: (?:redisbeater\.exceptions\.)?(\w+)$", PAGE)
    assert sorted(listed) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_page_says_what_raises_an_exception_and_what_to_do(name: str) -> None:
    text = section(name)

    assert re.search(r"   \*\*Raised by\*\*: \S", text)
    assert re.search(r"   \*\*What to do\*\*: \S", text)
    assert name == "RedisBeaterError" or "   :show-inheritance:\n" in text


def documented_raises() -> Iterator[tuple[str, str]]:
    """Yield each exception of ours with the public method whose docstring names it."""
    for kind in (ScheduleStore, Runs, Files, RedisScheduleEntry, RedisScheduler):
        module = "redisbeater.results." if kind in (Runs, Files) else ""
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            text = (inspect.getdoc(method) or "").partition("Raises:\n")[2].partition("\n\n")[0]
            if name.startswith("_") or method.__module__.partition(".")[0] != "redisbeater":
                continue
            for line in re.findall(r"(?m)^    ([A-Z]\w+(?:, [A-Z]\w+)*):", text):
                yield from ((error, f"{module}{kind.__name__}.{name}") for error in line.split(", ") if error in NAMES)


def test_the_page_names_every_method_whose_docstring_names_an_exception() -> None:
    pairs = {pair for pair in documented_raises() if pair[0] != "InvalidEntry"}  # which most methods raise

    assert len(pairs) > 30
    assert {(error, method) for error, method in pairs if f":meth:`{method}`" not in section(error)} == set()


def test_the_drawn_tree_is_the_one_of_the_classes() -> None:
    drawn = {}
    line = r"^    ([│ ]*)[├└]── (\w+)( +\(also (?:celery's|\w+)\))?"
    for indent, name, also in re.findall(line, exceptions.__doc__ or "", re.MULTILINE):
        drawn[name] = (len(indent) // 4, also.strip(" ()"))
    known = {kind.__name__: kind for kind in RAISED if kind is not RedisBeaterError}

    assert set(drawn) == set(known)
    for name, (depth, also) in drawn.items():
        ours = [base for base in known[name].__mro__ if base.__module__ == exceptions.__name__]
        other = known[name].__bases__[1] if len(known[name].__bases__) > 1 else None
        assert depth == len(ours) - 2, name
        if also == "also celery's":
            assert other is not None
            assert other.__module__ == "celery.exceptions"
        else:
            assert also == (f"also {other.__name__}" if other else ""), name


def row_of(name: str) -> tuple[str, str]:
    """The exit code and the status in the table."""
    [(code, status)] = re.findall(rf"   \* - .*:exc:`{name}`.*\n     - (\d+)\n     - (\d+)", PAGE)
    return code, status


@pytest.mark.parametrize(("kind", "status"), STATUS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_table_has_the_status_of_an_exception(kind: type[RedisBeaterError], status: int) -> None:
    if "never outside beat" in " ".join(section(kind.__name__).split()):
        assert ":exc:`" + kind.__name__ not in PAGE.partition(".. autoexception::")[0]
    else:
        assert row_of(kind.__name__)[1] == str(status)


#: The commands that send end by themselves for a SendFailed, and EntryNotFound looks for a near name in Redis.
MAPPED = [
    kind
    for kind, _ in STATUS
    if f"- :exc:`{kind.__name__}`" in PAGE and kind.__name__ not in ("SendFailed", "EntryNotFound")
]


@pytest.mark.parametrize("kind", MAPPED)
def test_the_table_has_the_exit_code_of_an_exception(kind: type[RedisBeaterError], lone_app: Celery) -> None:
    def fail(app: Celery) -> None:
        raise kind("$.name", "is wrong") if issubclass(kind, InvalidEntry) else kind("a problem")

    result = CliRunner().invoke(click.command()(command(fail)), [], obj=SimpleNamespace(app=lone_app))

    assert str(result.exit_code) == row_of(kind.__name__)[0]
