from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from celery.schedules import schedule
from moments import NEW_YORK, cron, utc

from redisbeater import clocked, rrule
from redisbeater.context import Context
from redisbeater.editing.rescheduling import score_after_edit, score_of_executed, score_of_new
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.results import Score
from redisbeater.store import Snapshot

NOW = utc("2026-06-10 12:00")
LAST = utc("2026-06-10 11:59:30")
NEXT = utc("2026-06-10 12:00:30")
FINISHED = Score(fire_time=None, dormant=True)


def entry(schedule_: Any = 60, **fields: Any) -> Definition:
    return Definition.checked(name="report", task="proj.report", schedule=schedule_, **fields)


def dormant(fire_time: datetime) -> Score:
    return Score(fire_time=fire_time, dormant=True)


def edited(
    context: Context,
    before: Definition | None,
    after: Definition,
    score: Score | None,
    last_run_at: datetime | None = LAST,
    run_count: int = 0,
) -> Score | None:
    text = before.to_text(context.codec) if before else "{ broken" if score else ""
    stored = Snapshot(name="report", now=NOW, definition=text, meta="", score=score)
    meta = Meta(last_run_at=last_run_at, total_run_count=run_count)
    return score_after_edit(before, after, meta, stored, context.defaults, context.codec)


# -- new entries


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        pytest.param(entry(60), Score(fire_time=utc("2026-06-10 12:01")), id="interval"),
        pytest.param(
            entry(cron("0 9 * * *")), Score(fire_time=utc("2026-06-10 13:00")), id="crontab-in-the-app-s-zone"
        ),
        pytest.param(
            entry(cron("0 9 * * *"), timezone="Europe/Vienna"),
            Score(fire_time=utc("2026-06-11 07:00")),
            id="crontab-in-its-own-zone",
        ),
        pytest.param(entry(clocked(utc("2026-06-10 11:59"))), Score(fire_time=utc("2026-06-10 11:59")), id="clocked"),
        pytest.param(entry(60, enabled=False), dormant(utc("2026-06-10 12:01")), id="disabled"),
    ],
)
def test_a_new_entry_gets_its_first_fire_time(context: Context, definition: Definition, expected: Score) -> None:
    assert edited(context, None, definition, None, last_run_at=None) == expected


def test_a_new_entry_with_a_last_run_counts_from_it(context: Context) -> None:
    assert edited(context, None, entry(60), None, last_run_at=LAST) == Score(fire_time=NEXT)


def test_a_new_one_off_that_has_run_is_finished(context: Context) -> None:
    once = entry(clocked(utc("2026-06-10 11:00")))

    assert edited(context, None, once, None, last_run_at=utc("2026-06-10 11:00")) == FINISHED


def test_an_entry_that_is_missing_from_the_schedule_is_planned_again(context: Context) -> None:
    assert edited(context, entry(60), entry(60, args=[1]), None, last_run_at=None) == Score(
        fire_time=utc("2026-06-10 12:01")
    )


def test_saving_over_an_entry_that_was_broken_for_long_does_not_fire_in_the_past(context: Context) -> None:
    score = edited(context, None, entry(60), dormant(utc("2020-01-01")), last_run_at=utc("2020-01-01"))

    assert score == Score(fire_time=utc("2026-06-10 12:01"))


def test_saving_over_a_broken_entry_plans_it_again(context: Context) -> None:
    assert edited(context, None, entry(60), dormant(utc("2020-01-01")), last_run_at=None) == Score(
        fire_time=utc("2026-06-10 12:01")
    )


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(rrule("DAILY", dtstart=utc("2026-01-01"), until=utc("2026-02-01")), id="ended"),
        pytest.param(rrule("DTSTART:20270101T090000Z\nRDATE:20260101T090000Z"), id="before-its-start"),
    ],
)
def test_a_new_entry_that_never_fires_is_refused(context: Context, schedule_: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.schedule: never fires from now on: "):
        edited(context, None, entry(schedule_), None, last_run_at=None)


# -- the same schedule


@pytest.mark.parametrize(
    "score",
    [
        pytest.param(Score(fire_time=NEXT), id="planned"),
        pytest.param(Score(fire_time=utc("2026-06-10 11:59")), id="due"),
        pytest.param(FINISHED, id="finished"),
    ],
)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"args": [1], "options": {"queue": "low"}}, id="other-fields"),
        pytest.param({"schedule_": schedule(60)}, id="same-schedule-written-otherwise"),
    ],
)
def test_a_save_that_does_not_change_the_schedule_keeps_the_score(
    context: Context, changes: dict[str, Any], score: Score
) -> None:
    assert edited(context, entry(60), entry(**changes), score) is None


