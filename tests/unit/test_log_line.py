"""Lines of the log: written, folded and read."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from redisbeater.model.log_line import line_text
from redisbeater.results import LogLine
from redisbeater.times import FAR_FUTURE, FAR_PAST

FIRST = datetime(2026, 11, 22, 9, 0, tzinfo=timezone.utc)
LAST = datetime(2026, 11, 22, 9, 5, 0, 250000, tzinfo=timezone.utc)


def test_a_line_is_read_as_it_was_written() -> None:
    line = LogLine(what="skipped", count=6, first=FIRST, last=LAST, details={"reason": "missed"})
    text, count, first, last = line.to_row()

    assert LogLine.from_text(f"{last} {count} {first} {text}") == line


def test_empty_details_are_left_out_and_long_ones_are_cut() -> None:
    text = line_text("changed", by="anna@ops1", note="", fields=None, error="x" * 1000)

    assert text == f'changed {{"by":"anna@ops1","error":"{"x" * 497}..."}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 2 3",
        "a b c created {}",
        "1 1 1 created [1]",
        "1 1 1 created {",
        "nan 1 1 x {}",
        '1 1 1 x {"a":NaN}',
        '1 1 1 x {"a":[1e999]}',
        "1 1 1 created 7",
        '1 1 1 changed {"fields":5}',
        '1 1 1 changed {"fields":[[]]}',
    ],
)
def test_a_line_of_another_program_is_shown_as_it_is(text: str) -> None:
    assert LogLine.from_text(text) == LogLine(what="unreadable", details={"text": text})


def test_times_that_no_zone_can_show_are_moved_to_where_all_can() -> None:
    line = LogLine.from_text("-62135596800 1 1e300 created {}")

    assert (line.first, line.last) == (FAR_FUTURE, FAR_PAST)
