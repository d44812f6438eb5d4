from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.metadata
import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from celery import _state as celery_state
from hypothesis import HealthCheck, is_hypothesis_test, settings
from support import rabbitmq
from support.project import SCHEDULE_DB, Project
from support.requirements import require, summary
from support.servers import INSTALL, ON_EACH_SERVER, Server, programs, running
from support.signals import restore_signals
from support.topologies import Cluster, Keeper, Sentinels, running_cluster, running_sentinels

# Hundreds of processes would compile the package and the tests, each for itself: half of the time of their starts.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# redis-py asks for its own version at each connection, and Python reads a file each time: 5 % of the time of all tests.
importlib.metadata.version = functools.cache(importlib.metadata.version)

# Examples have no deadline: on a shared machine any of them may take long.
SHARED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default-run", SHARED, max_examples=25, derandomize=True)
settings.register_profile("whole-run", SHARED)

TESTS = Path(__file__).parent

#: Seconds that a test of real processes may take on a busy machine: they start, fail over and are healed.
PROCESSES_TIMEOUT = 300

#: The marks of all tests in a folder, and of those that use a fixture. The marks are in pyproject.toml.
OF_FOLDERS = {"acceptance": "processes", "web": "browser", "documentation": "pages"}
OF_FIXTURES = {"sentinels": "topology", "cluster": "topology", "rabbitmq": "topology"}

#: The marks of what the default run leaves out.
REST = {"processes", "topology", "browser", "pages", "chaos", "deep", "both_servers"}

#: Fixtures that are a server, or several, of one program.
ON_A_PROGRAM = ("server", "_sentinels", "_cluster")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("redisbeater", "which tests are run; by default those without a mark")
    group.addoption("--default", action="store_true", help="those without a mark, of the files that are named, too")
    group.addoption("--rest", action="store_true", help="those with a mark, and properties with all their examples")
    group.addoption("--whole", action="store_true", help="all tests, and properties with all their examples")


def pytest_configure(config: pytest.Config) -> None:
    has_all_examples = config.getoption("--rest") or config.getoption("--whole")
    settings.load_profile("whole-run" if has_all_examples else "default-run")
    restore_signals(config)
    gc.disable()  # until all tests are known: nothing of them is garbage, and looking for it takes 40 % of the time


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import a share of the files, each process another: the first one that imports a file compiles it for all."""
    config = session.config
    share = getattr(config, "workerinput", None)
    if share is None or _names_tests(config):
        return
    files = [path for path in sorted(TESTS.rglob("test_*.py")) if not pytest_ignore_collect(path.parent, config)]
    sys.path[:0] = sorted({str(path.parent) for path in files} - {*sys.path})
    for path in files[int(share["workerid"].removeprefix("gw")) :: share["workercount"]]:
        with contextlib.suppress(Exception):  # which its collection tells of
            importlib.import_module(path.stem)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on the first kind of server, and those of what is stored and asked there on the others as well."""
    found = programs()
    is_on_each = metafunc.definition.path.stem in ON_EACH_SERVER and not _is_default_run(metafunc.config)
    others = found[1:] if is_on_each else ()
    for name in ON_A_PROGRAM:
        if name in metafunc.fixturenames and not _is_parametrized(metafunc, name):
            parameters = [*found[:1], *(pytest.param(program, marks=pytest.mark.both_servers) for program in others)]
            ids = [program.name for program in (*found[:1], *others)]
            metafunc.parametrize(name, parameters or [None], ids=ids or ["no-server"], indirect=True, scope="session")


def _is_parametrized(metafunc: pytest.Metafunc, name: str) -> bool:
    return any(name in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test by its folder and its fixtures, and give slow ones more time."""
    folders = [mark for folder, mark in OF_FOLDERS.items() if folder in item.path.parts]
    fixtures = {mark for name, mark in OF_FIXTURES.items() if name in getattr(item, "fixturenames", ())}
    for mark in (*folders, *fixtures):
        item.add_marker(mark)
    is_slow = folders or fixtures or item.get_closest_marker("processes")
    if is_slow and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(PROCESSES_TIMEOUT))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what the default run leaves out as a whole."""
    return True if _is_default_run(config) and collection_path.name in OF_FOLDERS else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of this run."""
    if config.getoption("--rest"):
        kept = [item for item in items if _is_marked(item) or _has_more_examples(item)]
        kept.sort(key=_topology)
    elif _is_default_run(config):
        kept = [item for item in items if not _is_marked(item)]
    else:
        return
    among_kept = set(kept)  # once: to make it for each item took each process half of its start
    config.hook.pytest_deselected(items=[item for item in items if item not in among_kept])
    items[:] = kept


def _topology(item: pytest.Item) -> list[bool]:
    """Order tests by the servers that they share: one process has them all, and no other starts such servers."""
    names = (*getattr(item, "fixturenames", ()), *(["rabbitmq"] if "rabbitmq" in item.nodeid.lower() else []))
    return [fixture not in names for fixture in OF_FIXTURES]


def _is_default_run(config: pytest.Config) -> bool:
    """Return whether nothing says which tests to run, neither an option nor a file."""
    if config.getoption("--default"):
        return True
    return not (_names_tests(config) or config.getoption("--rest") or config.getoption("--whole"))


def _names_tests(config: pytest.Config) -> bool:
    return bool(config.args_source is pytest.Config.ArgsSource.ARGS or config.getoption("-m"))


def _has_more_examples(item: pytest.Item) -> bool:
    is_property = is_hypothesis_test(getattr(item, "obj", None))
    return is_property or item.get_closest_marker("more_in_the_whole_run") is not None


def _is_marked(item: pytest.Item) -> bool:
    return any(mark.name in REST for mark in item.iter_markers())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose program is missing; the mark ``needs`` names it."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            require(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end which programs are missing, and how to install them."""
    reports = terminalreporter.stats.get("skipped", [])
    lines = list(summary(report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)))
    if lines:
        terminalreporter.section("missing programs")
    for line in lines:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A real server, empty for each test."""
    if request.param is None:
        pytest.fail(INSTALL)
    with running(request.param) as server:
        yield server


@pytest.fixture(scope="session", name="rabbitmq")
def rabbitmq_node() -> Iterator[rabbitmq.RabbitMQ]:
    """A real RabbitMQ node, started for the first test that asks for it."""
    require("rabbitmq-server")
    with rabbitmq.running() as node:
        yield node


@pytest.fixture
def prefix() -> str:
    return f"t-{uuid.uuid4().hex[:8]}:"


@pytest.fixture
def client(server: Server, prefix: str) -> Iterator[redis.Redis]:
    """A plain client of the schedule's database; fails the test if it leaves a key that the wire format has not."""
    client = server.client(SCHEDULE_DB)
    client.flushall()  # what a test without this fixture has left, in the database of the broker as well
    yield client
    try:
        keys = list(client.scan_iter(count=1000))
        with client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.type(key)
            unknown = [key for key, kind in zip(keys, pipe.execute()) if not _is_known(kind, key, prefix)]
    finally:
        client.flushall()
    assert not unknown, f"the test left unknown keys: {unknown}"


