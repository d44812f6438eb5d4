"""Credentials from the user's own code, such as the tokens of a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis
from redis.credentials import CredentialProvider

from redisbeater.exceptions import ImproperlyConfigured

__all__ = ("Credentials",)


class Credentials(CredentialProvider):
    """A provider whose failures are connection errors, so that they are logged and retried like all others."""

    def __init__(self, provider: CredentialProvider) -> None:
        self._provider = provider

    @classmethod
    def option(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the option ``credential_provider`` with the provider wrapped; empty if it is not set.

        Arguments:
            options: the options for redis-py.

        Raises:
            ImproperlyConfigured: the option is no provider.
        """
        provider = options.get("credential_provider")
        if provider is None:
            return {}
        if not isinstance(provider, CredentialProvider):
            raise ImproperlyConfigured(
                "redisbeater_redis_options['credential_provider']: expected an instance of "
                f"redis.credentials.CredentialProvider, not {type(provider).__name__}"
            )
        # redis-py recognises a streaming provider by its class, so it must not be wrapped.
        return {"credential_provider": provider if hasattr(provider, "is_streaming") else cls(provider)}

    def get_credentials(self) -> Any:
        """Return the provider's credentials."""
        try:
            return self._provider.get_credentials()
        except redis.RedisError:
            raise
        except Exception as exc:  # user code; the text of its error may hold a password
            problem = type(exc).__name__
        raise redis.ConnectionError(f"the credential_provider failed with {problem}")
