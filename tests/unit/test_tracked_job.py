"""A job of an app that records runs: its plan, what it sends, and what it records. Nothing here asks Redis."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from moments import utc

from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.run import NewRun, Payload
from redisbeater.results import Score, State
from redisbeater.schedules.zones import decode_datetime
from redisbeater.sending.run import run_again, task_id
from redisbeater.store import ClaimedEntry
from redisbeater.store.snapshot import version_of

FIRE_TIME = utc("2026-06-10 12:00")
NOW = FIRE_TIME + timedelta(seconds=2)
ID = "6f0c3f5c-2d6f-4f59-9d0b-6b8f1d1c1c1c"
OWN = task_id(ID, "report", FIRE_TIME)


@pytest.fixture
def app() -> Celery:
    app = Celery("tracked", broker="memory://", set_as_current=False)
    app.conf.update(redisbeater_redis_url="redis://127.0.0.1:1/0", redisbeater_track_runs=True)
    return app


@pytest.fixture
def context(app: Celery) -> Context:
    return Context.of(app)


def planned(context: Context, claimed: dict[str, Any] | None = None, now: datetime = NOW, **fields: Any) -> Job:
    definition = Definition.checked(name="report", task="proj.report", schedule=60, **fields)
    text = definition.to_text(context.codec)
    entry = ClaimedEntry(key="k", name="report", definition=text, meta="", fire_time=FIRE_TIME, **(claimed or {}))
    return Job.planned(entry, now, context, ID)


def records(job: Job) -> list[NewRun]:
    return list(job.commitment().runs)


def test_a_run_is_recorded_with_the_version_by_which_it_was_sent(context: Context) -> None:
    job = planned(context, args=[1])
    changed = job.rebased_on(job.definition._replace(args=[2]).to_text(context.codec), "")

    assert [record.version for record in (*records(job), *records(changed))] == [version_of(job.claimed.definition)] * 2


def no_route(*_: object, **__: object) -> str:
    raise LookupError("no route")


@pytest.mark.parametrize(
    ("routes", "options", "queue"),
    [
        (None, {}, ""),
        ({"proj.*": "slow"}, {}, "slow"),
        ({"proj.*": {"queue": "slow"}}, {}, "slow"),
        ({"proj.*": {"queue": "slow"}}, {"queue": "fast"}, ""),
        ({"proj.*": {"routing_key": "slow"}}, {}, ""),
        ({"proj.*": "celery"}, {}, ""),
        ({"other.*": "slow"}, {}, ""),
        (lambda name, args, kwargs, options, task=None, **_: {"queue": f"{name} {args}"}, {}, "proj.report [1]"),
        (no_route, {}, ""),
    ],
)  # fmt: skip
def test_a_run_is_recorded_with_the_queue_that_it_is_routed_to(
    context: Context, app: Celery, routes: Any, options: dict[str, str], queue: str
) -> None:
    app.conf.task_routes = routes

    (record,) = records(planned(context, args=[1], options=options))

    assert record.queue == queue


@pytest.mark.filterwarnings(r"ignore:\s*The 'queue' task attribute")
def test_the_queue_of_a_task_counts_more_than_routes(context: Context, app: Celery) -> None:
    @app.task(name="proj.report", queue="own", shared=False)
    def report() -> None: ...

    app.conf.task_routes = {"proj.*": "slow"}

    (record,) = records(planned(context))

    assert record.queue == "own"


def test_what_is_sent_is_recorded_with_what_is_needed_to_send_it_again(context: Context, app: Celery) -> None:
    job = planned(context, args=[1], kwargs={"a": {"b": None}}, options={"queue": "slow", "headers": {"x": "y"}})
    (run,), (record,) = job.runs(ID, app, now=NOW), records(job)

    again = run_again("report", Payload.from_text(record.payload), FIRE_TIME, app=app, task_id=OWN, span=record.span)

    assert (record.id, record.state, record.attempt, record.fire_time) == (OWN, State.SENT, 1, FIRE_TIME)
    assert (again.task, again.args, again.kwargs, again.options) == (run.task, run.args, run.kwargs, run.options)
    assert run.options["headers"]["redisbeater_attempt"] == 1


def test_without_records_of_runs_no_header_tells_of_them(app: Celery) -> None:
    plain = Celery("plain", broker="memory://", set_as_current=False)
    plain.conf.update(redisbeater_redis_url="redis://127.0.0.1:1/0")
    job = planned(Context.of(plain), {"active": ("other",), "failures": 9}, overlap="skip", disable_after_failures=1)
    (run,) = job.runs(ID, plain)

    assert set(run.options["headers"]) == {"periodic_task_name", "scheduled_for"}
    assert job.commitment().runs == ()
    assert job.commitment().skipped_count == 0


# -- overlap


def test_a_skipped_fire_time_is_counted_and_its_log_names_the_run_in_the_way(context: Context) -> None:
    commitment = planned(context, {"active": ("other",)}, overlap="skip").commitment()

    (line,) = commitment.log
    assert (commitment.runs, commitment.skipped_count, commitment.meta) == ([], 1, "")
    assert line.details == {"reason": "overlap", "run": "other"}
    assert list(json.loads(commitment.skipped)) == ["overlap"]


def test_a_buffered_fire_time_is_recorded_and_counts(context: Context, app: Celery) -> None:
    job = planned(context, {"active": ("other",)}, overlap="buffer_one")

    (record,) = records(job)
    assert job.runs(ID, app, now=NOW) == []
    assert (record.id, record.state) == (OWN, State.BUFFERED)
    assert Meta.from_text(job.commitment().meta).total_run_count == 1


def test_one_that_replaces_a_buffered_one_does_not_count_again(context: Context) -> None:
    job = planned(context, {"active": ("other",), "buffered": "waiting"}, overlap="cancel_other")

    assert [record.state for record in records(job)] == [State.BUFFERED]
    meta = Meta.from_text(job.commitment().meta)
    assert (meta.total_run_count, meta.last_run_at) == (0, FIRE_TIME)
    assert job.cancelled == ("other",)


def test_the_run_that_was_just_sent_is_cancelled_by_a_later_fire_time(context: Context) -> None:
    job = planned(context, now=FIRE_TIME + timedelta(minutes=1), overlap="cancel_other", coalesce="all")

    assert [record.state for record in records(job)] == [State.SENT, State.BUFFERED]
    assert job.cancelled == (OWN,)


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "cancel_other"])
def test_the_own_run_of_a_fire_time_is_not_in_its_way_and_is_not_sent_again(context: Context, overlap: str) -> None:
    job = planned(context, {"active": (OWN,)}, overlap=overlap)

    assert job.plan.runs == (FIRE_TIME,)
    assert job.tracking
    assert job.tracking.sent_before == {FIRE_TIME}
    assert [(record.id, record.state) for record in records(job)] == [(OWN, State.SENT)]


def test_the_own_run_of_the_newest_fire_time_is_not_in_its_way(context: Context) -> None:
    newest = FIRE_TIME + timedelta(minutes=1)
    job = planned(context, {"active": (task_id(ID, "report", newest),)}, now=newest, overlap="skip")

    assert job.plan.runs == (newest,)
    assert job.tracking
    assert job.tracking.sent_before == {newest}


def test_a_run_of_an_older_fire_time_is_in_the_way_of_a_newer_one(context: Context) -> None:
    job = planned(context, {"active": (OWN,)}, now=FIRE_TIME + timedelta(minutes=1), overlap="skip")

    assert (job.plan.runs, records(job)) == ((), [])


def test_of_all_fire_times_the_own_run_of_the_first_is_known_and_the_others_meet_it(context: Context) -> None:
    later = FIRE_TIME + timedelta(minutes=3)
    job = planned(context, {"active": (OWN,)}, now=later, overlap="buffer_one", coalesce="all")

    assert job.plan.runs == (FIRE_TIME,)
    assert job.tracking
    assert job.tracking.sent_before == {FIRE_TIME}
    assert job.plan.buffered
    assert job.plan.buffered.fire_time == FIRE_TIME + timedelta(minutes=1)


# -- deadline


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"deadline": 3600}, FIRE_TIME + timedelta(hours=1), id="deadline"),
        pytest.param({"deadline": 3600, "options": {"expires": 7200}}, FIRE_TIME + timedelta(hours=1), id="is-sooner"),
        pytest.param(
            {"deadline": 3600, "options": {"expires": 60}}, NOW + timedelta(minutes=1), id="expires-is-sooner"
        ),
        pytest.param({"options": {"expires": 60}}, NOW + timedelta(minutes=1), id="expires"),
        pytest.param({}, None, id="neither"),
    ],
)
def test_a_run_expires_at_its_deadline_or_by_its_own_expiry(
    context: Context, app: Celery, fields: dict[str, Any], expected: datetime | None
) -> None:
    job = planned(context, **fields)
    (run,), (record,) = job.runs(ID, app, now=NOW), records(job)

    assert record.expires == expected
    sent = run.options.get("expires")
    assert (NOW + timedelta(seconds=sent) if isinstance(sent, int) else sent) == expected


def test_the_deadline_of_a_buffered_run_counts_from_its_fire_time(context: Context) -> None:
    (record,) = records(planned(context, {"active": ("other",)}, overlap="buffer_one", deadline=3600))

    stored = Payload.from_text(record.payload).options["expires"]
    assert decode_datetime(stored, "$") == record.expires == FIRE_TIME + timedelta(hours=1)


def test_a_countdown_delays_the_start(context: Context) -> None:
    (record,) = records(planned(context, options={"countdown": 30}))

    assert record.eta == NOW + timedelta(seconds=30)


# -- failures


def test_an_entry_whose_runs_failed_too_often_is_disabled_and_not_sent(context: Context, app: Celery) -> None:
    job = planned(context, {"failures": 3}, disable_after_failures=3)
    commitment = job.commitment()

    (line,) = commitment.log
    assert (job.runs(ID, app, now=NOW), commitment.runs, commitment.meta) == ([], [], "")
    assert commitment.next == Score(fire_time=FIRE_TIME, dormant=True)
    assert json.loads(commitment.definition)["enabled"] is False
    assert (line.what, line.details) == ("disabled", {"by": "redisbeater", "note": "3 failures in a row"})


@pytest.mark.parametrize(("failures", "most"), [(2, 3), (99, None)])
def test_fewer_failures_do_not_disable_it(context: Context, failures: int, most: int | None) -> None:
    job = planned(context, {"failures": failures}, disable_after_failures=most)

    assert (job.plan.runs, job.gives_up) == ((FIRE_TIME,), False)


def test_an_edit_meanwhile_decides_whether_it_is_disabled(context: Context) -> None:
    job = planned(context, {"failures": 3}, disable_after_failures=3)
    edited = job.definition._replace(disable_after_failures=None).to_text(context.codec)

    rebased = job.rebased_on(edited, "").commitment()

    assert (rebased.definition, rebased.log, rebased.next) == ("", (), Score(fire_time=FIRE_TIME))


def test_a_run_is_recorded_as_it_was_sent_whatever_an_edit_made_of_its_entry(context: Context) -> None:
    job = planned(context, args=[1])
    edited = job.definition._replace(args=[2], task="proj.other").to_text(context.codec)

    (record,) = records(job.rebased_on(edited, ""))

    assert (record.task, Payload.from_text(record.payload).args) == ("proj.report", [1])
