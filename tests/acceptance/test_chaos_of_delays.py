"""``python benchmarks/chaos_of_delays.py --quick``: kills, pauses and cuts lose no delay, and send none early."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "chaos_of_delays.py"

#: Seconds that the short run may take on a busy machine; on an idle one it takes about a minute.
TIMEOUT_SECONDS = 540


@pytest.mark.timeout(TIMEOUT_SECONDS + 60)
@pytest.mark.parametrize(
    "options", [["--one-server", "--seed", "21"], ["--no-lock", "--seed", "22"]], ids=["one server", "two, no lock"]
)
def test_every_delay_leaves(options: list[str], tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, BENCHMARK, "--quick", "--only", "beats", *options, "--json", figures]

    finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads(figures.read_text())["beats"]
    assert (found["missing"], found["waiting"], found["early"]) == (0, 0, 0)
    assert found["messages"] == found["delays"] + found["repeated"]
    assert sum(found["faults"].values()) > 0
    if "--one-server" in options:
        assert found["repeated"] == 0
