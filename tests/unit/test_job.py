"""A job: its plan, its commitment, and how it is rebased on what other programs wrote while it was in flight."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from moments import cron, utc

from redisbeater import rrule
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.meta import FINISHED, Meta
from redisbeater.model.plan import Plan
from redisbeater.model.skip import Reason, Skip, Skipped, add_skips, read_skipped
from redisbeater.results import Score
from redisbeater.schedules.kind import BrokenByCode, broken_by_code
from redisbeater.sending.run import task_id
from redisbeater.store import ClaimedEntry
from redisbeater.store.claim import more_as_json
from redisbeater.times import to_unix

FIRE_TIME = utc("2026-06-10 12:00")
LAST = utc("2026-06-10 11:59")
SET = utc("2026-06-10 11:30")


@pytest.fixture
def job(context: Context) -> Job:
    """A job whose third run was sent."""
    meta = Meta(last_run_at=LAST, total_run_count=2)
    definition = Definition.checked(name="report", task="proj.report", schedule=60)
    text = definition.to_text(context.codec)
    claimed = ClaimedEntry(key="k", name="report", definition=text, meta=meta.to_text(), fire_time=FIRE_TIME)
    plan = Plan(runs=(FIRE_TIME,), handled=FIRE_TIME, next=Score(fire_time=FIRE_TIME + timedelta(minutes=1)))
    return Job(context=context, claimed=claimed, definition=definition, meta=meta, plan=plan)


def committed(job: Job) -> Meta:
    commitment = job.commitment()
    return Meta.from_text(commitment.meta, commitment.recorded_run)


def rebased(job: Job, meta: str, recorded_run: str = "") -> Job:
    return job.rebased_on(job.claimed.definition, meta, recorded_run)


def written(last_run_at: Any = LAST, count: int = 2, **extra: Any) -> str:
    return Meta(last_run_at=last_run_at, total_run_count=count, extra=extra).to_text()


def test_fields_that_others_wrote_stay(job: Job) -> None:
    merged = committed(rebased(job, written(owner="data")))

    assert merged == Meta(
        last_run_at=FIRE_TIME, total_run_count=3, score_follows_last_run=True, extra={"owner": "data"}
    )


def test_a_last_run_that_others_set_stays_and_the_run_is_counted(job: Job) -> None:
    merged = committed(rebased(job, written(SET)))

    assert (merged.last_run_at, merged.total_run_count) == (SET, 3)


def test_the_next_score_does_not_count_from_a_last_run_that_others_set(job: Job) -> None:
    assert committed(rebased(job, written(SET))).executed_at == SET


def test_the_score_of_an_edit_that_set_the_last_run_goes_on_counting_from_it(job: Job) -> None:
    edited = Meta(last_run_at=SET, total_run_count=2).followed_by_score()

    assert committed(rebased(job, edited.to_text(), edited.recorded_run)) == edited._replace(total_run_count=3)


def test_the_next_score_counts_from_the_run_although_others_wrote_the_meta_meanwhile(job: Job) -> None:
    assert committed(rebased(job, written(owner="data"))).executed_at is None


def test_a_last_run_that_others_set_stays_when_they_write_once_more(job: Job) -> None:
    merged = committed(rebased(rebased(job, written(SET)), written(SET, owner="data")))

    assert merged == Meta(last_run_at=SET, total_run_count=3, extra={"owner": "data"})


def test_the_last_run_is_that_of_the_job_when_others_set_one_and_removed_it_again(job: Job) -> None:
    merged = committed(rebased(rebased(job, written(SET)), written(None)))

    assert (merged.last_run_at, merged.total_run_count) == (FIRE_TIME, 3)


def test_runs_that_others_counted_are_not_forgotten(job: Job) -> None:
    assert committed(rebased(job, written(count=41))).total_run_count == 42


@pytest.mark.parametrize("text", ["", "{}", "null", "{", "[]", json.dumps({"total_run_count": "x"})], ids=repr)
def test_an_unreadable_meta_loses_no_run_from_the_count(job: Job, text: str) -> None:
    merged = committed(rebased(job, text))

    assert (merged.last_run_at, merged.total_run_count) == (FIRE_TIME, 3)


def test_what_is_committed_next_is_compared_with_what_others_wrote(job: Job) -> None:
    assert rebased(job, "theirs").commitment().entry.meta == "theirs"


def test_a_definition_that_cannot_be_read_is_looked_at_at_once_and_sends_no_fire_time_again(job: Job) -> None:
    after = job.rebased_on("{", written()).commitment()

    assert after.next == Score(fire_time=FIRE_TIME + timedelta(minutes=1), look_at=FIRE_TIME)
    assert after.definition == ""


def test_a_job_that_was_the_last_is_so_although_the_definition_cannot_be_read_any_more(job: Job) -> None:
    last = job._replace(plan=job.plan._replace(next=FINISHED))

    assert last.rebased_on("{", written()).commitment().next == FINISHED


# -- planned from stored texts

NOON, HOUR = FIRE_TIME, timedelta(hours=1)
SCHEDULE_ID = "6f0c3f5c-2d6f-4f59-9d0b-6b8f1d1c1c1c"


def claimed(
    context: Context,
    schedule_: Any = 3600,
    *,
    fire_time: datetime = NOON,
    meta: Meta | None = None,
    is_due_now: bool = False,
    skipped: str = "",
    **fields: Any,
) -> ClaimedEntry:
    definition = Definition.checked(name="report", task="proj.report", schedule=schedule_, **fields)
    return ClaimedEntry(
        key="k",
        name="report",
        definition=definition.to_text(context.codec),
        meta=meta.to_text() if meta else "",
        recorded_run=meta.recorded_run if meta else "",
        fire_time=fire_time,
        is_due_now=is_due_now,
        skipped=skipped,
    )


def planned(context: Context, now: datetime, schedule_: Any = 3600, **fields: Any) -> Job:
    return Job.planned(claimed(context, schedule_, **fields), now, context)


def test_each_run_of_a_job_has_an_id_and_headers_of_its_own(context: Context) -> None:
    job = planned(context, NOON + HOUR, coalesce="all", options={"queue": "low", "headers": {"a": "b"}})

    runs = list(job.runs(SCHEDULE_ID, Celery(set_as_current=False)))

    assert [run.options["task_id"] for run in runs] == [
        task_id(SCHEDULE_ID, "report", fire_time) for fire_time in (NOON, NOON + HOUR)
    ]
    first, second = "2026-06-10T12:00:00+00:00", "2026-06-10T13:00:00+00:00"
    assert [run.options["headers"] for run in runs] == [
        {"a": "b", "periodic_task_name": "report", "scheduled_for": first},
        {"a": "b", "periodic_task_name": "report", "scheduled_for": second, "previous_fire_time": first},
    ]


def test_the_identity_of_a_run_has_no_jitter_in_it(context: Context) -> None:
    job = planned(context, NOON + HOUR / 2, jitter=1800)

    (run,) = job.runs(SCHEDULE_ID, Celery(set_as_current=False))

    assert run.options["headers"]["scheduled_for"] == NOON.isoformat()


def test_each_run_that_was_sent_is_counted(context: Context) -> None:
    job = planned(context, NOON + 3 * HOUR, coalesce="all", meta=Meta(total_run_count=5))

    assert committed(job) == Meta(last_run_at=NOON + 3 * HOUR, total_run_count=9, score_follows_last_run=True)


def test_an_entry_with_jitter_is_sent_however_often_it_has_run_before(context: Context) -> None:
    # Finding one takes some 700 of the 60,000 engine steps that a plan may take.
    leap_days = rrule("DTSTART:20240229T000000Z\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29")
    entry, fire_time, app = (
        claimed(context, leap_days, jitter=30),
        utc("2028-02-29 00:00"),
        Celery(set_as_current=False),
    )

    for _ in range(100):
        job = Job.planned(entry._replace(fire_time=fire_time), fire_time + timedelta(seconds=30), context)
        [run] = job.runs(SCHEDULE_ID, app)
        assert run.last_run_at == fire_time
        assert job.plan.next.fire_time is not None
        fire_time = job.plan.next.fire_time

    assert fire_time.year > 2428


def test_only_the_runs_that_were_sent_are_counted(context: Context) -> None:
    job = planned(context, NOON + 3 * HOUR, coalesce="all", meta=Meta(total_run_count=5)).first_runs(2)

    assert committed(job) == Meta(last_run_at=NOON + HOUR, total_run_count=7, score_follows_last_run=True)
    assert job.commitment().next == Score(fire_time=NOON + 2 * HOUR)


def test_a_job_without_a_run_leaves_the_meta_alone(context: Context) -> None:
    missed = planned(context, NOON + HOUR / 2, misfire_grace_time=60, meta=Meta(total_run_count=5))

    assert (missed.commitment().meta, missed.commitment().next) == ("", Score(fire_time=NOON + HOUR))


def test_what_is_skipped_is_added_to_the_record(context: Context) -> None:
    before = add_skips("", [Skip(reason=Reason.COALESCED, count=7, first=NOON - HOUR, last=NOON - HOUR)])

    job = planned(context, NOON + 3 * HOUR, misfire_grace_time=5400, skipped=before)

    assert read_skipped(job.commitment().skipped) == {
        "missed": Skipped(count=2, last=NOON + HOUR),
        "coalesced": Skipped(count=8, last=NOON + 2 * HOUR),
    }


def test_a_record_to_which_nothing_is_added_is_not_written(context: Context) -> None:
    before = add_skips("", [Skip(reason=Reason.COALESCED, count=7, first=NOON, last=NOON)])

    assert planned(context, NOON, skipped=before).commitment().skipped == ""


def test_a_deferred_job_commits_its_later_look(context: Context) -> None:
    job = planned(context, NOON, jitter=1800)
    look = job.commitment().next

    assert look is not None
    assert (look.fire_time, look.look_at is not None and look.look_at > NOON) == (NOON, True)
    assert (job.commitment().meta, job.commitment().skipped, job.plan.handled) == ("", "", None)


# -- when an entry has finished


@pytest.mark.parametrize(
    ("on_finish", "following", "disables"),
    [
        pytest.param("keep", FINISHED, False, id="keep"),
        pytest.param("disable", FINISHED, True, id="disable"),
        pytest.param("delete", None, False, id="delete"),
    ],
)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"max_runs": 3}, id="max-runs"),
        pytest.param({"end_at": NOON + timedelta(minutes=59)}, id="end"),
        pytest.param({"max_runs": 9, "end_at": NOON, "misfire_grace_time": 1}, id="its-last-fire-time-missed"),
    ],
)
def test_an_entry_that_has_finished_is_kept_disabled_or_deleted(
    context: Context, fields: dict[str, Any], on_finish: str, following: Score | None, disables: bool
) -> None:
    job = planned(context, NOON + timedelta(seconds=2), on_finish=on_finish, meta=Meta(total_run_count=2), **fields)

    done = job.commitment()

    assert done.next == following
    assert (done.definition != "") is disables
    if disables:
        assert Definition.from_text("report", done.definition, context.codec) == job.definition._replace(enabled=False)


@pytest.mark.parametrize("on_finish", ["keep", "disable", "delete"])
def test_an_entry_that_goes_on_is_not_ended(context: Context, on_finish: str) -> None:
    done = planned(context, NOON, on_finish=on_finish, max_runs=5).commitment()

    assert (done.next, done.definition) == (Score(fire_time=NOON + HOUR), "")


@pytest.mark.parametrize("on_finish", ["disable", "delete"])
def test_a_disabled_entry_has_not_finished(context: Context, on_finish: str) -> None:
    done = planned(context, NOON, on_finish=on_finish, enabled=False).commitment()

    assert (done.next, done.definition) == (Score(fire_time=NOON, dormant=True), "")


def test_an_entry_whose_last_runs_were_not_all_sent_is_not_ended(context: Context) -> None:
    job = planned(context, NOON + 3 * HOUR, coalesce="all", max_runs=4, on_finish="delete").first_runs(3)

    assert job.commitment().next == Score(fire_time=NOON + 3 * HOUR)


# -- executed meanwhile

RAN = NOON + timedelta(minutes=20)
EXECUTED = Meta(last_run_at=RAN, total_run_count=7, extra={"owner": "data"})


def test_an_interval_that_was_executed_meanwhile_is_moved_without_a_run(context: Context) -> None:
    job = planned(context, NOON + HOUR / 2, meta=EXECUTED)

    assert (job.plan.runs, job.commitment().next) == ((), Score(fire_time=RAN + HOUR))
    assert committed(job) == EXECUTED._replace(score_follows_last_run=True)


def test_a_score_that_counts_from_the_last_run_is_not_moved(context: Context) -> None:
    job = planned(context, NOON + HOUR / 2, meta=EXECUTED._replace(score_follows_last_run=True))

    assert job.plan.runs == (NOON,)


def test_a_score_of_zero_runs_now_whatever_the_meta_says(context: Context) -> None:
    job = planned(context, NOON + HOUR / 2, meta=Meta(last_run_at=RAN), is_due_now=True)

    assert job.plan.runs == (NOON,)


def test_an_execution_moves_no_crontab(context: Context) -> None:
    job = planned(context, NOON + HOUR / 2, cron("0 * * * *"), meta=Meta(last_run_at=RAN))

    assert job.plan.runs == (NOON,)


def test_a_missed_fire_time_of_a_crontab_leaves_the_meta_of_others_alone(context: Context) -> None:
    job = planned(
        context, NOON + HOUR / 2, cron("0 * * * *"), misfire_grace_time=60, meta=Meta(last_run_at=NOON - HOUR)
    )

    assert (job.plan.handled, job.commitment().meta) == (NOON, "")


def test_the_score_after_a_missed_fire_time_counts_from_the_last_run_whoever_set_it(context: Context) -> None:
    meta = Meta(last_run_at=NOON - HOUR, total_run_count=7)

    missed = planned(context, NOON + HOUR / 2, misfire_grace_time=60, meta=meta)

    assert (missed.plan.runs, committed(missed)) == ((), meta._replace(score_follows_last_run=True))


def test_a_meta_that_is_marked_already_is_not_written_for_that(context: Context) -> None:
    meta = Meta(last_run_at=NOON - HOUR, score_follows_last_run=True)

    assert planned(context, NOON + HOUR / 2, misfire_grace_time=60, meta=meta).commitment().meta == ""


def test_the_next_score_counts_from_a_run(context: Context) -> None:
    assert committed(planned(context, NOON)) == Meta(last_run_at=NOON, total_run_count=1, score_follows_last_run=True)


def later_look(job: Job) -> dict[str, str]:
    """The fields that are committed with a score that is not the fire time."""
    outcome = json.loads(more_as_json([job.commitment()])).get("0", {})
    return {field: outcome[field] for field in ("fire_time", "is_due_now") if field in outcome}


def test_no_fire_time_is_stored_with_a_score_that_is_one(context: Context) -> None:
    assert later_look(planned(context, NOON)) == {}
    assert later_look(planned(context, NOON, is_due_now=True)) == {}


@pytest.mark.parametrize(("is_due_now", "flag"), [(False, {}), (True, {"is_due_now": "1"})], ids=["planned", "now"])
def test_a_fire_time_that_was_now_is_so_until_it_is_run(
    context: Context, is_due_now: bool, flag: dict[str, str]
) -> None:
    deferred = planned(context, NOON, jitter=1800, is_due_now=is_due_now)

    assert later_look(deferred) == {"fire_time": to_unix(NOON), **flag}


def test_a_fire_time_that_was_now_is_so_when_the_definition_was_changed_meanwhile(context: Context) -> None:
    deferred = planned(context, NOON, jitter=1800, is_due_now=True)

    rebased = rebased_on_changes(context, deferred, jitter=0)

    assert later_look(rebased) == {"fire_time": to_unix(NOON), "is_due_now": "1"}


def test_a_fire_time_that_was_now_is_forgotten_when_the_entry_is_disabled(context: Context) -> None:
    assert later_look(planned(context, NOON, enabled=False, is_due_now=True)) == {}


def again(context: Context, job: Job, now: datetime) -> Job:
    """The job that the next claim plans from what this one committed."""
    done = job.commitment()
    assert done.next is not None
    assert done.next.fire_time is not None
    kept = job.claimed._replace(meta=done.meta or job.claimed.meta, fire_time=done.next.fire_time)
    return Job.planned(kept, now, context)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"args": [1]}, id="args"),
        pytest.param({"misfire_grace_time": 7200}, id="policy"),
        pytest.param({"description": "x"}, id="description"),
    ],
)
def test_an_interval_that_is_moved_stays_so_when_its_definition_is_changed_meanwhile(
    context: Context, changes: dict[str, Any]
) -> None:
    now = NOON + HOUR / 2
    moved = planned(context, now, meta=Meta(last_run_at=RAN))

    changed = moved.rebased_on(moved.definition.changed(**changes).to_text(context.codec), moved.claimed.meta)

    assert again(context, changed, now).plan.runs == ()
    assert again(context, changed, RAN + HOUR).plan.runs == (RAN + HOUR,)


def test_an_interval_that_is_moved_is_moved_further_when_it_was_executed_once_more(context: Context) -> None:
    now, later = NOON + HOUR / 2, RAN + timedelta(minutes=5)
    moved = planned(context, now, meta=Meta(last_run_at=RAN))

    changed = moved.rebased_on(moved.claimed.definition, Meta(last_run_at=later).to_text())

    assert again(context, changed, now).commitment().next == Score(fire_time=later + HOUR)


# -- a definition that others changed meanwhile


def rebased_on_changes(context: Context, job: Job, **changes: Any) -> Job:
    return job.rebased_on(job.definition.changed(**changes).to_text(context.codec), job.claimed.meta)


@pytest.mark.parametrize(
    ("changes", "following"),
    [
        pytest.param({"args": [1]}, Score(fire_time=NOON + HOUR), id="nothing-that-moves"),
        pytest.param({"schedule": 60}, Score(fire_time=NOON + timedelta(minutes=1)), id="schedule"),
        pytest.param({"enabled": False}, Score(fire_time=NOON + HOUR, dormant=True), id="disabled"),
        pytest.param({"max_runs": 3}, FINISHED, id="max-runs-reached-by-this-run"),
        pytest.param({"max_runs": 4}, Score(fire_time=NOON + HOUR), id="max-runs-not-reached"),
        pytest.param({"end_at": NOON + HOUR / 2}, FINISHED, id="end"),
        pytest.param({"end_at": NOON, "on_finish": "delete"}, None, id="end-and-deleted"),
    ],
)
def test_a_changed_definition_decides_what_comes_after_the_run(
    context: Context, changes: dict[str, Any], following: Score | None
) -> None:
    job = planned(context, NOON, meta=Meta(total_run_count=2))

    assert rebased_on_changes(context, job, **changes).commitment().next == following
    assert committed(rebased_on_changes(context, job, **changes)).total_run_count == 3


def test_a_deferred_job_is_looked_at_again_after_its_definition_was_changed(context: Context) -> None:
    job = planned(context, NOON, jitter=1800)

    assert rebased_on_changes(context, job, jitter=0).commitment().next == Score(fire_time=NOON)


def test_a_definition_that_was_changed_to_one_that_cannot_be_read_stays(context: Context) -> None:
    job = planned(context, NOON, end_at=NOON, on_finish="disable")

    assert job.rebased_on("{ broken", "").commitment().definition == ""


def test_an_entry_that_was_changed_to_one_that_cannot_be_read_is_not_deleted(context: Context) -> None:
    job = planned(context, NOON, end_at=NOON, on_finish="delete")

    assert job.rebased_on("{ broken", "").commitment().next is not None


# -- entries that cannot be planned


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param({"misfire_grace_time": 0}, id="grace"),
        pytest.param({"misfire_grace_time": 10**400}, id="grace-of-400-digits"),
        pytest.param({"jitter": 10**400}, id="jitter-of-400-digits"),
        pytest.param({"jitter": 1e300}, id="jitter-without-end"),
        pytest.param({"misfire_grace_time": 1e12}, id="grace-beyond-the-calendar"),
        pytest.param({"start_at": "2026-06-10"}, id="start"),
        pytest.param({"coalesce": "newest"}, id="coalesce"),
        pytest.param({"max_runs": 0}, id="max-runs"),
    ],
)
def test_a_policy_that_another_program_wrote_wrong_makes_its_own_entry_broken_and_says_which(
    context: Context, policies: dict[str, Any]
) -> None:
    text = json.dumps({"task": "proj.report", "schedule": {"__type__": "interval", "every": 60}, **policies})
    entry = ClaimedEntry(key="k", name="report", definition=text, meta="", fire_time=NOON)

    with pytest.raises(InvalidEntry, match=rf"^\$\.{next(iter(policies))}: "):
        Job.planned(entry, NOON, context)


def test_code_that_raises_anything_makes_its_entry_broken_and_is_the_cause(context: Context) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise OSError("no text")

    expected = pytest.raises(BrokenByCode, match=r"^\$\.schedule: Mute: \(an error without a text\)$")
    with expected as caught, broken_by_code("$.schedule"):
        raise Mute
    assert isinstance(caught.value.__cause__, Mute)


def test_runs_that_were_not_sent_come_up_again_when_they_are_asked_to(context: Context) -> None:
    now = NOON + 3 * HOUR

    job = planned(context, now, coalesce="all").first_runs(2, look_at=now)

    assert job.commitment().next == Score(fire_time=NOON + 2 * HOUR, look_at=now)
    assert later_look(job) == {"fire_time": to_unix(NOON + 2 * HOUR)}


def test_a_commitment_that_cannot_be_computed_is_made_without_what_fails(context: Context) -> None:
    job = planned(context, NOON, on_finish="delete", max_runs=5)

    assert job.bare_commitment() == job.commitment()._replace(meta="", recorded_run="")
    assert planned(context, NOON, on_finish="delete", max_runs=1).bare_commitment().next is None


def test_only_the_runs_that_are_asked_for_are_made(context: Context) -> None:
    job = planned(context, NOON + 3 * HOUR, coalesce="all")

    runs = job.runs(SCHEDULE_ID, Celery(set_as_current=False), 1, 3)

    assert [run.last_run_at for run in runs] == [NOON + HOUR, NOON + 2 * HOUR]
