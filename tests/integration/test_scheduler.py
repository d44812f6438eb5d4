from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery import Celery, Task
from celery.schedules import crontab
from due import ago, save_due, stored
from kombu.exceptions import OperationalError
from outbox import Sent, names, run_due, take
from support.ports import dead_port
from support.signals import end_process
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, clocked
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.sending.run import task_id
from redisbeater.store import Claim

MINUTE = timedelta(minutes=1)


def claim(app: Celery, limit: int = 100) -> Claim:
    """Claim as another beat would; the apps that need it have no lock."""
    return Context.of(app).redis.claim(token="", limit=limit)


def commit(app: Celery, claim: Claim) -> list[str]:
    """Commit a claim as if all of it had been sent; the names that were fenced."""
    context = Context.of(app)
    jobs = [Job.planned(entry, claim.now, context) for entry in claim.entries]
    result = context.redis.commit(claim, [job.commitment() for job in jobs])
    changed = [job.rebased_on(*result.changed[job.claimed.name]) for job in jobs if job.claimed.name in result.changed]
    context.redis.commit(claim, [job.commitment() for job in changed])
    return result.fenced


def eventually_sent(scheduler: RedisScheduler) -> list[Sent]:
    """The runs of the first tick that sends any."""

    def tick() -> list[Sent]:
        scheduler.tick()
        return take(scheduler.app)

    return wait_until(tick, "a run to be sent")


# Claim, send, commit


