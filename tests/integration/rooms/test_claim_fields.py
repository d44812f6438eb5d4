"""The fire time that is stored with a score: who has claimed it, whether it was now, and when it counts no more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import ago, now, save_due, stored
from flight import Flight, mark_in_flight
from outbox import names, run_due
from support.claims import claim_fields, is_claimed
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.context import Context
from redisbeater.model.meta import Meta
from redisbeater.results import Score
from redisbeater.store import Change
from redisbeater.times import from_unix

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    """An app without a lock, so that the test can be a beat, and without Celery's own entry."""
    return make_app(redisbeater_lock_key=None)


def score_of(client: redis.Redis, entry: RedisScheduleEntry) -> float:
    prefix = entry.key.removesuffix(entry.name)
    return float(client.zscore(f"{prefix}:schedule", entry.key))


# What is written


def test_a_claim_writes_fire_time_end_of_lease_and_its_id(app: Celery, client: redis.Redis, prefix: str) -> None:
    app.conf.redisbeater_lease_timeout = 30
    entry = save_due(app, "report")

    flight = mark_in_flight(app)

    fields = claim_fields(client, entry.key)
    assert from_unix(fields["fire_time"]) == entry.due_at
    assert (float(fields["look_at"]), fields["claim"]) == (score_of(client, entry), flight.claim.id)
    own = {"definition", "meta", "recorded_run"}
    assert set(client.hkeys(entry.key)) == {*own, "fire_time", "look_at", "claim"}
    receipt = f"{prefix}:claim:{flight.claim.id}"
    assert float(client.get(receipt)) == score_of(client, entry)
    assert 0 < client.pttl(receipt) <= 30_000


def test_a_release_leaves_the_fire_time_and_when_it_is_tried_again(app: Celery, client: redis.Redis) -> None:
    entry = save_due(app, "report")
    flight = mark_in_flight(app)

    flight.context.redis.release(flight.claim, flight.claim.entries, delay=30)

    fields = claim_fields(client, entry.key)
    assert set(fields) == {"fire_time", "look_at"}
    assert from_unix(fields["fire_time"]) == entry.due_at == stored(app, "report").due_at
    assert float(fields["look_at"]) == score_of(client, entry) == pytest.approx(now().timestamp() + 30, abs=10)


def test_a_commit_leaves_no_field_of_its_claim(app: Celery, client: redis.Redis) -> None:
    entry = save_due(app, "report")

    mark_in_flight(app).confirm()

    assert set(client.hkeys(entry.key)) == {"definition", "meta", "recorded_run"}


JUNK = ["", "1", "junk", "0x10", "-1", "nan", "inf", "1e999", " 1 ", "\n", "1 2", "* * *"]


@pytest.mark.parametrize("text", JUNK, ids=repr)
@pytest.mark.parametrize("field", ["fire_time", "look_at", "claim", "is_due_now", "recorded_run"])
def test_what_another_program_wrote_into_one_field_changes_no_fire_time(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, field: str, text: str
) -> None:
    entry = save_due(app, "report")
    client.hset(entry.key, field, text)

    assert stored(app, "report").due_at == entry.due_at
    if field != "recorded_run":  # another one: then its last run counts as written by the application
        assert [run.fire_time for run in run_due(make_scheduler(app))] == [entry.due_at]


@pytest.mark.parametrize("text", [text for text in JUNK if text != "1"], ids=repr)
def test_a_fire_time_that_is_no_instant_is_ignored(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, text: str
) -> None:
    entry = save_due(app, "report")
    fields = {"fire_time": text, "look_at": score_of(client, entry), "is_due_now": "1"}
    client.hset(entry.key, mapping=fields)

    assert stored(app, "report").due_at == entry.due_at
    assert [run.fire_time for run in run_due(make_scheduler(app))] == [entry.due_at]
    assert claim_fields(client, entry.key) == {}


@pytest.mark.parametrize("fire_time", ["junk", "", "-5", "0x10"], ids=repr)
@pytest.mark.parametrize("look_at", ["as it was", "junk"])
def test_a_claim_whose_fields_another_program_overwrites_ends_no_beat(
    app: Celery, client: redis.Redis, fire_time: str, look_at: str
) -> None:
    entry = save_due(app, "report")
    for give_back in (release, undo_claim, find_edited, Flight.confirm):
        client.zadd(f"{entry.key.removesuffix('report')}:schedule", {entry.key: entry.due_at.timestamp()})
        flight = mark_in_flight(app)
        client.hset(entry.key, "fire_time", fire_time)
        if look_at == "junk":
            client.hset(entry.key, "look_at", look_at)

        give_back(flight)

    assert stored(app, "report").total_run_count == 1


