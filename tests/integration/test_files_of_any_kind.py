"""Every command that reads or writes a file, with what people may name by mistake."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery
from click.testing import CliRunner, Result

from redisbeater import Export, InvalidEntry, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.dashboard.auth import read_passwords
from redisbeater.management.files.reading import read_text

ENTRIES = '{"redisbeater": 1,\r\n"owner": "shop",\r\n"entries": {"a": {"task": "t", "every": 60}}}'
DEFINITION = '{"task": "t",\r\n"schedule": {"__type__": "interval", "every": 60}}'
HASH = "scrypt$16384$8$1$c2FsdHNhbHRzYWx0$" + "a" * 43 + "="

#: What a command reads, before the name of the file, and a file that is right.
READERS = {
    "apply": (["apply", "--dry-run"], ENTRIES),
    "lint": (["lint", "--file"], ENTRIES),
    "simulate": (["simulate", "--file"], ENTRIES),
    "create": (["create", "b", "--dry-run", "--json-file"], DEFINITION),
    "args": (["create", "c", "t", "--every", "60", "--dry-run", "--args"], "[1,\r\n2]"),
    "token": (["dashboard", "--token-file"], "t" * 40 + "\r\n"),
    "passwords": (["dashboard", "--basic-file"], f"anna:{HASH}\r\nbert:{HASH}\r\n"),
}


@pytest.fixture
def run(make_app: Callable[..., Celery]) -> Callable[..., Result]:
    app = make_app("shop", timezone="UTC")

    def run(reader: str, path: object, *, input: bytes | None = None) -> Result:
        arguments = [*READERS[reader][0], f"@{path}" if reader == "args" else str(path)]
        return CliRunner().invoke(redisbeater, arguments, obj=SimpleNamespace(app=app), input=input)

    return run


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Path]:
    """A pipe into which somebody writes without an end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with suppress(BrokenPipeError), path.open("wb", buffering=0) as pipe:
            while True:
                pipe.write(b"\0" * 65536)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    yield path
    writer.join(60)
    assert not writer.is_alive()


@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read_is_an_error_that_names_it(run: Callable[..., Result], tmp_path: Path, reader: str) -> None:
    loop, no_folder = tmp_path / "loop", tmp_path / "file"
    loop.symlink_to(loop)
    no_folder.touch()
    reasons = {
        tmp_path / "none": "No such file or directory",
        tmp_path: "Is a directory",
        loop: "Too many levels of symbolic links",
        no_folder / "x": "Not a directory",
        Path("/proc/self/mem"): "Input/output error",
    }

    for path, reason in reasons.items():
        result = run(reader, path)

        assert (result.exit_code, result.stdout) == (2, ""), path
        assert result.stderr.endswith(f": cannot be read: {reason}\n"), result.stderr
        assert path.name in result.stderr


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_utf_8_text_is_refused_with_the_place(
    run: Callable[..., Result], tmp_path: Path, reader: str
) -> None:
    for number, content in enumerate((b"\x7fELF\xff", "é".encode("latin-1"), ENTRIES.encode("utf-16"))):
        path = tmp_path / f"f{number}"
        path.write_bytes(content)

        result = run(reader, path)

        assert (result.exit_code, result.stdout) == (2, "")
        assert f"f{number}: is no UTF-8 text: the byte 0x" in result.stderr


@pytest.mark.parametrize("reader", READERS)
def test_what_has_no_end_is_refused(run: Callable[..., Result], endless: Path, reader: str) -> None:
    for path in ("/dev/zero", endless):
        result = run(reader, path)

        assert (result.exit_code, result.stdout) == (2, "")
        assert "000,000 bytes; at most " in result.stderr


@pytest.mark.parametrize("reader", ["apply", "lint", "simulate", "create", "args"])
def test_a_standard_input_of_too_many_bytes_is_refused(run: Callable[..., Result], reader: str) -> None:
    result = run(reader, "-", input=b"-" * 10_000_001)

    assert result.exit_code == 2
    assert "000,000 bytes; at most " in result.stderr


@pytest.mark.parametrize("reader", ["apply", "lint", "simulate", "create", "args"])
@pytest.mark.parametrize("begin", ["", "\ufeff"], ids=["plain", "mark"])
def test_lines_of_windows_a_byte_order_mark_and_a_pipe_do_no_harm(
    run: Callable[..., Result], tmp_path: Path, reader: str, begin: str
) -> None:
    content = (begin + READERS[reader][1]).encode()
    (tmp_path / "f").write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[content], daemon=True)
    writer.start()

    for result in (run(reader, tmp_path / "f"), run(reader, "-", input=content), run(reader, tmp_path / "pipe")):
        assert result.exit_code == (1 if reader == "lint" else 0), result.output  # no worker knows the task
        assert "Error" not in result.stderr
    writer.join(60)


def test_a_large_file_of_json_is_read_where_yaml_is_not(tmp_path: Path) -> None:
    fields = {"task": "t", "every": 60, "description": "x" * 4000}
    text = json.dumps({"redisbeater": 1, "entries": {f"e{number}": fields for number in range(2500)}})
    assert len(text) > 10_000_000
    (tmp_path / "f.json").write_text(f"\n {text}")
    (tmp_path / "f.yaml").write_text(f"# {text}")

    assert len(Export.read(tmp_path / "f.json").entries) == 2500
    with pytest.raises(InvalidEntry, match=r"f\.yaml: has more than 8,000,000 bytes; at most 8,000,000 are read, 256"):
        Export.read(tmp_path / "f.yaml")


@pytest.mark.parametrize("reader", ["token", "passwords"])
def test_files_of_the_web_page_may_begin_with_a_byte_order_mark(tmp_path: Path, reader: str) -> None:
    (tmp_path / "f").write_bytes(("\ufeff" + READERS[reader][1]).encode())
    text = read_text(tmp_path / "f", 1000)

    assert text == READERS[reader][1]
    if reader == "passwords":
        assert list(read_passwords(text)) == ["anna", "bert"]


def test_an_export_to_what_is_no_plain_file_is_written_or_refused_with_a_reason(
    make_app: Callable[..., Celery], tmp_path: Path
) -> None:
    app = make_app("shop", timezone="UTC")
    ScheduleStore(app).create("a", "t", 60)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    reasons = {
        tmp_path: "Is a directory",
        tmp_path / "none" / "f": "No such file or directory",
        tmp_path / "file" / "f": "Not a directory",
        Path("/dev/full"): "No space left on device",
    }

    for path, reason in reasons.items():
        refused = CliRunner().invoke(redisbeater, ["export", "-o", str(path)], obj=SimpleNamespace(app=app))
        assert (refused.exit_code, refused.stderr) == (2, f"Error: {path}: cannot be written: {reason}\n")
    written = CliRunner().invoke(redisbeater, ["export", "-o", str(tmp_path / "pipe")], obj=SimpleNamespace(app=app))

    reader.join(60)
    assert written.exit_code == 0
    assert list(json.loads(received[0])["entries"]) == ["a"]
