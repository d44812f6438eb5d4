"""A user changes the application's time zone and restarts beat."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from celery.schedules import crontab
from support.project import Project

from redisbeater import RedisScheduleEntry, ScheduleStore


def test_a_monthly_entry_that_ran_today_waits_for_the_next_month(make_project: Callable[..., Project]) -> None:
    now = datetime.now(timezone.utc).replace(microsecond=0)
    ran_at = (now - timedelta(hours=2)).replace(minute=0, second=0)
    monthly = crontab(0, ran_at.hour, day_of_month=ran_at.day)
    before = make_project(timezone="UTC")
    RedisScheduleEntry("month", "proj.note", monthly, app=before.app(), last_run_at=ran_at).save()
    first = before.beat()
    first.says("leading as")
    first.end()

    after = make_project(timezone="America/New_York")
    beat = after.beat()
    beat.says("time zone is America/New_York now; planned 1 of 1 entries again")

    (run,) = ScheduleStore(after.app()).upcoming("month", limit=1)
    assert "time zone changed from UTC to America/New_York" in beat.output()
    assert "was " in beat.output()
    assert run.local.hour == ran_at.hour
    assert run.local - ran_at.astimezone(ZoneInfo("America/New_York")) > timedelta(days=20)
