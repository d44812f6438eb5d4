"""Beats that tell real services of incidents, by a process of its own."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import Result
from edit_ledger import ServerClock, scripts_by_the_clock_at
from support.ended_runs import end_runs
from support.ports import free_port
from support.receivers import SECRETS, Service, mail_server, serving
from support.waiting import wait_until

from redisbeater import ImproperlyConfigured, InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.model.message import Message
from redisbeater.notices.delivery import MOST_PROCESSES, Delivery, Letter

#: Each of them starts processes that send.
pytestmark = pytest.mark.processes

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Run = Callable[..., Result]


@pytest.fixture
def clock(client: redis.Redis, prefix: str) -> Iterator[ServerClock]:
    with scripts_by_the_clock_at(client, f"{prefix}:clock"):
        yield ServerClock(client, f"{prefix}:clock")


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


class Site:
    """A schedule whose incidents services are told of."""

    def __init__(
        self, make_app: MakeApp, make_scheduler: MakeScheduler, clock: ServerClock, let_pass: Callable[[float], None]
    ) -> None:
        self._make_app, self._make_scheduler, self._let_pass = make_app, make_scheduler, let_pass
        self.clock = clock

    def begin(self, **settings: Any) -> RedisScheduler:
        self.app = self._make_app(redisbeater_track_runs=True, redisbeater_lock_timeout=3600, **settings)
        self.store = ScheduleStore(self.app)
        return self.beat()

    def beat(self) -> RedisScheduler:
        beat = self._make_scheduler(self.app)
        beat.tick()
        return beat

    def fail(self, name: str, error: str = "ValueError: no", letters: str = "F", **fields: Any) -> None:
        if name not in {each.name for each in self.store.list()}:
            RedisScheduleEntry(name, "proj.work", 3600, app=self.app, **fields).save()
        end_runs(self.app, name, letters, error)

    def look(self, beat: RedisScheduler, seconds: int = 6) -> None:
        """Let so many seconds pass for a beat, which looks then."""
        self.clock.go_on(seconds)
        for _ in range(2):
            self._let_pass(5.5)
            for _ in range(8):
                beat.tick()

    def until(self, beat: RedisScheduler, condition: Callable[[], object], what: str) -> None:
        """Let a beat make passes until something has happened."""

        def has_happened() -> object:
            beat.tick()
            return condition()

        wait_until(has_happened, what)

    def tell(self, beat: RedisScheduler, condition: Callable[[], object], what: str = "a message") -> None:
        """Let a beat find what is wrong, and tell it after half a minute."""
        self.look(beat)
        self.look(beat, 61)
        self.until(beat, condition, what)


@pytest.fixture
def site(
    make_app: MakeApp, make_scheduler: MakeScheduler, clock: ServerClock, let_pass: Callable[[float], None]
) -> Site:
    return Site(make_app, make_scheduler, clock, let_pass)


def receiver(site: Site, name: str = "ops") -> dict[str, Any]:
    (found,) = [each for each in site.store.status().as_dict()["receivers"] if each["name"] == name]
    return dict(found)


def is_recorded(site: Site, name: str = "ops") -> bool:
    found = [each for each in site.store.status().as_dict()["receivers"] if each["name"] == name]
    return any(each["told"] or each["problem"] for each in found)


def test_a_failure_is_told_and_so_is_its_end(site: Site, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    beat = site.begin(redisbeater_notify={"ops": service.url}, redisbeater_page_url="https://beat.example/")
    site.fail("feed")

    site.tell(beat, lambda: is_recorded(site))

    (message,) = service.told
    assert (message.title, message.type) == ("feed: failed 1 time: ValueError: no", "failure")
    assert "celery -A proj redisbeater why feed" in message.text
    assert message.text.endswith("https://beat.example/incidents")
    site.fail("feed", letters="S")
    site.tell(beat, lambda: len(service.told) > 1)
    assert (service.told[1].title, service.told[1].type) == ("over: feed: failed 1 time: ValueError: no", "success")
    site.until(beat, lambda: caplog.text.count("told ops of incidents") == 2, "a line about each")
    for _ in range(3):
        site.look(beat, 61)
    assert len(service.told) == 2


def test_what_is_logged_as_told_is_recorded_by_then(
    site: Site, service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever kills a beat that has said so lets no other beat tell it again."""
    caplog.set_level(logging.INFO)
    found = list[bool]()

    def look(record: logging.LogRecord) -> bool:
        if record.getMessage().startswith("told ops of incidents"):
            found.append(is_recorded(site))
        return True

    monkeypatch.setattr(caplog.handler, "filters", [look])
    beat = site.begin(redisbeater_notify={"ops": service.url})
    site.fail("feed")

    site.tell(beat, lambda: found, "the line")

    assert found == [True]


