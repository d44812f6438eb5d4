"""Every interleaving of beats, accidents and edits, in small numbers: no run is lost, none is sent twice needlessly.

The model is in ``claim_model.py``. Here it is walked through breadth first, world by world, to the last one; and it
is shown that the walk would find it if any one of the protocol's guards were missing.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from claim_model import Guard, Model, Violation, World

#: What may happen, in small numbers: one or two entries, their fire times, and how many accidents and edits.
ONE = {"fires": ((0, 1),), "accidents": 1}
TWO_ACCIDENTS = {"fires": ((0, 1),), "accidents": 2}
TWO_ENTRIES = {"fires": ((0, 1), (0,)), "accidents": 1}
AN_EDIT = {"fires": ((0,),), "edits": 1}
AN_EDIT_OF_TWO = {"fires": ((0,), (0,)), "edits": 1}
TWO_EDITS = {"fires": ((0,),), "edits": 2}
AN_EDIT_AND_AN_ACCIDENT = {"fires": ((0,),), "edits": 1, "accidents": 1}

#: A script sends and commits; of two entries one takes each of its paths.
ONE_STEP = {**ONE, "in_one_step": True}
BOTH_PATHS = {"fires": ((0,), (0,)), "accidents": 1, "in_one_step": True, "unusual": frozenset({1})}
BOTH_PATHS_TWO_ACCIDENTS = {**BOTH_PATHS, "accidents": 2}
BOTH_PATHS_AN_EDIT = {**BOTH_PATHS, "accidents": 0, "edits": 1}
BOTH_PATHS_AN_EDIT_AND_AN_ACCIDENT = {**BOTH_PATHS, "edits": 1}

#: A walk ends because its worlds do, on a busy machine too. One of a model that has lost a bound ends here.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(0)]
MOST_WORLDS = 300_000

#: With a lock, without: how many worlds there are. All are visited; a change of the model changes their number.
SIZES = [
    pytest.param(TWO_ACCIDENTS, 67_824, 64_269, id="two accidents", marks=pytest.mark.deep),
    pytest.param(TWO_ENTRIES, 10_840, 13_705, id="two entries"),
    pytest.param(AN_EDIT_OF_TWO, 6_480, 9_116, id="an edit of one of two entries"),
    pytest.param(TWO_EDITS, 18_157, 21_405, id="two edits"),
    pytest.param(AN_EDIT_AND_AN_ACCIDENT, 51_497, 58_567, id="an edit and an accident", marks=pytest.mark.deep),
    pytest.param(ONE_STEP, 4_254, 4_243, id="one step"),
    pytest.param(BOTH_PATHS, 3_484, 4_480, id="both paths of one step"),
    pytest.param(BOTH_PATHS_AN_EDIT, 5_940, 8_484, id="both paths of one step, an edit"),
    pytest.param(
        BOTH_PATHS_TWO_ACCIDENTS, 48_195, 51_470, id="both paths of one step, two accidents", marks=pytest.mark.deep
    ),
    pytest.param(
        BOTH_PATHS_AN_EDIT_AND_AN_ACCIDENT,
        168_559,
        259_545,
        id="both paths of one step, an edit and an accident",
        marks=pytest.mark.deep,
    ),
]

LOST, EARLY = "a fire time is lost", "a run is sent before its time"
UNPLANNED = "a fire time is claimed that was not planned"
TWICE, TWO_IDS = "a fire time is sent twice without need", "a fire time is sent under two ids"
CLAIMS, SENDS = "a deposed leader claims", "a deposed leader sends"
COUNTED, BACK = "the count is not that of the runs that were committed", "a deleted entry is back"

#: What happens without a guard, and whether there is a lock then.
MISSED = [
    (Guard.CLAIM_TAKES_WHAT_IS_DUE, ONE, True, EARLY),
    (Guard.CLAIM_ASKS_FOR_THE_LOCK, ONE, True, CLAIMS),
    (Guard.CLAIM_MOVES_THE_SCORE, ONE, False, TWICE),
    (Guard.CLAIM_COMES_UP_AGAIN, ONE, True, LOST),
    (Guard.CLAIM_KEEPS_THE_FIRE_TIME, ONE, True, UNPLANNED),
    (Guard.CLAIM_COUNTS_NOTHING, ONE, True, COUNTED),
    (Guard.LOOK_AT_THE_LEASE, ONE, False, TWICE),
    (Guard.LOOK_AT_THE_LOCK, ONE, True, SENDS),
    (Guard.SEND_UNDER_ONE_ID, ONE, True, TWO_IDS),
    (Guard.SEND_AGAIN_UNLESS_CONFIRMED, ONE, True, LOST),
    (Guard.COMMIT_ASKS_FOR_THE_CLAIM, ONE, True, COUNTED),
    (Guard.COMMIT_ASKS_FOR_THE_CLAIM, AN_EDIT, True, BACK),
    (Guard.COMMIT_KEEPS_AN_EDITED_SCORE, AN_EDIT, True, LOST),
    (Guard.COMMIT_SEES_A_CHANGE, AN_EDIT, True, LOST),
    (Guard.RELEASE_ASKS_FOR_THE_CLAIM, ONE, True, TWICE),
    (Guard.UNDO_ASKS_FOR_THE_CLAIM, TWO_ACCIDENTS, False, TWICE),
    (Guard.UNLOCK_ASKS_FOR_THE_TOKEN, TWO_ACCIDENTS, True, SENDS),
    (Guard.MESSAGE_NEEDS_THE_CLAIM, ONE_STEP, True, TWICE),
    (Guard.MESSAGE_NEEDS_THE_CLAIM, BOTH_PATHS, False, TWICE),
    (Guard.REFUSED_IS_CLAIMED_AGAIN, ONE_STEP, True, LOST),
    (Guard.WAITING_IS_PUT_IN_FIRST, BOTH_PATHS, True, LOST),
    (Guard.EDIT_LEAVES_A_CLAIM_ALONE, AN_EDIT, True, COUNTED),
]

#: All that can happen to the first beat and the first entry.
EVENTS = {
    *("beat 0 leads", "beat 0 claims 1", "beat 0 claims, the reply is lost", "beat 0 claims 0", "beat 0 may not claim"),
    *("beat 0 may send", "beat 0 sends (0, 0)", "beat 0 sends (0, 0), the reply is lost", "beat 0 is refused (0, 0)"),
    *("beat 0 may not send", "beat 0 commits", "beat 0 commits, the reply is lost", "beat 0 releases"),
    *("beat 0 crashes", "beat 0 is paused", "beat 0 goes on", "beat 0 is to end", "beat 0 ends"),
    *("entry 0 is deleted", "entry 0 is created again", "entry 0 is disabled", "entry 0 is rescheduled"),
    *("entry 0 is given one more fire time", "entry 0 is set to the fire time it has"),
    *("a failover loses the last write", "it is 1"),
}


#: What the script that sends and commits may do to two entries, of which it takes both paths.
EVENTS_OF_ONE_STEP = {
    *("puts in (0, 0)", "puts in (0, 0), the reply is lost", "puts in (0, 0), (0, 0) is refused"),
    *("puts in (1, 0)", "puts in (1, 0), the reply is lost", "puts in (1, 0), (1, 0) is refused"),
    *("puts in (0, 0) (1, 0)", "puts in (0, 0) (1, 0), the reply is lost", "puts in (1, 0), it fails at (1, 0)"),
    *("puts in (0, 0) (1, 0), (0, 0) is refused", "puts in (0, 0) (1, 0), (1, 0) is refused"),
    "puts in (0, 0) (1, 0), it fails at (1, 0)",
}


@dataclass(frozen=True, kw_only=True)
class Walk:
    """How many worlds were visited, what happened, and the first problem with the steps that led to it."""

    worlds: int
    happened: set[str]
    problem: str = ""
    steps: tuple[str, ...] = ()


def walk(model: Model) -> Walk:
    """Visit all worlds that can be reached, those nearest to the start first; stop at the first violation."""
    start = model.start()
    came_from: dict[World, tuple[str, World] | None] = {start: None}
    fine: set[World] = set()
    happened: set[str] = set()
    worlds = [start]
    for world in worlds:  # grows while it is walked
        assert len(worlds) < MOST_WORLDS
        try:
            model.run_on(world, fine)
            for what, after in model.steps(world):
                happened.add(what)
                if after not in came_from:
                    came_from[after] = what, world
                    worlds.append(after)
        except Violation as violation:
            steps = _steps_to(world, came_from)
            return Walk(worlds=len(worlds), happened=happened, problem=str(violation), steps=steps)
    return Walk(worlds=len(worlds), happened=happened)


def _steps_to(world: World, came_from: dict[World, tuple[str, World] | None]) -> tuple[str, ...]:
    steps: list[str] = []
    while (step := came_from[world]) is not None:
        what, world = step
        steps.insert(0, what)
    return tuple(steps)


@pytest.fixture(autouse=True)
def no_look_for_garbage() -> Iterator[None]:
    """Worlds are none, and there are many: to look at them again and again takes a quarter of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("has_lock", [True, False], ids=["with a lock", "without a lock"])
