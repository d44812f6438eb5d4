"""The parts of ``benchmarks/chaos.py``; real servers are run, and cut off, by the helpers of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