def test_a_storm_is_one_message(site: Site, service: Service) -> None:
    beat = site.begin(redisbeater_notify={"ops": service.url})
    for number in range(37):
        site.fail(f"feed{number}", "ConnectionError: db1 refused")

    site.tell(beat, lambda: is_recorded(site))
    for _ in range(3):
        site.look(beat, 61)

    assert [each.title for each in service.told] == ["37 entries: failed 1 time: ConnectionError: db1 refused"]


def test_mail_arrives_as_well(site: Site) -> None:
    with mail_server() as mailbox:
        beat = site.begin(redisbeater_notify={"ops": mailbox.url})
        site.fail("feed")

        site.tell(beat, lambda: is_recorded(site))

        assert receiver(site)["problem"] == ""
        (mail,) = mailbox.mails
        assert "feed: failed 1 time" in mail


def test_an_entry_names_who_is_told_or_nobody(site: Site, service: Service) -> None:
    with serving() as other:
        beat = site.begin(redisbeater_notify={"default": service.url, "night": other.url})
        for name in ("night", "none", "nightt", None):
            site.fail(f"of-{name}", notify=name)

        site.tell(beat, lambda: service.told and other.told)
        site.look(beat, 61)

        assert "of-night:" in other.told[0].text
        (message,) = service.told
        assert "2 entries" in message.title
        assert "of-none:" not in message.text + other.told[0].text


def test_one_of_two_that_takes_nothing_is_tried_again_and_the_other_is_told_once(site: Site, service: Service) -> None:
    with serving("refuses") as other:
        beat = site.begin(redisbeater_notify={"ops": [service.url, other.url]})
        site.fail("feed")
        site.tell(beat, lambda: is_recorded(site) and is_recorded(site, "ops.2"))
        other.mode = "takes"

        site.look(beat, 61)
        site.until(beat, lambda: receiver(site, "ops.2")["told"], "the other to be told")

        assert (len(service.told), len(other.told)) == (1, 2)


FAULTS = ["refuses", "redirects", "resets"]


