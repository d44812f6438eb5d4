"""The client of Sentinels, which know the address of the master."""

from __future__ import annotations

from typing import Any

from redis.exceptions import ConnectionError, TimeoutError
from redis.sentinel import MasterNotFoundError, Sentinel

__all__ = ("SentinelClient",)


class SentinelClient(Sentinel):
    """redis-py's client for Sentinels, with an error that says why none of them answered and shows no password."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the master from the first Sentinel that knows it, and ask that one first next time.

        Arguments:
            service_name: the name under which the Sentinels know the master.

        Raises:
            MasterNotFoundError: no Sentinel knows it. The cause is the error of the last one that did not answer.
        """
        failure: Exception | None = None
        for sentinel in list(self.sentinels):
            try:
                masters: Any = sentinel.sentinel_masters()
            except (ConnectionError, TimeoutError) as exc:
                failure = exc
                continue
            state = masters.get(service_name)
            if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                self.sentinels.sort(key=lambda other: other is not sentinel)
                return state["ip"], state["port"]
        why = f" (one of them failed: {failure})" if failure is not None else ""
        raise MasterNotFoundError(f"no Sentinel knows a master {service_name!r} that is up{why}") from failure
