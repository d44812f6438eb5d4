"""All that is told of one run: found by its id or the begin of it, with its traceback, its arguments and its entry."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
from celery import Celery
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from run_site import RunSite

import redisbeater.store.runs
from redisbeater import AsyncScheduleStore, RunNotFound, ScheduleStore
from redisbeater.cli import redisbeater as commands
from redisbeater.model.run import NewRun, Payload
from redisbeater.results import Kind, State
from redisbeater.store.snapshot import version_of

FIRST, SECOND, OTHER = (f"{begin}-aaaa-4aaa-8aaa-aaaaaaaaaaaa" for begin in ("5f0c9a1e", "5f0c9a1f", "77777777"))


@pytest.fixture
def site(run_site: RunSite) -> RunSite:
    return run_site


@pytest.fixture
def store(site: RunSite) -> ScheduleStore:
    return ScheduleStore(site.app)


def payload(*args: object, **kwargs: object) -> str:
    return Payload(task="proj.work", args=list(args), kwargs=kwargs, options={}).to_text()


def end(site: RunSite, run_id: str, state: State = State.FAILURE, **changes: object) -> None:
    """Send a run, execute it for a second, and let it end so."""
    ends = {name: changes.pop(name) for name in ("error", "traceback") if name in changes}
    site.send(run_id, **changes)
    site.start(run_id)
    site.clock.go_on(1)
    site.finish(run_id, state, **ends)


def version(site: RunSite) -> str:
    return version_of(site.store.load("report").definition)


# -- found by its id


@pytest.mark.parametrize("text", [FIRST, FIRST[:8], FIRST[:30], FIRST.upper(), FIRST[:10].upper()])
def test_a_run_is_found_by_its_id_and_by_the_begin_of_it(site: RunSite, store: ScheduleStore, text: str) -> None:
    site.send(FIRST)
    site.send(OTHER)

    assert store.runs.get(text).id == FIRST


def test_several_runs_that_begin_so_are_named(site: RunSite, store: ScheduleStore) -> None:
    begin = "5f0c9a1e-aaaa"
    for run_id in (f"{begin}-1", f"{begin}-2"):
        site.send(run_id)

    with pytest.raises(RunNotFound) as caught:
        store.runs.stop(begin)

    assert sorted(caught.value.runs) == [f"{begin}-1", f"{begin}-2"]
    either = f"{begin}-[12] \\('report', SENT\\)"
    assert re.fullmatch(f"2 runs begin with '{begin}'; pass the whole id: {either}; {either}", str(caught.value))
    assert not store.runs.get(f"{begin}-1").is_to_stop


def test_of_many_runs_that_begin_so_ten_are_named(site: RunSite, store: ScheduleStore) -> None:
    for number in range(12):
        site.send(f"5f0c9a1e-{number}")

    with pytest.raises(
        RunNotFound, match=r"^10 or more runs begin with '5f0c9a1e'; pass the whole id: 5f0c9a1e-"
    ) as caught:
        store.runs.get("5f0c9a1e")

    assert len(caught.value.runs) == 10


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (SECOND, ""), (SECOND[:8], ""), ("5f0c*a1e", ""), ("5f0c?a1e", ""), ("[5f0c9]a1e", ""), ("\\" * 9, ""),
        ("5f0c9a1", "pass a whole id, or 8 characters of its begin; "),
        ("", "pass a whole id, or 8 characters of its begin; "),
    ],
)  # fmt: skip
def test_where_none_is_kept_the_error_says_for_how_long_runs_are(
    site: RunSite, store: ScheduleStore, text: str, hint: str
) -> None:
    site.send(FIRST)

    with pytest.raises(RunNotFound) as caught:
        store.runs.get(text)

    assert str(caught.value) == (
        f"no run {text!r} is kept; {hint}runs are kept for 7 d after their end, of each entry the newest 5"
    )
    assert caught.value.args == (text,)
    if text:
        assert call(site, "run", "--", text).output.endswith("the newest 5; history NAME --long shows their ids\n")


def test_a_search_ends_after_a_second_and_says_that_it_has_not_seen_everything(
    site: RunSite, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redisbeater.store.runs, "SEARCH_SECONDS", 0.0)
    others = [f"others:{number}" for number in range(50_000)]
    site.client.mset(dict.fromkeys(others, ""))

    with pytest.raises(RunNotFound, match=r"is kept, of what was seen in a second of searching; runs are"):
        store.runs.get(FIRST[:8])

    site.client.delete(*others)


def test_a_search_that_does_not_see_everything_names_runs_that_are_active_or_failed(
    site: RunSite, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redisbeater.store.runs, "SEARCH_SECONDS", 0.0)
    end(site, FIRST)
    site.send(OTHER)
    others = [f"others:{number}" for number in range(50_000)]
    site.client.mset(dict.fromkeys(others, ""))

    for run_id in (FIRST, OTHER):
        named = (
            f"1 run begins with '{run_id[:8]}', of what was seen in a second of searching; pass the whole id: {run_id} "
        )
        with pytest.raises(RunNotFound, match=f"^{named}"):
            store.runs.get(run_id[:8])
        assert store.runs.get(run_id).id == run_id
    site.client.delete(*others)


def test_a_run_that_is_awaited_may_be_named_by_the_begin_of_its_id(site: RunSite) -> None:
    end(site, FIRST)

    async def wait() -> str:
        async with AsyncScheduleStore(site.app) as store:
            return (await store.runs.wait(FIRST[:8], 5)).id

    assert (asyncio.run(wait()), ScheduleStore(site.app).runs.wait(FIRST[:8], 5).id) == (FIRST, FIRST)


# -- what it was sent with


def test_a_run_that_failed_is_told_with_what_it_was_sent_with_and_without_secrets(
    site: RunSite, store: ScheduleStore
) -> None:
    sent = payload("orders", api_key="hunter-2-and-3", pages=3)
    end(site, FIRST, payload=sent, error="ValueError: not hunter-2-and-3", traceback="in fetch\nhunter-2-and-3")

    found = store.runs.details(FIRST[:8])

    assert (found.args, found.kwargs, found.arguments_note) == (["orders"], {"api_key": "***", "pages": 3}, "")
    assert (found.traceback, found.run.error, found.queue) == ("in fetch\n***", "ValueError: not ***", "celery")
    assert store.runs.details(FIRST).traceback == found.traceback


def test_a_run_that_succeeded_is_told_with_the_arguments_of_its_entry_while_that_is_the_same(
    site: RunSite, store: ScheduleStore
) -> None:
    store.update("report", args=["orders"], kwargs={"token": "hunter-2"}, options={"queue": "slow"})
    end(site, FIRST, State.SUCCESS, version=version(site))

    found = store.runs.details(FIRST)
    assert (found.args, found.kwargs, found.queue) == (["orders"], {"token": "***"}, "slow")

    store.update("report", args=["returns"])
    found = store.runs.details(FIRST)
    assert (found.args, found.kwargs, found.queue) == (None, None, "")
    assert found.arguments_note == "not kept, and its entry was changed since"


def test_a_run_without_a_version_has_no_arguments_once_it_has_succeeded(site: RunSite, store: ScheduleStore) -> None:
    end(site, FIRST, State.SUCCESS)

    assert store.runs.details(FIRST).arguments_note == "not kept"


def test_a_run_whose_entry_is_deleted_is_told_without_a_result(site: RunSite, store: ScheduleStore) -> None:
    site.send(FIRST, payload=payload("orders"), version=version(site))
    site.start(FIRST)
    store.delete("report")

    assert (store.runs.details(FIRST).args, store.runs.details(FIRST).entry) == (["orders"], None)
    site.finish(FIRST)
    assert store.runs.details(FIRST).arguments_note == "not kept, and its entry is deleted"


def test_a_run_of_a_renamed_entry_is_told_as_before(site: RunSite, store: ScheduleStore) -> None:
    end(site, FIRST, payload=payload("orders"))
    store.rename("report", "weekly")

    found = store.runs.details(FIRST)

    assert (found.run.name, found.args) == ("weekly", ["orders"])
    assert found.entry is not None
    assert found.entry.result == "failed"


def test_a_payload_and_a_traceback_that_another_program_wrote_count_as_none(
    site: RunSite, store: ScheduleStore
) -> None:
    end(site, FIRST, traceback="in fetch")
    site.client.delete(site.keys.traceback_of(FIRST))
    site.client.lpush(site.keys.traceback_of(FIRST), "no text")
    for key in site.client.scan_iter(f"{site.keys.prefix}:payload:*"):
        site.client.set(key, '{"task": 5}')

    found = store.runs.details(FIRST)

    assert (found.traceback, found.args, found.arguments_note) == ("", None, "not kept")
    site.client.delete(site.keys.traceback_of(FIRST))


def test_runs_that_were_sent_again_are_linked_both_ways(site: RunSite, store: ScheduleStore) -> None:
    end(site, FIRST)
    site.clock.go_on(1)
    for run_id in (SECOND, OTHER):
        site.runs.reserve(restart(site, run_id))
        site.clock.go_on(1)

    assert store.runs.details(FIRST).restarted_as == (OTHER, SECOND)
    assert store.runs.details(SECOND).run.restart_of == FIRST


def test_a_run_knows_those_of_its_entry_that_were_sent_before_and_after_it(site: RunSite, store: ScheduleStore) -> None:
    ids = (FIRST, SECOND, OTHER)
    for run_id in ids:
        end(site, run_id)
        site.clock.go_on(1)

    found = [store.runs.details(run_id) for run_id in ids]
    assert [(each.before, each.after) for each in found] == [("", SECOND), (FIRST, OTHER), (SECOND, "")]

    site.client.delete(site.keys.run(FIRST), site.keys.runs_of("report"))
    assert (store.runs.details(SECOND).before, store.runs.details(SECOND).after) == ("", "")


def restart(site: RunSite, run_id: str) -> NewRun:
    return site.new(run_id, kind=Kind.RESTART, restart_of=FIRST)


# -- where it was sent to


def test_the_queue_that_runs_were_routed_to_is_named(site: RunSite, store: ScheduleStore) -> None:
    site.send(FIRST, queue="slow")
    site.send(SECOND, queue="slow")
    site.clock.go_on(31)

    assert (store.runs.details(FIRST).queue, store.runs.results(["report"])["report"].words) == (
        "slow", "waiting in queue slow, 2 runs"
    )  # fmt: skip
    site.client.zadd(site.keys.schedule, {site.keys.entry("report"): site.clock.now.timestamp() + 12})
    assert store.why("report").sentence.startswith("2 runs wait in queue slow, the oldest for 31 s, none started")


# -- of the whole schedule


def test_failures_are_those_of_a_span_and_say_where_they_begin(site: RunSite, store: ScheduleStore) -> None:
    end(site, FIRST, error="KeyError: 17")
    begin = site.clock.now
    site.clock.go_on(60)
    end(site, SECOND, error="ValueError: no feed")

    newest = store.runs.failures(since=begin + timedelta(seconds=1))
    assert [(group.error, group.runs) for group in newest] == [("ValueError: no feed", (SECOND,))]
    assert [group.runs for group in store.runs.failures(before=site.clock.now)] == [(FIRST,)]
    assert (len(store.runs.failures()), newest.begin) == (2, begin)
    assert newest.groups[0].as_dict()["count"] == 1


def test_results_are_those_of_entries_that_exist(site: RunSite, store: ScheduleStore) -> None:
    end(site, FIRST)
    site.create("other")

    found = store.runs.results(["report", "other", "nobody"])

    assert {name: result.result.value for name, result in found.items()} == {"report": "failed", "other": "never"}


# -- on the command line


def call(site: RunSite, *arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments, obj=SimpleNamespace(app=site.app))


def test_the_command_shows_all_of_a_run_that_failed(site: RunSite, store: ScheduleStore) -> None:
    store.update("report", kwargs={"token": "hunter-2"})
    lines = "Traceback (most recent call last):\n  in \x1b[2J fetch\nValueError: no feed"
    end(site, FIRST, payload=payload("orders", token="hunter-2"), error="ValueError: no feed", traceback=lines)
    site.clock.go_on(1)
    site.runs.reserve(restart(site, OTHER))

    found = call(site, "run", FIRST[:8])

    assert found.exit_code == 0
    assert found.output.splitlines()[0] == f"{FIRST}   report   proj.work"
    assert found.output.splitlines()[-9:] == [
        f"  sent again   as {OTHER}",
        "  queue        celery",
        '  args         ["orders"]',
        '  kwargs       {"token": "***"}',
        "  entry        failed: ValueError: no feed",
        "  traceback",
        "    Traceback (most recent call last):",
        "      in \\x1b[2J fetch",
        "    ValueError: no feed",
    ]
    assert f"  restart of   {FIRST}" in call(site, "run", OTHER).output


def test_the_json_of_a_run_has_all_parts(site: RunSite) -> None:
    end(site, FIRST, payload=payload("orders"), error="ValueError: no feed", traceback="a\nb")

    found = json.loads(call(site, "run", FIRST, "--json").stdout)

    assert (found["id"], found["args"], found["kwargs"], found["traceback"]) == (FIRST, ["orders"], {}, "a\nb")
    assert (found["queue"], found["restarted_as"], found["entry"]["result"]) == ("celery", [], "failed")


def test_the_command_says_why_arguments_are_not_known(site: RunSite) -> None:
    end(site, FIRST, State.SUCCESS, version="01234567")

    assert "  arguments    not kept, and its entry was changed since\n" in call(site, "run", FIRST).output


def test_commands_that_change_runs_take_the_begin_of_an_id(site: RunSite) -> None:
    end(site, FIRST)

    found = call(site, "stop", FIRST[:8])

    assert found.output == f"{FIRST}: CANNOT: it had ended before (FAILURE in 1.0 s)\n"


def test_an_id_that_no_encoding_has_is_no_id(site: RunSite) -> None:
    found = call(site, "run", "\udcff" * 9)

    assert found.exit_code == 2
    assert found.output.startswith("Error: ID: '" + "\\udcff" * 9 + "' is not valid unicode")


def test_failures_are_grouped_and_the_newest_run_of_each_is_named(site: RunSite) -> None:
    end(site, FIRST, error="KeyError: 17")
    site.clock.go_on(60)
    for run_id in (SECOND, OTHER):
        end(site, run_id, error="ValueError: no feed")

    found = call(site, "failures", "--utc")

    rows = [re.split(" {2,}", line) for line in found.output.splitlines()]
    assert [row[2:] for row in rows[:3]] == [
        ["TIMES", "NAME", "RUN", "ERROR"],
        ["2", "report", OTHER[:8], "ValueError: no feed"],
        ["1", "report", FIRST[:8], "KeyError: 17"],
    ]
    assert rows[3][0].startswith("the list begins at ")
    assert "1 more; -n shows them" in call(site, "failures", "-n", "1").output
    assert f" {OTHER} " in call(site, "failures", "--long").output

    groups = [json.loads(line) for line in call(site, "failures", "--json").stdout.splitlines()]
    assert [(group["error"], group["count"], group["runs"][0]) for group in groups] == [
        ("ValueError: no feed", 2, OTHER),
        ("KeyError: 17", 1, FIRST),
    ]
    moment = (site.clock.now - timedelta(seconds=30)).isoformat()
    assert "KeyError" not in call(site, "failures", "--since", moment).output


def test_without_failures_the_command_says_so(site: RunSite) -> None:
    assert call(site, "failures").output == "no failure is known of that time\n"


def test_without_records_the_commands_say_what_is_missing(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_track_runs=False)

    for arguments in (("run", FIRST), ("failures",)):
        found = CliRunner().invoke(commands, arguments, obj=SimpleNamespace(app=app))
        assert (found.exit_code, found.output.partition(";")[0]) == (
            2, "Error: redisbeater_track_runs = False: runs are not recorded"
        )  # fmt: skip
    runs = ScheduleStore(app).runs
    assert (len(runs.failures()), runs.timeline(), runs.results([])) == (0, {}, {})


def test_the_history_of_an_entry_says_how_long_its_runs_usually_take(site: RunSite) -> None:
    for run_id in ("a", "b", "c"):
        end(site, run_id, State.SUCCESS)

    assert call(site, "history", "report").output.startswith("usually takes 1.0 s, 95 % in 1.0 s\nFIRE TIME")
    assert "usually" not in call(site, "history").output


def test_the_id_of_a_run_that_has_ended_is_completed_from_its_eighth_character_on(site: RunSite) -> None:
    end(site, FIRST)

    def complete(text: str) -> list[str]:
        shell = ShellComplete(commands, {"obj": SimpleNamespace(app=site.app)}, "redisbeater", "")
        return [item.value for item in shell.get_completions(["run"], text)]

    assert (complete(FIRST[:8]), complete(FIRST[:7])) == ([FIRST], [])
