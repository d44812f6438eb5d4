from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on one kind of server: processes take long, and the scripts are tested on every kind elsewhere."""
    metafunc.definition.add_marker("one_server")
