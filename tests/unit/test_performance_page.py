"""``docs/performance.rst`` has the tables that ``benchmarks/scaling.py`` prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from suite.page_tables import cost_table, memory_table, plan_table, schedules_table

PAGE = (Path(__file__).parents[2] / "docs" / "performance.rst").read_text()


def figure(of: str) -> float:
    """Return the first figure of a row."""
    found = re.search(rf"\* - {re.escape(of)}\n     - ([\d,.]+)", PAGE)
    assert found, of
    return float(found[1].replace(",", ""))


def first(row: str) -> str:
    return row.partition("\n")[0]


def cost() -> list[dict[str, float]]:
    few = {"others": 0, "redis_us": figure("Redis of the schedule: claim and commit")}
    return [{**few, "beat_us": figure("a beat: claim, plan, publish, commit")}]


def test_the_plan_of_the_page_follows_from_its_costs() -> None:
    assert plan_table(cost()) in PAGE


@pytest.mark.parametrize(
    "table",
    [
        cost_table([*cost(), {"others": 300_000, "redis_us": 1, "beat_us": 1}]),
        memory_table([{"new": 1, "ran": 2}]),
        schedules_table([{"redis_us": 1, "beat_us": 1, "rate": 1}] * 2),
    ],
    ids=["cost", "memory", "schedules"],
)
def test_the_tables_of_the_page_have_the_heads_and_rows_that_are_printed(table: str) -> None:
    head, *rows = table.split("\n   * -")[1:]

    assert f"   * -{head}\n   * -{first(rows[0])}\n" in PAGE
    assert [row for row in rows if f"\n   * -{first(row)}\n" not in PAGE] == []
