"""A fuzz of raw writes: whatever other programs write, beat sends and counts every other entry on time.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=5000`` in the environment there are as many others,
which ``--hypothesis-seed=N`` chooses; ``python benchmarks/hostile.py fuzz`` is the same without pytest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from support.hostile import ATTACKS, Attack
from support.hostile_site import HostileSite
from support.servers import Server

#: How much is tried, unless the environment sets another number.
EXAMPLES = 80


@pytest.fixture
def site(server: Server, client: redis.Redis) -> Iterator[HostileSite]:
    yield HostileSite(server.url())
    client.flushdb()


@pytest.mark.timeout(600)
def test_raw_writes_harm_nobody_but_their_own_entry(site: HostileSite) -> None:
    own = os.environ.get("REDISBEATER_EXAMPLES")

    @settings(
        max_examples=int(own or EXAMPLES),
        derandomize=own is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(attack=ATTACKS)
    def check(attack: Attack) -> None:
        site.endure(attack)

    check()

    assert site.figures["attacks"] > 0
