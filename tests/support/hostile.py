"""What hostile and faulty programs write into a schedule: strategies for each field of an entry and for each key.

The writes are raw commands. Texts are bytes, because a program may write what is no UTF-8. Most definitions and metas
are JSON of nearly the right form: what is wrong at the first byte tests the first line of a parser only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery.schedules import BaseSchedule
from hypothesis import strategies as st

from redisbeater import InvalidEntry, LockNotOwnedError, StoreError, StoreUnavailable

__all__ = ("ATTACKS", "CLAIM", "Attack", "Command", "Entry", "Key", "Member", "Unpredictable", "entries", "to_json")

#: A command of Redis.
Command = tuple[bytes, ...]

#: Digits that Python still converts to a number, though it does not print a number one above.
NINES = "9" * 4300

DEPTH = 9000

#: A member of the schedule that begins with this gets the prefix of the schedule instead.
PREFIX = b"<prefix>"

#: An id of a claim that no beat has made.
CLAIM = b"0123456789abcdef0123456789abcdef"

#: What a JSON value of Python stands for that Python itself does not write.
TOKENS = {
    '"<nines>"': NINES,
    '"<more nines>"': NINES + "9",
    '"<minus nines>"': f"-{NINES}",
    '"<deep list>"': "[" * DEPTH + "]" * DEPTH,
    '"<deep object>"': '{"a":' * DEPTH + "1" + "}" * DEPTH,
    '"<deep>"': "[" * 700 + "]" * 700,
    '"<beyond a float>"': "1e999",
    '"<half a surrogate>"': '"\\ud800"',
}

#: Escapes of a terminal, lines that look like a log's, marks that turn the direction of a text.
SPOOFS = (
    "\x1b[2J\x1b]0;x\x07",
    "a\n[2026-01-01 00:00:00,000: INFO/MainProcess] forged",
    "\r\x00\x7f\x9b",
    "\u202egnp\u2066",
)

BIG, TOO_BIG = 70_000, 1_100_000


def to_json(value: Any) -> bytes:
    """Return JSON with the numbers and depths that Python's own writer refuses."""
    text = json.dumps(value)
    for token, replacement in TOKENS.items():
        text = text.replace(token, replacement)
    return text.encode()


# One value that is wrong in some way

odd_texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", " ", "0", "-1", "nan", "UTC", "*", "é" * 300, "x" * 600, *SPOOFS]),
)
odd_numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([0, -1, 1e-300, 1e300, 2**53, 2**63, 10**25, float("nan"), float("inf"), -float("inf")]),
)
odd_tokens = st.sampled_from([token.strip('"') for token in TOKENS])
odd_scalars = st.one_of(st.none(), st.booleans(), odd_numbers, odd_texts, odd_tokens)
odd_values: st.SearchStrategy[Any] = st.recursive(
    odd_scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=5,
)

#: A stored text that is of no form at all.
raw_texts = st.one_of(
    st.binary(max_size=24),
    odd_texts.map(lambda text: text.encode("utf-8", "replace")),
    odd_values.map(to_json),
    st.sampled_from(
        [
            b"",
            b"\xff\xfe",
            b"\x00",
            b"{",
            b"[]",
            b"{}",
            b"null",
            b"NaN",
            b"-Infinity",
            b"inf",
            b"nan",
            b"abc 1",
            b"1e300",
            b"-1e300",
            b"1e-300",
            b"1e999",
            b"-0",
            b"0x1p3",
            b"1_000",
            "\u0661\u0662".encode(),
            NINES.encode(),
            b"0." + NINES.encode(),
            b"[" * DEPTH,
            b'{"a":1,"a":2}',
        ]
    ),
)
huge_texts = st.sampled_from([b"x" * BIG, b'"' + b"x" * BIG + b'"', b"x" * TOO_BIG, b"[" * BIG, b"9" * TOO_BIG])


_one_of_four = st.integers(0, 3)
_any_value = odd_values


@st.composite
def mostly(draw: st.DrawFn, usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any] = _any_value) -> Any:
    """Return what is right three times, and what is wrong once."""
    return draw(usual if draw(_one_of_four) else odd)


@st.composite
def some_of(draw: st.DrawFn, fields: dict[str, st.SearchStrategy[Any]], *, up_to: int = 3) -> dict[str, Any]:
    """Return an object with a few of the fields."""
    names = sorted(fields)
    chosen = {names[draw(st.integers(0, len(names) - 1))] for _ in range(draw(st.integers(0, up_to)))}
    return {name: draw(fields[name]) for name in sorted(chosen)}


