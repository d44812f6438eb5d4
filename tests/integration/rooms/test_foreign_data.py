"""Keys and values below our prefix that another program wrote: they cost nobody else anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import names, run_due
from support.waiting import wait_until

from redisbeater import EntryNotFound, RedisScheduler
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.display import MOST_REDACTED
from redisbeater.management.pausing import LiveChanges, Watcher
from redisbeater.management.search import Search

MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture
def spoil(client: redis.Redis, prefix: str) -> Iterator[Callable[[str], None]]:
    """Make the key of an entry hold a text."""
    spoilt: list[str] = []

    def spoil(name: str) -> None:
        client.set(prefix + name, "text")
        spoilt.append(prefix + name)

    yield spoil
    still_texts = [client.get(key) for key in spoilt]
    client.delete(*spoilt)
    assert set(still_texts) == {"text"}, "it was overwritten"


Spoil = Callable[[str], None]


@pytest.fixture
def shared_app(make_app: Callable[..., Celery]) -> Celery:
    """An app without a lock, so that the test can be a second beat."""
    return make_app(redisbeater_lock_key=None)


def test_a_static_entry_whose_key_holds_a_text_does_not_stop_the_others(
    make_app: Callable[..., Celery], make_scheduler: MakeScheduler, spoil: Spoil
) -> None:
    report = {"task": "proj.report", "schedule": 60.0}
    app = make_app(beat_schedule={"a": report, "odd": report, "z": report})
    spoil("odd")

    make_scheduler(app).tick()

    assert (stored(app, "a").task, stored(app, "z").task) == ("proj.report", "proj.report")


def test_a_static_entry_that_is_gone_and_whose_key_holds_a_text_does_not_stop_the_others(
    make_app: Callable[..., Celery], make_scheduler: MakeScheduler, spoil: Spoil, client: redis.Redis, prefix: str
) -> None:
    app = make_app(beat_schedule={"good": {"task": "proj.report", "schedule": 60.0}})
    client.sadd(f"{prefix}:statics", "odd")
    spoil("odd")

    make_scheduler(app).tick()

    assert stored(app, "good").task == "proj.report"


def test_a_member_of_the_schedule_whose_key_holds_a_text_does_not_stop_the_others(
    app: Celery, scheduler: RedisScheduler, spoil: Spoil, client: redis.Redis, prefix: str
) -> None:
    spoil("odd")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})
    save_due(app, "good")

    assert names(run_due(scheduler)) == ["good"]


def test_an_entry_whose_arguments_are_nested_too_deeply_is_quarantined(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    deep = save_due(app, "deep", late=2.0)
    save_due(app, "good")
    definition = json.dumps({"task": "proj.report", "schedule": {"__type__": "interval", "every": 60}})
    client.hset(deep.key, "definition", f'{definition[:-1]}, "args": {"[" * 700}{"]" * 700}}}')

    assert names(run_due(make_scheduler(app))) == ["good"]
    assert "nested too deeply" in Context.of(app).redis.broken.reports()["deep"]["reason"]


def test_a_claimed_entry_whose_key_was_overwritten_is_fenced_and_the_others_are_committed(
    shared_app: Celery, spoil: Spoil
) -> None:
    save_due(shared_app, "odd", late=2.0)
    save_due(shared_app, "good", late=1.0)
    context = Context.of(shared_app)
    claim = context.redis.claim(token="", limit=2)
    spoil("odd")

    result = context.redis.commit(
        claim, [Job.planned(entry, claim.now, context).commitment() for entry in claim.entries]
    )

    assert (result.fenced, result.changed) == (["odd"], {})
    assert stored(shared_app, "good").total_run_count == 1


def test_a_claimed_entry_whose_key_was_overwritten_does_not_keep_the_others_from_being_released(
    shared_app: Celery, make_scheduler: MakeScheduler, spoil: Spoil
) -> None:
    save_due(shared_app, "odd", late=2.0)
    save_due(shared_app, "good", late=1.0)
    store = Context.of(shared_app).redis
    claim = store.claim(token="", limit=2)
    spoil("odd")

    store.release(claim, claim.entries)

    assert names(run_due(make_scheduler(shared_app))) == ["good"]


def test_a_claimed_entry_whose_key_was_overwritten_is_not_quarantined(shared_app: Celery, spoil: Spoil) -> None:
    save_due(shared_app, "odd")
    store = Context.of(shared_app).redis
    claim = store.claim(token="", limit=1)
    spoil("odd")

    assert not store.quarantine(claim, [(claim.entries[0], "a reason")])
    assert store.broken.reports() == {}


def test_a_key_that_holds_a_text_is_no_entry(app: Celery, spoil: Spoil) -> None:
    spoil("odd")

    with pytest.raises(EntryNotFound):
        stored(app, "odd")


def test_a_key_that_holds_a_text_is_listed_as_missing_beside_the_others(
    app: Celery, spoil: Spoil, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "good")
    spoil("odd")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})

    assert [(row.name, row.state) for row in Search(Context.of(app)).shown()] == [
        ("good", "enabled"), ("odd", "missing"),
    ]  # fmt: skip


# The list of what is broken

every_report = pytest.mark.parametrize(
    "report", ["", "no JSON", "[]", "5", '"text"', "null", "[" * 100_000], ids=lambda report: report[:9]
)


@every_report
def test_a_report_that_is_not_ours_is_the_reason(app: Celery, client: redis.Redis, prefix: str, report: str) -> None:
    client.hset(f"{prefix}:broken", "odd", report)

    assert Context.of(app).redis.broken.reports() == {"odd": {"reason": report[:MOST_REDACTED], "since": ""}}


@every_report
def test_a_report_that_is_not_ours_costs_no_run(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, report: str
) -> None:
    client.hset(f"{prefix}:broken", "odd", report)
    save_due(app, "good")

    assert names(run_due(scheduler)) == ["good"]


def test_all_that_a_report_says_is_a_text(app: Celery, client: redis.Redis, prefix: str) -> None:
    client.hset(f"{prefix}:broken", "odd", '{"reason": 5, "since": NaN, "application": {"a": [null]}}')

    report = Context.of(app).redis.broken.reports()["odd"]

    assert report == {"reason": "5", "since": "nan", "application": "{'a': [None]}"}


def test_a_report_of_another_version_keeps_its_fields(app: Celery, client: redis.Redis, prefix: str) -> None:
    client.hset(f"{prefix}:broken", "odd", json.dumps({"why": "the moon"}))

    assert Context.of(app).redis.broken.reports() == {"odd": {"reason": "", "since": "", "why": "the moon"}}


def test_a_message_about_runs_that_is_not_ours_is_one_about_any(
    make_app: Callable[..., Celery], client: redis.Redis, prefix: str
) -> None:
    watcher = Watcher(Context.of(make_app(redisbeater_track_runs=True)))
    watcher.wait(0.0)

    for message in ("no JSON", "[" * 100_000, "5"):
        wait_until(lambda text=message: client.publish(f"{prefix}:events", text), "a watcher that listens")
        assert watcher.wait(60.0) == LiveChanges(names=None, runs=True)
    watcher.close()
