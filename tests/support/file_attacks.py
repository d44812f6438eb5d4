"""Files of entries that are damaged or forged: JSON, YAML, TOML, other encodings, links; and what must hold."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import redis
from celery import Celery
from click.testing import CliRunner, Result
from hypothesis import strategies as st

from redisbeater import ScheduleStore
from redisbeater.cli import redisbeater
from support.hostile import (
    Unpredictable,
    definition_fields,
    definition_objects,
    mostly,
    odd_texts,
    odd_values,
    raw_texts,
    schedules,
    some_of,
    to_json,
)
from support.hostile_site import UNPRINTABLE, shown

__all__ = ("FILE_ATTACKS", "FileAttack", "FileSite")

#: Another file, for a command that takes several.
OTHER = '{"redisbeater": 1, "entries": {"b": {"task": "proj.work", "every": 60}}}'

#: Characters of a line that a command prints about a file.
LONGEST_LINE = 1_000

#: What a file holds that is no object of JSON, or is one that nobody should read.
TEXTS = (
    b"", b"\xef\xbb\xbf", b"---\n", b"--- 1\n--- 2\n", b"null", b"[]", b"redisbeater: 1", b"%YAML 9.9\n---\na: 1",
    b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", b"<<: {redisbeater: 1}", b"? [a, b]\n: 1", b"? {a: 1}\n: 1",
    b"!!python/object/apply:os.system [id]", b"&a *a", b"!<!> x", b"a: !!pairs x", b"a: !!merge x", b"{a: " * 2_000,
    b"[" * 5_000, b"- " * 3_000 + b"x", b"a: |\n" + b" " * 9_000, b"a: " + b"9" * 5_000, b"? " * 3_000, b"a: 1\na: 2",
    b'redisbeater = 1\n[entries.a]\ntask = "t"\nevery = "1m"\n', b'[[entries]]\nname = "a"', b"redisbeater: !!int x",
    b'{"redisbeater": 1, "entries": {"a": ' + b"[" * 5_000, b'{"a": "\\ud800"}', b"\t",
    b'{"redisbeater": NaN, "entries": {}}', b'{"redisbeater": true, "owner": "o", "entries": {}}',
)  # fmt: skip
#: The entries of a file of YAML that is right up to there.
YAML_ENTRIES = (
    b"&a {b: *a}", b"{a: {task: t, every: !!float .nan}}", b"!!set {a, b}", b"!!omap [a: 1]",
    b"{a: {task: !!binary eA==, every: 1m}}", b"{1: {task: t, every: 190:20:30}}", b"{~: {task: t, every: 1m}}",
    b"{a: {task: t, every: 0x" + b"f" * 5_000 + b"}}", b"{a: {task: t, every: 1e999}}", b"{a: !!null x}",
    b"{a: {task: t, at: 2030-13-45}}", b"{a: !!timestamp 2030-13-45}", b"{a: !!timestamp 2030-01-01}", b"{a: !!bool x}",
    b"{? [a] : {task: t, every: 1m}}", b"{a: {task: t, every: 1m, kwargs: {1: a, '1': b}}}",
    b"{a: {task: t, every: 1m, args: [!!python/name:os.system , !x 1]}}", b"{a: {task: t, <<: {every: 1m}}}",
)  # fmt: skip

RRULE = "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY"
words = st.one_of(
    st.sampled_from([{"every": "1h"}, {"cron": "0 9 * * 1-5"}, {"every": 60}, {"rrule": RRULE}]),
    st.sampled_from([{"at": "2030-01-01T09:00:00"}, {"solar": "sunset 48.2 16.4"}, {}]),
    st.tuples(st.sampled_from(["every", "cron", "rrule", "at", "solar"]), odd_values).map(lambda pair: dict([pair])),
    schedules.map(lambda schedule: {"schedule": schedule}),
)
fields = st.builds(
    lambda schedule, others: {"task": "proj.work", **schedule, **others},
    words,
    some_of({**definition_fields, "labels": odd_values, "skip": odd_values, "disabled_until": odd_values}, up_to=2),
)
names = st.one_of(st.sampled_from(["a", "report", ":own", "", "x" * 600, "a\nb", "\ud83d\ude00"]), odd_texts)
owners = mostly(st.sampled_from(["shop", "", "x" * 200, "a\nb"]))
files = st.builds(
    lambda entries, others: {"redisbeater": 1, "owner": "shop", "entries": entries, **others},
    st.dictionaries(names, mostly(fields, odd_values), max_size=3),
    some_of(
        {
            "redisbeater": odd_values,
            "owner": owners,
            "entries": odd_values,
            "defaults": mostly(fields, odd_values),
            "id": odd_values,
            "state": st.dictionaries(st.sampled_from(["a", "report", "b"]), odd_values, max_size=2),
            "others": odd_values,
        },
        up_to=2,
    ),
)


def to_yaml(value: Any) -> bytes:
    """Return a value as YAML; as JSON, which is nearly the same, where PyYAML is missing or takes none of it."""
    try:
        import yaml

        return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
    except Exception:
        return b"# JSON\n" + to_json(value)


def damage(text: bytes, how: str, place: int) -> bytes:
    """Return a text that was cut, doubled, encoded otherwise, or has another byte somewhere."""
    at = place % (len(text) + 1)
    if how in ("utf-16", "utf-32", "utf-8-sig"):
        return text.decode("utf-8", "replace").encode(how, "replace")
    return {
        "cut": text[:at],
        "doubled": text + text,
        "crlf": text.replace(b"\n", b"\r\n"),
        "tabs": text.replace(b"  ", b"\t"),
        **{name: text[:at] + byte + text[at + 1 :] for name, byte in BYTES.items()},
    }.get(how, text)


BYTES = {
    "nul": b"\0",
    "ff": b"\xff",
    "quote": b'"',
    "colon": b":",
    "bidi": "\u202e".encode(),
    "brace": b"}",
    "star": b"*",
}
whole = st.one_of(
    files.map(to_json),
    files.map(to_yaml),
    st.sampled_from(TEXTS),
    st.sampled_from(YAML_ENTRIES).map(lambda entries: b"redisbeater: 1\nowner: shop\nentries: " + entries),
    mostly(definition_objects).map(to_json),
    raw_texts,
)
damages = st.sampled_from(["none"] * 12 + ["cut", "doubled", "crlf", "tabs", "utf-16", "utf-32", "utf-8-sig", *BYTES])
contents = st.builds(damage, whole, damages, st.integers(0, 500))

#: What is run with the file, which each of them has in the place of ``FILE``.
COMMANDS = (
    ("apply", "FILE", "--yes"),
    ("apply", "FILE", "--yes"),
    ("apply", "FILE", "--yes", "--state"),
    ("apply", "FILE", "--yes", "--owner", "shop", "--adopt", "--json"),
    ("apply", "FILE", "--dry-run"),
    ("apply", "FILE", "--dry-run", "--json", "--state"),
    ("apply", "FILE", "other.json", "--yes", "--owner", "shop"),
    ("apply", "-", "--yes"),
    ("simulate", "--file", "FILE"),
    ("lint", "--file", "FILE"),
    ("create", "--json-file", "FILE"),
    ("export", "-o", "FILE"),
)
LINKS = ("none",) * 12 + ("to a file", "to itself", "to nothing", "to a folder", "folder", "forbidden")


@dataclass(frozen=True)
class FileAttack:
    """A command, the name and the bytes of its file, and whether it is a link."""

    command: tuple[str, ...]
    name: str
    content: bytes
    link: str = "none"


file_names = st.sampled_from(["f.json", "f.yaml", "f.yml", "f.toml", "f", "-f.yaml", "a\nb.json", "\u202ef", "é" * 60])
FILE_ATTACKS = st.builds(FileAttack, st.sampled_from(COMMANDS), file_names, contents, st.sampled_from(LINKS))


@dataclass
class FileSite:
    """A schedule on a real server, and a folder with the files of an attack.

    Arguments:
        url: of the server's database, which is emptied for each attack.
    """

    url: str
    prefix: str = "hostile:"
    figures: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.client = redis.Redis.from_url(self.url)
        self.app = Celery("hostile", broker="memory://", set_as_current=False)
        self.app.conf.update(
            result_expires=None,
            redisbeater_redis_url=self.url,
            redisbeater_key_prefix=self.prefix,
            redisbeater_schedule_classes=[Unpredictable],
        )
        self.store = ScheduleStore(self.app)

    def close(self) -> None:
        """Close the connections."""
        self.client.flushdb()
        self.client.close()

    def endure(self, attack: FileAttack) -> None:
        """Run a command with a file, and assert that it does it whole, or says what is wrong and does nothing."""
        self.client.flushdb()
        self.store.create("report", "proj.work", 60, kwargs={"pages": 3})
        with tempfile.TemporaryDirectory(prefix="redisbeater-") as folder:
            file = Path(folder, attack.name)
            Path(folder, "other.json").write_text(OTHER)
            lay(file, attack)
            arguments = [str(Path(folder, part)) if part == "other.json" else part for part in attack.command]
            arguments = [str(file) if part == "FILE" else part for part in arguments]
            before = self._dumps()
            result = self._run(arguments, attack.content)
            self._check(attack, result, before)
            if attack.command == ("apply", "FILE", "--yes") and result.exit_code == 0:
                again = self._run(arguments, b"")
                is_same = again.stdout.endswith("0 created, 0 changed, 0 deleted\n")
                assert is_same, f"applied again: {shown(again.output)}"
        self.figures["attacks"] += 1
        self.figures[f"{attack.command[0]} with exit code {result.exit_code}"] += 1

    def _run(self, arguments: list[str], text: bytes) -> Result:
        return CliRunner().invoke(redisbeater, arguments, obj=SimpleNamespace(app=self.app), input=text)

    def _dumps(self) -> dict[bytes, bytes | None]:
        return {key: self.client.dump(key) for key in self.client.scan_iter(count=1000)}

    def _check(self, attack: FileAttack, result: Result, before: dict[bytes, bytes | None]) -> None:
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        codes = {0, 1, 2} if attack.command[0] == "lint" else {0, 2}  # 1: it has found something
        assert result.exit_code in codes, f"exit code {result.exit_code}: {shown(result.output)}"
        assert "Traceback" not in result.output, shown(result.output)
        for line in result.output.splitlines():
            assert not UNPRINTABLE.search(line), f"cannot be printed: {shown(line)}"
        if result.exit_code == 2:
            self._check_error(result)
        is_reading = attack.command[0] in ("simulate", "lint", "export") or "--dry-run" in attack.command
        if result.exit_code == 2 or is_reading:
            assert self._dumps() == before, f"written in spite of it: {shown(result.output)}"
        elif "--json" in attack.command:
            json.loads(result.stdout, parse_constant=lambda text: 1 / 0)
        for name in self.store.names():
            self.store.get(name)  # what was written can be read

    def _check_error(self, result: Result) -> None:
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1, f"{len(errors)} errors: {shown(result.stderr)}"
        assert re.match("Error: .+?: .", errors[0]), f"an error without a place: {shown(errors[0])}"
        assert len(errors[0]) <= LONGEST_LINE, f"{len(errors[0])} characters: {shown(errors[0])}"
        left = [line for line in result.stderr.splitlines() if line != errors[0]]
        assert not left, f"more than an error: {shown(result.stderr)}"


def lay(file: Path, attack: FileAttack) -> None:
    """Put the file of an attack in its place."""
    target = file.with_name("target")
    if attack.link == "folder":
        file.mkdir()
    elif attack.link == "to itself":
        file.symlink_to(file)
    elif attack.link == "to nothing":
        file.symlink_to(target)
    elif attack.link == "to a folder":
        target.mkdir()
        file.symlink_to(target)
    else:
        target.write_bytes(attack.content)
        if attack.link == "to a file":
            file.symlink_to(target)
        else:
            target.rename(file)
        if attack.link == "forbidden":
            os.chmod(file, 0)
