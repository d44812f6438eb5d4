"""Compile each template of the web page once in a process: every app that a test makes would compile them again."""

from __future__ import annotations

from typing import Any

import jinja2

_compile = jinja2.Environment.compile
_known: dict[tuple[object, ...], Any] = {}


def _compiled(environment: jinja2.Environment, source: Any, *arguments: Any, **options: Any) -> Any:
    key = (str(source), environment.finalize, environment.autoescape, *arguments, *options.items())
    if key not in _known:
        _known[key] = _compile(environment, source, *arguments, **options)
    return _known[key]


jinja2.Environment.compile = _compiled  # type: ignore[method-assign,assignment]
