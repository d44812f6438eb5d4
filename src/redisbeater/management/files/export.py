"""The text of a file, JSON or YAML: written, and read without surprises and bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from redisbeater.display import MARKS, did_you_mean, quoted, shown, unsafe_character
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry, WrongType
from redisbeater.management.files.reading import begins_json, place_after, read_text
from redisbeater.model.json_text import MAX_DEPTH, check_value, unique
from redisbeater.redaction import redacted
from redisbeater.store import pages

#: Bytes of a file at most: a backup of 100,000 entries takes a fifth of it as JSON.
MOST_JSON_BYTES, MOST_YAML_BYTES = 256_000_000, 8_000_000

#: Lists and objects inside one another: an entry lies two levels deep.
_MOST_LEVELS = MAX_DEPTH + 3

#: Entries of YAML that are written at a time.
PIECE = 250

_INSTALL = "YAML needs PyYAML: pip install 'redisbeater[yaml]', or write the file as JSON"


def parse(text: str, file: str) -> Any:
    """Return the value of a text; one that begins with a brace is JSON, any other YAML.

    Raises:
        InvalidEntry: it is neither, it is too large or nested too deeply, or it has a key twice.
    """
    is_json = begins_json(text)
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
        return _escaped(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"
    text = _escaped("".join(_yaml_parts(data, progress or (lambda count: None))))
    if len(text) > MOST_YAML_BYTES:
        raise InvalidEntry("YAML", f"has {len(text):,} characters; at most {MOST_YAML_BYTES:,} are read: write JSON")
    return text


def _escaped(text: str) -> str:
    """Return JSON, or YAML in whose quoted texts alone they are, with escapes for characters that drive a terminal."""
    return _MARK.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_MARK = re.compile(f"[{MARKS}]")


def _yaml_parts(data: Mapping[str, Any], progress: Callable[[int], None]) -> Iterator[str]:
    """Yield an object as YAML, a page of each of its objects at a time; libyaml, where it is there, is much faster."""
    yaml = _yaml()
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("Dumper", (base,), {"ignore_aliases": lambda self, data: True})  # our loader refuses them
    dumper.add_representer(str, _represent_text)
    dump = partial(yaml.dump, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)
    for key, value in data.items():
        if not isinstance(value, dict) or not value:
            yield dump({key: value})
            continue
        for number, page in enumerate(pages(list(value.items()), PIECE)):
            first, _, lines = dump({key: dict(page)}).partition("\n")
            yield lines if number else f"{first}\n{lines}"
            progress(number * PIECE + len(page))


def _represent_text(dumper: Any, text: str) -> Any:
    style = '"' if not text.isascii() and _MARK.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as exc:
        raise ImproperlyConfigured(_INSTALL) from exc
    return yaml


def _parse_yaml(text: str) -> Any:
    yaml = _yaml()
    try:
        loader = _loader(yaml)(text)
        return loader.get_single_data()
    except yaml.reader.ReaderError as exc:
        raise ValueError(f"{exc.reason}, U+{exc.character:04X}, {place_after(text[: exc.position])}") from exc
    except (yaml.YAMLError, ValueError) as exc:  # its scanner lets chr() and int() refuse what is too large for them
        mark, problem = getattr(exc, "problem_mark", None) or loader.get_mark(), getattr(exc, "problem", None) or exc
        raise ValueError(f"{problem}, line {mark.line + 1}, column {mark.column + 1}") from exc


def _loader(yaml: Any) -> Any:
    """Return a loader of the kinds of values that JSON has, which reads times and dates as texts.

    It refuses keys that are no texts, or there twice, and aliases: a few aliases of aliases make gigabytes of a small
    file; ``defaults`` say the same.
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

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, LookupError):  # its constructors raise what int() and their tables raise
                self._refuse(f"{quoted(node.value)} cannot be read as {node.tag.rpartition(':')[2]}", node.start_mark)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if not isinstance(key, yaml.ScalarNode):
                    self._refuse("a key must be a text, not a list or an object", key.start_mark)
                name = self.construct_object(key)
                if not isinstance(name, str):
                    what = f"the key {shown(key.value)} means {quoted(name)}; write it as a text: {quoted(key.value)}"
                    self._refuse(what, key.start_mark)
                if name in seen:
                    self._refuse(f"{quoted(name)} is there twice", key.start_mark)
                seen.add(name)
            return super().construct_mapping(node, deep=deep)

        def construct_yaml_int(self, node: Any) -> Any:
            return node.value if ":" in node.value else super().construct_yaml_int(node)

        def _refuse(self, problem: str, mark: Any) -> NoReturn:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)

    kinds = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str", "seq", "map")}
    Loader.yaml_implicit_resolvers = {
        char: [(tag, pattern) for tag, pattern in resolvers if tag in kinds]
        for char, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.yaml_constructors = {
        tag: construct for tag, construct in yaml.SafeLoader.yaml_constructors.items() if tag in kinds or tag is None
    }
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    return Loader


#: The version of the form of files.
FORMAT = 1

#: Characters of an owner's name, and of a file's in an error.
MOST_OWNER, MOST_FILE = 100, 60

_KEYS = {
    "$schema": (str,),  # for editors
    "redisbeater": (int,),
    "owner": (str,),
    "defaults": (dict,),
    "entries": (dict,),
    "state": (dict,),
    "id": (str,),
}


_NAMES: Mapping[type, str] = {int: "a whole number", str: "a text", dict: "an object of names and values"}


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One entry of a file.

    Attributes:
        fields: its fields as the file has them, with the defaults of the file.
        place: the file and the entry, for errors.
        state: of a backup, what else the hash of the entry held; None: the file is none.
    """

    name: str
    fields: Mapping[str, Any]
    place: str = ""
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Export:
    """Entries by name, with their owner.

    Attributes:
        entries: name -> the entry.
        owner: whose the entries are; empty: no owner is named.
        schedule_id: of a backup, the identity of the schedule, which decides the ids of its runs.
        left_out: entries that cannot be read, and why.
        statics: static entries, which only a backup has, and the applications whose code declares them.
    """

    entries: Mapping[str, FileEntry]
    owner: str = ""
    schedule_id: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    statics: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path | BinaryIO, name: str = "") -> Export:
        """Read a file, or what is open and read as bytes; ``name`` is what errors call it.

        Raises:
            InvalidEntry: it cannot be read; the message names the place.
        """
        if not isinstance(path, (str, Path)) and not hasattr(path, "read"):
            raise WrongType("path", f"expected a path, or what is open and read as bytes; got {quoted(path)}")
        name = name or str(path)
        try:
            text = read_text(path, MOST_YAML_BYTES, MOST_JSON_BYTES)
        except ValueError as exc:
            raise InvalidEntry(_label(name), str(exc)) from exc
        return cls.from_text(text, name)

    @classmethod
    def from_text(cls, text: str, file: str = "file") -> Export:
        """Read the text of a file, JSON or YAML; ``file`` is its name in errors.

        Raises:
            InvalidEntry: it cannot be read; the message names the place.
        """
        if not isinstance(text, str):
            raise WrongType("text", f"expected the text of a file, got {quoted(text)}; Export.read() takes its path")
        file = _label(file)
        data = parse(text, file)
        _check(data, file)
        defaults, states = data.get("defaults") or {}, data.get("state") or {}
        entries = {}
        for name, fields in data["entries"].items():
            place = f"{file}: {quoted(name, 60)}"
            if not isinstance(fields, dict):
                raise InvalidEntry(place, f"expected the fields of an entry, got {quoted(fields)}")
            if not isinstance(states.get(name, {}), dict):
                raise InvalidEntry(f"{place}: state", f"expected an object, got {quoted(states[name])}")
            merged = _with_defaults(fields, defaults, place)
            entries[name] = FileEntry(name=name, fields=merged, place=place, state=states.get(name))
        return cls(entries=entries, owner=data.get("owner", ""), schedule_id=data.get("id", ""))

    @classmethod
    def merged(cls, exports: Iterable[Export]) -> Export:
        """Return the entries of several files of one owner as one.

        Raises:
            InvalidEntry: an entry is in two of them.
        """
        entries: dict[str, FileEntry] = {}
        owner = schedule_id = ""
        for each in exports:
            for name, entry in each.entries.items():
                if name in entries:
                    raise InvalidEntry(entry.place, f"is in another file as well: {entries[name].place}")
                entries[name] = entry
            owner, schedule_id = owner or each.owner, schedule_id or each.schedule_id
        return cls(entries=entries, owner=owner, schedule_id=schedule_id)

    def without_secrets(self, patterns: tuple[str, ...]) -> Export:
        """Return the same entries with the values of keys that name a secret blanked."""

        def blanked(each: FileEntry) -> FileEntry:
            fields, state = (redacted(part, patterns, in_texts=True) for part in (each.fields, each.state))
            return replace(each, fields=fields, state=state)

        return replace(self, entries={name: blanked(each) for name, each in self.entries.items()})

    def to_text(self, *, as_yaml: bool = False, progress: Callable[[int], None] | None = None) -> str:
        """Return the text of a file with these entries; ``progress`` gets the number of those that YAML has.

        Raises:
            ImproperlyConfigured: YAML is wanted, and PyYAML is not installed.
        """
        states = {name: dict(entry.state) for name, entry in self.entries.items() if entry.state is not None}
        data: dict[str, Any] = {"redisbeater": FORMAT}
        data.update({"owner": self.owner} if self.owner else {})
        data.update({"id": self.schedule_id} if self.schedule_id else {})
        data["entries"] = {name: dict(entry.fields) for name, entry in self.entries.items()}
        data.update({"state": states} if states else {})
        return render(data, as_yaml=as_yaml, progress=progress)


def check_owner(owner: str, path: str = "owner") -> str:
    """Return the name of an owner, if it is one.

    Raises:
        InvalidEntry: it is empty, too long, or holds a control character.
    """
    if owner == "":
        fix = "write owner: NAME into the file, or pass --owner NAME; a backup is restored with --state"
        raise InvalidEntry(path, f"is missing; {fix}")
    if not isinstance(owner, str) or not owner.strip() or len(owner) > MOST_OWNER:
        raise InvalidEntry(path, f"expected a name of 1 to {MOST_OWNER} characters, got {quoted(owner)}")
    if char := unsafe_character(owner):
        raise InvalidEntry(path, f"has the control character {char}; leave it out")
    return owner


def _label(file: str) -> str:
    return shown(file if len(file) <= MOST_FILE else f"...{file[3 - MOST_FILE :]}")


def _check(data: Any, file: str) -> None:
    if not isinstance(data, dict):
        raise InvalidEntry(file, f"expected an object with redisbeater: {FORMAT} and entries, got {quoted(data)}")
    for key, value in data.items():
        if key not in _KEYS:
            raise InvalidEntry(f"{file}: {shown(key, 60)}", f"is not a part of a file{did_you_mean(key, _KEYS)}")
        if not isinstance(value, _KEYS[key]) and not (value is None and key == "defaults"):
            raise InvalidEntry(f"{file}: {key}", f"expected {_NAMES[_KEYS[key][0]]}, got {quoted(value)}")
        if key not in ("defaults", "entries"):  # their fields are checked one by one
            check_value(value, f"{file}: {key}")
    if data.get("redisbeater") is not None and data["redisbeater"] != FORMAT:
        raise InvalidEntry(f"{file}: redisbeater", f"is format {data['redisbeater']}; this version reads {FORMAT}")
    for needed in ("redisbeater", "entries"):
        if needed not in data:
            raise InvalidEntry(f"{file}: {needed}", f"is missing; a file begins with redisbeater: {FORMAT}")
    if data.get("owner"):
        check_owner(data["owner"], f"{file}: owner")


def _with_defaults(fields: Mapping[str, Any], defaults: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the fields with those of the defaults that are not among them; options are merged by name."""
    merged = {**defaults, **fields}
    options, more = defaults.get("options"), fields.get("options")
    if isinstance(options, dict) and isinstance(more, dict):
        merged["options"] = {**options, **more}
    if "name" in merged:
        raise InvalidEntry(f"{place}: $.name", "is the key of the entry already; leave it out")
    return merged
