"""The lines about the scheduler in beat's banner."""

from __future__ import annotations

from redisbeater.context import Context

__all__ = ("banner",)


def banner(context: Context) -> str:
    """Return where the schedule is, and which lock decides who leads."""
    config, keys = context.config, context.redis.keys
    held = "none, every beat is active" if config.lock_key is None else f"`{keys.lock}` ({config.lock_timeout:g}s)"
    lines = {"redis": config.url.address, "schedule": f"`{keys.schedule}`", "lock": held}
    return "\n".join(f"    . {name} -> {value}" for name, value in lines.items())
