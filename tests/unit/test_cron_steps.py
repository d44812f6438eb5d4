"""Steps of a crontab that mean something else than they say: above the range of their field, or uneven."""

from __future__ import annotations

import pytest
from celery.schedules import crontab, schedule

from redisbeater import cron
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.cron_steps import refuse_steps_above_range, steps_of


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "*/90 * * * *",
            "$.schedule.minute: the step of '*/90' is above its range of 60, so it is only minute 0 of each hour in "
            '">*/90< * * * *"; for every 90 minutes write every 90m, in Python timedelta(minutes=90); '
            "write 0 if that is meant",
        ),
        ("0 */36 * * *", "so it is only hour 0 of each day in "),
        ("0 */36 * * *", "; for every 36 hours write every 36h, in Python timedelta(hours=36); write 0 "),
        ("0 0 */40 * *", "; for every 40 days write rrule FREQ=DAILY;INTERVAL=40; write 1 if that is meant"),
        ("0 0 1 */13 *", "only January of each year"),
        ("0 0 1 */13 *", "; for every 13 months write rrule FREQ=MONTHLY;INTERVAL=13; write 1 "),
        ("0 0 * * */8", "above its range of 7, so it is only Sunday of each week"),
        ("0 0 * * 0-7/8", "above its range of 7, so it is only Sunday of each week"),
        ("0 0 * * mon-fri/6", "above its range of 5, so it is only Monday of each week"),
        ("*/75 * * * * *", "$.schedule.second: the step of '*/75' is above its range of 60"),
        (
            "0-10/20 * * * *",
            'above its range of 11, so it is only minute 0 of each hour in ">0-10/20< * * * *"; write 0 if',
        ),
        ("0 22-2/6 * * *", "above its range of 5, so it is only hour 22 of each day"),
        ("5,*/61 * * * *", "the step of '*/61' is above"),
        ("H */25 * * *", "the step of '*/25' is above"),
    ],
)
def test_a_step_above_its_range_is_refused_with_what_it_means_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InvalidEntry) as error:
        refuse_steps_above_range(cron(text))

    assert message in str(error.value)


@pytest.mark.parametrize("field", ["minute", "hour", "day_of_month", "month_of_year", "day_of_week"])
def test_a_step_above_the_range_of_a_crontab_names_its_field(field: str) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.schedule\.{field}: the step of '\*/99' is above its range"):
        refuse_steps_above_range(crontab(**{field: "*/99"}))


@pytest.mark.parametrize(
    "text",
    [
        "*/60 * * * *", "0 */24 * * *", "0 0 */31 * *", "0 0 1 */12 *", "0 0 * * */7", "0-10/11 * * * *",
        "*/45 * * * *", "0 9-17/2 * * mon-fri/2", "H/60 H(0-5)/6 * * *", "0 0 L * *", "50-10/20 * * * *",
        "0 0 * * 1-7/7",
    ],
)  # fmt: skip
def test_a_step_within_its_range_is_accepted(text: str) -> None:
    refuse_steps_above_range(cron(text))

    assert not any(step.is_above_range for step in steps_of(cron(text)))


def test_only_crontabs_have_steps() -> None:
    assert steps_of(schedule(90)) == ()
    assert steps_of(crontab(minute=[0, 30], hour=3)) == ()


@pytest.mark.parametrize(
    ("text", "gaps"),
    [
        ("*/45 * * * *", "45 minutes apart, but 15 minutes at the end of each hour"),
        ("*/59 * * * *", "59 minutes apart, but 1 minute at the end of each hour"),
        ("0 */5 * * *", "5 hours apart, but 4 hours at the end of each day"),
        ("*/7 * * * * *", "7 seconds apart, but 4 seconds at the end of each minute"),
        ("0 0 */2 * *", "2 days apart, and starts anew on day 1 of each month"),
        ("0 0 1 */5 *", "5 months apart, but 2 months at the end of each year"),
        ("0 0 * * */2", "2 days apart, but 1 day at the end of each week"),
        ("0 0-23/5 * * *", "5 hours apart, but 4 hours at the end of each day"),
    ],
)
def test_a_step_that_does_not_divide_its_field_is_uneven(text: str, gaps: str) -> None:
    assert [step.gaps for step in steps_of(cron(text)) if step.is_uneven] == [gaps]


@pytest.mark.parametrize(
    "text", ["*/15 */6 * * *", "0 0 1 */3 *", "5-50/7 9-17/3 * * *", "*/90 * * * *", "*/1 * */31 * *"]
)
def test_a_step_that_divides_its_field_or_counts_in_a_part_of_it_is_not_uneven(text: str) -> None:
    assert not any(step.is_uneven for step in steps_of(cron(text)))
