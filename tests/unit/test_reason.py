"""What is said of an error: its text, and the reason that another library has left behind it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery import Celery
from click.testing import CliRunner

from redisbeater.cli import redisbeater
from redisbeater.exceptions import reason_of


def raised(text: str, cause: BaseException | None) -> Exception:
    """Return an error that was raised from another one."""
    try:
        raise RuntimeError(text) from cause
    except RuntimeError as exc:
        return exc


REFUSED = ConnectionError("Error 111 connecting to localhost:6380. Connection refused.")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(raised("no queue", None), "no queue", id="no-cause"),
        pytest.param(raised("the batch failed", REFUSED), f"the batch failed: {REFUSED}", id="the-cause"),
        pytest.param(
            raised("the batch failed", raised("the batch failed", REFUSED)), f"the batch failed: {REFUSED}", id="again"
        ),
        pytest.param(raised(f"no broker: {REFUSED}", REFUSED), f"no broker: {REFUSED}", id="it-has-the-text"),
        pytest.param(raised("the batch failed", TimeoutError()), "the batch failed", id="a-cause-without-text"),
    ],
)
def test_the_reason_is_in_the_text(error: Exception, expected: str) -> None:
    assert reason_of(error) == expected


def test_an_error_that_was_handled_meanwhile_is_no_reason() -> None:
    try:
        raise REFUSED
    except ConnectionError:
        try:
            raise RuntimeError("no queue")
        except RuntimeError as exc:
            error = exc

    assert (error.__context__, reason_of(error)) == (REFUSED, "no queue")


def test_errors_that_are_each_others_cause_end() -> None:
    error = raised("no queue", REFUSED)
    REFUSED.__cause__ = error
    try:
        assert reason_of(error) == f"no queue: {REFUSED}"
        assert reason_of(raised("no queue", error)) == f"no queue: {REFUSED}"
    finally:
        REFUSED.__cause__ = None


def test_a_redis_that_cannot_be_reached_is_named_with_its_setting() -> None:
    app = Celery("proj", set_as_current=False)
    app.conf.update(redisbeater_redis_url="redis://:secret@127.0.0.1:1/5", redisbeater_retry_period=0)

    result = CliRunner().invoke(redisbeater, ["list"], obj=SimpleNamespace(app=app))

    assert (result.exit_code, "secret" in result.output, result.output.count("\n")) == (1, False, 1)
    assert result.output.startswith("Error: ConnectionError: ")
    assert "redis://127.0.0.1:1/5, by redisbeater_redis_url, else broker_url" in result.output
