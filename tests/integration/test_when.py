"""Entries with several crons and with windows of the day: in Redis, at the command line, in files, on the page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import Result
from due import UTC, ago, now, stored
from outbox import names, run_due
from web_site import browse

from redisbeater import (
    AsyncScheduleStore,
    Export,
    InvalidEntry,
    RedisScheduleEntry,
    RedisScheduler,
    ScheduleStore,
    any_of,
    cron,
    rrule,
)

DOORS = any_of("0 9 * * mon-fri", "0 12 * * sat")
QUARTERS = timedelta(minutes=15)


def definition(client: redis.Redis, app: Celery, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.hget(RedisScheduleEntry.generate_key(app, name), "definition") or "{}")
    return found


def whole_minutes(store: ScheduleStore, name: str) -> list[str]:
    return [f"{run.local:%a %H:%M}" for run in store.upcoming(name, limit=6)]


# -- in Redis


def test_several_crons_are_one_entry_whose_runs_name_their_part(store: ScheduleStore) -> None:
    entry = store.create("doors", "shop.report", DOORS, timezone="Europe/Vienna")
    runs = store.upcoming("doors", limit=6)

    assert entry.schedule == DOORS
    assert {(f"{run.local:%a %H:%M}", run.note) for run in runs} == {
        *((f"{day} 09:00", "by 0 9 * * mon-fri") for day in ("Mon", "Tue", "Wed", "Thu", "Fri")),
        ("Sat 12:00", "by 0 12 * * sat"),
    }
    assert store.get("doors") == entry
    [evidence] = [each.text for each in store.why("doors").evidence if "fires by" in each.text]
    assert evidence in ("fires by 0 9 * * mon-fri", "fires by 0 12 * * sat")


def test_a_window_is_a_field_that_is_stored_with_the_schedule(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    entry = store.create("prices", "shop.report", QUARTERS, between="9:30-10:00", days="mon-fri")

    assert (entry.between, entry.days) == ("09:30-10:00", "mon-fri")
    assert entry.schedule.run_every == QUARTERS
    assert definition(client, app, "prices")["schedule"] == {
        "__type__": "limited",
        "schedule": {"__type__": "interval", "every": 900.0, "relative": False},
        "between": "09:30-10:00",
        "days": "mon-fri",
    }
    assert RedisScheduleEntry.from_dict(entry.as_dict(), app=app) == store.get("prices")
    assert set(whole_minutes(store, "prices")) <= {
        f"{day} {time}" for day in ("Mon", "Tue", "Wed", "Thu", "Fri") for time in ("09:30", "09:45")
    }


def test_changing_a_window_names_it_and_plans_the_entry_again(store: ScheduleStore) -> None:
    store.create("chime", "shop.report", cron("0 * * * *"), between="06:00-22:00")
    before = store.get("chime")

    after = store.update("chime", between="03:00-03:01", by="anna")
    assert f"{after.due_at:%H:%M}" == "03:00"
    assert after.version != before.version
    line = store.log("chime")[0]
    assert line.details["fields"] == ["between"]
    assert store.update("chime", between="3:00-3:01").version == after.version
    assert store.update("chime", schedule=cron("*/5 3 * * *")).between == "03:00-03:01"
    plain = store.update("chime", between=None)
    assert (plain.between, plain.due_at) != (after.between, None)
    assert plain.as_dict()["schedule"]["__type__"] == "crontab"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"schedule": QUARTERS, "between": "9-17"}, "$.between"),
        ({"schedule": QUARTERS, "days": "noday"}, "$.days"),
        ({"schedule": 3600, "between": "09:00-09:30"}, "$.between"),
        ({"schedule": cron("0 9 * * *"), "between": "10:00-11:00"}, "$.between"),
        ({"schedule": rrule("FREQ=DAILY", dtstart=datetime(2026, 1, 1)), "days": "mon"}, "$.days"),
        ({"schedule": QUARTERS, "between": "09:00-17:00", "anchor": "execution"}, "$.anchor"),
        ({"schedule": QUARTERS, "between": "09:00-17:00", "relative": True}, "$.between"),
    ],
)
def test_what_cannot_be_is_refused_and_not_stored(store: ScheduleStore, fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidEntry) as refused:
        store.create("x", "shop.report", **fields)

    assert refused.value.path == path
    assert store.count() == 0


def test_a_window_is_kept_when_other_fields_change_and_by_rename_copy_and_restore(store: ScheduleStore) -> None:
    store.create("a", "shop.report", any_of("0 9 * * *", "0 12 * * *"), between="08:00-13:00", days="fri-mon")
    wanted = store.get("a").as_dict()
    store.update("a", args=[1])
    store.rename("a", "b")
    store.copy("b", "c", args=[])
    store.delete("c")
    store.restore("c")
    store.disable("b")
    store.enable("b")

    assert {**store.get("c").as_dict(), "name": "a"} == wanted
    assert {**store.get("b").as_dict(), "name": "a", "args": []} == wanted


def test_a_bulk_saves_them_and_counts_what_is_as_it_was(app: Celery, store: ScheduleStore) -> None:
    entries = [
        RedisScheduleEntry(f"e{number}", "shop.report", QUARTERS, between="09:00-17:00", days=days, app=app)
        for number, days in enumerate(["mon", "tue", None, "mon"])
    ]
    entries.append(RedisScheduleEntry("both", "shop.report", DOORS, app=app))
    for expected in ((5, 0), (0, 5)):
        with store.bulk() as bulk:
            for entry in entries:
                bulk.save(entry)
        assert (bulk.created, bulk.unchanged) == expected

    assert [store.get(f"e{number}").days for number in range(4)] == ["mon", "tue", None, "mon"]
    assert store.get("e0") == entries[0]


def test_fire_times_outside_are_neither_missed_nor_counted(app: Celery, scheduler: RedisScheduler) -> None:
    opened = ago(hours=3).replace(minute=0, second=0, microsecond=0)
    between = f"{opened:%H:%M}-{opened + timedelta(hours=1):%H:%M}"
    entry = RedisScheduleEntry("report", "proj.work", cron("*/15 * * * *"), between=between, app=app).save()
    entry.reschedule(opened - timedelta(days=1, minutes=1))

    assert names(run_due(scheduler)) == ["report"]
    found = stored(app, "report")
    assert found.last_run_at == opened + timedelta(minutes=45)
    assert found.skipped["coalesced"].count == 7


def test_an_execution_moves_no_interval_with_a_window(store: ScheduleStore) -> None:
    entry = store.create("poll", "shop.report", QUARTERS, between="00:00-24:00")

    assert store.record_execution("poll", now() - timedelta(minutes=4)).due_at == entry.due_at
    assert entry.due_at is not None
    assert entry.due_at.minute % 15 == 0


def test_a_backfill_has_the_fire_times_within(store: ScheduleStore) -> None:
    store.create("poll", "shop.report", QUARTERS, between="09:30-10:00", days="mon-fri", timezone="UTC")

    found = store.backfill("poll", datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC), dry_run=True)

    assert [f"{each:%a %H:%M}" for each in found.fire_times] == ["Fri 09:30", "Fri 09:45", "Mon 09:30", "Mon 09:45"]


def test_why_says_that_a_time_lies_outside_of_the_window(app: Celery, store: ScheduleStore) -> None:
    store.create("chime", "shop.report", cron("0 * * * *"), between="06:00-22:00", timezone="UTC")

    night = now().replace(hour=3, minute=0, second=0, microsecond=0) + timedelta(days=1)
    answer = store.why("chime", night)
    assert answer.verdict == "no_fire_time"
    assert "outside of its window between 06:00 and 22:00; its next fire time" in answer.sentence
    assert "window" not in store.why("chime", night + timedelta(minutes=7)).sentence


def test_the_twin_has_the_same_fields(app: Celery, store: ScheduleStore) -> None:
    async def create() -> RedisScheduleEntry:
        async with AsyncScheduleStore(app) as twin:
            return await twin.create("x", "shop.report", DOORS, between="08:00-13:00")

    assert asyncio.run(create()) == store.get("x")


# -- beats of another format


def test_such_a_save_is_refused_while_the_data_are_of_an_older_format(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:format", "1")

    plain = timedelta(minutes=1)
    for path, fields in {
        "$.schedule": {"schedule": DOORS},
        "$.between": {"schedule": plain, "between": "09:00-17:00", "days": "mon"},
        "$.days": {"schedule": DOORS, "days": "mon-sat"},
    }.items():
        with pytest.raises(InvalidEntry, match="cannot be read by beats of format 1") as refused:
            store.create("x", "shop.report", **fields)  # type: ignore[arg-type]
        assert refused.value.path == path
    with store.bulk() as bulk:
        bulk.save(RedisScheduleEntry("y", "shop.report", DOORS, app=app))
        bulk.save(RedisScheduleEntry("plain", "shop.report", 60, app=app))
        with pytest.raises(InvalidEntry, match="cannot be read by beats of format 1"):
            bulk.flush()

    assert list(store.names()) == ["plain"]
    assert client.get(f"{prefix}:format") == "1"
    with pytest.raises(InvalidEntry):
        store.update("plain", between="09:00-17:00")
    assert store.get("plain").between is None


def test_the_format_is_written_where_there_is_none(store: ScheduleStore, client: redis.Redis, prefix: str) -> None:
    store.create("plain", "shop.report", 60)
    assert client.get(f"{prefix}:format") is None

    store.create("doors", "shop.report", DOORS)

    assert client.get(f"{prefix}:format") == "2"


def test_what_is_stored_can_be_changed_after_the_data_were_rolled_back(
    store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    store.create("doors", "shop.report", DOORS)
    client.set(f"{prefix}:format", "1")

    store.disable("doors")
    store.update("doors", schedule=cron("0 9 * * mon-fri"), enabled=True)

    assert store.get("doors").schedule == cron("0 9 * * mon-fri")


# -- at the command line


def test_create_repeats_cron_and_shows_each_part(run: Callable[..., Result], store: ScheduleStore) -> None:
    result = run("create", "doors", "shop.report", "--cron", "0 9 * * mon-fri", "--cron", "0 12 * * sat")

    assert result.exit_code == 0, result.output
    assert "at 09:00 on Monday to Friday; or at 12:00 on Saturday" in result.output
    assert store.get("doors").schedule == DOORS
    assert "0 9 * * mon-fri; 0 12 * * sat" in run("show", "doors").output


def test_create_and_update_take_windows(run: Callable[..., Result], store: ScheduleStore) -> None:
    made = run("create", "prices", "shop.report", "--every", "5m", "--between", "9:30-16:00", "--days", "mon-fri")
    assert "every 5 minutes, between 09:30 and 16:00 on Monday to Friday" in made.output
    changed = run("update", "prices", "--between", "10:00-15:00")
    assert "between" in changed.output
    assert "09:30-16:00 -> 10:00-15:00" in changed.output
    assert "schedule" not in changed.output
    assert "between 10:00 and 15:00" in run("show", "prices").output
    assert run("update", "prices", "--unset", "between", "--unset", "days").exit_code == 0
    assert (store.get("prices").between, store.get("prices").days) == (None, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--every", "5m", "--between", "9-17"], "--between: cannot read '9-17'"),
        (["--every", "5m", "--days", "noday"], "--days: cannot read 'noday'"),
        (["--every", "1h", "--between", "09:00-09:30"], "--between: a window must be longer than the interval"),
        (["--cron", "0 9 * * *", "--cron", "61 * * * *"], "--cron minute: '61' is out of range"),
        (["--cron", "0 9 * * *", "--cron", "0 9 * * *"], "expected 2 to 20 different crons, got 1"),
        (["--cron", "0 9 * * *", "--cron", "*/90 * * * *"], "the step of '*/90' is above its range"),
        (["--cron", "0 9 * * *", "--every", "5m"], "--every and --cron: give only one"),
    ],
)  # fmt: skip
def test_an_error_names_the_option(
    run: Callable[..., Result], store: ScheduleStore, options: list[str], words: str
) -> None:
    result = run("create", "x", "shop.report", *options)

    assert result.exit_code == 2
    assert words in result.output
    assert store.count() == 0


# -- in files


def test_a_file_has_lists_of_crons_and_windows_and_applying_it_again_changes_nothing(
    app: Celery, store: ScheduleStore, tmp_path: Path
) -> None:
    entries = {
        "doors": {"task": "shop.report", "cron": ["0 9 * * mon-fri", "0 12 * * sat"]},
        "prices": {"task": "shop.report", "every": "5m", "between": "09:30-16:00", "days": "mon-fri"},
        "one": {"task": "shop.report", "cron": ["0 9 * * *"]},
    }
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": entries}))
    assert len(store.files.apply(store.files.plan(Export.read(str(file)))).created) == 3
    assert not store.files.plan(Export.read(str(file))).differ
    assert store.get("doors").schedule == DOORS
    assert store.get("one").schedule == cron("0 9 * * *")
    assert store.get("prices").between == "09:30-16:00"


def test_export_and_apply_of_the_command_line(run: Callable[..., Result], store: ScheduleStore, tmp_path: Path) -> None:
    store.create("doors", "shop.report", DOORS)
    store.create("prices", "shop.report", 300, between="09:30-16:00", days="mon-fri")
    before = {name: store.get(name).as_dict() for name in ("doors", "prices")}
    file = tmp_path / "all.json"
    assert run("export", "-o", str(file)).exit_code == 0
    written = json.loads(file.read_text())["entries"]
    assert written["doors"]["cron"] == ["0 9 * * mon-fri", "0 12 * * sat"]
    assert (written["prices"]["every"], written["prices"]["between"]) == ("5m", "09:30-16:00")
    for name in before:
        store.delete(name)
    result = run("apply", str(file), "--owner", "shop")
    assert result.exit_code == 0, result.output
    assert {name: store.get(name).as_dict() for name in before} == before
    written["prices"]["between"] = "10:00-16:00"
    written["doors"]["cron"] = "0 9 * * mon-fri"
    file.write_text(json.dumps({"redisbeater": 1, "entries": written}))
    result = run("apply", str(file), "--owner", "shop", "--dry-run")
    assert 'between  "09:30-16:00" -> "10:00-16:00"' in result.output
    assert "0 9 * * mon-fri; 0 12 * * sat -> 0 9 * * mon-fri" in result.output


def test_lint_names_the_steps_of_each_part(run: Callable[..., Result], store: ScheduleStore) -> None:
    store.create("x", "shop.report", any_of("0 9 * * *", "*/45 * * * *"), between="08:00-23:00")

    assert "uneven-step" in run("lint").output


def test_lint_tells_what_clock_changes_do_to_windows(store: ScheduleStore) -> None:
    store.create("x", "shop.report", QUARTERS, between="02:00-03:00", timezone="Europe/Vienna")

    assert [each.rule for each in store.lint() if each.name == "x" and each.rule.startswith("dst")] == ["dst-gap"]


def test_simulate_counts_the_runs_within(run: Callable[..., Result], store: ScheduleStore) -> None:
    for number, days in enumerate((None, "mon-fri", "mon-fri", "sat,sun")):
        store.create(f"e{number}", "shop.report", 3600, between="08:00-18:00", days=days, timezone="UTC")

    found = json.loads(run("simulate", "--from", "2032-11-15T00:00", "--to", "+7d", "--json").output)

    assert found["runs"] == 70 + 50 + 50 + 20


# -- on the page


def test_the_form_has_one_cron_a_line_and_the_window(shop: Celery, store: ScheduleStore) -> None:
    web = browse(shop)
    form = {
        "name": "doors", "task": "shop.report", "kind": "cron", "cron": "0 9 * * mon-fri\r\n0 12 * * sat\r\n",
        "between": "8:00-13:00", "days": "mon-sat",
    }  # fmt: skip
    preview = web.post("/preview", data=form).text
    assert "at 09:00 on Monday to Friday; or at 12:00 on Saturday, between 08:00 and 13:00" in preview
    assert web.post("/entry", data=form).status_code in (200, 303)
    assert store.get("doors").schedule == DOORS
    assert store.get("doors").between == "08:00-13:00"

    shown = web.get("/entry/edit.json?name=doors").json()
    assert (shown["kind"], shown["cron"]) == ("cron", "0 9 * * mon-fri\n0 12 * * sat")
    assert (shown["between"], shown["days"]) == ("08:00-13:00", "mon-sat")
    page = web.get("/entry/edit?name=doors").text
    assert 'rows="2"' in page
    assert "0 9 * * mon-fri\n0 12 * * sat</textarea>" in page
    again = {**shown, "was": "doors", "cron": "0 9 * * mon-fri", "between": "", "days": ""}
    answer = web.post("/entry", data=again, headers={"Accept": "application/json"})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()["changed"]) == {"schedule", "between", "days"}
    assert store.get("doors").as_dict()["schedule"]["__type__"] == "crontab"


def test_an_error_of_the_form_is_shown_at_its_field(shop: Celery, store: ScheduleStore) -> None:
    form = {"name": "x", "task": "shop.report", "kind": "every", "every": "1h", "between": "9-17", "days": "noday"}
    page = browse(shop).post("/entry", data=form)

    assert page.status_code == 422
    assert 'id="error-between"' in page.text
    assert 'id="error-days"' in page.text
    page = browse(shop).post("/entry", data={**form, "between": "09:00-09:30", "days": ""})
    assert 'id="error-between"' in page.text
    assert store.count() == 0


def test_a_change_of_a_window_can_be_reverted(shop: Celery, store: ScheduleStore) -> None:
    store.create("x", "shop.report", QUARTERS, between="09:00-17:00")
    store.update("x", between="10:00-11:00", by="anna")
    store.update("x", days="mon-fri", by="berta")
    web = browse(shop)
    links = [unescape(link) for link in re.findall(r'href="(/entry/revert\?[^"]+)"', web.get("/entry?name=x").text)]
    question = web.get(links[1]).text
    fields = re.findall(r'<input type="hidden" name="(name|at|if_version)" value="([^"]*)">', question)

    assert "x: reverted between." in web.post("/entry/revert", data={k: unescape(v) for k, v in fields}).text
    assert (store.get("x").between, store.get("x").days) == ("09:00-17:00", "mon-fri")
