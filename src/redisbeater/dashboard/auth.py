"""Ways to recognize who sent a request: a token, passwords, a header that a proxy sets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from redisbeater.dashboard.address import is_within, read_networks
from redisbeater.dashboard.passwords import check_password, hash_password
from redisbeater.dashboard.users import ALL, Auth, Right, User
from redisbeater.log_lines import get_logger

__all__ = ("Login", "basic", "credentials", "header", "token")

logger = get_logger(__name__)

#: The least characters of a token: 16 of any kind cannot be tried out.
LEAST_TOKEN = 16

#: The rights of people: the same for all; by name, as a pattern that must match it from end to end; or a function.
Rights = frozenset[Right] | Mapping[str, frozenset[Right]] | Callable[[str], frozenset[Right]]


class Login:
    """A way to log in on the page ``/login``; an ``auth`` of ``create_app``. Programs send a header ``Authorization``.

    Arguments:
        secrets: what the signature of the sessions is derived from. Another secret ends all sessions.
    """

    #: What the page asks for: a token, or a name and a password.
    asks_name = False
    #: Whether tries without end find nothing, and cost nothing.
    is_unguessable = False

    def __init__(self, *secrets: str) -> None:
        #: Signs the cookies of sessions, in every process with the same secrets.
        self.key = hashlib.sha256("\0".join(("redisbeater dashboard", *secrets)).encode()).digest()

    async def __call__(self, request: Request) -> User | None:
        """Return who sent a request, by its header ``Authorization``."""
        given = credentials(request.headers.get("Authorization", ""))
        return None if given is None else await self.check(*given)

    def user(self, name: str) -> User | None:
        """Return the user of a name that has logged in before; None if it is not known any more."""
        raise NotImplementedError

    async def check(self, name: str, secret: str) -> User | None:
        """Return who has these credentials; None: nobody."""
        raise NotImplementedError


class _Token(Login):
    is_unguessable = True

    def __init__(self, secret: str, rights: frozenset[Right]) -> None:
        if len(secret) < LEAST_TOKEN:
            raise ValueError(f"the token is shorter than {LEAST_TOKEN} characters; make one with: openssl rand -hex 32")
        super().__init__(secret)
        self._secret, self._user = secret, User("token", rights)

    def user(self, name: str) -> User | None:
        return self._user

    async def check(self, name: str, secret: str) -> User | None:
        return self._user if hmac.compare_digest(secret.encode(), self._secret.encode()) else None


class _Basic(Login):
    asks_name = True

    def __init__(self, passwords: Mapping[str, str], rights: Rights) -> None:
        if not passwords:
            raise ValueError("no name has a password; expected {'anna': 'scrypt$...'}")
        super().__init__(*(f"{name}:{stored}" for name, stored in sorted(passwords.items())))
        self._passwords, self._rights = dict(passwords), rights
        #: Checked for names that nobody has, so that they take as long as others.
        self._nobody = hash_password("")

    def user(self, name: str) -> User | None:
        return User(name, rights_of(name, self._rights)) if name in self._passwords else None

    async def check(self, name: str, secret: str) -> User | None:
        is_right = await run_in_threadpool(check_password, secret, self._passwords.get(name, self._nobody))
        return self.user(name) if is_right else None


def token(secret: str, rights: frozenset[Right] = ALL) -> Login:
    """Recognize everybody who has a token, as the user ``token``.

    Arguments:
        secret: the token, at least 16 characters; the same in every process that serves the page.
        rights: what they may do.
    """
    return _Token(secret, rights)


def basic(passwords: Mapping[str, str], rights: Rights = ALL) -> Login:
    """Recognize people by name and password.

    Arguments:
        passwords: the scrypt hash of each name; ``celery redisbeater dashboard --hash-password NAME`` prints one.
        rights: what they may do: the same for all, by a pattern of the name, or a function of it.
    """
    return _Basic(passwords, rights)


def header(name: str, *, trusted: Iterable[str], rights: Rights) -> Auth:
    """Recognize people by a header that a proxy sets, such as ``X-Forwarded-User``.

    The header counts only from the addresses of that proxy: who reaches the page past it could write any name.

    Arguments:
        name: of the header.
        trusted: networks of the proxy, as ``["10.0.0.0/8"]``. The peer's address counts, not ``X-Forwarded-For``.
        rights: what they may do: the same for all, by a pattern of the name, or a function of it.
    """
    networks = read_networks(trusted)
    if not networks:
        raise ValueError("trusted: names no network; write that of the proxy, for example ['10.0.0.0/8']")

    async def auth(request: Request) -> User | None:
        given = request.headers.getlist(name)
        if not given:
            return None
        peer = request.client.host if request.client else "unknown"
        if len(given) > 1 or not is_within(peer, networks):
            logger.warning("ignored the header %s: the peer %s is not in trusted, or sent it twice", name, peer)
            return None
        return User(given[0], rights_of(given[0], rights)) if given[0].strip() else None

    return auth


def rights_of(name: str, rights: Rights) -> frozenset[Right]:
    """Return the rights of a name; none if no pattern matches it from end to end."""
    if isinstance(rights, Mapping):
        matching = [own for pattern, own in rights.items() if re.fullmatch(pattern, name)]
        return frozenset().union(*matching)
    return rights(name) if callable(rights) else rights


def credentials(authorization: str) -> tuple[str, str] | None:
    """Return name and secret of a header ``Authorization``; a bearer's name is empty."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer" and value:
        return "", value.strip()
    if kind.lower() == "basic":
        try:
            name, colon, secret = base64.b64decode(value, validate=True).decode().partition(":")
        except ValueError:  # it is no base64, or no UTF-8 in it
            return None
        return (name, secret) if colon else None
    return None
