"""The options that beat adds to ``broker_transport_options``, and those that it keeps; when the broker is back."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from redisbeater.broker.broker import Broker
from redisbeater.broker.connection import connection_of


@pytest.mark.parametrize(
    ("url", "option", "ours"),
    [
        pytest.param("redis://cache/0", "socket_timeout", 5, id="redis"),
        pytest.param("redis://cache/0", "socket_keepalive", True, id="redis-keepalive"),
        pytest.param("redis://cache/0;redis://other/0", "socket_timeout", 2.5, id="redis-one-of-two"),
        pytest.param("sentinel://a;sentinel://b", "socket_timeout", 5 / 3, id="sentinels-and-master"),
        pytest.param("amqp://rabbit", "confirm_publish", True, id="rabbitmq"),
    ],
)
def test_an_option_of_the_user_takes_precedence_over_the_one_of_beat(url: str, option: str, ours: Any) -> None:
    app = Celery("proj", broker=url, set_as_current=False)
    assert connection_of(app, 5.0).transport_options[option] == ours

    app.conf.broker_transport_options = {option: "theirs"}

    assert connection_of(app, 5.0).transport_options[option] == "theirs"


def test_options_for_the_sentinels_are_added_to_those_of_the_user() -> None:
    app = Celery("proj", broker="sentinel://a", set_as_current=False)
    app.conf.broker_transport_options = {"sentinel_kwargs": {"password": "secret", "socket_timeout": 9}}

    options = connection_of(app, 5.0).transport_options["sentinel_kwargs"]

    assert options == {
        "password": "secret",
        "socket_timeout": 9,
        "socket_connect_timeout": 2.5,
        "socket_keepalive": True,
        "retry": None,
    }


def test_other_transports_get_no_options() -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.broker_transport_options = {"polling_interval": 1}

    assert connection_of(app, 5.0).transport_options == {"polling_interval": 1}


def test_rabbitmq_is_not_asked_for_heartbeats_which_beat_would_not_send() -> None:
    app = Celery("proj", broker="amqp://rabbit", set_as_current=False)
    app.conf.broker_transport_options = {"heartbeat": 10}

    assert connection_of(app, 5.0).transport_options["heartbeat"] == 0


@pytest.mark.parametrize(
    ("broker_connection_timeout", "expected"),
    [
        pytest.param(4, 4, id="the-shorter-one"),
        pytest.param(60, 5, id="no-longer-than-ours"),
        pytest.param(None, 5, id="unset"),
    ],
)
def test_the_time_out_of_connecting_is_at_most_the_one_of_a_send(
    broker_connection_timeout: float | None, expected: float
) -> None:
    app = Celery("proj", broker="amqp://rabbit", set_as_current=False)
    app.conf.broker_connection_timeout = broker_connection_timeout

    assert connection_of(app, 5.0).connect_timeout == expected


def test_a_broker_that_something_else_has_reached_is_available_again() -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    returned: list[str] = []
    broker = Broker(app, 5.0, app.amqp.Producer, lambda _seconds, reason: returned.append(reason))
    broker.mark_unavailable(ConnectionError("refused"))
    assert broker.is_unavailable

    assert broker.producer is not None

    assert (broker.is_ready(), broker.is_unavailable, returned) == (True, False, ["refused"])
    broker.close()
