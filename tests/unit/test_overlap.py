"""What becomes of fire times that meet an active run: tables, and a model that takes one fire time after another."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from celery.schedules import schedule
from hypothesis import example, given
from hypothesis import strategies as st
from moments import utc

from redisbeater.model.definition import Definition
from redisbeater.model.meta import FINISHED
from redisbeater.model.plan import ANCHOR_LOOK, Activity, Buffered, Plan, admit
from redisbeater.model.plan import plan as plan_resolved
from redisbeater.model.policies import Overlap
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason, Skip
from redisbeater.results import Score

NOW = utc("2026-06-10 12:00")
HOUR = timedelta(hours=1)
TIMES = tuple(NOW + HOUR * number for number in range(8))
A, B, C = TIMES[:3]

IDLE, BUSY = Activity(), Activity(active=("run-1",))
FULL = Activity(active=("run-1", "run-2"), buffered="run-3")


def skip(reason: Reason, *fire_times: datetime, run: str = "") -> Skip:
    return Skip(reason=reason, count=len(fire_times), first=fire_times[0], last=fire_times[-1], run=run)


def overlapping(*fire_times: datetime, run: str = "run-1") -> Skip:
    return skip(Reason.OVERLAP, *fire_times, run=run)


@pytest.mark.parametrize(
    ("overlap", "activity", "due", "sent", "skipped", "buffered"),
    [
        pytest.param("skip", IDLE, (A,), (A,), (), None, id="skip-idle"),
        pytest.param("skip", BUSY, (A,), (), (overlapping(A),), None, id="skip-busy"),
        pytest.param("skip", IDLE, (A, B, C), (A,), (overlapping(B, C, run=""),), None, id="skip-all-idle"),
        pytest.param("skip", BUSY, (A, B, C), (), (overlapping(A, B, C),), None, id="skip-all-busy"),
        pytest.param("buffer_one", IDLE, (A,), (A,), (), None, id="buffer-idle"),
        pytest.param("buffer_one", BUSY, (A,), (), (), Buffered(fire_time=A), id="buffer-busy"),
        pytest.param("buffer_one", FULL, (A,), (), (overlapping(A),), None, id="buffer-full"),
        pytest.param(
            "buffer_one",
            IDLE,
            (A, B, C),
            (A,),
            (overlapping(C, run=""),),
            Buffered(fire_time=B),
            id="the-earliest-is-buffered",
        ),
        pytest.param("cancel_other", IDLE, (A,), (A,), (), None, id="cancel-idle"),
        pytest.param("cancel_other", BUSY, (A,), (), (), Buffered(fire_time=A, cancels=True), id="cancel-busy"),
        pytest.param(
            "cancel_other", FULL, (A,), (), (), Buffered(fire_time=A, cancels=True, replaces=True), id="cancel-full"
        ),
        pytest.param(
            "cancel_other",
            IDLE,
            (A, B, C),
            (A,),
            (overlapping(B, run=""),),
            Buffered(fire_time=C, cancels=True),
            id="the-newest-is-buffered",
        ),
        pytest.param("buffer_one", IDLE, (), (), (), None, id="nothing-is-due"),
    ],
)
def test_a_policy_decides_what_becomes_of_fire_times(
    overlap: str,
    activity: Activity,
    due: tuple[datetime, ...],
    sent: tuple[datetime, ...],
    skipped: tuple[Skip, ...],
    buffered: Buffered | None,
) -> None:
    assert admit(due, Overlap(overlap), activity) == (sent, skipped, buffered)


@pytest.mark.parametrize(
    ("overlap", "activity", "left", "sent", "skipped", "buffered"),
    [
        pytest.param("skip", IDLE, 1, (A,), (overlapping(B, C, run=""),), None, id="skip"),
        pytest.param("buffer_one", IDLE, 1, (A,), (skip(Reason.MAX_RUNS, B, C),), None, id="no-room-to-buffer"),
        pytest.param(
            "buffer_one", IDLE, 2, (A,), (overlapping(C, run=""),), Buffered(fire_time=B), id="room-to-buffer"
        ),
        pytest.param(
            "buffer_one", BUSY, 1, (), (overlapping(B, C),), Buffered(fire_time=A), id="the-last-one-is-buffered"
        ),
        pytest.param("cancel_other", IDLE, 1, (A,), (skip(Reason.MAX_RUNS, B, C),), None, id="nothing-is-cancelled"),
        pytest.param("cancel_other", BUSY, 0, (), (skip(Reason.MAX_RUNS, A, B, C),), None, id="no-runs-left"),
    ],
)
def test_what_is_sent_or_buffered_counts_for_max_runs(
    overlap: str,
    activity: Activity,
    left: int,
    sent: tuple[datetime, ...],
    skipped: tuple[Skip, ...],
    buffered: Buffered | None,
) -> None:
    assert admit((A, B, C), Overlap(overlap), activity, left) == (sent, skipped, buffered)


class Model:
    """One entry that meets one fire time after another, as the words of the policies say."""

    def __init__(self, overlap: Overlap, activity: Activity, left: int | None) -> None:
        self.overlap, self.left = overlap, left
        self.is_active, self.stored = bool(activity.active), bool(activity.buffered)
        self.buffered: datetime | None = None
        self.sent: list[datetime] = []
        self.overlapped: list[datetime] = []
        self.beyond: list[datetime] = []
        self.cancelled = False

    def meet(self, fire_time: datetime) -> None:
        if not self.is_active:
            if self._count(fire_time):
                self.sent.append(fire_time)
                self.is_active = True
        elif self.overlap is Overlap.SKIP:
            (self.beyond if self.left == 0 and not self.sent else self.overlapped).append(fire_time)
        elif self.overlap is Overlap.BUFFER_ONE:
            self._buffer_one(fire_time)
        else:
            self._cancel_other(fire_time)

    def _buffer_one(self, fire_time: datetime) -> None:
        if self.stored or self.buffered is not None:
            self.overlapped.append(fire_time)
        elif self._count(fire_time):
            self.buffered = fire_time

    def _cancel_other(self, fire_time: datetime) -> None:
        if self.buffered is not None:
            self.overlapped.append(self.buffered)
            self.buffered = fire_time
        elif self._count(fire_time):
            self.buffered, self.cancelled = fire_time, True

    def _count(self, fire_time: datetime) -> bool:
        if self.left == 0:
            self.beyond.append(fire_time)
            return False
        self.left = None if self.left is None else self.left - 1
        return True


ACTIVITIES = st.builds(
    Activity,
    active=st.lists(st.sampled_from(["run-1", "run-2", "run-3"]), unique=True).map(tuple),
    buffered=st.sampled_from(["", "run-9"]),
)


@given(
    due=st.integers(0, len(TIMES)),
    overlap=st.sampled_from([Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER]),
    activity=ACTIVITIES.filter(lambda activity: bool(activity.active) or not activity.buffered),
    left=st.none() | st.integers(1, 10),
)
@example(due=3, overlap=Overlap.CANCEL_OTHER, activity=Activity(active=("run-1",)), left=1)
def test_one_fire_time_after_another_gives_the_same(
    due: int, overlap: Overlap, activity: Activity, left: int | None
) -> None:
    model = Model(overlap, activity, left)
    for fire_time in TIMES[:due]:
        model.meet(fire_time)

    sent, skipped, buffered = admit(TIMES[:due], overlap, activity, left)

    assert sent == tuple(model.sent)
    assert (buffered and buffered.fire_time) == model.buffered
    assert bool(buffered and buffered.cancels) == model.cancelled
    assert _skipped(skipped, Reason.OVERLAP) == model.overlapped
    assert _skipped(skipped, Reason.MAX_RUNS) == model.beyond


@given(
    due=st.integers(0, len(TIMES)),
    overlap=st.sampled_from([Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER]),
    activity=ACTIVITIES,
    left=st.none() | st.integers(0, 10),
)
def test_never_two_at_once_and_no_fire_time_is_lost(
    due: int, overlap: Overlap, activity: Activity, left: int | None
) -> None:
    sent, skipped, buffered = admit(TIMES[:due], overlap, activity, left)

    assert len(sent) + len(activity.active) <= max(1, len(activity.active))
    taken = [*sent, *([buffered.fire_time] if buffered else []), *_skipped(skipped)]
    assert sorted(taken) == list(TIMES[:due])


def _skipped(skips: tuple[Skip, ...], reason: Reason | None = None) -> list[datetime]:
    """Return the fire times of skips; assert that each skip counts its range."""
    found: list[datetime] = []
    for each in skips:
        times = [fire_time for fire_time in TIMES if each.first <= fire_time <= each.last]
        assert len(times) == each.count
        found += times if reason in (None, each.reason) else []
    return found


# -- in the plan of an entry


def plan(activity: Activity, *, run_count: int = 0, tracks: bool = True, late: int = 0, **fields: object) -> Plan:
    definition = Definition.checked(name="report", task="proj.report", schedule=schedule(3600), **fields)
    policy = ResolvedPolicy.of(definition, Defaults(zone=timezone.utc, track_runs=tracks))
    return plan_resolved(policy, NOW - HOUR * late, NOW, run_count=run_count, activity=activity)


def test_a_skipped_fire_time_is_dealt_with_and_the_next_one_comes_as_planned() -> None:
    assert plan(BUSY, overlap="skip") == Plan(
        next=Score(fire_time=NOW + HOUR), skipped=(overlapping(NOW),), handled=NOW
    )


def test_a_buffered_fire_time_counts_as_a_run() -> None:
    planned = plan(BUSY, overlap="buffer_one", max_runs=5, run_count=4)

    assert planned == Plan(next=FINISHED, handled=NOW, buffered=Buffered(fire_time=NOW))
    assert planned.counted == (NOW,)


def test_one_that_takes_the_place_of_another_does_not_count_again() -> None:
    planned = plan(FULL, overlap="cancel_other", max_runs=5, run_count=4)

    assert planned.buffered == Buffered(fire_time=NOW, replaces=True, cancels=True)
    assert planned.counted == ()
    assert planned.next == Score(fire_time=NOW + HOUR)


def test_coalesce_comes_before_overlap() -> None:
    planned = plan(BUSY, overlap="buffer_one", late=3)

    assert planned.buffered == Buffered(fire_time=NOW)
    assert [each.reason for each in planned.skipped] == [Reason.COALESCED]


def test_without_records_of_runs_every_overlap_is_allow() -> None:
    assert plan(FULL, tracks=False, overlap="skip").runs == (NOW,)


def test_the_default_of_the_settings_holds_for_entries_without_their_own() -> None:
    definition = Definition.checked(name="report", task="proj.report", schedule=schedule(3600))
    policy = ResolvedPolicy.of(definition, Defaults(zone=timezone.utc, track_runs=True, overlap=Overlap.SKIP))

    assert plan_resolved(policy, NOW, NOW, activity=BUSY).runs == ()


@pytest.mark.parametrize("late", [0, 5])
def test_an_interval_that_counts_from_the_execution_waits_for_its_end_and_skips_nothing(late: int) -> None:
    assert plan(BUSY, anchor="execution", late=late) == Plan(next=Score(fire_time=NOW + ANCHOR_LOOK))


def test_an_interval_that_counts_from_the_execution_runs_when_nothing_is_active() -> None:
    assert plan(IDLE, anchor="execution").runs == (NOW,)