def test_an_old_now_is_not_that_of_another_score(app: Celery, client: redis.Redis) -> None:
    """A score that another program sets has nothing of the score of 0 that was there before."""
    entry = save_due(app, "report")
    client.hset(entry.key, mapping={"fire_time": "5", "look_at": "6", "is_due_now": "1"})

    flight = mark_in_flight(app)

    assert not flight.job.claimed.is_due_now
    assert "is_due_now" not in claim_fields(client, entry.key)


# A score of zero: now, until it was run


@pytest.fixture
def asked_for(app: Celery, client: redis.Redis, prefix: str) -> RedisScheduleEntry:
    """An interval that another program says was just executed, and has run now all the same."""
    entry = save_due(app, "report")
    client.hset(entry.key, "meta", Meta(last_run_at=now()).to_text())
    client.zadd(f"{prefix}:schedule", {entry.key: 0})
    return entry


def release(flight: Flight) -> None:
    flight.context.redis.release(flight.claim, flight.claim.entries)


def undo_claim(flight: Flight) -> None:
    """Pretend that the reply of the claim was lost: the next claim gives back what it took."""
    flight.context.redis.lost_claims.append(flight.claim.id)


def find_edited(flight: Flight) -> None:
    """Its definition could not be read, and was replaced meanwhile by the one that it has."""
    [claimed] = flight.claim.entries
    broken = type(claimed)(key=claimed.key, name=claimed.name, definition="{", meta="", fire_time=claimed.fire_time)
    assert not flight.context.redis.quarantine(flight.claim, [(broken, "not JSON")])


@pytest.mark.parametrize("give_back", [release, undo_claim, find_edited])
def test_an_entry_that_is_to_run_now_is_so_when_it_was_given_back(
    app: Celery,
    make_scheduler: MakeScheduler,
    asked_for: RedisScheduleEntry,
    give_back: Callable[[Flight], None],
) -> None:
    flight = mark_in_flight(app)

    give_back(flight)
    [run] = run_due(make_scheduler(app))

    assert run.fire_time == flight.job.claimed.fire_time


@pytest.mark.parametrize("give_back", [release, undo_claim, find_edited])
def test_an_entry_that_is_given_back_twice_has_the_fire_time_that_it_had(
    app: Celery, client: redis.Redis, asked_for: RedisScheduleEntry, give_back: Callable[[Flight], None]
) -> None:
    first = mark_in_flight(app)
    give_back(first)
    second = mark_in_flight(app)
    give_back(second)

    third = mark_in_flight(app)

    assert {flight.job.claimed.fire_time for flight in (first, second, third)} == {first.claim.now}
    assert claim_fields(client, asked_for.key)["is_due_now"] == "1"


def test_a_lost_claim_gives_back_nothing_that_another_beat_has_claimed_in_the_same_microsecond(
    app: Celery, client: redis.Redis
) -> None:
    ours, theirs = (save_due(app, name, late=late) for name, late in (("ours", 2.0), ("theirs", 1.0)))
    schedule = Context.of(app).redis
    schedule.contents.fix_clock(now())
    lost, other = schedule.claim(token="", limit=1), schedule.claim(token="", limit=1)

    schedule.lost_claims.append(lost.id)
    again = schedule.claim(token="", limit=100)

    assert [entry.key for claim in (lost, other, again) for entry in claim.entries] == [ours.key, theirs.key, ours.key]
    assert claim_fields(client, theirs.key)["claim"] == other.id
    assert client.exists(f"{schedule.keys.prefix}:claim:{lost.id}") == 0


def test_an_entry_that_is_to_run_now_is_so_when_its_jitter_is_over(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, asked_for: RedisScheduleEntry
) -> None:
    ScheduleStore(app).update("report", jitter=2)
    flight = mark_in_flight(app)
    assert flight.job.plan.runs == (), "by its jitter it is due a moment later"
    scheduler = make_scheduler(app)

    flight.confirm()
    assert claim_fields(client, asked_for.key)["is_due_now"] == "1"
    [run] = wait_until(lambda: run_due(scheduler), "the run")

    assert run.fire_time == flight.job.claimed.fire_time


def test_an_execution_that_is_written_while_a_run_that_was_asked_for_is_sent_is_what_counts_next(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, asked_for: RedisScheduleEntry
) -> None:
    flight = mark_in_flight(app)
    executed_at = now()
    client.hset(asked_for.key, "meta", Meta(last_run_at=executed_at).to_text())
    flight.confirm()

    client.zadd(f"{prefix}:schedule", {asked_for.key: now().timestamp()})

    assert run_due(make_scheduler(app)) == []
    assert stored(app, "report").due_at == executed_at + timedelta(minutes=1)


# A new score of a claimed entry


def given_a_score(app: Celery, score: datetime) -> None:
    """An edit that gives the entry a score."""
    store = Context.of(app).redis
    read = store.load("report")
    assert read.is_claimed
    assert store.save([Change.of(read, read.definition, score=Score(fire_time=score))]) == {}


