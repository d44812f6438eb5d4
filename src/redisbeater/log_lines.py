"""Log lines that no data can forge: texts are escaped and cut, errors without secrets, before a handler sees them."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from redisbeater.display import MOST_CHARACTERS, fingerprint, quoted, shown, text_of, without_secrets

#: Characters of all texts in one line; what is left of the most is for the words of the line itself.
MOST_DATA = MOST_CHARACTERS - 100

#: A text of a line is not cut to fewer characters than these, however long the others are.
LEAST_SHOWN = 20

#: This many texts of this length fit into any line as they are, even if quotes double it.
FEW_TEXTS, SHORT_TEXT = 4, 95


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module, whose lines are escaped."""
    return escape_lines(logging.getLogger(name))


def escape_lines(logger: logging.Logger) -> logging.Logger:
    """Escape and cut the texts in all lines of a logger, once however often it is called; return the logger."""
    logger.addFilter(_ESCAPING)
    return logger


class Mute(logging.Filter):
    """Drops lines of a logger that begin with a text, while the thread that logs them is within it; not reentrant.

    It keeps the error of the last line that it dropped since then.
    """

    def __init__(self, logger: logging.Logger, text: str) -> None:
        super().__init__()
        self._text = text
        self._threads: set[int] = set()
        self._errors: dict[int, BaseException] = {}
        logger.addFilter(self)

    def __enter__(self) -> None:
        self._errors.pop(threading.get_ident(), None)
        self._threads.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self._threads.discard(threading.get_ident())

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is to be logged."""
        thread = threading.get_ident()
        if thread not in self._threads or not str(record.msg).startswith(self._text):
            return True
        if record.exc_info and record.exc_info[1] is not None:
            self._errors[thread] = record.exc_info[1]
        return False

    def pop_error(self) -> BaseException | None:
        """Return and forget the error of this thread's last dropped line, or None."""
        return self._errors.pop(threading.get_ident(), None)


class _Escaping(logging.Filter):
    """Lets every line through, with its texts escaped. The template of the line and its other values stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the texts of a record."""
        if isinstance(record.args, tuple):
            record.args = _safe(record.args)
        elif isinstance(record.args, Mapping):
            record.args = dict(zip(record.args, _safe(tuple(record.args.values()))))
        if record.exc_info and not record.exc_text:
            record.exc_text = _traceback(record.exc_info[1])
        return True


_ESCAPING = _Escaping()


class _Text(str):
    """A text that is escaped and cut, for ``%s``; ``%r`` shows it in quotes."""

    quoted: str

    def __repr__(self) -> str:
        return self.quoted


def _safe(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a line; texts and errors are escaped, and share the room in the line."""
    if len(values) <= FEW_TEXTS and all(map(_is_safe, values)):
        return values
    texts = {index: text_of(value) for index, value in enumerate(values) if isinstance(value, (str, BaseException))}
    room, shares = MOST_DATA, {}
    for left, index in zip(range(len(texts), 0, -1), sorted(texts, key=lambda index: len(texts[index]))):
        shares[index] = max(room // left, LEAST_SHOWN)
        room -= min(shares[index], len(texts[index]))
    return tuple(
        _safe_text(texts[index], value, shares[index]) if index in texts else value
        for index, value in enumerate(values)
    )


def _is_safe(value: Any) -> bool:
    """Return whether a value is shown as it is, in any line of a few values: most names and tasks are."""
    if type(value) is str:
        return len(value) <= SHORT_TEXT and value.isprintable()
    return not isinstance(value, (str, BaseException))


def _safe_text(text: str, value: Any, limit: int) -> _Text:
    safe = _Text(shown(text, limit))
    safe.quoted = quoted(value, limit)
    return safe


def _traceback(error: BaseException | None) -> str:
    """Return the traceback of an error without secrets; what the errors in it say stays on their own lines."""
    if error is None:
        return ""
    return "".join(_escaped_parts(traceback.TracebackException.from_exception(error))).rstrip("\n")


def _escaped_parts(parts: traceback.TracebackException) -> Iterator[str]:
    for part in map(without_secrets, parts.format()):
        if part.startswith("  "):  # a frame: a line on where it is, and lines of source
            yield "".join(f"{shown(line)}\n" for line in part.splitlines())
        else:
            text = part.strip("\n")
            before, _, after = part.partition(text) if text else (part, "", "")
            yield f"{before}{shown(text)}{after}"


#: A line that says what an earlier one said is logged once in this time: its reason comes back with every run.
REPEAT_SECONDS = 60.0

#: How many lines are known; what was logged longest ago is forgotten first.
MOST_KNOWN = 100


class Seldom:
    """Tells whether a line is due: the same one is logged once a minute."""

    def __init__(self) -> None:
        self._logged_at: OrderedDict[str, float] = OrderedDict()

    def is_due(self, line: str, error: BaseException) -> bool:
        """Return whether a line about an error is to be logged now; the caller logs it then.

        Arguments:
            line: what the line says besides, the same text for what counts as the same line.
            error: the error; ids, times and addresses in it make no other one of it.
        """
        now, what = time.monotonic(), fingerprint(f"{line} {type(error).__name__}: {text_of(error)}")
        if now < self._logged_at.get(what, float("-inf")) + REPEAT_SECONDS:
            return False
        self._logged_at[what] = now
        self._logged_at.move_to_end(what)
        if len(self._logged_at) > MOST_KNOWN:
            self._logged_at.popitem(last=False)
        return True


def event(signal: str, /, **facts: Any) -> dict[str, dict[str, Any]]:
    """Return the ``extra`` of a line about an event: under ``redisbeater`` its name and its facts, ready for JSON.

    Arguments:
        signal: the name of the signal of the same event.
        facts: what the signal passes; times become ISO 8601 texts, errors become texts.
    """
    return {"redisbeater": {"event": signal, **{fact: _ready(value) for fact, value in facts.items()}}}


def _ready(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return shown(value) if isinstance(value, (str, BaseException)) else value
