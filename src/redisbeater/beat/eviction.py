"""The eviction check: a server that drops keys when its memory is full may drop the schedule."""

from __future__ import annotations

import logging

from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.model.policies import EvictionCheck
from redisbeater.store import RedisSchedule

__all__ = ("check_eviction",)

logger = logging.getLogger(__name__)


def check_eviction(schedule: RedisSchedule, check: EvictionCheck) -> None:
    """Report a server that may evict entries; those that evict only keys with a time to live may not.

    Raises:
        ImproperlyConfigured: it may, and the check is to raise.
    """
    policy = None if check is EvictionCheck.IGNORE else schedule.eviction_policy()
    if policy is None or not policy.startswith("allkeys"):
        return
    problem = f"Redis evicts any key when its memory is full (maxmemory-policy {policy}), the schedule too"
    if check is EvictionCheck.RAISE:
        raise ImproperlyConfigured(f"{problem}; set maxmemory-policy noeviction")
    report = logger.error if check is EvictionCheck.ERROR else logger.warning
    report("%s; set maxmemory-policy noeviction, or redisbeater_key_expiry_check = 'ignore'", problem)
