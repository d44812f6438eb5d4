"""Check the server's eviction policy: a server that evicts keys when its memory is full may evict the schedule."""

from __future__ import annotations

from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.log_lines import get_logger
from redisbeater.model.policies import EvictionCheck
from redisbeater.store import RedisSchedule

__all__ = ("check_eviction",)

logger = get_logger(__name__)


def check_eviction(schedule: RedisSchedule, check: EvictionCheck) -> None:
    """Log or raise when the server may evict entries; a policy that evicts only keys with a time to live is fine.

    Raises:
        ImproperlyConfigured: the server may evict entries, and ``check`` is to raise.
    """
    policy = None if check is EvictionCheck.IGNORE else schedule.eviction_policy()
    if policy is None or not policy.startswith("allkeys"):
        return
    problem = f"Redis evicts any key when its memory is full (maxmemory-policy {policy}), the schedule too"
    if check is EvictionCheck.RAISE:
        raise ImproperlyConfigured(f"{problem}; set maxmemory-policy noeviction")
    report = logger.error if check is EvictionCheck.ERROR else logger.warning
    report("%s; set maxmemory-policy noeviction, or redisbeater_key_expiry_check = 'ignore'", problem)
