import gzip
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest

from redisbeater.dashboard import pictures
from redisbeater.dashboard.pictures import (
    CHART_HIGHEST,
    CHART_LOWEST,
    FULL,
    LOW,
    TALLEST,
    Axis,
    cause_line,
    history_bars,
    lane,
    moved_minutes,
    quarters_of,
    run_chart,
    seven_days,
    steps,
    timeline,
    two_weeks,
)
from redisbeater.management.moved import Moved
from redisbeater.management.why.before import Before, Event
from redisbeater.model.run import STATES, Run, Tone
from redisbeater.results import Band, RunBrief, Simulation, State

UTC, VIENNA = timezone.utc, ZoneInfo("Europe/Vienna")
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def run(minutes, state=State.SUCCESS, took=1.0):
    sent = NOON - timedelta(minutes=minutes)
    return RunBrief(f"run-{minutes}", state, sent, took)


def drawn(start, per_moment, zone=UTC, minutes=None, **more):
    """Return the timeline of a simulation, in a zone."""
    per_second = {int(moment.timestamp()): runs for moment, runs in per_moment.items()}
    begin = start.replace(minute=start.minute // 15 * 15, second=0, microsecond=0)
    end = begin + timedelta(hours=24 if minutes is None else 18)
    found = Simulation(start=start, end=end, zone=UTC, entries=1, per_second=per_second, **more)
    return timeline(quarters_of(found, minutes), zone)


def heights(marks):
    return [sum(height for _, _, height, _, _ in mark.shapes) for mark in marks]


def test_bars_begin_at_the_left_with_the_oldest_run():
    paths = dict(history_bars([run(0), run(1, State.FAILURE), run(2)], UTC).paths)
    assert {tone: re.findall(r"M(\d+) ", path) for tone, path in paths.items()} == {"good": ["0", "8"], "bad": ["4"]}


def test_each_tone_of_a_state_has_a_colour_in_words_and_bars():
    style = Path(pictures.__file__).with_name("static").joinpath("page.css").read_text()
    assert [tone for tone in get_args(Tone) if f"rect.{tone}{{fill" not in style and f"rect.{tone}," not in style] == []
    assert {facts.tone for facts in STATES.values()} == set(get_args(Tone))
    words = "".join(re.findall(r"([^}]*)\{color:var", style))
    assert [tone for tone in get_args(Tone) if not re.search(rf"\.{tone}\b", words)] == []


def test_at_most_thirty_bars_are_drawn():
    ((_, path),) = history_bars([run(minutes) for minutes in range(40)], UTC).paths
    assert path.count("M") == 30


def test_a_run_that_failed_is_higher_than_one_that_went_well_however_long_both_took():
    paths = dict(history_bars([run(0, took=3600), run(1, State.FAILURE, took=0.001)], UTC).paths)
    assert paths == {"good": f"M4 {FULL - LOW}h3v{LOW}h-3z", "bad": f"M0 0h3v{FULL}h-3z"}


def test_a_run_that_waits_is_an_outline():
    assert dict(history_bars([run(0, State.SENT), run(1, State.RETRY)], UTC).paths).keys() == {"waits"}


def test_a_column_of_the_chart_is_as_high_as_its_run_took_on_a_logarithmic_scale():
    chart = run_chart([run(0, took=s) for s in (0.1, 1, 10)], timedelta(seconds=1), timedelta(seconds=10), VIENNA)
    assert [mark.shapes[0][2] for mark in chart.marks] == [
        CHART_HIGHEST,
        (CHART_HIGHEST + CHART_LOWEST) / 2,
        CHART_LOWEST,
    ]
    assert [text for _, text in chart.lines] == ["1.0 s", "10.0 s"]
    assert chart.key == "the lines are the median and what 95 % take at most"
    assert chart.marks[0].title == "Fri 20 Nov 2026 13:00:00 SUCCESS in 10.0 s"
    assert chart.marks[0].link == "/run?id=run-0"


def test_a_failure_in_the_chart_stands_before_a_pale_column_of_full_height():
    chart = run_chart([run(0, State.FAILURE, took=0.001), run(1, took=10)], None, None, UTC)
    assert [(tone, height) for tone, _, height, *_ in chart.marks[1].shapes] == [
        ("pale", CHART_HIGHEST), ("bad", CHART_LOWEST),
    ]  # fmt: skip


def test_a_chart_without_a_median_says_what_the_longest_took():
    failed = run_chart([run(0, State.FAILURE, took=0.001), run(1, State.FAILURE, took=10)], None, None, UTC)
    assert (failed.lines, failed.key) == ([(CHART_HIGHEST, "10.0 s")], "the line is the longest")
    one = run_chart([run(0, took=1)], timedelta(seconds=1), timedelta(seconds=1), UTC)
    assert ([text for _, text in one.lines], one.key) == (["1.0 s"], "the line is the median")


def test_a_chart_of_runs_that_have_not_begun_is_drawn():
    chart = run_chart([run(0, State.SENT, took=None)], None, None, UTC)
    assert [shape[0] for shape in chart.marks[0].shapes] == ["busy"]
    assert (chart.lines, chart.key) == ([], "")


def a_run(**fields):
    return Run(
        id="1",
        name="report",
        state=State.FAILURE,
        **{each: NOON + timedelta(seconds=at) for each, at in fields.items()},
    )


def test_the_moments_of_a_run_share_its_bar_by_their_spans():
    found = steps(a_run(fire_time=0, sent_at=1, started_at=2, finished_at=10), NOON)
    assert [(step.word, step.span and step.span.total_seconds()) for step in found] == [
        ("due", None), ("sent", 1), ("started", 1), ("ended", 8),
    ]  # fmt: skip
    assert [(step.x, step.width) for step in found[1:]] == [(0, 10), (10, 10), (20, 80)]
    assert found[-1].tone == "bad"


def test_moments_that_nobody_has_recorded_are_left_out_and_none_runs_backwards():
    assert [step.word for step in steps(a_run(finished_at=1), NOON)] == ["ended"]
    back = steps(a_run(sent_at=5, started_at=4, finished_at=6), NOON)
    assert [None if step.span is None else step.span.total_seconds() for step in back] == [None, 0, 1]
    assert steps(a_run(), NOON) == []


def test_a_line_of_what_came_before_has_no_labels_that_touch_and_hides_what_is_outside():
    at = [NOON - timedelta(hours=hours) for hours in (30, 20, 19.9, 4)]
    events = [Event("change", each, each, "changed by anna", "changed") for each in at]
    events.append(Event("pause", at[0], NOON - timedelta(hours=12), "paused", "paused"))
    events.sort(key=lambda event: event.begin, reverse=True)
    found = Before(events=events, since=NOON - timedelta(hours=2), near=(), together=(), known_from=None)
    axis = Axis(NOON - timedelta(hours=24), NOON, NOON, UTC)
    line = cause_line("report", found, [run(60, State.FAILURE)], axis, "3x")
    assert [text for _, text, _ in line.labels] == ["paused", "changed by anna", "changed by anna"]
    assert [is_before for *_, is_before in line.labels] == [False, False, True], "the last one has no room behind it"
    assert [place for place, *_ in line.labels] == [0, 17.08, 83.33]
    assert [(mark.x, round(mark.width)) for mark in line.grounds] == [(0, 50)]
    assert len(line.marks) == 3 + 1 + 1, "changes, the failures in a row, a run"
    assert line.fails == ("failed 3x", pytest.approx(91.67, abs=0.01))


def test_seven_days_have_a_column_for_each_hour_with_what_failed_at_its_foot():
    ago = NOON - timedelta(hours=1)
    hours = {ago: {State.SUCCESS: 30, State.LOST: 10}, NOON - timedelta(days=8): {State.FAILURE: 5}}
    week = seven_days(hours, NOON, VIENNA)
    assert week.words == "40 runs in 7 days, 10 failed"
    assert dict(week.paths) == {"bad": "M166 30h.8v10h-.8z", "good": "M166 0h.8v30h-.8z"}
    assert [text for _, text in week.axis.labels] == [
        f"{day} {14 + place}" for place, day in enumerate(["Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"])
    ]


def test_a_picture_of_seven_days_is_small():
    hours = {
        NOON - timedelta(hours=place): {State.SUCCESS: 200 + place * 37 % 91, State.FAILURE: place * 53 % 17}
        for place in range(168)
    }
    drawn = "".join(f'<path class="{tone}" d="{path}"></path>' for tone, path in seven_days(hours, NOON, UTC).paths)
    assert len(gzip.compress(drawn.encode())) < 1_500


def test_what_a_change_moves_is_drawn_on_one_scale():
    first = int(NOON.timestamp())
    found = Moved(NOON, NOON + timedelta(days=1), 24, 0, 0, {first: 40}, {first: 20, first + 900: 20})
    drawn = moved_minutes(found, VIENNA)
    assert [[tall for _, _, _, tall, _ in row] for row in drawn.rows] == [[40], [20, 20]]
    assert drawn.said[0] == "Now: at most 40 runs in a minute, at 13:00"


def test_bars_say_the_same_as_a_sentence():
    runs = [run(0), run(60, State.FAILURE), run(120, State.LOST), run(180)]
    assert history_bars(runs, UTC).words == "2 of 4 succeeded, last FAILURE Fri 11:00"
    assert history_bars([run(0)], UTC).words == "1 of 1 succeeded"
    assert history_bars([], UTC).words == "no runs recorded"


def test_a_part_of_the_timeline_is_a_quarter_of_an_hour_and_a_link_with_an_end():
    parts = drawn(NOON, {NOON + timedelta(minutes=17): 1, NOON + timedelta(minutes=29): 3}, VIENNA).marks
    assert len(parts) == 96
    assert parts[1].title == "Fri 13:15 to 13:30: 4 runs, at most 3 in a minute, at 13:29"
    assert parts[1].link == "/upcoming?at=2026-11-20T12:15:00%2B00:00&within=900s"
    assert parts[2].title == "Fri 13:30 to 13:45: 0 runs"


def test_the_height_of_a_part_is_that_of_its_busiest_minute():
    runs = {NOON + number * timedelta(minutes=1): 1384 for number in range(1440)}
    runs[NOON + timedelta(hours=15)] = 2768
    found = heights(drawn(NOON, runs).marks)
    assert (found[60], {*found[:60], *found[61:]}) == (TALLEST, {TALLEST / 2}), "twice as many in one minute are seen"


def test_what_failed_stands_at_the_foot_of_what_has_run():
    minutes = {NOON - timedelta(minutes=15): {State.SUCCESS: 30, State.LOST: 10}, NOON - timedelta(minutes=10): {}}
    part = drawn(NOON, {NOON + timedelta(hours=1): 8}, minutes=minutes).marks[23]
    assert [tone for tone, *_ in part.shapes] == ["bad", "good"]
    assert [height for _, _, height, *_ in part.shapes] == [TALLEST / 4, TALLEST * 3 / 4], (
        "40 in 5 minutes are 8 a minute"
    )
    assert part.title == "Fri 11:45 to 12:00: 40 runs ended, 10 failed"
    assert part.link == "/history?since=2026-11-20T11:45:00%2B00:00&before=2026-11-20T12:00:00%2B00:00"


def test_the_quarter_of_an_hour_of_now_is_two_parts():
    now = NOON + timedelta(minutes=5)
    found = drawn(now, {now + timedelta(minutes=1): 1}, minutes={NOON: {State.SUCCESS: 5}})
    assert [mark.title for mark in found.marks[24:26]] == [
        "Fri 12:00 to 12:05: 5 runs ended",
        "Fri 12:05 to 12:15: 1 run",
    ]
    assert found.marks[24].x + found.marks[24].width == pytest.approx(found.marks[25].x)
    assert found.axis.now == pytest.approx(found.marks[25].x, abs=0.01)
    assert len(found.marks) == 97


def test_the_timeline_names_what_failed_and_its_busiest_minute_with_links():
    minutes = {NOON - timedelta(hours=6): {State.SUCCESS: 900, State.FAILURE: 1}}
    found = drawn(NOON, {NOON: 412}, minutes=minutes, peak={"report*": 400, "mail": 12})
    assert found.words == (
        "Last 6 hours: 901 runs, 1 failed. Next 18 hours: 412 runs. Busiest minute 12:00: 412 runs, 400 of report*."
    )
    assert found.failed[1].endswith("&since=2026-11-20T06:00:00%2B00:00")
    assert found.peak == ("12:00 · 412/min", 25.0, "/upcoming?at=2026-11-20T12:00:00%2B00:00&within=60s")
    assert [tone for mark in found.marks for tone, *_ in mark.shapes] == ["bad", "good", "busy"]


def test_the_timeline_says_that_the_past_is_not_recorded():
    assert drawn(NOON, {}).words == "What has run is not recorded. Next 24 hours: 0 runs."


def test_the_timeline_says_that_it_counted_no_further():
    assert "Next 24 hours: at least 1 run." in drawn(NOON, {NOON: 1}, is_at_least=True).words


def test_hours_are_named_where_they_begin_and_a_change_of_the_clocks_is_marked():
    before = datetime(2026, 10, 24, 22, 0, tzinfo=UTC)
    found = drawn(before, {before + timedelta(hours=3): 1}, VIENNA)
    assert found.axis.changes == [12.5], "at 01:00 UTC the clocks go back, three hours later"
    assert [text for _, text in found.axis.labels][:4] == ["Sun 25", "02:00", "02:00", "04:00"]
    assert found.axis.labels[3][0] == pytest.approx(100 * 5 / 24, abs=0.01)
    assert found.marks[12].title == "Sun 02:00 to 02:15: 1 run"


AXIS = Axis(NOON - timedelta(hours=6), NOON + timedelta(hours=18), NOON, VIENNA)


def ticks(*moments):
    return [int(moment.timestamp()) for moment in moments]


def test_a_lane_draws_runs_with_their_length_and_what_comes_as_ticks():
    ended = NOON - timedelta(hours=3)
    past = RunBrief("b", State.FAILURE, ended, 1800.0, ended, ended + timedelta(hours=1), ended + timedelta(minutes=30))
    running = RunBrief("c", State.STARTED, NOON, 5.0, NOON, None, NOON - timedelta(minutes=30))
    due = ticks(NOON + timedelta(hours=6), NOON + timedelta(hours=12))
    found = lane(Band("report", 2, due[0]), due, [running, past], AXIS)
    hour = 100 / 24
    assert [(mark.shapes[0][0], round(mark.x / hour, 3), round(mark.width / hour, 3)) for mark in found.marks] == [
        ("bad", 3.5, 0.5), ("busy", 5.5, 0.5), ("busy", 12, 0.048), ("busy", 18, 0.048),
    ]  # fmt: skip
    assert [mark.link for mark in found.marks[1:3]] == [
        "/run?id=c",
        "/upcoming?at=2026-11-20T18:00:00%2B00:00&within=1s",
    ]
    assert found.marks[2].title == "Fri 19:00, to come"
    assert found.words == "0 of 2 succeeded, last FAILURE Fri 10:00, 2 runs to come, next Fri 19:00"
    assert (found.runs, found.next) == (2, NOON + timedelta(hours=6))


def test_runs_that_lie_close_together_are_one_bar_in_a_lane():
    every_minute = [NOON + timedelta(minutes=number) for number in range(60)]
    due = ticks(*every_minute, NOON + timedelta(hours=10))
    (mark,) = lane(Band("a", 61, due[0]), due, [], AXIS).marks
    assert [(tone, round(x, 1), round(width, 1)) for tone, _, _, x, width in mark.shapes] == [
        ("coming", 25.0, 4.1),
        ("busy", 66.7, 0.2),
    ]
    assert (mark.title, mark.link) == ("61 runs until Sat 07:00", "/upcoming?name=a")


def test_a_lane_of_very_many_runs_is_one_bar_to_its_end(monkeypatch):
    monkeypatch.setattr(pictures, "MOST_DUE", 3)
    due = ticks(*(NOON + timedelta(seconds=number) for number in range(3)))
    found = lane(Band("a", 64_800, due[0]), due, [], AXIS)
    assert (round(found.marks[0].shapes[0][4]), found.runs) == (75, 64_800)


def test_a_lane_says_where_the_runs_are_that_it_does_not_draw():
    runs = [run(minutes) for minutes in range(30)]
    mark = lane(Band("a b", 0, 0), [], runs, AXIS).marks[0]
    assert mark.title == "The runs before the newest 30 are in the history"
    assert mark.link == "/history?name=a%20b&before=2026-11-20T11:31:00%2B00:00"
    assert mark.width == pytest.approx(AXIS.place(NOON - timedelta(minutes=29)))
    assert len(lane(Band("a b", 0, 0), [], runs[:29], AXIS).marks) == 29


def test_what_lies_outside_of_a_lane_is_cut():
    before = NOON - timedelta(hours=7)
    old, long = (
        RunBrief("a", State.SUCCESS, before, span, before, before + timedelta(seconds=span), before)
        for span in (60.0, 7200.0)
    )
    (mark,) = lane(Band("a", 0, 0), [], [long, old], AXIS).marks
    assert (mark.x, round(mark.width, 2)) == (0.0, round(100 / 24, 2))
    assert lane(Band("a", 0, 0), [], [], AXIS).words == "0 runs to come"


def test_the_two_weeks_begin_at_the_midnight_of_the_zone():
    fire_time = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    found = two_weeks("a", [fire_time, fire_time + timedelta(days=1)], NOON, VIENNA)
    day = 100 / 14
    assert [round(mark.x / day, 3) for mark in found.lane.marks] == [1.021, 2.021]
    assert found.axis.labels[:2] == [(0.0, "Fri 20"), (7.14, "Sat 21")]
    assert found.axis.now == pytest.approx(13 / 24 * day, abs=0.01)
    assert found.words == "Fires on 2 of the next 14 days."
    assert found.lane.marks[0].title == "Sat 00:30, to come"


def test_what_lies_beyond_two_weeks_is_not_drawn():
    found = two_weeks("a", [NOON + timedelta(days=20)], NOON, UTC)
    assert (found.lane.marks, found.words) == ([], "Fires on none of the next 14 days.")


def test_the_present_is_marked_by_elapsed_hours_on_a_day_on_which_the_clocks_change():
    noon = datetime(2026, 3, 29, 12, 0, tzinfo=VIENNA)
    found = two_weeks("a", [noon], noon, VIENNA)
    eleven_hours = 100 * 11 / (24 * 14)
    assert found.axis.now == pytest.approx(eleven_hours, abs=0.01)
    assert found.lane.marks[0].x == pytest.approx(eleven_hours)