# Times and schedules

zones = st.sampled_from(["UTC", "Europe/Vienna", "Asia/Kathmandu", "America/Scoresbysund", 3600, -86399, 86400, "../x"])
moments = some_of(
    {
        "year": mostly(st.sampled_from([1, 1970, 2025, 2026, 2027, 9999, 0, 10000])),
        "month": mostly(st.integers(0, 13)),
        "day": mostly(st.integers(0, 32)),
        "hour": mostly(st.integers(-1, 24)),
        "minute": mostly(st.integers(-1, 60)),
        "second": mostly(st.integers(-1, 61)),
        "microsecond": mostly(st.sampled_from([0, 999_999, 1_000_000])),
        "timezone": mostly(zones),
    },
    up_to=4,
).map(lambda parts: {"__type__": "datetime", "year": 2026, "month": 1, "day": 1, **parts})

seconds = st.sampled_from([1e-6, 0.001, 1, 5, 60, 3600, 86400.5, 1e9, 3e10, 0, -1, 1e-300])
intervals = st.fixed_dictionaries({"every": mostly(seconds)}, optional={"relative": mostly(st.booleans())})

slots = st.one_of(
    st.sampled_from(
        ["*", "*/5", "*/0", "60", "0", "1-", "5-1", "mon-fri", "31", "2", "feb", "1," * 500, "L", "1-9999999"]
    ),
    st.integers(-1, 60),
    st.lists(st.integers(0, 31), max_size=4),
)
crontabs = some_of(
    dict.fromkeys(("minute", "hour", "day_of_week", "day_of_month", "month_of_year", "second"), mostly(slots)), up_to=5
)

weekdays = st.one_of(
    st.integers(-1, 7),
    st.builds(
        lambda number, n, kind: {**({"__type__": "weekday"} if kind else {}), "wkday": number, "n": n},
        mostly(st.integers(-1, 8)),
        mostly(st.sampled_from([None, 1, -1, 5, 0, 60])),
        st.booleans(),
    ),
)
numbers = st.one_of(st.integers(-400, 400), weekdays, st.lists(st.one_of(st.integers(-400, 400), weekdays), max_size=4))
starts = st.sampled_from([0, 1, 1_700_000_000, 1_700_000_000.5, 4_000_000_000, -1e10, 253402300799, 1e15, 1e300])
rule_parts = st.builds(
    lambda needed, others: {**needed, **others},
    st.fixed_dictionaries({"freq": mostly(st.one_of(st.integers(0, 6), weekdays)), "dtstart": mostly(starts)}),
    some_of(
        {
            "interval": mostly(st.sampled_from([1, 2, 7, 0, -1, 10**9, 10**18])),
            "count": mostly(st.sampled_from([1, 5, 10**6, 10**12, 0, -1])),
            "until": mostly(starts),
            "wkst": mostly(weekdays),
            "timezone": mostly(zones),
            "dtstart_tz": mostly(st.sampled_from([0, 60, -1440, 1440, 10**9])),
            "until_tz": mostly(st.sampled_from([0, 60, 10**9])),
            **{
                name: mostly(numbers)
                for name in (
                    "bysetpos", "bymonth", "bymonthday", "byyearday", "byeaster", "byweekno", "byweekday", "byhour",
                    "byminute", "bysecond",
                )
            },
        },
        up_to=4,
    ),
)  # fmt: skip
lines = st.one_of(
    st.sampled_from(
        [
            "DTSTART:19700101T000000Z",
            "DTSTART;TZID=Europe/Vienna:20260101T090000",
            "DTSTART:99991231T235959Z",
            "DTSTART;TZID=Mars/Olympus:20260101T090000",
            "RRULE:FREQ=SECONDLY",
            "RRULE:FREQ=MINUTELY;COUNT=1000000000",
            "RRULE:FREQ=DAILY;BYHOUR=9,17;BYDAY=MO,-1FR",
            "RRULE:FREQ=SECONDLY;BYWEEKNO=40,41",
            "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
            "RRULE:FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=31",
            "RRULE:FREQ=WEEKLY;BYSETPOS=366;INTERVAL=99999999999999999999",
            "RRULE:FREQ=;=;",
            "EXRULE:FREQ=SECONDLY",
            "RDATE:20260101T000000Z,20250101T000000Z",
            "EXDATE:20260101T000000Z",
            "RDATE:" + ",".join(f"20250101T{n // 3600:02}{n // 60 % 60:02}{n % 60:02}Z" for n in range(0, 86400, 40)),
            "EXDATE;VALUE=DATE:2026",
            "BEGIN:VCALENDAR",
        ]
    ),
    odd_texts,
)
rules = st.one_of(
    rule_parts,
    st.lists(lines, max_size=4).map(lambda found: {"text": "\n".join(found)}),
    st.lists(lines, max_size=3).map(lambda found: {"text": "\n".join(["DTSTART:20200101T000000Z", *found])}),
    odd_values.map(lambda value: {"text": value}),
)