def end_of_lease(client: redis.Redis, entry: RedisScheduleEntry) -> datetime:
    """A score that could be taken for that of the claim."""
    return from_unix(claim_fields(client, entry.key)["look_at"])


def another(client: redis.Redis, entry: RedisScheduleEntry) -> datetime:
    return ago(hours=-1)


new_scores = pytest.mark.parametrize("new_score", [end_of_lease, another])
NewScore = Callable[[redis.Redis, RedisScheduleEntry], datetime]


@new_scores
def test_a_new_score_of_a_claimed_entry_stands_and_its_run_is_counted(
    app: Celery, client: redis.Redis, new_score: NewScore
) -> None:
    entry = save_due(app, "report")
    flight = mark_in_flight(app)
    score = new_score(client, entry)

    given_a_score(app, score)
    flight.confirm()

    assert (stored(app, "report").due_at, stored(app, "report").total_run_count) == (score, 1)
    assert claim_fields(client, entry.key) == {}


@new_scores
@pytest.mark.parametrize("give_back", [release, undo_claim, find_edited])
def test_a_new_score_of_a_claimed_entry_is_not_taken_back(
    app: Celery, client: redis.Redis, new_score: NewScore, give_back: Callable[[Flight], None]
) -> None:
    entry = save_due(app, "report")
    flight = mark_in_flight(app)
    score = new_score(client, entry)

    given_a_score(app, score)
    give_back(flight)

    assert Context.of(app).redis.claim(token="", limit=1).entries == ()
    assert stored(app, "report").due_at == score


def test_a_release_takes_away_a_fire_time_that_counts_no_more(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = save_due(app, "report")
    flight = mark_in_flight(app)
    lease_end = claim_fields(client, entry.key)["look_at"]
    client.zadd(f"{prefix}:schedule", {entry.key: ago(hours=-1).timestamp()})

    release(flight)
    client.zadd(f"{prefix}:schedule", {entry.key: lease_end})

    assert claim_fields(client, entry.key) == {}
    assert stored(app, "report").due_at == from_unix(lease_end)


@new_scores
def test_a_claimed_entry_that_was_given_a_new_score_can_be_edited_again(
    app: Celery, client: redis.Redis, new_score: NewScore
) -> None:
    entry = save_due(app, "report")
    flight = mark_in_flight(app)
    given_a_score(app, new_score(client, entry))
    assert claim_fields(client, entry.key) == {"claim": flight.claim.id}

    given_a_score(app, ago(minutes=-5))
    ScheduleStore(app).update("report", args=["new"])
    assert is_claimed(client, entry.key)
    flight.confirm()

    assert (stored(app, "report").args, stored(app, "report").total_run_count) == (["new"], 1)


@new_scores
def test_an_entry_that_was_given_a_new_score_and_cannot_be_planned_is_quarantined(
    app: Celery, client: redis.Redis, new_score: NewScore
) -> None:
    entry = save_due(app, "report")
    flight = mark_in_flight(app)
    given_a_score(app, new_score(client, entry))

    assert flight.context.redis.quarantine(flight.claim, [(flight.job.claimed, "a reason")])

    assert stored(app, "report").due_at is None
    assert claim_fields(client, entry.key) == {}


# An edit over a last run that another program wrote


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda store: store.update("report", schedule=3600.0), id="schedule"),
        pytest.param(lambda store: (store.disable("report"), store.enable("report")), id="enabled-again"),
    ],
)
def test_a_score_that_an_edit_sets_counts_from_a_last_run_that_another_program_wrote(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, edit: Callable[[ScheduleStore], Any]
) -> None:
    entry = save_due(app, "report")
    client.hset(entry.key, "meta", Meta(last_run_at=ago(seconds=10), total_run_count=3).to_text())

    edit(ScheduleStore(app))
    client.zadd(f"{prefix}:schedule", {entry.key: now().timestamp()})

    assert names(run_due(make_scheduler(app))) == ["report"]
    assert stored(app, "report").total_run_count == 4


def test_a_score_that_an_edit_sets_leaves_the_meta_that_another_program_wrote_of_a_crontab(
    app: Celery, client: redis.Redis
) -> None:
    entry = RedisScheduleEntry("report", "proj.work", crontab(), app=app).save()
    meta = Meta(last_run_at=ago(seconds=10)).to_text()
    client.hset(entry.key, "meta", meta)

    ScheduleStore(app).update("report", schedule=crontab(minute="7"))

    assert client.hget(entry.key, "meta") == meta


def test_an_edit_that_sets_no_score_leaves_the_meta_of_another_program_as_it_is(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    entry = save_due(app, "report")
    meta = Meta(last_run_at=ago(seconds=10)).to_text()
    client.hset(entry.key, "meta", meta)

    ScheduleStore(app).update("report", args=["new"])

    assert client.hget(entry.key, "meta") == meta
    assert run_due(make_scheduler(app)) == []
