"""A calendar that changes: beat plans the entries that name it again, each once, whoever ends in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from click.testing import Result
from edit_ledger import ServerClock, scripts_by_the_clock_at
from outbox import Sent, run_due

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, cron
from redisbeater.beat import replanning
from redisbeater.context import Context

VIENNA, DAY = ZoneInfo("Europe/Vienna"), timedelta(days=1)


class Site:
    """A schedule whose clock stands still until the test moves it; its zone is that of Vienna."""

    def __init__(
        self, app: Celery, clock: ServerClock, folder: Path, run: Callable[..., Result],
        make_scheduler: Callable[..., Any],
    ) -> None:  # fmt: skip
        self.app, self.clock, self.store = app, clock, ScheduleStore(app)
        self._folder, self._run, self._make = folder, run, make_scheduler

    def at(self, text: str) -> None:
        """Set the clock to a local time."""
        self.clock.set(datetime.fromisoformat(text).replace(tzinfo=VIENNA).astimezone(timezone.utc))

    def days_off(self, *days: str, years: str = "2026", weekend: str = "sat,sun", name: str = "at") -> None:
        """Store the calendar at: all days count but these and those of the weekend."""
        path = self._folder / "days.txt"
        path.write_text("".join(f"{day} off\n" for day in days))
        options = ("--file", str(path), "--years", years, "--weekend", weekend)
        result = self._run("calendar", "import", name, *options)
        assert result.exit_code == 0, result.output

    def create(self, name: str = "report", text: str = "0 9 * * *", **fields: Any) -> None:
        self.store.create(name, "shop.report", cron(text), **{"calendar": "at", **fields})

    def beat(self) -> RedisScheduler:
        beat: RedisScheduler = self._make(self.app)
        return beat

    def end_without_a_word(self) -> None:
        """Free the lock of a beat that does nothing any more."""
        redis = Context.of(self.app).redis
        self.clock.client.delete(redis.keys.lock)

    def due(self, name: str = "report") -> str:
        """The next fire time of an entry, as its clock shows it."""
        due_at = self.store.get(name).due_at
        return f"{due_at.astimezone(VIENNA):%Y-%m-%d %H:%M}" if due_at else "none"

    def sent(self, beat: RedisScheduler) -> list[str]:
        return shown(run_due(beat))

    def is_planned(self) -> bool:
        versions = Context.of(self.app).redis.calendars.versions()
        return versions.newest == versions.planned


def shown(sent: Iterable[Sent]) -> list[str]:
    return [f"{run.name} {run.fire_time.astimezone(VIENNA):%m-%d %H:%M}" for run in sent]


@pytest.fixture
def site(
    make_app: Callable[..., Celery], client: redis.Redis, prefix: str, tmp_path: Path,
    make_scheduler: Callable[..., Any], run: Callable[..., Result], app: Celery,
) -> Iterator[Site]:  # fmt: skip
    app.conf.timezone = "Europe/Vienna"
    with scripts_by_the_clock_at(client, f"{prefix}clock"):
        site = Site(app, ServerClock(client, f"{prefix}clock"), tmp_path, run, make_scheduler)
        site.at("2026-10-20 12:00")
        site.days_off("2026-10-26", "2026-11-01")
        yield site


def test_an_entry_fires_on_the_days_that_count_and_no_others(site: Site) -> None:
    site.create()
    beat = site.beat()
    sent = []
    for day in range(21, 32):
        site.at(f"2026-10-{day} 09:30")
        sent += site.sent(beat)

    assert sent == [f"report 10-{day} 09:00" for day in (21, 22, 23, 27, 28, 29, 30)]


@pytest.mark.parametrize(
    ("fields", "now", "days", "expected"),
    [
        pytest.param({}, "10-23 12:00", ["10-26", "10-27"], "10-28", id="the-day-does-not-count-any-more"),
        pytest.param({}, "10-23 12:00", [], "10-26", id="a-day-before-counts-now"),
        pytest.param({}, "10-26 12:00", [], "10-27", id="a-day-that-has-passed-owes-nothing"),
        pytest.param(
            {"text": "0 9 1 * *", "roll": "next"}, "10-30 12:00", ["11-01", "11-02"], "11-03", id="rolls-farther"
        ),
        pytest.param({"text": "0 9 26 * *", "roll": "next"}, "10-26 12:00", [], "10-26", id="rolls-to-what-has-passed"),
        pytest.param({"text": "0 9 26 * *", "roll": "next"}, "10-26 08:00", [], "10-26", id="rolls-to-what-comes"),
        pytest.param({"text": "0 9 27 * *", "roll": "previous"}, "10-25 12:00", ["10-26", "10-27"], "10-23", id="back"),
    ],
)
def test_the_pending_run_keeps_its_day(
    site: Site, fields: dict[str, Any], now: str, days: list[str], expected: str
) -> None:
    site.create(**fields)
    beat = site.beat()
    site.at(f"2026-{now}")
    site.sent(beat)
    site.days_off(*(f"2026-{day}" for day in days))
    sent = site.sent(beat)

    found = sent[0].removeprefix("report ").removesuffix(" 09:00") if sent else site.due()[5:10]
    assert found == expected
    assert site.is_planned()
    assert site.sent(beat) == []


def test_what_ran_before_its_day_had_come_does_not_run_again_on_it(site: Site) -> None:
    site.create(text="0 9 31 10,12 *", roll="previous")
    beat = site.beat()
    site.at("2026-10-30 09:30")
    assert site.sent(beat) == ["report 10-30 09:00"]
    site.days_off(weekend="sun")  # 31 October, a Saturday, counts now
    for day in ("10-30 10:00", "10-31 09:30"):
        site.at(f"2026-{day}")
        assert site.sent(beat) == []

    assert site.due() == "2026-12-31 09:00"


def test_a_time_that_a_program_set_stays(site: Site, client: redis.Redis, prefix: str) -> None:
    site.create()
    beat = site.beat()
    site.sent(beat)
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": site.clock.now.timestamp() + 12_345})
    before = site.due()
    site.days_off("2026-10-21")
    site.sent(beat)

    assert site.due() == before


def test_an_entry_that_is_due_is_planned_before_it_is_sent_and_all_others_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"e{number:02}" for number in range(30)]
    for name in names:
        site.create(name)
    site.create("other", calendar=None)
    beat = site.beat()
    run_due(beat)
    monkeypatch.setattr(replanning, "PAGE_ENTRIES", 2)
    monkeypatch.setattr("redisbeater.beat.calendar_change.SLICE_SECONDS", 0.0001)
    site.at("2026-10-21 09:30")
    site.days_off("2026-10-21", "2026-10-22")

    assert site.sent(beat) == ["other 10-21 09:00"]
    assert {site.due(name) for name in names} == {"2026-10-23 09:00"}


def test_entries_are_planned_again_once_by_the_successor_of_a_beat_that_ends_in_the_middle(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"e{number}" for number in range(9)]
    for name in names:
        site.create(name)
    first = site.beat()
    run_due(first)
    site.days_off("2026-10-21")
    written: list[str] = []
    write_page = replanning.write_page

    def write(context: Any, changes: Any, **options: Any) -> Any:
        result = write_page(context, changes, **options)
        written.extend(result.written)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(replanning, "PAGE_ENTRIES", 4)
        patch.setattr(replanning, "write_page", write)
        patch.setattr("redisbeater.beat.calendar_change.SLICE_SECONDS", 0.0001)
        while len(written) < 4:
            first.tick()
    assert not site.is_planned()
    site.end_without_a_word()

    with monkeypatch.context() as patch:
        patch.setattr(replanning, "write_page", write)
        run_due(site.beat())

    assert sorted(written) == names
    assert {site.due(name) for name in names} == {"2026-10-22 09:00"}
    assert site.is_planned()


def test_an_entry_that_a_beat_has_claimed_is_planned_after_its_commit(site: Site) -> None:
    site.create()
    site.create("slow")
    beat = site.beat()
    run_due(beat)
    context = Context.of(site.app)
    site.at("2026-10-21 09:30")
    version = str(context.redis.calendars.versions().newest)
    claim = context.redis.claim(token=context.redis.leader(), limit=1, calendars=version)
    [claimed] = claim.entries
    site.days_off("2026-10-21", "2026-10-22")
    other = {"report": "slow", "slow": "report"}[claimed.name]
    run_due(beat)
    assert site.due(other) == "2026-10-23 09:00"
    assert context.redis.load(claimed.name).is_claimed

    site.clock.go_on(3_600)  # its lease is over, and it was perhaps sent
    assert site.sent(beat) == [f"{claimed.name} 10-21 09:00"]
    site.clock.go_on(10)
    run_due(beat)
    assert site.due(claimed.name) == "2026-10-23 09:00"


def test_a_save_by_another_version_than_the_stored_one_plans_again(site: Site, make_app: Callable[..., Celery]) -> None:
    entry = RedisScheduleEntry("late", "shop.report", cron("0 9 * * *"), calendar="at", app=site.app)
    other = make_app(timezone="Europe/Vienna")
    Context.of(other).redis.load("late")  # it knows the calendar
    site.days_off("2026-10-21")
    site.clock.go_on(1)  # else what was expected of the entry would be of a time that has not come
    RedisScheduleEntry("late", "shop.report", cron("0 9 * * *"), calendar="at", app=other).save()

    assert entry.name == "late"
    assert site.due("late") == "2026-10-22 09:00"


@pytest.mark.parametrize("on_finish", ["keep", "disable", "delete"])
def test_an_end_of_a_calendar_is_no_finish(site: Site, on_finish: str) -> None:
    site.create(on_finish=on_finish)
    beat = site.beat()
    site.at("2026-12-31 09:30")
    assert site.sent(beat) == ["report 12-31 09:00"]

    assert site.store.get("report").enabled
    assert site.due() == "none"
    assert site.store.why("report").sentence == "Dormant: the calendar at has ended, on 31 December 2026."
    site.at("2027-01-10 12:00")
    site.days_off(years="2026-2030")
    run_due(beat)
    assert site.due() == "2027-01-11 09:00"


def test_an_entry_with_an_end_of_its_own_finishes_at_it(site: Site) -> None:
    site.create(end_at=datetime(2026, 12, 30, 12), on_finish="delete")
    beat = site.beat()
    site.at("2026-12-31 09:30")

    assert site.sent(beat) == ["report 12-30 09:00"]
    assert list(site.store.names()) == []


def test_a_calendar_that_vanishes_quarantines_its_users_until_it_is_imported_again(
    site: Site, client: redis.Redis, prefix: str
) -> None:
    site.create()
    site.create("other", calendar=None)
    beat = site.beat()
    run_due(beat)
    client.delete(f"{prefix}:calendars", f"{prefix}:calendar:at")
    site.at("2026-10-21 09:30")

    assert site.sent(beat) == ["other 10-21 09:00"]
    assert "there is no calendar 'at'; import it" in site.store.broken()["report"]
    site.days_off()
    run_due(beat)
    assert site.store.broken() == {}
    assert site.due() == "2026-10-22 09:00"


def rolled(day: date, roll: str | None, off: frozenset[str]) -> date | None:
    """The day to which another is moved, by looking at one after the other."""
    step = {"next": DAY, "previous": -DAY, None: None}[roll]
    while day.weekday() > 4 or day.isoformat() in off:
        if step is None:
            return None
        day += step
    return day


@pytest.mark.parametrize(("seed", "roll"), [(0, "next"), (1, "previous"), (2, None)])
def test_no_day_runs_twice_and_none_is_lost_while_versions_change_and_beats_end(
    site: Site, roll: str | None, seed: int
) -> None:
    """By each version, at the time of each run, that is for the days that it moves there."""
    drawn = random.Random(f"{roll} {seed}")
    site.days_off()
    site.create(text="0 9 1-28/3 * *", roll=roll)
    beat, off, versions, ran = site.beat(), frozenset[str](), [frozenset[str]()], list[date]()
    run_due(beat)
    start = date(2026, 10, 21)
    meant = [day for day in (start + number * DAY for number in range(50)) if day.day in range(1, 29, 3)]
    done: set[date] = set()
    for number in range(50):
        day = start + number * DAY
        for hour in ("06:00", "09:10", "15:00"):
            site.at(f"{day} {hour}")
            if drawn.random() < 0.3:
                off ^= {str(start + drawn.randrange(50) * DAY)}
                versions.append(off)
                site.days_off(*sorted(off))
            for _ in range(drawn.randrange(3)):
                beat.tick()
            if drawn.random() < 0.2:  # it ends without a word
                site.end_without_a_word()
                beat = site.beat()
            for sent in run_due(beat):
                ran.append(sent.fire_time.astimezone(VIENNA).date())
                own = {each for each in meant if rolled(each, roll, off) == ran[-1]}
                assert own - done, f"{ran[-1]} ran for days that had run: {sorted(own)}"
                done |= own

    assert sorted(set(ran)) == ran, "a day ran twice, or out of order"
    lost = [day for day in meant if roll and not {rolled(day, roll, each) for each in versions} & set(ran)]
    assert [day for day in lost if day < start + 40 * DAY] == []
    assert len(ran) > 5
