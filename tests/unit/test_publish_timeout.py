"""The publish timeout: its default, and the part of lock and lease that it must leave."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from redisbeater.config.settings import Config
from redisbeater.exceptions import ImproperlyConfigured


def read(**settings: Any) -> Config:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(redisbeater_redis_url="redis://cache:6379/0")
    app.conf.update({f"redisbeater_{name}": value for name, value in settings.items()})
    return Config.from_app(app)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, 5, id="default"),
        pytest.param({"lock_timeout": 60, "lease_timeout": 60}, 5, id="no-more-for-long-ones"),
        pytest.param({"lock_timeout": 6}, 2, id="a-third-of-the-lock"),
        pytest.param({"lease_timeout": 3}, 1, id="a-third-of-the-lease"),
        pytest.param({"lock_timeout": 1, "lock_key": None}, 5, id="without-a-lock"),
    ],
)
def test_the_default_fits_lock_and_lease(settings: dict[str, Any], expected: float) -> None:
    assert read(**settings).publish_timeout == expected


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"publish_timeout": 7.4}, id="just-below-half-of-the-lock"),
        pytest.param({"publish_timeout": 0.1, "lock_timeout": 1, "lease_timeout": 1}, id="shortest"),
        pytest.param({"publish_timeout": 14, "lock_key": None}, id="without-a-lock"),
        pytest.param({"publish_timeout": 20, "lock_timeout": 60, "lease_timeout": 60}, id="all-long"),
    ],
)
def test_one_that_fits_is_used(settings: dict[str, Any]) -> None:
    assert read(**settings).publish_timeout == settings["publish_timeout"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(
            {"publish_timeout": 7.5},
            "redisbeater_publish_timeout = 7.5: expected less than half of redisbeater_lock_timeout, "
            "which is 15; set it below 7.5, or redisbeater_lock_timeout above 15",
            id="lock",
        ),
        pytest.param(
            {"publish_timeout": 20, "lock_key": None},
            "redisbeater_publish_timeout = 20: expected less than half of redisbeater_lease_timeout, "
            "which is 30; set it below 15, or redisbeater_lease_timeout above 40",
            id="lease",
        ),
    ],
)
def test_one_that_is_too_long_for_lock_or_lease_is_refused_with_both_numbers(
    settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read(**settings)

    assert str(refused.value) == problem


@pytest.mark.parametrize("value", [None, 0, 0.09, -1, True, "5", float("nan"), float("inf")], ids=repr)
def test_a_value_that_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"publish_timeout = .*: expected seconds, from 0\.1 to 3600"):
        read(publish_timeout=value)
