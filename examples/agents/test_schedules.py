"""Tests of what users may do: ``python -m pytest``. No beat runs, and nothing is sent."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import schedules
from celery import Celery
from schedules import MOST_OF_A_USER, Refused, add, leave, mine, remove

from redisbeater import EntryNotFound, InvalidEntry, RedisScheduleEntry
from redisbeater.testing import FakeClock, run_due

pytestmark = pytest.mark.usefixtures("redisbeater_app")


def test_the_agent_wakes_in_the_zone_of_its_user(redisbeater_app: Celery, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeClock(redisbeater_app, "2026-05-01 12:00") as clock:
        add(1, "0 9 * * *", "America/New_York", prompt=7)
        clock.move_to("2026-05-01 12:59:59Z")
        assert run_due(redisbeater_app) == []
        clock.move_to("2026-05-01 13:01Z")
        run_due(redisbeater_app, execute=True)

    assert capsys.readouterr().out == "user 1: prompt 7\n"


def test_a_user_who_asks_many_times_at_once_gets_no_more_than_the_quota() -> None:
    def ask(prompt: int) -> RedisScheduleEntry | None:
        try:
            return add(1, "0 9 * * *", "UTC", prompt)
        except Refused:
            return None

    with ThreadPoolExecutor(8) as pool:
        added = [entry for entry in pool.map(ask, range(20)) if entry is not None]

    assert len({entry.name for entry in added}) == len(added) == len(mine(1)) == MOST_OF_A_USER


def test_a_place_that_was_freed_can_be_taken_again() -> None:
    for prompt in range(MOST_OF_A_USER):
        add(1, "0 9 * * *", "UTC", prompt)
    remove(1, 3)

    assert add(1, "0 10 * * *", "UTC", 9).name == "user/1/3"
    with pytest.raises(EntryNotFound):
        remove(2, 3)


@pytest.mark.parametrize("when", ["* * * * *", "*/10 * * * *", "0,59 * * * *", "0 0,1 9 * * *"])
def test_what_would_run_too_often_is_refused(when: str) -> None:
    with pytest.raises(Refused, match="apart"):
        add(1, when, "UTC", 7)

    assert mine(1) == []


@pytest.mark.parametrize(("when", "zone", "field"), [("0 9 * *", "UTC", "cron"), ("0 9 * * *", "Moon", "timezone")])
def test_an_error_names_the_field(when: str, zone: str, field: str) -> None:
    with pytest.raises(InvalidEntry, match=field):
        add(1, when, zone, 7)


def test_who_leaves_takes_all_own_schedules_along_and_no_others() -> None:
    for user in (1, 12):
        add(user, "0 9 * * *", "UTC", 7)
        add(user, "0 10 * * *", "UTC", 8)

    leave(1)

    assert mine(1) == []
    assert [entry.name for entry in mine(12)] == ["user/12/1", "user/12/2"]
    assert set(schedules.store.names()) == {"user/12/1", "user/12/2"}
