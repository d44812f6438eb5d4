import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

from redisbeater.dashboard import pictures
from redisbeater.dashboard.pictures import (
    HIGHEST,
    LOWEST,
    band_strip,
    forecast_strip,
    history_bars,
    quarters_of,
    two_weeks,
)
from redisbeater.management.simulation import Band, Simulation
from redisbeater.model.run import STATES, RunBrief, State, Tone

UTC, VIENNA = timezone.utc, ZoneInfo("Europe/Vienna")
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def run(minutes, state=State.SUCCESS, took=1.0):
    sent = NOON - timedelta(minutes=minutes)
    return RunBrief(f"run-{minutes}", state, sent, took)


def simulation(start, per_moment, **more):
    per_second = {int(moment.timestamp()): runs for moment, runs in per_moment.items()}
    end = start + timedelta(days=1)
    return quarters_of(Simulation(start=start, end=end, zone=UTC, entries=1, per_second=per_second, **more))


def test_the_newest_run_is_the_bar_at_the_right():
    bars = history_bars([run(0), run(1, State.FAILURE), run(2)], UTC).bars
    assert [(bar.run_id, bar.tone, bar.x) for bar in bars] == [
        ("run-2", "good", 108), ("run-1", "bad", 112), ("run-0", "good", 116),
    ]  # fmt: skip


def test_each_tone_of_a_state_has_a_colour_in_words_and_bars():
    style = Path(pictures.__file__).with_name("static").joinpath("page.css").read_text()
    assert [tone for tone in get_args(Tone) if f"rect.{tone}{{fill" not in style and f"rect.{tone}," not in style] == []
    assert {facts.tone for facts in STATES.values()} == set(get_args(Tone))
    words = "".join(re.findall(r"([^}]*)\{color:var", style))
    assert [tone for tone in get_args(Tone) if not re.search(rf"\.{tone}\b", words)] == []


def test_at_most_thirty_bars_are_drawn():
    assert len(history_bars([run(minutes) for minutes in range(40)], UTC).bars) == 30


def test_the_heights_of_bars_are_durations_on_a_logarithmic_scale():
    heights = [bar.height for bar in history_bars([run(0, took=s) for s in (7200, 36, 6, 1, 0.001, None)], UTC).bars]
    assert heights[:2] == [LOWEST, LOWEST]
    assert heights == sorted(heights)
    assert heights[-1] == HIGHEST
    assert heights[4] - heights[3] < 5 < heights[5] - heights[4]


def test_a_bar_says_when_how_and_how_long_in_the_zone_of_the_page():
    (bar,) = history_bars([run(0, State.FAILURE, took=41)], VIENNA).bars
    assert bar.title == "Fri 20 Nov 2026 13:00:00 FAILURE in 41.0 s"


def test_bars_say_the_same_as_a_sentence():
    runs = [run(0), run(60, State.FAILURE), run(120, State.LOST), run(180)]
    assert history_bars(runs, UTC).words == "2 of 4 succeeded, last FAILURE Fri 11:00"
    assert history_bars([run(0)], UTC).words == "1 of 1 succeeded"
    assert history_bars([], UTC).words == "no runs recorded"


def test_a_cell_of_the_forecast_is_a_quarter_of_an_hour():
    strip = forecast_strip(simulation(NOON + timedelta(minutes=7), {NOON + timedelta(minutes=29): 3}), VIENNA)
    (cell,) = strip.cells
    assert (cell.place, cell.title) == (1, "Fri 13:15 to 13:30: 3 runs")
    assert (strip.size, strip.labels[:2]) == (96, [(0.0, "13:00"), (12.5, "16:00")])


def test_the_busiest_cell_is_the_darkest_and_a_single_run_is_still_seen():
    moments = {NOON: 1000, NOON + timedelta(hours=1): 30, NOON + timedelta(hours=2): 1}
    shades = [cell.shade for cell in forecast_strip(simulation(NOON, moments), UTC).cells]
    assert shades[0] == 5
    assert 1 < shades[1] < 5
    assert shades[2] == 1


def test_hours_are_named_where_they_begin():
    strip = forecast_strip(simulation(NOON + timedelta(minutes=20), {}), UTC)
    assert strip.labels[:2] == [(3.12, "13:00"), (15.62, "16:00")]


def test_a_day_that_is_the_same_all_along_is_of_one_calm_shade():
    runs = {NOON + number * timedelta(minutes=15): 100 + number % 3 for number in range(96)}
    assert {cell.shade for cell in forecast_strip(simulation(NOON, runs), UTC).cells} == {3}


def test_the_forecast_names_its_busiest_minute_and_whose_runs_it_has():
    words = forecast_strip(simulation(NOON, {NOON: 412}, peak={"report*": 400, "mail": 12}), UTC).words
    assert words == ("412 runs in the next 24 hours; the busiest minute is 12:00 with 412 runs, 400 of report*.")
    assert forecast_strip(simulation(NOON, {}), UTC).words == "No runs in the next 24 hours."


def test_the_forecast_says_that_it_counted_no_further():
    words = forecast_strip(simulation(NOON, {NOON: 1}, is_at_least=True), UTC).words
    assert words.startswith("At least 1 run in the next 24 hours")


def test_a_change_of_the_clocks_is_a_mark_between_two_cells():
    before = datetime(2026, 10, 24, 22, 0, tzinfo=UTC)
    strip = forecast_strip(simulation(before, {before + timedelta(hours=3): 1}), VIENNA)
    assert strip.marks == [12], "at 01:00 UTC the clocks go back, three hours later"
    assert [text for _, text in strip.labels] == [
        "00:00",
        "02:00",
        "05:00",
        "08:00",
        "11:00",
        "14:00",
        "17:00",
        "20:00",
    ]
    assert [cell.title for cell in strip.cells] == ["Sun 02:00 to 02:15: 1 run"]


def test_the_band_of_an_entry_has_hours_in_a_week_and_shows_the_days_of_rest():
    quarters = {int((NOON + timedelta(minutes=30 + number)).timestamp()): 2 for number in (0, 15, 24 * 60)}
    band = Band("report", 6, quarters)
    strip = band_strip(band, NOON + timedelta(minutes=20), 7, UTC)
    assert [(cell.place, cell.title) for cell in strip.cells] == [
        (0, "Fri 12:00 to 13:00: 4 runs"),
        (24, "Sat 12:00 to 13:00: 2 runs"),
    ]
    assert (strip.size, strip.rests, strip.words) == (168, [(12, 24), (36, 24)], "report: 6 runs")
    assert [cell.place for cell in band_strip(band, NOON, 1, UTC).cells] == [2, 3]


def test_the_two_weeks_begin_at_the_midnight_of_the_zone():
    fire_time = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    strip = two_weeks([fire_time, fire_time + timedelta(days=1)], NOON, VIENNA)
    assert [cell.place for cell in strip.cells] == [24, 48]
    assert strip.labels[:2] == [(0.0, "Fri 20"), (7.14, "Sat 21")]
    assert strip.now == 13.0
    assert strip.rests == [(24, 24), (48, 24), (192, 24), (216, 24)]
    assert strip.words == "Fires on 2 of the next 14 days."


def test_what_lies_beyond_a_strip_is_not_drawn():
    assert two_weeks([NOON + timedelta(days=20)], NOON, UTC).cells == []


def test_the_present_is_marked_by_elapsed_hours_on_a_day_on_which_the_clocks_change():
    noon = datetime(2026, 3, 29, 12, 0, tzinfo=VIENNA)
    strip = two_weeks([noon], noon, VIENNA)
    assert (strip.now, [cell.place for cell in strip.cells]) == (11, [11])
