"""Where a request comes from: the path of the mount, the address that links have, and whether it is HTTPS."""

from __future__ import annotations

from starlette.requests import Request

__all__ = ("here", "is_secure", "root_of")


def root_of(request: Request) -> str:
    """Return the path that the page is mounted under, without the slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def here(request: Request) -> str:
    """Return the address of a request as links have it: below the mount, though a proxy has cut that off.

    That of a page that answers a form is the first page: its own cannot be asked for again.
    """
    if request.method == "POST":
        return f"{root_of(request)}/"
    root, path = root_of(request), request.url.path
    own = path.removeprefix(root) if path.startswith(f"{root}/") else path
    return f"{root}{own}{'?' if request.url.query else ''}{request.url.query}"


def is_secure(request: Request) -> bool:
    """Return whether a browser reaches the page by HTTPS, if only as far as a proxy: its forms say so in ``Origin``."""
    return request.url.scheme == "https" or request.headers.get("Origin", "").startswith("https://")
