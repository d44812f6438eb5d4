"""A cache of declarations: a queue that a channel has declared is not looked up again for each message.

Kombu has such a cache, too, but copies queue and exchange for each message to look into it: nearly a fifth of what
publishing one costs (``benchmarks/compare.py --only burst``).
"""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ("DeclarationCache", "with_declaration_cache")


class DeclarationCache:
    """A mixin for kombu's ``Producer`` that declares each entity once for each channel."""

    channel: Any
    _declaring_channel: Any = None

    def maybe_declare(self, entity: Any, retry: bool = False, **retry_policy: Any) -> Any:
        """Declare a queue or an exchange unless this channel has done so; the arguments are kombu's.

        Returns:
            Whether it was declared now; None without an entity, as in kombu.
        """
        if not entity:
            return None
        channel = self.channel
        if channel is not self._declaring_channel:
            self._declaring_channel = channel
            self._declared: dict[tuple[type, str], Any] = {}
        key = type(entity), entity.name
        if self._declared.get(key) is entity:
            return False
        is_declared = super().maybe_declare(entity, retry, **retry_policy)  # type: ignore[misc]
        if entity.can_cache_declaration and self.channel is channel:
            self._declared[key] = entity
        return is_declared

    def forget_declarations(self) -> None:
        """Declare each entity again when it is next used."""
        self._declaring_channel = None


@cache
def with_declaration_cache(producer_class: type) -> type:
    """Return a subclass of kombu's ``Producer``, or of an application's own one, that caches declarations."""
    return type(producer_class.__name__, (DeclarationCache, producer_class), {})
