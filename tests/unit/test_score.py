from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import utc

from redisbeater.model.meta import FINISHED
from redisbeater.results import Score
from redisbeater.times import EPOCH, FAR_FUTURE

instants = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(timezone.utc))


@given(fire_time=instants, dormant=st.booleans())
def test_a_score_comes_back_to_the_microsecond(fire_time: datetime, dormant: bool) -> None:
    score = Score(fire_time=fire_time, dormant=dormant)

    assert Score.from_text(score.to_text()) == score


@given(fire_time=instants, dormant=st.booleans())
def test_a_score_survives_the_double_that_redis_keeps(fire_time: datetime, dormant: bool) -> None:
    score = Score(fire_time=fire_time, dormant=dormant)

    assert Score.from_text(f"{float(score.to_text()):.17g}") == score


@pytest.mark.parametrize(
    ("score", "text"),
    [
        pytest.param(Score(fire_time=utc("2026-01-01")), "1767225600.000000", id="planned"),
        pytest.param(Score(fire_time=utc("2026-01-01"), dormant=True), "-1767225600.000000", id="dormant"),
        pytest.param(Score(fire_time=None, dormant=True), "-1", id="finished"),
        pytest.param(Score(fire_time=EPOCH), "0.000001", id="epoch-is-not-now"),
    ],
)
def test_a_score_as_it_is_stored(score: Score, text: str) -> None:
    assert score.to_text() == text


@pytest.mark.parametrize(
    ("text", "score"),
    [
        pytest.param("0", Score(fire_time=EPOCH), id="zero"),
        pytest.param("1767225600", Score(fire_time=utc("2026-01-01")), id="whole-seconds-of-redbeat"),
        pytest.param("-1", Score(fire_time=None, dormant=True), id="finished-as-redbeat-writes-it"),
        pytest.param("-1767225600.5", Score(fire_time=utc("2026-01-01 00:00:00.5"), dormant=True), id="dormant"),
        pytest.param("inf", Score(fire_time=FAR_FUTURE), id="infinite"),
        pytest.param("-inf", Score(fire_time=FAR_FUTURE, dormant=True), id="minus-infinite-is-dormant"),
    ],
)
def test_a_stored_score_is_read(text: str, score: Score) -> None:
    assert Score.from_text(text) == score


@pytest.mark.parametrize(
    ("fire_time", "enabled", "dormant"),
    [
        pytest.param(utc("2026-01-01"), True, False, id="enabled"),
        pytest.param(utc("2026-01-01"), False, True, id="disabled"),
        pytest.param(None, True, True, id="finished"),
        pytest.param(None, False, True, id="finished-and-disabled"),
    ],
)
def test_a_score_is_dormant_without_a_fire_time_to_come(
    fire_time: datetime | None, enabled: bool, dormant: bool
) -> None:
    assert Score.planned(fire_time, enabled=enabled) == Score(fire_time=fire_time, dormant=dormant)


def test_an_entry_that_is_looked_at_later_has_that_score() -> None:
    deferred = Score(fire_time=utc("2026-01-01"), look_at=utc("2026-01-01 00:10"))

    assert deferred.to_text() == "1767226200.000000"


@pytest.mark.parametrize(
    ("score", "is_finished"),
    [
        pytest.param(Score(fire_time=utc("2026-01-01")), False, id="planned"),
        pytest.param(Score(fire_time=utc("2026-01-01"), dormant=True), False, id="disabled"),
        pytest.param(Score.planned(None), True, id="nothing-planned"),
        pytest.param(Score.from_text("-1"), True, id="stored"),
        pytest.param(FINISHED, True, id="finished"),
    ],
)
def test_an_entry_has_finished_when_no_fire_time_is_left(score: Score, is_finished: bool) -> None:
    assert score.is_finished is is_finished
