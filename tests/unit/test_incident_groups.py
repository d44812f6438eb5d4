"""What began together and is alike is one line: by one error, in one queue or at one worker."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from redisbeater.model.incident import Incident, grouped

BEGIN = datetime(2027, 1, 4, 3, tzinfo=timezone.utc)
REFUSED, ODD = "ConnectionError: db1 refused", "KeyError: 'feed'"

#: The begin of an id of a run.
ID = "8a210643-7c2e-4208-81fb-ccf5761324f"


def incident(entry: str, second: float, why: str = REFUSED, kind: str = "failed", **first: str) -> Incident:
    """Return an incident that began so many seconds after the first one."""
    opened = BEGIN + timedelta(seconds=second)
    of = {"id": f"{abs(hash(entry)):08x}"[:8], "kind": kind, "entry": entry, "why": why, "count": 1, "times": 1}
    return Incident(**of, opened=opened, last=opened, closed=None, first=first)  # type: ignore[arg-type]


def names(*found: Incident) -> list[str]:
    """Return the entries of each group, the newest group first."""
    return ["".join(each.entry for each in group.incidents) for group in grouped(reversed(found))]


@pytest.mark.parametrize("second", [0.5, 30])
def test_one_error_within_half_a_minute_is_one_line(second: float) -> None:
    assert names(incident("a", 0), incident("b", second)) == ["ab"]


def test_what_began_later_is_a_line_of_its_own() -> None:
    assert names(incident("a", 0), incident("b", 31)) == ["b", "a"]


def test_an_error_that_goes_from_entry_to_entry_stays_one_line() -> None:
    assert names(*(incident(name, 25 * place) for place, name in enumerate("abcd"))) == ["abcd"]


def test_an_id_in_an_error_does_not_make_it_another() -> None:
    assert names(incident("a", 0, f"KeyError: {ID}1"), incident("b", 1, f"KeyError: {ID}2")) == ["ab"]


def test_other_errors_at_one_worker_are_one_line_and_elsewhere_they_are_not() -> None:
    found = [
        incident("a", 0, worker="w1"),
        incident("b", 5, ODD, worker="w1"),
        incident("c", 6, "OSError", worker="w2"),
    ]

    assert names(*found) == ["c", "ab"]


def test_a_worker_is_one_line_for_half_a_minute_and_no_longer() -> None:
    found = [incident(name, 20 * place, f"{name}Error", worker="w1") for place, name in enumerate("abcd")]

    assert names(*found) == ["cd", "ab"]


def test_what_shares_the_error_with_one_group_and_the_worker_with_another_makes_one_line_of_both() -> None:
    found = [
        incident("a", 0, REFUSED, worker="w1"),
        incident("b", 1, REFUSED, worker="w1"),
        incident("c", 2, ODD, worker="w2"),
        incident("d", 3, REFUSED, worker="w2"),
        incident("e", 4, ODD, worker="w3"),
    ]

    assert names(*found) == ["abcde"]


def test_runs_that_wait_in_one_queue_are_one_line() -> None:
    waiting = [
        incident(name, 0, f" in queue {queue}", "waiting", queue=queue) for name, queue in (("a", "x"), ("b", "y"))
    ]

    assert names(*waiting, incident("c", 3, " in queue y", "waiting", queue="y")) == ["bc", "a"]


def test_other_kinds_and_the_schedule_itself_are_lines_of_their_own() -> None:
    found = [incident("a", 0, worker="w1"), incident("b", 1, kind="not_sent"), incident("", 2, kind="gap")]

    assert sorted(names(*found)) == ["", "a", "b"]


def test_a_line_says_how_many_entries_there_are_and_what_most_of_them_say() -> None:
    alike = [incident("a", 0, worker="w1"), incident("b", 1, worker="w1")]
    mixed = [incident("c", 0, ODD, worker="w1"), *alike]
    at_two = [*mixed, incident("d", 2, worker="w2")]

    assert [grouped(each)[0].sentence for each in (alike[:1], alike, mixed, at_two)] == [
        f"a: failed 1 time: {REFUSED}",
        f"2 entries: failed 1 time: {REFUSED}",
        f"3 entries at worker w1, 2 of them: failed 1 time: {REFUSED}",
        f"4 entries, 3 of them: failed 1 time: {REFUSED}",
    ]
