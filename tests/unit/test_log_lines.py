"""Log lines that no data can forge."""

from __future__ import annotations

import ast
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery.utils.log import ColorFormatter

import redisbeater
from redisbeater.display import MOST_CHARACTERS
from redisbeater.log_lines import escape_lines, get_logger

FORGED = "x\n[2026-01-01 00:00:00: CRITICAL] all is lost \x1b[2J\u202e"


@pytest.fixture(params=[logging.Formatter, ColorFormatter])
def output(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What a handler writes of the lines of the logger ``redisbeater.test``."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(request.param("%(message)s"))
    logger = get_logger("redisbeater.test")
    logger.propagate = False
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


@pytest.mark.parametrize(
    "arguments",
    [
        ("the leader is %s", FORGED),
        ("entry %r: %s", FORGED, FORGED),
        ("entry %r: %s", FORGED, ValueError(FORGED)),
        ("entry %(name)s", {"name": FORGED}),
    ],
)
def test_a_text_in_a_line_is_escaped(output: io.StringIO, arguments: tuple[object, ...]) -> None:
    logging.getLogger("redisbeater.test").warning(*arguments)

    assert re.sub(r"\x1b\[[\d;]*m", "", output.getvalue()).strip().isprintable()
    assert len(output.getvalue().splitlines()) == 1
    assert "all is lost" in output.getvalue()


def test_numbers_and_short_texts_are_logged_as_they_are(output: io.StringIO) -> None:
    logging.getLogger("redisbeater.test").warning("entry %r: %d of %.1f, %s", "it's", 1, 2.5, "so")

    assert 'entry "it\'s": 1 of 2.5, so' in output.getvalue()


@pytest.mark.parametrize(("name", "reason"), [("n" * 10**6, "short"), ("short", "r" * 10**6), ("n" * 999, "r" * 999)])
def test_a_line_is_cut_and_its_shorter_texts_stay(output: io.StringIO, name: str, reason: str) -> None:
    logging.getLogger("redisbeater.test").warning("entry %r is broken, quarantined it: %s", name, reason)

    assert 200 < len(output.getvalue()) <= MOST_CHARACTERS
    assert "quarantined it: " in output.getvalue()
    assert ("short" in output.getvalue()) == ("short" in (name, reason))


def test_a_traceback_has_no_line_that_an_error_has_written(output: io.StringIO) -> None:
    try:
        try:
            raise KeyError(FORGED)
        except KeyError as exc:
            raise ValueError(FORGED) from exc
    except ValueError:
        logging.getLogger("redisbeater.test").exception("entry %r cannot be planned", "a")

    lines = output.getvalue().splitlines()
    assert not [line for line in lines if line.startswith("[2026")]
    assert "\x1b[2J" not in output.getvalue()
    assert sum(line.startswith("Traceback (most recent call last):") for line in lines) == 2
    assert "The above exception was the direct cause of the following exception:" in lines
    assert any(line.startswith("ValueError: x\\x0a[2026") for line in lines)
    assert any("raise ValueError(FORGED) from exc" in line for line in lines)


def test_a_logger_is_escaped_once() -> None:
    logger = get_logger("redisbeater.test")

    assert escape_lines(escape_lines(logger)).filters == logger.filters
    assert len(logger.filters) == 1


def test_every_module_logs_by_a_logger_that_escapes() -> None:
    calls = {
        f"{path.name}: {ast.unparse(node)}"
        for path in Path(redisbeater.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger"
    }

    celery = {f"{name}.py: logging.getLogger('celery.beat')" for name in ("scheduler", "sender")}
    assert calls == {"log_lines.py: logging.getLogger(name)", *celery}
