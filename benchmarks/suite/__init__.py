"""The parts of ``benchmarks/compare.py``. The helpers of the tests run the servers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
