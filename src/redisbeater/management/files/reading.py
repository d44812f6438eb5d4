"""Read a text that a user names: a file, a pipe or the standard input, bounded, in UTF-8."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO


def read_text(source: str | Path | BinaryIO, most: int, most_json: int = 0) -> str:
    """Return the text of a file by its path, or of an open one, without a byte order mark.

    No more than the bound is read: a device or a pipe may have no end.

    Arguments:
        source: the path, or what is open and read as bytes.
        most: how many bytes it may have.
        most_json: how many where it begins with a brace, if that is more.

    Raises:
        ValueError: it cannot be read, is too large, or is no UTF-8 text.
    """
    try:
        with Path(source).open("rb") if isinstance(source, (str, Path)) else nullcontext(source) as file:
            content = file.read(most + 1)
            if len(content) > most and begins_json(content[:100].decode(errors="replace")):
                most = max(most, most_json)
                content += file.read(most + 1 - len(content))
    except OSError as exc:
        raise ValueError(f"cannot be read: {exc.strerror}") from exc
    if len(content) > most:
        hint = f", {most_json:,} of JSON" if most_json > most else ""
        raise ValueError(f"has more than {most:,} bytes; at most {most:,} are read{hint}")
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        before = content[: exc.start].decode()
        raise ValueError(f"is no UTF-8 text: the byte {content[exc.start]:#04x}, {place_after(before)}") from exc


def begins_json(text: str) -> bool:
    """Tell whether a text is JSON, which begins with a brace; any other is YAML."""
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def place_after(text: str) -> str:
    """Return the line and the column of what follows a text."""
    return f"line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))}"
