"""The origin of an entry that a file declares: the file's owner, and what the file said of each field.

It stands in the same field of the hash as the origin of a static entry, ``<application> <digest>``. The digests of the
single fields tell which of them a file has changed since it was applied, so that the others keep what operators set.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from redisbeater.model import json_text

__all__ = ("application_of", "changed_since", "file_origin", "file_owner")

_PREFIX = "file:"

#: Characters of the digest of a field: 48 bits.
_DIGEST_CHARACTERS = 8


def application_of(origin: str) -> str:
    """Return the application that declares a static entry of this origin; empty for an origin that is none."""
    return origin.rpartition(" ")[0]


def file_owner(origin: str) -> str:
    """Return the owner of the file that declares an entry of this origin; empty: it is no origin of a file."""
    return origin.removeprefix(_PREFIX).rpartition(" ")[0] if origin.startswith(_PREFIX) else ""


def file_origin(owner: str, declared: Mapping[str, Any]) -> str:
    """Return the origin of an entry that the file of an owner declares with these stored fields."""
    return f"{_PREFIX}{owner} " + ",".join(f"{name}={digest}" for name, digest in _digests(declared).items())


def changed_since(origin: str, declared: Mapping[str, Any]) -> set[str]:
    """Return the fields that a file declares otherwise than when it was applied last."""
    before = dict(pair.partition("=")[::2] for pair in origin.rpartition(" ")[2].split(","))
    after = _digests(declared)
    return {name for name in {*before, *after} if name and before.get(name) != after.get(name)}


def _digests(declared: Mapping[str, Any]) -> dict[str, str]:
    return {name: _digest(json_text.canonical(value)) for name, value in sorted(declared.items()) if name != "name"}


@lru_cache(1000)  # thousands of entries share most values
def _digest(text: str) -> str:
    sha1 = hashlib.sha1(text.encode(), usedforsecurity=False)
    return base64.urlsafe_b64encode(sha1.digest())[:_DIGEST_CHARACTERS].decode()
