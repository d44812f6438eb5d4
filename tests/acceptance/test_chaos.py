"""``python benchmarks/chaos.py --quick``: kills, pauses and cut connections lose no run and send none early."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "chaos.py"

#: Seconds that the short run may take on a busy machine; on an idle one it takes about a minute.
TIMEOUT_SECONDS = 540


@pytest.mark.timeout(TIMEOUT_SECONDS + 60)
@pytest.mark.parametrize(
    "options",
    [["--lock", "--track-runs", "--seed", "11"], ["--no-lock", "--seed", "12"]],
    ids=["with a lock, and records of runs", "without"],
)
def test_the_ledger_of_a_short_run_balances(options: list[str], tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, BENCHMARK, "--quick", *options, "--json", figures]

    finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads(figures.read_text())
    assert found["is_clean"]
    assert found["faults"]["kill"] > 0
    assert found["runs"] > 0
    assert found["owed"] == found["runs"] + sum(found["skipped"].values())
    if "--track-runs" in options:
        assert found["records"]["SUCCESS"] > 0
