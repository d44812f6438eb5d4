"""A language server, as editors start one: asked in JSON-RPC about a text."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class LanguageServer:
    """Speaks to a language server over its standard streams, one question after the other."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, settings: dict[str, Any]) -> None:
        self._process, self._settings = process, settings
        self._number = 0
        self._findings: dict[str, list[dict[str, Any]]] = {}
        self._ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities={})
        self._tell("initialized")
        self._tell("workspace/didChangeConfiguration", settings=settings)

    def open(self, path: Path, language: str) -> None:
        """Open a file."""
        document = {"uri": path.as_uri(), "languageId": language, "version": 1, "text": path.read_text()}
        self._tell("textDocument/didOpen", textDocument=document)

    def findings(self, path: Path) -> list[tuple[int, str]]:
        """Return what it finds in an open file: on which line, the first is 0, and what."""
        while path.as_uri() not in self._findings:
            self._take(self._read())
        return sorted((each["range"]["start"]["line"], each["message"]) for each in self._findings[path.as_uri()])

    def completions(self, path: Path, line: int, column: int) -> dict[str, str]:
        """Return what it offers at a place of an open file: names, and what it would write."""
        found = self._ask("textDocument/completion", **_place(path, line, column))
        return {each["label"]: each["insertText"] for each in found["items"]}

    def hover(self, path: Path, line: int, column: int) -> str:
        """Return what it says of a place of an open file."""
        return str(self._ask("textDocument/hover", **_place(path, line, column))["contents"]["value"])

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send(id=self._number, method=method, params=params)
        while True:
            message = self._read()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]
            self._take(message)

    def _tell(self, method: str, **params: Any) -> None:
        self._send(method=method, params=params)

    def _take(self, message: dict[str, Any]) -> None:
        """Take what the server says or asks by itself."""
        if message.get("method") == "textDocument/publishDiagnostics":
            self._findings[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif message.get("method") == "workspace/configuration":
            wanted = [self._settings.get(each["section"]) for each in message["params"]["items"]]
            self._send(id=message["id"], result=wanted)
        elif "method" in message and "id" in message:
            self._send(id=message["id"], result=None)

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        assert size, "the language server has ended"
        found: dict[str, Any] = json.loads(self._process.stdout.read(size))
        return found


def _place(path: Path, line: int, column: int) -> dict[str, Any]:
    return {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}


@contextmanager
def language_server(command: Sequence[str], folder: Path, **settings: Any) -> Iterator[LanguageServer]:
    """Start a language server for a folder, with the settings of an editor, and end it."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as process:
        try:
            yield LanguageServer(process, folder, settings)
        finally:
            process.kill()
