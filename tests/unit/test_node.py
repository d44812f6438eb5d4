"""What a worker reports of itself is read again; what another program wrote there is none."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from redisbeater.model.node import MOST_QUEUES, Node

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)

TIMES = '"since": "2026-11-20T12:00:00+00:00", "seen": "2026-11-20T12:00:00+00:00"'


def test_a_report_is_read_as_it_was_written():
    node = Node(
        name="w1@vm", since=NOON, seen_at=NOON + timedelta(milliseconds=15_250), pool="prefork", slots=8,
        queues=("celery", "gpu"),
    )  # fmt: skip
    assert Node.from_text("w1@vm", node.to_text()) == node


@pytest.mark.parametrize(
    "text",
    [
        "", "no", "[]", "{}", '"x"',
        '{"since": 5, "seen": 5, "pool": "", "slots": 0, "queues": []}',
        '{"since": "2026-11-20T12:00:00+00:00", "seen": "soon", "pool": "", "slots": 0, "queues": []}',
        f'{{{TIMES}, "pool": 1, "slots": 0, "queues": []}}', f'{{{TIMES}, "pool": "", "slots": 0, "queues": [1]}}',
        f'{{{TIMES}, "pool": "", "slots": "8", "queues": []}}', f'{{{TIMES}, "pool": "", "slots": 8}}',
    ],
)  # fmt: skip
def test_what_no_worker_wrote_is_none(text: str):
    assert Node.from_text("w1", text) is None


def test_of_very_many_queues_some_are_kept():
    node = Node(name="w1", since=NOON, seen_at=NOON, queues=tuple(map(str, range(1000))))
    found = Node.from_text("w1", node.to_text())
    assert found is not None
    assert len(found.queues) == MOST_QUEUES