@pytest.mark.parametrize("mode", FAULTS)
def test_a_service_with_a_fault_is_told_once_it_works(
    site: Site, mode: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(mode) as faulty:
        faulty.elsewhere = f"http://127.0.0.1:{service.server_port}/elsewhere"
        beat = site.begin(redisbeater_notify={"ops": faulty.url})
        site.fail("feed")
        site.tell(beat, lambda: is_recorded(site))
        assert receiver(site)["problem"]
        assert "cannot tell ops of incidents" in caplog.text
        asked = len(faulty.told)

        faulty.mode = "takes"
        site.look(beat, 61)
        site.until(beat, lambda: receiver(site)["told"], "the receiver to be told")

        assert len(faulty.told) == asked + 1
        assert service.told == []
        assert receiver(site)["problem"] == ""


def test_beat_makes_passes_while_a_service_does_not_answer(site: Site) -> None:
    with serving("drips") as service:
        beat = site.begin(redisbeater_notify={"ops": service.url})
        site.fail("feed")
        site.tell(beat, lambda: service.told)

        RedisScheduleEntry("due", "proj.work", 1, app=site.app).save()
        site.clock.go_on(2)
        site.until(beat, lambda: site.store.get("due").total_run_count > 0, "a run")

        assert not is_recorded(site)
        service.release()
        site.until(beat, lambda: is_recorded(site), "its answer to be recorded")


def test_after_a_failover_nothing_is_told_twice_and_the_end_is_told(site: Site, service: Service) -> None:
    first = site.begin(redisbeater_notify={"ops": service.url})
    site.fail("feed")
    site.tell(first, lambda: is_recorded(site))
    first.close()

    second = site.beat()
    for _ in range(3):
        site.look(second, 61)
    assert len(service.told) == 1
    site.fail("feed", letters="S")
    site.tell(second, lambda: len(service.told) > 1)
    assert service.told[1].title.startswith("over: feed")


def test_what_a_beat_that_ends_could_not_tell_another_tells(site: Site) -> None:
    with serving("drips") as service:
        first = site.begin(redisbeater_notify={"ops": service.url})
        site.fail("feed")
        site.tell(first, lambda: service.told)

        first.close()

        service.mode = "takes"
        second = site.beat()
        site.look(second)
        site.until(second, lambda: is_recorded(site), "another beat to tell it")
        assert len(service.told) == 2


def test_beats_without_a_lock_tell_each_incident_once(site: Site, service: Service) -> None:
    one = site.begin(redisbeater_notify={"ops": service.url}, redisbeater_lock_key=None)
    other = site.beat()
    site.fail("feed")
    for _ in range(4):
        site.look(one, 20)
        site.look(other, 20)

    site.until(one, lambda: other.tick() >= 0 and is_recorded(site), "one of them to tell it")
    site.look(other, 61)
    assert len(service.told) == 1


def test_secrets_of_receivers_are_nowhere(
    site: Site, run: Run, app: Celery, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serving("refuses") as service:
        urls = [service.url, "nonsense://login-secret:path-secret@header-secret/query-secret"]
        urls.append(f"json://host-secret.localhost:{free_port()}")
        app.conf.update(redisbeater_track_runs=True, redisbeater_notify={"ops": urls})
        beat = site.begin(redisbeater_notify={"ops": urls})
        site.fail("feed")
        refused = "ops.2, nonsense://***, cannot be told of incidents"
        site.tell(beat, lambda: is_recorded(site) and is_recorded(site, "ops.3") and refused in caplog.text)
        said = [caplog.text, repr(site.store.status()), site.store.health().sentence]
        said += [run(*words).output for words in (["status"], ["lint"], ["notify"], ["notify", "--test"])]
        said += [run("notify", "--test", "--json").output]
    for key in client.scan_iter(f"{prefix}*"):
        kind = client.type(key)
        said.append(str({"hash": client.hgetall, "string": client.get}.get(kind, lambda _: "")(key)))

    assert "json://***" in "".join(said)
    assert [secret for secret in (*SECRETS, "host-secret") for text in said if secret in text] == []


def test_health_says_after_five_minutes_that_nobody_can_be_told(site: Site) -> None:
    beat = site.begin(redisbeater_notify={"ops": f"json://127.0.0.1:{free_port()}"})
    site.fail("feed")
    site.tell(beat, lambda: is_recorded(site))
    assert "could not be told" not in site.store.health().sentence

    for _ in range(6):
        site.look(beat, 60)

    health = site.store.health()
    assert "ops could not be told of incidents for 6 min" in health.sentence
    assert "notices" in health.failed


def test_without_receivers_what_was_to_be_told_is_forgotten(
    site: Site, service: Service, client: redis.Redis, prefix: str
) -> None:
    beat = site.begin(redisbeater_notify={"ops": service.url})
    site.fail("feed")
    site.look(beat)
    assert client.exists(f"{prefix}:notices")
    beat.close()
    site.begin()

    assert not client.exists(f"{prefix}:notices")


# The command


def test_the_command_tries_each_receiver_and_says_whether_it_was_told(app: Celery, run: Run, service: Service) -> None:
    with serving("refuses") as other:
        app.conf.redisbeater_notify = {"ops": service.url, "night": other.url}
        found = run("notify", "--test", "--json")

    answers = [json.loads(line) for line in found.output.splitlines()]
    assert found.exit_code == 1
    assert [(each["receiver"], each["told"], each["service"]) for each in answers] == [
        ("ops", True, "json://***"),
        ("night", False, "json://***"),
    ]
    assert "500" in answers[1]["problem"]
    assert service.told[0].title == "redisbeater: messages arrive"


def test_the_command_tries_one_receiver_and_shows_when_each_was_told(app: Celery, run: Run, service: Service) -> None:
    app.conf.redisbeater_notify = {"ops": service.url, "night": service.url}

    tried, shown = run("notify", "ops", "--test"), run("notify")

    assert (tried.exit_code, len(service.told)) == (0, 1)
    assert "told, in" in tried.output
    assert [line.split() for line in shown.output.splitlines()] == [
        ["RECEIVER", "SERVICE", "LAST", "TOLD"],
        ["ops", "json://***", "nothing", "yet"],
        ["night", "json://***", "nothing", "yet"],
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [(["notify", "op"], "did you mean 'ops'?"), (["notify", "--test", "op"], "did you mean 'ops'?")],
)
def test_the_command_names_the_receiver_that_was_meant(app: Celery, run: Run, words: list[str], problem: str) -> None:
    app.conf.redisbeater_notify = {"ops": "json://127.0.0.1"}
    found = run(*words)

    assert found.exit_code == 2
    assert problem in found.output


def test_the_command_says_that_nobody_is_told(run: Run) -> None:
    found = run("notify", "--test")

    assert found.exit_code != 0
    assert "redisbeater_notify is not set: nobody is told" in found.output


# What is missing or wrong


@pytest.fixture
def without_apprise(monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.metadata.version

    def version(name: str) -> str:
        if name == "apprise":
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


INSTALL = r"redisbeater_notify is set: Apprise is not installed: pip install 'redisbeater\[notify\]'"


def test_beat_refuses_to_begin_without_what_sends_messages(
    app: Celery, make_scheduler: MakeScheduler, without_apprise: None
) -> None:
    app.conf.redisbeater_notify = {"ops": "json://127.0.0.1"}

    with pytest.raises(ImproperlyConfigured, match=INSTALL):
        make_scheduler(app)


def test_other_programs_do_without_it_and_lint_finds_that(app: Celery, run: Run, without_apprise: None) -> None:
    app.conf.redisbeater_notify = {"ops": "json://127.0.0.1"}

    assert "untold" in run("lint").output
    assert run("list").exit_code == 0
    assert "Apprise is not installed" in run("notify", "--test").output


def test_lint_finds_receivers_that_cannot_be_told_and_entries_that_name_none(app: Celery, run: Run) -> None:
    app.conf.redisbeater_notify = {"ops": "json://127.0.0.1", "night": "nonsense://x"}
    RedisScheduleEntry("feed", "proj.work", 3600, app=app, notify="op").save()

    found = json.loads(run("lint", "--json").output)
    texts = {each["rule"]: each["text"] for each in found}

    assert texts["untold"] == "night, nonsense://***: Apprise does not know this URL, or it lacks something"
    assert texts["unknown-receiver"] == "notify op: redisbeater_notify lacks it, ops is told"


def test_a_url_that_hides_a_password_is_refused_without_it(app: Celery) -> None:
    for value in (
        "json://pass-word",
        {"ops": ["no url pass-word"]},
        {"a b": "json://x"},
        {"none": "json://x"},
        {"ops": []},
    ):
        app.conf.redisbeater_notify = value
        with pytest.raises(ImproperlyConfigured, match="redisbeater_notify") as found:
            ScheduleStore(app).status()
        assert "pass-word" not in str(found.value)


@pytest.mark.parametrize("name", ["", "a b", "x" * 61, 5])
def test_an_entry_names_receivers_as_settings_do(app: Celery, name: Any) -> None:
    with pytest.raises(InvalidEntry, match="notify"):
        RedisScheduleEntry("feed", "proj.work", 3600, app=app, notify=name).save()


# The processes


def test_a_process_that_hangs_is_killed_and_the_others_have_sent_by_then(service: Service) -> None:
    message = Message(title="title", text="text", is_good=False)
    with serving("drips") as other:
        delivery = Delivery([Letter("drips", other.url, message), Letter("takes", service.url, message)], 20.0)
        wait_until(lambda: service.told and other.told, "both to be asked")
        assert not delivery.is_done
        delivery.wait()

    assert [(each.receiver, each.problem) for each in delivery.answers] == [
        ("drips", "no answer within 20 s"),
        ("takes", ""),
    ]


def test_more_letters_than_processes_are_all_sent(service: Service) -> None:
    message = Message(title="title", text="text", is_good=False)
    delivery = Delivery([Letter(str(number), service.url, message) for number in range(MOST_PROCESSES + 2)])
    delivery.wait()

    assert [each.problem for each in delivery.answers] == [""] * (MOST_PROCESSES + 2)
    assert len(service.told) == MOST_PROCESSES + 2


def test_a_cancelled_delivery_ends_at_once() -> None:
    message = Message(title="title", text="text", is_good=False)
    with serving("drips") as service:
        delivery = Delivery([Letter(str(number), service.url, message) for number in range(MOST_PROCESSES + 2)])
        wait_until(lambda: service.told, "a request")
        delivery.cancel()
        delivery.wait()

    assert all(each.problem for each in delivery.answers)


def test_a_program_that_cannot_be_started_is_a_problem_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    delivery = Delivery([Letter("ops", "json://127.0.0.1")])
    delivery.wait()

    assert "no process can be started that sends messages" in delivery.answers[0].problem
