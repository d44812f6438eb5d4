"""The parts of ``benchmarks/chaos.py``. The helpers of the tests run the servers and cut them off."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
