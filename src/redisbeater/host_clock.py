"""This host's clock, by which beat knows what has expired in Redis: its lock, and the leases of its claims."""

import time

__all__ = ("host_seconds",)

#: On Linux ``time.monotonic()`` stands still while the host is suspended, and this clock goes on.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def host_seconds() -> float:
    """Return seconds since some past time; nobody can set this clock, and it runs while this process is stopped."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
