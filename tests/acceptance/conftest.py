from __future__ import annotations

import pytest
from support import waiting


@pytest.fixture(autouse=True)
def look_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for processes, which take long, without looking all the time: each look takes time of a processor."""
    monkeypatch.setattr(waiting, "PAUSE", 0.04)
