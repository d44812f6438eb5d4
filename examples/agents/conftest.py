"""The fixtures of the tests, for the app of this example."""

import pytest
from celery import Celery
from proj import app

pytest_plugins = ["redisbeater.testing.pytest_plugin"]


@pytest.fixture
def redisbeater_celery() -> Celery:
    """Return the app under test."""
    return app