@pytest.mark.parametrize(("size", "with_lock", "without_lock"), SIZES)
def test_whatever_happens_no_fire_time_is_lost_or_sent_twice_without_need(
    size: dict[str, Any], with_lock: int, without_lock: int, has_lock: bool
) -> None:
    found = walk(Model(has_lock=has_lock, **size))

    assert (found.problem, found.steps) == ("", ())
    assert found.worlds == (with_lock if has_lock else without_lock)


@pytest.mark.parametrize(
    ("guard", "size", "has_lock", "problem"), MISSED, ids=[f"{row[0].value}: {row[3]}" for row in MISSED]
)
def test_without_any_one_guard_it_goes_wrong_and_is_found(
    guard: Guard, size: dict[str, Any], has_lock: bool, problem: str
) -> None:
    found = walk(Model(has_lock=has_lock, without=guard, **size))

    assert found.problem == problem


def test_every_guard_is_missed() -> None:
    assert {guard for guard, *_ in MISSED} == set(Guard)


def test_everything_that_the_model_knows_does_happen() -> None:
    happened = walk(Model(has_lock=True, **ONE)).happened | walk(Model(has_lock=True, **TWO_EDITS)).happened

    assert {what for what in happened if what in EVENTS} == EVENTS
    assert {_numberless(what) for what in happened} == {_numberless(what) for what in EVENTS}


def test_the_script_of_one_step_takes_both_of_its_paths_to_every_end() -> None:
    happened = walk(Model(has_lock=True, **BOTH_PATHS)).happened

    assert {what.partition(" ")[2][2:] for what in happened if "puts in" in what} == EVENTS_OF_ONE_STEP


def _numberless(what: str) -> str:
    return re.sub(r"\d", "N", what)
