"""A run as Celery gets it."""

from __future__ import annotations

import uuid

import pytest
from moments import utc

from redisbeater.sending.run import task_id

NOON = utc("2026-06-10 12:00")
SCHEDULE_ID = "6f0c3f5c-2d6f-4f59-9d0b-6b8f1d1c1c1c"


def test_the_id_of_a_run_never_changes_from_one_release_to_the_next() -> None:
    assert task_id(SCHEDULE_ID, "report", NOON) == "250a32f0-5fc1-52e2-af0f-d99378f76671"
    assert task_id("hello", "report", NOON) == "d4a23ab6-3d6d-54d2-b3f5-db156e54f715"


@pytest.mark.parametrize(
    "schedule_id", ["hello", "", " ", "\x00", "ä", "\udcff", "x" * 100_000, "9" * 5000, SCHEDULE_ID[1:]]
)
def test_a_schedule_id_that_another_program_wrote_gives_ids_of_its_own(schedule_id: str) -> None:
    id_ = task_id(schedule_id, "report", NOON)

    assert str(uuid.UUID(id_)) == id_
    assert id_ == task_id(schedule_id, "report", NOON)
    assert id_ not in (task_id(SCHEDULE_ID, "report", NOON), task_id(f"{schedule_id}x", "report", NOON))
