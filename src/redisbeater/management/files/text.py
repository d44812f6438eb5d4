"""The text of a file, JSON or YAML: read without surprises, and bounded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from redisbeater.display import quoted
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry
from redisbeater.model.json_text import MAX_DEPTH, unique
from redisbeater.store import pages

__all__ = ("parse", "render")

#: Bytes of a file at most: a backup of 100,000 entries takes a fifth of it as JSON.
MOST_JSON_BYTES, MOST_YAML_BYTES = 256_000_000, 8_000_000

#: Lists and objects inside one another: an entry lies two levels deep.
_MOST_LEVELS = MAX_DEPTH + 3

#: Entries of YAML that are written at a time.
PIECE = 250

_INSTALL = "YAML needs PyYAML: pip install redisbeater[yaml], or write the file as JSON"


def parse(text: str, file: str) -> Any:
    """Return the value of a text; one that begins with a brace is JSON, any other YAML.

    Raises:
        InvalidEntry: it is neither, it is too large or nested too deeply, or it has a key twice.
    """
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    most = MOST_JSON_BYTES if is_json else MOST_YAML_BYTES
    if len(text) > most:
        raise InvalidEntry(file, f"has {len(text):,} characters; at most {most:,} are read")
    try:
        return json.loads(text.lstrip("\ufeff"), object_pairs_hook=unique) if is_json else _parse_yaml(text)
    except RecursionError as exc:
        raise InvalidEntry(file, f"nested too deeply; at most {_MOST_LEVELS} levels") from exc
    except ValueError as exc:
        raise InvalidEntry(file, f"not {'JSON' if is_json else 'YAML'}: {exc}") from exc


def render(data: Mapping[str, Any], *, as_yaml: bool = False, progress: Callable[[int], None] | None = None) -> str:
    """Return the text of an object that JSON can hold; ``progress`` gets the number of written entries of YAML.

    Raises:
        ImproperlyConfigured: PyYAML is not installed.
        InvalidEntry: it is too large to be read as YAML.
    """
    if not as_yaml:
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    text = "".join(_yaml_parts(data, progress or (lambda count: None)))
    if len(text) > MOST_YAML_BYTES:
        raise InvalidEntry("YAML", f"has {len(text):,} characters; at most {MOST_YAML_BYTES:,} are read: write JSON")
    return text


def _yaml_parts(data: Mapping[str, Any], progress: Callable[[int], None]) -> Iterator[str]:
    """Yield an object as YAML, a page of each of its objects at a time; libyaml, where it is there, is much faster."""
    yaml = _yaml()
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper = type("Dumper", (base,), {"ignore_aliases": lambda self, data: True})  # our loader refuses them
    dump = partial(yaml.dump, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)
    for key, value in data.items():
        if not isinstance(value, dict) or not value:
            yield dump({key: value})
            continue
        for number, page in enumerate(pages(list(value.items()), PIECE)):
            first, _, lines = dump({key: dict(page)}).partition("\n")
            yield lines if number else f"{first}\n{lines}"
            progress(number * PIECE + len(page))


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as exc:
        raise ImproperlyConfigured(_INSTALL) from exc
    return yaml


def _parse_yaml(text: str) -> Any:
    yaml = _yaml()
    try:
        return yaml.load(text, Loader=_loader(yaml))
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"{getattr(exc, 'problem', None) or exc}{where}") from exc


def _loader(yaml: Any) -> Any:
    """Return a safe loader that reads times and dates as texts, and refuses keys that are there twice and aliases.

    A few aliases of aliases make gigabytes of a small file; ``defaults`` say the same.
    """

    class Loader(yaml.SafeLoader):
        levels = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                self._refuse("aliases are not accepted; use defaults", self.peek_event().start_mark)
            self.levels += 1
            if self.levels > _MOST_LEVELS:
                self._refuse(f"nested too deeply; at most {_MOST_LEVELS} levels", self.peek_event().start_mark)
            node = super().compose_node(parent, index)
            self.levels -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if key.value in seen:
                    self._refuse(f"{quoted(key.value)} is there twice", key.start_mark)
                seen.add(key.value)
            return {str(key): value for key, value in super().construct_mapping(node, deep=deep).items()}

        def construct_yaml_int(self, node: Any) -> Any:
            return node.value if ":" in node.value else super().construct_yaml_int(node)

        def _refuse(self, problem: str, mark: Any) -> None:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)

    Loader.yaml_implicit_resolvers = {
        char: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge"))]
        for char, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    return Loader
