from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from support.project import Project
from support.servers import Server, programs

#: The first kind of server, which a process test runs on if it names no other.
ONE_SERVER = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on one kind of server: processes take long, and the scripts are tested on every kind elsewhere."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "server" in metafunc.fixturenames and not any("server" in mark.args[0] for mark in marks):
        metafunc.definition.add_marker(ONE_SERVER)


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