def test_a_crontab_that_is_saved_again_keeps_a_score_that_another_program_set(context: Context) -> None:
    hourly = entry(cron("0 * * * *"))

    assert edited(context, hourly, hourly, Score(fire_time=utc("2026-06-10 12:34:56"))) is None


# -- another schedule


@pytest.mark.parametrize(
    ("after", "last_run_at", "expected"),
    [
        pytest.param(entry(3600), LAST, utc("2026-06-10 12:59:30"), id="interval-counts-from-the-last-run"),
        pytest.param(entry(10), LAST, utc("2026-06-10 12:00:10"), id="shorter-interval-is-not-in-the-past"),
        pytest.param(entry(7), utc("2026-01-01"), utc("2026-06-10 12:00:03"), id="last-run-long-ago"),
        pytest.param(entry(3600), None, utc("2026-06-10 13:00"), id="interval-that-never-ran"),
        pytest.param(entry(cron("*/5 * * * *")), LAST, utc("2026-06-10 12:05"), id="crontab"),
        pytest.param(entry(cron("*/5 * * * *")), None, utc("2026-06-10 12:05"), id="crontab-that-never-ran"),
        pytest.param(entry(clocked(utc("2026-06-11"))), LAST, utc("2026-06-11"), id="clocked"),
    ],
)
def test_a_changed_schedule_counts_from_the_last_run_and_never_fires_in_the_past(
    context: Context, after: Definition, last_run_at: datetime | None, expected: datetime
) -> None:
    assert edited(context, entry(60), after, Score(fire_time=NEXT), last_run_at) == Score(fire_time=expected)


def test_a_changed_zone_moves_the_next_fire_time(context: Context) -> None:
    before = entry(cron("0 9 * * *"))

    moved = edited(context, before, before._replace(timezone="Europe/Vienna"), Score(fire_time=utc("2026-06-10 13:00")))

    assert moved == Score(fire_time=utc("2026-06-11 07:00"))


def test_a_finished_entry_with_another_schedule_fires_again(context: Context) -> None:
    once = entry(clocked(utc("2026-06-10 11:00")))

    assert edited(context, once, entry(60), FINISHED) == Score(fire_time=NEXT)


def test_a_changed_schedule_of_a_disabled_entry_stays_dormant(context: Context) -> None:
    before, after = entry(60, enabled=False), entry(3600, enabled=False)

    assert edited(context, before, after, dormant(NEXT)) == dormant(utc("2026-06-10 12:59:30"))


def test_a_change_to_a_schedule_that_never_fires_is_refused(context: Context) -> None:
    ended = entry(rrule("DAILY", dtstart=utc("2026-01-01"), until=utc("2026-02-01")))

    with pytest.raises(InvalidEntry, match=r"^\$.schedule: never fires from now on: "):
        edited(context, entry(60), ended, Score(fire_time=NEXT))


# -- off and on


def test_disable_keeps_the_fire_time(context: Context) -> None:
    assert edited(context, entry(60), entry(60, enabled=False), Score(fire_time=NEXT)) == dormant(NEXT)


def test_a_disabled_entry_that_is_saved_stays_as_it_is(context: Context) -> None:
    before = entry(60, enabled=False)

    assert edited(context, before, before._replace(args=[1]), dormant(NEXT)) is None


def test_disabling_a_finished_entry_leaves_it_finished(context: Context) -> None:
    once = entry(clocked(utc("2026-06-10 11:00")))

    assert edited(context, once, once._replace(enabled=False), FINISHED) is None


@pytest.mark.parametrize(
    ("schedule_", "old_fire_time", "expected"),
    [
        pytest.param(schedule(60), utc("2026-06-10 09:00:20"), utc("2026-06-10 12:00:20"), id="interval-keeps-phase"),
        pytest.param(schedule(3600), utc("2026-06-10 12:40"), utc("2026-06-10 12:40"), id="interval-still-to-come"),
        pytest.param(schedule(60), NOW, utc("2026-06-10 12:01"), id="interval-not-at-this-instant"),
        pytest.param(cron("0 * * * *"), utc("2026-06-01"), utc("2026-06-10 13:00"), id="crontab"),
        pytest.param(clocked(utc("2026-06-11")), utc("2026-06-11"), utc("2026-06-11"), id="clocked-to-come"),
    ],
)
def test_enable_goes_on_after_now_on_the_old_grid(
    context: Context, schedule_: Any, old_fire_time: datetime, expected: datetime
) -> None:
    off = entry(schedule_, enabled=False)

    assert edited(context, off, off._replace(enabled=True), dormant(old_fire_time)) == Score(fire_time=expected)