def _is_known(kind: str, key: str, prefix: str) -> bool:
    if kind == "none":  # its time to live has ended since it was listed
        return True
    if not key.startswith(prefix):
        return False
    names = ("lock", "id", "format", "zone", "zone:before", "pause", "passed", "delays:sender")
    texts = dict.fromkeys(names, "string")
    ours = {
        "schedule": "zset",
        "failing": "zset",
        "deleted": "zset",
        "statics": "set",
        "broken": "hash",
        "zone-rules": "hash",
        "calendars": "hash",
        "log": "list",
        "active": "zset",
        "resend": "zset",
        **dict.fromkeys(("waiting", "failed", "unstable", "failures", "incidents", "delays"), "zset"),
        **dict.fromkeys(("open", "promises", "releases", "notices"), "zset"),
        **texts,
    }
    kinds = {f"{prefix}:claim:": "string", f"{prefix}:answer:": "string", f"{prefix}:log:": "list"}
    kinds |= {f"{prefix}:{kind}:": "string" for kind in ("payload", "traceback", "logout", "undo")}
    kinds |= {f"{prefix}:runs:": "zset", f"{prefix}:active:": "set"}
    by_start = next((expected for start, expected in kinds.items() if key.startswith(start)), "hash")
    return kind == ours.get(key.removeprefix(f"{prefix}:"), by_start)


@pytest.fixture(autouse=True)
def no_task_stays() -> Iterator[None]:
    """Forget the tasks of each test: Celery gives a task of one app to every app that is made later in the process."""
    before = set(celery_state._on_app_finalizers)
    yield
    celery_state._on_app_finalizers.intersection_update(before)


@pytest.fixture
def nothing_of_a_worker_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a worker in this process sets for the whole process: current app, root of all loggers."""
    monkeypatch.setattr(celery_state, "default_app", celery_state.default_app)
    root, current = logging.getLogger(), celery_state._tls.current_app
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    celery_state._tls.current_app = current


@pytest.fixture
def make_app(server: Server, client: redis.Redis, prefix: str) -> Callable[..., Celery]:
    """Make apps over one new schedule; their broker is in memory unless the settings name another."""

    def make(name: str = "proj", **settings: Any) -> Celery:
        app = Celery(name, broker="memory://", set_as_current=False)
        own = {
            "redisbeater_redis_url": server.url(SCHEDULE_DB),
            "redisbeater_key_prefix": prefix,
            "redisbeater_run_write_timeout": 60.0,  # a busy machine is no Redis that is away
            "result_expires": None,  # at 04:00 Celery's own cleanup would run, too
        }
        app.conf.update({**own, **settings})
        return app

    return make


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app()


@pytest.fixture(scope="session")
def _sentinels(request: pytest.FixtureRequest) -> Iterator[Keeper[Sentinels]]:
    if request.param is None:
        pytest.fail(INSTALL)
    with contextlib.closing(Keeper(lambda: running_sentinels(request.param))) as keeper:
        yield keeper


@pytest.fixture
def sentinels(_sentinels: Keeper[Sentinels]) -> Sentinels:
    """Sentinels with a master and a replica, whole and empty, whatever the test before left."""
    return _sentinels.whole()


@pytest.fixture(scope="session")
def _cluster(request: pytest.FixtureRequest) -> Iterator[Keeper[Cluster]]:
    if request.param is None:
        pytest.fail(INSTALL)
    with contextlib.closing(Keeper(lambda: running_cluster(request.param))) as keeper:
        yield keeper


@pytest.fixture
def cluster(_cluster: Keeper[Cluster]) -> Cluster:
    """A cluster of three masters, each with a replica, whole and empty, whatever the test before left."""
    return _cluster.whole()


@pytest.fixture
def project(server: Server, client: redis.Redis, prefix: str, tmp_path: Path) -> Iterator[Project]:
    """A Celery project in its own folder, over a new schedule; its processes are ended afterwards."""
    with Project(server, prefix, tmp_path) as project:
        yield project


@pytest.fixture
def make_project(server: Server, client: redis.Redis, prefix: str, tmp_path: Path) -> Iterator[Callable[..., Project]]:
    """Make a project like ``project`` with the test's own settings."""
    made: list[Project] = []

    def make(**settings: object) -> Project:
        made.append(Project(server, prefix, tmp_path, **settings))
        return made[-1]

    yield make
    for project in made:
        project.end()
