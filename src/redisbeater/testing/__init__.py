"""For tests of applications: what is scheduled, when it runs, and what runs at a time; no sleep and no running beat.

The schedule is in a real server, which :func:`embedded_server` runs, or the fixtures of
``redisbeater.testing.pytest_plugin``. There is none in memory: it would behave differently.
"""

from redisbeater.testing.assertions import assert_not_lost, assert_runs_at, assert_scheduled
from redisbeater.testing.schedule import DueRun, FakeClock, embedded_server, own_schedule, run_due

__all__ = (
    "DueRun",
    "FakeClock",
    "assert_not_lost",
    "assert_runs_at",
    "assert_scheduled",
    "embedded_server",
    "own_schedule",
    "run_due",
)