def test_a_one_off_that_passed_while_it_was_disabled_is_finished(context: Context) -> None:
    off = entry(clocked(utc("2026-06-10 11:00")), enabled=False)

    assert edited(context, off, off._replace(enabled=True), dormant(utc("2026-06-10 11:00"))) == FINISHED


def test_an_entry_disabled_by_redbeat_is_enabled_from_its_last_run(context: Context) -> None:
    off = entry(60, enabled=False)

    assert edited(context, off, off._replace(enabled=True), FINISHED) == Score(fire_time=NEXT)


def test_a_finished_one_off_stays_finished_when_it_is_disabled_and_enabled(context: Context) -> None:
    off = entry(clocked(utc("2026-06-10 11:00")), enabled=False)

    resumed = edited(context, off, off._replace(enabled=True), FINISHED, last_run_at=utc("2026-06-10 11:00"))

    assert resumed == FINISHED


def test_enabling_an_entry_that_other_writers_left_active_keeps_its_fire_time(context: Context) -> None:
    off = entry(60, enabled=False)

    assert edited(context, off, off._replace(enabled=True), Score(fire_time=NEXT)) == Score(fire_time=NEXT)


def test_saving_an_entry_that_was_quarantined_resumes_it(context: Context) -> None:
    assert edited(context, entry(60), entry(60), dormant(utc("2026-06-10 09:00:20"))) == Score(
        fire_time=utc("2026-06-10 12:00:20")
    )


# -- more to do for a finished entry


@pytest.mark.parametrize(
    ("before", "changes", "run_count", "expected"),
    [
        pytest.param(
            entry(60, end_at=utc("2026-06-10 11:00")),
            {"end_at": utc("2026-07-01")},
            5,
            Score(fire_time=NEXT),
            id="later-end",
        ),
        pytest.param(
            entry(60, end_at=utc("2026-06-10 11:00")), {"end_at": None}, 5, Score(fire_time=NEXT), id="no-end-any-more"
        ),
        pytest.param(
            entry(60, end_at=utc("2026-06-10 11:00")),
            {"end_at": utc("2026-06-10 12:00:29")},
            5,
            FINISHED,
            id="later-end-before-its-next-fire-time",
        ),
        pytest.param(entry(60, max_runs=5), {"max_runs": 6}, 5, Score(fire_time=NEXT), id="more-runs"),
        pytest.param(entry(60, max_runs=5), {"max_runs": None}, 5, Score(fire_time=NEXT), id="any-number-of-runs"),
        pytest.param(entry(60, max_runs=5), {"max_runs": 4}, 5, FINISHED, id="fewer-runs"),
        pytest.param(
            entry(60, max_runs=5, end_at=utc("2026-06-10 11:00")), {"max_runs": 9}, 5, FINISHED, id="has-ended-as-well"
        ),
        pytest.param(
            entry(cron("0 * * * *"), max_runs=5),
            {"max_runs": 9},
            5,
            Score(fire_time=utc("2026-06-10 13:00")),
            id="cron",
        ),
        pytest.param(
            entry(3600, start_at=utc("2026-06-01 10:07"), max_runs=5),
            {"max_runs": 9},
            5,
            Score(fire_time=utc("2026-06-10 12:59:30")),
            id="on-the-grid-of-its-last-run",
        ),
    ],
)
def test_a_finished_entry_that_gets_more_runs_or_time_goes_on_after_now(
    context: Context, before: Definition, changes: dict[str, Any], run_count: int, expected: Score
) -> None:
    assert edited(context, before, before.changed(**changes), FINISHED, run_count=run_count) == expected


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(
            entry(3600, start_at=utc("2026-06-10 11:10"), end_at=utc("2026-06-10 11:30"), misfire_grace_time=60),
            id="interval",
        ),
        pytest.param(
            entry(clocked(utc("2026-06-10 11:00")), end_at=utc("2026-06-10 11:30"), misfire_grace_time=60), id="one-off"
        ),
        pytest.param(
            entry(
                rrule("DAILY", dtstart=utc("2026-06-10 11:00")),
                end_at=utc("2026-06-10 11:30"),
                misfire_grace_time=60,
            ),
            id="rrule",
        ),
    ],
)
def test_a_finished_entry_whose_only_fire_time_was_missed_does_not_fire_in_the_past(
    context: Context, before: Definition
) -> None:
    after = before.changed(end_at=utc("2026-07-01"))

    score = edited(context, before, after, FINISHED, last_run_at=None)

    assert score is not None
    assert score.fire_time is None or score.fire_time > NOW


