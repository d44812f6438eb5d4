"""Credentials that a program of the user hands out, such as tokens of a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis
from redis.credentials import CredentialProvider

from redisbeater.exceptions import ImproperlyConfigured

__all__ = ("Credentials",)


class Credentials(CredentialProvider):
    """A provider whose failure is one of the connection: it is told, and tried again, like others."""

    def __init__(self, provider: CredentialProvider) -> None:
        self._provider = provider

    @classmethod
    def option(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The option ``credential_provider``, when there is one.

        Raises:
            ImproperlyConfigured: it is no provider.
        """
        provider = options.get("credential_provider")
        if provider is None:
            return {}
        if not isinstance(provider, CredentialProvider):
            raise ImproperlyConfigured(
                "redisbeater_redis_options['credential_provider']: expected an instance of "
                f"redis.credentials.CredentialProvider, not {type(provider).__name__}"
            )
        # A provider that streams is told apart by its class, and has errors of its own.
        return {"credential_provider": provider if hasattr(provider, "is_streaming") else cls(provider)}

    def get_credentials(self) -> Any:
        """Ask the provider."""
        try:
            return self._provider.get_credentials()
        except redis.RedisError:
            raise
        except Exception as exc:  # user code; its text may hold what it asked with
            problem = type(exc).__name__
        raise redis.ConnectionError(f"the credential_provider failed with {problem}")
