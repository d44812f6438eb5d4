"""Where a request comes from: its client, the path of the mount, the address that links have, whether it is HTTPS."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from starlette.requests import Request

from redisbeater.management.verbs import NO_APP

#: Proxies on this machine, which web servers trust by default.
TRUSTED_PROXIES = ("127.0.0.1", "::1")

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def read_networks(texts: Iterable[str]) -> Networks:
    """Return addresses and networks, such as ``10.0.0.5`` and ``10.0.0.0/8``.

    Raises:
        ValueError: one is neither.
    """
    return tuple(ipaddress.ip_network(text) for text in texts)


def client_of(request: Request, proxies: Networks) -> str:
    """Return the address of a client: the peer's, or the one that the outermost of our proxies has seen.

    Each proxy adds its peer at the end of ``X-Forwarded-For``; what stands before that anybody may write.
    """
    client = request.client.host if request.client else ""
    seen = ",".join(request.headers.getlist("X-Forwarded-For")).split(",")
    while seen and is_within(client, proxies) and _address(before := seen.pop()):
        client = before
    return client


def is_within(host: str, networks: Networks) -> bool:
    """Return whether an address is in one of the networks; a Unix socket is in none."""
    address = _address(host)
    forms = [form for form in (address, getattr(address, "ipv4_mapped", None)) if form]
    return any(form in network for form in forms for network in networks)


def network_of(host: str) -> str:
    """Return the address itself, or for IPv6 its /64 network, which one person has."""
    address = _address(host)
    if address is None or address.version == 4 or address.ipv4_mapped:
        return str(address or host)
    return str(ipaddress.ip_network((address.packed[:8] + bytes(8), 64)))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read an address; some proxies write a port behind it, and IPv6 in brackets."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def root_of(request: Request) -> str:
    """Return the path that the page is mounted under, without the slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def is_live(request: Request) -> bool:
    """Return whether an open page asks by itself, as something has changed."""
    return request.headers.get("X-Redisbeater-Live") == "1"


def has_stream(request: Request) -> bool:
    """Return whether the server that asks can send a stream of events, as all but those of WSGI can."""
    found: bool = getattr(request.state, "has_stream", True)
    return found


def here(request: Request) -> str:
    """Return the address of a request as links have it: below the mount, though a proxy has cut that off.

    That of a page that answers a form is the first page: its own cannot be asked for again. An open list asks for its
    rows by their names, which are not in its own address.
    """
    if request.method == "POST":
        return f"{root_of(request)}/"
    address = address_of(request)
    path, _, query = address.partition("?")
    if not query or path != f"{root_of(request)}/" or not is_live(request):
        return address
    own = "&".join(part for part in query.split("&") if not part.startswith("name="))
    return f"{path}?{own}" if own else path


def address_of(request: Request) -> str:
    """Return the path and query that a request was sent to, below the mount."""
    root, path = root_of(request), request.url.path
    own = path.removeprefix(root) if path.startswith(f"{root}/") else path
    return f"{root}{own}{'?' if request.url.query else ''}{request.url.query}"


def is_secure(request: Request) -> bool:
    """Return whether a browser reaches the page by HTTPS, if only as far as a proxy: its forms say so in ``Origin``."""
    return request.url.scheme == "https" or request.headers.get("Origin", "").startswith("https://")


def begin_of_commands(request: Request) -> Sequence[str]:
    """Return the words before the commands that a page shows, as far as its process knows them."""
    state = getattr(request.scope.get("app"), "state", None)
    begin: Sequence[str] = getattr(state, "begin", NO_APP)
    return begin
