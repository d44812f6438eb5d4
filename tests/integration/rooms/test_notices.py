"""When receivers are told of incidents: what the server keeps of that, by a clock that the tests move."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
import redis
from celery import Celery
from edit_ledger import ServerClock, scripts_by_the_clock_at
from support.ended_runs import end_runs

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context
from redisbeater.model.incident_rules import BadEnd, Opening
from redisbeater.store.incidents import Ongoing
from redisbeater.store.notices import Notice

#: More than every delay between two looks.
MINUTE, DAY = 60, 86_400


@pytest.fixture
def app(make_app: object) -> Celery:
    return make_app(redisbeater_track_runs=True, redisbeater_notify={"ops": "json://127.0.0.1:1"})  # type: ignore[operator,no-any-return]


@pytest.fixture
def clock(client: redis.Redis, prefix: str) -> Iterator[ServerClock]:
    with scripts_by_the_clock_at(client, f"{prefix}:clock"):
        yield ServerClock(client, f"{prefix}:clock")


class Told(NamedTuple):
    """What a receiver was told: after so many seconds of the test, of which incident, and whether that had ended."""

    at: int
    id: str
    has_ended: bool


def opening_of(entry: str, now: datetime, error: str, receivers: tuple[str, ...]) -> Opening:
    """Return the incident that an entry fails."""
    return Opening(
        kind="failed",
        entry=entry,
        since=now,
        why=error,
        fingerprint=error,
        first={"error": error},
        count=1,
        told=receivers,
    )


class Room:
    """A schedule, of which a test opens and closes incidents, and one receiver that is told of them."""

    def __init__(self, app: Celery, clock: ServerClock) -> None:
        self.app, self.clock, self.begin = app, clock, clock.now
        self.redis = Context.of(app).redis
        self.told: list[Told] = []

    def open(self, entry: str, error: str = "ValueError: no", *receivers: str) -> None:
        """Let an entry fail, and open its incident as a beat does."""
        if not self.redis.load(entry).exists:
            RedisScheduleEntry(entry, "proj.work", 3600, app=self.app).save()
        end_runs(self.app, entry, "F", error)
        self.redis.incidents.open([opening_of(entry, self.clock.now, error, receivers or ("ops",))])

    def close(self, entry: str) -> None:
        """Let a run of an entry end well, and close its incident as a beat does."""
        end_runs(self.app, entry, "S")
        self.redis.incidents.close([Ongoing("failed", entry, True)])

    def go_on(self, seconds: int, *, every: int = 10, takes: bool = True) -> None:
        """Let time pass, in which a beat tells the receiver whatever is to be told; or that does not take it."""
        for _ in range(0, seconds, every):
            self.clock.go_on(every)
            self.tell(takes=takes)

    def tell(self, *, takes: bool = True, token: str = "beat", receiver: str = "ops") -> list[Notice]:
        _, taken = self.redis.notices.take(token, [receiver], [receiver])
        notices = taken.get(receiver, [])
        if notices and takes:
            at = int((self.clock.now - self.begin).total_seconds())
            self.told += (Told(at, each.id, each.has_ended) for each in notices)
            self.redis.notices.told(receiver, notices)
        elif notices:
            self.redis.notices.failed(receiver, "refused")
        return notices

    @property
    def ends(self) -> list[bool]:
        """Of all that was told, whether it was an end."""
        return [each.has_ended for each in self.told]

    @property
    def messages(self) -> int:
        return len({each.at for each in self.told})


@pytest.fixture
def room(app: Celery, clock: ServerClock) -> Room:
    return Room(app, clock)


def test_what_begins_is_told_once_half_a_minute_later_and_its_end_as_well(room: Room) -> None:
    room.open("feed")
    room.go_on(20)
    assert room.told == []
    room.go_on(600)
    room.close("feed")
    room.go_on(600)

    assert room.ends == [False, True]
    assert [each.at for each in room.told] == [30, 650]


def test_what_begins_within_half_a_minute_is_one_message(room: Room) -> None:
    for number in range(37):
        room.open(f"feed{number}")
    room.go_on(120)

    assert (len(room.told), room.messages) == (37, 1)


def test_a_receiver_gets_one_message_a_minute_at_most(room: Room) -> None:
    for number in range(12):
        room.open(f"feed{number}")
        room.go_on(20)
    room.go_on(120)

    times = sorted({each.at for each in room.told})
    assert len(room.told) == 12
    assert all(later - earlier >= MINUTE for earlier, later in itertools.pairwise(times))


def test_what_has_ended_before_it_was_told_is_told_once(room: Room) -> None:
    room.open("feed")
    room.go_on(10)
    room.close("feed")
    room.go_on(600)

    assert [(each.at, each.has_ended) for each in room.told] == [(30, True)]


@pytest.mark.parametrize("period", [20, 60, 120, 240])
def test_an_hour_of_flapping_is_a_few_messages_and_its_last_state_is_known(room: Room, period: int) -> None:
    for _ in range(3600 // period):
        room.open("feed")
        room.go_on(period // 2)
        room.close("feed")
        room.go_on(period // 2)
    during = room.messages
    room.go_on(1200)

    assert 1 <= during <= 10
    assert room.ends[-1] is True
    assert room.messages <= during + 1


def test_what_begins_again_and_lasts_is_told_although_it_is_flapping(room: Room) -> None:
    for _ in range(2):
        room.open("feed")
        room.go_on(60)
        room.close("feed")
        room.go_on(660 if _ else 60)
    assert room.ends == [False, True, False, True]
    room.open("other")
    for _ in range(4):
        room.open("feed")
        room.go_on(60)
        room.close("feed")
        room.go_on(60)
    room.open("feed")

    room.go_on(1300)

    last = [each for each in room.told if each.id == room.told[0].id]
    newest = ScheduleStore(room.app).incidents.list("feed", only_open=True)
    assert newest
    assert [each.has_ended for each in room.told if each.id == newest[0].id][-1] is False
    assert last


def test_what_stays_open_is_told_once_a_day(room: Room) -> None:
    room.open("feed")
    room.go_on(3 * DAY + 60, every=600)

    assert len(room.told) == 4
    assert room.ends == [False] * 4


def test_what_somebody_acknowledged_is_not_told_again_until_it_fails_in_another_way(room: Room) -> None:
    room.open("feed")
    room.go_on(60)
    store = ScheduleStore(room.app)
    (incident,) = store.incidents.list()
    store.incidents.acknowledge(incident.id)
    room.go_on(2 * DAY, every=600)
    assert len(room.told) == 1

    end = BadEnd(run="another", at=room.clock.now, state="FAILURE", error="KeyError: other")
    room.redis.incidents.touch({"feed": end})
    room.go_on(60)

    assert len(room.told) == 2


def test_the_end_of_an_acknowledged_one_is_told(room: Room) -> None:
    room.open("feed")
    room.go_on(60)
    store = ScheduleStore(room.app)
    store.incidents.acknowledge(store.incidents.list()[0].id)
    room.close("feed")
    room.go_on(60)

    assert room.ends == [False, True]


def test_a_receiver_that_takes_nothing_is_tried_less_and_less_often_and_told_all_at_once(room: Room) -> None:
    room.open("feed")
    tries = []
    for second in range(0, 4 * 3600, 10):
        room.clock.go_on(10)
        if room.tell(takes=False):
            tries.append(second)
    waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]

    room.open("other")
    room.go_on(2 * 3600)

    assert (len(room.told), room.messages) == (2, 1)
    (known,) = room.redis.notices.receivers()
    assert (known.problem, known.since, known.tries) == ("", None, 0)


def test_what_keeps_a_receiver_from_it_is_known_since_when(room: Room) -> None:
    room.open("feed")
    room.go_on(40, takes=False)

    (known,) = room.redis.notices.receivers()
    assert (known.problem, known.tries) == ("refused", 1)
    assert known.since is not None
    assert room.clock.now - known.since < timedelta(seconds=60)
    assert known.next is not None
    assert known.next > room.clock.now


def test_an_end_that_nobody_could_be_told_for_a_day_is_dropped_and_what_is_open_is_not(room: Room) -> None:
    room.open("healed")
    room.open("broken")
    room.close("healed")
    dropped = 0
    for _ in range(0, DAY + 2 * 3600, 600):
        room.clock.go_on(600)
        _, taken = room.redis.notices.take("beat", ["ops"], ["ops"])
        if taken:
            dropped += room.redis.notices.failed("ops", "refused").dropped
    room.go_on(2 * 3600, every=600)

    assert dropped == 1
    assert room.ends == [False]


def test_of_two_beats_one_tells(room: Room) -> None:
    room.open("feed")
    room.clock.go_on(40)
    _, first = room.redis.notices.take("one", ["ops"], ["ops"])
    _, second = room.redis.notices.take("other", ["ops"], ["ops"])

    assert (len(first["ops"]), second) == (1, {})
    room.redis.notices.told("ops", first["ops"])
    room.clock.go_on(DAY // 2)
    assert room.tell(token="other") == []


def test_a_beat_that_died_while_it_told_is_followed_by_another(room: Room) -> None:
    room.open("feed")
    room.clock.go_on(40)
    assert room.redis.notices.take("one", ["ops"], ["ops"])[1]

    room.clock.go_on(60)
    assert room.tell(token="other") == []
    room.clock.go_on(61)
    assert len(room.tell(token="other")) == 1


def test_a_beat_that_leaves_it_lets_another_tell_at_once(room: Room) -> None:
    room.open("feed")
    room.clock.go_on(40)
    assert room.redis.notices.take("one", ["ops"], ["ops"])[1]
    room.redis.notices.leave("ops")

    assert len(room.tell(token="other")) == 1


def test_what_ended_while_its_begin_was_on_its_way_is_told_afterwards(room: Room) -> None:
    room.open("feed")
    room.clock.go_on(40)
    _, taken = room.redis.notices.take("beat", ["ops"], ["ops"])
    room.close("feed")
    room.redis.notices.told("ops", taken["ops"])

    room.go_on(120)

    assert room.ends == [True]


def test_each_receiver_is_told_by_itself(room: Room) -> None:
    room.open("feed", "ValueError: no", "ops", "night.2")
    room.clock.go_on(40)

    assert len(room.tell(receiver="ops")) == 1
    assert room.tell(receiver="ops") == []


def test_what_is_addressed_to_a_receiver_that_is_gone_goes_to_those_that_there_are(room: Room) -> None:
    room.open("feed", "ValueError: no", "former")
    room.clock.go_on(40)
    room.tell()
    room.clock.go_on(70)
    room.tell()

    assert len(room.told) == 1


def test_an_incident_that_nobody_is_told_of_leaves_no_notice(room: Room, client: redis.Redis, prefix: str) -> None:
    RedisScheduleEntry("feed", "proj.work", 3600, app=room.app).save()
    end_runs(room.app, "feed", "F")
    room.redis.incidents.open([opening_of("feed", room.clock.now, "ValueError: no", ())])

    assert len(ScheduleStore(room.app).incidents.list(only_open=True)) == 1
    assert not client.exists(f"{prefix}:notices")


def test_keys_of_another_type_keep_no_incident_from_being_recorded(
    room: Room, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:notices", "not ours")
    client.set(f"{prefix}:told", "not ours")
    room.open("feed")
    room.clock.go_on(40)

    assert len(ScheduleStore(room.app).incidents.list(only_open=True)) == 1
    assert room.tell() == []
    client.delete(f"{prefix}:notices", f"{prefix}:told")
