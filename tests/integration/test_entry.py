from __future__ import annotations

from celery import Celery

from redisbeater import RedisScheduleEntry


def test_a_saved_entry_comes_back_as_it_was(app: Celery) -> None:
    RedisScheduleEntry("report", "proj.report", 60.0, args=[1, {"__type__": "datetime"}], app=app).save()

    entry = RedisScheduleEntry.from_key(RedisScheduleEntry.generate_key(app, "report"), app=app)

    assert (entry.task, entry.args, entry.enabled) == ("proj.report", [1, {"__type__": "datetime"}], True)
