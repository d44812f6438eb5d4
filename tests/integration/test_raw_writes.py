"""A fuzz of raw writes: whatever other programs write, beat sends and counts every other entry on time.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=5000`` in the environment there are as many others,
which ``--hypothesis-seed=N`` chooses; ``python benchmarks/hostile.py fuzz`` is the same without pytest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, given
from support.examples import more_in_the_whole_run, same_examples
from support.hostile import ATTACKS, Attack
from support.hostile_site import HostileSite
from support.servers import Server

#: How much is tried, unless the environment sets another number.
EXAMPLES = 80


@pytest.fixture
def site(server: Server, client: redis.Redis) -> Iterator[HostileSite]:
    yield HostileSite(server.url())
    client.flushdb()


@more_in_the_whole_run
@pytest.mark.timeout(600)
def test_raw_writes_harm_nobody_but_their_own_entry(site: HostileSite) -> None:
    @same_examples(EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    @given(attack=ATTACKS)
    def check(attack: Attack) -> None:
        site.endure(attack)

    check()

    assert site.figures["attacks"] > 0
