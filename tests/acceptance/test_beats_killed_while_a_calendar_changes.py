"""Calendars that change while beats are killed: entries end on the days of the newest version, none runs off them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path

from support.project import Process, Project, leading
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore, cron

DAY = timedelta(days=1)

#: So many that a beat needs some steps for them.
ENTRIES = 2_000


def test_entries_follow_the_newest_calendar_though_the_beats_that_plan_them_are_killed(
    make_project: Callable[..., Project], tmp_path: Path
) -> None:
    drawn, tomorrow = random.Random(49), datetime.now(timezone.utc).date() + DAY
    project = make_project(redisbeater_lock_timeout=3, redisbeater_publish_timeout=1, redisbeater_lock_lost="standby")
    app = project.app()
    store = ScheduleStore(app)

    def days_off(*days: date) -> None:
        path = tmp_path / "days.txt"
        path.write_text("".join(f"{day}\n" for day in days))
        command = project.celery("redisbeater", "calendar", "import", "at", "--file", str(path), "--weekend", "none")
        assert command.popen.wait(60) == 0, command.output()

    def first_days() -> set[date]:
        page, found = store.list(prefix="daily"), set[date]()
        while True:
            found |= {entry.due_at.date() for entry in page if entry.due_at}
            if not page.cursor:
                return found
            page = store.list(prefix="daily", cursor=page.cursor)

    days_off()
    with store.bulk() as bulk:
        for number in range(ENTRIES):
            terms = {"calendar": "at", "start_at": datetime.combine(tomorrow, time(12), timezone.utc)}
            bulk.save(RedisScheduleEntry(f"daily {number}", "proj.note", cron("30 23 * * *"), app=app, **terms))
    store.create("often", "proj.note", 0.5)
    store.create("on days", "proj.note", timedelta(seconds=1), calendar="at")

    beats: list[Process] = [leading(project.beat()), project.beat(), project.beat()]
    off: list[date] = []
    for _ in range(4):
        off = [tomorrow + number * DAY for number in range(drawn.randrange(1, 5))]
        days_off(tomorrow - DAY, *off)
        if drawn.random() < 0.8:
            beats.pop(0).kill()
            beats.append(project.beat())
    expected = {off[-1] + DAY}
    wait_until(lambda: first_days() == expected, f"all entries are planned on {expected}", seconds=120)

    project.broker.delete("celery")
    seen = len(project.queued())
    wait_until(lambda: len(project.queued()) > seen + 4, "runs of the other entry")
    names = {json.loads(message)["headers"]["periodic_task_name"] for message in project.queued()}
    assert names == {"often"}, "today does not count"
    days_off(*off)
    wait_until(
        lambda: "on days" in {json.loads(each)["headers"]["periodic_task_name"] for each in project.queued()},
        "today counts again",
    )
    sent = [json.loads(each)["headers"] for each in project.queued()]
    runs = [(each["periodic_task_name"], each["scheduled_for"]) for each in sent]
    assert len(runs) == len(set(runs))
