"""Two applications on one prefix: what the second one declares is not stored, and it is told so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from celery import Celery

from redisbeater import EntryNotFound, RedisScheduleEntry, RedisScheduler, ScheduleStore

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
LetPass = Callable[[float], None]

EVERY = {"task": "proj.work", "schedule": 3600.0}


class Shops:
    """Two applications, each with a beat; that of the first one leads."""

    def __init__(
        self, make_app: MakeApp, make_scheduler: MakeScheduler, let_pass: LetPass, client: redis.Redis, lock: str
    ) -> None:
        self.let_pass = let_pass
        self.first, self.second = (
            make_app("shop1", beat_schedule={"a": EVERY}),
            make_app("shop2", beat_schedule={"b": EVERY}),
        )
        self.leader, self.standby = make_scheduler(self.first), make_scheduler(self.second)
        self.leader.tick()
        self.client, self.lock, self.seconds = client, lock, 100_000
        self.renew()
        self.standby.tick()

    def renew(self) -> None:
        """Let the leader keep its lock, whatever the clock of the standby says."""
        self.seconds += 1
        assert self.client.expire(self.lock, self.seconds)

    def wait(self, minutes: int) -> None:
        """Let that time pass for the standby, which looks once a minute."""
        for _ in range(minutes):
            self.let_pass(61)
            self.renew()
            self.standby.tick()

    def reasons(self, app: Celery) -> dict[str, str]:
        return ScheduleStore(app).broken()


@pytest.fixture
def shops(
    make_app: MakeApp, make_scheduler: MakeScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> Shops:
    return Shops(make_app, make_scheduler, let_pass, client, f"{prefix}:lock")


def test_lint_and_why_of_the_second_application_name_the_leader_at_once(shops: Shops) -> None:
    store = ScheduleStore(shops.second)

    (finding,) = [each for each in store.lint() if each.name == "b"]
    answer = store.why("b")

    assert finding.rule == "broken"
    for text in (finding.text, answer.sentence):
        assert "declared, but not stored: the leader" in text
        assert "of application 'shop1', this is one of 'shop2'; set redisbeater_key_prefix" in text


def test_what_the_first_application_does_not_declare_is_unknown_to_it(shops: Shops) -> None:
    with pytest.raises(EntryNotFound):
        ScheduleStore(shops.first).why("b")


def test_ten_minutes_later_it_is_listed_as_broken(shops: Shops, caplog: pytest.LogCaptureFixture) -> None:
    shops.wait(9)
    assert shops.reasons(shops.second) == {}

    shops.wait(3)

    assert list(shops.reasons(shops.second)) == list(shops.reasons(shops.first)) == ["b"]
    shops.leader.tick()  # it looks
    assert ScheduleStore(shops.second).health(strict=True).failed == ("entries",)
    assert ScheduleStore(shops.second).why("b").verdict == "broken"
    assert [each.rule for each in ScheduleStore(shops.second).lint() if each.name == "b"] == ["broken", "incident"]
    assert caplog.text.count("static entry 'b' is declared, but not stored") == 1


def test_it_is_logged_and_written_once(
    shops: Shops, caplog: pytest.LogCaptureFixture, client: redis.Redis, prefix: str
) -> None:
    shops.wait(12)
    report = client.hget(f"{prefix}:broken", ":static:b")

    shops.wait(12)

    assert client.hget(f"{prefix}:broken", ":static:b") == report
    assert caplog.text.count("is declared, but not stored") == 1


def test_an_entry_of_that_name_ends_it(shops: Shops) -> None:
    shops.wait(12)
    RedisScheduleEntry("b", "proj.work", 60, app=shops.second).save()

    shops.wait(4)

    assert shops.reasons(shops.second) == {}


def test_the_end_of_that_beat_ends_it(shops: Shops) -> None:
    shops.wait(12)

    shops.standby.close()

    assert shops.reasons(shops.first) == {}


def test_a_beat_that_begins_to_lead_forgets_it_where_no_beat_of_that_application_runs(
    shops: Shops, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    shops.wait(12)
    client.delete(f"{prefix}:beats", f"{prefix}:lock")  # as when both beats were killed a minute ago

    make_scheduler(shops.first).tick()

    assert shops.reasons(shops.first) == {}


def test_its_own_beat_stores_it_when_it_leads(shops: Shops, client: redis.Redis, prefix: str) -> None:
    shops.wait(12)
    client.delete(f"{prefix}:lock")

    shops.standby.tick()

    assert shops.reasons(shops.second) == {}
    assert "b" in set(ScheduleStore(shops.second).names())
