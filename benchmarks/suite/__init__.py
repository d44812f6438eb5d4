"""The parts of ``benchmarks/compare.py``; real servers are run by the helpers of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
