"""``Export``: the entries of a file, or of a schedule that is to become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redisbeater.display import did_you_mean, quoted, shown, unsafe_character
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.files.text import decoded, parse, render
from redisbeater.model.json_text import check_value
from redisbeater.redaction import redacted

__all__ = ("Export", "FileEntry", "check_owner")

#: The version of the form of files.
FORMAT = 1

#: Characters of an owner's name, and of a file's in an error.
MOST_OWNER, MOST_FILE = 100, 60

_KEYS = {
    "redisbeater": (int,),
    "owner": (str,),
    "defaults": (dict,),
    "entries": (dict,),
    "state": (dict,),
    "id": (str,),
}


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
    """

    entries: Mapping[str, FileEntry]
    owner: str = ""
    schedule_id: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> Export:
        """Read a file.

        Raises:
            InvalidEntry: it cannot be read; the message names the place.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as exc:
            raise InvalidEntry(_label(str(path)), f"cannot be read: {exc}") from exc
        return cls.from_text(decoded(content, _label(str(path))), str(path))

    @classmethod
    def from_text(cls, text: str, file: str = "file") -> Export:
        """Read the text of a file, JSON or YAML; ``file`` is its name in errors.

        Raises:
            InvalidEntry: it cannot be read; the message names the place.
        """
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

    def without_secrets(self, patterns: Sequence[str]) -> Export:
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
            raise InvalidEntry(f"{file}: {key}", f"expected {_KEYS[key][0].__name__}, got {quoted(value)}")
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
