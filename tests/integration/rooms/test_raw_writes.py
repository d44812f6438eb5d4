"""A fuzz of what strangers reach: raw writes, requests to the web page, files of entries, messages and records of runs.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=5000`` in the environment there are as many others,
which ``--hypothesis-seed=N`` chooses; ``python benchmarks/hostile.py fuzz`` is the same without pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given
from support.examples import more_in_the_whole_run, same_examples
from support.fuzz import AREAS
from support.servers import Server

#: Neighbours have a test of their own.
NAMES = [name for name in AREAS if name != "neighbours"]


@pytest.fixture
def cleared(client: redis.Redis) -> Iterator[None]:
    yield
    client.flushdb()


@more_in_the_whole_run
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("cleared", "nothing_of_a_worker_stays")
@pytest.mark.parametrize("name", NAMES)
def test_what_strangers_write_and_send_harms_nobody(server: Server, name: str) -> None:
    area = AREAS[name]
    with closing(area.site(server.url())) as site:

        @same_examples(area.examples[1], default=8, database=None, suppress_health_check=list(HealthCheck))
        @given(attack=area.attacks)
        def check(attack: Any) -> None:
            site.endure(attack)

        check()

    assert site.figures["attacks"] > 0
