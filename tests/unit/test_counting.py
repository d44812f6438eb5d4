from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from redisbeater.model.skip import Reason, Skip
from redisbeater.observe.metrics import CATALOGUE, RUN_BOUNDS, MetricKind, RunTotals
from redisbeater.sending.counts import LATENESS_BOUNDS, MOST_TASKS, Counts, Histogram, Meter

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


def job(task: str, runs: int, **skipped: int) -> Any:
    skips = [Skip(reason=Reason(reason), count=count, first=NOW, last=NOW) for reason, count in skipped.items()]
    plan = SimpleNamespace(runs=(NOW,) * runs, skipped=tuple(skips))
    return SimpleNamespace(definition=SimpleNamespace(task=task), plan=plan)


# Histograms


def test_a_value_counts_up_to_the_bound_that_it_equals() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add([0.5, 1.0, 1.5, 9.0])

    assert histogram.cumulative() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert histogram.sum == 12.0


@pytest.mark.parametrize(
    ("values", "share", "quantile"),
    [
        ([], 0.5, 0.0),
        ([0.5] * 4, 0.5, 0.5),
        ([0.5] * 4, 1.0, 1.0),
        ([0.5, 1.5], 0.75, 1.5),
        ([9.0], 0.5, 2.0),
        ([0.5, 9.0], 0.99, 2.0),
    ],
)
def test_a_quantile_lies_between_the_bounds_of_its_bucket(values: list[float], share: float, quantile: float) -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add(values)

    assert histogram.quantile(share) == quantile


# What is counted


def test_lateness_counts_from_when_a_run_was_due() -> None:
    for counts in (Counts(), Meter()):
        counts.count_accepted(NOW, [NOW - timedelta(milliseconds=3), NOW - timedelta(hours=2)])

        assert counts.lateness.sum == pytest.approx(7200.003)
        assert counts.lateness.counts[LATENESS_BOUNDS.index(0.005)] == 1
        assert counts.lateness.counts[-1] == 1


def test_a_beat_that_begins_to_lead_counts_from_zero_but_a_monitor_goes_on() -> None:
    meter = Meter()
    meter.count_accepted(NOW, [NOW])
    meter.count_recorded([job("t", 2, missed=3)])

    meter.restart()

    assert (meter.sent, meter.skipped, sum(meter.lateness.counts)) == (0, 0, 0)
    assert (meter.dispatched, meter.skips["missed"]) == ({("t", "schedule"): 2}, 3)
    assert sum(meter.all_lateness.counts) == 1


def test_a_monitor_counts_by_task_and_by_reason() -> None:
    meter = Meter()
    meter.count_recorded([job("a", 1), job("b", 3, coalesced=2), job("a", 0, missed=1)])
    meter.count_resent("a")

    assert meter.dispatched == {("a", "schedule"): 1, ("b", "schedule"): 3, ("a", "resend"): 1}
    assert {reason: count for reason, count in meter.skips.items() if count} == {"coalesced": 2, "missed": 1}
    assert (meter.sent, meter.skipped) == (5, 3)
    assert meter.skipped_by == {"coalesced": 2, "missed": 1}


def test_tasks_without_end_are_counted_together() -> None:
    meter = Meter()
    meter.count_recorded([job(f"t{number}", 1) for number in range(MOST_TASKS + 5)])
    meter.count_recorded([job("t0", 1)])

    assert len(meter.dispatched) == MOST_TASKS + 1
    assert (meter.dispatched["other", "schedule"], meter.dispatched["t0", "schedule"]) == (5, 2)


def test_a_refusal_without_an_answer_is_a_timeout() -> None:
    meter = Meter()
    late = OSError("no answer")
    late.__cause__ = TimeoutError("timed out")
    for error in (ValueError("too large"), late):
        meter.count_refused(error)
    meter.count_unconfirmed(7)

    assert meter.refusals == {"broker_away": 0, "timeout": 1, "unconfirmed": 7, "error": 1}
    assert meter.refused == 2


def test_every_skip_reason_is_counted_from_zero_on() -> None:
    assert set(Meter().skips) == {reason.value for reason in Reason}


# What became of runs


def test_totals_are_read_as_the_scripts_write_them() -> None:
    found = RunTotals.read(
        {"SUCCESS proj.a b": "3", "LOST t": "1", "<=0.5 t": "2", "<=+Inf t": "1", "ms t": "90500", "STARTED": "4"}
    )

    assert found.states["SUCCESS", "proj.a b"] == 3
    assert (found.states["LOST", "t"], found.states["FAILURE", "t"]) == (1, 0)
    assert found.durations["t",].counts == [0, 2, *[0] * (len(RUN_BOUNDS) - 2), 1]
    assert found.durations["t",].sum == 90.5


@pytest.mark.parametrize("field", ["", " ", "t", "<= t", "<=0.3 t", "NOTHING t", "ms"])
def test_totals_of_other_programs_are_left_out(field: str) -> None:
    assert RunTotals.read({field: "1", "SUCCESS t": "many", "FAILURE t": "9" * 40}) == RunTotals(
        states={}, durations={}
    )


# The catalogue


def test_only_counters_end_with_total_and_durations_are_in_seconds() -> None:
    assert not [name for name in CATALOGUE if name.endswith("_total")]
    assert [name for name, entry in CATALOGUE.items() if entry.kind is MetricKind.HISTOGRAM] == [
        "lateness_seconds",
        "pass_seconds",
        "run_seconds",
    ]