degrees = st.sampled_from([0, 48.2, 90, -90, 91, 180.5, 1e300])
suns = some_of(
    {
        "event": mostly(st.sampled_from(["sunrise", "solar_noon", "dawn_astronomical", "moonrise"])),
        "lat": mostly(degrees),
        "lon": mostly(degrees),
        "nowfun": odd_values,
    }
).map(lambda parts: {"event": "sunset", "lat": 48.2, "lon": 16.4, **parts})

#: What a schedule class of the application raises, and where; an error of our own must not pass for the store's.
ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (
        ValueError, ZeroDivisionError, RecursionError, MemoryError, StopIteration, AssertionError, KeyError, OSError,
        ConnectionError, InvalidEntry, StoreError, StoreUnavailable, LockNotOwnedError,
    )
}  # fmt: skip
PLACES = ("from_redisbeater", "remaining_estimate", "__repr__", "__eq__")


class Unpredictable(BaseSchedule):
    """A schedule class of an application: its data name the method that raises, and what."""

    def __init__(self, place: Any, error: Any) -> None:
        self._raises(place, error, "from_redisbeater")
        self.place, self.error = place, error

    @classmethod
    def from_redisbeater(cls, data: Any) -> Unpredictable:
        return cls(data["place"], data["error"])

    def to_redisbeater(self) -> Any:
        return {"place": self.place, "error": self.error}

    def remaining_estimate(self, last_run_at: datetime) -> Any:
        self._raises(self.place, self.error, "remaining_estimate")
        return self.error

    def is_due(self, last_run_at: datetime) -> Any:
        self._raises(self.place, self.error, "remaining_estimate")
        return self.error

    def __repr__(self) -> str:
        self._raises(self.place, self.error, "__repr__")
        return "<unpredictable>"

    def __eq__(self, other: object) -> bool:
        self._raises(self.place, self.error, "__eq__")
        return self is other

    __hash__ = BaseSchedule.__hash__

    @staticmethod
    def _raises(place: Any, error: Any, here: str) -> None:
        if place == here and isinstance(error, str) and error in ERRORS:
            raise (
                ERRORS[error]("of the application", "a reason") if error == "InvalidEntry" else ERRORS[error]("x" * 600)
            )


customs = st.fixed_dictionaries(
    {
        "import_path": mostly(st.just(f"{Unpredictable.__module__}.{Unpredictable.__qualname__}")),
        "data": mostly(
            st.fixed_dictionaries({"place": st.sampled_from(PLACES), "error": mostly(st.sampled_from(sorted(ERRORS)))})
        ),
    }
)


