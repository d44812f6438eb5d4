"""The dead man's switch, against a service on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from celery import Celery
from support.ping_service import Service, served
from support.ports import dead_port
from support.waiting import wait_until

from redisbeater.config.settings import Config
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.observe.server import Ping, Verdict

GOOD = Verdict(problems={}, checks=("late",), facts="nothing late")
BAD = Verdict(problems={"late": "3 entries late"}, checks=("late",), facts="")


@pytest.fixture
def service() -> Iterator[Service]:
    with served() as service:
        yield service


class Schedule:
    """What the switch asks for: whether this beat leads, and the verdict."""

    def __init__(self, url: str, interval: float = 60.0) -> None:
        self.leads, self.verdict = True, GOOD
        self.ping = Ping(url, interval, lambda: self.leads, lambda: self.verdict)


def test_a_healthy_schedule_asks_each_time(service: Service) -> None:
    schedule = Schedule(service.url)
    schedule.ping.step()
    schedule.ping.step()

    assert service.asked == [("GET", "/ping/secret", "")] * 2


def test_a_schedule_that_turns_unhealthy_says_why_once_and_is_silent_until_it_is_healthy(service: Service) -> None:
    schedule = Schedule(service.url)
    for verdict in (GOOD, BAD, BAD, BAD, GOOD, BAD):
        schedule.verdict = verdict
        schedule.ping.step()

    failure = ("POST", "/ping/secret/fail", "unhealthy: 3 entries late")
    assert service.asked == [("GET", "/ping/secret", ""), failure, ("GET", "/ping/secret", ""), failure]


def test_a_beat_that_does_not_lead_asks_nothing(service: Service) -> None:
    schedule = Schedule(service.url)
    schedule.leads = False
    for schedule.verdict in (GOOD, BAD):
        schedule.ping.step()

    assert service.asked == []


def test_a_failure_that_was_not_heard_is_reported_again(service: Service) -> None:
    schedule = Schedule(service.url)
    schedule.verdict, service.status = BAD, 500
    schedule.ping.step()
    service.status = 200
    schedule.ping.step()
    schedule.ping.step()

    assert [path for _, path, _ in service.asked] == ["/ping/secret/fail"] * 2


def test_fail_goes_before_the_query_of_a_url(service: Service) -> None:
    schedule = Schedule(f"{service.url}?status=up")
    schedule.verdict = BAD
    schedule.ping.step()

    assert service.asked[0][:2] == ("POST", "/ping/secret/fail?status=up")


def test_a_redirect_is_not_followed(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.status, service.location = 302, "/elsewhere"
    Schedule(service.url).ping.step()

    assert [path for _, path, _ in service.asked] == ["/ping/secret"]
    assert "does not answer: HTTPError: HTTP Error 302" in caplog.text


def test_a_service_that_is_away_is_logged_once_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    schedule = Schedule(f"http://127.0.0.1:{dead_port()}/ping/secret")
    schedule.ping.step()
    schedule.ping.step()

    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("redisbeater_ping_url at 127.0.0.1 does not answer: URLError")
    assert "secret" not in line


def test_it_asks_at_its_interval_from_a_thread_until_it_ends(service: Service) -> None:
    schedule = Schedule(service.url, interval=0.02)
    schedule.ping.start()
    wait_until(lambda: len(service.asked) > 2, "three requests")
    schedule.ping.end()

    def is_gone() -> bool:
        return "redisbeater-ping" not in {thread.name for thread in threading.enumerate()}

    assert wait_until(is_gone, "the thread to end")


# Settings


def config(**settings: object) -> Config:
    app = Celery(set_as_current=False)
    app.conf.update(redisbeater_redis_url="redis://localhost/1", **settings)
    return Config.from_app(app)


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "host/x", "file:///etc/passwd", "http://", "https:///x", "http://a b/", 1]
)
def test_only_urls_of_the_web_are_accepted_and_none_is_shown(url: object) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^redisbeater_ping_url = .*: expected a URL of http") as caught:
        config(redisbeater_ping_url=url)

    assert str(url) not in str(caught.value).replace("redisbeater_ping_url = <class 'int'>", "")


def test_the_url_is_a_secret_for_reports() -> None:
    settings = config(redisbeater_ping_url="https://hc-ping.com/1234-secret")

    assert settings.ping_url == "https://hc-ping.com/1234-secret"
    assert "1234-secret" not in repr(settings)
