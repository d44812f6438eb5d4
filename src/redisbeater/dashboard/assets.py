"""Our scripts, styles and icons: read once, served from memory under a path that changes with their content."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

__all__ = ("Assets",)

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Assets:
    """The files of ``static``. No path of a request reaches a disk."""

    def __init__(self) -> None:
        folder = files("redisbeater.dashboard").joinpath("static")
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.endswith(tuple(_KINDS))}
        #: The hash of all files, a part of their paths: a browser keeps them for ever.
        self.version = hashlib.sha256(b"".join(content for _, content in sorted(self._files.items()))).hexdigest()[:12]

    async def serve(self, request: Request) -> Response:
        """Return a file, or 404."""
        name = request.path_params["name"]
        if name not in self._files or request.path_params["version"] != self.version:
            return Response(status_code=404)
        kind = _KINDS[name.rpartition(".")[2]]
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=kind, headers=headers)
