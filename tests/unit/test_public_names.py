"""The public names of the package: each is there, and each process loads only the rooms that it uses."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import redisbeater
from redisbeater import results

ALL = (
    "beat broker cli config.settings config.urls config.values context dashboard dispatch "
    "editing entry exceptions management model observe runs store"
)

#: How a process begins, and the rooms and modules that it has no use for.
PROCESSES = {
    "any, before its application": (
        "import redisbeater, redisbeater.cli",
        f"{ALL} schedules scheduler sending signals results parts display times cli.group cli.commands",
    ),
    "one that saves an entry": (
        "from redisbeater import RedisScheduleEntry, cron",
        "beat broker.broker cli dashboard dispatch management observe runs scheduler sending",
    ),
    "a worker": (
        "import redisbeater.runs",
        "beat broker cli context dashboard dispatch editing entry management observe scheduler sending schedules.kinds "
        "model.incident store.incidents store.measures store.quarantine store.records store.schedule store.server",
    ),
    "a worker that keeps delays": (
        "import redisbeater.delays",
        "beat broker.broker broker.connection broker.publisher_confirms cli context dashboard dispatch editing entry "
        "health management observe runs scheduler sending schedules.kinds",
    ),
    "a beat": (
        "from redisbeater import RedisScheduler",
        "cli dashboard management observe.server observe.metrics runs",
    ),
    "a beat with probes and metrics": (
        "from redisbeater import RedisScheduler; import redisbeater.observe.server, redisbeater.observe.beat_metrics",
        "cli dashboard health.details management runs",
    ),
    "the web page with its metrics": (
        "import redisbeater.dashboard, redisbeater.observe.metrics",
        "beat cli dispatch observe.server observe.beat_metrics parts runs scheduler",
    ),
    "one that sends messages": ("import redisbeater.notices.__main__", f"{ALL} schedules scheduler sending health"),
    "the command line": ("import redisbeater.cli.commands", "beat dashboard dispatch observe parts runs scheduler"),
}

PRINT = "; import sys; print(*(name for name in sys.modules if name.startswith(('redisbeater.', 'redis.', 'kombu.'))))"


def loaded_by(program: str) -> list[str]:
    """Return the modules of this package, of redis and of kombu that a new process has loaded."""
    return subprocess.run(
        [sys.executable, "-c", program + PRINT], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.processes
@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_loads_no_room_that_it_has_no_use_for(process: str) -> None:
    program, unneeded = PROCESSES[process]
    loaded = loaded_by(program)

    rooms = tuple(f"redisbeater.{room}" for room in unneeded.split() if f"redisbeater.{room}" not in program)
    assert [name for name in loaded if name in rooms or name.startswith(tuple(f"{room}." for room in rooms))] == []
    assert "redisbeater.serving" in loaded, "Celery's signals about a beat service are not connected"


#: The rooms below are loaded: none of them imports the command line.
IMPORT_EACH_FIRST = """
import importlib, pkgutil, sys, redisbeater.cli.commands
for module in [each.name for each in pkgutil.iter_modules(redisbeater.cli.__path__, "redisbeater.cli.")]:
    for name in [name for name in sys.modules if name.startswith("redisbeater.cli")]:
        del sys.modules[name]
    importlib.import_module(module)
    print(module)
"""


@pytest.mark.processes
def test_each_module_of_the_command_line_may_be_the_first_that_is_imported() -> None:
    process = subprocess.run([sys.executable, "-c", IMPORT_EACH_FIRST], capture_output=True, text=True)

    assert (process.returncode, process.stderr) == (0, "")
    assert "redisbeater.cli.files" in process.stdout.split()


def test_no_celery_command_loads_redis_before_its_application() -> None:
    loaded = loaded_by("import celery.bin.celery")

    assert "redisbeater.cli" in loaded
    assert [name for name in loaded if name.startswith(("redis.", "kombu.transport.redis"))] == []
    ours = {name.removeprefix("redisbeater.") for name in loaded if name.startswith("redisbeater.")}
    assert ours == {"serving", "cli", "config", "config.hidden"}


def test_each_celery_command_hides_the_passwords_of_settings() -> None:
    settings = ["redisbeater_redis_url", "redisbeater_ping_url", "redisbeater_notify"]
    shown = f"[name for name in {settings} if not utils.HIDDEN_SETTINGS.search(name)]"
    program = f"import celery.bin.celery; from celery.app import utils; print({shown})"

    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_is_found_and_listed() -> None:
    assert {name for name in redisbeater.__all__ if getattr(redisbeater, name).__doc__} == {*redisbeater.__all__}
    modules = ["dashboard", "delays", "exceptions", "results", "runs", "signals", "testing"]
    assert dir(redisbeater) == sorted([*redisbeater.__all__, *modules, "__version__"])


def public(name: str) -> object:
    return getattr(redisbeater, name)


def test_type_checkers_see_each_name_where_it_is() -> None:
    tree = ast.parse(Path(redisbeater.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert seen.keys() == {*redisbeater.__all__}
    assert [
        name
        for name, module in seen.items()
        if getattr(import_module(str(module)), name) is not getattr(redisbeater, name)
    ] == []


@pytest.mark.processes
@pytest.mark.parametrize("module", ["dashboard", "exceptions", "results", "signals", "testing"])
def test_a_public_module_is_imported_at_its_first_use(module: str) -> None:
    assert f"redisbeater.{module}" in loaded_by(f"import redisbeater; redisbeater.{module}.__all__")


def test_each_result_class_on_the_pages_about_the_api_is_in_the_module_of_results() -> None:
    pages = (Path(__file__).parents[2] / "docs").glob("api-*.rst")
    page = "\n".join(page.read_text(encoding="utf-8") for page in pages)

    assert not re.findall(r"autoclass:: redisbeater\.(?:editing|management|model|store)\..*", page)
    shown = set(re.findall(r"autoclass:: (?:redisbeater\.results\.)?(\w+)(?:\(\))?$", page, re.MULTILINE))
    assert {*results.__all__} - shown == set()


def test_another_name_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'redisbeater' has no attribute 'ScheduleStor'"):
        redisbeater.ScheduleStor  # type: ignore[attr-defined]  # noqa: B018
