"""``benchmarks/chaos_of_runs.py --quick``: what befalls workers loses no run, and never makes two of one entry.

With ``REDISBEATER_LONG_CHAOS=1`` in its long form, of 200 runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.rabbitmq import RabbitMQ

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "chaos_of_runs.py"

IS_LONG = os.environ.get("REDISBEATER_LONG_CHAOS") == "1"

#: Seconds that it may take on a busy machine; on an idle one it takes half a minute, or five minutes.
TIMEOUT_SECONDS = 1_200 if IS_LONG else 400


@pytest.mark.timeout(TIMEOUT_SECONDS + 60)
def test_every_run_ends_well_whatever_befalls_the_workers(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    form = [] if IS_LONG else ["--quick"]
    command = [sys.executable, BENCHMARK, *form, "--seed", "21", "--broker", rabbitmq.url(), "--json", figures]

    finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads(figures.read_text())
    assert found["wrong"] == []
    assert found["success"] + found["failure"] == found["runs"] >= (200 if IS_LONG else 24)
    assert found["results"]["failures"] == found["failure"] > 0
    assert found["most_leases"] == 1
    assert found["faults"].keys() >= {"kill", "kill a child", "long pause", "long cut"}
    assert found["executions"] > found["runs"]
