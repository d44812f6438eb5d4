"""Changes of many entries at once: each log says what happened, by whom and why, at no further round trip."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace

import redis
from celery import Celery
from click.testing import CliRunner

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.results import LogLine


def entry(app: Celery, number: int, every: float = 60.0, **fields: object) -> RedisScheduleEntry:
    return RedisScheduleEntry(f"e{number}", "proj.work", every, app=app, **fields)  # type: ignore[arg-type]


def told(line: LogLine) -> tuple[object, ...]:
    return line.what, line.details.get("by"), line.details.get("note"), line.details.get("fields")


def test_a_bulk_says_what_it_changes_switches_and_deletes(app: Celery, store: ScheduleStore) -> None:
    with store.bulk() as bulk:
        for number in range(4):
            bulk.save(entry(app, number))
    with store.bulk(note="release 12", by="ci") as bulk:
        bulk.save(entry(app, 0, every=120.0))
        bulk.save(entry(app, 1, enabled=False))
        bulk.delete("e2")
        bulk.save(entry(app, 3))
        bulk.save(entry(app, 4))

    assert (bulk.created, bulk.changed, bulk.unchanged, bulk.deleted) == (1, 2, 1, 1)
    assert [told(line) for line in store.log("e0")] == [("changed", "ci", "release 12", ["schedule"])]
    assert [told(line) for line in store.log("e1")] == [("disabled", "ci", "release 12", None)]
    assert [told(line) for line in store.log("e2")] == [("deleted", "ci", "release 12", None)]
    assert store.log("e3") == []
    assert [told(line) for line in store.log("e4")] == [("created", "ci", "release 12", None)]
    assert store.why("e1").sentence.endswith('by ci: "release 12". It runs again when it is enabled.')
    assert store.why("e2").verdict == "deleted"


def test_a_new_entry_that_must_be_read_first_gets_no_line_either(app: Celery, store: ScheduleStore) -> None:
    expiring = entry(app, 0, end_at=datetime(2099, 1, 1, tzinfo=timezone.utc))
    with store.bulk() as bulk:
        bulk.save(expiring)

    assert (bulk.created, store.log("e0")) == (1, [])


def test_disable_all_is_in_the_log_of_each_entry_and_costs_no_round_trip_of_its_own(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    app.conf.result_expires = None
    with store.bulk() as bulk:
        for number in range(200):
            bulk.save(entry(app, number))

    def scripts() -> int:
        return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])  # type: ignore[index]

    before = scripts()
    arguments = ["disable", "--all", "--yes", "--note", "moving", "--by", "anna"]
    result = CliRunner().invoke(redisbeater, arguments, obj=SimpleNamespace(app=app))

    assert result.exit_code == 0
    assert scripts() - before <= 6  # the clock, two to read the entries, one to write them
    for number in range(200):
        assert [told(line)[:3] for line in store.log(f"e{number}")] == [("disabled", "anna", "moving")]
    assert store.why("e7").sentence.endswith('by anna: "moving". It runs again when it is enabled.')
