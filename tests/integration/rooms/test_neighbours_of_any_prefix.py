"""Schedules of random prefixes that begin alike, under all verbs and beats: each touches its own keys and no other's.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=5000`` in the environment there are as many others;
``python benchmarks/hostile.py fuzz --only neighbours`` is the same without pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from celery import Celery
from hypothesis import HealthCheck, given
from support.examples import more_in_the_whole_run, same_examples
from support.neighbours import NEIGHBOURHOODS, Neighbourhood, Neighbours


@pytest.fixture
def cleared(client: redis.Redis) -> Iterator[None]:
    yield
    client.flushdb()


@more_in_the_whole_run
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("cleared")
def test_no_schedule_reads_writes_or_deletes_a_key_of_a_neighbour(
    make_app: Callable[..., Celery], client: redis.Redis, prefix: str
) -> None:
    neighbours = Neighbours(make_app(redisbeater_track_runs=True), client, prefix)

    @same_examples(15, default=6, database=None, suppress_health_check=list(HealthCheck))
    @given(attack=NEIGHBOURHOODS)
    def check(attack: Neighbourhood) -> None:
        neighbours.endure(attack)

    check()
