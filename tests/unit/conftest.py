from __future__ import annotations

import pytest
from celery import Celery

from redisbeater.context import Context


@pytest.fixture(scope="session")
def lone_app() -> Celery:
    """An app in New York whose Redis is never asked."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(redisbeater_redis_url="redis://nowhere.invalid:1/0", timezone="America/New_York")
    return app


@pytest.fixture(scope="session")
def context(lone_app: Celery) -> Context:
    """The context of that app."""
    return Context.of(lone_app)
