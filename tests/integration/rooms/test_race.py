"""Two writers at one entry at once: an edit and a commit, an application's own fields and a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery, Task
from celery.schedules import BaseSchedule
from due import UTC, ago, now, save_due, stored
from outbox import names, run_due
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.schedules.zones import encode_datetime
from redisbeater.store import Change

MakeScheduler = Callable[..., RedisScheduler]

MINUTE = timedelta(minutes=1)


def send_and_commit(app: Celery) -> None:
    """Send and commit what is due, as another beat would."""
    context = Context.of(app)
    claim = context.redis.claim(token="", limit=100)
    result = context.redis.commit(
        claim, [Job.planned(entry, claim.now, context).commitment() for entry in claim.entries]
    )
    assert claim.entries
    assert (result.fenced, result.changed) == ([], {})


@pytest.fixture
def shared_app(make_app: Callable[..., Celery]) -> Celery:
    """An app without a lock, so that the test can be a second beat."""
    return make_app(redisbeater_lock_key=None, redisbeater_schedule_classes=[Gong])


class Gong(BaseSchedule):
    """Fires at one second of each minute; when it is first asked for its fire time, something else happens."""

    #: What happens: it is between an edit's look at the entry and its write.
    meanwhile: list[Callable[[], None]] = []  # noqa: RUF012 - shared on purpose: decoding makes new objects

    def __init__(self, second: float) -> None:
        super().__init__()
        self.second = second

    def to_redisbeater(self) -> float:
        return self.second

    @classmethod
    def from_redisbeater(cls, data: float) -> Gong:
        return cls(data)

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        if self.meanwhile:
            self.meanwhile.pop()()
        epoch = datetime.fromtimestamp(self.second, UTC)
        return MINUTE - (last_run_at - epoch) % MINUTE


@pytest.fixture
def meanwhile() -> Iterator[list[Callable[[], None]]]:
    yield Gong.meanwhile
    Gong.meanwhile.clear()


# An edit and a commit


def test_what_was_read_before_a_commit_is_not_written_after_it(shared_app: Celery, client: redis.Redis) -> None:
    entry = save_due(shared_app, "report")
    store = Context.of(shared_app).redis
    read = store.load("report")
    send_and_commit(shared_app)
    before = client.hgetall(entry.key)

    assert store.save([Change.of(read, read.definition, score=read.score)]) == {"report": "CONFLICT"}
    assert client.hgetall(entry.key) == before


def test_a_score_that_another_program_has_set_since_the_entry_was_read_is_not_overwritten(
    shared_app: Celery, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(shared_app, "report", late=-3600.0)
    store = Context.of(shared_app).redis
    read = store.load("report")
    client.zadd(f"{prefix}:schedule", {entry.key: 0})

    assert store.save([Change.of(read, read.definition, score=read.score)]) == {"report": "CONFLICT"}
    assert client.zscore(f"{prefix}:schedule", entry.key) == 0


def test_what_was_read_after_a_commit_is_written(shared_app: Celery) -> None:
    save_due(shared_app, "report")
    store = Context.of(shared_app).redis
    send_and_commit(shared_app)
    read = store.load("report")

    assert store.save([Change.of(read, read.definition, score=read.score)]) == {}


def test_a_schedule_changed_while_its_run_is_committed_does_not_send_that_fire_time_again(
    shared_app: Celery, make_scheduler: MakeScheduler, meanwhile: list[Callable[[], None]]
) -> None:
    entry = RedisScheduleEntry("report", "proj.report", 60.0, app=shared_app, last_run_at=ago(seconds=59)).save()
    due_at = entry.due_at
    assert due_at is not None

    def run() -> None:
        wait_until(lambda: now() > due_at + timedelta(milliseconds=50), "the fire time")
        send_and_commit(shared_app)

    meanwhile.append(run)
    edited = RedisScheduleEntry("report", "proj.report", Gong(due_at.timestamp() % 60), app=shared_app).save()

    assert edited.due_at is not None
    assert abs(edited.due_at - due_at - MINUTE) < timedelta(seconds=1)
    assert (edited.total_run_count, stored(shared_app, "report").due_at) == (1, edited.due_at)
    assert names(run_due(make_scheduler(shared_app))) == []


def test_rescheduling_while_a_run_is_committed_keeps_the_run_count(
    shared_app: Celery, meanwhile: list[Callable[[], None]]
) -> None:
    entry = RedisScheduleEntry("report", "proj.report", Gong(0), app=shared_app, last_run_at=ago(seconds=90)).save()
    last_run_at = ago(seconds=5)
    meanwhile.append(lambda: send_and_commit(shared_app))

    entry.reschedule(last_run_at)

    assert (entry.total_run_count, entry.last_run_at) == (1, last_run_at)
    assert stored(shared_app, "report").total_run_count == 1


def test_rescheduling_between_claim_and_commit_keeps_both(shared_app: Celery) -> None:
    entry = save_due(shared_app, "report")
    context = Context.of(shared_app)
    claim = context.redis.claim(token="", limit=1)
    job = Job.planned(claim.entries[0], claim.now, context)
    last_run_at = ago(seconds=5)
    due_at = entry.reschedule(last_run_at).due_at

    changed = context.redis.commit(claim, [job.commitment()]).changed
    context.redis.commit(claim, [job.rebased_on(*changed["report"]).commitment()])

    after = stored(shared_app, "report")
    assert (after.last_run_at, after.due_at, after.total_run_count) == (last_run_at, due_at, 1)


# An application's own fields and a commit


@pytest.fixture
def run_while_meta_becomes(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> Callable[[str], dict[str, Any]]:
    """Run an entry whose meta becomes this text while it is sent, and return the meta afterwards."""

    def run(text: str) -> dict[str, Any]:
        class Meddled(Task):
            def apply_async(self, *args: Any, **options: Any) -> Any:
                client.hset(entry.key, "meta", text)
                return super().apply_async(*args, **options)

        @app.task(name="proj.meddled", base=Meddled, shared=False)
        def meddled() -> None: ...

        entry = save_due(app, "report", "proj.meddled")
        assert names(run_due(scheduler)) == ["report"]
        return json.loads(client.hget(entry.key, "meta"))  # type: ignore[no-any-return]

    return run


def test_a_field_that_an_application_wrote_while_the_run_was_sent_stays(
    app: Celery, run_while_meta_becomes: Callable[[str], dict[str, Any]]
) -> None:
    meta = run_while_meta_becomes('{"owner": "data"}')

    assert (meta["owner"], meta["total_run_count"]) == ("data", 1)
    assert stored(app, "report").last_run_at is not None


def test_a_last_run_that_an_application_set_while_the_run_was_sent_stays(
    app: Celery, run_while_meta_becomes: Callable[[str], dict[str, Any]]
) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    run_while_meta_becomes(json.dumps({"last_run_at": encode_datetime(moment), "total_run_count": 7}))

    assert (stored(app, "report").last_run_at, stored(app, "report").total_run_count) == (moment, 8)


@pytest.mark.parametrize("text", ["{", "[]", '{"total_run_count": "x"}', "[" * 100_000], ids=lambda text: text[:9])
def test_an_unreadable_meta_that_was_written_while_the_run_was_sent_does_not_lose_the_run(
    app: Celery, run_while_meta_becomes: Callable[[str], dict[str, Any]], text: str
) -> None:
    run_while_meta_becomes(text)

    assert stored(app, "report").total_run_count == 1
    assert Context.of(app).redis.broken.reports() == {}


def test_a_commit_returns_whose_meta_was_changed_and_writes_nothing_of_it(
    shared_app: Celery, client: redis.Redis
) -> None:
    changed, other = save_due(shared_app, "changed"), save_due(shared_app, "other")
    context = Context.of(shared_app)
    claim = context.redis.claim(token="", limit=2)
    client.hset(changed.key, "meta", "theirs")
    before = client.hgetall(changed.key)

    result = context.redis.commit(
        claim, [Job.planned(entry, claim.now, context).commitment() for entry in claim.entries]
    )

    [entry] = [entry for entry in claim.entries if entry.name == "changed"]
    theirs = (entry.definition, "theirs", entry.recorded_run)
    assert (result.fenced, result.changed) == ([], {"changed": theirs})
    assert client.hgetall(changed.key) == before
    assert stored(shared_app, other.name).total_run_count == 1
