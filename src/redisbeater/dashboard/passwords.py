"""Passwords of ``basic``: stored as scrypt hashes, checked off the event loop."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

__all__ = ("check_password", "hash_password", "read_passwords")

#: Cost of one check: 16 MiB and some 50 ms, as RFC 7914 and OWASP advise for logins.
_N, _R, _P = 2**14, 8, 1


def hash_password(password: str) -> str:
    """Return the text to store for a password: ``scrypt$n$r$p$salt$hash``."""
    salt = secrets.token_bytes(16)
    return "$".join(("scrypt", str(_N), str(_R), str(_P), _text(salt), _text(_hash(password, salt, _N, _R, _P))))


def check_password(password: str, stored: str) -> bool:
    """Return whether a password has the stored hash; takes as long as hashing it."""
    n, r, p, salt, expected = _parts(stored)
    return hmac.compare_digest(_hash(password, salt, n, r, p), expected)


def read_passwords(text: str) -> dict[str, str]:
    """Return name and hash from lines ``name:scrypt$...``; empty lines and those after ``#`` do not count.

    Raises:
        ValueError: a line is no such pair; the message has its number, and not the line.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, stored = line.strip().partition(":")
        try:
            _parts(stored)
        except ValueError as exc:
            raise ValueError(f"line {number}: {exc}") from exc
        if not name or name in found:
            raise ValueError(f"line {number}: {'the name is missing' if not name else f'{name!r} is there twice'}")
        found[name] = stored
    return found


def _parts(stored: str) -> tuple[int, int, int, bytes, bytes]:
    try:
        kind, n, r, p, salt, expected = stored.split("$")
        if kind != "scrypt":
            raise ValueError(kind)
        return int(n), int(r), int(p), base64.b64decode(salt, validate=True), base64.b64decode(expected, validate=True)
    except ValueError:
        raise ValueError(
            "expected name:scrypt$..., as celery redisbeater dashboard --hash-password NAME prints it"
        ) from None


def _hash(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=64 * 2**20)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
