"""The alerts and the dashboard that are shipped: each metric and label that they name exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.scrape import series_names

from redisbeater.observe.metrics import CATALOGUE, MetricKind

DOCS = Path(__file__).parents[2] / "docs"
ALERTS = [
    rule
    for group in yaml.safe_load((DOCS / "monitoring" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((DOCS / "monitoring" / "grafana.json").read_text(encoding="utf-8"))

#: Name of a series -> its labels. A monitor adds ``instance`` and ``pod``.
SERIES = {
    series: {"schedule", "instance", "pod", *entry.labels, *(["le"] if entry.kind is MetricKind.HISTOGRAM else [])}
    for name, entry in CATALOGUE.items()
    for series in series_names(name)
}

_METRIC = re.compile(r"\b(redisbeater_\w+)(?:\{(.*?)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|without|on)\s*\((.*?)\)")


def queries() -> Iterator[tuple[str, str]]:
    """Yield the title and the query of each alert and of each line of the dashboard."""
    yield from ((alert["alert"], alert["expr"]) for alert in ALERTS)
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel.get("targets", ()))


def unknown_parts(query: str) -> list[str]:
    """Return the metrics that do not exist, and the labels that none of the query's metrics has."""
    found = _METRIC.findall(query)
    metrics = {name for name, _ in found}
    unknown = sorted(metrics - set(SERIES))
    known = set().union(*(SERIES.get(name, set()) for name in metrics))
    for name, matchers in found:
        unknown += [f"{name}: {label}" for label in _MATCHER.findall(matchers) if label not in SERIES.get(name, ())]
    groupings = (label.strip() for labels in _GROUPING.findall(query) for label in labels.split(","))
    return unknown + [label for label in groupings if label not in known]


@pytest.mark.parametrize(("title", "query"), [pytest.param(*each, id=each[0]) for each in queries()])
def test_every_metric_and_label_of_a_query_exists(title: str, query: str) -> None:
    assert title
    assert _METRIC.search(query)
    assert unknown_parts(query) == []


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("max by (schedule) (redisbeater_leeder)", ["redisbeater_leeder", "schedule"]),
        ('sum by (schedule) (redisbeater_entries{stat="broken"})', ["redisbeater_entries: stat"]),
        ("sum by (shedule) (redisbeater_leader)", ["shedule"]),
        ("redisbeater_skipped", ["redisbeater_skipped"]),
    ],
)
def test_a_metric_or_label_that_does_not_exist_is_found(query: str, unknown: list[str]) -> None:
    assert unknown_parts(query) == unknown


def test_there_is_an_alert_for_each_kind_of_trouble() -> None:
    assert [alert["alert"] for alert in ALERTS] == [
        "NobodyLeads", "NoBeat", "Incident", "SlowDispatch", "Delays", "Refused", "Missed", "TwoLeaders",
        "FlappingLead", "PausedLong", "ClockSkew",
    ]  # fmt: skip


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_is_by_schedule_and_leads_to_its_paragraph(alert: dict[str, Any]) -> None:
    label = f"alert-{alert['alert'].lower()}"

    assert re.search(r"by \(schedule\b", alert["expr"])
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["docs"] == f"monitoring.html#{label}"
    assert f".. _{label}:\n" in (DOCS / "monitoring.rst").read_text(encoding="utf-8")


def test_the_dashboard_has_its_four_rows() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]

    assert rows == ["Does it run?", "What was not run", "Runs", "Machine"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_metric_is_documented(name: str) -> None:
    ending = "_total" if CATALOGUE[name].kind is MetricKind.COUNTER else ""

    assert f"``redisbeater_{name}{ending}``" in (DOCS / "metrics.rst").read_text(encoding="utf-8")
