from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from project import Project
from servers import Server


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
