"""The fire times that operators have left out: ``disabled_until`` and ``skip`` in the plan."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from celery.schedules import schedule
from moments import cron, utc

from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.fields import read_policies
from redisbeater.model.meta import FINISHED
from redisbeater.model.plan import Plan, plan
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason, Skip
from redisbeater.results import Score

HOURLY = cron("0 * * * *")


def at(*clocks: str) -> tuple[datetime, ...]:
    return tuple(utc(f"2026-06-10 {clock}") for clock in clocks)


def planned(fire_time: str, now: str, schedule_: Any = HOURLY, **fields: Any) -> Plan:
    definition = Definition.checked(name="report", task="proj.report", schedule=schedule_, **fields)
    policy = ResolvedPolicy.of(definition, Defaults(zone=utc("2026-06-10 00:00").tzinfo))  # type: ignore[arg-type]
    return plan(policy, *at(fire_time, now))


def expected(runs: tuple[str, ...], *skipped: Skip, handled: str, following: str) -> Plan:
    [last, next_] = at(handled, following)
    return Plan(runs=at(*runs), skipped=skipped, handled=last, next=Score(fire_time=next_))


def skip(reason: Reason, count: int, first: str, last: str) -> Skip:
    [first_, last_] = at(first, last)
    return Skip(reason=reason, count=count, first=first_, last=last_)


@pytest.mark.parametrize("schedule_", [HOURLY, schedule(3600)], ids=["crontab", "interval"])
def test_nothing_runs_before_disabled_until_and_the_score_jumps_there(schedule_: Any) -> None:
    until = utc("2026-06-10 15:30")

    found = planned("10:00", "12:10", schedule_, disabled_until=until)

    early = skip(Reason.DISABLED_UNTIL, 3, "10:00", "12:00")
    assert found == expected((), early, handled="12:00", following="16:00")


def test_a_fire_time_at_disabled_until_runs_and_so_do_later_ones() -> None:
    found = planned("10:00", "13:10", coalesce="all", disabled_until=utc("2026-06-10 12:00"))

    early = skip(Reason.DISABLED_UNTIL, 2, "10:00", "11:00")
    assert found == expected(("12:00", "13:00"), early, handled="13:00", following="14:00")


def test_an_entry_whose_end_comes_before_disabled_until_has_finished() -> None:
    end, until = at("13:00", "14:00")

    assert planned("10:00", "10:00", end_at=end, disabled_until=until).next == FINISHED


def test_a_time_without_a_zone_is_one_of_the_zone_of_the_entry() -> None:
    found = planned("10:00", "10:00", timezone="Europe/Vienna", disabled_until=datetime(2026, 6, 10, 14))

    assert found.next == Score(fire_time=utc("2026-06-10 12:00"))


@pytest.mark.parametrize(
    ("left_out", "now", "fields", "result"),
    [
        (
            ["10:00"], "10:00", {},
            expected((), skip(Reason.SKIP, 1, "10:00", "10:00"), handled="10:00", following="11:00"),
        ),
        (
            ["10:00"], "11:00", {},
            expected(("11:00",), skip(Reason.SKIP, 1, "10:00", "10:00"), handled="11:00", following="12:00"),
        ),
        (
            ["11:00"], "12:00", {"coalesce": "all"},
            expected(("10:00", "12:00"), skip(Reason.SKIP, 1, "11:00", "11:00"), handled="12:00", following="13:00"),
        ),
        (
            ["11:00", "12:00"], "12:00", {},
            expected(("10:00",), skip(Reason.SKIP, 2, "11:00", "12:00"), handled="12:00", following="13:00"),
        ),
        (["10:30", "13:00"], "10:00", {}, expected(("10:00",), handled="10:00", following="11:00")),
        (
            ["11:00"], "13:00", {"coalesce": "earliest", "misfire_grace_time": 7800},
            expected(
                ("12:00",),
                skip(Reason.MISSED, 1, "10:00", "10:00"),
                skip(Reason.COALESCED, 1, "13:00", "13:00"),
                skip(Reason.SKIP, 1, "11:00", "11:00"),
                handled="13:00",
                following="14:00",
            ),
        ),
    ],
    ids=["only", "first", "middle", "last", "no-fire-time", "first-punctual"],
)  # fmt: skip
def test_a_fire_time_that_is_left_out_is_counted_and_costs_no_other_its_run(
    left_out: list[str], now: str, fields: dict[str, Any], result: Plan
) -> None:
    assert planned("10:00", now, skip=at(*left_out), **fields) == result


def test_what_is_left_out_between_runs_is_counted_also_if_only_the_first_runs_are_sent() -> None:
    found = planned("10:00", "15:00", coalesce="all", skip=at("11:00", "13:00", "14:00"))

    one, two = skip(Reason.SKIP, 1, "11:00", "11:00"), skip(Reason.SKIP, 2, "13:00", "14:00")
    assert found == expected(("10:00", "12:00", "15:00"), one, two, handled="15:00", following="16:00")
    assert found.first_runs(1).skipped == (one,)
    assert found.first_runs(2).skipped == (one, two)


def test_jitter_of_the_run_after_a_fire_time_that_is_left_out_is_waited_for() -> None:
    found = planned("10:00", "11:00", skip=at("10:00"), jitter=timedelta(minutes=30))

    assert (found.runs, found.handled, found.skipped) == ((), *at("10:00"), (skip(Reason.SKIP, 1, "10:00", "10:00"),))
    assert found.next.fire_time == at("11:00")[0]
    assert found.next.look_at is not None
    assert found.next.look_at > at("11:00")[0]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"skip": "10:00"}, "$.skip: expected a list of fire times, got '10:00'"),
        ({"skip": ["soon"]}, "$.skip[0]: expected a datetime with a zone, or 2026-11-23T08:00:00+00:00, got 'soon'"),
        ({"skip": [datetime(2026, 1, 1)]}, "$.skip[0]: expected a datetime with a zone"),
        ({"skip": ["9999-12-31T23:59:59+00:00"]}, "$.skip[0]: expected a year from 2 to 9998"),
        ({"skip": [datetime.min.replace(tzinfo=timezone.utc)]}, "$.skip[0]: expected a year from 2 to 9998"),
        ({"skip": ["9998-12-31T23:59:59-14:00"]}, "$.skip[0]: expected a year from 2 to 9998"),
        ({"skip": [utc("2026-06-10 10:00") + timedelta(hours=n) for n in range(101)]}, "$.skip: expected at most 100"),
        ({"disabled_until": "tomorrow"}, "$.disabled_until: expected a datetime"),
        ({"labels": ["a"]}, "$.labels: expected texts by name, such as {'team': 'billing'}, got ['a']"),
        ({"labels": {"team": 5}}, "$.labels.team: expected a text of 1 to 100 characters, got 5"),
        ({"labels": {"team": {"a": "b"}}}, "$.labels.team: expected a text of 1 to 100 characters"),
        ({"labels": {"": "x"}}, "$.labels: expected a name of 1 to 100 characters, got ''"),
        ({"labels": {"a": "x\ny"}}, "$.labels.a: holds U+000A"),
        ({"labels": {str(n): "x" for n in range(51)}}, "$.labels: expected at most 50 labels, got 51"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_what_cannot_be_stored_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidEntry) as refused:
        planned("10:00", "10:00", **given)

    assert str(refused.value).startswith(problem)


def test_a_stored_fire_time_that_never_comes_stops_no_entry() -> None:
    stored = [
        "0001-01-01T00:00:00+00:00",
        "2026-06-10T10:00:00+00:00",
        "9999-12-31T23:59:59Z",
        "9998-12-31T23:59:59-14:00",
    ]

    assert read_policies({"skip": stored})["skip"] == at("10:00")
