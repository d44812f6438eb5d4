"""The end of beat: what it still asks of Redis, for a limited time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from redisbeater.exceptions import StoreUnavailable
from redisbeater.log_lines import get_logger

__all__ = ("close_within",)

logger = get_logger(__name__)


def close_within(seconds: float, *steps: Callable[[], None]) -> None:
    """Carry out steps that ask Redis; never raise. What fails is logged.

    Arguments:
        seconds: how long to wait for all of them together. A step that Redis does not answer is left behind, in a
            thread that ends with the process.
        steps: what to do, in order; once Redis cannot be reached, the others are left out.
    """
    thread = threading.Thread(target=_carry_out, args=(steps,), name="closing", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _report(f"no answer within {seconds:g} s")


def _carry_out(steps: tuple[Callable[[], None], ...]) -> None:
    for step in steps:
        try:
            step()
        except StoreUnavailable as exc:
            _report(str(exc))
            return
        except Exception:
            logger.warning("closing failed, the lock and leases expire by themselves", exc_info=True)


def _report(reason: str) -> None:
    logger.warning("closing without Redis, the lock and leases expire by themselves: %s", reason)
