"""Calendars: imported, listed, shown and deleted at the command line; in entries and on the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
import redis
from celery import Celery
from click.testing import Result
from web_site import browse

from redisbeater import InvalidEntry, RedisScheduleEntry, ScheduleStore, any_of, cron

YEAR = date.today().year
DAILY = cron("0 9 * * *")


@pytest.fixture
def days_off(run: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """Import the calendar at: all days but weekends and these."""

    def store(*lines: str, options: tuple[str, ...] = ()) -> Result:
        path = tmp_path / "days.txt"
        path.write_text("\n".join(lines))
        return run("calendar", "import", "at", "--file", str(path), *options)

    return store


# -- import


def test_the_working_days_of_a_country_are_those_of_the_package(
    run: Callable[..., Result], store: ScheduleStore
) -> None:
    holidays = pytest.importorskip("holidays")
    result = run("calendar", "import", "at", "--country", "AT", "--years", "2026-2027", "--json")

    found = json.loads(result.stdout)
    known = holidays.country_holidays("AT", years=(2026, 2027))
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(730)]
    assert (found["first"], found["last"], found["source"]) == ("2026-01-01", "2027-12-31", "country AT")
    assert found["counting"] == sum(map(known.is_working_day, days))
    assert run("calendar", "show", "at", "--year", "2026").stdout.count("does not count: ") == 13


@pytest.mark.parametrize(
    ("lines", "options", "problem"),
    [
        (["2026-13-01 x"], (), "line 1: expected a date such as 2026-10-26 and its name, got '2026-13-01 x'"),
        (["2026-10-26", "", "# holidays", "soon"], ("--years", "2026"), "line 4: expected a date"),
        (
            ["1999-10-26"],
            ("--years", "2026"),
            "line 1: 1999-10-26 is not within 2026-2026; say --years",
        ),
        ([], ("--years", "soon"), "--years: expected years from 1900 to 2199, such as 2026-2035, got 'soon'"),
        ([], ("--years", "2026-2126"), "--years: expected a hundred years at most"),
        ([], ("--weekend", "xyz,sun"), "--weekend: expected weekdays such as sat,sun, or none"),
        ([], ("--country", "AT"), "expected one of --country, --market and --file"),
        ([], ("--subdivision", "9"), "--subdivision is for --country, --counting for --file"),
    ],
)
def test_an_import_that_cannot_be_meant_is_refused_before_anything_is_written(
    days_off: Callable[..., Result], client: redis.Redis, prefix: str, lines: list[str], options: tuple[str, ...],
    problem: str,
) -> None:  # fmt: skip
    result = days_off(*lines, options=options)

    assert result.exit_code == 2
    assert problem in result.output
    assert not client.exists(f"{prefix}:calendars")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("At!", "--country", "AT"), "expected a name of a calendar: 1 to 64 of a-z 0-9 . _ -, got 'At!'"),
        (
            ("at", "--country", "Austria"),
            "--country: expected a code that the package holidays knows, such as AT, got 'Austria'",
        ),
        (("at", "--country", "AT", "--subdivision", "12"), "--subdivision: AT has no '12': 1, 2, 3"),
        (("at", "--market", "VIENNA"), "--market: expected a code such as XNYS: "),
        (("at", "--file", "/nowhere/days.txt"), "--file: /nowhere/days.txt: No such file or directory"),
        (("at",), "expected one of --country, --market and --file"),
    ],
)
def test_an_unknown_source_is_named(run: Callable[..., Result], arguments: tuple[str, ...], problem: str) -> None:
    pytest.importorskip("holidays")
    result = run("calendar", "import", *arguments)

    assert result.exit_code == 2
    assert problem in result.output


def test_a_dry_run_says_which_days_and_which_runs_change_and_writes_nothing(
    days_off: Callable[..., Result], store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    days_off()
    store.create("report", "shop.report", DAILY, calendar="at")
    store.create("moved", "shop.report", DAILY, calendar="at", roll="next")
    store.create("other", "shop.report", DAILY)
    first, second = [run.local.date() for run in store.upcoming("report", limit=5)][3:]
    before = client.hgetall(f"{prefix}:calendar:at")
    result = days_off(f"{first} Company party", options=("--dry-run",))

    assert f"{first:%A} {first.day} {first:%B} {first.year} does not count (Company party)" in result.output
    assert "within a year: 0 runs move, 2 vanish; of 2 entries" in result.output
    assert f"  report: 1 away, 0 added\n    - {first:%a} {first} 09:00 UTC\n" in result.output
    assert client.hgetall(f"{prefix}:calendar:at") == before
    assert [run.local.date() for run in store.upcoming("report", limit=5)][3:] == [first, second]


def test_the_same_import_again_changes_nothing(
    days_off: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    days_off("2026-10-26 National Day", options=("--years", "2026"))
    version = client.hget(f"{prefix}:calendars", ":version")

    assert (
        "nothing changes: it is stored like this already"
        in days_off("2026-10-26 National Day", options=("--years", "2026")).output
    )
    assert client.hget(f"{prefix}:calendars", ":version") == version


def test_a_file_may_have_the_days_that_count(days_off: Callable[..., Result], run: Callable[..., Result]) -> None:
    days_off("2026-03-31 Q1", "2026-06-30 Q2", options=("--counting", "--years", "2026"))

    shown = json.loads(run("calendar", "show", "at", "--json").stdout)
    assert (shown["counting"], shown["names"]) == (2, {"2026-03-31": "Q1", "2026-06-30": "Q2"})


# -- list, show, delete


def test_a_list_has_what_each_covers_and_how_many_entries_name_it(
    days_off: Callable[..., Result], run: Callable[..., Result], store: ScheduleStore
) -> None:
    assert run("calendar", "list").output == "no calendars\n"
    days_off(options=("--by", "anna"))
    for name in ("a", "b"):
        store.create(name, "shop.report", DAILY, calendar="at")
    store.create("at", "shop.report", DAILY)

    [row] = [json.loads(line) for line in run("calendar", "list", "--json").stdout.splitlines()]
    assert (row["name"], row["first"], row["last"]) == ("at", f"{YEAR}-01-01", f"{YEAR + 9}-12-31")
    assert (row["entries"], row["by"], row["source"]) == (["a", "b"], "anna", "file days.txt")
    assert " at    " not in run("calendar", "list").output.splitlines()[0]
    assert "entries   a, b" in run("calendar", "show", "at").output
    assert run("calendar", "show", "xnys").exit_code == 2


def test_a_calendar_that_entries_name_is_not_deleted(
    days_off: Callable[..., Result], run: Callable[..., Result], store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    days_off()
    store.create("report", "shop.report", DAILY, calendar="!at")
    result = run("calendar", "delete", "at")
    assert (result.exit_code, "entries name the calendar at: report; change or delete them first" in result.output) == (
        2,
        True,
    )

    store.delete("report")
    assert run("calendar", "delete", "at").output == "at: deleted\n"
    assert not client.exists(f"{prefix}:calendar:at")
    assert set(client.hgetall(f"{prefix}:calendars")) == {":version"}


def test_a_hundred_calendars_are_enough(run: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "none.txt"
    path.write_text("")
    results = [run("calendar", "import", f"c{number}", "--file", str(path), "--years", "2026") for number in range(101)]

    assert [result.exit_code for result in results] == [0] * 100 + [1]
    assert "there are 100 calendars; delete one" in results[-1].output


# -- entries


def test_an_entry_that_names_an_unknown_calendar_is_refused(store: ScheduleStore) -> None:
    with pytest.raises(InvalidEntry, match=r"\$\.calendar: there is no calendar 'at'; import it, for example: "):
        store.create("report", "shop.report", DAILY, calendar="at")
    assert list(store.names()) == []


def test_a_misspelt_calendar_gets_the_nearest_one(days_off: Callable[..., Result], run: Callable[..., Result]) -> None:
    assert days_off().exit_code == 0

    said = run("create", "report", "shop.report", "--cron", "0 9 1 * *", "--calendar", "att").stderr

    assert said == "Error: --calendar: there is no calendar 'att'; did you mean 'at'?\n"
    for command in ("show", "delete"):
        assert "there is no calendar 'a'; did you mean 'at'?" in run("calendar", command, "a").stderr
        assert "there is no calendar 'xetr'; known are at" in run("calendar", command, "xetr").stderr


def test_calendar_and_roll_are_fields_everywhere(
    days_off: Callable[..., Result], run: Callable[..., Result], store: ScheduleStore, tmp_path: Path, app: Celery,
    client: redis.Redis,
) -> None:  # fmt: skip
    assert days_off().exit_code == 0
    created = run("create", "report", "shop.report", "--cron", "0 9 1 * *", "--calendar", "at", "--roll", "next")
    assert created.exit_code == 0, created.output
    entry = store.get("report")
    assert (entry.calendar, entry.roll) == ("at", "next")
    stored = json.loads(client.hget(RedisScheduleEntry.generate_key(app, "report"), "definition") or "")
    assert stored["schedule"] == {
        "__type__": "limited",
        "schedule": {"__type__": "crontab", "minute": "0", "hour": "9", "day_of_week": "*", "day_of_month": "1",
                     "month_of_year": "*"},
        "calendar": "at",
        "roll": "next",
    }  # fmt: skip
    assert "on days that count in at, else on the next day that counts" in run("show", "report").output
    exported = run("export").output
    assert '"calendar": "at"' in exported
    assert '"roll": "next"' in exported
    assert store.update("report", roll="previous").roll == "previous"
    assert store.update("report", calendar="!at", roll=None).calendar == "!at"
    assert store.update("report", calendar=None).calendar is None


def test_a_run_that_was_moved_says_from_where(days_off: Callable[..., Result], store: ScheduleStore) -> None:
    days_off(options=("--years", f"{YEAR}-{YEAR + 2}"))
    store.create("report", "shop.report", any_of("0 9 1 * *", "0 9 15 * *"), calendar="at", roll="next")

    notes = {run.local.day: run.note for run in store.upcoming("report", limit=30)}
    assert {note.partition("rolled")[1] for day, note in notes.items() if day in (1, 15)} == {""}
    assert any("rolled from Sunday 1 " in note or "rolled from Saturday 1 " in note for note in notes.values())


def test_why_names_the_day_that_does_not_count(days_off: Callable[..., Result], store: ScheduleStore) -> None:
    days_off("2026-10-26 National Day", options=("--years", f"2026-{YEAR + 2}"))
    store.create("report", "shop.report", DAILY, calendar="at", timezone="Europe/Vienna")
    store.create("often", "shop.report", timedelta(minutes=5), calendar="at", timezone="Europe/Vienna")
    at = datetime.fromisoformat("2026-10-26T09:00:00+01:00")
    for name in ("report", "often"):
        answer = store.why(name, at)
        if answer.verdict == "no_fire_time":
            assert "26 October 2026 does not count in at (National Day)" in answer.sentence
        else:  # it was created later than that
            assert answer.verdict == "created_later"


def test_a_calendar_that_ends_soon_is_a_finding_and_a_line_of_status(
    days_off: Callable[..., Result], run: Callable[..., Result], store: ScheduleStore
) -> None:
    last = date(YEAR, 12, 31)
    days_off(options=("--years", f"{YEAR}"))
    before = run("status", "--json")
    assert json.loads(before.stdout)["calendars"] == []
    store.create("report", "shop.report", cron("* * * * *"), calendar="at" if date.today() < last else None)
    if (last - date.today()).days >= 60:
        pytest.skip("the year has more than 60 days left")
    sentence = f"calendar at ends on 31 December {YEAR}, and 1 entry names it: import more years of it"

    assert [finding.text for finding in store.lint() if finding.rule == "calendar-ends"] == [sentence]
    assert json.loads(run("status", "--json").stdout)["calendars"] == [sentence]
    assert f"calendar   at ends on 31 December {YEAR}" in run("status").output


def test_a_file_that_names_an_unknown_calendar_is_a_finding(
    store: ScheduleStore, run: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "entries.yaml"
    path.write_text("redisbeater: 1\nentries:\n  report: {task: shop.report, cron: '0 9 * * *', calendar: nobody}\n")

    assert "unknown-calendar" in run("lint", "--file", str(path)).output


def test_the_form_of_the_page_takes_a_calendar_and_shows_what_it_does(
    days_off: Callable[..., Result], shop: Celery, store: ScheduleStore
) -> None:
    days_off()
    web = browse(shop)
    form = {"name": "pay", "task": "shop.report", "kind": "cron", "cron": "0 9 1 * *", "calendar": "at", "roll": "next"}
    assert "on days that count in at, else on the next day that counts" in web.post("/preview", data=form).text
    assert web.post("/entry", data=form).status_code in (200, 303)

    assert (store.get("pay").calendar, store.get("pay").roll) == ("at", "next")
    wrong = web.post("/entry", data={**form, "name": "other", "calendar": "xnys"})
    assert wrong.status_code == 422
    assert 'id="error-calendar"' in wrong.text
    assert list(store.names()) == ["pay"]


def test_the_form_offers_to_move_no_day(days_off: Callable[..., Result], shop: Celery, store: ScheduleStore) -> None:
    days_off()
    store.create("pay", "shop.report", cron("0 9 1 * *"), calendar="at", roll="next")
    web = browse(shop)
    page = web.get("/entry/edit?name=pay").text
    assert re.findall(r'name="roll" value="(\w*)"( checked)?', page) == [
        ("", ""), ("next", " checked"), ("previous", ""), ("modified", ""),
    ]  # fmt: skip
    form = {**web.get("/entry/edit.json?name=pay").json(), "was": "pay", "roll": ""}
    assert web.post("/entry", data=form).status_code in (200, 303)

    assert (store.get("pay").calendar, store.get("pay").roll) == ("at", None)


def test_what_another_program_has_written_as_a_calendar_is_none(
    days_off: Callable[..., Result], store: ScheduleStore, client: redis.Redis, prefix: str, run: Callable[..., Result]
) -> None:
    days_off()
    client.hset(f"{prefix}:calendar:at", mapping={"days": "not base64", "version": "7"})
    client.hset(f"{prefix}:calendars", mapping={"at": "7", ":version": "8", "Bad Name": "x"})

    with pytest.raises(InvalidEntry, match="there is no calendar 'at'"):
        store.create("report", "shop.report", DAILY, calendar="at")
    client.delete(f"{prefix}:calendars")
    client.set(f"{prefix}:calendars", "text")
    store.create("other", "shop.report", DAILY)
    assert run("calendar", "list").output == "no calendars\n"
    client.delete(f"{prefix}:calendars")
