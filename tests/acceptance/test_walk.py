"""``python benchmarks/walk.py``: each act is traced, and each figure counts what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.servers import Server

WALK = Path(__file__).parents[2] / "benchmarks" / "walk.py"

pytest.importorskip("click")
pytest.importorskip("starlette")


def printed(server: Server, *arguments: str) -> str:
    environment = {**os.environ, "REDISBEATER_TEST_SERVER": server.program.path}
    command = [sys.executable, str(WALK), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_each_act_passes_functions_files_and_rooms(server: Server) -> None:
    found = json.loads(printed(server, "--json"))

    assert list(found) == ["save", "change", "tick", "idle", "update", "page"]
    assert found["save"]["trips"] == 1
    assert found["tick"]["trips"] == found["idle"]["trips"] + 1
    for figures in found.values():
        assert figures["calls"] >= figures["functions"] > figures["files"] > figures["rooms"] > 1
        assert figures["calls"] > figures["to files"] >= figures["to rooms"] > 0


def test_the_list_has_the_calls_of_an_act_in_order_and_how_deep_they_lie(server: Server) -> None:
    lines = printed(server, "--list", "idle").splitlines()

    assert [line.split()[0] for line in lines[:2]] == ["RedisScheduler.tick", "RedisScheduler._pass"]
    assert not lines[0].startswith(" ")
    assert lines[1].startswith("  R")
    assert any("Script.run  store/connection.py:" in line for line in lines)