def test_a_tick_sends_what_is_due(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", "proj.report", args=[1], kwargs={"a": 2})

    [run] = run_due(scheduler)

    assert (run.task, run.args, run.kwargs) == ("proj.report", [1], {"a": 2})


def test_a_tick_sends_nothing_that_is_not_due(app: Celery, scheduler: RedisScheduler) -> None:
    RedisScheduleEntry("report", "proj.report", 60.0, app=app).save()

    assert run_due(scheduler) == []


def test_a_run_is_recorded(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "report").due_at

    run_due(scheduler)

    entry = stored(app, "report")
    assert (entry.total_run_count, entry.last_run_at) == (1, due_at)


def test_a_fire_time_is_sent_once(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report")

    assert names(run_due(scheduler)) == ["report"]
    assert names(run_due(scheduler)) == []


def test_an_idle_tick_gives_the_time_until_the_next_entry(app: Celery, scheduler: RedisScheduler) -> None:
    RedisScheduleEntry("report", "proj.report", 2.0, app=app).save()

    assert 1 < scheduler.tick() <= 2


def test_an_idle_tick_looks_again_after_the_longest_interval(app: Celery, scheduler: RedisScheduler) -> None:
    RedisScheduleEntry("report", "proj.report", 3600.0, app=app).save()

    assert scheduler.tick() == pytest.approx(5, abs=0.5)


def test_the_longest_interval_is_celerys_setting(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    scheduler = make_scheduler(make_app(beat_max_loop_interval=2))

    assert scheduler.tick() == pytest.approx(2, abs=0.5)


def test_the_task_id_is_derived_from_schedule_name_and_fire_time(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    due_at = save_due(app, "report").due_at
    assert due_at is not None

    [run] = run_due(scheduler)

    namespace = uuid.UUID(client.get(f"{prefix}:id"))
    assert run.id == str(uuid.uuid5(namespace, f"report@{due_at.isoformat()}"))


def test_two_schedulers_give_the_same_fire_time_the_same_task_id(
    app: Celery, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    due_at = save_due(app, "report").due_at
    first = make_scheduler(app)
    [run] = run_due(first)
    first.close()
    assert due_at is not None

    stored(app, "report").reschedule(due_at - MINUTE)
    [again] = run_due(make_scheduler(app))

    assert (again.fire_time, again.id) == (run.fire_time, run.id)


def test_different_fire_times_have_different_task_ids(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", late=90.0)
    [first] = run_due(scheduler)
    stored(app, "report").reschedule(ago(seconds=61))

    [second] = run_due(scheduler)

    assert first.id != second.id


def test_the_headers_name_the_entry_and_its_fire_time(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "report").due_at
    assert due_at is not None

    [run] = run_due(scheduler)

    assert run.headers["periodic_task_name"] == "report"
    assert run.headers["scheduled_for"] == due_at.isoformat()
    assert run.headers["scheduled_for"].endswith("+00:00")


def test_headers_of_the_entry_are_sent_too(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", options={"headers": {"tenant": "a"}})

    [run] = run_due(scheduler)

    assert (run.headers["tenant"], run.headers["periodic_task_name"]) == ("a", "report")


def test_options_of_the_entry_decide_how_it_is_sent(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", options={"queue": "reports", "priority": 7, "expires": 60})

    [run] = run_due(scheduler, queue="reports")

    assert run.properties["priority"] == 7
    assert run.headers["expires"] is not None


@pytest.mark.parametrize("options", [{}, {"headers": {"tenant": "a"}}, {"queue": "celery"}])
def test_a_run_leaves_the_stored_definition_as_it_was(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, options: dict[str, Any]
) -> None:
    entry = save_due(app, "report", options=options)
    before = client.hget(entry.key, "definition")

    run_due(scheduler)

    assert client.hget(entry.key, "definition") == before


def test_a_registered_task_is_sent_by_its_own_apply_async(app: Celery, scheduler: RedisScheduler) -> None:
    class Signed(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            return super().apply_async(args, {**kwargs, "signature": "valid"}, **options)

    @app.task(name="proj.work", base=Signed, shared=False)
    def work(signature: str) -> None: ...

    save_due(app, "report", "proj.work")

    [run] = run_due(scheduler)

    assert run.kwargs == {"signature": "valid"}


def test_every_run_passes_apply_entry(app: Celery, make_scheduler: Callable[..., RedisScheduler]) -> None:
    class Watched(RedisScheduler):
        seen: list[tuple[str, Any]] = []  # noqa: RUF012 - one test's own class

        def apply_entry(self, entry: Any, producer: Any = None) -> None:
            headers = entry.options.pop("headers")
            self.seen.append((entry.name, producer))
            entry.options["headers"] = {**headers, "sentry-monitor-slug": entry.name}
            super().apply_entry(entry, producer=producer)

    save_due(app, "a", late=2.0)
    save_due(app, "b", late=1.0)
    scheduler = make_scheduler(app, Watched)

    runs = run_due(scheduler)

    assert [name for name, _ in scheduler.seen] == ["a", "b"]
    assert all(producer is not None for _, producer in scheduler.seen)
    assert [run.headers["sentry-monitor-slug"] for run in runs] == ["a", "b"]


def test_an_instrument_that_drops_the_headers_stops_no_run(
    app: Celery, make_scheduler: Callable[..., RedisScheduler], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "celery.beat")

    class Careless(RedisScheduler):
        def apply_entry(self, entry: Any, producer: Any = None) -> None:
            entry.options.pop("headers", None)
            super().apply_entry(entry, producer=producer)

    due_at = save_due(app, "report", options={"headers": {"tenant": "a"}}).due_at
    make_scheduler(app, Careless).tick()

    entry = stored(app, "report")
    assert (entry.total_run_count, entry.options) == (1, {"headers": {"tenant": "a"}})
    assert due_at is not None
    assert f"fire time {due_at.isoformat()}, " in caplog.text


# The grid


def test_late_ticks_do_not_move_the_grid_of_an_interval(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "report", late=7.5).due_at
    assert due_at is not None

    run_due(scheduler)

    assert stored(app, "report").due_at == due_at + MINUTE


def test_a_late_entry_runs_once_for_its_newest_fire_time(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "report", late=150.0).due_at
    assert due_at is not None

    [run] = run_due(scheduler)

    assert run.fire_time == due_at + 2 * MINUTE
    assert stored(app, "report").due_at == due_at + 3 * MINUTE


def test_a_year_of_downtime_is_one_run(app: Celery, scheduler: RedisScheduler) -> None:
    newest = ago(minutes=30).replace(second=0, microsecond=0)  # far from the next: no hour ends in the test
    hourly = crontab(minute=newest.minute)
    entry = RedisScheduleEntry("report", "proj.report", hourly, app=app, last_run_at=ago(days=365)).save()

    [run] = run_due(scheduler)

    assert run.fire_time == newest
    assert stored(app, entry.name).total_run_count == 1


# Batches


def test_more_due_entries_than_a_batch_holds_are_all_sent_oldest_first(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app(redisbeater_batch_size=2)
    for late in (3, 5, 1, 4, 2):
        save_due(app, f"late-{late}", late=late)

    runs = run_due(make_scheduler(app))

    assert names(runs) == ["late-5", "late-4", "late-3", "late-2", "late-1"]


def test_a_full_batch_is_followed_by_the_next_without_delay(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app(redisbeater_batch_size=1)
    save_due(app, "a")
    save_due(app, "b")

    assert make_scheduler(app).tick() == 0


# Between claim and commit


@pytest.fixture
def shared_app(make_app: Callable[..., Celery]) -> Celery:
    """An app without a lock, so that the test can be a second beat."""
    return make_app(redisbeater_lock_key=None)


def test_a_claimed_entry_is_not_sent_by_another_beat(
    shared_app: Celery, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    save_due(shared_app, "report")
    claim(shared_app)

    assert run_due(make_scheduler(shared_app)) == []


def test_a_claim_that_nobody_commits_comes_up_again_with_the_same_fire_time_and_id(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app(redisbeater_lock_key=None, redisbeater_lease_timeout=1)
    due_at = save_due(app, "report").due_at
    assert due_at is not None
    lost = claim(app)

    [run] = eventually_sent(make_scheduler(app))

    assert (run.fire_time, run.id) == (due_at, task_id(lost.schedule_id, "report", due_at))


def test_a_commit_after_the_lease_changes_nothing(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis
) -> None:
    app = make_app(redisbeater_lock_key=None, redisbeater_lease_timeout=1)
    entry = save_due(app, "report")
    late = claim(app)
    eventually_sent(make_scheduler(app))
    before = client.hgetall(entry.key)

    assert commit(app, late) == ["report"]
    assert client.hgetall(entry.key) == before


@pytest.mark.parametrize("end", ["commit", "release", "quarantine"])
def test_the_end_of_a_claim_that_ran_out_does_not_touch_the_claim_after_it(
    make_app: Callable[..., Celery], client: redis.Redis, end: str
) -> None:
    app = make_app(redisbeater_lock_key=None, redisbeater_lease_timeout=1)
    store = Context.of(app).redis
    entry = save_due(app, "report")
    late = claim(app)
    current = wait_until(lambda: (again := claim(app)).entries and again, "the lease to end")
    before = client.hgetall(entry.key)

    ends: dict[str, Callable[[], Any]] = {
        "commit": lambda: commit(app, late),
        "release": lambda: store.release(late, late.entries, reason="late"),
        "quarantine": lambda: store.quarantine(late, [(late.entries[0], "late")]),
    }
    ends[end]()

    assert client.hgetall(entry.key) == before
    assert store.broken.reports() == {}
    assert commit(app, current) == []


def test_a_claimed_entry_shows_its_fire_time_as_due(shared_app: Celery) -> None:
    due_at = save_due(shared_app, "report").due_at

    claim(shared_app)

    assert stored(shared_app, "report").due_at == due_at


def test_an_entry_deleted_after_the_claim_stays_deleted(shared_app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = save_due(shared_app, "report")
    claimed = claim(shared_app)

    entry.delete()

    assert commit(shared_app, claimed) == ["report"]
    assert client.exists(entry.key, f"{prefix}:schedule") == 0


def test_an_entry_deleted_after_the_claim_is_not_brought_back_by_a_release(
    shared_app: Celery, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(shared_app, "report")
    claimed = claim(shared_app)

    entry.delete()
    Context.of(shared_app).redis.release(claimed, claimed.entries, reason="the broker refuses")

    assert client.exists(entry.key, f"{prefix}:schedule") == 0


def test_an_entry_disabled_after_the_claim_stays_disabled_and_its_run_is_recorded(shared_app: Celery) -> None:
    entry = save_due(shared_app, "report")
    claimed = claim(shared_app)

    entry.disable()
    commit(shared_app, claimed)

    after = stored(shared_app, "report")
    assert (after.enabled, after.due_at, after.total_run_count) == (False, None, 1)


def test_an_entry_rescheduled_after_the_claim_keeps_its_new_fire_time(shared_app: Celery) -> None:
    entry = save_due(shared_app, "report")
    claimed = claim(shared_app)

    due_at = entry.reschedule(ago(seconds=10)).due_at
    commit(shared_app, claimed)

    assert stored(shared_app, "report").due_at == due_at


def test_a_schedule_changed_after_the_claim_is_the_one_that_counts(shared_app: Celery) -> None:
    save_due(shared_app, "report")
    claimed = claim(shared_app)

    edited = RedisScheduleEntry("report", "proj.work", crontab(minute=0, hour=0), app=shared_app).save()
    commit(shared_app, claimed)

    after = stored(shared_app, "report")
    assert (after.schedule, after.due_at, after.total_run_count) == (edited.schedule, edited.due_at, 1)


def test_arguments_changed_after_the_claim_do_not_cost_the_run_its_record(shared_app: Celery) -> None:
    due_at = save_due(shared_app, "report").due_at
    claimed = claim(shared_app)
    assert due_at is not None

    save_due(shared_app, "report", args=["new"])
    commit(shared_app, claimed)

    after = stored(shared_app, "report")
    assert (after.args, after.total_run_count, after.due_at) == (["new"], 1, due_at + MINUTE)


def test_a_release_gives_an_entry_back_at_once(
    shared_app: Celery, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    due_at = save_due(shared_app, "report").due_at
    claimed = claim(shared_app)

    Context.of(shared_app).redis.release(claimed, claimed.entries)
    [run] = run_due(make_scheduler(shared_app))

    assert run.fire_time == due_at


class Interrupted(Task):
    """A task at whose sending a signal comes."""

    def apply_async(self, *args: Any, **options: Any) -> Any:
        end_process()


def test_closing_finishes_a_dispatch_that_was_interrupted(
    app: Celery, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    @app.task(name="proj.interrupted", base=Interrupted, shared=False)
    def interrupted() -> None: ...

    save_due(app, "sent", late=3.0)
    save_due(app, "on its way", "proj.interrupted", late=2.0)
    save_due(app, "unsent", late=1.0)
    first = make_scheduler(app)
    with pytest.raises(SystemExit):
        first.tick()

    first.close()

    assert names(take(app)) == ["sent"]
    assert stored(app, "sent").total_run_count == 1
    assert names(run_due(make_scheduler(app))) == ["unsent"]


# The broker refuses


class Refusing(Task):
    """A task that cannot be sent while ``refuses`` is true."""

    refuses = True
    error: Exception = ValueError("this one cannot be serialised")

    def apply_async(self, *args: Any, **options: Any) -> Any:
        if self.refuses:
            raise self.error
        return super().apply_async(*args, **options)


@pytest.fixture
def refused(app: Celery) -> Refusing:

    @app.task(name="proj.refused", base=Refusing, shared=False)
    def refused() -> None: ...

    return refused


@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), FileNotFoundError("no such template"), OperationalError("looks like the broker")],
    ids=lambda error: type(error).__name__,
)
def test_a_run_that_cannot_be_sent_does_not_hold_up_the_others(
    app: Celery, scheduler: RedisScheduler, refused: Refusing, error: Exception
) -> None:
    refused.error = error
    save_due(app, "refused", "proj.refused", late=3.0)
    save_due(app, "other", late=2.0)

    assert names(run_due(scheduler)) == ["other"]


@pytest.mark.usefixtures("refused")
def test_a_run_that_could_not_be_sent_is_not_counted(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "refused", "proj.refused").due_at

    run_due(scheduler)

    entry = stored(app, "refused")
    assert (entry.total_run_count, entry.due_at) == (0, due_at)


@pytest.mark.usefixtures("refused")
def test_a_run_that_could_not_be_sent_says_why(app: Celery, scheduler: RedisScheduler, client: redis.Redis) -> None:
    entry = save_due(app, "refused", "proj.refused")

    run_due(scheduler)

    assert "cannot be serialised" in client.hget(entry.key, "last_error")


def test_a_run_that_could_not_be_sent_is_sent_later_with_the_same_id(
    app: Celery, scheduler: RedisScheduler, refused: Refusing, client: redis.Redis, prefix: str
) -> None:
    due_at = save_due(app, "refused", "proj.refused").due_at
    run_due(scheduler)
    assert due_at is not None

    refused.refuses = False
    [run] = eventually_sent(scheduler)

    assert (run.fire_time, run.id) == (due_at, task_id(client.get(f"{prefix}:id"), "refused", due_at))


def test_a_run_that_was_sent_after_all_leaves_no_error(
    app: Celery, scheduler: RedisScheduler, refused: Refusing, client: redis.Redis
) -> None:
    entry = save_due(app, "refused", "proj.refused")
    run_due(scheduler)
    refused.refuses = False

    eventually_sent(scheduler)

    assert client.hget(entry.key, "last_error") is None
    assert stored(app, "refused").total_run_count == 1


@pytest.fixture
def broker_down(make_app: Callable[..., Celery]) -> Celery:
    """An app whose broker does not answer."""
    return make_app(broker_url=f"amqp://guest@127.0.0.1:{dead_port()}//")


def test_a_broker_that_is_down_costs_no_run(broker_down: Celery, make_scheduler: Callable[..., RedisScheduler]) -> None:
    due_at = [save_due(broker_down, name, late=late).due_at for name, late in (("a", 2.0), ("b", 1.0))]

    make_scheduler(broker_down).tick()

    entries = [stored(broker_down, name) for name in "ab"]
    assert [entry.total_run_count for entry in entries] == [0, 0]
    assert [entry.due_at for entry in entries] == due_at


def test_a_broker_that_is_down_is_the_last_error_of_what_waits_for_it(
    broker_down: Celery, make_scheduler: Callable[..., RedisScheduler], client: redis.Redis
) -> None:
    entry = save_due(broker_down, "report")

    make_scheduler(broker_down).tick()

    assert "refused" in client.hget(entry.key, "last_error")


def test_runs_that_waited_for_the_broker_are_sent_with_their_ids(
    broker_down: Celery, make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str
) -> None:
    due_at = save_due(broker_down, "report").due_at
    scheduler = make_scheduler(broker_down)
    scheduler.tick()
    assert due_at is not None

    broker_down.conf.broker_url = "memory://"
    [run] = eventually_sent(scheduler)

    assert (run.fire_time, run.id) == (due_at, task_id(client.get(f"{prefix}:id"), "report", due_at))


# One-offs


def test_a_one_off_becomes_dormant_when_it_has_run(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = RedisScheduleEntry("once", "proj.work", clocked(ago(seconds=1)), app=app).save()

    run_due(scheduler)

    assert client.zscore(f"{prefix}:schedule", entry.key) == -1
    assert stored(app, "once").due_at is None


def test_a_one_off_does_not_run_twice(app: Celery, scheduler: RedisScheduler) -> None:
    entry = RedisScheduleEntry("once", "proj.work", clocked(ago(seconds=1)), app=app).save()
    run_due(scheduler)

    entry.disable().enable()
    entry.save()

    assert run_due(scheduler) == []


# The constructor


def test_building_a_scheduler_sends_redis_nothing(app: Celery, client: redis.Redis, prefix: str) -> None:
    before = client.info("stats")["total_connections_received"]

    scheduler = RedisScheduler(app)

    assert scheduler.info
    assert client.info("stats")["total_connections_received"] == before
    assert list(client.scan_iter(f"{prefix}*")) == []


def test_a_scheduler_can_be_built_while_redis_is_down(make_app: Callable[..., Celery]) -> None:
    app = make_app()
    app.conf.redisbeater_redis_url = f"redis://127.0.0.1:{dead_port()}/0"

    assert "127.0.0.1" in RedisScheduler(app, lazy=True).info


def test_a_claim_holds_what_is_stored(shared_app: Celery, client: redis.Redis) -> None:
    entry = save_due(shared_app, "report", args=[1])

    [claimed] = claim(shared_app).entries

    assert json.loads(claimed.definition)["args"] == [1]
    assert (claimed.name, claimed.key, claimed.fire_time) == ("report", entry.key, entry.due_at)


# The schedule as Celery sees it


def test_the_schedule_of_the_scheduler_holds_the_entries_by_name(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "a")
    save_due(app, "b").disable()

    assert sorted(scheduler.schedule) == ["a", "b"]
    assert scheduler.schedule["a"].task == "proj.work"
    assert "nobody" not in scheduler.schedule


def test_an_entry_cannot_be_put_into_the_schedule_under_another_name(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "a")
    other = RedisScheduleEntry("b", "proj.other", 60.0, app=app)

    with pytest.raises(ValueError, match="an entry named 'b' cannot be stored as 'a'"):
        scheduler.schedule["a"] = other

    assert list(scheduler.schedule) == ["a"]
    assert scheduler.schedule["a"].task == "proj.work"


def test_an_entry_put_into_the_schedule_under_its_name_is_stored(app: Celery, scheduler: RedisScheduler) -> None:
    scheduler.schedule["b"] = RedisScheduleEntry("b", "proj.other", 60.0, app=app)

    assert stored(app, "b").task == "proj.other"


def test_an_entry_added_to_the_scheduler_is_stored(app: Celery, scheduler: RedisScheduler) -> None:
    scheduler.add(name="report", task="proj.report", schedule=60.0, args=[1])

    assert stored(app, "report").args == [1]
