from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from celery import Celery

from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.management.migration.comparison import explained
from redisbeater.management.migration.django_source import DjangoSource
from redisbeater.management.migration.redbeat_source import RedBeatSource

VIENNA = ZoneInfo("Europe/Vienna")
NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
BACK = datetime(2026, 10, 25, 1, tzinfo=timezone.utc)
HALF_SECOND = timedelta(seconds=0.5)


@pytest.mark.parametrize(
    ("old", "ours", "expected"),
    [
        pytest.param([NOON], [NOON], [], id="the same"),
        pytest.param(
            [NOON],
            [NOON + HALF_SECOND],
            ["1 at another time: the old engine truncates fractions of a second"],
            id="truncated",
        ),
        pytest.param(
            [], [BACK], ["1 more: the old engine skips the repeated hour on 25 Oct 2026"], id="left out in autumn"
        ),
        pytest.param(
            [BACK], [], ["1 fewer: the old engine runs again in the repeated hour on 25 Oct 2026"], id="twice in autumn"
        ),
        pytest.param(
            [NOON, NOON],
            [NOON],
            ["1 fewer: a bug of the old engine, dateutil's rule, first at Mon 1 Jun 2026 14:00:00 Europe/Vienna"],
            id="a bug by name",
        ),
    ],
)
def test_each_difference_has_a_reason(old: list[datetime], ours: list[datetime], expected: list[str]) -> None:
    assert [str(found) for found in explained(old, ours, VIENNA, "dateutil's rule")] == expected


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("proj", set_as_current=False)
    for package in ("redbeat", "django_celery_beat"):
        monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ImproperlyConfigured, match="RedBeat is not installed here: pip install celery-redbeat"):
        list(RedBeatSource(app).read())
    with pytest.raises(ImproperlyConfigured, match="is not installed here: pip install django-celery-beat"):
        list(DjangoSource(app).read())
