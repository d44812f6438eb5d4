"""Open pages that ask for the same at the same time share an answer, and nobody gets one from before a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from starlette.responses import Response

from redisbeater.dashboard.site import SharedAnswers


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Made:
    """Makes answers, each with its number, once it may."""

    def __init__(self) -> None:
        self.number, self.may = 0, asyncio.Event()

    async def __call__(self) -> Response:
        """Make one."""
        self.number += 1
        number = self.number
        await self.may.wait()
        return Response(f"answer {number}", 203, {"Vary": "HX-Request"})


@in_a_loop
async def test_ten_pages_that_ask_for_the_same_share_an_answer() -> None:
    shared, make = SharedAnswers(), Made()
    asking = [asyncio.ensure_future(shared.get("key", make)) for _ in range(10)]
    make.may.set()
    answers = await asyncio.gather(*asking)
    assert {answer.body for answer in answers} == {b"answer 1"}
    assert {(answer.status_code, answer.headers["vary"]) for answer in answers} == {(203, "HX-Request")}
    assert len({id(answer) for answer in answers}) == 10, "what is put into the head of one is not in that of another"


@in_a_loop
async def test_another_key_is_another_answer_and_so_is_one_after_a_change() -> None:
    shared, make = SharedAnswers(), Made()
    make.may.set()
    bodies = [(await shared.get(key, make)).body for key in ("a", "b", "a")]
    shared.expire()
    bodies.append((await shared.get("a", make)).body)
    assert bodies == [b"answer 1", b"answer 2", b"answer 1", b"answer 3"]


@in_a_loop
async def test_others_get_the_answer_though_who_asked_first_hangs_up() -> None:
    shared, make = SharedAnswers(), Made()
    first, second = (asyncio.ensure_future(shared.get("a", make)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    make.may.set()
    assert (await second).body == b"answer 1"
    with pytest.raises(asyncio.CancelledError):
        await first
