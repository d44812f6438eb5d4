"""Real scrapes of a beat as the input of ``promtool test rules``, the tool of Prometheus that tests alerts.

A test of rules needs hours of samples, a test of a beat has seconds. So the scrapes are stretched: the beat is healthy
for twenty minutes, as two scrapes of it show, and then in its trouble, as two others show. Between two scrapes a gauge
stays, and a counter grows in each interval of a minute by as much as it did between them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from redisbeater.observe.metrics import CATALOGUE, MetricKind
from support.scrape import Samples, series_names

#: Seconds from one sample to the next, and how many of them a beat is healthy, and in trouble unless a test needs more.
INTERVAL, HEALTHY, TROUBLED = 60, 20, 20

#: A schedule that is healthy all the time: it must not hide the trouble of the one that is tested.
OTHER = "other:"

GROWING = {
    series for name, entry in CATALOGUE.items() if entry.kind is not MetricKind.GAUGE for series in series_names(name)
}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Two scrapes, and when the first was taken, in UNIX seconds."""

    first: Samples
    second: Samples
    at: float


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What a beat showed while it was healthy, what in its trouble, and the alerts that must fire then, no others.

    ``trouble`` is None where nothing answered any more.
    """

    name: str
    healthy: Shown
    trouble: Shown | None
    alerts: Collection[str]
    #: For how many intervals the trouble lasts.
    lasts: int = TROUBLED

    def as_test(self, schedule: str) -> dict[str, Any]:
        """Return it as a test of a file for promtool."""
        series = [
            *_series(self.healthy, self.trouble, schedule, self.lasts),
            *_series(self.healthy, self.healthy, OTHER, self.lasts),
        ]
        fired = [{"labels": f'{{alertname="{alert}", schedule="{schedule}"}}', "value": 1} for alert in self.alerts]
        expr = 'max by (alertname, schedule) (ALERTS{alertstate="firing"})'
        ends_at = f"{(HEALTHY + self.lasts) * INTERVAL}s"
        return {
            "name": self.name,
            "interval": f"{INTERVAL}s",
            "input_series": series,
            "promql_expr_test": [
                {"expr": expr, "eval_time": f"{(HEALTHY - 1) * INTERVAL}s", "exp_samples": []},
                {"expr": expr, "eval_time": ends_at, "exp_samples": fired},
            ],
        }


def run(rules: Path, scenarios: list[Scenario], schedule: str, folder: Path) -> str:
    """Test rules against scenarios. Return what promtool prints when a test fails, else an empty text."""
    nothing = {
        "name": "nothing was ever scraped",
        "interval": f"{INTERVAL}s",
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "10m",
                "exp_samples": [{"labels": '{alertname="NoBeat"}', "value": 1}],
            }
        ],
    }
    tests = [*(scenario.as_test(schedule) for scenario in scenarios), nothing]
    file = folder / "alerts-test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    found = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=120)
    return "" if found.returncode == 0 else found.stdout + found.stderr


def _series(healthy: Shown, trouble: Shown | None, schedule: str, lasts: int) -> Iterator[dict[str, str]]:
    keys = {**healthy.second, **({} if trouble is None else trouble.second)}
    for name, labels in sorted(keys, key=str):
        others = {**dict(labels), "schedule": schedule}
        text = ", ".join(f'{label}="{value}"' for label, value in sorted(others.items()))
        values = _values((name, labels), healthy, trouble, lasts)
        yield {"series": f"{name}{{{text}}}", "values": values}


def _values(key: Any, healthy: Shown, trouble: Shown | None, lasts: int) -> str:
    last, before = 0.0, f"_x{HEALTHY}"
    if (value := healthy.first.get(key)) is not None:
        step = _step(key, healthy)
        value = _moved(key, value, healthy, 0)
        last, before = value + step * (HEALTHY - 1), f"{value:.6f}+{step:.6f}x{HEALTHY - 1}"
    if trouble is None or key not in trouble.second:
        return f"{before} _x{lasts}"
    value, step = trouble.second[key], _step(key, trouble)
    if key[0] in GROWING and key in healthy.second:
        value = last + max(value - healthy.second[key], 0.0)
    return f"{before} {_moved(key, value, trouble, HEALTHY):.6f}+{step:.6f}x{lasts}"


def _step(key: Any, shown: Shown) -> float:
    """Return by how much a series grows in an interval; times of the clock go with it."""
    if key[0].endswith("last_pass_timestamp_seconds"):
        return float(INTERVAL)
    return max(shown.second[key] - shown.first.get(key, 0.0), 0.0) if key[0] in GROWING and key in shown.second else 0.0


def _moved(key: Any, value: float, shown: Shown, place: int) -> float:
    """Return a value; a time of the clock is moved to the clock of the test, which begins at 0."""
    return value - shown.at + place * INTERVAL if key[0].endswith("last_pass_timestamp_seconds") else value
