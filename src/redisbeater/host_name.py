"""The host that a request names; a file of its own, because the page and the server of a beat both ask."""

from __future__ import annotations

import ipaddress
import re

#: A header ``Host``: an address of IPv6 in brackets, or a name or another address, and a port.
_HEADER = re.compile(r"(?:\[([0-9a-f:.]+(?:%[\w.-]+)?)\]|([\w.-]+))(?::\d*)?", re.ASCII | re.IGNORECASE)


def named_host(header: str) -> str:
    """Return the name or address in a ``Host`` header, in lower case and without port, or an empty text."""
    found = _HEADER.fullmatch(header)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""


def is_rebindable(name: str) -> bool:
    """Return whether somebody else may have a host name: it is neither an address nor ``localhost``."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name != "localhost"
    return False


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host: ``localhost``, or an address of loopback."""
    return not is_rebindable(host) and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