def test_a_finished_interval_that_never_ran_goes_on_on_the_grid_of_its_start(context: Context) -> None:
    before = entry(3600, start_at=utc("2026-06-10 11:10"), end_at=utc("2026-06-10 11:30"), misfire_grace_time=60)

    score = edited(context, before, before.changed(end_at=utc("2026-07-01")), FINISHED, last_run_at=None)

    assert score == Score(fire_time=utc("2026-06-10 12:10"))


def test_a_missed_one_off_stays_finished_when_it_is_disabled_and_enabled(context: Context) -> None:
    off = entry(clocked(utc("2026-06-10 11:00")), misfire_grace_time=60, enabled=False)

    assert edited(context, off, off._replace(enabled=True), FINISHED, last_run_at=None) == FINISHED


@pytest.mark.parametrize(
    "changes", [{"args": [1]}, {"jitter": 30}, {"misfire_grace_time": 5}, {"description": "x"}], ids=str
)
def test_a_finished_entry_stays_so_when_something_else_is_changed(context: Context, changes: dict[str, Any]) -> None:
    ended = entry(60, end_at=utc("2026-06-10 11:00"))

    assert edited(context, ended, ended.changed(**changes), FINISHED) is None


def test_an_entry_that_was_disabled_when_it_finished_goes_on_once_it_is_enabled_with_more_to_do(
    context: Context,
) -> None:
    off = entry(60, max_runs=5, enabled=False, on_finish="disable")

    assert edited(context, off, off.changed(max_runs=9), FINISHED, run_count=5) is None
    assert edited(context, off, off.changed(max_runs=9, enabled=True), FINISHED, run_count=5) == Score(fire_time=NEXT)
    assert edited(context, off, off.changed(enabled=True), FINISHED, run_count=5) == FINISHED


# -- less to do


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"end_at": utc("2026-06-10 12:00:29")}, FINISHED, id="end-before-the-next-fire-time"),
        pytest.param({"end_at": NEXT}, None, id="end-at-the-next-fire-time"),
        pytest.param({"end_at": utc("2026-06-01")}, FINISHED, id="end-in-the-past"),
        pytest.param({"max_runs": 5}, FINISHED, id="no-run-left"),
        pytest.param({"max_runs": 6}, None, id="one-run-left"),
    ],
)
def test_an_entry_that_gets_fewer_runs_or_less_time_may_finish(
    context: Context, changes: dict[str, Any], expected: Score | None
) -> None:
    before = entry(60)

    assert edited(context, before, before.changed(**changes), Score(fire_time=NEXT), run_count=5) == expected


def test_an_overdue_fire_time_before_a_new_end_is_kept(context: Context) -> None:
    before = entry(60)

    after = before.changed(end_at=utc("2026-06-10 11:58"))

    assert edited(context, before, after, Score(fire_time=utc("2026-06-10 11:57"))) is None


# -- jitter


@pytest.mark.parametrize("jitter", [0, 20, 600])
def test_another_jitter_lets_beat_look_again_at_the_same_fire_time(context: Context, jitter: float) -> None:
    before = entry(3600, jitter=10)

    assert edited(context, before, before.changed(jitter=jitter), Score(fire_time=NEXT)) == Score(fire_time=NEXT)


def test_an_end_that_shortens_a_jitter_lets_beat_look_again(context: Context) -> None:
    # The last fire time has all of its jitter, any other no more than there is until the next one.
    before = entry(60, jitter=3600, end_at=NEXT)
    after = before.changed(end_at=None)
    due = [ResolvedPolicy.of(definition, context.defaults).due_at(NEXT) - NEXT for definition in (before, after)]
    assert due[0] > timedelta(minutes=1) > due[1]

    assert edited(context, before, after, Score(fire_time=NEXT)) == Score(fire_time=NEXT)


# -- start_at


@pytest.mark.parametrize(
    ("start_at", "expected"),
    [
        pytest.param(utc("2026-07-01 10:07"), utc("2026-07-01 10:07"), id="to-come"),
        pytest.param(utc("2026-06-01 10:07"), utc("2026-06-10 12:07"), id="past-on-its-grid"),
        pytest.param(NOW, utc("2026-06-10 13:00"), id="now-is-not-after-now"),
        pytest.param(None, utc("2026-06-10 12:59:30"), id="taken-away-counts-from-the-last-run"),
    ],
)
def test_another_start_begins_the_grid_of_an_interval_there(
    context: Context, start_at: datetime | None, expected: datetime
) -> None:
    before = entry(3600, start_at=utc("2026-06-02"))

    moved = edited(context, before, before.changed(start_at=start_at), Score(fire_time=NEXT))

    assert moved == Score(fire_time=expected)


