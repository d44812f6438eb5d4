"""What once ended beat, at each start: it lives on, sends the other entries on time, and says what is wrong.

Every test has a real beat, writes before it starts and the same writes while it leads. Entries of the control run every
second all the time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from support.controls import Controls
from support.hostile_site import LONGEST_REASON
from support.project import Process, Project
from support.waiting import wait_until

from redisbeater import ScheduleStore

INTERVAL = {"__type__": "interval", "every": 5}
NINES = "9" * 4300


Fields = dict[str, str]


def definition(schedule: dict[str, Any] = INTERVAL, **fields: Any) -> str:
    return json.dumps({"task": "proj.note", "schedule": schedule, **fields})


def rule(**parts: Any) -> str:
    return definition({"__type__": "rrule", "dtstart": 1_700_000_000, **parts})


def deep(field: str, depth: int) -> str:
    """A definition with a field that is nested so deeply."""
    return f'{definition()[:-1]}, "{field}": {"[" * depth}{"]" * depth}}}'


WEEKDAY = {"wkday": 7}
MEANWHILE = "2026-01-01T00:00:00+00:00"

#: The fields of a hostile entry, and what its reason has; None: it is worked around, and the entry may run.
ENTRIES: dict[str, tuple[Fields, str | None]] = {
    "C1 a fire time that is no number": ({"definition": definition(), "fire_time": "abc", "look_at": "1"}, None),
    "C1 a fire time that is not a number": ({"definition": definition(), "fire_time": "nan", "look_at": "1"}, None),
    "C1 a fire time before all times": ({"definition": definition(), "fire_time": "-1e300", "look_at": "1"}, None),
    "C1 a fire time after all times": ({"definition": definition(), "fire_time": "1e300", "look_at": "1"}, None),
    "C1 a fire time of 4,300 digits": ({"definition": definition(), "fire_time": NINES, "look_at": "1"}, None),
    "C1 a fire time of the format before": ({"definition": definition(), "fire_time": "abc 1"}, None),
    "C3 a run count of 4,300 digits": (
        {"definition": definition(), "meta": f'{{"last_run_at": null, "total_run_count": {NINES}}}'},
        "total_run_count",
    ),
    "C4 a count of skips of 4,300 digits": (
        {
            "definition": definition(),
            "skipped": f'{{"coalesced": {{"count": {NINES}, "last": "{MEANWHILE}"}}}}',
        },
        None,
    ),
    "C5 a weekday that no week has": ({"definition": rule(freq=WEEKDAY)}, "$.schedule"),
    "C5 a day of the year that is a weekday": ({"definition": rule(freq=0, byyearday=WEEKDAY)}, "$.schedule"),
}

#: Definitions of hashes without a member; the repair reads them, not the claim.
UNSCHEDULED = {
    "an unknown field nested 600 deep": deep("unknown", 600),
    "an unknown field nested 950 deep": deep("unknown", 950),
    "arguments nested 700 deep": deep("args", 700),
    "a weekday that no week has": rule(freq=WEEKDAY),
}

#: Bookkeeping keys of one beat, and the commands that make them nonsense.
KEYS: dict[str, list[tuple[str, ...]]] = {
    "texts": [("SET", ":id", "hello"), ("SET", ":broken", "hello"), ("SET", ":statics", "hello")],
    "other types": [("RPUSH", ":id", "hello"), ("RPUSH", ":broken", "hello"), ("HSET", ":statics", "hello", "world")],
}


class Watched:
    """A beat and its control entries."""

    def __init__(self, project: Project, beat: Process, controls: Controls) -> None:
        self.project, self.beat, self._controls = project, beat, controls

    @property
    def is_alive(self) -> bool:
        return self.beat.popen.poll() is None

    def runs_on_time(self) -> None:
        self._controls.assert_on_time(is_alive=lambda: self.is_alive)

    def end(self) -> int:
        """End beat as a supervisor would; return its exit code."""
        return self.beat.end()


@contextmanager
def watched(project: Project) -> Iterator[Watched]:
    """Start a beat. When it leads, start the control entries."""
    beat = project.beat()
    beat.says("leading as")
    with Controls(project.app(), project.broker) as controls:
        yield Watched(project, beat, controls)


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Callable[[str, Fields], None]:
    """Write an entry that is due, unchecked."""

    def write(name: str, fields: Fields) -> None:
        client.hset(prefix + name, mapping=fields)  # type: ignore[arg-type]
        client.zadd(f"{prefix}:schedule", {prefix + name: 1})

    return write


@pytest.fixture
def clean(client: redis.Redis) -> Iterator[None]:
    """Leave no key of a wrong type for the fixture that looks for unknown keys."""
    yield
    client.flushdb()


def reasons(project: Project) -> dict[str, str]:
    return ScheduleStore(project.app()).broken()


def assert_is_listed(project: Project, name: str, part: str) -> None:
    reason = wait_until(lambda: reasons(project).get(name), f"{name!r} among the broken entries")
    assert part in reason
    assert len(reason) <= LONGEST_REASON


def warnings(beat: Process) -> list[str]:
    """The lines of beat from warnings on; the banner names keys too."""
    return re.findall(r"^\[[-:, \d]*: (?:WARNING|ERROR|CRITICAL)/.*", beat.output(), re.MULTILINE)


def warns_of(beat: Process, text: str) -> None:
    """Wait until a warning or an error has a text."""
    wait_until(lambda: any(text in line for line in warnings(beat)), f"a warning of {text!r}")


def assert_lines_are_short(beat: Process) -> None:
    """None is longer than a reason and what the log puts before it."""
    assert max(map(len, warnings(beat)), default=0) <= LONGEST_REASON + 100


def test_hostile_entries_neither_end_beat_nor_delay_the_others(
    project: Project, write: Callable[[str, Fields], None]
) -> None:
    for name, (fields, _) in ENTRIES.items():
        write(f"before: {name}", fields)
    with watched(project) as beat:
        beat.runs_on_time()
        for name, (fields, _) in ENTRIES.items():
            write(f"meanwhile: {name}", fields)
        beat.runs_on_time()
        for name, (_, reason) in ENTRIES.items():
            for when in ("before", "meanwhile") if reason else ():
                assert_is_listed(project, f"{when}: {name}", reason or "")
        listing = project.celery("redisbeater", "list")
        assert listing.popen.wait() == 0, listing.output()
        assert listing.output().count("before: ") == len(ENTRIES)
        assert_lines_are_short(beat.beat)
        assert beat.end() == 0


def test_unscheduled_hashes_that_cannot_be_restored_end_no_beat(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    for name, text in UNSCHEDULED.items():
        client.hset(prefix + name, "definition", text.replace("{", f'{{"name": "{name}", ', 1))
    with watched(project) as beat:
        beat.runs_on_time()
        for name in UNSCHEDULED:
            wait_until(
                lambda name=name: name in reasons(project) or client.zscore(f"{prefix}:schedule", prefix + name),
                f"the fate of {name!r}",
            )
        assert beat.end() == 0


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("commands", KEYS.values(), ids=KEYS)
def test_bookkeeping_keys_with_nonsense_are_named_and_end_no_beat(
    make_project: Callable[..., Project], client: redis.Redis, prefix: str, commands: list[tuple[str, ...]]
) -> None:
    project = make_project(beat_schedule={"static": {"task": "proj.note", "schedule": 3600.0}})

    def overwrite() -> None:
        with client.pipeline(transaction=True) as pipe:  # beat makes some of these keys again at once
            for verb, name, *values in commands:
                pipe.delete(prefix + name)
                pipe.execute_command(verb, prefix + name, *values)
            pipe.execute()

    overwrite()
    with watched(project) as beat:
        beat.runs_on_time()
        overwrite()
        beat.runs_on_time()
        for _, name, *_ in commands:
            warns_of(beat.beat, prefix + name)
        assert "static" in set(ScheduleStore(project.app()).names())
        assert beat.end() == 0


def test_m4_a_broken_entry_is_quarantined_where_the_list_of_them_is_a_text(
    project: Project, client: redis.Redis, prefix: str, write: Callable[[str, Fields], None], clean: None
) -> None:
    client.set(f"{prefix}:broken", "hello")
    write("bad", {"definition": "{"})
    with watched(project) as beat:
        beat.runs_on_time()
        wait_until(lambda: (client.zscore(f"{prefix}:schedule", f"{prefix}bad") or 0) < 0, "the quarantine")
        warns_of(beat.beat, f"{prefix}:broken")
        assert beat.end() == 0


@pytest.mark.usefixtures("clean")
def test_m5_a_lock_without_time_to_live_is_reported_and_beat_leads_when_it_is_gone(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:lock", "somebody else")
    beat = project.beat()
    warns_of(beat, f"{prefix}:lock")
    assert "somebody else" in beat.output()
    client.delete(f"{prefix}:lock")
    beat.says("leading as")
    assert beat.end() == 0


@pytest.mark.usefixtures("clean")
def test_m5_a_lock_that_is_overwritten_while_beat_leads_is_reported_and_beat_leads_again(
    make_project: Callable[..., Project], client: redis.Redis, prefix: str
) -> None:
    project = make_project(redisbeater_lock_lost="standby")
    with watched(project) as beat:
        client.set(f"{prefix}:lock", "somebody else")
        warns_of(beat.beat, f"{prefix}:lock")
        client.delete(f"{prefix}:lock")
        wait_until(lambda: beat.beat.output().count("leading as") == 2, "beat to lead again")
        beat.runs_on_time()
        assert beat.end() == 0


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("verb", ["RPUSH", "SADD"])
def test_m5_a_lock_of_a_wrong_type_is_named_and_ends_no_beat(
    project: Project, client: redis.Redis, prefix: str, verb: str
) -> None:
    client.execute_command(verb, f"{prefix}:lock", "somebody else")
    beat = project.beat()
    warns_of(beat, f"{prefix}:lock")
    assert beat.popen.poll() is None
    if client.type(f"{prefix}:lock") != "string":  # else beat has replaced it
        client.delete(f"{prefix}:lock")
    beat.says("leading as")
    assert beat.end() == 0


@pytest.mark.usefixtures("clean")
def test_a_run_that_was_sent_is_counted_although_another_entry_of_its_batch_is_hostile(
    project: Project, client: redis.Redis, prefix: str, write: Callable[[str, Fields], None]
) -> None:
    """C3: the whole batch was uncommitted, and an innocent hourly entry was sent at each restart."""
    hour = definition({"__type__": "interval", "every": 3600})
    write("hourly", {"definition": hour})
    for name, (fields, _) in ENTRIES.items():
        write(name, fields)
    for _ in range(2):
        with watched(project) as beat:
            beat.runs_on_time()
            assert beat.end() == 0

    sent = [json.loads(message)["headers"]["periodic_task_name"] for message in project.queued()]
    assert sent.count("hourly") == 1
    assert (client.zscore(f"{prefix}:schedule", f"{prefix}hourly") or 0) > time.time()