def _of_type(kind: str, fields: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return fields.map(lambda found: {"__type__": kind, **found})


schedules = st.one_of(
    _of_type("interval", intervals),
    _of_type("crontab", crontabs),
    _of_type("rrule", rules),
    _of_type("rrule", rule_parts),
    _of_type("solar", suns),
    _of_type("clocked", st.one_of(moments, odd_values).map(lambda at: {"at": at})),
    _of_type("custom", customs),
    st.builds(
        lambda schedule, name, value: {**schedule, name: value}, _of_type("interval", intervals), odd_texts, odd_values
    ),
    odd_values.map(lambda kind: {"__type__": kind}),
)

# Definition and meta

options = st.dictionaries(
    st.sampled_from(
        [
            "queue", "exchange", "routing_key", "priority", "expires", "countdown", "eta", "headers", "serializer",
            "compression", "task_id", "link", "link_error", "shadow", "delivery_mode", "producer", "connection", "app",
            "router", "route_name", "ignore_result", "time_limit", "soft_time_limit", "reply_to", "content_type",
            "group_id", "chord", "chain", "root_id", "parent_id", "replaced_task_nesting", "stamped_headers",
            "periodic_task_name", "result_cls", "task_type", "argsrepr", "__type__", "x",
        ]
    ),
    st.one_of(odd_values, moments),
    max_size=3,
)  # fmt: skip
definition_fields: dict[str, st.SearchStrategy[Any]] = {
    "name": odd_values,
    "task": st.one_of(odd_values, st.sampled_from(SPOOFS)),
    "args": st.one_of(st.lists(odd_values, max_size=3), odd_values),
    "kwargs": st.one_of(st.dictionaries(st.text(max_size=5), odd_values, max_size=2), odd_values),
    "options": st.one_of(options, odd_values),
    "schedule": odd_values,
    "enabled": odd_values,
    "timezone": st.one_of(zones, odd_values),
    "start_at": st.one_of(moments, odd_values),
    "end_at": st.one_of(moments, odd_values),
    "max_runs": st.one_of(st.integers(0, 3), odd_values),
    "on_finish": st.one_of(st.sampled_from(["keep", "disable", "delete"]), odd_values),
    "misfire_grace_time": st.one_of(seconds, odd_values),
    "coalesce": st.one_of(st.sampled_from(["all", "latest", "earliest"]), odd_values),
    "jitter": st.one_of(seconds, odd_values),
    "description": odd_values,
    "a field of others": odd_values,
}
definition_objects = st.builds(
    lambda schedule, others: {"task": "proj.hostile", "schedule": schedule, **others},
    schedules,
    some_of(definition_fields),
)
definitions = st.one_of(
    definition_objects.map(to_json),
    definition_objects.map(to_json),
    definition_objects.map(to_json),
    st.tuples(definition_objects.map(to_json), st.integers(0, 60)).map(lambda cut: cut[0][: cut[1]]),
    raw_texts,
)

counts = st.one_of(odd_values, odd_numbers, odd_tokens)
metas = st.one_of(
    some_of(
        {
            "last_run_at": st.one_of(moments, odd_values),
            "total_run_count": counts,
            "a field of others": odd_values,
        }
    ).map(to_json),
    raw_texts,
)
skips = st.one_of(
    st.dictionaries(
        st.one_of(st.sampled_from(["coalesced", "missed", "jitter"]), odd_texts),
        st.one_of(
            some_of(
                {
                    "count": counts,
                    "last": st.one_of(st.just("2026-01-01T00:00:00+00:00"), odd_values),
                    "first": odd_values,
                }
            ),
            odd_values,
        ),
        max_size=3,
    ).map(to_json),
    raw_texts,
)

# Entries, members and keys

number_texts = st.one_of(
    st.sampled_from(
        [b"1", b"0", b"1.5", b"1700000000.250000", b"-1", b"1e300", b"1e-300", b"-0", b"00001", b"+1", b"1e1"]
    ),
    raw_texts,
)
scores = st.sampled_from(
    [b"1", b"1", b"0", b"-0", b"1.5", b"1e-300", b"1700000000.123456789", b"-1", b"-inf", b"+inf", b"1e300", b"4e9"]
)
claim_ids = st.one_of(st.just(CLAIM), raw_texts)
field_values: dict[str, st.SearchStrategy[bytes]] = {
    "meta": metas,
    "fire_time": number_texts,
    "look_at": number_texts,
    "claim": claim_ids,
    "is_due_now": st.one_of(st.just(b"1"), raw_texts),
    "recorded_run": number_texts,
    "skipped": skips,
    "origin": st.one_of(st.sampled_from([b"proj abc", b"hostile \xff", b"proj"]), raw_texts),
    "last_error": raw_texts,
    "tries": number_texts,
    "failing_since": number_texts,
    "a field of others": raw_texts,
}
raw_names = st.one_of(
    st.sampled_from(
        [
            b"bad", b"bad 2", b"\xff\xfe", b"*", b"?[a]{b}", b"a:b", b"a::schedule", b"%s %d {}", b"../../x", b"--help",
            b" ", b"x" * 512, b"x" * 513, b"x" * 5000, b"a:" * 3000, "é".encode() * 300,
            *[spoof.encode() for spoof in SPOOFS],
        ]
    ),
    st.text(min_size=1, max_size=8).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(min_size=1, max_size=8),
)  # fmt: skip
names = raw_names.filter(lambda name: not name.startswith((b":", b"control", b"foreign")))


@dataclass(frozen=True)
class Entry:
    """The hash of an entry, and its member if there is one."""

    name: bytes
    fields: dict[str, bytes]
    score: bytes | None
    #: Whether the member is the bare name, as other programs may write it.
    is_bare: bool = False

    def commands(self, prefix: bytes) -> Iterator[Command]:
        """Yield what writes it."""
        key = prefix + self.name
        yield b"DEL", key
        yield b"HSET", key, *(part for name, text in self.fields.items() for part in (name.encode(), text))
        if self.score is not None:
            yield b"ZADD", prefix + b":schedule", self.score, self.name if self.is_bare else key


@dataclass(frozen=True)
class Member:
    """A member of the schedule that nothing belongs to, or something else."""

    member: bytes
    score: bytes

    def commands(self, prefix: bytes) -> Iterator[Command]:
        """Yield what writes it."""
        yield b"ZADD", prefix + b":schedule", self.score, self.member.replace(PREFIX, prefix)


@dataclass(frozen=True)
class Key:
    """One of beat's own keys, overwritten."""

    name: bytes
    command: Command

    def commands(self, prefix: bytes) -> Iterator[Command]:
        """Yield what writes it."""
        yield b"DEL", prefix + self.name
        yield self.command[0], prefix + self.name, *self.command[1:]


@dataclass(frozen=True)
class Attack:
    """What is written before a beat leads, and what is written while it leads."""

    before: list[Entry | Member | Key]
    meanwhile: list[Entry | Member | Key]


#: The name of a field and a text, for a text that is too large to be drawn with all others.
large_fields = st.tuples(st.sampled_from(["definition", *field_values]), huge_texts)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Return an entry with a definition and a few other fields, most of which fit together."""
    score = draw(st.one_of(scores, st.none()) if draw(st.integers(0, 7)) == 0 else scores)
    fields = {"definition": draw(definitions), **draw(some_of(field_values, up_to=4))}
    if "fire_time" in fields and draw(st.booleans()):
        fields["look_at"] = score or b"1"  # beat has written the fire time, as it seems
    if draw(st.integers(0, 15)) == 0:
        name, text = draw(large_fields)
        fields[name] = text
    if draw(st.integers(0, 15)) == 0 and len(fields) > 1:
        del fields["definition"]
    return Entry(draw(names), fields, score, draw(st.integers(0, 7)) == 0)


members = st.builds(
    Member,
    st.one_of(
        raw_names,
        raw_names.map(lambda name: PREFIX + name),
        st.sampled_from(
            [
                b"",
                PREFIX,
                *(PREFIX + name for name in (b":lock", b":schedule", b":broken", b":id", b":statics", b":format")),
            ]
        ),
        st.sampled_from(
            [b"foreign:hash", b"foreign:string", PREFIX + b"foreign:hash", PREFIX + b"foreign:list", b"foreign:list"]
        ),
    ),
    scores,
)
wrong_types = st.one_of(
    raw_texts.map(lambda text: (b"SET", text)),
    raw_texts.map(lambda text: (b"RPUSH", text)),
    raw_texts.map(lambda text: (b"SADD", text)),
    raw_texts.map(lambda text: (b"ZADD", b"1", text)),
    st.tuples(raw_texts, raw_texts).map(lambda pair: (b"HSET", *pair)),
    st.tuples(raw_texts, raw_texts).map(lambda pair: (b"XADD", b"*", *pair)),
)
reports = st.tuples(
    st.one_of(raw_names, st.just(b"bad"), raw_texts.map(lambda text: b":static:" + text)),
    st.one_of(raw_texts, huge_texts, st.fixed_dictionaries({"reason": odd_values, "since": odd_values}).map(to_json)),
).map(lambda pair: Key(b":broken", (b"HSET", *pair)))
own_keys = st.sampled_from(
    [b":id", b":broken", b":failing", b":statics", b":lock", b":format", b":claim:" + CLAIM, b":beats", b":new"]
)
keys = st.one_of(
    st.builds(Key, own_keys, wrong_types),
    st.builds(Key, st.sampled_from([b":id", b":lock", b":format"]), raw_texts.map(lambda text: (b"SET", text))),
    st.builds(Key, st.just(b":statics"), st.one_of(raw_names, raw_texts).map(lambda text: (b"SADD", text))),
    st.builds(Key, st.just(b":failing"), raw_names.map(lambda text: (b"ZADD", b"1", text))),
    reports,
)

_one_of_ten = st.integers(0, 9)
_entries = entries()


@st.composite
def writes(draw: st.DrawFn) -> Entry | Member | Key:
    """Return an entry most often: it has the most to be read."""
    number = draw(_one_of_ten)
    return draw(members if number == 0 else keys if number == 1 else _entries)


_lists_of_writes = st.lists(writes(), min_size=1, max_size=6)
ATTACKS = st.builds(Attack, _lists_of_writes, _lists_of_writes)