def test_a_future_start_delays_a_crontab(context: Context) -> None:
    before = entry(cron("0 * * * *"))

    after = before.changed(start_at=utc("2026-07-01 10:00"))

    assert edited(context, before, after, Score(fire_time=NEXT)) == Score(fire_time=utc("2026-07-01 10:00"))


def test_a_start_in_the_second_of_a_repeated_hour_is_another_than_in_the_first(context: Context) -> None:
    first = datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK)
    before = entry(3600, start_at=first)

    moved = edited(
        context, before, before.changed(start_at=first.replace(fold=1)), Score(fire_time=utc("2026-11-01 05:30"))
    )

    assert moved == Score(fire_time=utc("2026-11-01 06:30"))


def test_a_start_written_in_another_zone_is_the_same(context: Context) -> None:
    before = entry(3600, start_at=utc("2026-07-01 10:00"))
    after = before.changed(start_at=datetime(2026, 7, 1, 6, tzinfo=NEW_YORK))

    assert edited(context, before, after, Score(fire_time=utc("2026-07-01 10:00"))) is None


def test_bounds_that_hold_no_fire_time_are_refused_for_a_new_entry(context: Context) -> None:
    never = entry(cron("0 9 * * *"), start_at=utc("2026-07-01 14:00"), end_at=utc("2026-07-02 12:00"))

    with pytest.raises(InvalidEntry, match=r"^\$.end_at: .* is before the first fire time, 2026-07-02 09:00:00-04:00"):
        edited(context, None, never, None, last_run_at=None)


# -- executed, and new with a past


def executed(context: Context, definition: Definition, score: Score | None, at: datetime | None) -> Score | None:
    text = definition.to_text(context.codec)
    stored = Snapshot(name="report", now=NOW, definition=text, meta="", score=score)
    meta = Meta(last_run_at=at, total_run_count=5)
    return score_of_executed(definition, meta, stored, context.defaults)


@pytest.mark.parametrize(
    ("definition", "score", "expected"),
    [
        pytest.param(entry(3600), Score(fire_time=NEXT), Score(fire_time=utc("2026-06-10 12:59:30")), id="interval"),
        pytest.param(entry(cron("0 * * * *")), Score(fire_time=NEXT), None, id="crontab"),
        pytest.param(entry(clocked(utc("2026-07-01"))), Score(fire_time=utc("2026-07-01")), None, id="clocked"),
        pytest.param(entry(3600, enabled=False), dormant(NEXT), dormant(utc("2026-06-10 12:59:30")), id="disabled"),
        pytest.param(entry(3600), FINISHED, None, id="finished"),
        pytest.param(entry(3600), None, Score(fire_time=utc("2026-06-10 12:59:30")), id="in-no-schedule"),
        pytest.param(entry(3600, end_at=utc("2026-06-10 12:59")), Score(fire_time=NEXT), FINISHED, id="none-left"),
        pytest.param(
            entry(3600, start_at=utc("2026-07-01")),
            Score(fire_time=utc("2026-07-01")),
            Score(fire_time=utc("2026-07-01")),
            id="before-its-start",
        ),
    ],
)
def test_an_execution_moves_an_interval_and_nothing_else(
    context: Context, definition: Definition, score: Score | None, expected: Score | None
) -> None:
    assert executed(context, definition, score, LAST) == expected


@pytest.mark.parametrize(
    ("fields", "run_count", "expected"),
    [
        pytest.param({}, 0, Score(fire_time=NEXT), id="counts-from-it"),
        pytest.param({"end_at": utc("2026-06-10 12:00:29")}, 0, FINISHED, id="ends-before"),
        pytest.param({"max_runs": 5}, 5, FINISHED, id="has-had-its-runs"),
        pytest.param(
            {"start_at": utc("2026-07-01")}, 0, Score(fire_time=utc("2026-07-01")), id="starts-after-its-last-run"
        ),
        pytest.param({"enabled": False}, 0, dormant(NEXT), id="disabled"),
    ],
)
def test_a_new_entry_with_a_past_counts_from_it(
    context: Context, fields: dict[str, Any], run_count: int, expected: Score
) -> None:
    definition = entry(60, **fields)
    meta = Meta(last_run_at=LAST, total_run_count=run_count)

    assert score_of_new(definition, meta, NOW, context.defaults) == expected
