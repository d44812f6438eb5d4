"""Who uses the page, and what that person may do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from redisbeater.dashboard.address import is_within, read_networks
from redisbeater.log_lines import get_logger

logger = get_logger(__name__)


class Right(str, Enum):
    """What a person may do.

    An edit can run any registered task with any arguments.
    """

    #: See everything but values that ``redisbeater_redact`` names.
    VIEW = "view"
    #: Trigger, enable, disable, skip, stop and the like; pause and resume.
    OPERATE = "operate"
    #: Create, change, delete and restore entries.
    EDIT = "edit"


#: Rights to pass to :func:`redisbeater.dashboard.create_app`'s ways to log in.
VIEW = frozenset({Right.VIEW})
OPERATE = frozenset({Right.VIEW, Right.OPERATE})
ALL = frozenset(Right)


@dataclass(frozen=True)
class User:
    """A person whom an ``auth`` has recognized.

    Attributes:
        name: the name that is written into the log of each change.
        rights: what the person may do.
    """

    name: str
    rights: frozenset[Right]


#: An authenticator: returns the user who sent a request, or None.
Auth = Callable[[Request], Awaitable["User | None"]]


#: Cost of one check: 16 MiB and some 50 ms, as RFC 7914 and OWASP advise for logins.
_N, _R, _P = 2**14, 8, 1


def hash_password(password: str) -> str:
    """Return the text to store for a password: ``scrypt$n$r$p$salt$hash``."""
    salt = secrets.token_bytes(16)
    return "$".join(
        ("scrypt", str(_N), str(_R), str(_P), _base64_text(salt), _base64_text(_hash(password, salt, _N, _R, _P)))
    )


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
            "expected name:scrypt$..., as celery -A proj redisbeater dashboard --hash-password NAME prints it"
        ) from None


def _hash(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=64 * 2**20)


def _base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


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
    #: Whether nobody can guess the secret, and checking one is cheap.
    is_unguessable = False

    def __init__(self, *secrets: str) -> None:
        #: Signs the cookies of sessions, in every process with the same secrets.
        self.key = hashlib.sha256("\0".join(("redisbeater dashboard", *secrets)).encode()).digest()

    async def __call__(self, request: Request) -> User | None:
        """Return the user who sent a request, by its header ``Authorization``."""
        given = credentials(request.headers.get("Authorization", ""))
        return None if given is None else await self.check(*given)

    def user(self, name: str) -> User | None:
        """Return the user of a name that has logged in before; None if it is not known any more."""
        raise NotImplementedError

    async def check(self, name: str, secret: str) -> User | None:
        """Return the user with these credentials, or None."""
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
        passwords: the scrypt hash of each name, as ``dashboard --hash-password NAME`` prints it.
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
