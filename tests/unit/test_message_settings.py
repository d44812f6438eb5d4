"""Hot settings: cached with the same values, and found at once."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from redisbeater.beat.process import HOT_SETTINGS, cache_hot_settings


def make_app(**settings: Any) -> Celery:
    app = Celery("proj", set_as_current=False)
    app.conf.update(settings)
    return app


def values(app: Celery) -> list[Any]:
    return [app.conf.get(name) for name in HOT_SETTINGS]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"task_default_queue": "reports", "task_send_sent_event": True}, id="own"),
        pytest.param({"CELERY_DEFAULT_QUEUE": "reports", "CELERY_SEND_TASK_SENT_EVENT": True}, id="old-names"),
    ],
)
def test_they_keep_their_values(settings: dict[str, Any]) -> None:
    app = make_app(**settings)

    cache_hot_settings(app.conf)

    assert values(app) == values(make_app(**settings))


def test_django_settings_keep_their_values() -> None:
    app = Celery("proj", set_as_current=False)
    app.config_from_object({"CELERY_TASK_DEFAULT_QUEUE": "reports"}, namespace="CELERY")

    cache_hot_settings(app.conf)

    assert app.conf.task_default_queue == "reports"


def test_a_later_change_takes_effect() -> None:
    app = make_app()
    cache_hot_settings(app.conf)

    app.conf.task_default_queue = "reports"

    assert app.conf.task_default_queue == "reports"


def test_they_are_found_in_the_first_layer() -> None:
    app = make_app()

    cache_hot_settings(app.conf)

    assert set(app.conf.maps[0]).issuperset(name for name in HOT_SETTINGS if name in app.conf)
