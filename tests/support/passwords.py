"""Hashes of passwords that cost nothing, for tests that log in often: a real check takes 50 ms of the processor."""

from __future__ import annotations

import base64
import hashlib


def cheap_hash(password: str) -> str:
    """Return what ``hash_password`` makes, with the least work that scrypt knows: the text says how much it was."""
    salt, n, r, p = b"salt", 2, 1, 1
    made = hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p)
    return "$".join(("scrypt", str(n), str(r), str(p), *(base64.b64encode(part).decode() for part in (salt, made))))
