"""Blank secrets in runs and log lines; refuse blanked values that come back, or restore them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from redisbeater.context import Context
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import Payload, Run
from redisbeater.redaction import BLANK, names_secret, redacted, redacted_text, secrets_of


def shown_run(context: Context, run: Run) -> Run:
    """Return a run as people see it: without its payload, and with the secrets in its texts blanked.

    Those are what keys of arguments name as secret: behind such keys, and wherever else the text has the same value.
    """
    patterns, secrets = context.config.redact, _secrets(context, run)
    error, result, note = (redacted_text(text, patterns, secrets) for text in (run.error, run.result, run.note))
    return replace(run, payload="", error=error, result=result, note=note)


def shown_traceback(context: Context, run: Run) -> str:
    """Return where the error of a run, read with its payload, was raised, as people see it; empty where unknown."""
    text = context.redis.runs.traceback(run.id)
    return redacted_text(text, context.config.redact, _secrets(context, run))


def _secrets(context: Context, run: Run) -> list[str]:
    with suppress(InvalidEntry):  # none is kept, or another program wrote it
        return list(secrets_of(vars(Payload.from_text(run.payload)), context.config.redact))
    return []


def redacted_line(context: Context, line: LogLine) -> LogLine:
    """Return a line of a log without the secrets in its details."""
    details = redacted(line.details, context.config.redact, in_texts=True)
    return LogLine(what=line.what, first=line.first, last=line.last, count=line.count, details=details)


def check_not_blanked(value: Any, path: str, patterns: tuple[str, ...]) -> None:
    """Refuse a value in which a secret is blanked, at any depth: stored, it would take the place of the secret.

    Raises:
        InvalidEntry: with the path of the first one.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            if item == BLANK and names_secret(str(key), patterns):
                raise InvalidEntry(f"{path}.{key}", f"is blanked: {BLANK} stands for a secret; write the secret itself")
            check_not_blanked(item, f"{path}.{key}", patterns)
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            check_not_blanked(item, f"{path}[{place}]", patterns)
    elif isinstance(value, str) and BLANK in value:
        plain = value.replace(BLANK, "a5b5c5d5")  # as a secret in the place of each blank would be found
        if redacted_text(plain, patterns) != plain:
            raise InvalidEntry(path, f"has a secret that is blanked: {BLANK} stands for it; write the secret itself")


def restored(value: Any, stored: Any, patterns: tuple[str, ...]) -> Any:
    """Return a value with the stored values in place of those that were blanked at the same keys."""
    if isinstance(value, dict):
        known = stored if isinstance(stored, Mapping) else {}
        return {
            key: known[key]
            if item == BLANK and key in known and names_secret(str(key), patterns)
            else restored(item, known.get(key), patterns)
            for key, item in value.items()
        }
    if isinstance(value, list):
        items = stored if isinstance(stored, list) else []
        return [
            restored(item, items[place] if place < len(items) else None, patterns) for place, item in enumerate(value)
        ]
    is_blanked = isinstance(value, str) and isinstance(stored, str) and value == redacted_text(stored, patterns)
    return stored if is_blanked else value
