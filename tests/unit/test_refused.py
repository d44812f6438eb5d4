"""Which of several items Redis refuses, and which refusals are no entry's fault."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

import pytest

from redisbeater.exceptions import StoreError, StoreUnavailable
from redisbeater.store.failure import NothingRecorded, refused_alone, will_pass


def behind(error: StoreError, cause: Exception) -> StoreError:
    error.__cause__ = cause
    return error


def test_only_the_items_that_are_refused_alone_are_left_out() -> None:
    written: list[int] = []

    def write(items: Sequence[int]) -> None:
        for item in items:
            if item in (3, 7):
                raise StoreError(f"refused {item}, on @user_script:12")
            written.append(item)

    refused = refused_alone(write, range(10))

    assert [item for item, _ in refused] == [3, 7]
    assert {*written} == {*range(10)} - {3, 7}


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (StoreUnavailable("ConnectionError: Connection refused"), True),
        (StoreError("OutOfMemoryError: command not allowed when used memory > 'maxmemory'. on @user_script:12"), True),
        (StoreError("ResponseError: MISCONF Redis is configured to save RDB snapshots"), True),
        (StoreError("NoPermissionError: this user has no permissions to run the 'eval' command"), True),
        (StoreError("AuthenticationError: WRONGPASS invalid username-password pair"), True),
        (behind(StoreError("ConnectionError: certificate verify failed"), ssl.SSLCertVerificationError()), True),
        (NothingRecorded(StoreError("ResponseError: The user can't run this command on @user_script:120")), True),
        (StoreError("ResponseError: The user executing the script can't run this command on @user_script:120"), False),
        (StoreError("NoPermissionError: can't run this command, on @user_script:120"), False),
        (StoreError("ResponseError: WRONGTYPE Operation against a key on @user_script:261"), False),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_concerns_everything_passes_and_is_not_one_entrys_fault(error: StoreError, passes: bool) -> None:
    assert will_pass(error) is passes
